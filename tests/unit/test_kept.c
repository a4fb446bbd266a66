/* Runs that are kept (request/request.h): they end without the engine if they can, are the engine's
 * where they are not to be kept, where a wait takes long and where the request is released, and are
 * advanced by one thread at a time, whoever looks. */
#include <sched.h>

#include "engine_fixture.h"
#include "host/host.h"
#include "request/request.h"

#define RUNS 300

struct run {
    struct tug_request request;
    struct tug_bell bell;
    _Atomic int permitted; /* advances that may end the run */
    _Atomic int advances, inside, destroyed;
    bool keeps;
};

static _Atomic int host_looks;

static int look_at_host(MPI_Request *request, int *flag, MPI_Status *status) {
    (void)request, (void)status;
    host_looks++;
    *flag = 0;
    return MPI_SUCCESS;
}

static bool advance(struct tug_job *job, bool *done) {
    struct run *run = (struct run *)job;
    assert_int_equal(atomic_fetch_add(&run->inside, 1), 0);
    atomic_fetch_add(&run->advances, 1);
    *done = atomic_load(&run->permitted) > 0;
    atomic_fetch_sub(&run->inside, 1);
    return *done;
}

static void start(struct tug_request *request) {
    struct run *run = (struct run *)request;
    atomic_store(&run->advances, 0);
    request->job.bell = &run->bell;
}

static bool may_keep(const struct tug_request *request) {
    return ((const struct run *)request)->keeps;
}

static void destroy(struct tug_request *request) {
    atomic_fetch_add(&((struct run *)request)->destroyed, 1);
}

static void open_run(struct run *run, bool keeps) {
    *run = (struct run){.request = {.job.advance = advance,
                                    .start = start,
                                    .may_keep = may_keep,
                                    .destroy = destroy},
                        .keeps = keeps};
    assert_int_equal(tug_request_register(&run->request), 0);
}

static void permit(struct run *run) {
    atomic_store(&run->permitted, 1);
    tug_bell_ring(&run->bell, true);
}

static void end_run(struct run *run) {
    assert_false(tug_request_pending(&run->request));
    assert_false(tug_request_is_kept(&run->request));
    run->request.active = false;
    atomic_store(&run->permitted, 0);
}

static void close_run(struct run *run) {
    tug_request_release(&run->request);
    assert_int_equal(run->destroyed, 1);
}

static void test_over_at_once(void **state) {
    (void)state;
    struct run run;
    open_run(&run, true);
    permit(&run);
    tug_request_start(&run.request);
    assert_int_equal(run.advances, 1);
    tug_request_wait(&run.request);
    assert_int_equal(run.advances, 1);
    end_run(&run);
    close_run(&run);
}

static void test_looks(void **state) {
    (void)state;
    struct run run;
    open_run(&run, true);
    tug_request_start(&run.request);
    assert_true(tug_request_is_kept(&run.request));
    assert_false(tug_engine_has_work());
    tug_request_poll(&run.request);
    assert_true(tug_request_pending(&run.request));
    permit(&run);
    assert_true(tug_request_look(&run.request));
    assert_int_equal(run.advances, 3);
    end_run(&run);
    close_run(&run);
}

static void test_not_to_be_kept(void **state) {
    (void)state;
    struct run run;
    open_run(&run, false);
    tug_request_start(&run.request);
    assert_false(tug_request_is_kept(&run.request));
    assert_true(tug_engine_has_work());
    permit(&run);
    tug_request_wait(&run.request);
    end_run(&run);
    close_run(&run);
}

static void *permit_late(void *argument) {
    const struct timespec pause = {.tv_nsec = 20000000};
    for (int i = 0; i < 500 && (i == 0 || host_looks == 0); i++) /* ten seconds on a busy machine */
        nanosleep(&pause, NULL);
    permit(argument);
    return NULL;
}

/* The wait hands over and sleeps, and has the host get on. */
static void test_long_wait(void **state) {
    (void)state;
    struct run run;
    pthread_t thread;
    open_run(&run, true);
    tug_request_start(&run.request);
    assert_int_equal(pthread_create(&thread, NULL, permit_late, &run), 0);
    tug_request_wait(&run.request);
    pthread_join(thread, NULL);
    assert_true(host_looks > 0);
    end_run(&run);
    close_run(&run);
}

static void test_hand_over(void **state) {
    (void)state;
    struct run run;
    open_run(&run, true);
    tug_request_start(&run.request);
    assert_false(tug_request_hand_over(&run.request, false));
    assert_false(tug_request_is_kept(&run.request));
    assert_true(tug_request_hand_over(&run.request, true));
    permit(&run);
    tug_request_wait(&run.request);
    end_run(&run);
    close_run(&run);
}

/* The program frees it: it goes when it is over. */
static void test_release(void **state) {
    (void)state;
    struct run run;
    open_run(&run, true);
    tug_request_start(&run.request);
    tug_request_release(&run.request);
    assert_int_equal(run.destroyed, 0);
    permit(&run);
    while (run.destroyed == 0)
        tug_engine_poll();
}

static void *look_on(void *argument) {
    struct run *run = argument;
    while (tug_request_pending(&run->request)) {
        tug_request_poll(&run->request);
        sched_yield();
    }
    return NULL;
}

/* advance() sees that no two threads are inside. */
static void test_looks_beside_a_wait(void **state) {
    (void)state;
    struct run run;
    open_run(&run, true);
    for (int i = 0; i < RUNS; i++) {
        pthread_t looker, permitter;
        tug_request_start(&run.request);
        assert_int_equal(pthread_create(&looker, NULL, look_on, &run), 0);
        assert_int_equal(pthread_create(&permitter, NULL, i % 64 ? look_on : permit_late, &run), 0);
        if (i % 64)
            permit(&run);
        tug_request_wait(&run.request);
        pthread_join(looker, NULL);
        pthread_join(permitter, NULL);
        end_run(&run);
    }
    close_run(&run);
}

static int begin(void **state) {
    (void)state;
    start_engine(TUG_PROGRESS_AUTO, 64);
    tug_host.Test = look_at_host;
    return 0;
}

static int end(void **state) {
    (void)state;
    stop_engine();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_over_at_once),        cmocka_unit_test(test_looks),
        cmocka_unit_test(test_not_to_be_kept),      cmocka_unit_test(test_long_wait),
        cmocka_unit_test(test_hand_over),           cmocka_unit_test(test_release),
        cmocka_unit_test(test_looks_beside_a_wait),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
