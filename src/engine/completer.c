/* The driver's steps: it takes commands out of the ring and runs them, in order (the executor);
 * advances the jobs that are out, in the order of their launch, and tells their owners (the
 * completer); and sleeps if none of them can move. Holder only, all of it. */
#include "engine/private.h"

/* A thread that has entered a command may have gathered operations before, which go ahead of it. */
unsigned tug_executor_run(struct tug_engine *engine, unsigned limit) {
    struct tug_ring *ring = &engine->ring;
    struct tug_command *cell;
    unsigned executed = 0;
    while (executed < limit && (cell = tug_ring_next(ring)) != NULL && tug_gathered_start()) {
        cell->execute(cell);
        tug_ring_consume(ring, cell);
        executed++;
    }
    if (tug_stats_on && executed > 0)
        tug_stat_max(TUG_STAT_RING_HIGH_WATER,
                     executed + tug_ring_tail(ring) -
                         atomic_load_explicit(&ring->head, memory_order_relaxed));
    tug_engine_stir(engine, executed > 0);
    return executed;
}

static _Thread_local bool in_job;

bool tug_engine_in_job(void) {
    return in_job;
}

bool tug_engine_set_in_job(bool is) {
    const bool was = in_job;
    in_job = is;
    return was;
}

static bool advance(struct tug_job *job, bool *done) {
    in_job = true;
    const bool moved = job->advance(job, done);
    in_job = false;
    return moved;
}

void tug_completer_admit(struct tug_engine *engine, struct tug_job *job) {
    bool done = false;
    (void)advance(job, &done);
    if (done) {
        job->completed(job);
        return;
    }
    job->next = NULL;
    *engine->last = job;
    engine->last = &job->next;
    if (engine->nactive++ == 0)
        tug_services_count(engine);
    tug_completer_count(engine);
}

bool tug_completer_run(struct tug_engine *engine) {
    bool moved = false;
    for (struct tug_job **at = &engine->first; *at != NULL;) {
        struct tug_job *job = *at;
        bool done = false;
        moved |= advance(job, &done);
        if (!done) {
            at = &job->next;
            continue;
        }
        moved = true;
        *at = job->next;
        if (*at == NULL)
            engine->last = at;
        if (--engine->nactive == 0)
            tug_services_count(engine);
        tug_completer_count(engine);
        job->completed(job);
    }
    tug_engine_stir(engine, moved);
    return moved;
}

void tug_engine_tell(struct tug_engine *engine) {
    engine->rounds = 0;
    engine->untold = tug_waiters_parked(&engine->waiters) &&
                     !tug_waiters_look(&engine->waiters, tug_engine_how(engine));
}

/* Something has moved: wakes threads whose condition has come true. At once; but if they are woken
 * singly, as soon as there is nothing else to do. */
static void tell_of(struct tug_engine *engine, bool moved) {
    engine->untold |= moved;
    if (engine->untold && (!moved || tug_engine_how(engine) == TUG_LOOK_ALL ||
                           ++engine->rounds >= TUG_PUT_OFF_ROUNDS))
        tug_engine_tell(engine);
}

static _Thread_local bool driving;

bool tug_engine_driving(void) {
    return driving;
}

bool tug_driver_round(struct tug_engine *engine) {
    driving = true;
    (void)tug_gathered_start();
    bool moved = tug_executor_run(engine, TUG_BATCH) > 0;
    moved |= tug_completer_run(engine);
    moved |= engine->services != NULL && tug_services_poll(engine, false);
    if (__builtin_expect(tug_trace_on && moved, 0))
        atomic_store_explicit(&engine->moved_by_offload, tug_engine_is_own_thread(),
                              memory_order_relaxed);
    tell_of(engine, moved);
    driving = false;
    return moved;
}

bool tug_sleeper_watch(struct tug_engine *engine, struct tug_sleeper *sleeper,
                       struct tug_prepared *prepared) {
    const struct tug_prepared own = *prepared;
    bool shared;
    struct tug_bell *bell = tug_engine_bell(engine, &shared);
    if (bell == NULL)
        return false;
    if (bell != &tug_engine_own_bell)
        *prepared = tug_sleeper_prepare(sleeper, bell, shared);
    if (tug_services_arm(engine, sleeper))
        return true;
    (void)tug_sleeper_prepare(sleeper, NULL, false);
    *prepared = own;
    return false;
}

bool tug_driver_sleep(struct tug_engine *engine, bool (*done)(void *), void *argument,
                      int64_t limit_ns) {
    /* before SLEEP is set: the thread that clears it reads where to ring */
    struct tug_prepared prepared = tug_sleeper_prepare(&engine->driver, NULL, false);
    bool watched = tug_sleeper_watch(engine, &engine->driver, &prepared);
    bool idle = engine->nactive == 0 && engine->services == NULL;
    limit_ns = tug_wait_limit(watched || idle, !idle && engine->seldom, limit_ns);
    limit_ns = tug_gather_want(&engine->driver, TUG_GATHER_DRIVER, limit_ns);
    if (tug_driver_round(engine))
        return true;
    if (engine->untold)
        engine->untold = !tug_waiters_look(&engine->waiters, TUG_LOOK_ALL);
    if (done(argument))
        return false;
    if (!tug_baton_sleep(&engine->ring))
        return true; /* a producer is in mid-fill: this thread pauses and yields once more */
    tug_stat_add(TUG_STAT_PARKS, 1);
    tug_engine_looks_until(engine, 0);
    const uint64_t begin_ns = tug_trace_sleep_begin();
    const enum tug_trace_why why = tug_sleeper_sleep(&engine->driver, &prepared, true, limit_ns);
    tug_trace_end(TUG_TRACE_DRIVER_SLEEP, why, begin_ns);
    tug_baton_awake(&engine->ring);
    return false;
}

void tug_engine_forget_bell(struct tug_bell *bell) {
    tug_sleeper_forget(&tug_engine.driver, bell);
    tug_sleeper_forget(&tug_engine.offload, bell);
}
