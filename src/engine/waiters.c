/* Slots: waiters take and leave them; the driver, or a thread that has just put the baton down,
 * looks at them. */
#include "engine/waiters.h"

#include <sched.h>

#include "base/stats.h"
#include "base/trace.h"

static uint64_t bit_of(const struct tug_waiters *waiters, const struct tug_waiter_slot *slot) {
    return 1ull << (slot - waiters->slots);
}

struct tug_waiter_slot *tug_waiters_enter(struct tug_waiters *waiters, bool (*done)(void *),
                                          void *argument, uint32_t *key) {
    uint64_t taken = atomic_load_explicit(&waiters->taken, memory_order_relaxed), bit;
    do {
        if (taken == UINT64_MAX)
            return NULL;
        bit = ~taken & (taken + 1);
        /* acquire: pairs with the release in tug_waiters_leave: what its last thread wrote is over
         */
    } while (!atomic_compare_exchange_weak_explicit(&waiters->taken, &taken, taken | bit,
                                                    memory_order_acquire, memory_order_relaxed));
    struct tug_waiter_slot *slot = &waiters->slots[__builtin_ctzll(bit)];
    slot->done = done;
    slot->argument = argument;
    *key = tug_bell_prepare(&slot->bell);
    /* seq_cst: before the caller's second look; releases done and argument to look() */
    atomic_fetch_or(&waiters->parked, bit);
    return slot;
}

void tug_waiters_leave(struct tug_waiters *waiters, struct tug_waiter_slot *slot) {
    uint64_t bit = bit_of(waiters, slot);
    bool called =
        !(atomic_load(&waiters->parked) & bit) || !(atomic_fetch_and(&waiters->parked, ~bit) & bit);
    while (atomic_load(&waiters->looking) > 0)
        sched_yield();
    if (called)
        atomic_fetch_sub(&waiters->coming, 1);
    /* release: pairs with the acquire in tug_waiters_enter */
    atomic_fetch_and_explicit(&waiters->taken, ~bit, memory_order_release);
}

/* Which slots have what they wait for. */
static uint64_t look(struct tug_waiters *waiters) {
    uint64_t ready = 0;
    /* seq_cst, before parked is read: a thread that has cleared its bit before sees this count, or
     * is not seen */
    atomic_fetch_add(&waiters->looking, 1);
    for (uint64_t left = atomic_load(&waiters->parked); left != 0; left &= left - 1) {
        struct tug_waiter_slot *slot = &waiters->slots[__builtin_ctzll(left)];
        if (slot->done(slot->argument))
            ready |= left & -left;
    }
    atomic_fetch_sub(&waiters->looking, 1);
    return ready;
}

/* Wakes the threads of these slots; the bit decides whether another thread was faster. True if a
 * thread was woken. */
static bool ring(struct tug_waiters *waiters, uint64_t slots) {
    uint32_t asked = (uint32_t)__builtin_popcountll(slots);
    /* before the bits go: a thread that finds its bit gone takes itself off this count */
    atomic_fetch_add(&waiters->coming, asked);
    slots &= atomic_fetch_and(&waiters->parked, ~slots);
    uint32_t got = (uint32_t)__builtin_popcountll(slots);
    if (got < asked)
        atomic_fetch_sub(&waiters->coming, asked - got);
    for (uint64_t left = slots; left != 0; left &= left - 1)
        tug_bell_ring(&waiters->slots[__builtin_ctzll(left)].bell, false);
    tug_stat_add(TUG_STAT_WAKES, got);
    if (got > 0)
        tug_trace_count(TUG_TRACE_WAITER_WAKES, got);
    return slots != 0;
}

/* The next of these slots after the last that was woken. */
static uint64_t next_of(struct tug_waiters *waiters, uint64_t slots) {
    unsigned last = atomic_load_explicit(&waiters->last, memory_order_relaxed);
    uint64_t behind = slots & ~(UINT64_MAX >> (TUG_WAITER_SLOTS - 1 - last));
    uint64_t from = behind != 0 ? behind : slots;
    atomic_store_explicit(&waiters->last, (unsigned)__builtin_ctzll(from), memory_order_relaxed);
    return from & -from;
}

bool tug_waiters_wake(struct tug_waiters *waiters, bool singly) {
    if (tug_bell_ring(&waiters->others, false)) {
        tug_stat_add(TUG_STAT_WAKES, 1);
        tug_trace_count(TUG_TRACE_WAITER_WAKES, 1);
    }
    if (atomic_load(&waiters->parked) == 0)
        return true;
    if (singly && atomic_load(&waiters->coming) > 0)
        return false;
    uint64_t ready = look(waiters), now = ready;
    if (singly && ready != 0)
        now = next_of(waiters, ready);
    if (ready != 0)
        (void)ring(waiters, now);
    return now == ready;
}

void tug_waiters_call(struct tug_waiters *waiters, bool singly) {
    uint64_t parked;
    (void)tug_waiters_wake(waiters, singly);
    while ((parked = atomic_load(&waiters->parked)) != 0 && atomic_load(&waiters->coming) == 0 &&
           !ring(waiters, parked & -parked))
        ;
}
