/* What a try_ call asks for, on its way to a transport. For the files of LLCL. */
#ifndef TUG_LLCL_TRY_H
#define TUG_LLCL_TRY_H

#include <string.h>

#include "llcl/private.h"
#include "transport/atomic.h"

/* What the calls have in common. */
struct tug_try {
    uint8_t kind;
    uint8_t op; /* as in struct tug_operation */
    bool late;  /* of signals: nobody waits for the end soon */
    int peer;
    const struct tug_remote_address *remote; /* messages: NULL */
    const struct tug_local_address *local;   /* messages: NULL */
    const void *payload;                     /* of messages */
    void *answer;                            /* CALL */
    size_t answer_bytes;
    size_t bytes;
    uint64_t operand;
    uint64_t compare;
    const struct tug_callback *on_local; /* pointers: what was just written in pieces is slow to */
    const struct tug_callback *on_complete; /* copy whole before it has reached the cache */
};

static inline bool tug_try_is_atomic(unsigned kind) {
    return kind == TUG_OPERATION_FETCH || kind == TUG_OPERATION_COMPARE ||
           kind == TUG_OPERATION_SIGNAL;
}

static inline void tug_try_copy(unsigned char *to, const unsigned char *from, size_t bytes) {
    if (bytes == 8)
        memcpy(to, from, 8);
    else if (bytes > 0)
        memmove(to, from, bytes);
}

/* On memory in reach. */
static inline void tug_try_do_here(unsigned kind, unsigned op, unsigned char *reached,
                                   unsigned char *local, size_t bytes, uint64_t operand,
                                   uint64_t compare) {
    uint64_t old;
    switch (kind) {
    case TUG_OPERATION_READ:
        tug_try_copy(local, reached, bytes);
        return;
    case TUG_OPERATION_WRITE:
        tug_try_copy(reached, local, bytes);
        return;
    case TUG_OPERATION_FETCH:
        old = tug_atomic_fetch(reached, (unsigned)bytes, op, operand);
        break;
    default:
        old = tug_atomic_compare(reached, (unsigned)bytes, compare, operand);
        break;
    }
    if (local != NULL)
        tug_atomic_result(local, (unsigned)bytes, old);
}

static const struct tug_callback tug_no_callback;

/* Takes a tag and hands the operation to its transport: directly if the baton is free, through the
 * ring if not. local: the local memory, or what the message says; reached: where the remote memory
 * is in this process, or NULL. False: no room, nothing happened. Any thread. */
bool tug_try_submit(struct tug_context *context, const struct tug_try *request,
                    unsigned char *local, unsigned char *reached);

/* The same with a write and the signal behind it. reached: of a long write (copies.h). */
bool tug_try_submit_pair(struct tug_context *context, const struct tug_try *write,
                         const struct tug_try *signal, unsigned char *local, unsigned char *reached,
                         unsigned char *payload);

/* Starts a short read or write of memory that only packets reach by itself (transport/lone.h), if
 * the process is of this node and the end only counts. few: tug_burst_is_single(), of those before
 * it. The key allows it. False: it goes another way, nothing happened. Any thread. */
bool tug_try_alone(struct tug_context *context, const struct tug_try *request, unsigned char *local,
                   bool few);

/* Takes a tag and hands the operation to its transport. False: all are out. Holder only. */
bool tug_try_post_in_hand(struct tug_context *context, const struct tug_try *request,
                          unsigned char *local, unsigned char *reached);

/* Has the thread's batch take a write of at most TUG_COPIED_MOST bytes to memory that only packets
 * reach, of which the end only counts. False: it does not. Not in callbacks. */
bool tug_try_batch(struct tug_context *context, const struct tug_try *write,
                   const unsigned char *local);

#endif
