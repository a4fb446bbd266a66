/* Transports: the ways from one process to another, behind one table of operations.
 *
 * A *fabric* is what the transports of one context share: who is who, the table of operations, the
 * registered memory, and the calls back to the layer above. The layer above finds the transport for
 * an operation (tug_fabric_route()); from then on the operation is the transport's, until it calls
 * tug_fabric_complete().
 *
 *   self, mapped  memory in reach of loads and stores never comes here: the caller does it
 *   packets       (packets/) requests and answers in packets, by one of two *wires*:
 *     shm         inboxes in memory shared by the node
 *     mpi         messages on a private communicator
 *   cma           large blocks inside a node by cross-memory attach (by the caller too)
 *   verbs         (verbs/) InfiniBand and RoCE
 *
 * Threading: everything but `missing` and `reaches` is called by one thread at a time: the holder
 * of the baton, open and close by the program under MPI's rules.
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

struct tug_fabric;
struct tug_team;

struct tug_transport {
    const char *name;
    const char *help; /* one line, for `tugboat info -d` */

    /* Why this machine cannot have it (a sentence in `reason`, 256 bytes), or false. No MPI. */
    bool (*missing)(char *reason);

    /* Collective. 0 and *state; TUG_ERR_UNSUPPORTED: not here, said at info level; other errors. */
    int (*open)(struct tug_fabric *fabric, void **state);
    /* Collective, nothing is outstanding anywhere. */
    void (*close)(void *state);

    bool (*reaches)(void *state, uint32_t peer);

    /* Makes the memory usable and may set registration->rkey; keeps what it needs in
     * registration->of_transport[own number]. NULL: nothing to do. 0, TUG_ERR_SYSTEM,
     * TUG_ERR_NO_MEMORY. Any thread, before the registration is seen by others. */
    int (*register_memory)(void *state, struct tug_registration *registration);
    void (*deregister_memory)(void *state, struct tug_registration *registration);

    /* Can it do this operation, to a peer that it reaches? Any thread. */
    bool (*takes)(void *state, const struct tug_operation *operation);

    /* Takes the operation over. Never refuses: what does not fit now waits inside, linked by
     * operation->next; where the row has no way to the peer after all, tug_fabric_pass_on(). */
    void (*post)(void *state, struct tug_operation *operation);

    /* The batch ends here: one doorbell, one packet. May be NULL. */
    void (*flush)(void *state);

    /* Gets on as far as it goes without waiting. True if anything moved. */
    bool (*poll)(void *state);

    /* True if something is outstanding or unsent. */
    bool (*busy)(void *state);

    /* The caller is about to sleep on fabric->bell: see to it that news ring it. False: they
     * cannot, it must poll. poll() is called once more after this. */
    bool (*arm)(void *state);

    /* A message of this transport's own from its peer, see tug_fabric_control(). NULL: none. */
    void (*control)(void *state, uint32_t peer, const void *data, size_t bytes);

    /* Messages to the peer and from it do not arrive any more: who waits for one fails. NULL: this
     * transport does not mind. */
    void (*lost)(void *state, uint32_t peer);
};

/* The rows. They are declared here so that the table needs none of their headers, which all include
 * this one. */
extern const struct tug_transport tug_transport_verbs, tug_transport_packets;

/* The table, best first; the position is the transport's number. NULL-terminated. */
extern const struct tug_transport *const tug_transports[];

enum tug_transport_number { TUG_BY_VERBS, TUG_BY_PACKETS, TUG_TRANSPORT_COUNT };

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
    bool device_atomics;        /* agreed: atomics of 8 bytes by the network card, for all pairs */

    struct tug_operation *operations; /* [noperations] */
    uint32_t noperations;
    struct tug_tags tags;
    uint32_t out;    /* operations handed to transports; holder only */
    bool more_comes; /* the holder is about to post more: a packet with room waits; holder only */

    struct tug_memory_table memory;

    void *states[TUG_TRANSPORT_COUNT]; /* transports' states by their numbers; NULL: not open */

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

    /* A call has come; tug_packets_reply() answers it, now or later. 0, or the error for the
     * caller: then it is answered. */
    int (*called)(struct tug_fabric *fabric, struct tug_caller caller, unsigned handler,
                  const void *payload, size_t bytes);

    /* Packets have come by the poll of another context: what they began goes. Holder only. */
    void (*served)(struct tug_fabric *fabric);

    /* Callbacks that only count: n operations that end well with `counter` may be told by one
     * count(d, n). NULL: none are. */
    void (*counter)(void *d, int status);
    void (*count)(void *d, uint64_t n);
};

/* Picks the transport of an operation; NULL: TUG_ERR_PEER, there is none. Any thread. */
const struct tug_transport *tug_fabric_route(const struct tug_fabric *fabric,
                                             const struct tug_operation *operation, void **state);

/* A row that has been given an operation and turns out to have no way to the peer hands it on to
 * the next one that can do it; none: it ends with TUG_ERR_PEER. Nothing of it has moved, and
 * scratch is 0. Holder only. */
void tug_fabric_pass_on(struct tug_fabric *fabric, struct tug_operation *operation, unsigned from);

/* The index of a peer among the processes of this node, or TUG_ELSEWHERE. Any thread. */
#define TUG_ELSEWHERE UINT32_MAX
uint32_t tug_fabric_node_rank(const struct tug_fabric *fabric, uint32_t peer);

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

/* Sends a short message (at most TUG_CONTROL_MAX bytes) to the same transport at the peer, by
 * packets, in order. For wire-up. 0; TUG_ERR_PEER: the peer is lost; TUG_ERR_NO_MEMORY. Holder
 * only. */
#define TUG_CONTROL_MAX 256
int tug_fabric_control(struct tug_fabric *fabric, uint32_t peer, unsigned transport,
                       const void *data, size_t bytes);

#endif
