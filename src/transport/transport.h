/* Transports: the ways from one process to another, rows of one table.
 *
 * A *fabric* is what the transports of one context share: who is who, the table of operations, the
 * registered memory, and the calls back to the layer above. What a row can do is said by the
 * functions that it has:
 *
 *                loads and  copies of   operations  packets
 *                stores     the kernel
 *   self         x                                              memory of the process's own
 *   mapped       x                                              memory of the node, mapped here
 *   cma                     x                                   other memory of the node
 *   shm                                             x           inboxes in memory of the node
 *   verbs                               x           x           InfiniBand and RoCE
 *   ofi                                 x           x           libfabric's reliable datagrams
 *   tcp                                             x           sockets of our own
 *   mpi                                             x           messages of the host MPI
 *
 * What the caller can do alone, by loads and stores or a call of the kernel's, it does at once
 * (reach.h). Any other operation takes the first row that can do it by itself
 * (tug_fabric_route()) and is that row's until it calls tug_fabric_complete(); where there is none
 * it travels in packets (packets/packets.h), by the first row that carries some to the peer.
 *
 * Long data have one protocol, for all rows that carry packets and both directions. A packet
 * announces them in its last record; the data follow it, and are no part of it. Who has sent the
 * packet leaves them where they are in the program's memory: "send so many bytes from this
 * address". Who takes it checks the record and knows from it where they belong, in the program's
 * memory: "expect so many bytes at this address". How they get from the one address to the other
 * is the row's: behind the packet's bytes (tcp, shm), as a message of their own (mpi), or read by
 * who expects them (ofi). The row says from which length on that pays (struct tug_longs). Where it
 * has none, or for less, data are copied into packets, as many as it takes.
 *
 * Threading: where nothing else is said, by one thread at a time: the holder of the baton; open,
 * make and close by the program under MPI's rules, make also by the holder.
 */
#ifndef TUG_TRANSPORT_TRANSPORT_H
#define TUG_TRANSPORT_TRANSPORT_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/settings.h"
#include "base/tags.h"
#include "engine/park.h"
#include "transport/memory.h"
#include "transport/operation.h"

#define TUG_SEGMENTS 1024 /* pieces of allocated memory in a context */

struct tug_buffer;
struct tug_fabric;
struct tug_live;
struct tug_mapped;
struct tug_packets;
struct tug_team;
struct tug_wire;

/* Which data follow their packets. */
struct tug_longs {
    uint32_t least;           /* those of writes and reads of so many bytes; 0: none */
    uint32_t least_signalled; /* of writes with a signal, which goes in the same packet */
    uint32_t most;            /* in pieces of so many, at most TUG_TRAILER_MOST, whole words */
    uint32_t most_of_message; /* the same of long messages, which are staged where they come: a row
                                 that needs one address for a whole piece has TUG_STAGE_BYTES */
    uint32_t at_once; /* pieces of writes that are not acknowledged (more if they come to less than
                         TUG_LONGS_BYTES and do not pile up), and of reads that have not come: what
                         else goes to the peer is behind them */
};

struct tug_transport {
    const char *name;
    const char *help;      /* one line, for `tugboat info -d` */
    uint32_t packet_bytes; /* of those that it carries; 0: none */

    /* Why this machine cannot have it (a sentence in `reason`, 256 bytes); or false, and in reason
     * perhaps what it would be. No MPI. Any thread. NULL: it is the host MPI that decides. */
    bool (*missing)(char *reason);

    /* Collective. 0 and *state; TUG_ERR_UNSUPPORTED: not here, and why (in `reason`, 256 bytes);
     * other errors. NULL: there is nothing to open. */
    int (*open)(struct tug_fabric *fabric, void **state, char *reason);
    /* The same by this process alone, for the few peers that another row does not reach after all;
     * nor is the end of such a state collective. NULL: no memory. NULL: it cannot. */
    void *(*make)(struct tug_fabric *fabric);
    /* Collective, nothing is outstanding anywhere. */
    void (*close)(void *state);

    /* Does it go to that peer, or may it? NULL: to all. Any thread. */
    bool (*reaches)(void *state, uint32_t peer);

    /* Gets on as far as it goes without waiting; of what comes, a bounded part. True if anything
     * moved. */
    bool (*poll)(void *state);

    /* The caller has prepared fabric->bell to sleep on it: see to it that news ring it. False: they
     * cannot, it must poll. poll() is called once more after this. NULL: who brings news rings. */
    bool (*arm)(void *state);

    /* ---- operations of its own ---- */

    /* Makes the memory usable and may set registration->rkeys; keeps what it needs in
     * registration->of_transport[own number]. NULL: nothing to do. 0, TUG_ERR_SYSTEM,
     * TUG_ERR_NO_MEMORY. Any thread, before the registration is seen by others. */
    int (*register_memory)(void *state, struct tug_registration *registration);
    void (*deregister_memory)(void *state, struct tug_registration *registration);

    /* Can it do this operation, to a peer that it reaches? See tug_fabric_device_takes(). Any
     * thread. NULL: none. */
    bool (*takes)(void *state, const struct tug_operation *operation);

    /* True: a process's atomics to one peer are executed in the order in which they are posted. */
    bool orders_atomics;

    /* Takes the operation over. Never refuses: what does not fit now waits inside, linked by
     * operation->next; where the row has no way to the peer after all, tug_fabric_pass_on(). */
    void (*post)(void *state, struct tug_operation *operation);

    /* Takes a write over whose signal the caller posts in packets right behind this, to a peer to
     * which packets go by this row: none that is sent from now on comes to the peer before the
     * write. The write is TUG_WRITE_AHEAD from now on; if it fails, or goes by another row, its
     * signal is recalled (wire.h). False, or NULL: nothing happened, and the signal has to wait for
     * the write's end. */
    bool (*post_signalled)(void *state, struct tug_operation *write, struct tug_operation *signal);

    /* The batch ends here: one doorbell. May be NULL. */
    void (*flush)(void *state);

    /* A message of this row's own from its peer, see tug_fabric_control(). NULL: none. */
    void (*control)(void *state, uint32_t peer, const void *data, size_t bytes);

    /* ---- packets, reliably and in order for each pair; the state is a struct tug_wire (wire.h) */

    /* Sends a packet that was ended, and what follows it. False: there is no room now for all of
     * it (a part may have gone), and the buffer is still the caller's, who sends it again or never.
     * NULL: it carries none. */
    bool (*send)(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer);
    /* While it carries packets, its messages to its peers (tug_fabric_control()) are the host's,
     * and the two directions between a pair may go by different rows, this one and one with `make`.
     * It is opened even where rows before it carry packets to everybody, or as it has no room for
     * packets (no_packets): then for operations alone. */
    bool wired_by_host;
    struct tug_longs longs;
    /* What has been sent may lie at a peer that does not look, in memory that nobody bounds. */
    bool piles_up;
    /* Its poll may be called from inside the host (tug_engine_serve_inside()): where the wire says
     * so, it calls nothing of the host's and ends nothing, and leaves what may have to. */
    bool inside;
    /* The peer is lost to the context. Messages to it and from it do not arrive any more: what
     * waits for one fails. What follows packets to it, and has not been sent, is not to be touched
     * any more: the way there ends if need be. What the row cannot let go of it keeps
     * (wire->keeps). NULL: it waits for nothing and touches nothing but in send. */
    void (*lost)(struct tug_wire *wire, uint32_t peer);
    /* The caller is about to sleep on the fabric's bell, which it has prepared, and tries once more
     * after this: is it woken when more can be sent to the peer, to whom the last send has found no
     * room? NULL: no. */
    bool (*tells_of_room)(struct tug_wire *wire, uint32_t peer);
    /* Begins to find out whether packets can go to the peer this way: 0, and wire->settled then
     * tells; 1: they can; TUG_ERR_NO_MEMORY: it has not begun. NULL: to everybody that it reaches.
     */
    int (*meet)(struct tug_wire *wire, uint32_t peer);
};

/* The rows. They are declared here so that the table needs none of their headers, which all include
 * this one. */
extern const struct tug_transport tug_transport_self, tug_transport_mapped, tug_transport_cma,
    tug_transport_shm, tug_transport_verbs, tug_transport_ofi, tug_transport_tcp, tug_transport_mpi;

/* The table, best first. The position is the row's number, and 1 << number its bit among enum
 * tug_way. NULL-terminated. */
extern const struct tug_transport *const tug_transports[];

enum tug_transport_number {
    TUG_BY_SELF,
    TUG_BY_MAPPED,
    TUG_BY_CMA,
    TUG_BY_SHM,
    TUG_BY_VERBS,
    TUG_BY_OFI,
    TUG_BY_TCP,
    TUG_BY_MPI,
    TUG_TRANSPORT_COUNT
};

_Static_assert(1 << TUG_BY_SELF == TUG_WAY_SELF && 1 << TUG_BY_MAPPED == TUG_WAY_MAPPED &&
                   1 << TUG_BY_CMA == TUG_WAY_CMA && 1 << TUG_BY_SHM == TUG_WAY_SHM &&
                   1 << TUG_BY_VERBS == TUG_WAY_VERBS && 1 << TUG_BY_OFI == TUG_WAY_OFI &&
                   1 << TUG_BY_TCP == TUG_WAY_TCP && 1 << TUG_BY_MPI == TUG_WAY_MPI,
               "settings name the rows by these bits");

struct tug_fabric {
    struct tug_context *context;
    struct tug_team *team; /* the team of its processes, kept as long as the fabric is there */
    MPI_Comm comm;         /* a private communicator of its processes */
    MPI_Comm node_comm;    /* the team's node_comm; only while the fabric is made */
    uint32_t rank, nranks;
    uint32_t node_rank, node_size;
    const uint32_t *node_ranks; /* [node_size] their ranks in comm, ascending */
    uint64_t id;                /* alike on all, random */
    unsigned ways;              /* enum tug_way bits: allowed and possible */
    bool to_be_carried;         /* while rows are opened: packets do not go to everybody by those
                                   before this one; the same on all */
    bool
        card_atomics; /* the open row has atomics of all cards, in posting order; the same on all */
    bool device_atomics;  /* agreed: atomics of 8 bytes by the network card, for all pairs */
    bool open_to_atomics; /* memory that is registered from now on allows atomics of cards */

    struct tug_operation *operations; /* [noperations] */
    uint32_t noperations;
    struct tug_tags tags;
    uint32_t out; /* operations handed to transports; holder only */
    /* Of these, operations that rest: only a late acknowledgement (packets.h) is to come. Written
     * by the holder. */
    _Atomic uint32_t resting;
    _Atomic uint32_t lost;     /* processes to which the way is lost, so far; by the holder */
    _Atomic uint32_t awaiting; /* threads that wait for the end of some operation: none rests */
    bool with_jobs;  /* peers poll it only while they run jobs: what connects them goes by others */
    bool more_comes; /* the holder is about to post more: a packet with room waits; holder only */
    bool seldom;     /* when it was armed: besides what rings, messages of the host may come that
                        wire rows, seldom: it is polled now and then; holder only */

    struct tug_memory_table memory;
    struct tug_live *live; /* this process's list of registrations; NULL: none, nor others' */
    struct tug_mapped *_Atomic mapped[TUG_SEGMENTS]; /* allocated memory, by its numbers */

    void *states[TUG_TRANSPORT_COUNT];         /* rows' states by their numbers; NULL: not open */
    unsigned char takers[TUG_TRANSPORT_COUNT]; /* numbers of open rows that take operations */
    unsigned ntakers;
    struct tug_packets *packets; /* what goes by those that carry packets */
    struct tug_lone *lone;       /* NULL: nothing goes to the node's others by itself (lone.h) */

    struct tug_bell *bell; /* whoever serves this context sleeps on it */
    bool bell_shared;

    _Atomic bool replies;      /* by any thread: who waits will send to those that it hears from */
    _Atomic bool flush_wanted; /* by any thread: operations that wait for more of them go with the
                                  next poll */

    /* ---- handed down ---- */

    /* Active messages have come: n of `bytes` each, one behind the other. 0, or the error for their
     * sender. A handler may change its table meanwhile. */
    int (*deliver)(struct tug_fabric *fabric, uint32_t source, unsigned handler,
                   const void *payloads, size_t bytes, size_t n);

    /* Bytes of a long message have come, from `position` on. Returns how many of them have been
     * taken: what is left, less than an element, comes again with more; or a TUG_ERR_*. */
    int64_t (*deliver_part)(struct tug_fabric *fabric, uint32_t source, unsigned handler,
                            const uint64_t head[2], uint64_t position, const void *data,
                            size_t bytes);

    /* A call has come; tug_packets_reply() answers it, now or later. 0, or the error for the
     * caller: then it is answered. */
    int (*called)(struct tug_fabric *fabric, struct tug_caller caller, unsigned handler,
                  const void *payload, size_t bytes);

    /* Nothing comes from the peer any more: it is lost, or the way there has ended. Holder only.
     * NULL: nobody minds. */
    void (*peer_ended)(struct tug_fabric *fabric, uint32_t peer);

    /* Packets have come by the poll of another context: what they began goes. Holder only. */
    void (*served)(struct tug_fabric *fabric);

    /* Callbacks that only count: n operations that end well with `counter` may be told by one
     * count(d, n). NULL: none are. */
    void (*counter)(void *d, int status);
    void (*count)(void *d, uint64_t n);
};

/* Opens the rows that fabric->ways allows and that have something to open; of those that only carry
 * packets none behind one that goes to all, but for the host's messages if that is wired by them.
 * The bits of those that cannot be had are taken out of ways; if the user has named one and nothing
 * carries its packets instead, that is an error. 0, TUG_ERR_*, the same on all. Collective. What is
 * open then is for tug_fabric_close() in either case. */
int tug_fabric_open(struct tug_fabric *fabric);
void tug_fabric_close(struct tug_fabric *fabric);

/* The first row from number `from` on that can do the operation by itself; NULL: it goes in
 * packets. Any thread. */
const struct tug_transport *tug_fabric_route(const struct tug_fabric *fabric,
                                             const struct tug_operation *operation, unsigned from,
                                             void **state);

/* Do packets go by that row to those that it reaches? Any thread. */
bool tug_fabric_carries(const struct tug_fabric *fabric, unsigned number);

/* Hands an operation to its row, or to packets. Holder only. */
void tug_fabric_post(struct tug_fabric *fabric, struct tug_operation *operation);

/* A row that has been given an operation and turns out to have no way to the peer hands it on to
 * the next one that can do it. Nothing of it has moved, and scratch is 0. Holder only. */
void tug_fabric_pass_on(struct tug_fabric *fabric, struct tug_operation *operation, unsigned from);

/* The signal, which is in no packet, goes when the write has ended, which is posted behind this;
 * where the write fails the signal fails as well. Holder only. */
void tug_fabric_follow(struct tug_fabric *fabric, struct tug_operation *write,
                       struct tug_operation *signal);

/* All rows, and packets: the batch ends here; one poll, true if anything moved; is something out or
 * unsent?; news will ring the fabric's bell, but for those that fabric->seldom says then. Holder
 * only. */
void tug_fabric_flush(struct tug_fabric *fabric);
bool tug_fabric_poll(struct tug_fabric *fabric);
bool tug_fabric_busy(const struct tug_fabric *fabric);
bool tug_fabric_arm(struct tug_fabric *fabric);

/* The index of a peer among the processes of this node, or TUG_ELSEWHERE. Any thread. Mostly the
 * node's ranks follow one another, and nothing has to be searched. */
#define TUG_ELSEWHERE UINT32_MAX
uint32_t tug_fabric_search_node(const struct tug_fabric *fabric, uint32_t peer);

static inline uint32_t tug_fabric_node_rank(const struct tug_fabric *fabric, uint32_t peer) {
    if (fabric->node_size == 0)
        return TUG_ELSEWHERE;
    const uint32_t guess = peer - fabric->node_ranks[0];
    return guess < fabric->node_size && fabric->node_ranks[guess] == peer
               ? guess
               : tug_fabric_search_node(fabric, peer);
}

/* Do packets to that peer go through shared memory of the node? Any thread. */
static inline bool tug_fabric_has_inbox(const struct tug_fabric *fabric, uint32_t peer) {
    return fabric->states[TUG_BY_SHM] != NULL &&
           tug_fabric_node_rank(fabric, peer) != TUG_ELSEWHERE;
}

/* The rules of `takes` that all rows of devices share. The remote memory has an rkey. A local
 * buffer that the program has not registered (registration id 0) does not go to a peer with an
 * inbox: packets are faster there. An atomic has 8 bytes, and only a card may execute it
 * (TUG_ATOMIC_BY_CARD), or all atomics of the context are the device's. Any thread. */
static inline bool tug_fabric_device_takes(const struct tug_fabric *fabric,
                                           const struct tug_operation *operation) {
    if (operation->rkey == 0)
        return false;
    switch (operation->kind) {
    case TUG_OPERATION_READ:
    case TUG_OPERATION_WRITE:
        return operation->registration == NULL || operation->registration->id != 0 ||
               !tug_fabric_has_inbox(fabric, operation->peer);
    case TUG_OPERATION_FETCH:
    case TUG_OPERATION_COMPARE:
        return (fabric->device_atomics || operation->op >= TUG_ATOMIC_BY_CARD) &&
               operation->bytes == 8 && operation->address % 8 == 0;
    default:
        return false;
    }
}

static inline uint32_t tug_fabric_tag(const struct tug_fabric *fabric,
                                      const struct tug_operation *operation) {
    return (uint32_t)(operation - fabric->operations);
}

/* Puts the operation at the end of a list, linked by `next`, of which the tags of the first
 * (TUG_NO_TAG: it is empty) and the last are given. Holder only. */
static inline void tug_fabric_line_up(struct tug_fabric *fabric, uint32_t *first, uint32_t *last,
                                      struct tug_operation *operation) {
    uint32_t tag = tug_fabric_tag(fabric, operation);
    operation->next = TUG_NO_TAG;
    if (*first == TUG_NO_TAG)
        *first = tag;
    else
        fabric->operations[*last].next = tag;
    *last = tag;
}

/* The local memory may be used again: calls on_local, if it has not been called before. Holder
 * only. */
static inline void tug_fabric_local(struct tug_operation *operation) {
    struct tug_callback callback = operation->on_local;
    if (callback.f != NULL) {
        operation->on_local.f = NULL;
        callback.f(callback.d, operation->status);
    }
}

/* Stores the old value that an atomic brought. Holder only. */
void tug_fabric_result(struct tug_operation *operation, uint64_t value);

/* Ends an operation with operation->status: the tag is free, then callbacks. Holder only. */
void tug_fabric_complete(struct tug_fabric *fabric, struct tug_operation *operation);

/* Can the operation end with that one? Both only count, with one counter, so that nobody can tell
 * which of them went wrong. Holder only. */
static inline bool tug_fabric_joins(const struct tug_fabric *fabric,
                                    const struct tug_operation *operation,
                                    const struct tug_operation *with) {
    return operation->on_complete.f == fabric->counter && fabric->counter != NULL &&
           with->on_complete.f == fabric->counter &&
           operation->on_complete.d == with->on_complete.d;
}

/* The operation, which joins that one, ends with it, in tug_fabric_complete_list(): its tag is free
 * now. Holder only. */
void tug_fabric_join(struct tug_fabric *fabric, struct tug_operation *operation,
                     struct tug_operation *with);

/* Ends all operations of a list (by `next`), in any order, and those that have joined them. Holder
 * only. */
void tug_fabric_complete_list(struct tug_fabric *fabric, uint32_t first);

/* Sends a short message (at most TUG_CONTROL_MAX bytes) to the same transport at the peer, in
 * order: by the stream to it, or beside that by a message of the host (wired_by_host). For wire-up.
 * 0; TUG_ERR_PEER: the peer is lost; TUG_ERR_NO_MEMORY. Holder only. */
#define TUG_CONTROL_MAX 256
int tug_fabric_control(struct tug_fabric *fabric, uint32_t peer, unsigned transport,
                       const void *data, size_t bytes);

#endif
