/* Accumulates and fetching operations that the origin does itself, where the target shares its node
 * and its memory is mapped, or it computes: read, combine, write back, under the target's mutex,
 * which its engine holds while it applies those that came as messages.
 */
#include <stdlib.h>
#include <sys/uio.h>

#include "engine/engine.h"
#include "llcl/llcl.h"
#include "rma/remote.h"
#include "rma/window.h"

#define LITTLE 256 /* bytes that need no memory of their own */
#define FEW 32

/* Where an operation's elements are at another rank: in one registration, and how it is reached. */
struct place {
    struct tug_key key;
    uint64_t offset;
    enum tug_shortcut shortcut;
};

/* The result of combining a piece at the target. */
struct outcome {
    int status;
    bool writes;    /* the piece was read: an error is one of writing */
    size_t moved;   /* bytes of the piece that have their final value */
    uint64_t fault; /* TUG_ERR_RANGE: the address that could not be read, or written */
};

/* Does a piece of an update, which begins `done` bytes on, where it is at the target. */
static struct outcome combine_there(const struct tug_update *piece, const struct tug_reach *there,
                                    size_t done, unsigned char *buffer) {
    const size_t bytes = piece->n * piece->extent;
    void *const at = (void *)(uintptr_t)(there->address + done);
    struct iovec mine = {buffer, bytes}, its = {at, bytes};
    struct outcome outcome = {.status =
                                  tug_reach_read_pieces(there, &(struct tug_cma_pieces){&mine, 1},
                                                        &(struct tug_cma_pieces){&its, 1})};
    outcome.writes = outcome.status == 0;
    if (outcome.writes && tug_update_apply(buffer, piece)) {
        mine = (struct iovec){buffer, bytes};
        its = (struct iovec){at, bytes};
        outcome.status = tug_reach_write_pieces(there, &(struct tug_cma_pieces){&mine, 1},
                                                &(struct tug_cma_pieces){&its, 1});
    }
    outcome.moved = outcome.status == 0 ? bytes : outcome.writes ? bytes - its.iov_len : 0;
    outcome.fault = (uintptr_t)its.iov_base;
    return outcome;
}

/* Combines n elements behind the first `done`. If the target's pages are protected, the target
 * accesses them itself. The mutex is free meanwhile, since the target's engine may want it. */
static int combine_piece(const struct tug_remote_combination *c, const struct tug_reach *there,
                         const struct place *place, size_t done, size_t n, struct tug_mutex *mutex,
                         unsigned char *buffer) {
    const int process = c->remote->targets[c->rank].process;
    const size_t element = c->update.extent;
    struct outcome last = {0};
    for (;;) {
        const struct tug_update piece = tug_update_part(&c->update, done, n);
        tug_mutex_lock(mutex);
        const struct outcome now = combine_there(&piece, there, done * element, buffer);
        tug_mutex_unlock(mutex);
        if (now.status != TUG_ERR_RANGE || (now.fault == last.fault && now.writes == last.writes) ||
            !tug_reach_touch(c->remote->domain->context, there, &place->key, process, now.fault,
                             buffer, now.writes))
            return now.status;
        last = now;
        const size_t part = now.moved % element; /* of an element across two pages */
        struct tug_reach rest = *there;
        rest.address += done * element + now.moved;
        if (part > 0)
            (void)tug_reach_write(&rest, buffer + now.moved, element - part);
        const size_t moved = (now.moved + element - 1) / element;
        done += moved;
        n -= moved;
    }
}

/* By way of a buffer. *begun: false if it can go another way. */
static int combine_pieces(const struct tug_remote_combination *c, const struct tug_reach *there,
                          const struct place *place, struct tug_mutex *mutex, bool *begun) {
    unsigned char little[LITTLE], *buffer = little;
    const size_t n = c->update.n, element = c->update.extent, most = TUG_REMOTE_LOCKED / element;
    int status = 0;
    *begun = false;
    if (n * element > sizeof(little) && (buffer = malloc((n < most ? n : most) * element)) == NULL)
        return TUG_ERR_NO_MEMORY;
    for (size_t done = 0; done < n && status == 0; done += most) {
        const size_t now = n - done < most ? n - done : most;
        status = combine_piece(c, there, place, done, now, mutex, buffer);
        *begun |= status == 0 || status == TUG_ERR_RANGE;
    }
    if (buffer != little)
        free(buffer);
    return status;
}

/* Is it sooner over than a message, which wakes the target's engine? Counts it. */
static bool is_worth_a_call(const struct tug_remote_combination *c,
                            const struct tug_remote_target *target) {
    const bool few = /* of many each is cheaper in packets, which wake the target's engine once */
        tug_burst.started < FEW && tug_burst_is_at_most(TUG_GATHERED_MOST);
    tug_burst_add();
    const bool worth = (few || c->update.bytes >= TUG_CMA_LEAST) && !tug_burst.peers_come &&
                       !tug_peer_serves(c->remote->domain->context, (uint32_t)target->process);
    return worth;
}

/* False: elsewhere, or they are not all there. */
static bool find_place(const struct tug_remote_combination *c, struct place *place) {
    struct tug_remote *remote = c->remote;
    const struct tug_remote_target *target = &remote->targets[c->rank];
    struct tug_region region;
    *place = (struct place){target->key, (uint64_t)c->offset, target->shortcut};
    if (remote->attachments == NULL)
        return true;
    if (tug_remote_find(remote, c->rank, place->offset, &region) != MPI_SUCCESS)
        return false;
    place->key = region.key;
    place->offset -= region.base;
    place->shortcut =
        tug_context_shortcut(remote->domain->context, (uint32_t)target->process, &region.key);
    return c->update.bytes <= region.bytes - place->offset;
}

/* This rank's own memory, if the operation may be done there at once. */
static bool begin_here(const struct tug_remote_combination *c, struct tug_reach *there) {
    struct tug_remote *remote = c->remote;
    const bool attached = remote->attachments != NULL;
    *there = (struct tug_reach){.mapped = attached ? (unsigned char *)(uintptr_t)c->offset
                                                   : remote->base + c->offset};
    return (!attached || tug_remote_check(remote, c->rank, (uint64_t)c->offset, c->update.bytes) ==
                             MPI_SUCCESS) &&
           tug_peer_is_quiet(&tug_remote_state_of(remote, c->rank)->peer);
}

/* One element, next to a target that computes. False: it goes another way. */
static bool gather(const struct tug_remote_combination *c, const struct place *place,
                   struct tug_peer *peer) {
    const size_t bytes = c->update.extent;
    const bool simple = c->update.n == 1 && (bytes & (bytes - 1)) == 0 && bytes <= 8;
    return simple && tug_peer_may_gather(peer) &&
           tug_vector_combine(peer, &place->key, place->offset, &c->update,
                              tug_remote_mutex(c->remote, c->rank));
}

/* The memory at the target, if the operation is for this way. *gathered: it is begun. */
static bool begin(const struct tug_remote_combination *c, struct tug_reach *there,
                  struct place *place, bool *gathered) {
    const struct tug_remote *remote = c->remote;
    const struct tug_remote_target *target = &remote->targets[c->rank];
    struct tug_remote_state *state = tug_remote_state_of(remote, c->rank);
    *gathered = false;
    if (c->rank == remote->rank)
        return begin_here(c, there);
    if (!find_place(c, place) || place->shortcut == TUG_SHORTCUT_NONE)
        return false;
    if (place->shortcut == TUG_SHORTCUT_SINGLE && !c->now && gather(c, place, &state->peer))
        return *gathered = true;
    if (tug_peer_has_gathered(&state->peer)) {
        tug_vector_submit(&state->peer);
        tug_batch_settle(); /* its record: or it is not quiet */
    }
    return (place->shortcut == TUG_SHORTCUT_ANY || is_worth_a_call(c, target)) &&
           tug_peer_is_quiet(&state->peer) &&
           tug_reach_begin(remote->domain->context, &place->key, (uint32_t)target->process,
                           place->offset, c->update.bytes, there);
}

bool tug_remote_combine(const struct tug_remote_combination *c, int *error) {
    const struct tug_guard guard = tug_remote_guard(c->remote, c->rank);
    struct tug_reach there;
    struct place place;
    bool begun = true, gathered;
    int status = 0;
    *error = MPI_SUCCESS;
    if (guard.mutexes == NULL || !begin(c, &there, &place, &gathered))
        return false;
    if (gathered)
        return true;
    if (there.mapped != NULL)
        tug_guard_apply(&guard, 0, there.mapped, &c->update);
    else
        status = combine_pieces(c, &there, &place, guard.mutexes, &begun);
    tug_reach_end(&there);
    if (c->rank == c->remote->rank && c->update.result != NULL)
        tug_engine_poll(); /* who polls its own memory in a loop waits for what others send */
    *error = tug_remote_error(status);
    return begun;
}
