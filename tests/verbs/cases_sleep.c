/* Sleep: wakes, and what an idle transport costs. */
#include "fixture.h"

static uint64_t cpu_ns(void) {
    return check_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void sleep_wakes(void **state) {
    (void)state;
    struct fake_end end;
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    for (int i = 0; i < 100; i++) {
        post(TUG_OPERATION_READ, theirs, 0, 0, i % 2 ? 1u << 20 : 8, &end);
        fake_flush(ORIGIN);
        assert_true(sleep_until_done() < 50);
        assert_done(&end, 0);
    }
    /* an atomic to a peer that is gone fails seconds later */
    lose_server();
    fake_post(ORIGIN, make_atomic(ORIGIN, TUG_OPERATION_FETCH, TUG_ADD, 1, 0, 0, NULL, 0, &end));
    fake_flush(ORIGIN);
    const uint64_t cpu = cpu_ns();
    const unsigned sleeps = sleep_until_done();
    assert_in_range(sleeps, 1, 20); /* the emulated device tells of more than completions */
    assert_true(cpu_ns() - cpu < 200000000);
    assert_done(&end, TUG_ERR_PEER);
}

void sleep_costs_nothing(void **state) {
    (void)state;
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    assert_true(ORIGIN->verbs->completions.watch.watched);
    const uint64_t before = cpu_ns();
    check_sleep_us(1000000);
    assert_true(cpu_ns() - before < 50000000);
}

void sleep_one_thread(void **state) {
    (void)state;
    const unsigned before = check_threads();
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    assert_int_equal(check_threads(), before + 1);
    struct fake_end end;
    fake_post(TARGET, fake_operation(TARGET, 0, TUG_OPERATION_WRITE, mine, 0, theirs, 0, 8, &end));
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    assert_true(TARGET->verbs->completions.watch.watched);
    assert_int_equal(check_threads(), before + 1);
}
