#include "engine/sleeper.h"

#include <sched.h>

/* If the word has not changed, its S was set the whole time: a ringer that clears S also increments
 * the count in the word. */
static void stand(struct tug_sleeper *sleeper, struct tug_bell *bell, uint32_t key) {
    if (sleeper->stands_at == bell && sleeper->stands_with == key) {
        tug_stand_fence(&sleeper->stand);
        return;
    }
    sleeper->stands_at = bell;
    sleeper->stands_with = key;
    tug_stand_begin(&sleeper->stand);
}

struct tug_prepared tug_sleeper_prepare(struct tug_sleeper *sleeper, struct tug_bell *bell,
                                        bool shared) {
    if (bell == NULL)
        bell = &sleeper->own, shared = false;
    /* seq_cst, before the sleeper's second look: a ringer who reads the old bell has changed what
     * that look is for before */
    atomic_store(&sleeper->asleep_on, (uintptr_t)bell | shared);
    const uint32_t key = tug_bell_prepare(bell);
    if (shared)
        stand(sleeper, bell, key);
    return (struct tug_prepared){bell, key, shared};
}

enum tug_trace_why tug_sleeper_sleep(struct tug_sleeper *sleeper,
                                     const struct tug_prepared *prepared, bool watch,
                                     int64_t limit_ns) {
    bool news = false;
    if (!watch || prepared->bell != &sleeper->own || !tug_lookout_useful(&sleeper->lookout)) {
        if (prepared->shared)
            limit_ns = tug_stand_limit(&sleeper->stand, limit_ns);
        return tug_bell_wait(prepared->bell, prepared->key, limit_ns, prepared->shared)
                   ? TUG_TRACE_BY_RUNG
                   : TUG_TRACE_BY_LIMIT;
    }
    /* seq_cst, Dekker: pairs with the ringer, who changes the word and then reads this */
    atomic_store(&sleeper->out, true);
    if (atomic_load(&prepared->bell->word) == prepared->key)
        news = tug_lookout_sleep(&sleeper->lookout, limit_ns);
    atomic_store(&sleeper->out, false);
    if (news)
        return TUG_TRACE_BY_NEWS;
    /* relaxed: nothing hangs on it */
    return atomic_load_explicit(&prepared->bell->word, memory_order_relaxed) != prepared->key
               ? TUG_TRACE_BY_RUNG
               : TUG_TRACE_BY_LIMIT;
}

bool tug_sleeper_ring(struct tug_sleeper *sleeper) {
    atomic_fetch_add(&sleeper->ringing, 1);
    uintptr_t where = atomic_load(&sleeper->asleep_on);
    struct tug_bell *bell = (struct tug_bell *)(where & ~(uintptr_t)1); /* NOLINT: tagged pointer */
    bool rang = bell != NULL && tug_bell_ring(bell, where & 1);
    if (rang && atomic_load(&sleeper->out))
        tug_lookout_ring(&sleeper->lookout);
    atomic_fetch_sub(&sleeper->ringing, 1);
    return rang;
}

void tug_sleeper_forget(struct tug_sleeper *sleeper, struct tug_bell *bell) {
    /* seq_cst on both sides: a ringer that read the old bell is counted in ringing */
    uintptr_t where = atomic_load(&sleeper->asleep_on);
    if ((where & ~(uintptr_t)1) == (uintptr_t)bell)
        (void)atomic_compare_exchange_strong(&sleeper->asleep_on, &where, (uintptr_t)&sleeper->own);
    while (atomic_load(&sleeper->ringing) > 0)
        sched_yield();
}
