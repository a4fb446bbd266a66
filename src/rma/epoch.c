#include "rma/epoch.h"

#include <stdlib.h>

#include "host/host.h"
#include "rma/remote_owed.h"
#include "rma/window.h"

bool tug_epochs_init(struct tug_epochs *epochs, int nranks) {
    epochs->nranks = nranks;
    atomic_init(&epochs->all, MPI_GROUP_NULL);
    epochs->access = calloc((size_t)nranks, sizeof(*epochs->access));
    return epochs->access != NULL;
}

void tug_epochs_fini(struct tug_epochs *epochs) {
    MPI_Group all = atomic_load(&epochs->all);
    if (epochs->access != NULL && all != MPI_GROUP_NULL)
        tug_host.Group_free(&all);
    free((void *)epochs->access);
    free(epochs->started);
    free(epochs->exposed);
}

static uint8_t everyone(const struct tug_epochs *epochs) {
    return atomic_load_explicit(&epochs->everyone, memory_order_relaxed);
}

static bool fenced(const struct tug_epochs *epochs) {
    return (everyone(epochs) & TUG_ACCESS_FENCE) &&
           atomic_load_explicit(&epochs->fence_used, memory_order_relaxed);
}

static bool locked(const struct tug_epochs *epochs) {
    return atomic_load_explicit(&epochs->nlocks, memory_order_relaxed) > 0;
}

static bool is_rank(const struct tug_epochs *epochs, int rank) {
    return rank >= 0 && rank < epochs->nranks;
}

bool tug_epochs_open(const struct tug_epochs *epochs) {
    return locked(epochs) || (everyone(epochs) & (TUG_ACCESS_ALL | TUG_ACCESS_START));
}

bool tug_epochs_busy(const struct tug_epochs *epochs) {
    return tug_epochs_open(epochs) || epochs->exposed != NULL;
}

/* ---- active target ---- */

int tug_epoch_fence(struct tug_window *window, int assert) {
    struct tug_epochs *epochs = &window->epochs;
    if (assert & ~(MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED)) {
        return tug_host.Win_fence(assert, window->handle); /* which says what is wrong */
    }
    if (tug_epochs_open(epochs))
        return MPI_ERR_RMA_SYNC;
    int error = window->lane->fence(window);
    atomic_store(&epochs->fence_used, false);
    atomic_store(&epochs->everyone, assert &MPI_MODE_NOSUCCEED ? 0 : TUG_ACCESS_FENCE);
    return error;
}

/* The group of all ranks, the same one each time. */
static MPI_Group group_of(struct tug_window *window) {
    MPI_Group all = atomic_load(&window->epochs.all);
    if (all != MPI_GROUP_NULL)
        return all;
    MPI_Group mine, none = MPI_GROUP_NULL;
    tug_host.Comm_group(window->comm, &mine);
    if (atomic_compare_exchange_strong(&window->epochs.all, &none, mine))
        return mine;
    tug_host.Group_free(&mine); /* another thread was first */
    return none;
}

/* The members of a group by their ranks in the window, *n of them; MPI_PROC_NULL for who is not in
 * it. To be freed; NULL without memory. */
static int *ranks_of(struct tug_window *window, MPI_Group group, int *n) {
    tug_host.Group_size(group, n);
    int *ranks = malloc(2 * ((size_t)*n + 1) * sizeof(*ranks));
    if (ranks == NULL)
        return NULL;
    int *theirs = ranks + *n;
    for (int i = 0; i < *n; i++)
        theirs[i] = i;
    tug_host.Group_translate_ranks(group, *n, theirs, group_of(window), ranks);
    for (int i = 0; i < *n; i++)
        if (!is_rank(&window->epochs, ranks[i]))
            ranks[i] = MPI_PROC_NULL;
    return ranks;
}

int tug_epoch_start(struct tug_window *window, MPI_Group group, int assert) {
    struct tug_epochs *epochs = &window->epochs;
    int n;
    if (tug_epochs_open(epochs) || fenced(epochs))
        return MPI_ERR_RMA_SYNC;
    if (assert & ~MPI_MODE_NOCHECK)
        return MPI_ERR_ARG; /* as the host has it */
    int *ranks = ranks_of(window, group, &n);
    if (ranks == NULL)
        return MPI_ERR_NO_MEM;
    int error = window->lane->start(window, ranks, n);
    if (error != MPI_SUCCESS) {
        free(ranks);
        return error;
    }
    for (int i = 0; i < n; i++)
        if (ranks[i] != MPI_PROC_NULL)
            atomic_fetch_or(&epochs->access[ranks[i]], TUG_ACCESS_START);
    epochs->started = ranks;
    epochs->nstarted = n;
    atomic_store(&epochs->everyone, TUG_ACCESS_START);
    return MPI_SUCCESS;
}

int tug_epoch_complete(struct tug_window *window) {
    struct tug_epochs *epochs = &window->epochs;
    if (epochs->started == NULL)
        return MPI_ERR_RMA_SYNC;
    int error = window->lane->complete(window, epochs->started, epochs->nstarted);
    for (int i = 0; i < epochs->nstarted; i++)
        if (epochs->started[i] != MPI_PROC_NULL)
            atomic_fetch_and(&epochs->access[epochs->started[i]], (uint8_t)~TUG_ACCESS_START);
    free(epochs->started);
    epochs->started = NULL;
    atomic_store(&epochs->everyone, 0);
    return error;
}

int tug_epoch_post(struct tug_window *window, MPI_Group group, int assert) {
    struct tug_epochs *epochs = &window->epochs;
    if (assert & ~(MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT))
        return MPI_ERR_ARG; /* as the host has it */
    if (epochs->exposed != NULL)
        return MPI_ERR_RMA_SYNC;
    epochs->exposed = ranks_of(window, group, &epochs->nexposed);
    if (epochs->exposed == NULL)
        return MPI_ERR_NO_MEM;
    return window->lane->post(window, epochs->exposed, epochs->nexposed);
}

static void end_exposure(struct tug_epochs *epochs) {
    free(epochs->exposed);
    epochs->exposed = NULL;
}

int tug_epoch_wait(struct tug_window *window) {
    struct tug_epochs *epochs = &window->epochs;
    if (epochs->exposed == NULL)
        return MPI_ERR_RMA_SYNC;
    int error = window->lane->wait(window, epochs->exposed, epochs->nexposed);
    end_exposure(epochs);
    return error;
}

int tug_epoch_test(struct tug_window *window, int *flag) {
    struct tug_epochs *epochs = &window->epochs;
    if (flag == NULL)
        return MPI_ERR_ARG;
    if (epochs->exposed == NULL)
        return MPI_ERR_RMA_SYNC;
    int error = window->lane->test(window, epochs->exposed, epochs->nexposed, flag);
    if (*flag)
        end_exposure(epochs);
    return error;
}

/* ---- passive target ---- */

/* Relaxed: a thread that uses an epoch which another has opened has been told so by that. */
static void set_access(struct tug_epochs *epochs, int rank, int access) {
    atomic_store_explicit(&epochs->access[rank], (uint8_t)access, memory_order_relaxed);
}

int tug_epoch_lock(struct tug_window *window, int lock_type, int rank, int assert) {
    struct tug_epochs *epochs = &window->epochs;
    bool exclusive = lock_type == MPI_LOCK_EXCLUSIVE, take = !(assert &MPI_MODE_NOCHECK);
    if (!is_rank(epochs, rank) || (!exclusive && lock_type != MPI_LOCK_SHARED) ||
        (assert & ~MPI_MODE_NOCHECK)) { /* MPI_PROC_NULL, or the host says what is wrong */
        return tug_host.Win_lock(lock_type, tug_window_host_rank(window, rank), assert,
                                 window->handle);
    }
    if ((everyone(epochs) & (TUG_ACCESS_ALL | TUG_ACCESS_START)) || fenced(epochs) ||
        (atomic_load(&epochs->access[rank]) & TUG_ACCESS_LOCKED))
        return MPI_ERR_RMA_SYNC;
    if (take)
        tug_owed_settle(window, -1);
    int error = take ? window->lane->lock(window, rank, exclusive) : MPI_SUCCESS;
    if (error != MPI_SUCCESS)
        return error;
    if (everyone(epochs) & TUG_ACCESS_FENCE)
        atomic_fetch_and(&epochs->everyone, (uint8_t)~TUG_ACCESS_FENCE);
    set_access(epochs, rank,
               (exclusive ? TUG_ACCESS_EXCLUSIVE : TUG_ACCESS_SHARED) |
                   (take ? 0 : TUG_ACCESS_NOCHECK));
    atomic_fetch_add(&epochs->nlocks, 1);
    return MPI_SUCCESS;
}

int tug_epoch_unlock(struct tug_window *window, int rank) {
    struct tug_epochs *epochs = &window->epochs;
    if (!is_rank(epochs, rank))
        return tug_host.Win_unlock(rank, window->handle);
    uint8_t access = atomic_load(&epochs->access[rank]);
    if (!(access & TUG_ACCESS_LOCKED))
        return MPI_ERR_RMA_SYNC;
    tug_owed_settle(window, rank);
    set_access(epochs, rank, 0);
    atomic_fetch_sub(&epochs->nlocks, 1);
    return window->lane->unlock(window, rank, access & TUG_ACCESS_EXCLUSIVE,
                                !(access & TUG_ACCESS_NOCHECK));
}

int tug_epoch_lock_all(struct tug_window *window, int assert) {
    struct tug_epochs *epochs = &window->epochs;
    bool take = !(assert &MPI_MODE_NOCHECK);
    if (assert & ~MPI_MODE_NOCHECK) {
        return tug_host.Win_lock_all(assert, window->handle);
    }
    if (tug_epochs_open(epochs) || fenced(epochs))
        return MPI_ERR_RMA_SYNC;
    if (take)
        tug_owed_settle(window, -1);
    int error = take ? window->lane->lock_all(window) : MPI_SUCCESS;
    if (error == MPI_SUCCESS)
        atomic_store(&epochs->everyone, TUG_ACCESS_ALL | (take ? 0 : TUG_ACCESS_NOCHECK));
    return error;
}

int tug_epoch_unlock_all(struct tug_window *window) {
    uint8_t access = everyone(&window->epochs);
    if (!(access & TUG_ACCESS_ALL))
        return MPI_ERR_RMA_SYNC;
    tug_owed_settle(window, -1);
    atomic_store(&window->epochs.everyone, 0);
    return window->lane->unlock_all(window, !(access & TUG_ACCESS_NOCHECK));
}

int tug_epoch_flush(struct tug_window *window, int rank, bool local) {
    struct tug_epochs *epochs = &window->epochs;
    if (!is_rank(epochs, rank))
        return tug_host.Win_flush(rank, window->handle);
    if (!(everyone(epochs) & TUG_ACCESS_ALL) &&
        !(atomic_load_explicit(&epochs->access[rank], memory_order_relaxed) & TUG_ACCESS_LOCKED))
        return MPI_ERR_RMA_SYNC;
    return window->lane->flush(window, rank, local);
}

int tug_epoch_flush_all(struct tug_window *window, bool local) {
    if (!(everyone(&window->epochs) & TUG_ACCESS_ALL) && !locked(&window->epochs))
        return MPI_ERR_RMA_SYNC;
    return window->lane->flush_all(window, local);
}
