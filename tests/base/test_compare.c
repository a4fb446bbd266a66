/*
 * What `tugboat compare` makes of its figures: intervals and changes.
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interval),
        cmocka_unit_test(test_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
