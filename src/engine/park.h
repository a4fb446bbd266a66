/* How a thread waits: pause, then yield, then park.
 *
 * Ranks and threads outnumber cores on ordinary machines, so nobody spins for long. A waiter first
 * pauses (the answer is a cache miss away), then gives its core to a thread that can produce the
 * answer, then sleeps on a bell until it is rung. The budgets follow the load: on a crowded node
 * pausing only burns the time slice that the awaited rank needs.
 *
 * A bell is an event count on one 32-bit futex word:
 *
 *        31                          1   0
 *       +------------------------------+---+
 *       | times rung                   | S |     S: a thread sleeps, or is about to
 *       +------------------------------+---+
 *
 * Waiter: key = tug_bell_prepare(); look at the condition again; tug_bell_wait(key) or simply go
 * on. Ringer: make the condition true; tug_bell_ring(). The condition and the word are accessed
 * sequentially consistent on both sides (Dekker): either the waiter's second look sees the
 * condition, or the ringer's look at the word sees S. A ringer that finds no S makes no system
 * call. Bells may live in memory shared by processes (shared = true).
 */
#ifndef TUG_ENGINE_PARK_H
#define TUG_ENGINE_PARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"
#include "base/futex.h"

#define TUG_BELL_SLEEPER 1u
#define TUG_BELL_STEP 2u

struct tug_bell {
    _Atomic uint32_t word;
};

/* Announces that the caller is about to sleep. The caller must look at its condition again
 * (seq_cst) before tug_bell_wait(); it may also walk away, which costs at most one needless wake
 * later. */
static inline uint32_t tug_bell_prepare(struct tug_bell *bell) {
    return atomic_fetch_or(&bell->word, TUG_BELL_SLEEPER) | TUG_BELL_SLEEPER;
}

/* Sleeps until the bell is rung after the prepare that returned key, a timeout (ns, < 0: none) or a
 * spurious wake. The caller looks at its condition again in any case. False: the timeout. The
 * memory of the bell may go meanwhile. */
static inline bool tug_bell_wait(struct tug_bell *bell, uint32_t key, int64_t timeout_ns,
                                 bool shared) {
    return tug_futex_wait(&bell->word, key, timeout_ns, shared) != -ETIMEDOUT;
}

/* Wakes every sleeper; no system call when there is none. True when a wake was owed. The caller has
 * made its condition true by a seq_cst access before. */
bool tug_bell_wake(struct tug_bell *bell, bool shared); /* its rest, where there may be a sleeper */
static inline bool tug_bell_ring(struct tug_bell *bell, bool shared) {
    return __builtin_expect(atomic_load(&bell->word) & TUG_BELL_SLEEPER, 0) &&
           tug_bell_wake(bell, shared);
}

/* Where one waiter stands between pausing and parking. Zero-initialise; reset after progress. */
struct tug_backoff {
    uint32_t pauses;
    uint32_t yields;
    uint64_t yielding_ns; /* since when; its user's, if it bounds them by time */
};

/* Process-wide budgets, set by tug_park_configure(). */
struct tug_park_budget {
    _Atomic uint32_t pauses;
    _Atomic uint32_t yields;
};
extern struct tug_park_budget tug_park_budget;

/* Sets the budgets: spin_us of pausing when the ranks here have a core each; a handful of pauses
 * when they are crowded (tug_cores_crowded()). Any thread, any time. */
void tug_park_configure(uint64_t spin_us, bool crowded);

/* Called when a wait gives its core away for the first time. NULL: nothing is. Set once. */
extern void (*_Atomic tug_park_gives_way)(void);

/* One step of waiting. False when both budgets are used up: the caller parks. */
bool tug_backoff_step(struct tug_backoff *backoff);

/* True if the next step is a pause. */
static inline bool tug_backoff_pauses(const struct tug_backoff *backoff) {
    return backoff->pauses < atomic_load_explicit(&tug_park_budget.pauses, memory_order_relaxed);
}

/* True if the next step gives the core away. */
static inline bool tug_backoff_yields(const struct tug_backoff *backoff) {
    return !tug_backoff_pauses(backoff) &&
           backoff->yields < atomic_load_explicit(&tug_park_budget.yields, memory_order_relaxed);
}

static inline void tug_backoff_reset(struct tug_backoff *backoff) {
    backoff->pauses = 0;
    backoff->yields = 0;
}

/* One step of waiting for a thread that is about to answer: never parks. */
static inline void tug_backoff_relax(struct tug_backoff *backoff) {
    if (!tug_backoff_step(backoff))
        tug_backoff_reset(backoff);
}

#endif
