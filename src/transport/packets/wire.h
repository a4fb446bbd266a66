/* Wires: the states of rows that carry packets, and the packets' memory.
 *
 * A *buffer* is a packet with its memory, from the pool of its wire. Sending hands it to the wire,
 * which gives it back to the pool when its bytes are on their way.
 *
 * Holder of the baton only, but for open and close.
 */
#ifndef TUG_TRANSPORT_WIRE_H
#define TUG_TRANSPORT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/packets/packet.h"
#include "transport/transport.h"

struct tug_buffer {
    struct tug_buffer *next;
    struct tug_packet packet;
    const unsigned char *trailer; /* packet.trailer bytes of the program: they follow the packet */
    struct tug_registration *served; /* their memory; NULL: an operation that is out keeps it */
    uint64_t number;                 /* the packet's number in its stream; 0: none */
    uint32_t bytes;                  /* of memory */
    uint32_t sent;       /* the shm wire's: bytes of packet and trailer that have gone */
    uint32_t of;         /* tag of the operation whose bytes follow, or TUG_NO_TAG */
    bool ends;           /* they are its last */
    bool half;           /* the mpi wire's: of packet and trailer one has gone */
    MPI_Request request; /* the mpi wire's, the packet's */
    uint64_t memory[];
};

/* The packet's last record is a long one: these bytes of the program follow the packet. */
static inline void tug_buffer_trail(struct tug_buffer *buffer, const unsigned char *data,
                                    uint32_t bytes) {
    tug_packet_trail(&buffer->packet, bytes);
    buffer->trailer = data;
}

/* Buffers of one size, and *small* ones, each for an answer that is owed: whoever takes something
 * from a peer that is to be answered has the memory of the answer first.
 *
 *      what a peer asks for           what must be there before it is taken
 *      READ, FETCH, COMPARE           a spare buffer: it is answered at once (tug_pool_ready())
 *      CALL                           a small one, until it is answered (tug_pool_owe())
 *      what may fail, or is refused   a small one, until it has been done (tug_pool_owe())
 *
 * nsmall is less than nowed only between an answer and the next tug_pool_ready() or settling of
 * what it was owed for. Small ones are the last that are taken. */
struct tug_pool {
    struct tug_buffer *spare;
    struct tug_buffer *small;
    uint32_t bytes; /* bytes of a packet */
    uint32_t keeps; /* buffers kept for later, at most; 0: as many as tug_pool_spare_most() */
    uint32_t nspare, nsmall;
    uint32_t nowed; /* answers that are owed */
    uint32_t nout;  /* buffers in use */
};

/* A packet of a small buffer: an answer to a call, whose size is the callee's word, fits. */
#define TUG_SMALL_PACKET_BYTES                                                                     \
    (sizeof(struct tug_packet_header) + sizeof(struct tug_record_head) + 8 + TUG_AM_MAX_PAYLOAD)
#define TUG_SMALL_KEPT 4u /* small buffers, at most, while nobody is owed one */

/* A buffer with an empty packet. NULL: no memory. */
struct tug_buffer *tug_pool_take(struct tug_pool *pool);
/* The same for an answer, of which one is owed: there is one. Its packet may be a small one. */
struct tug_buffer *tug_pool_take_owed(struct tug_pool *pool);

/* Are a spare buffer and all small ones that are owed there? False: no memory; what needs an answer
 * is not taken now. */
bool tug_pool_refill(struct tug_pool *pool);
static inline bool tug_pool_ready(struct tug_pool *pool) {
    return __builtin_expect(pool->spare != NULL && pool->nsmall >= pool->nowed, 1) ||
           tug_pool_refill(pool);
}

/* So many answers more are owed. False: no memory; nothing has happened. */
bool tug_pool_owe(struct tug_pool *pool, uint32_t n);
/* So many are owed no more: they have been given, or never will be. */
void tug_pool_settle(struct tug_pool *pool, uint32_t n);

/* Takes a buffer back; the memory of its trailer is no longer served by it. */
void tug_pool_give(struct tug_pool *pool, struct tug_buffer *buffer);
void tug_pool_fini(struct tug_pool *pool);
/* Moves a buffer that is in use to another pool, whose packets are not longer. */
static inline void tug_pool_pass(struct tug_pool *from, struct tug_pool *to) {
    from->nout--;
    to->nout++;
}

struct tug_endpoint;
struct tug_words;

struct tug_wire {
    const struct tug_transport *row;
    struct tug_fabric *fabric;
    struct tug_pool pool;
    /* Of a row that takes operations, the same on all: the number of ports for
     * tug_operation_port(), 0: this context's takes none; and, do the devices of all processes do
     * remote atomics, which are then atomic to each other when every atomic of the context goes by
     * this row? Both are set by `open`. */
    uint32_t ports;
    bool atomics;
    bool no_packets; /* the row was opened for operations alone; the same on all */
    /* At the last arm, every process of another node was connected to this one, and this one had
     * asked for none: hardly any of the host's messages for the row come any more. */
    bool wired;
    /* By these the node's processes acknowledge its packets (node/words.h); NULL: packets do. */
    struct tug_words *words;
    /* Of a view of an endpoint (endpoint.h), which alone writes these; NULL: it is none. */
    struct tug_endpoint *endpoint;
    bool entered;
    bool ready;            /* it has been polled: packets may be handed up */
    bool came;             /* something has come since it was polled */
    bool rung;             /* the watcher rings its fabric's bell */
    uint64_t polls;        /* the endpoint's when it was polled */
    struct tug_wire *next; /* the endpoint's next, an older one */

    bool internal; /* packets may be handed up by others' polls from inside the host */
    bool inside;   /* this poll is from there */
    bool left;     /* it has left something to one from outside */
    /* A packet has come: bytes at memory (aligned to 8), the receiver's until it returns. False:
     * not now, as there is no memory for what it is to be answered. The wire keeps it, ahead of
     * what comes behind it from that process, does not sleep (`arm`), and hands the same bytes up
     * again by its next poll; some of its records may have been served, and are not served again.
     */
    bool (*receive)(void *receiver, struct tug_wire *wire, const void *memory, size_t bytes);
    /* May that packet, perhaps a bad one, be handed up while trailers of its source are on their
     * way? (For wires that need not wait for one before the next packet.) */
    bool (*lets_pass)(void *receiver, uint32_t source, const void *memory, size_t bytes);
    /* Of wires that carry trailers: where the next bytes go of what follows the last packet of that
     * process, of which `come` have come and are the receiver's, NULL: nowhere; asked anew whenever
     * some are there. *room: so many may be put there; it is made less if there is less. All have
     * come of what follows the first packet (whole), or no more will, of that and others. */
    unsigned char *(*trailer_address)(void *receiver, uint32_t source, size_t come, size_t *room);
    void (*arrived)(void *receiver, uint32_t source, bool whole);
    /* The trailer of a buffer has been sent, after those that were sent to that peer before. The
     * buffer will be given back now, or when its packet has gone. */
    void (*sent)(void *receiver, uint32_t peer, const struct tug_buffer *buffer);
    /* Called by `lost`: the trailer is being sent all the same, and sent() will tell when that
     * is over: until then its memory is the wire's. */
    void (*keeps)(void *receiver, const struct tug_buffer *buffer);
    /* It is certain now whether packets go to and from that peer by this wire; none has so far. */
    void (*settled)(void *receiver, uint32_t peer, bool by_wire);
    /* Nothing goes to the peer any more, nor comes from it, which has been met or sent to. Told by
     * polls only, never from inside send: operations may be in the middle of being ended there. */
    void (*ended)(void *receiver, uint32_t peer);
    /* A wire that has been settled on does not go to the peer any more, and both know it:
     *
     *      sender                                 receiver
     *      asks where the peer is  ----------->   takes what has come by the wire
     *      moves(taken)            <-----------   yields(): so many have been taken
     *      what was not taken goes by the next row
     *
     * yields: what comes from the peer comes by another wire from now on. Returns how many packets
     * of any kind have been taken. moves: that is the number that the peer says. `back`: the
     * packets that send has taken and of which the wire does not know that they have arrived, in
     * their order, linked by next, from the wire's pool. Told by polls only. */
    uint32_t (*yields)(void *receiver, uint32_t peer);
    void (*moves)(void *receiver, uint32_t peer, uint32_t taken, struct tug_buffer *back);
    /* A signal whose write has been posted by this wire's row (post_signalled in transport.h) and
     * has failed, or goes by another one: it is in no packet any more, but void
     * (tug_packet_void_signal()) in those that the wire has, and the caller ends it or posts it
     * again. It has not come to the peer. May be called at any time. */
    void (*recalls)(void *receiver, struct tug_operation *signal);
    void *receiver;
};

/* By sockets, and inside the node. */
#define TUG_LONG_LEAST 16384u
#define TUG_LONG_SIGNALLED 4096u /* its signal goes along: there is one packet either way */
#define TUG_LONG_PIECE (1u << 20)
#define TUG_LONGS_MOST 4
#define TUG_LONGS_BYTES ((uint64_t)2 << 20)
#define TUG_SHM_LONG_LEAST 2048u
#define TUG_MPI_LONG_LEAST 65536u /* less is there sooner in packets */

/* The host's messages. */
#define TUG_MPI_PACKET_BYTES 8000u /* UCX sends more by rendezvous, which takes twice the time */
#define TUG_MPI_TAG_PACKET 0
#define TUG_MPI_TAG_LONG 1

/* Bytes of a process that a wire costs (`tugboat info --memory`), for tcp and ofi in each context
 * and once a process (ofi: 0, not in this build); the most packets that a pool keeps for later. */
size_t tug_wire_shm_footprint(uint32_t node_size);
size_t tug_wire_mpi_footprint(void);
size_t tug_wire_tcp_footprint(uint64_t nranks, uint64_t active);
size_t tug_wire_tcp_endpoint_footprint(uint64_t active);
size_t tug_wire_ofi_footprint(uint64_t nranks);
size_t tug_wire_ofi_endpoint_footprint(void);

/* True, and why (256 bytes): ofi cannot do RMA by a card here, if it is allowed. Any thread. */
bool tug_wire_ofi_lacks_card(char *reason);

size_t tug_pool_spare_most(size_t packet_bytes);

#endif
