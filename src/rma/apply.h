/* Accumulates and fetching operations on a rank's memory: the one place where elements change.
 *
 * Memory is guarded by a row of mutexes, each for every so many bytes of it in turn. Who changes
 * elements holds the mutex of the bytes where they begin, so that operations on the same element,
 * whatever their type and length, exclude each other. MPI promises atomicity per element and no
 * more: the mutex is free between one stretch and the next.
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

/* Does an update of what begins at an offset of the guarded memory, and is at `memory` here: the
 * elements of one mutex after those of another. */
void tug_guard_apply(const struct tug_guard *guard, size_t offset, unsigned char *memory,
                     const struct tug_update *update);

#endif
