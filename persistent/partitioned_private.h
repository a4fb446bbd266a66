/* Partitioned requests from inside; for partitioned.c, partitioned_near.c and partitioned_far.c
 * alone.
 *
 * What all of them are: the host's request of the same call, the greeting behind it, and the rounds
 * that go by the host. What a round does without the host is its *kind*'s: of two ranks of a node,
 * or of two nodes. Both ranks know which.
 */
#ifndef TUG_PERSISTENT_PARTITIONED_PRIVATE_H
#define TUG_PERSISTENT_PARTITIONED_PRIVATE_H

#include "persistent/partitioned.h"

#if MPI_VERSION >= 4

enum tug_partitioned_way {
    TUG_WAY_OPEN,  /* not known yet */
    TUG_WAY_WHOLE, /* without the host, few bytes as a whole, out of which the receiver copies them:
                      two copies cost less than what else each partition would */
    TUG_WAY_PARTS, /* without the host, each partition to where it belongs */
    TUG_WAY_HOST,
};

struct tug_partitioned_kind {
    size_t bytes;          /* of its struct, which begins with a struct tug_partitioned */
    size_t greeting_bytes; /* of what `greeting` points to */
    /* Makes what it needs, and the sender's greeting. The caller has found out whether it can. */
    void (*prepare)(struct tug_partitioned *one);
    /* The greeting has been sent, or has come, in the first round, which is the host's. By the
     * holder of the baton, again and again until it says true: the round is not over before. NULL:
     * there is nothing to do. */
    bool (*greeted)(struct tug_partitioned *one);
    /* Chooses the way of a round: tug_partitioned_use_host(), or `way` and the job's bell. */
    void (*start)(struct tug_partitioned *one, uint32_t round);
    /* Of a round that is not the host's: as a job's advance(). */
    bool (*advance)(struct tug_partitioned *one, uint32_t round, bool *done);
    bool (*may_keep)(const struct tug_request *request); /* or NULL, see request.h */
    /* Of a send: they are ready. Any number of threads. */
    void (*ready)(struct tug_partitioned *one, size_t first, size_t n, uint32_t round);
    /* Of a receive: takes what can be had now. Any number of threads. */
    void (*take)(struct tug_partitioned *one);
    void (*let_go)(struct tug_partitioned *one); /* also if prepare() has not been called */
};

extern const struct tug_partitioned_kind tug_partitioned_near, tug_partitioned_far;

struct tug_partitioned {
    struct tug_request request;
    const struct tug_partitioned_kind *kind;
    struct tug_partitioned_call call;
    MPI_Request host_greeting;
    void *greeting;
    bool greets, greeted; /* the greeting was sent, is over */
    bool settled;         /* and what kind->greeted() does */
    bool can;             /* this side can do without the host */
    size_t bytes;         /* of a partition of this side */
    size_t their_bytes;   /* receiver: of what arrives by itself, once it has accepted the sender */
    MPI_Status status;    /* by the host's way */
    _Atomic uint32_t way; /* of this round */
    _Atomic uint32_t round;
    _Atomic uint32_t *ready; /* sender: the last round in which a partition was made ready */
    _Atomic uint32_t *done;  /* receiver: in which one has arrived, where each does by itself */
    _Atomic uint32_t turn;   /* a thread has taken it */
    _Atomic uint32_t over;   /* the last round that is over: all is here, or the host says so */
};

/* Rounds are compared by their distance: they begin anew after 2^32. */
static inline bool tug_has_come_to(uint32_t at, uint32_t round) {
    return (int32_t)(at - round) >= 0;
}

static inline bool tug_partitioned_fail(struct tug_partitioned *one, int error) {
    if (error != MPI_SUCCESS)
        one->request.error = error;
    return error != MPI_SUCCESS;
}

/* Of the whole message. */
static inline size_t tug_partitioned_sum(const struct tug_partitioned *one) {
    return (size_t)one->call.partitions * one->bytes;
}

/* The way without the host, of messages that land or do not. */
static inline enum tug_partitioned_way tug_partitioned_without(bool lands) {
    return lands ? TUG_WAY_WHOLE : TUG_WAY_PARTS;
}

/* Are the two on different nodes, and may do without the host? The same on both. Local. */
bool tug_partitioned_is_far(const struct tug_partitioned_call *call);

/* The host's request does this round. */
void tug_partitioned_use_host(struct tug_partitioned *one);

/* Does what the sender says fit this receiver? Then notes it. False: it does not, or there is no
 * memory. */
bool tug_partitioned_accept(struct tug_partitioned *receive, uint64_t partitions, uint64_t bytes);

/* One thread at a time copies, sends, or looks at the host's request. Acquire and release: what is
 * said to belong to the turn is as the thread before has left it. seq_cst: who finds it taken has
 * changed something before that the one who has it will see after it has ended it. */
static inline bool tug_partitioned_take_turn(struct tug_partitioned *one) {
    return atomic_exchange(&one->turn, 1) == 0;
}

static inline void tug_partitioned_end_turn(struct tug_partitioned *one) {
    atomic_store(&one->turn, 0);
}

static inline void tug_partitioned_mark(struct tug_partitioned *send, size_t first, size_t n,
                                        uint32_t round) {
    for (size_t i = first; i < first + n; i++) /* release: the data before it */
        atomic_store_explicit(&send->ready[i], round, memory_order_release);
}

/* acquire: the data; pairs with the release of who has brought them */
static inline bool tug_partitioned_has_arrived(const struct tug_partitioned *receive, size_t i,
                                               uint32_t round) {
    return atomic_load_explicit(&receive->done[i], memory_order_acquire) == round;
}

#endif
#endif
