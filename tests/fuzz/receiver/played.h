/* What the parts of the fuzz target of the receiver share.
 *
 * The target tests the packet transport of one process, rank ME. All that the transport talks to is
 * played here: the wires below it (wires.c), the layer above that posts operations (above.c), and
 * the peers that send packets (incoming.c). Every decision comes from the fuzzer's input, byte by
 * byte (script.c). One thread. */
#ifndef TUG_FUZZ_RECEIVER_PLAYED_H
#define TUG_FUZZ_RECEIVER_PLAYED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/require.h"
#include "tests/fuzz/world.h"
#include "transport/packets/packets.h"
#include "transport/packets/wire.h"
#include "transport/transport.h"

#define OPERATIONS 32u
#define PIECE TUG_READ_PIECE
#define ME 0u
#define NODE 3u /* ranks 0, 1 and 2 are a node; the others are elsewhere */
#define CANARY 0xc5

/* ---- script.c: the input ---- */

void script_begin(const uint8_t *data, size_t bytes);
bool script_is_over(void);
void script_skip(void); /* to its end */
/* The next byte; 0 behind the end. */
unsigned take(void);
uint64_t take_number(void);
/* One of the sizes around which something changes. */
uint64_t take_size(void);

/* ---- what all parts know ---- */

extern struct tug_fabric fabric;

const struct tug_stream *stream_to(uint32_t peer);

/* A peer, as both sides should see it. */
struct peer {
    bool refused; /* one side has refused the other: nothing more is exchanged */
    bool lied;    /* the peer answered something else than it was asked */
    uint32_t last_sent, last_acked, last_came; /* numbers of packets */
    struct tug_buffer *partly_sent;            /* its trailer has not gone yet */
    uint64_t uncounted;                        /* operations that only count, under way */
};
extern struct peer peers[WORLD_RANKS];

/* An operation that is under way, as this side and an honest peer know it. */
struct live {
    bool out, local_told;
    bool again; /* its completion posts another one */
    unsigned char *local;
    unsigned char *answer; /* CALL */
    uint32_t peer;
    uint64_t bytes;
    uint64_t asked, answered; /* READ: bytes */
    bool value_due;           /* FETCH, COMPARE, CALL */
};
extern struct live live[OPERATIONS];
extern struct tug_operation operations[OPERATIONS];

/* What a run has reached; it must be enough to be worth its time. */
struct reached {
    unsigned long packets, sent, refused, completed, failed, messages, kinds, trailers, placed,
        read;
};
extern struct reached reached;

/* ---- wires.c ---- */

extern struct tug_wire shm_wire, mpi_wire;
extern bool wires_full;

/* ---- above.c ---- */

void above_reset(struct tug_fabric *of);
/* Posts an operation of any kind. */
void post(void);
/* Posts some operations that only count, of one kind and to one peer. */
void post_counting(void);

/* ---- incoming.c ---- */

/* A packet comes, right or wrong. */
void receive(void);
/* A packet comes from the peer that refuses all that was left. */
void receive_refusal(uint32_t peer);

#endif
