/* Waits: what threads wait for while another thread drives, and how each is woken.
 *
 * All waits of the process stand in one list, each with a condition and a way to wake it:
 *   - *parked*: a thread sleeps at a bell, and can take the baton;
 *   - *suspended*: of a user-level thread; the thread that runs it goes on with another
 *     (tug_wait_hooks_set() in tugboat/llcl.h).
 * A thread that has made progress looks at the list: it takes out the waits whose condition has
 * come true, and wakes them. So does a thread that has put the baton down, for parked waits; it
 * wakes one parked thread more, to take the baton, unless one is *coming*. A thread is coming from
 * the moment a look takes its wait out until tug_waiters_unpark() returns. A parked wait without a
 * done() is *private*: only its thread can look up its condition, so it is woken by every look at
 * parked waits, and is not relied on to come.
 *
 * If more threads wait than there are cores, threads are woken *singly*, one after the other: the
 * engine serves one at a time anyway, and together they would take each other's core, and the
 * peer's, every few operations. The driver remembers that some are left asleep. It wakes the next
 * one when it has nothing to do, or has had no time to for long. When the baton has been put down,
 * each coming thread takes it and looks, or looks before it returns.
 *
 *     the waiting thread                        the thread that makes the condition true
 *     `out` + 1                                 makes it true
 *     pushes the wait                           `out` is 0: goes on
 *     it is true: goes on (suspended: looks)    looks
 *
 *     a look: asks for it in `turn`. BUSY was set: the thread that looks goes round once more
 *             takes what was pushed; wakes waits, each once
 *             no thread has asked since this round began: BUSY goes, else once more
 *
 * No wake is lost. Both sides write first and read second, seq_cst: the one makes the condition
 * true and reads `out`, the other increments `out` and reads the condition. At least one sees the
 * other. The same holds of the baton: the holder puts it down before it reads `out`, and a thread
 * reads after its push whether the baton is held. A look that is left to another thread is asked
 * for after the push, or after the condition came true, and that thread begins a round after it has
 * seen that. tests/model/waiters.pml checks all that.
 *
 * The list itself belongs to the thread that has set BUSY: it alone takes waits out, and no wait's
 * memory goes before it was taken out.
 */
#ifndef TUG_ENGINE_WAITERS_H
#define TUG_ENGINE_WAITERS_H

#include "engine/park.h"

/* A wait. The caller's memory; untouched by others once wake() has begun. */
struct tug_waiter {
    bool (*done)(void *argument); /* called by any thread; does no more than look. NULL: private */
    void *argument;
    /* Called once, unless a parked thread leaves before; perhaps by a thread that holds the baton,
     * perhaps before tug_waiters_add() has returned. The rules for callbacks hold. */
    void (*wake)(struct tug_waiter *wait);
    struct tug_waiter *next; /* the list's */
};

/* The wait of a parked thread, on its stack. */
struct tug_parked {
    struct tug_waiter wait; /* first */
    struct tug_bell bell;
    bool coming;          /* it was counted as that when it was woken */
    _Atomic bool leaving; /* it wants to be taken out */
};

struct tug_waiters {
    /* waits in the list, or on their way there: 16 bits parked with a done(), 16 private, 32
     * suspended */
    _Atomic uint64_t out;
    _Atomic uint32_t coming; /* threads that are */
    _Atomic uint32_t turn;   /* BUSY, and the looks that are asked for: TUG_LOOK_* */
    struct tug_waiter *_Atomic pushed;
    struct tug_waiter *first; /* of the thread that has set BUSY */
};

enum tug_look {
    TUG_LOOK_SUSPENDED = 1, /* at suspended waits */
    TUG_LOOK_SINGLY = 2,    /* at parked waits: one is woken, and none while another is coming */
    TUG_LOOK_ALL = 4,       /* at parked waits; of two looks at once this one counts */
    TUG_LOOK_HEIR = 8,      /* and one of them wakes to take the baton */
};

/* seq_cst, both: pair with the increment in tug_waiters_add() */
static inline bool tug_waiters_parked(struct tug_waiters *waiters) {
    return __builtin_expect((uint32_t)atomic_load(&waiters->out) != 0, 0);
}

static inline bool tug_waiters_suspended(struct tug_waiters *waiters) {
    return __builtin_expect(atomic_load(&waiters->out) >> 32 != 0, 0);
}

/* Adds a wait, which may be woken from here on. Its owner then reads the condition again. */
void tug_waiters_add(struct tug_waiters *waiters, struct tug_waiter *wait);

/* Adds the calling thread's wait (done NULL: a private one) and returns the key of its bell. The
 * caller then reads its condition and the baton again, and sleeps at the bell. */
uint32_t tug_waiters_park(struct tug_waiters *waiters, struct tug_parked *parked,
                          bool (*done)(void *), void *argument);

/* Takes the wait out of the list, or sees that it was woken: its memory may go. */
void tug_waiters_unpark(struct tug_waiters *waiters, struct tug_parked *parked, uint32_t key);

/* Looks. False: some were held back, or another thread has the list and will look. The caller has
 * made conditions true, or put the baton down, by a seq_cst access. Never waits, but does the looks
 * that others ask for meanwhile. */
bool tug_waiters_look(struct tug_waiters *waiters, unsigned how);

/* ---- user-level threads that wait for the engine ---- */

/* Begins the wait, and has another thread drive. What done() looks at stays until this returns,
 * also if wake() has been called. If a caller has polled within this beat, the offload thread is
 * not woken: that caller probably polls again. Needs the offload thread, which looks at every beat
 * for conditions that come true outside the engine. Not in callbacks. */
void tug_engine_suspend(struct tug_waiter *wait);

/* Do such waits stand in the list? */
bool tug_engine_has_suspended(void);

/* A thread has waited in the library, and is expected back when it has run the user-level threads
 * that were woken: it polls then. */
void tug_engine_comes_back(void);

#endif
