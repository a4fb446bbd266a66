/* Accumulates and fetching operations on a rank's memory: the one place where elements change.
 *
 * Memory is guarded by a row of n mutexes: byte b belongs to mutex b / bytes % n. An update holds
 * the mutex of the byte where an element begins, so that two updates of elements that begin at the
 * same byte exclude each other, whatever their types and lengths. MPI promises atomicity for each
 * element and no more: the mutex is free between one stretch and the next.
 *
 *     direct lane     TUG_STRIPES mutexes for TUG_STRIPE_BYTES each, so that several origins get on
 *     packet lane     the first of them alone, for all memory that ranks of the node reach: the
 *                     target's engine takes it once for a run of messages
 *                     no mutex where only the target's engine gets there, one handler at a time
 *
 * Any thread.
 */
#ifndef TUG_RMA_APPLY_H
#define TUG_RMA_APPLY_H

#include <stddef.h>

#include "host/reduction.h"
#include "node/locks.h"

struct tug_guard {
    struct tug_mutex *mutexes; /* NULL: none is needed */
    size_t n;                  /* of them */
    size_t bytes;              /* that one of them is for, in turn */
};

static inline void tug_guard_lock(struct tug_mutex *mutex) {
    if (mutex != NULL)
        tug_mutex_lock(mutex);
}

static inline void tug_guard_unlock(struct tug_mutex *mutex) {
    if (mutex != NULL)
        tug_mutex_unlock(mutex);
}

/* Does an update of elements that begin under one mutex. */
static inline __attribute__((always_inline)) void
tug_guard_apply_part(const struct tug_guard *guard, size_t offset, unsigned char *memory,
                     const struct tug_update *part) {
    struct tug_mutex *mutex = NULL;
    if (guard->mutexes != NULL)
        mutex = &guard->mutexes[offset / guard->bytes % guard->n];
    tug_guard_lock(mutex);
    (void)tug_update_apply(memory, part);
    tug_guard_unlock(mutex);
}

/* Does an update of what begins at an offset of the guarded memory, and is at `memory` here: the
 * elements of one mutex after those of another. Inline: where the guard is constant the
 * compiler removes the division. */
static inline __attribute__((always_inline)) void tug_guard_apply(const struct tug_guard *guard,
                                                                  size_t offset,
                                                                  unsigned char *memory,
                                                                  const struct tug_update *update) {
    const size_t extent = update->extent;
    if (__builtin_expect(update->n == 1, 1)) {
        tug_guard_apply_part(guard, offset, memory, update);
        return;
    }
    for (size_t done = 0, now; done < update->n; done += now) {
        const size_t at = offset + done * extent, left = update->n - done;
        const size_t room = guard->bytes - at % guard->bytes;
        /* as many as begin in this stretch */
        now = left * extent <= room ? left : (room + extent - 1) / extent;
        const struct tug_update part = tug_update_part(update, done, now);
        tug_guard_apply_part(guard, at, memory + done * extent, &part);
    }
}

#endif
