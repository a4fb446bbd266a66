/* The fit of LogGP parameters: synthetic measurements with and without noise, terms that nothing
 * tells, and measurements that no parameters explain. */
#include "check.h"
#include "model/fit.h"

#define SIZES 8
#define MOST (2 * SIZES + 1)

static const struct tug_loggp truth[] = {
    {4e-6, 1e-6, 3e-7, 1.7e-10},  /* TCP */
    {9e-7, 1e-7, 5e-8, 8e-11},    /* InfiniBand */
    {1e-7, 0, 1e-9, 1.04762e-10}, /* FX100 */
    {1e-7, 2e-8, 0, 1e-11},       /* memory */
    {0, 1e-6, 0, 1e-9},
};
#define TRUTHS (sizeof(truth) / sizeof(truth[0]))

/* -1 to 1, the same in every run. */
static double noise(void) {
    static uint64_t state = 20261122;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)state / 9223372036854775808.0;
}

/* What would be measured, each figure off by up to `share` of it. */
static size_t measure(const struct tug_loggp *p, double share, struct tug_observation *seen) {
    size_t n = 0;
    for (int i = 0; i < SIZES; i++) {
        uint64_t bytes = (uint64_t)8 << (2 * i);
        double trip = p->latency_s + 2 * p->overhead_s + (double)bytes * p->byte_s;
        double stream = p->gap_s + (double)bytes * p->byte_s;
        seen[n++] = tug_observe_trip(bytes, trip * (1 + share * noise()));
        seen[n++] = tug_observe_stream(bytes, stream * (1 + share * noise()));
    }
    if (p->overhead_s > 0)
        seen[n++] = tug_observe_overhead(p->overhead_s * (1 + share * noise()));
    return n;
}

/* Within a share of what it should be, or of `scale` where that is what can be seen. */
static void assert_near(double value, double wanted, double share, double scale) {
    double difference = value > wanted ? value - wanted : wanted - value;
    if (difference > share * (wanted > scale ? wanted : scale))
        fail_msg("%g is not %g", value, wanted);
}

static void exact(void **state) {
    (void)state;
    for (size_t i = 0; i < TRUTHS; i++) {
        struct tug_observation seen[MOST];
        struct tug_loggp found;
        double error = tug_fit_loggp(seen, measure(&truth[i], 0, seen), &found);
        assert_true(error < 1e-6);
        assert_near(found.latency_s + 2 * found.overhead_s,
                    truth[i].latency_s + 2 * truth[i].overhead_s, 1e-6, 0);
        assert_near(found.overhead_s, truth[i].overhead_s, 1e-6, 1e-7);
        assert_near(found.gap_s, truth[i].gap_s, 1e-6, 1e-9);
        assert_near(found.byte_s, truth[i].byte_s, 1e-6, 0);
    }
}

static void noisy(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++)
        for (size_t i = 0; i < TRUTHS; i++) {
            struct tug_observation seen[MOST];
            struct tug_loggp found;
            double error = tug_fit_loggp(seen, measure(&truth[i], 0.1, seen), &found);
            assert_true(error < 0.1);
            assert_near(found.latency_s + 2 * found.overhead_s,
                        truth[i].latency_s + 2 * truth[i].overhead_s, 0.15, 0);
            assert_near(found.byte_s, truth[i].byte_s, 0.1, 0);
            assert_near(found.gap_s, truth[i].gap_s, 0.2, 1e-8);
            assert_true(found.latency_s >= 0 && found.overhead_s >= 0 && found.gap_s >= 0);
        }
}

/* Not enough to tell all terms: what is told is right. */
static void too_little(void **state) {
    (void)state;
    struct tug_loggp found;
    struct tug_observation seen[2] = {tug_observe_stream(1000, 2e-6),
                                      tug_observe_stream(2000, 3e-6)};
    assert_true(tug_fit_loggp(seen, 2, &found) < 1e-6);
    assert_near(found.gap_s, 1e-6, 1e-6, 0);
    assert_near(found.byte_s, 1e-9, 1e-6, 0);
    assert_true(found.latency_s == 0 && found.overhead_s == 0);
    assert_true(tug_fit_loggp(seen, 1, &found) < 1e-6);
    assert_near(found.gap_s + 1000 * found.byte_s, 2e-6, 1e-6, 0);
    assert_true(tug_fit_loggp(seen, 0, &found) == 0);
    assert_true(found.gap_s == 0 && found.byte_s == 0);
}

/* A line through these would start below zero. */
static void not_negative(void **state) {
    (void)state;
    struct tug_loggp found;
    struct tug_observation seen[] = {tug_observe_stream(1000, 1e-6), tug_observe_stream(2000, 4e-6),
                                     tug_observe_stream(4000, 16e-6)};
    double error = tug_fit_loggp(seen, 3, &found);
    assert_true(found.gap_s == 0);
    assert_true(found.byte_s > 1e-9 && found.byte_s < 4e-9);
    assert_true(error > 0.3 && error < 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact),
        cmocka_unit_test(noisy),
        cmocka_unit_test(too_little),
        cmocka_unit_test(not_negative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
