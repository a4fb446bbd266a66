/* The completer: advances the jobs that are out, gives their tags back, tells their owners; and how
 * the holder of the baton sleeps when none of them can move. Holder only, all of it. */
#include <sched.h>

#include "engine/private.h"

static void retire(struct tug_engine *engine, struct tug_job *job) {
    tug_tags_give(&engine->tags, job->tag);
    job->completed(job);
}

void tug_completer_admit(struct tug_engine *engine, struct tug_job *job) {
    bool done = false;
    (void)job->advance(job, &done);
    if (done) {
        retire(engine, job);
        return;
    }
    job->index = engine->nactive;
    engine->active[engine->nactive++] = job;
    atomic_store(&engine->outstanding, engine->nactive);
}

bool tug_completer_run(struct tug_engine *engine) {
    bool moved = false;
    for (unsigned i = 0; i < engine->nactive;) {
        struct tug_job *job = engine->active[i];
        bool done = false;
        moved |= job->advance(job, &done);
        if (!done) {
            i++;
            continue;
        }
        moved = true;
        engine->active[i] = engine->active[--engine->nactive];
        engine->active[i]->index = i;
        atomic_store(&engine->outstanding, engine->nactive);
        retire(engine, job);
    }
    return moved;
}

bool tug_driver_round(struct tug_engine *engine) {
    bool moved = tug_executor_run(engine, TUG_BATCH) > 0;
    moved |= tug_completer_run(engine);
    if (moved && tug_baton_clear_wait(&engine->ring) && tug_bell_ring(&engine->waiters, false))
        tug_stat_add(TUG_STAT_WAKES, 1);
    return moved;
}

/* The one bell that every job rings, or NULL if some job has none or they differ. */
static struct tug_bell *common_bell(const struct tug_engine *engine) {
    struct tug_bell *bell = engine->nactive > 0 ? engine->active[0]->bell : NULL;
    for (unsigned i = 1; i < engine->nactive; i++)
        if (engine->active[i]->bell != bell)
            return NULL;
    return bell;
}

bool tug_driver_sleep(struct tug_engine *engine, bool yield_to_waiters, bool (*done)(void *),
                      void *argument, int64_t limit_ns) {
    struct tug_bell *bell = common_bell(engine);
    bool shared = bell != NULL;
    if (!shared) {
        bell = &engine->driver;
        if (engine->nactive > 0 && (limit_ns < 0 || limit_ns > TUG_POLL_NAP_NS))
            limit_ns = TUG_POLL_NAP_NS;
    }
    uint32_t key = tug_bell_prepare(bell);
    if (tug_driver_round(engine))
        return true;
    if (done != NULL && done(argument))
        return false;
    /* before SLEEP is set: who clears it reads where to ring */
    atomic_store(&engine->asleep_on, (uintptr_t)bell | shared);
    if (!tug_baton_sleep(&engine->ring, yield_to_waiters)) {
        sched_yield(); /* a producer in mid-fill may want this core */
        return false;
    }
    tug_stat_add(TUG_STAT_PARKS, 1);
    tug_bell_wait(bell, key, limit_ns, shared);
    tug_baton_awake(&engine->ring);
    return false;
}

void tug_engine_ring_driver(struct tug_engine *engine) {
    atomic_fetch_add(&engine->ringing, 1);
    uintptr_t where = atomic_load(&engine->asleep_on);
    struct tug_bell *bell = (struct tug_bell *)(where & ~(uintptr_t)1); /* NOLINT: tagged pointer */
    if (bell != NULL && tug_bell_ring(bell, where & 1))
        tug_stat_add(TUG_STAT_WAKES, 1);
    atomic_fetch_sub(&engine->ringing, 1);
}

/* seq_cst on both sides: a ringer that read the old place is counted in ringing. */
void tug_engine_forget_bell(struct tug_bell *bell) {
    struct tug_engine *engine = &tug_engine;
    uintptr_t where = (uintptr_t)bell | 1;
    (void)atomic_compare_exchange_strong(&engine->asleep_on, &where, 0);
    while (atomic_load(&engine->ringing) > 0)
        sched_yield();
}
