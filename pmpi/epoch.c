/* Epochs of windows in the direct lane: who may access what, until when.
 *
 * Operations are plain loads and stores, and the caller (sync.c) puts memory fences around every
 * call here. Fences are a barrier in shared memory, and MPI_Win_lock takes the target's lock there;
 * neither needs the host. Post-start-complete-wait is the host's.
 *
 * The states follow MPICH 4.0: an epoch of one kind excludes those of the others; a fence begins an
 * epoch only if an operation follows.
 */
#include "engine/locks.h"
#include "host/host.h"
#include "pmpi/direct.h"
#include "pmpi/shim.h"
#include "pmpi/window.h"

static uint8_t everyone(const struct tug_direct *direct) {
    return atomic_load_explicit(&direct->everyone, memory_order_relaxed);
}

static bool fenced(const struct tug_direct *direct) {
    return (everyone(direct) & TUG_ACCESS_FENCE) &&
           atomic_load_explicit(&direct->fence_used, memory_order_relaxed);
}

static bool locked(const struct tug_direct *direct) {
    return atomic_load_explicit(&direct->nlocks, memory_order_relaxed) > 0;
}

bool tug_direct_in_epoch(const struct tug_direct *direct) {
    return locked(direct) || (everyone(direct) & (TUG_ACCESS_ALL | TUG_ACCESS_START));
}

/* ---- active target ---- */

int tug_direct_fence(struct tug_window *window, int assert) {
    struct tug_direct *direct = window->direct;
    if (assert & ~(MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED))
        return tug_host.Win_fence(assert, window->handle); /* which says what is wrong */
    if (tug_direct_in_epoch(direct))
        return MPI_ERR_RMA_SYNC;
    tug_barrier_wait(direct->fence, (uint32_t)direct->nranks, tug_shim_poll_host);
    atomic_store(&direct->fence_used, false);
    atomic_store(&direct->everyone, assert &MPI_MODE_NOSUCCEED ? 0 : TUG_ACCESS_FENCE);
    return MPI_SUCCESS;
}

/* The targets of the epoch: members of the group, by their ranks in the window. */
static void grant(struct tug_direct *direct, MPI_Group group, MPI_Win win) {
    MPI_Group all;
    int n;
    tug_host.Group_size(group, &n);
    tug_host.Win_get_group(win, &all);
    for (int i = 0; i < n; i++) {
        int rank;
        tug_host.Group_translate_ranks(group, 1, &i, all, &rank);
        if (rank >= 0 && rank < direct->nranks)
            atomic_fetch_or(&direct->targets[rank].access, TUG_ACCESS_START);
    }
    tug_host.Group_free(&all);
}

int tug_direct_start(struct tug_window *window, MPI_Group group, int assert) {
    struct tug_direct *direct = window->direct;
    if (tug_direct_in_epoch(direct) || fenced(direct))
        return MPI_ERR_RMA_SYNC;
    int error = tug_host.Win_start(group, assert, window->handle);
    if (error != MPI_SUCCESS)
        return error;
    grant(direct, group, window->handle);
    atomic_store(&direct->everyone, TUG_ACCESS_START);
    return MPI_SUCCESS;
}

int tug_direct_complete(struct tug_window *window) {
    struct tug_direct *direct = window->direct;
    int error = tug_host.Win_complete(window->handle);
    if (error != MPI_SUCCESS)
        return error;
    for (int r = 0; r < direct->nranks; r++)
        atomic_fetch_and(&direct->targets[r].access, (uint8_t)~TUG_ACCESS_START);
    atomic_store(&direct->everyone, 0);
    return MPI_SUCCESS;
}

/* ---- passive target ---- */

static bool is_rank(const struct tug_direct *direct, int rank) {
    return rank >= 0 && rank < direct->nranks;
}

static void take(struct tug_direct_target *target, int lock_type, int assert) {
    if (assert & MPI_MODE_NOCHECK)
        return;
    if (lock_type == MPI_LOCK_EXCLUSIVE)
        tug_rwlock_lock_exclusive(&target->control->lock, tug_shim_poll_host);
    else
        tug_rwlock_lock_shared(&target->control->lock, tug_shim_poll_host);
}

static void give_back(struct tug_direct_target *target, unsigned access) {
    if (access & TUG_ACCESS_NOCHECK)
        return;
    if (access & TUG_ACCESS_EXCLUSIVE)
        tug_rwlock_unlock_exclusive(&target->control->lock);
    else
        tug_rwlock_unlock_shared(&target->control->lock);
}

int tug_direct_lock(struct tug_window *window, int lock_type, int rank, int assert) {
    struct tug_direct *direct = window->direct;
    bool exclusive = lock_type == MPI_LOCK_EXCLUSIVE;
    if (!is_rank(direct, rank) || (!exclusive && lock_type != MPI_LOCK_SHARED) ||
        (assert & ~MPI_MODE_NOCHECK)) /* MPI_PROC_NULL, or the host says what is wrong */
        return tug_host.Win_lock(lock_type, rank, assert, window->handle);
    struct tug_direct_target *target = &direct->targets[rank];
    if ((everyone(direct) & (TUG_ACCESS_ALL | TUG_ACCESS_START)) || fenced(direct) ||
        (atomic_load(&target->access) & TUG_ACCESS_LOCKED))
        return MPI_ERR_RMA_SYNC;
    take(target, lock_type, assert);
    atomic_fetch_and(&direct->everyone, (uint8_t)~TUG_ACCESS_FENCE);
    atomic_store(&target->access, (exclusive ? TUG_ACCESS_EXCLUSIVE : TUG_ACCESS_SHARED) |
                                      (assert &MPI_MODE_NOCHECK ? TUG_ACCESS_NOCHECK : 0));
    atomic_fetch_add(&direct->nlocks, 1);
    return MPI_SUCCESS;
}

int tug_direct_unlock(struct tug_window *window, int rank) {
    struct tug_direct *direct = window->direct;
    if (!is_rank(direct, rank))
        return tug_host.Win_unlock(rank, window->handle);
    struct tug_direct_target *target = &direct->targets[rank];
    uint8_t access = atomic_load(&target->access);
    if (!(access & TUG_ACCESS_LOCKED))
        return MPI_ERR_RMA_SYNC;
    atomic_store(&target->access, 0);
    atomic_fetch_sub(&direct->nlocks, 1);
    give_back(target, access);
    return MPI_SUCCESS;
}

int tug_direct_lock_all(struct tug_window *window, int assert) {
    struct tug_direct *direct = window->direct;
    if (assert & ~MPI_MODE_NOCHECK)
        return tug_host.Win_lock_all(assert, window->handle);
    if (tug_direct_in_epoch(direct) || fenced(direct))
        return MPI_ERR_RMA_SYNC;
    for (int r = 0; r < direct->nranks; r++)
        take(&direct->targets[r], MPI_LOCK_SHARED, assert);
    atomic_store(&direct->everyone,
                 TUG_ACCESS_ALL | (assert &MPI_MODE_NOCHECK ? TUG_ACCESS_NOCHECK : 0));
    return MPI_SUCCESS;
}

int tug_direct_unlock_all(struct tug_window *window) {
    struct tug_direct *direct = window->direct;
    uint8_t access = everyone(direct);
    if (!(access & TUG_ACCESS_ALL))
        return MPI_ERR_RMA_SYNC;
    atomic_store(&direct->everyone, 0);
    for (int r = 0; r < direct->nranks; r++)
        give_back(&direct->targets[r], access);
    return MPI_SUCCESS;
}

int tug_direct_flush(struct tug_window *window, int rank) {
    struct tug_direct *direct = window->direct;
    if (!is_rank(direct, rank))
        return tug_host.Win_flush(rank, window->handle);
    if (!(everyone(direct) & TUG_ACCESS_ALL) &&
        !(atomic_load_explicit(&direct->targets[rank].access, memory_order_relaxed) &
          TUG_ACCESS_LOCKED))
        return MPI_ERR_RMA_SYNC;
    return MPI_SUCCESS;
}

int tug_direct_flush_all(struct tug_window *window) {
    struct tug_direct *direct = window->direct;
    if (!(everyone(direct) & TUG_ACCESS_ALL) && !locked(direct))
        return MPI_ERR_RMA_SYNC;
    return MPI_SUCCESS;
}
