/* Wires: what carries packets from process to process, reliably and in order for each pair.
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
    uint32_t sent;       /* the shm wire's: bytes of packet and trailer that have gone */
    uint32_t ends;       /* tag of the operation whose last bytes follow, or TUG_NO_TAG */
    MPI_Request request; /* the mpi wire's */
    uint64_t memory[];
};

/* The packet's last record is a long one: these bytes of the program follow the packet. */
static inline void tug_buffer_trail(struct tug_buffer *buffer, const unsigned char *data,
                                    uint32_t bytes) {
    tug_packet_trail(&buffer->packet, bytes);
    buffer->trailer = data;
}

/* Buffers of one size. */
struct tug_pool {
    struct tug_buffer *spare;
    uint32_t bytes; /* bytes of a packet */
    uint32_t nspare;
    uint32_t nout; /* buffers in use */
};

/* A buffer with an empty packet. NULL: no memory. */
struct tug_buffer *tug_pool_take(struct tug_pool *pool);
/* Takes a buffer back; the memory of its trailer is no longer served by it. */
void tug_pool_give(struct tug_pool *pool, struct tug_buffer *buffer);
void tug_pool_fini(struct tug_pool *pool);
/* Moves a buffer that is in use to another pool, whose packets are not longer. */
static inline void tug_pool_pass(struct tug_pool *from, struct tug_pool *to) {
    from->nout--;
    to->nout++;
}

struct tug_wire;

/* Which data follow their packets. */
struct tug_longs {
    uint32_t least;   /* those of writes and reads of so many bytes; 0: this wire has no trailers */
    uint32_t most;    /* in pieces of so many, at most TUG_TRAILER_MOST, whole words */
    uint32_t at_once; /* pieces of writes that are not acknowledged, and of reads that have not
                         come: what else goes to the peer is behind them */
};

struct tug_wire_type {
    const char *name;
    /* Sends a packet that was ended, and what follows it. False: there is no room now for all of
     * it, and the buffer is still the caller's, who sends it again or never. */
    bool (*send)(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer);
    /* tell: tells the peer a word, which replaces the one before, and wakes it. told: the word that
     * the peer has told last, 0 at first. NULL: the wire has no such words. */
    void (*tell)(struct tug_wire *wire, uint32_t peer, uint64_t word);
    uint64_t (*told)(const struct tug_wire *wire, uint32_t peer);
    struct tug_longs longs;
    /* What follows packets to that peer, and has not been sent, is not to be touched any more: the
     * way there ends if need be. NULL: the wire touches nothing but in send. */
    void (*abandon)(struct tug_wire *wire, uint32_t peer);
    /* Looks for packets and hands each to wire->receive, a bounded number of them; gets what was
     * sent on its way. True if anything moved. */
    bool (*poll)(struct tug_wire *wire);
    /* Who calls is about to sleep: see to it that news wake it. False: they cannot. NULL: who sends
     * rings. */
    bool (*arm)(struct tug_wire *wire);
    /* Is a sleeper woken when more can be sent to the peer? NULL: no. */
    bool (*tells_of_room)(const struct tug_wire *wire, uint32_t peer);
    /* The descriptor that is readable while something has come, or there is room again for what
     * waits; -1 with watch: the fabric's bell is rung then instead, each time after arm(). NULL:
     * news ring without, or not at all. */
    int (*descriptor)(struct tug_wire *wire, bool watch);
    /* Begins to find out whether packets can go to the peer by this wire, which wire->settled then
     * tells; true: they can. NULL: to everybody. */
    bool (*meet)(struct tug_wire *wire, uint32_t peer);
    /* What has been sent may lie at a peer that does not look, in memory that nobody bounds. */
    bool piles_up;
    /* Nothing is handed up or told any more, of a wire that others' polls may bring packets by; any
     * thread of the program. NULL: only its own do. */
    void (*leave)(struct tug_wire *wire);
    void (*close)(struct tug_wire *wire); /* collective */
};

struct tug_wire {
    const struct tug_wire_type *type;
    struct tug_fabric *fabric;
    struct tug_pool pool;
    bool internal; /* packets may be handed up by others' polls from inside the host */
    bool inside;   /* this poll is from there */
    /* A packet has come: bytes at memory (aligned to 8), the receiver's until it returns. */
    void (*receive)(void *receiver, struct tug_wire *wire, const void *memory, size_t bytes);
    /* Of wires that carry trailers: where the next bytes go of what follows the last packet of that
     * process, of which `come` have come, NULL: nowhere; asked anew whenever some are there. All of
     * them have come (whole), or no more will. */
    unsigned char *(*trailer_address)(void *receiver, uint32_t source, size_t come);
    void (*arrived)(void *receiver, uint32_t source, bool whole);
    /* A buffer with a trailer has been sent and is about to be given back. */
    void (*sent)(void *receiver, uint32_t peer, const struct tug_buffer *buffer);
    /* It is certain now whether packets go to and from that peer by this wire; none has so far. */
    void (*settled)(void *receiver, uint32_t peer, bool by_wire);
    /* Nothing goes to the peer any more, nor comes from it, which has been met or sent to. */
    void (*ended)(void *receiver, uint32_t peer);
    void *receiver;
};

/* By sockets, and inside the node. */
#define TUG_LONG_LEAST 16384u
#define TUG_LONGS_MOST 4
#define TUG_SHM_LONG_LEAST 2048u

/* Inboxes in memory shared by the node. NULL and *status: TUG_ERR_UNSUPPORTED (alone on the node),
 * TUG_ERR_NO_MEMORY. Collective. */
struct tug_wire *tug_wire_shm_open(struct tug_fabric *fabric, int *status);

/* Messages of the host MPI. open is collective; make, for the few peers that another wire does not
 * reach, is not, nor is the end of such a wire. NULL: no memory. */
#define TUG_MPI_PACKET_BYTES 8000u /* UCX sends more by rendezvous, which takes twice the time */
#define TUG_MPI_TAG_PACKET 0
#define TUG_MPI_TAG_BULK 1 /* the first of the tags of blocks, two for each operation's tag */
struct tug_wire *tug_wire_mpi_open(struct tug_fabric *fabric, int *status);
struct tug_wire *tug_wire_mpi_make(struct tug_fabric *fabric);

/* Sockets of our own. NULL and *reason: it cannot be had, at any process. Collective. */
struct tug_wire *tug_wire_tcp_open(struct tug_fabric *fabric, const char **reason);

/* Bytes of a process that a wire costs (`tugboat info --memory`), for TCP in each context and once
 * a process; bytes of a packet; the most packets that a pool keeps for later. */
size_t tug_wire_shm_footprint(uint32_t node_size);
size_t tug_wire_mpi_footprint(void);
size_t tug_wire_tcp_footprint(uint64_t nranks, uint64_t active);
size_t tug_wire_tcp_endpoint_footprint(uint64_t active);
size_t tug_wire_shm_packet(void);
size_t tug_wire_mpi_packet(void);
size_t tug_wire_tcp_packet(void);
size_t tug_pool_spare_most(size_t packet_bytes);

#endif
