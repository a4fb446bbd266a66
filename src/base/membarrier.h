/* A fence that one thread makes all others execute: membarrier(2).
 *
 * A writer on the hot path stores, and then loads a word without a fence in between, so its store
 * may become visible after its load. A sleeper that has set the word calls tug_membarrier() and
 * then looks: either it sees the store, or the writer's load comes later and sees the word.
 *
 *     writer:   store data;  load word  -> set: wakes the sleeper
 *     sleeper:  set word;  tug_membarrier();  load data  -> new: does not sleep
 *
 * The fence reaches the threads of all processes of this machine that have registered. Kernels
 * before 4.16 lack the call, and a container may refuse it. So callers first wait for a time in
 * which a store becomes visible on all known machines; no architecture promises it.
 *
 * Any thread.
 */
#ifndef TUG_BASE_MEMBARRIER_H
#define TUG_BASE_MEMBARRIER_H

#include <sys/syscall.h>
#include <unistd.h>

/* linux/membarrier.h, which older systems do not have. */
enum {
    TUG_MEMBARRIER_GLOBAL_EXPEDITED = 1 << 1,
    TUG_MEMBARRIER_REGISTER_GLOBAL_EXPEDITED = 1 << 2
};

/* This process's threads execute the fences of others from now on. Takes 10 ms of waiting, once,
 * in a process with several threads. */
static inline void tug_membarrier_register(void) {
    (void)syscall(SYS_membarrier, TUG_MEMBARRIER_REGISTER_GLOBAL_EXPEDITED, 0, 0);
}

/* Every thread of a registered process has executed a full fence between the call and its return.
 * 0.3 us, and an interrupt to each core that runs such a thread. */
static inline void tug_membarrier(void) {
    (void)syscall(SYS_membarrier, TUG_MEMBARRIER_GLOBAL_EXPEDITED, 0, 0);
}

#endif
