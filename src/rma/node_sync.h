/* Synchronisation of windows whose ranks share a node, in memory that they share: what fences,
 * epochs and locks of both lanes of ours wait for there. No target's engine has a part in it.
 *
 *     | fence | lock of all | control of rank 0 | ... | n-1 | posts for rank 0 | ... | n-1 |
 *
 * A rank's control has the lock that MPI_Win_lock takes, the number of access epochs to this rank
 * that have ended, and the mutexes of its memory (apply.h).
 *
 * MPI_Win_lock_all takes all ranks' locks, shared: at once unless some rank has had one exclusively
 * since all were last taken one by one (locks.h).
 *
 * A post is a byte, set by the rank that exposes its memory and cleared by the one that starts an
 * epoch there: no second post of the first rank can come before that, for its first exposure ends
 * only after the other's epoch. Those who end an epoch are counted for the same reason: only the
 * ranks of the open exposure can.
 *
 * In the packet lane the window may have ranks on other nodes, too: then this is for the ranks of a
 * node among themselves, who are numbered as on the node. The lock of all is not used there.
 *
 * The memory lasts longer than a window: it is zeroed at the window's end, each rank's part by
 * itself, so that the next window finds it ready. The fence's counters go on.
 *
 * Whoever waits keeps its engine going as long as it is awake (locks.h), and its host MPI.
 *
 * Threads: any, under MPI's rules for epochs.
 */
#ifndef TUG_RMA_NODE_SYNC_H
#define TUG_RMA_NODE_SYNC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/locks.h"

struct tug_window;

#define TUG_STRIPES 32        /* mutexes of a target */
#define TUG_STRIPE_BYTES 1024 /* of its memory that one of them is for, in turn */

/* In shared memory. */
struct tug_control {
    struct tug_rwlock lock;
    _Atomic uint32_t completes __attribute__((aligned(TUG_CACHE_LINE)));
    struct tug_bell bell; /* rung when a post has come, or completes has moved */
    struct tug_mutex stripes[TUG_STRIPES];
};

struct tug_node_sync {
    struct tug_barrier *fence;
    struct tug_all_lock *all;
    struct tug_control *controls;
    _Atomic uint8_t *posts; /* [nranks][row] */
    size_t row;
    int nranks, rank;
    bool at_once;            /* the lock of all is held, or, if any, each rank's */
    uint32_t completes_used; /* epochs to this rank that exposures have waited for */
};

/* Bytes of shared memory for so many ranks; a multiple of a cache line. */
size_t tug_node_sync_bytes(int nranks);

/* Lays it out in that memory, which is zeroed, or has come through tug_node_sync_end() of every
 * rank of the window before. Local. */
void tug_node_sync_begin(struct tug_node_sync *sync, void *memory, int nranks, int rank);

/* No rank uses it any more: the last fence is over. Local. */
void tug_node_sync_end(const struct tug_node_sync *sync);

/* All ranks have come. */
void tug_node_meet(const struct tug_node_sync *sync);

/* This rank has ended an access epoch to that one. */
void tug_node_end_access(const struct tug_node_sync *sync, int rank);

/* Have n ranks ended their epochs to this one? Waits until they have. Counts from there for the
 * next exposure. */
bool tug_node_have_completed(const struct tug_node_sync *sync, uint32_t n);
void tug_node_await_completes(const struct tug_node_sync *sync, uint32_t n);
void tug_node_end_exposure(struct tug_node_sync *sync, uint32_t n);

/* What a lane does in synchronisation calls (epoch.h) where all ranks share a node: its operations
 * are flushed, and nothing is told but by that memory. */
int tug_node_fence(struct tug_window *window);
int tug_node_start(struct tug_window *window, const int *ranks, int n);
int tug_node_complete(struct tug_window *window, const int *ranks, int n);
int tug_node_post(struct tug_window *window, const int *ranks, int n);
int tug_node_wait(struct tug_window *window, const int *ranks, int n);
int tug_node_test(struct tug_window *window, const int *ranks, int n, int *flag);
int tug_node_lock(struct tug_window *window, int rank, bool exclusive);
int tug_node_unlock(struct tug_window *window, int rank, bool exclusive, bool taken);
int tug_node_lock_all(struct tug_window *window);
int tug_node_unlock_all(struct tug_window *window, bool taken);

#define TUG_NODE_LANE                                                                              \
    .fence = tug_node_fence, .start = tug_node_start, .complete = tug_node_complete,               \
    .post = tug_node_post, .wait = tug_node_wait, .test = tug_node_test, .lock = tug_node_lock,    \
    .lock_all = tug_node_lock_all, .unlock = tug_node_unlock, .unlock_all = tug_node_unlock_all

#endif
