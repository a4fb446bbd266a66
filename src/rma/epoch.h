/* Epochs of windows in a lane of ours: who may access what, until when.
 *
 * In these lanes the host sees no operation, so the states are ours to keep and to check. They
 * follow MPICH 4.0: an epoch of one kind excludes those of the others; a fence begins an epoch only
 * if an operation follows. What an epoch waits for, and what it completes, is the lane's.
 *
 * Any thread, under MPI's rules for each call.
 */
#ifndef TUG_RMA_EPOCH_H
#define TUG_RMA_EPOCH_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tug_window;

/* Why this rank may touch a target's memory: bits of tug_epochs.everyone and of a target's access.
 */
enum {
    TUG_ACCESS_SHARED = 1,    /* MPI_Win_lock */
    TUG_ACCESS_EXCLUSIVE = 2, /* MPI_Win_lock */
    TUG_ACCESS_ALL = 4,       /* MPI_Win_lock_all; everyone only */
    TUG_ACCESS_FENCE = 8,     /* MPI_Win_fence; everyone only */
    TUG_ACCESS_START = 16,    /* MPI_Win_start; in everyone: such an epoch is open */
    TUG_ACCESS_NOCHECK = 32,  /* beside a lock: it was not taken, the program sees to it */
};
#define TUG_ACCESS_LOCKED (TUG_ACCESS_SHARED | TUG_ACCESS_EXCLUSIVE)

struct tug_epochs {
    _Atomic uint8_t everyone; /* what holds for every target */
    _Atomic bool fence_used;  /* the open fence epoch has seen an operation */
    _Atomic uint32_t nlocks;  /* targets with TUG_ACCESS_LOCKED */
    int nranks;
    _Atomic uint8_t *access; /* [nranks] */
    int *started, nstarted;  /* ranks with TUG_ACCESS_START, MPI_PROC_NULL among them */
    int *exposed, nexposed;  /* ranks that this one has posted to, likewise; NULL: none */
    _Atomic MPI_Group all;   /* of the window, once it has been asked for; MPI_GROUP_NULL before */
};

/* What the lane does in a synchronisation call; the epochs have been checked. An error class, or
 * MPI_SUCCESS. Ranks are the window's; members of a list of n that are negative are not in it. */
struct tug_lane {
    const char *name;
    int (*fence)(struct tug_window *window); /* then all operations of all ranks are complete */
    /* Whatever the program asserts: every post is sent, and every start waits for its posts. */
    int (*start)(struct tug_window *window, const int *ranks, int n);
    int (*complete)(struct tug_window *window, const int *ranks, int n);
    int (*post)(struct tug_window *window, const int *ranks, int n);
    int (*wait)(struct tug_window *window, const int *ranks, int n);
    int (*test)(struct tug_window *window, const int *ranks, int n, int *flag);
    int (*lock)(struct tug_window *window, int rank, bool exclusive);
    int (*lock_all)(struct tug_window *window);
    /* This rank's operations there are complete after; the lock is given back if it was taken. */
    int (*unlock)(struct tug_window *window, int rank, bool exclusive, bool taken);
    int (*unlock_all)(struct tug_window *window, bool taken);
    /* local: this rank's buffers may be used again, and no more is promised. */
    int (*flush)(struct tug_window *window, int rank, bool local);
    int (*flush_all)(struct tug_window *window, bool local);
    void (*release)(struct tug_window *window); /* nobody uses it any more. Collective. */
};

/* False without memory. */
bool tug_epochs_init(struct tug_epochs *epochs, int nranks);
void tug_epochs_fini(struct tug_epochs *epochs);

/* True if this rank may access the target (0 <= target < nranks); an operation follows. */
static inline __attribute__((always_inline)) bool tug_epochs_allow(struct tug_epochs *epochs,
                                                                   int target) {
    uint8_t everyone = atomic_load_explicit(&epochs->everyone, memory_order_relaxed);
    if (__builtin_expect(everyone & TUG_ACCESS_FENCE, 0)) {
        atomic_store_explicit(&epochs->fence_used, true, memory_order_relaxed);
        return true;
    }
    uint8_t access = atomic_load_explicit(&epochs->access[target], memory_order_relaxed);
    return (everyone & TUG_ACCESS_ALL) || (access & (TUG_ACCESS_LOCKED | TUG_ACCESS_START));
}

/* True between two fences: the targets come to the next one. */
static inline bool tug_epochs_meet(const struct tug_epochs *epochs) {
    return atomic_load_explicit(&epochs->everyone, memory_order_relaxed) & TUG_ACCESS_FENCE;
}

/* True while every rank, or every target, waits for this rank to end the epoch. */
static inline bool tug_epochs_await(const struct tug_epochs *epochs) {
    return atomic_load_explicit(&epochs->everyone, memory_order_relaxed) &
           (TUG_ACCESS_FENCE | TUG_ACCESS_START);
}

/* True while an epoch is open in which this rank may access others. */
bool tug_epochs_open(const struct tug_epochs *epochs);

/* True while any epoch is open, of access or of exposure: the window cannot be freed. */
bool tug_epochs_busy(const struct tug_epochs *epochs);

/* MPI_Win_x on a window in a lane of ours: what the call returns before the window's handler has
 * seen it. MPI_ERR_RMA_SYNC for a call that no epoch, or another, allows. */
int tug_epoch_fence(struct tug_window *window, int assert);
int tug_epoch_start(struct tug_window *window, MPI_Group group, int assert);
int tug_epoch_complete(struct tug_window *window);
int tug_epoch_post(struct tug_window *window, MPI_Group group, int assert);
int tug_epoch_wait(struct tug_window *window);
int tug_epoch_test(struct tug_window *window, int *flag);
int tug_epoch_lock(struct tug_window *window, int lock_type, int rank, int assert);
int tug_epoch_unlock(struct tug_window *window, int rank);
int tug_epoch_lock_all(struct tug_window *window, int assert);
int tug_epoch_unlock_all(struct tug_window *window);
int tug_epoch_flush(struct tug_window *window, int rank, bool local);
int tug_epoch_flush_all(struct tug_window *window, bool local);

#endif
