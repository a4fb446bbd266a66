/* Commands through the engine: who executes them, in which order, what drain and stop promise. */
#include <sched.h>

#include "engine_fixture.h"

static _Atomic int executed;
static uint64_t order[4096];
static pthread_t executor;

static void record(struct tug_command *command) {
    int at = atomic_load(&executed);
    order[at % 4096] = command->payload.words[0];
    executor = pthread_self();
    atomic_store(&executed, at + 1);
}

static void queue(uint64_t value) {
    struct tug_ticket ticket = {0};
    while (tug_engine_enter(&ticket) != TUG_ENTRY_TICKET)
        tug_engine_poll();
    ticket.cell->execute = record;
    ticket.cell->payload.words[0] = value;
    tug_engine_commit(&ticket);
}

static void expect_order(int count) {
    assert_int_equal(atomic_load(&executed), count);
    for (int i = 0; i < count; i++)
        assert_int_equal(order[i % 4096], (uint64_t)i);
}

static int reset(void **state) {
    (void)state;
    atomic_store(&executed, 0);
    return 0;
}

static int stop(void **state) {
    (void)state;
    tug_engine_stop();
    return 0;
}

static void starts_and_stops(void **state) {
    (void)state;
    assert_false(tug_engine_running());
    tug_engine_stop(); /* nothing to stop */
    for (int i = 0; i < 30; i++) {
        start_engine((enum tug_progress)(i % 3), 16);
        assert_int_equal(tug_engine_start(count_host_poll), 0); /* already */
        stop_engine();
    }
}

static void idle_entry_is_the_baton(void **state) {
    (void)state;
    struct tug_ticket ticket = {0};
    start_engine(TUG_PROGRESS_AUTO, 16);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_BATON);
        tug_engine_leave();
    }
}

static void never_the_baton_with_a_thread_only(void **state) {
    (void)state;
    start_engine(TUG_PROGRESS_THREAD, 16);
    for (uint64_t i = 0; i < 200; i++) {
        struct tug_ticket ticket = {0};
        enum tug_entry entry;
        while ((entry = tug_engine_enter(&ticket)) == TUG_ENTRY_FULL)
            tug_engine_poll();
        assert_int_equal(entry, TUG_ENTRY_TICKET);
        ticket.cell->execute = record;
        ticket.cell->payload.words[0] = i;
        tug_engine_commit(&ticket);
    }
    tug_engine_drain();
    expect_order(200);
    assert_false(pthread_equal(executor, pthread_self()));
}

static void leaving_executes_what_came_meanwhile(void **state) {
    (void)state;
    struct tug_ticket ticket = {0};
    start_engine(TUG_PROGRESS_CALLER, 16);
    assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_BATON);
    for (uint64_t i = 0; i < 10; i++)
        queue(i);
    assert_int_equal(atomic_load(&executed), 0);
    tug_engine_leave();
    expect_order(10);
    assert_true(pthread_equal(executor, pthread_self()));
    assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_BATON);
    tug_engine_leave();
}

static void full_at_once_and_room_after_leaving(void **state) {
    (void)state;
    struct tug_ticket ticket = {0};
    start_engine(TUG_PROGRESS_AUTO, 16);
    assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_BATON);
    for (uint64_t i = 0; i < 16; i++)
        queue(i);
    for (int i = 0; i < 100; i++)
        assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_FULL);
    tug_engine_leave();
    tug_engine_drain();
    expect_order(16);
}

static void a_long_queue_outlasts_the_batch(void **state) {
    (void)state;
    struct tug_ticket ticket = {0};
    start_engine(TUG_PROGRESS_AUTO, 4096);
    assert_int_equal(tug_engine_enter(&ticket), TUG_ENTRY_BATON);
    for (uint64_t i = 0; i < 4096; i++)
        queue(i);
    tug_engine_leave(); /* bounded: the rest is the offload thread's, or the drain's */
    tug_engine_drain();
    expect_order(4096);
}

static void add_one(void *argument) {
    ++*(int *)argument;
}

static void call_runs_in_order_in_every_mode(void **state) {
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        int calls = 0;
        start_engine((enum tug_progress)mode, 16);
        for (int i = 0; i < 300; i++) {
            tug_engine_call(add_one, &calls);
            assert_int_equal(calls, i + 1);
        }
        stop_engine();
    }
}

static void drain_of_an_idle_engine_returns(void **state) {
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        start_engine((enum tug_progress)mode, 16);
        for (int i = 0; i < 1000; i++)
            tug_engine_drain();
        stop_engine();
    }
}

static void stop_executes_what_is_queued(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++) {
        atomic_store(&executed, 0);
        start_engine(TUG_PROGRESS_THREAD, 64);
        for (uint64_t i = 0; i < 50; i++)
            queue(i);
        stop_engine();
        expect_order(50);
    }
}

/* A second thread that holds the baton for a while. */
static _Atomic int holding, let_go;

static void *hold_baton(void *argument) {
    (void)argument;
    struct tug_ticket ticket = {0};
    while (tug_engine_enter(&ticket) != TUG_ENTRY_BATON)
        sched_yield();
    atomic_store(&holding, 1);
    while (!atomic_load(&let_go))
        sched_yield();
    tug_engine_leave();
    return NULL;
}

static void *let_go_later(void *argument) {
    (void)argument;
    check_sleep_us(30000);
    atomic_store(&let_go, 1);
    return NULL;
}

static void drain_waits_for_the_holder(void **state) {
    (void)state;
    for (int mode = 0; mode < 3; mode += 2) { /* auto, caller */
        pthread_t holder, other;
        atomic_store(&holding, 0);
        atomic_store(&let_go, 0);
        atomic_store(&executed, 0);
        start_engine(mode == 0 ? TUG_PROGRESS_AUTO : TUG_PROGRESS_CALLER, 16);
        assert_int_equal(pthread_create(&holder, NULL, hold_baton, NULL), 0);
        CHECK_SOON(atomic_load(&holding));
        for (uint64_t i = 0; i < 5; i++)
            queue(i);
        assert_int_equal(pthread_create(&other, NULL, let_go_later, NULL), 0);
        tug_engine_drain(); /* parks: the holder is away for long */
        expect_order(5);
        pthread_join(holder, NULL);
        pthread_join(other, NULL);
        stop_engine();
    }
}

static void a_slow_producer_does_not_stop_the_others(void **state) {
    (void)state;
    struct tug_ticket baton = {0}, slow = {0};
    start_engine(TUG_PROGRESS_AUTO, 16);
    assert_int_equal(tug_engine_enter(&baton), TUG_ENTRY_BATON);
    assert_int_equal(tug_engine_enter(&slow), TUG_ENTRY_TICKET);
    queue(1);
    tug_engine_leave(); /* returns: what cannot be executed yet is left to the offload thread */
    check_sleep_us(5000);
    assert_int_equal(atomic_load(&executed), 0);
    slow.cell->execute = record;
    slow.cell->payload.words[0] = 0;
    tug_engine_commit(&slow);
    tug_engine_drain();
    expect_order(2);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, stop)
    const struct CMUnitTest tests[] = {
        CASE(starts_and_stops),
        CASE(idle_entry_is_the_baton),
        CASE(never_the_baton_with_a_thread_only),
        CASE(leaving_executes_what_came_meanwhile),
        CASE(full_at_once_and_room_after_leaving),
        CASE(a_long_queue_outlasts_the_batch),
        CASE(call_runs_in_order_in_every_mode),
        CASE(drain_of_an_idle_engine_returns),
        CASE(stop_executes_what_is_queued),
        CASE(drain_waits_for_the_holder),
        CASE(a_slow_producer_does_not_stop_the_others),
    };
    return cmocka_run_group_tests_name("commands", tests, NULL, NULL);
}
