/* The baton: exactly one thread drives at a time.
 *
 * Taking, offering, claiming and leaving, all by compare-exchange on the ring's state word (drawn
 * in ring.h). The holder alone executes commands and advances jobs. src/engine's
 * Promela model in tests/model checks this protocol: never two drivers, no lost wake-up, no
 * stranded command.
 */
#ifndef TUG_ENGINE_BATON_H
#define TUG_ENGINE_BATON_H

#include "engine/ring.h"

/* Takes a free baton (then the ring is empty) or an offered one (then it is not). Any thread. */
static inline bool tug_baton_take(struct tug_ring *ring) {
    uint64_t state = atomic_load_explicit(&ring->state, memory_order_relaxed);
    while (!(state & TUG_BATON_HELD) || (state & TUG_BATON_OFFER)) {
        uint64_t next = (state | TUG_BATON_HELD) & ~TUG_BATON_OFFER;
        /* acquire: pairs with the release in tug_baton_leave and tug_baton_offer */
        if (atomic_compare_exchange_weak_explicit(&ring->state, &state, next, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    }
    return false;
}

/* Puts the baton down if every command has been executed. False: there is work, the caller still
 * holds it. On true, the caller looks at the waits. Holder only. */
static inline bool tug_baton_leave(struct tug_ring *ring) {
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t state = atomic_load_explicit(&ring->state, memory_order_relaxed);
    while (state >> TUG_TAIL_SHIFT == head) {
        /* release: pairs with the acquire of the next taker; seq_cst, before the caller's look:
         * pairs with tug_baton_rouse() */
        if (atomic_compare_exchange_weak(&ring->state, &state, head << TUG_TAIL_SHIFT))
            return true;
    }
    return false;
}

/* Puts the baton down with work left, for the first to take it. The caller then rings the offload
 * thread and looks at the waits. Holder only. */
static inline void tug_baton_offer(struct tug_ring *ring) {
    atomic_fetch_or(&ring->state, TUG_BATON_OFFER);
}

/* Announces that the holder is going to sleep. False when commands have come: it must not. Holder
 * only. */
static inline bool tug_baton_sleep(struct tug_ring *ring) {
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t state = atomic_load_explicit(&ring->state, memory_order_relaxed);
    do {
        if (state >> TUG_TAIL_SHIFT != head)
            return false;
    } while (!atomic_compare_exchange_weak(&ring->state, &state, state | TUG_BATON_SLEEP));
    return true;
}

/* Ends tug_baton_sleep(), whichever thread woke the holder. Holder only. */
static inline void tug_baton_awake(struct tug_ring *ring) {
    if (atomic_load_explicit(&ring->state, memory_order_relaxed) & TUG_BATON_SLEEP)
        atomic_fetch_and(&ring->state, ~TUG_BATON_SLEEP);
}

/* Does a thread drive? seq_cst. Any thread. */
static inline bool tug_baton_is_held(struct tug_ring *ring) {
    return (atomic_load(&ring->state) & (TUG_BATON_HELD | TUG_BATON_OFFER)) == TUG_BATON_HELD;
}

/* Call after the caller's wait was pushed. If the holder sleeps, clears SLEEP: the caller rings its
 * bell (*owes_ring), and the holder comes round once more. False: the baton is free or offered, the
 * caller takes it instead. Any thread. */
static inline bool tug_baton_rouse(struct tug_ring *ring, bool *owes_ring) {
    uint64_t state = atomic_load(&ring->state); /* seq_cst, after the push of the wait */
    *owes_ring = false;
    do {
        if (!(state & TUG_BATON_HELD) || (state & TUG_BATON_OFFER))
            return false;
        if (!(state & TUG_BATON_SLEEP))
            return true;
    } while (!atomic_compare_exchange_weak(&ring->state, &state, state & ~TUG_BATON_SLEEP));
    *owes_ring = true;
    return true;
}

#endif
