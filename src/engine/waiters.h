/* Where threads park that wait while another thread drives, and which of them are woken.
 *
 * To wake all of them whenever something has moved is right, and expensive: with more threads than
 * cores most wakes end in a look and another sleep. So a thread whose condition other threads can
 * look up takes a *slot* of its own. It is woken for one of two reasons:
 *   - its condition has come true (the driver looks after every round that moved something), or
 *   - the baton has been put down and no other thread is about to take it: then one is woken.
 * All other threads share one bell, which is rung whenever something has moved or the baton has
 * been put down. So do threads that find no free slot.
 *
 * If more threads wait than there are cores, threads of the first kind are woken *singly*, one
 * after the other: the engine serves one at a time anyway, and together they would take each
 * other's core, and the peer's, every few operations. The driver remembers that some are left
 * asleep. It wakes the next one when it has nothing to do, or has had no time to for long; after it
 * has put the baton down, each thread that is coming wakes the next.
 *
 * No wake-up is lost. A waiting thread announces itself (its bit in `parked`, or the shared bell),
 * then sets WAIT in the baton's word, then looks at its condition once more. A holder makes
 * conditions true before it looks for waiting threads, and puts the baton down, which shows it
 * WAIT, before it looks for a thread to take it: Dekker twice, all of it seq_cst. WAIT goes with
 * the baton. From then on the threads that are *coming* are responsible: those that have been woken
 * and have not looked since. Each of them, before it leaves, has seen the baton held with WAIT set,
 * or has taken the baton, which sets WAIT while others are parked, or has woken the next one.
 * tests/model/waiters.pml checks that.
 *
 * A thread that looks at slots is counted in `looking`. No thread leaves its slot, whose condition
 * may be on its stack, before it has seen that count at zero. Bells belong to the engine and stay,
 * so they are rung after the look: at worst the next thread at that slot is woken for nothing.
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
    _Atomic uint32_t coming;  /* threads that will look at the baton */
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

/* Leaves it; returns when no thread reads the condition any more. */
void tug_waiters_leave(struct tug_waiters *waiters, struct tug_waiter_slot *slot);

/* True if threads are parked here. */
static inline bool tug_waiters_any(struct tug_waiters *waiters) {
    return atomic_load(&waiters->parked) != 0 ||
           (atomic_load(&waiters->others.word) & TUG_BELL_SLEEPER);
}

/* Wakes the threads at the shared bell, and of the slots those whose condition has come true;
 * singly: one of them, and none while another thread is coming. False: some may be left asleep. The
 * caller has made the condition true by a seq_cst access. */
bool tug_waiters_wake(struct tug_waiters *waiters, bool singly);

/* The caller has put the baton down and WAIT was set. Wakes the same threads, and one more to take
 * the baton, if threads are parked and none is coming. */
void tug_waiters_call(struct tug_waiters *waiters, bool singly);

#endif
