#include "rma/node_sync.h"

#include <string.h>

#include "engine/engine.h"
#include "engine/host_progress.h"
#include "rma/window.h"

static size_t row_of(int nranks) {
    return ((size_t)nranks + TUG_CACHE_LINE - 1) / TUG_CACHE_LINE * TUG_CACHE_LINE;
}

size_t tug_node_sync_bytes(int nranks) {
    return sizeof(struct tug_barrier) + sizeof(struct tug_all_lock) +
           (size_t)nranks * (sizeof(struct tug_control) + row_of(nranks));
}

void tug_node_sync_begin(struct tug_node_sync *sync, void *memory, int nranks, int rank) {
    *sync = (struct tug_node_sync){.fence = memory, .nranks = nranks, .rank = rank};
    sync->all = (struct tug_all_lock *)(sync->fence + 1);
    sync->controls = (struct tug_control *)(sync->all + 1);
    sync->posts = (_Atomic uint8_t *)(sync->controls + nranks);
    sync->row = row_of(nranks);
}

/* Others may still be on their way out of the fence, which stays as it is. */
void tug_node_sync_end(const struct tug_node_sync *sync) {
    memset(&sync->controls[sync->rank], 0, sizeof(sync->controls[sync->rank]));
    memset((void *)(sync->posts + (size_t)sync->rank * sync->row), 0, sync->row);
    if (sync->rank == 0)
        memset(sync->all, 0, sizeof(*sync->all));
}

void tug_node_meet(const struct tug_node_sync *sync) {
    tug_barrier_wait(sync->fence, (uint32_t)sync->nranks, tug_engine_poll_host);
}

/* In the direct lane operations are complete. */
static int flush(struct tug_window *window, int rank) {
    return window->direct != NULL ? MPI_SUCCESS : window->lane->flush(window, rank, false);
}

static int flush_all(struct tug_window *window) {
    return window->direct != NULL ? MPI_SUCCESS : window->lane->flush_all(window, false);
}

int tug_node_fence(struct tug_window *window) {
    const int error = flush_all(window);
    tug_node_meet(window->sync);
    return error;
}

/* ---- post, start, complete, wait ---- */

/* Whether `by` has posted to `to`. */
static _Atomic uint8_t *post_of(const struct tug_node_sync *sync, int by, int to) {
    return &sync->posts[(size_t)to * sync->row + (size_t)by];
}

int tug_node_post(struct tug_window *window, const int *ranks, int n) {
    struct tug_node_sync *sync = window->sync;
    for (int i = 0; i < n; i++)
        if (ranks[i] >= 0) {
            /* seq_cst: releases what this rank has stored, and comes before the look at the bell */
            atomic_store(post_of(sync, sync->rank, ranks[i]), 1);
            (void)tug_bell_ring(&sync->controls[ranks[i]].bell, true);
        }
    return MPI_SUCCESS;
}

static bool is_set(void *flag) {
    return atomic_load((_Atomic uint8_t *)flag); /* acquire: pairs with tug_node_post() */
}

int tug_node_start(struct tug_window *window, const int *ranks, int n) {
    struct tug_node_sync *sync = window->sync;
    struct tug_bell *bell = &sync->controls[sync->rank].bell;
    for (int i = 0; i < n; i++)
        if (ranks[i] >= 0) {
            _Atomic uint8_t *posted = post_of(sync, ranks[i], sync->rank);
            tug_shared_wait(is_set, (void *)posted, bell, tug_engine_poll_host);
            /* relaxed: the next post comes behind this rank's next tug_node_complete() */
            atomic_store_explicit(posted, 0, memory_order_relaxed);
        }
    return MPI_SUCCESS;
}

void tug_node_end_access(const struct tug_node_sync *sync, int rank) {
    struct tug_control *control = &sync->controls[rank];
    atomic_fetch_add(&control->completes, 1); /* seq_cst: as in tug_node_post() */
    (void)tug_bell_ring(&control->bell, true);
}

int tug_node_complete(struct tug_window *window, const int *ranks, int n) {
    int error = MPI_SUCCESS;
    for (int i = 0; i < n; i++)
        if (ranks[i] >= 0) {
            const int flushed = flush(window, ranks[i]);
            error = error != MPI_SUCCESS ? error : flushed;
        }
    for (int i = 0; i < n; i++)
        if (ranks[i] >= 0)
            tug_node_end_access(window->sync, ranks[i]);
    return error;
}

struct exposure {
    _Atomic uint32_t *completes;
    uint32_t awaited;
};

static bool is_over(void *argument) {
    const struct exposure *exposure = argument;
    /* acquire: pairs with tug_node_end_access() */
    return atomic_load(exposure->completes) == exposure->awaited;
}

static struct exposure exposure_to(const struct tug_node_sync *sync, uint32_t n) {
    return (struct exposure){&sync->controls[sync->rank].completes, sync->completes_used + n};
}

bool tug_node_have_completed(const struct tug_node_sync *sync, uint32_t n) {
    struct exposure exposure = exposure_to(sync, n);
    return is_over(&exposure);
}

void tug_node_await_completes(const struct tug_node_sync *sync, uint32_t n) {
    struct exposure exposure = exposure_to(sync, n);
    tug_shared_wait(is_over, &exposure, &sync->controls[sync->rank].bell, tug_engine_poll_host);
}

void tug_node_end_exposure(struct tug_node_sync *sync, uint32_t n) {
    sync->completes_used += n;
}

static uint32_t count(const int *ranks, int n) {
    uint32_t counted = 0;
    for (int i = 0; i < n; i++)
        counted += ranks[i] >= 0;
    return counted;
}

int tug_node_wait(struct tug_window *window, const int *ranks, int n) {
    const uint32_t origins = count(ranks, n);
    tug_node_await_completes(window->sync, origins);
    tug_node_end_exposure(window->sync, origins);
    return MPI_SUCCESS;
}

/* Who asks in a loop keeps its engine and its host going, as who waits does. */
int tug_node_test(struct tug_window *window, const int *ranks, int n, int *flag) {
    const uint32_t origins = count(ranks, n);
    *flag = tug_node_have_completed(window->sync, origins);
    if (*flag) {
        tug_node_end_exposure(window->sync, origins);
        return MPI_SUCCESS;
    }
    tug_engine_poll();
    tug_engine_poll_host();
    return MPI_SUCCESS;
}

/* ---- locks ---- */

int tug_node_lock(struct tug_window *window, int rank, bool exclusive) {
    struct tug_node_sync *sync = window->sync;
    struct tug_rwlock *lock = &sync->controls[rank].lock;
    if (exclusive) {
        tug_rwlock_lock_exclusive(lock, tug_engine_poll_host);
        tug_all_lock_close(sync->all, tug_engine_poll_host);
    } else {
        tug_rwlock_lock_shared(lock, tug_engine_poll_host);
    }
    return MPI_SUCCESS;
}

static void unlock(const struct tug_node_sync *sync, int rank, bool exclusive) {
    struct tug_rwlock *lock = &sync->controls[rank].lock;
    if (exclusive)
        tug_rwlock_unlock_exclusive(lock);
    else
        tug_rwlock_unlock_shared(lock);
}

int tug_node_unlock(struct tug_window *window, int rank, bool exclusive, bool taken) {
    const int error = flush(window, rank);
    if (taken)
        unlock(window->sync, rank, exclusive);
    return error;
}

int tug_node_lock_all(struct tug_window *window) {
    struct tug_node_sync *sync = window->sync;
    sync->at_once = tug_all_lock_try(sync->all);
    if (sync->at_once)
        return MPI_SUCCESS;
    for (int r = 0; r < sync->nranks; r++)
        (void)tug_node_lock(window, r, false);
    tug_all_lock_open(sync->all);
    return MPI_SUCCESS;
}

int tug_node_unlock_all(struct tug_window *window, bool taken) {
    struct tug_node_sync *sync = window->sync;
    const int error = flush_all(window);
    if (taken && sync->at_once)
        tug_all_lock_leave(sync->all);
    for (int r = 0; taken && !sync->at_once && r < sync->nranks; r++)
        unlock(sync, r, false);
    return error;
}
