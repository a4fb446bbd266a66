/* A lease: until when callers do something themselves that the offload thread would do otherwise.
 *
 * There are two: callers look for news of peers, and callers get the host on. Whoever does so says
 * it by one store: *held* for as long as a wait goes on, *fresh* when it has done so once. Such a
 * store has no time in it, for a caller on its way reads no clock: the offload thread dates what is
 * fresh before it sleeps, as lasting until it wakes. So a caller that is not heard of from one beat
 * to the next has left, and the offload thread takes over.
 *
 * Threads: held, fresh and ended by callers, dated by the offload thread. All of it relaxed: a
 * store that is overlooked or overwritten costs a beat, never more, as no sleep that relies on a
 * lease is without a limit (plan.h).
 */
#ifndef TUG_ENGINE_LEASE_H
#define TUG_ENGINE_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TUG_LEASE_HELD UINT64_MAX
#define TUG_LEASE_FRESH (UINT64_MAX - 1)

struct tug_lease {
    _Atomic uint64_t until; /* CLOCK_MONOTONIC, ns, or one of the two above */
};

static inline void tug_lease_set(struct tug_lease *lease, uint64_t until) {
    atomic_store_explicit(&lease->until, until, memory_order_relaxed);
}

/* Unless it is held, by another. */
static inline void tug_lease_end(struct tug_lease *lease) {
    if (atomic_load_explicit(&lease->until, memory_order_relaxed) != TUG_LEASE_HELD)
        tug_lease_set(lease, 0);
}

static inline bool tug_lease_runs(const struct tug_lease *lease, uint64_t now) {
    return atomic_load_explicit(&lease->until, memory_order_relaxed) > now;
}

static inline bool tug_lease_is(const struct tug_lease *lease, uint64_t what) {
    return atomic_load_explicit(&lease->until, memory_order_relaxed) == what;
}

/* Offload thread only. */
static inline void tug_lease_date(struct tug_lease *lease, uint64_t until) {
    uint64_t fresh = TUG_LEASE_FRESH;
    (void)atomic_compare_exchange_strong_explicit(&lease->until, &fresh, until,
                                                  memory_order_relaxed, memory_order_relaxed);
}

#endif
