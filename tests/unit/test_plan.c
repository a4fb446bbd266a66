/* The sleep plan as tables of cases: what was observed, and what follows. Each constant is told
 * from its neighbours by one case at least. */
#include "check.h"
#include "engine/plan.h"

#define TICK TUG_TICK_NS
#define GLANCE TUG_GLANCE_NS

struct sleep_case {
    const char *what;
    struct tug_observed seen;
    struct tug_sleep_plan plan;
};

/* host_ns is -1 where nothing is due, so that it stands in every row. */
#define SEEN(...)                                                                                  \
    { .host_ns = -1, __VA_ARGS__ }

static const struct sleep_case sleeps[] = {
    {"nothing to do", SEEN(), {TUG_SLEEP_WATCH, TICK}},
    /* what is out */
    {"its news wake the thread",
     SEEN(.out = true, .services = true, .watched = true),
     {TUG_SLEEP_WATCH, TICK}},
    {"they have not come for long, and waits without a thread stand there",
     SEEN(.out = true, .services = true, .watched = true, .still = 99, .suspended = true),
     {TUG_SLEEP_WATCH, 4 * TICK}},
    {"they have not come for long",
     SEEN(.out = true, .services = true, .watched = true, .still = 99),
     {TUG_SLEEP_WATCH, 8 * TICK}},
    {"they do not", SEEN(.out = true), {TUG_SLEEP_WATCH, GLANCE}},
    {"callers make calls, and wait for none",
     SEEN(.out = true, .services = true, .watched = true, .called = true),
     {TUG_SLEEP_WATCH, TICK}},
    {"a caller has the baton that does not wait",
     SEEN(.held = true, .services = true, .called = true),
     {TUG_SLEEP_TIMED, TICK}},
    {"work of one who holds the baton", SEEN(.out = true, .held = true), {TUG_SLEEP_WATCH, TICK}},
    {"callers drive it", SEEN(.out = true, .served = true, .steady = 1), {TUG_SLEEP_TIMED, GLANCE}},
    /* how fast it comes back */
    {"a stream of operations",
     SEEN(.out = true, .served = true, .steady = 2),
     {TUG_SLEEP_TIMED, 4 * TICK}},
    {"such a stream, and peers to answer",
     SEEN(.out = true, .services = true, .served = true, .steady = 9),
     {TUG_SLEEP_TIMED, 4 * TICK}},
    {"such a stream, for long",
     SEEN(.out = true, .served = true, .steady = 9),
     {TUG_SLEEP_TIMED, 8 * TICK}},
    {"they are between two of them",
     SEEN(.served = true, .steady = 9),
     {TUG_SLEEP_TIMED, 8 * TICK}},
    {"work that callers drive who hold the baton",
     SEEN(.out = true, .held = true, .served = true, .steady = 1),
     {TUG_SLEEP_TIMED, 2 * TICK}},
    {"a caller waits for peers",
     SEEN(.held = true, .services = true, .served = true, .steady = 9),
     {TUG_SLEEP_TIMED, 4 * TICK}},
    {"callers poll, nothing is out",
     SEEN(.services = true, .served = true, .steady = 9),
     {TUG_SLEEP_TIMED, TICK}},
    /* who waits for news */
    {"nobody looks for peers' news",
     SEEN(.services = true, .watched = true),
     {TUG_SLEEP_WATCH, TICK}},
    {"callers look", SEEN(.services = true, .served = true, .steady = 1), {TUG_SLEEP_TIMED, TICK}},
    {"callers make calls",
     SEEN(.services = true, .watched = true, .called = true),
     {TUG_SLEEP_WATCH, TICK}},
    {"callers are in the host, which is attended",
     {.services = true, .watched = true, .called = true, .host_ns = TICK},
     {TUG_SLEEP_TIMED, TICK}},
    {"somebody has the baton", SEEN(.services = true, .held = true), {TUG_SLEEP_TIMED, TICK}},
    /* the host's polls */
    {"a poll is due soon", {.host_ns = 1000}, {TUG_SLEEP_WATCH, 1000}},
    {"a poll is due for what comes seldom",
     {.host_ns = TICK, .told = true},
     {TUG_SLEEP_WATCH, 32 * TICK}},
    {"a poll is due for what comes seldom, and callers look",
     {.host_ns = TICK, .told = true, .served = true},
     {TUG_SLEEP_TIMED, TICK}},
    {"a poll is due late", {.host_ns = 9 * TICK}, {TUG_SLEEP_WATCH, 9 * TICK}},
    {"a poll is due late, and work may be deserted",
     {.host_ns = 9 * TICK, .out = true, .served = true, .steady = 1},
     {TUG_SLEEP_TIMED, GLANCE}},
    {"a poll is due before that",
     {.host_ns = 1000, .out = true, .served = true, .steady = 1},
     {TUG_SLEEP_TIMED, 1000}},
    /* without a limit */
    {"not yet quiet for long", SEEN(.quiet = TUG_QUIET_BEATS - 1), {TUG_SLEEP_WATCH, TICK}},
    {"quiet for long", SEEN(.quiet = TUG_QUIET_BEATS), {TUG_SLEEP_DEEP, -1}},
    {"quiet for long, waits without a thread stand there",
     SEEN(.quiet = TUG_QUIET_BEATS, .suspended = true),
     {TUG_SLEEP_WATCH, 4 * TICK}},
    {"quiet for long, peers' news wake it",
     SEEN(.quiet = TUG_QUIET_BEATS, .services = true, .watched = true),
     {TUG_SLEEP_DEEP, -1}},
    {"quiet for long, peers' news do not wake it",
     SEEN(.quiet = 99, .services = true),
     {TUG_SLEEP_WATCH, TICK}},
    {"quiet for long, news are left to callers, who may go",
     SEEN(.quiet = 99, .services = true, .watched = true, .served = true),
     {TUG_SLEEP_TIMED, TICK}},
    {"a host that is attended", {.quiet = 99, .host_ns = TICK}, {TUG_SLEEP_WATCH, TICK}},
    {"work that another drives",
     SEEN(.quiet = 99, .out = true, .held = true),
     {TUG_SLEEP_WATCH, TICK}},
};

static void the_offload_thread_sleeps_as_planned(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(sleeps) / sizeof(sleeps[0]); i++) {
        const struct sleep_case *is = &sleeps[i];
        const struct tug_sleep_plan got = tug_sleep_plan(&is->seen);
        if (got.how != is->plan.how || got.limit_ns != is->plan.limit_ns)
            fail_msg("%s: how %d, %lld ns; %d, %lld ns expected", is->what, got.how,
                     (long long)got.limit_ns, is->plan.how, (long long)is->plan.limit_ns);
    }
}

/* Whatever else is true: no sleep is without a limit while somebody is relied on who may go, or
 * something has to be looked for. */
static void what_is_relied_on_is_looked_after(void **state) {
    (void)state;
    for (unsigned bits = 0; bits < 1u << 9; bits++) {
        const struct tug_observed seen = {.served = bits & 1,
                                          .called = bits & 2,
                                          .offered = bits & 4,
                                          .held = bits & 8,
                                          .out = bits & 16,
                                          .services = bits & 32,
                                          .watched = bits & 64,
                                          .host_ns = bits & 128 ? 1000 : -1,
                                          .suspended = bits & 256,
                                          .steady = 5,
                                          .quiet = 99};
        const bool is_quiet = !seen.called && !seen.offered && !seen.out && seen.host_ns < 0 &&
                              (!seen.services || (seen.watched && !seen.served));
        const bool may_be_deep = is_quiet && !seen.suspended;
        const struct tug_sleep_plan plan = tug_sleep_plan(&seen);
        assert_int_equal(plan.how == TUG_SLEEP_DEEP, may_be_deep);
        assert_int_equal(plan.limit_ns < 0, may_be_deep);
        assert_int_equal(tug_sleep_is_quiet(&seen), is_quiet);
    }
}

static void a_core_is_spare_if_ranks_leave_one_each(void **state) {
    (void)state;
    assert_true(tug_core_is_spare(0.5, false));
    assert_false(tug_core_is_spare(0.51, false));
    assert_false(tug_core_is_spare(0, false));
    assert_true(tug_core_is_spare(4, true));
}

static void what_does_not_tell_is_looked_at(void **state) {
    (void)state;
    assert_int_equal(tug_wait_limit(true, false, -1), -1);
    assert_int_equal(tug_wait_limit(true, false, 9 * GLANCE), 9 * GLANCE);
    assert_int_equal(tug_wait_limit(true, true, -1), 32 * TICK);
    assert_int_equal(tug_wait_limit(true, true, 9 * GLANCE), 9 * GLANCE);
    for (int seldom = 0; seldom < 2; seldom++) {
        assert_int_equal(tug_wait_limit(false, seldom, -1), GLANCE);
        assert_int_equal(tug_wait_limit(false, seldom, 9 * GLANCE), GLANCE);
        assert_int_equal(tug_wait_limit(false, seldom, GLANCE / 2), GLANCE / 2);
        assert_int_equal(tug_wait_limit(false, seldom, 0), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_core_is_spare_if_ranks_leave_one_each),
        cmocka_unit_test(what_does_not_tell_is_looked_at),
        cmocka_unit_test(the_offload_thread_sleeps_as_planned),
        cmocka_unit_test(what_is_relied_on_is_looked_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
