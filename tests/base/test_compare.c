/*
 * What `tugboat compare` makes of its figures: intervals, changes, and settings worth trying.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/compare.h"

static void assert_near(double got, double wanted) {
    assert_true(got > wanted - 1e-9 && got < wanted + 1e-9);
}

/* Up to five values: all of them. Then as many are left away at the ends as 95 % allow. */
static void test_interval(void **state) {
    static const struct {
        int n, trimmed;
    } cases[] = {{2, 0}, {3, 0}, {5, 0}, {6, 0}, {8, 0}, {9, 1}, {12, 2}, {20, 5}, {1000, 468}};
    double values[1000];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int n = cases[i].n;
        for (int v = 0; v < n; v++)
            values[v] = n - v; /* n to 1 */
        const struct tug_interval interval = tug_interval_of(values, n);
        assert_near(interval.median, (n + 1) / 2.0);
        assert_near(interval.low, 1 + cases[i].trimmed);
        assert_near(interval.high, n - cases[i].trimmed);
    }
}

static struct tug_change change_of(struct tug_interval without, struct tug_interval with) {
    struct tug_change change = {.sides = {without, with}};
    tug_change_judge(&change);
    return change;
}

static void test_change(void **state) {
    (void)state;
    struct tug_change change =
        change_of((struct tug_interval){10, 8, 12}, (struct tug_interval){5, 4, 6});
    assert_int_equal(change.outcome, TUG_LESS);
    assert_near(change.share, -0.5);
    assert_near(change.low, 4 / 12.0 - 1);
    assert_near(change.high, 6 / 8.0 - 1);
    change = change_of((struct tug_interval){5, 4, 6}, (struct tug_interval){10, 8, 12});
    assert_int_equal(change.outcome, TUG_MORE);
    /* they touch */
    change = change_of((struct tug_interval){5, 4, 8}, (struct tug_interval){10, 8, 12});
    assert_int_equal(change.outcome, TUG_SAME);
    /* apart, and less than a hundredth */
    change =
        change_of((struct tug_interval){100, 100, 100}, (struct tug_interval){100.5, 100.4, 100.6});
    assert_int_equal(change.outcome, TUG_SAME);
    change = change_of((struct tug_interval){0, 0, 0}, (struct tug_interval){0, 0, 0});
    assert_int_equal(change.outcome, TUG_SAME);
}

/* ---- settings ---- */

static const char *given;

static bool is_set(const char *name) {
    return given != NULL && strcmp(name, given) == 0;
}

/* A run of 10 s on two cores that speaks for nothing. */
static struct tug_verdict_report report;
static struct tug_circumstances circumstances;

static int clean(void **state) {
    (void)state;
    given = NULL;
    report = (struct tug_verdict_report){.ranks = 2, .elapsed_s = 10};
    circumstances = (struct tug_circumstances){
        .report = &report, .wall = TUG_SAME, .busy = 2, .idle = 0, .cores = 2};
    return 0;
}

static void assert_suggested(const char *setting) {
    struct tug_suggestion suggestions[TUG_SUGGESTIONS];
    const int n = tug_compare_suggest(&circumstances, is_set, suggestions);
    if (setting == NULL) {
        assert_int_equal(n, 0);
        return;
    }
    assert_int_equal(n, 1);
    assert_string_equal(suggestions[0].setting, setting);
    assert_true(strlen(suggestions[0].why) > 20);
    assert_true(strlen(suggestions[0].why) + 1 < sizeof suggestions[0].why);
}

static void test_nothing(void **state) {
    (void)state;
    assert_suggested(NULL);
    circumstances.report = NULL;
    assert_suggested(NULL);
}

static void test_collectives(void **state) {
    (void)state;
    report.time_s[TUG_TIME_BLOCKING] = 2;
    report.collectives_passed = 1000;
    assert_suggested("TUGBOAT_COLLECTIVES=on");
    given = "TUGBOAT_COLLECTIVES";
    assert_suggested(NULL);
    given = NULL;
    report.collectives = 5000; /* taken only because they are counted */
    assert_suggested("TUGBOAT_COLLECTIVES=on");
    report.engine_called_for = true;
    assert_suggested(NULL);
    report.collectives = 0;
    report.time_s[TUG_TIME_BLOCKING] = 0.5;
    assert_suggested(NULL);
}

static void test_polite(void **state) {
    (void)state;
    report.time_s[TUG_TIME_SYNC] = 2;
    circumstances.others = 1;
    assert_suggested("TUGBOAT_WAIT=polite");
    circumstances.idle = 1;
    assert_suggested(NULL);
    circumstances.idle = -1;
    assert_suggested(NULL);
    circumstances.idle = 0;
    report.outside_waits = 5;
    assert_suggested(NULL);
}

static void test_native(void **state) {
    (void)state;
    report.outside_waits = 10000;
    circumstances.busy = 1;
    assert_suggested(NULL);
    circumstances.wall = TUG_MORE;
    assert_suggested("TUGBOAT_WAIT=native");
    circumstances.busy = 2;
    assert_suggested(NULL);
}

static void test_caller(void **state) {
    (void)state;
    report.engine_cpu_s = 1;
    assert_suggested(NULL);
    circumstances.wall = TUG_MORE;
    assert_suggested("TUGBOAT_PROGRESS=caller");
    circumstances.busy = 1;
    assert_suggested(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interval),
        cmocka_unit_test(test_change),
        cmocka_unit_test_setup(test_nothing, clean),
        cmocka_unit_test_setup(test_collectives, clean),
        cmocka_unit_test_setup(test_polite, clean),
        cmocka_unit_test_setup(test_native, clean),
        cmocka_unit_test_setup(test_caller, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
