/* Waits: what threads wait for while another thread drives, and how each is woken.
 *
 * All waits of the process stand in one list, a condition and a way to wake each:
 *   - of a thread that is *parked*: it sleeps at a bell, and can take the baton;
 *   - of a user-level thread: the thread that runs it goes on with another (tug_wait_hooks_set() in
 *     tugboat/llcl.h).
 * A thread that has made progress, or has put the baton down, looks at the list: it takes out the
 * waits whose condition has come true, and wakes them. A parked thread whose condition only itself
 * can look up is woken by every look. After the baton was put down, one parked thread more is woken
 * to take it, unless one is *coming*: has been woken and has not looked since.
 *
 * If more threads wait than there are cores, threads are woken *singly*, one after the other: the
 * engine serves one at a time anyway, and together they would take each other's core, and the
 * peer's, every few operations. The driver remembers that some are left asleep. It wakes the next
 * one when it has nothing to do, or has had no time to for long; after it has put the baton down,
 * each thread that is coming wakes the next.
 *
 *     the waiting thread                        the thread that makes the condition true
 *     `out` + 1                                 makes it true
 *     pushes the wait                           `out` is 0: goes on
 *     it is true: looks, or goes on             looks
 *
 *     a look: asks for it in `turn`. BUSY was set: the thread that looks goes round once more
 *             takes what was pushed; wakes waiters, each once
 *             nobody has asked since this round began: BUSY goes, else once more
 *
 * No wake is lost. Either the thread that makes it true sees `out`, and looks, or the waiting
 * thread looks behind it: Dekker, seq_cst, with the condition and `out`. The same with the baton:
 * the holder puts it down before it reads `out`, a thread reads after its push whether the baton is
 * held. A look that is left to another thread is asked for after the push, or after the condition
 * came true, and that thread begins a round after it has seen that. No thread waits for a look, but
 * for one that leaves the list before it is woken. Threads that are coming are responsible for
 * those that were left asleep: each of them, before it leaves, has seen the baton held, or has
 * taken it and looked, or has looked once more. tests/model/waiters.pml checks all that.
 *
 * The list itself belongs to the thread that has set BUSY: it alone takes waits out, and no wait's
 * memory goes before it was taken out.
 */
#ifndef TUG_ENGINE_WAITERS_H
#define TUG_ENGINE_WAITERS_H

#include "engine/park.h"

/* A wait. The caller's memory; untouched by others once wake() has begun. */
struct tug_waiter {
    bool (*done)(void *argument); /* may be called by any thread; does no more than look. NULL: only
                                     the thread itself can look, which is parked */
    void *argument;
    /* Called exactly once, perhaps by a thread that holds the baton, perhaps before the wait has
     * been added altogether. The rules for callbacks hold. */
    void (*wake)(struct tug_waiter *wait);
    struct tug_waiter *next; /* the list's */
};

/* The wait of a parked thread, on its stack. */
struct tug_parked {
    struct tug_waiter wait; /* first */
    struct tug_bell bell;
};

struct tug_waiters {
    /* waits in the list, or on their way there; high half: of these, those that are not woken
     * singly */
    _Atomic uint64_t out;
    _Atomic uint32_t suspended; /* of these, without a thread that is parked */
    _Atomic uint32_t coming;    /* threads that were woken singly, and have not looked since */
    _Atomic uint32_t turn;      /* BUSY, and the looks that are asked for: TUG_LOOK_* */
    struct tug_waiter *_Atomic pushed;
    struct tug_waiter *first; /* of the thread that has set BUSY */
};

enum tug_look {
    TUG_LOOK_SINGLY = 1, /* threads one after the other; none while another is coming */
    TUG_LOOK_ALL = 2,    /* all; of two looks at once this one counts */
    TUG_LOOK_HEIR = 4,   /* and one to take the baton */
};

/* seq_cst: pairs with the count in tug_waiters_add() */
static inline bool tug_waiters_any(struct tug_waiters *waiters) {
    return __builtin_expect(atomic_load(&waiters->out) > 0, 0);
}

/* Adds a wait without a thread. From here on it may be woken. */
void tug_waiters_add(struct tug_waiters *waiters, struct tug_waiter *wait);

/* Adds that of the calling thread, which then looks at the condition (done NULL: others cannot) and
 * at the baton again, and sleeps at the bell, whose key this returns. */
uint32_t tug_waiters_park(struct tug_waiters *waiters, struct tug_parked *parked,
                          bool (*done)(void *), void *argument);

/* The thread goes on. Returns when no other thread reads its wait any more. */
void tug_waiters_unpark(struct tug_waiters *waiters, struct tug_parked *parked, uint32_t key);

/* Looks. False: some may be left asleep. The caller has made conditions true, or put the baton
 * down, by a seq_cst access. Never waits. */
bool tug_waiters_look(struct tug_waiters *waiters, unsigned how);

/* ---- user-level threads that wait for the engine ---- */

/* Begins the wait, and has another thread drive. What done() looks at stays until this returns,
 * also if wake() has been called. If callers have looked for news within this beat, they are
 * expected to look again: a thread with nothing else to run may wait in the library. A condition
 * may also come true outside of the engine, so the offload thread, which there is, looks at every
 * beat. Not in callbacks. */
void tug_engine_suspend(struct tug_waiter *wait);

/* Do such waits stand in the list? */
bool tug_engine_has_suspended(void);

/* A thread has waited in the library, and is expected back when it has run the user-level threads
 * that were woken: it polls then. */
void tug_engine_comes_back(void);

#endif
