/* Jobs: advanced until done, completed exactly once, by whoever waits or by the offload thread;
 * more of them than tags; jobs that need a ring from elsewhere. */
#include "engine_fixture.h"

static int stop(void **state) {
    (void)state;
    tug_engine_stop();
    return 0;
}

static void done_at_launch(void **state) {
    (void)state;
    static struct step_job job;
    start_engine(TUG_PROGRESS_AUTO, 16);
    for (int i = 0; i < 100; i++) {
        step_job_init(&job, 3, 3, NULL);
        tug_engine_launch(&job.base);
        assert_int_equal(atomic_load(&job.completed), 1); /* the baton was free */
        assert_true(pthread_equal(atomic_load(&job.driver), pthread_self()));
        step_job_wait(&job);
    }
}

static void *permit_slowly(void *argument) {
    struct step_job *job = argument;
    for (int i = 0; i < job->steps; i++) {
        check_sleep_us(300);
        atomic_fetch_add(&job->permitted, 1);
        if (job->base.bell != NULL)
            (void)tug_bell_ring(job->base.bell, true);
    }
    return NULL;
}

static void waited_for(enum tug_progress progress, struct tug_bell *bell) {
    static struct step_job job;
    pthread_t helper;
    start_engine(progress, 16);
    for (int i = 0; i < 5; i++) {
        step_job_init(&job, 20, 0, bell);
        tug_engine_launch(&job.base);
        assert_int_equal(pthread_create(&helper, NULL, permit_slowly, &job), 0);
        step_job_wait(&job);
        if (progress == TUG_PROGRESS_CALLER)
            assert_true(pthread_equal(atomic_load(&job.driver), pthread_self()));
        if (progress == TUG_PROGRESS_THREAD)
            assert_false(pthread_equal(atomic_load(&job.driver), pthread_self()));
        pthread_join(helper, NULL);
    }
    stop_engine();
}

static void waiting_drives_polled_jobs(void **state) {
    (void)state;
    waited_for(TUG_PROGRESS_AUTO, NULL);
    waited_for(TUG_PROGRESS_CALLER, NULL);
    waited_for(TUG_PROGRESS_THREAD, NULL);
}

static void waiting_sleeps_on_the_jobs_bell(void **state) {
    (void)state;
    static struct tug_bell bell;
    waited_for(TUG_PROGRESS_AUTO, &bell);
    waited_for(TUG_PROGRESS_CALLER, &bell);
    waited_for(TUG_PROGRESS_THREAD, &bell);
}

static void nobody_calls_and_it_is_done(void **state) {
    (void)state;
    static struct tug_bell bell;
    for (int mode = 0; mode < 2; mode++) {
        static struct step_job polled, rung;
        start_engine(mode == 0 ? TUG_PROGRESS_AUTO : TUG_PROGRESS_THREAD, 16);
        step_job_init(&polled, 5, 0, NULL);
        step_job_init(&rung, 5, 0, &bell);
        for (int which = 0; which < 2; which++) {
            struct step_job *job = which == 0 ? &polled : &rung;
            tug_engine_launch(&job->base);
            (void)permit_slowly(job);
            CHECK_SOON(step_job_is_done(job));
            assert_false(pthread_equal(atomic_load(&job->driver), pthread_self()));
            assert_int_equal(atomic_load(&job->completed), 1);
        }
        stop_engine();
    }
}

static void polling_drives(void **state) {
    (void)state;
    static struct step_job job;
    start_engine(TUG_PROGRESS_CALLER, 16);
    step_job_init(&job, 10, 0, NULL);
    tug_engine_launch(&job.base);
    for (int i = 0; i < 10; i++) {
        assert_false(step_job_is_done(&job));
        atomic_fetch_add(&job.permitted, 1);
        tug_engine_poll();
        assert_int_equal(atomic_load(&job.moved), i + 1);
    }
    assert_int_equal(atomic_load(&job.completed), 1);
    int advances = atomic_load(&job.advances);
    tug_engine_poll();
    assert_int_equal(atomic_load(&job.advances), advances); /* it is not touched any more */
}

static void several_out_of_order(void **state) {
    (void)state;
    enum { N = 16 };
    static struct step_job jobs[N];
    start_engine(TUG_PROGRESS_CALLER, 64);
    for (int i = 0; i < N; i++) {
        step_job_init(&jobs[i], 1, 0, NULL);
        tug_engine_launch(&jobs[i].base);
    }
    for (int i = 0; i < N; i++) {
        int at = (i * 5 + 3) % N;
        atomic_store(&jobs[at].permitted, 1);
        step_job_wait(&jobs[at]);
        int done = 0;
        for (int k = 0; k < N; k++)
            done += atomic_load(&jobs[k].completed);
        assert_int_equal(done, i + 1);
    }
}

static void any_number_of_jobs(void **state) {
    (void)state;
    enum { N = 2000 };
    static struct step_job jobs[N];
    for (int mode = 0; mode < 3; mode++) {
        start_engine((enum tug_progress)mode, 16);
        for (int i = 0; i < N; i++) {
            step_job_init(&jobs[i], 4, 4 * (i % 3 == 0), NULL);
            tug_engine_launch(&jobs[i].base);
        }
        for (int i = 0; i < N; i++)
            atomic_store(&jobs[i].permitted, 4);
        for (int i = 0; i < N; i++)
            step_job_wait(&jobs[i]);
        stop_engine();
        for (int i = 0; i < N; i++)
            assert_int_equal(atomic_load(&jobs[i].completed), 1);
    }
}

/* A job whose completion launches the next: callbacks may submit. */
struct chain_job {
    struct step_job step;
    int left;
};

static void chain_completed(struct tug_job *base) {
    struct chain_job *job = (struct chain_job *)base;
    if (--job->left == 0) {
        step_job_completed(base);
        return;
    }
    atomic_store(&job->step.moved, 0);
    tug_engine_launch(base);
}

static void completion_may_launch(void **state) {
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        struct chain_job job;
        start_engine((enum tug_progress)mode, 16);
        step_job_init(&job.step, 2, 2, NULL);
        job.step.base.completed = chain_completed;
        job.left = 200;
        tug_engine_launch(&job.step.base);
        step_job_wait(&job.step);
        assert_int_equal(job.left, 0);
        stop_engine();
    }
}

static bool flag_is_set(void *argument) {
    return atomic_load((_Atomic int *)argument);
}

static void *set_flag_later(void *argument) {
    check_sleep_us(20000);
    atomic_store((_Atomic int *)argument, 1);
    return NULL;
}

static void waiting_for_something_outside(void **state) {
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        _Atomic int flag = 0;
        pthread_t other;
        start_engine((enum tug_progress)mode, 16);
        assert_int_equal(pthread_create(&other, NULL, set_flag_later, (void *)&flag), 0);
        tug_engine_wait(flag_is_set, (void *)&flag, 100000, 0);
        assert_int_equal(atomic_load(&flag), 1);
        pthread_join(other, NULL);
        stop_engine();
    }
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, NULL, stop)
    const struct CMUnitTest tests[] = {
        CASE(done_at_launch),
        CASE(waiting_drives_polled_jobs),
        CASE(waiting_sleeps_on_the_jobs_bell),
        CASE(nobody_calls_and_it_is_done),
        CASE(polling_drives),
        CASE(several_out_of_order),
        CASE(any_number_of_jobs),
        CASE(completion_may_launch),
        CASE(waiting_for_something_outside),
    };
    return cmocka_run_group_tests_name("jobs", tests, NULL, NULL);
}
