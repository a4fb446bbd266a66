/* A lease: until when callers poll for news of peers themselves, which the offload thread would do
 * otherwise.
 *
 * A caller sets the lease by one store. *Held*: a thread that waits drives, asleep or not, until it
 * says otherwise. *Fresh*: a caller has polled once. A store of fresh has no time in it, for a
 * caller on its way reads no clock: the offload thread turns fresh into the time of its next beat
 * before it sleeps. So if no caller polls from one beat to the next, the lease has run out, and the
 * offload thread takes over.
 *
 * Peers do not read leases, for the thread behind one may sleep, compute, or have been stopped. For
 * peers a waiting thread writes the time until which it polls into the process's page
 * (tug_engine_show_looking).
 *
 * Threads: the holder of the baton sets held, and fresh before it puts the baton down; so the lease
 * is held as long as a thread drives. Any caller sets fresh and ends the lease; the offload thread
 * dates it. All of it is relaxed: a store that is overlooked or overwritten costs a beat, never
 * more, since no sleep that relies on a lease is without a limit (plan.h).
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

/* Changes the lease from one value to the other, unless another thread has changed it meanwhile. */
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
