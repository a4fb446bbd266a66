/* The engine under test: started with given settings, a host that counts its polls, and jobs made
 * of steps. Used by the programs that test src/engine/engine.h; one engine a process, as in the
 * library. */
#ifndef TUG_TEST_ENGINE_FIXTURE_H
#define TUG_TEST_ENGINE_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/settings.h"
#include "check.h"
#include "engine/private.h"

static _Atomic uint64_t host_polls;
static _Atomic pthread_t host_poller;

static inline void count_host_poll(void) {
    atomic_store(&host_poller, pthread_self());
    atomic_fetch_add(&host_polls, 1);
}

static inline void start_engine(enum tug_progress progress, uint64_t ring_size) {
    tug_settings.progress = progress;
    tug_settings.ring_size = ring_size;
    atomic_store(&host_polls, 0);
    assert_int_equal(tug_engine_start(count_host_poll), 0);
    assert_true(tug_engine_running());
}

static inline void stop_engine(void) {
    tug_engine_stop();
    assert_false(tug_engine_running());
}

/* A job that moves once per permitted step and is done after `steps`. */
struct step_job {
    struct tug_job base;
    int steps;
    _Atomic int permitted; /* how far it may go now */
    _Atomic int moved;
    _Atomic int advances;  /* times advance was called */
    _Atomic int completed; /* times completed was called */
    _Atomic pthread_t driver;
};

static inline bool step_job_advance(struct tug_job *base, bool *done) {
    struct step_job *job = (struct step_job *)base;
    int before = atomic_load(&job->moved);
    int now = atomic_load(&job->permitted);
    now = now < job->steps ? now : job->steps;
    atomic_fetch_add(&job->advances, 1);
    atomic_store(&job->driver, pthread_self());
    atomic_store(&job->moved, now);
    *done = now == job->steps;
    return now > before;
}

static inline void step_job_completed(struct tug_job *base) {
    struct step_job *job = (struct step_job *)base;
    atomic_fetch_add(&job->completed, 1);
}

static inline bool step_job_is_done(void *argument) {
    struct step_job *job = argument;
    return atomic_load(&job->completed) > 0;
}

static inline void step_job_init(struct step_job *job, int steps, int permitted,
                                 struct tug_bell *bell) {
    *job = (struct step_job){.base = {step_job_advance, step_job_completed, bell, NULL},
                             .steps = steps,
                             .permitted = permitted};
}

static inline void step_job_wait(struct step_job *job) {
    tug_engine_wait(step_job_is_done, job, -1, 0);
    assert_int_equal(atomic_load(&job->completed), 1);
    assert_int_equal(atomic_load(&job->moved), job->steps);
}

#endif
