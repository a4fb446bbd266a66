/* A lease: until when callers do something themselves that the offload thread would do otherwise.
 *
 * There are two: callers look for news of peers, and callers get the host on. Whoever does so says
 * it by one store: *held* for as long as a wait drives, asleep or not, *fresh* when somebody has
 * looked once. A store of fresh has no time in it, for a caller on its way reads no clock: the
 * offload thread dates what is fresh before it sleeps, as lasting until it wakes. So a caller that
 * is not heard of from one beat to the next has left, and the offload thread takes over.
 *
 * Peers do not read a lease, for its thread may sleep, compute, or have been stopped. For them a
 * thread that waits writes until when it looks into the process's page (tug_engine_show_looking).
 *
 * Threads: held by the holder of the baton, who makes the lease fresh before it puts the baton
 * down: so it is held as long as somebody drives until its wait is over, and no longer. Fresh and
 * ended by any caller, dated by the offload thread. All of it relaxed: a store that is overlooked
 * or overwritten costs a beat, never more, as no sleep that relies on a lease is without a limit
 * (plan.h).
 */
#ifndef TUG_ENGINE_LEASE_H
#define TUG_ENGINE_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TUG_LEASE_HELD UINT64_MAX
#define TUG_LEASE_FRESH (UINT64_MAX - 1)

struct tug_lease {
    _Atomic uint64_t until; /* CLOCK_MONOTONIC, ns, or one of the two above; 0: ended */
};

static inline void tug_lease_set(struct tug_lease *lease, uint64_t until) {
    atomic_store_explicit(&lease->until, until, memory_order_relaxed);
}

static inline bool tug_lease_is(const struct tug_lease *lease, uint64_t what) {
    return atomic_load_explicit(&lease->until, memory_order_relaxed) == what;
}

static inline bool tug_lease_runs(const struct tug_lease *lease, uint64_t now) {
    return atomic_load_explicit(&lease->until, memory_order_relaxed) > now;
}

/* If it is so, and not what another has made of it meanwhile. */
static inline void tug_lease_turn(struct tug_lease *lease, uint64_t from, uint64_t to) {
    (void)atomic_compare_exchange_strong_explicit(&lease->until, &from, to, memory_order_relaxed,
                                                  memory_order_relaxed);
}

/* Unless another holds it. */
static inline void tug_lease_end(struct tug_lease *lease) {
    const uint64_t until = atomic_load_explicit(&lease->until, memory_order_relaxed);
    if (until != TUG_LEASE_HELD)
        tug_lease_turn(lease, until, 0);
}

#endif
