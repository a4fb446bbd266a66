/* Waits of user-level threads: the thread that runs them goes on with another, and the wait calls
 * wake() when its condition has come true (tug_wait_hooks_set() in tugboat/llcl.h).
 *
 * A wait stands in one list of the process. A thread that has made progress looks at the whole
 * list: the holder of the baton, after commands, jobs or services have moved. A condition may also
 * come true outside of the engine, so the offload thread looks at every beat; it does not sleep
 * without a limit while a wait stands in the list. If there is none, all that is one load and a
 * branch.
 *
 *     the waiting thread                        the thread that makes the condition true
 *     `out` + 1                                 makes it true
 *     pushes the wait                           `out` is 0: goes on
 *     it is true: looks                         looks
 *
 *     a look: `looks` + 1, which was not 0: the thread that looks already goes round once more
 *             takes what was pushed; wakes those that are true, each once
 *             `looks` as it was before this round becomes 0, or once more
 *
 * No wake is lost. Either the thread that makes it true sees `out`, and looks, or the waiting
 * thread looks behind it: Dekker, seq_cst, with the condition and `out`. A look that is left to
 * another thread is counted in `looks` after the push, or after the condition came true, and that
 * thread begins a round after it has read the count. No thread waits for a look. The list itself
 * belongs to the thread that looks. tests/model/suspend.pml checks that.
 *
 * Threading: any thread, and within callbacks.
 */
#ifndef TUG_ENGINE_SUSPEND_H
#define TUG_ENGINE_SUSPEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A wait. The caller's memory, untouched by others once wake() has begun. */
struct tug_suspended {
    bool (*done)(void *argument); /* may be called by any thread; does no more than look */
    void *argument;
    /* Called exactly once, when done() was true: perhaps before tug_engine_suspend() has returned,
     * perhaps by a thread that holds the baton. The rules for callbacks hold. */
    void (*wake)(struct tug_suspended *wait);
    struct tug_suspended *next; /* the list's */
};

extern _Atomic uint32_t tug_suspended_out; /* waits in the list, or on their way there */

/* Begins the wait, and has another thread drive. What done() looks at stays until this returns,
 * also if wake() has been called. If callers have looked for news within this beat, they are
 * expected to look again: a thread with nothing else to run may wait in the library. The engine has
 * an offload thread. Not in callbacks. */
void tug_engine_suspend(struct tug_suspended *wait);

/* A thread has waited in the library, and is expected back when it has run the user-level threads
 * that were woken: it polls then. */
void tug_engine_comes_back(void);

/* The first half of tug_engine_suspend(): the list alone. */
void tug_suspend_push(struct tug_suspended *wait);

/* Wakes those whose condition has come true. */
void tug_suspend_look(void);

/* seq_cst: pairs with the count in tug_suspend_push() */
static inline bool tug_suspend_any(void) {
    return __builtin_expect(atomic_load(&tug_suspended_out) > 0, 0);
}

/* Something may have come true. */
static inline void tug_suspend_stir(bool moved) {
    if (moved && tug_suspend_any())
        tug_suspend_look();
}

#endif
