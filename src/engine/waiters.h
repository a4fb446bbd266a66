/* Where threads are parked that wait while another drives, and which of them are woken.
 *
 * Waking everybody whenever something has moved is right and dear: with more threads than cores
 * most wakes end in a look and another sleep. So a waiter that can say what it waits for in a way
 * that anybody can look up takes a *slot*, one of its own, and is woken for one of two reasons:
 *   - what it waits for has come true (whoever drives looks after every round that moved), or
 *   - the baton has been put down and nobody is on the way who would take it: then one is woken.
 * All others share one bell, that of the *others*: woken whenever something has moved or the baton
 * has been put down. So do those that find no free slot.
 *
 * Where more wait than there are cores, those of the first kind are woken *singly*, one after the
 * other: the engine serves one at a time anyway, and awake together they would take each other's
 * core, and the peer's, every few operations. The driver keeps in mind that some are left asleep
 * and wakes the next when it has nothing to do, or has long had no time to; when it puts the baton
 * down, whoever is coming calls the next.
 *
 * No wake-up is lost. A waiter announces itself (its bit in `parked`, or the bell of the others),
 * then sets WAIT in the baton's word, then looks once more; a holder makes things true before it
 * looks for waiters, and puts the baton down, which shows it WAIT, before it looks for one to take
 * it: Dekker twice, all of it seq_cst. WAIT goes with the baton; from then on it is up to the
 * waiters that are *coming*: those that have been woken, and have not looked since. Each of them,
 * before it goes its way, has seen the baton held with WAIT set, or has taken it, which sets WAIT
 * while others are parked, or has called the next one. tests/model/waiters.pml checks that.
 *
 * A thread that looks at slots is counted in `looking`; nobody leaves a slot, whose condition may
 * be on its stack, before that count has been seen at zero. Bells are the engine's and never go, so
 * that they are rung after the look: at worst the next thread at that slot is woken for nothing.
 */
#ifndef TUG_ENGINE_WAITERS_H
#define TUG_ENGINE_WAITERS_H

#include "engine/park.h"
#include "engine/ring.h"

#define TUG_WAITER_SLOTS 64

struct tug_waiter_slot {
    struct tug_bell bell;
    bool (*done)(void *);
    void *argument;
} __attribute__((aligned(TUG_CACHE_LINE)));

struct tug_waiters {
    struct tug_bell others;
    _Atomic uint32_t coming;  /* will look at the baton: nobody else needs to be woken for it */
    _Atomic uint32_t looking; /* threads that look at what is written on slots */
    _Atomic uint64_t parked;  /* slots whose thread sleeps, or is about to */
    _Atomic uint64_t taken;   /* slots that belong to a thread */
    _Atomic unsigned last;    /* slot that was woken singly */
    struct tug_waiter_slot slots[TUG_WAITER_SLOTS];
};

/* Takes a slot, prepares its bell (*key) and announces the caller; NULL: none is free. The caller
 * sets WAIT, looks at its condition again and sleeps, and leaves the slot in any case. Until then
 * done(argument) may be called by any thread. */
struct tug_waiter_slot *tug_waiters_enter(struct tug_waiters *waiters, bool (*done)(void *),
                                          void *argument, uint32_t *key);

/* Leaves it; returns when nobody reads the condition any more. */
void tug_waiters_leave(struct tug_waiters *waiters, struct tug_waiter_slot *slot);

/* True if threads are parked here. */
static inline bool tug_waiters_any(struct tug_waiters *waiters) {
    return atomic_load(&waiters->parked) != 0 ||
           (atomic_load(&waiters->others.word) & TUG_BELL_SLEEPER);
}

/* Wakes the others, and of the slots those whose condition has come true; singly: one of them, and
 * none while somebody is coming. False: others may be left asleep. The caller has made it true by a
 * seq_cst access. */
bool tug_waiters_wake(struct tug_waiters *waiters, bool singly);

/* The caller has put the baton down and WAIT was set: wakes the same, and calls one who takes the
 * baton, if others are parked and nobody is coming. */
void tug_waiters_call(struct tug_waiters *waiters, bool singly);

#endif
