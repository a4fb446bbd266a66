#include "engine/park.h"

#include <sched.h>

#include "base/clock.h"
#include "engine/plan.h"

struct tug_park_budget tug_park_budget = {TUG_OVERSUBSCRIBED_PAUSES, TUG_YIELDS};

static uint32_t pauses_per_us(void) {
    const uint32_t sample = 100; /* 2 us or more: the clock is a hundred times finer */
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        uint64_t start = tug_clock_ns();
        for (uint32_t k = 0; k < sample; k++)
            tug_cpu_pause();
        uint64_t took = tug_clock_ns() - start;
        best = took < best ? took : best;
    }
    return best == 0 ? sample : (uint32_t)(sample * 1000 / best) + 1;
}

void tug_park_configure(uint64_t spin_us, bool crowded) {
    uint64_t pauses = crowded ? TUG_OVERSUBSCRIBED_PAUSES : spin_us * pauses_per_us();
    if (pauses > spin_us * 1000)
        pauses = spin_us * 1000;
    atomic_store_explicit(&tug_park_budget.pauses, (uint32_t)pauses, memory_order_relaxed);
}

void (*_Atomic tug_park_gives_way)(void);

static void give_way(void) {
    void (*gives_way)(void) = atomic_load_explicit(&tug_park_gives_way, memory_order_relaxed);
    if (gives_way != NULL)
        gives_way();
}

bool tug_bell_wake(struct tug_bell *bell, bool shared) {
    uint32_t word = atomic_load(&bell->word);
    while (word & TUG_BELL_SLEEPER) {
        const uint32_t rung = (word & ~TUG_BELL_SLEEPER) + TUG_BELL_STEP;
        if (atomic_compare_exchange_weak(&bell->word, &word, rung)) {
            (void)tug_futex_wake(&bell->word, INT32_MAX, shared);
            return true;
        }
    }
    return false;
}

bool tug_backoff_step(struct tug_backoff *backoff) {
    if (backoff->pauses < atomic_load_explicit(&tug_park_budget.pauses, memory_order_relaxed)) {
        backoff->pauses++;
        tug_cpu_pause();
        return true;
    }
    if (backoff->yields < atomic_load_explicit(&tug_park_budget.yields, memory_order_relaxed)) {
        if (backoff->yields++ == 0)
            give_way();
        sched_yield();
        return true;
    }
    return false;
}
