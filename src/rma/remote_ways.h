/* What puts, gets and accumulates of the packet lane share: whom an operation is for, and what its
 * parts end with.
 *
 * Any thread. Inline, as every operation comes through here.
 */
#ifndef TUG_RMA_REMOTE_WAYS_H
#define TUG_RMA_REMOTE_WAYS_H

#include "request/request.h"
#include "rma/operand.h"
#include "rma/remote.h"
#include "rma/window.h"

/* ---- what an operation ends with ---- */

/* The parts of an operation that returns a request. */
struct tug_bundle {
    struct tug_request request;
    _Atomic uint32_t left; /* parts, and one for the call that starts them */
    _Atomic int status;    /* the first error */
    struct tug_counter *counter;
};

/* An operation under way. */
struct tug_ways {
    tug_context *context;
    struct tug_remote *remote;
    const struct tug_remote_target *target;
    struct tug_remote_state *state;
    int rank;
    MPI_Aint offset; /* of the target's first item in its memory; dynamic windows: its address */
    struct tug_bundle *bundle;
    bool one_part; /* the bundle has one, which ends it: the call that starts it is none */
    const struct tug_rma *plain; /* what is like it may follow it; NULL: nothing is */
};

/* One part is over. The last one completes the request, after which the bundle may be gone. */
void tug_ways_end_part(void *bundle, int status);

/* Makes the operation's request, if it has one. An error class. */
int tug_ways_begin_request(const struct tug_rma *o, struct tug_ways *ways);

/* All parts have been started, or some of them and then there was an error: which it returns. */
int tug_ways_end_request(const struct tug_ways *ways, int error);

/* What the next part of a request ends with; counts it. */
static inline struct tug_callback tug_ways_next_of_request(const struct tug_ways *ways) {
    if (!ways->one_part)
        atomic_fetch_add_explicit(&ways->bundle->left, 1, memory_order_relaxed);
    return (struct tug_callback){tug_ways_end_part, ways->bundle};
}

/* What the next part's on_complete is, if it ends in a buffer of ours; counts it. */
static inline struct tug_callback tug_ways_next_part(const struct tug_ways *ways) {
    if (__builtin_expect(ways->bundle != NULL, 0))
        return tug_ways_next_of_request(ways);
    return tug_outstanding_start(&ways->state->peer.local);
}

/* ---- what every operation begins with ---- */

/* Finds the target of an operation of `data`, or says why there is none. */
static inline __attribute__((always_inline)) int
tug_ways_find(const struct tug_rma *o, const struct tug_data *data, struct tug_ways *ways) {
    MPI_Aint offset;
    int error = tug_operand_check_target(o);
    if (__builtin_expect(error != MPI_SUCCESS, 0))
        return error;
    struct tug_remote *remote = o->window->remote;
    const struct tug_remote_target *target = &remote->targets[o->target];
    struct tug_remote_state *state = tug_remote_state_of(remote, o->target);
    if (tug_epochs_await(&o->window->epochs))
        tug_burst_in_epoch(tug_epochs_meet(&o->window->epochs), !target->near);
    else if (target->shortcut == TUG_SHORTCUT_DEVICE) /* one doorbell for all until the flush */
        tug_burst_in_epoch(false, true);
    const uint8_t wanted = atomic_load_explicit(&remote->contact_wanted, memory_order_relaxed);
    /* acquire: pairs with the changes in tug_remote_contact() by another thread */
    if (__builtin_expect(
            state == NULL ||
                (wanted != 0 &&
                 (atomic_load_explicit(&state->contact, memory_order_acquire) & wanted) != wanted),
            0)) {
        error = tug_remote_contact(remote, o->target);
        if (error != MPI_SUCCESS)
            return error;
        state = tug_remote_state_of(remote, o->target);
    }
    if (__builtin_expect(remote->attachments != NULL, 0))
        offset = o->disp;
    else
        error = tug_operand_locate(o, data, target->size, target->disp_unit, &offset);
    *ways = (struct tug_ways){.context = remote->domain->context,
                              .remote = remote,
                              .target = target,
                              .state = state,
                              .rank = o->target,
                              .offset = offset};
    return error;
}

/* The same for a few bytes that lie together. */
static inline __attribute__((always_inline)) int
tug_ways_find_plain(const struct tug_rma *o, size_t bytes, struct tug_ways *ways) {
    const struct tug_data data = {.bytes = bytes, .end = (MPI_Aint)bytes};
    return tug_ways_find(o, &data, ways);
}

/* Is a run of the target's memory there? Without attachments, tug_ways_find() has seen that. */
static inline int tug_ways_check(const struct tug_ways *ways, MPI_Aint offset, size_t bytes) {
    if (__builtin_expect(ways->remote->attachments == NULL, 1))
        return MPI_SUCCESS;
    return tug_remote_check(ways->remote, ways->rank, (uint64_t)(ways->offset + offset), bytes);
}

/* Elements of a basic type, the same at the target and here, where they have an address (a put's
 * origin, a get's result), and no request. */
static inline bool tug_ways_is_plain(const struct tug_rma *o, const void *here) {
    return o->origin_type == o->target_type && o->origin_count == o->target_count &&
           tug_type_is_basic(o->target_type) && o->request == NULL && o->target != MPI_PROC_NULL &&
           here != NULL;
}

#endif
