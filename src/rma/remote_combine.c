/* Accumulates and fetching operations that the origin does itself, where the target shares its node
 * and its memory is mapped, or it computes: read, combine, write back, under the target's mutex,
 * which its engine holds while it applies those that came as messages.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "llcl/llcl.h"
#include "rma/remote.h"
#include "rma/window.h"

#define LITTLE 256       /* bytes that need no memory of their own */
#define PIECE (32 << 10) /* bytes under the mutex at once: about ten microseconds */

/* The bytes that begin `done` bytes on, and are at `memory`. False: they are as they were. */
static bool combine_here(const struct tug_remote_combination *c, size_t done, size_t bytes,
                         unsigned char *memory) {
    const bool changes =
        c->origin != NULL && (c->compare == NULL || memcmp(memory, c->compare, bytes) == 0);
    if (c->result != NULL)
        memcpy((unsigned char *)c->result + done, memory, bytes);
    if (changes)
        c->reduce(memory, (const unsigned char *)c->origin + done, bytes / c->element);
    return changes;
}

/* The same where they are at the target. A TUG_ERR_*; *read: they could be read. */
static int combine_there(const struct tug_remote_combination *c, const struct tug_reach *there,
                         size_t done, size_t bytes, unsigned char *buffer, bool *read) {
    const tug_context *context = c->remote->domain->context;
    struct tug_reach piece = *there;
    piece.address += done;
    int status = tug_reach_read(context, &piece, buffer, bytes);
    if (status != 0)
        return status;
    *read = true;
    return combine_here(c, done, bytes, buffer) ? tug_reach_write(context, &piece, buffer, bytes)
                                                : 0;
}

/* *begun: something may have been changed. */
static int combine_pieces(const struct tug_remote_combination *c, const struct tug_reach *there,
                          struct tug_mutex *mutex, bool *begun) {
    unsigned char little[LITTLE], *buffer = little;
    const size_t all = c->n * c->element, most = PIECE / c->element * c->element;
    int status = 0;
    *begun = there->mapped != NULL;
    if (there->mapped == NULL && all > sizeof(little))
        buffer = malloc(all < most ? all : most);
    if (buffer == NULL)
        return TUG_ERR_NO_MEMORY;
    for (size_t done = 0; done < all && status == 0; done += most) {
        const size_t now = all - done < most ? all - done : most;
        tug_mutex_lock(mutex);
        if (there->mapped != NULL)
            (void)combine_here(c, done, now, there->mapped + done);
        else
            status = combine_there(c, there, done, now, buffer, begun);
        tug_mutex_unlock(mutex);
    }
    if (buffer != little)
        free(buffer);
    return status;
}

/* Is it sooner over than a message, which wakes the target's engine? Counts it. */
static bool is_worth_a_call(const struct tug_remote_combination *c,
                            const struct tug_remote_target *target) {
    const bool few = tug_burst_is_at_most(TUG_REMOTE_FEW);
    tug_burst_add();
    return (few || c->n * c->element >= TUG_CMA_LEAST) && !tug_burst.peers_come &&
           !tug_peer_serves(c->remote->domain->context, (uint32_t)target->process);
}

/* The memory at the target, if the operation is for this way. */
static bool begin(const struct tug_remote_combination *c, struct tug_reach *there) {
    const struct tug_remote *remote = c->remote;
    const struct tug_remote_target *target = &remote->targets[c->rank];
    if (c->rank == remote->rank) {
        *there = (struct tug_reach){.mapped = remote->base + c->offset};
        return tug_remote_is_quiet(tug_remote_state_of(remote, c->rank));
    }
    return (target->shortcut == TUG_SHORTCUT_ANY ||
            (target->shortcut == TUG_SHORTCUT_SINGLE && is_worth_a_call(c, target))) &&
           tug_remote_is_quiet(tug_remote_state_of(remote, c->rank)) &&
           tug_reach_begin(remote->domain->context, &target->key, (uint32_t)target->process,
                           (uint64_t)c->offset, c->n * c->element, there);
}

bool tug_remote_combine(const struct tug_remote_combination *c, int *error) {
    struct tug_mutex *mutex = tug_remote_mutex(c->remote, c->rank);
    struct tug_reach there;
    bool begun;
    if (mutex == NULL || !begin(c, &there))
        return false;
    const int status = combine_pieces(c, &there, mutex, &begun);
    tug_reach_end(&there);
    if (c->rank == c->remote->rank && c->result != NULL)
        tug_engine_poll(); /* who polls its own memory in a loop waits for what others send */
    *error = tug_remote_error(status);
    return begun;
}
