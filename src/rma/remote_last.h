/* Puts and gets that are like the one before them, as many others are. What was found out for that
 * holds for them, but for their place and their epoch.
 *
 * Any thread. Inline, as every put and get of a program comes through here; the first ones, and all
 * that are different, go on to remote_rma.c.
 */
#ifndef TUG_RMA_REMOTE_LAST_H
#define TUG_RMA_REMOTE_LAST_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/stats.h"
#include "host/device.h"
#include "llcl/small.h"
#include "rma/remote.h"
#include "rma/remote_owed.h"
#include "rma/window.h"

/* What LLCL knows it by. */
static inline void tug_remote_form(uint64_t form[TUG_FORM_WORDS], const struct tug_remote *remote,
                                   int rank, MPI_Datatype type, MPI_Count n) {
    form[0] = (uint64_t)remote->serial << 32 | (uint32_t)rank;
    form[1] = (uint64_t)(uintptr_t)type;
    form[2] = (uint64_t)n;
}

/* A put or get on a window. False: it goes the long way, nothing happened. */
static inline __attribute__((always_inline)) bool
tug_remote_join_last(MPI_Win win, bool writes, const void *here, MPI_Count n, MPI_Datatype type,
                     int rank, MPI_Aint disp, MPI_Count target_n, MPI_Datatype target_type) {
    struct tug_window *window;
    if (tug_burst.follows == TUG_FOLLOWS_NOTHING || tug_stats_on || tug_has_devices() ||
        (window = tug_window_find(win)) == NULL || window->remote == NULL || here == NULL)
        return false;
    const struct tug_remote *remote = window->remote;
    const struct tug_remote_target *target = &remote->targets[rank]; /* if it is that one */
    const uint8_t wanted = atomic_load_explicit(&remote->contact_wanted, memory_order_relaxed);
    uint64_t form[TUG_FORM_WORDS];
    MPI_Aint offset;
    tug_remote_form(form, remote, rank, type, n);
    if (type != target_type || n != target_n || !tug_small_is_like(writes, form) ||
        atomic_load_explicit(&tug_owed_locks, memory_order_relaxed) != 0 ||
        !tug_epochs_allow(&window->epochs, rank) ||
        (wanted != 0 && !tug_remote_has_contact(remote, rank, wanted)) || disp < 0 ||
        __builtin_mul_overflow(disp, target->disp_unit, &offset) ||
        offset > target->size - (MPI_Aint)tug_small_bytes() || offset < 0)
        return false;
    return tug_small_follow(writes, (uint64_t)offset, here);
}

#endif
