/* The tuner: the model is trusted while it is right, all candidates are measured once it is wrong,
 * what was decided is tried again, and ranks that see different times run the same candidate in the
 * same run all the same. */
#include "check.h"
#include "model/tuner.h"

#include <math.h>
#include <string.h>

enum { RANKS = 3, RUNS = TUG_TUNER_AGAIN };

static struct tug_tuner tuner_of(uint32_t n, const double *seconds) {
    struct tug_tuner tuner;
    memset(&tuner, 0, sizeof(tuner));
    tuner.ncandidates = n;
    for (uint32_t i = 0; i < n; i++)
        tuner.candidates[i].seconds = seconds[i];
    tug_tuner_init(&tuner);
    return tuner;
}

/* What no run takes: of those that do not count the time need not be known. */
#define NOT_TIMED 1e9

/* Ranks that run together, and how often they met to agree. */
struct job {
    struct tug_tuner tuners[RANKS];
    uint64_t rest;
    int meetings;
};

static void meet(struct tug_tuner tuners[RANKS]) {
    double most[TUG_TUNER_SAMPLES] = {0};
    for (int r = 0; r < RANKS; r++) {
        double votes[TUG_TUNER_SAMPLES];
        tug_tuner_vote(&tuners[r], votes);
        for (int i = 0; i < TUG_TUNER_SAMPLES; i++)
            most[i] = votes[i] > most[i] ? votes[i] : most[i];
    }
    for (int r = 0; r < RANKS; r++)
        tug_tuner_agreed(&tuners[r], most);
}

/* What the next run takes. */
static uint32_t begin_run(struct job *job) {
    struct tug_tuner *tuners = job->tuners;
    if (tuners[0].settled && job->rest-- == 0)
        for (int r = 0; r < RANKS; r++)
            tug_tuner_resume(&tuners[r]);
    const bool must = tug_tuner_must_agree(&tuners[0]);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(tug_tuner_must_agree(&tuners[r]), must);
    if (must) {
        meet(tuners);
        job->meetings++;
        job->rest = tuners[0].rest - 1;
    }
    for (int r = 1; r < RANKS; r++) {
        assert_int_equal(tuners[r].current, tuners[0].current);
        assert_int_equal(tuners[r].settled, tuners[0].settled);
        assert_int_equal(tuners[r].rest, tuners[0].rest);
    }
    return tuners[0].current;
}

static void end_run(struct job *job, int rank, double seconds) {
    struct tug_tuner *tuner = &job->tuners[rank];
    if (!tuner->settled)
        tug_tuner_note(tuner, tug_tuner_counts(tuner) ? seconds : NOT_TIMED);
}

/* Runs ranks together; truth[i] is what candidate i takes, rank r sees it up to 30 % shorter, and a
 * run in eleven is disturbed. Returns how often they met to agree. */
static int run_together(struct tug_tuner tuners[RANKS], const double *truth, uint32_t taken[RUNS]) {
    struct job job = {.rest = TUG_TUNER_NEVER};
    memcpy(job.tuners, tuners, sizeof(job.tuners));
    for (int run = 0; run < RUNS; run++) {
        taken[run] = begin_run(&job);
        for (int r = 0; r < RANKS; r++)
            end_run(&job, r, truth[taken[run]] * (1 - 0.1 * r) + (run % 11 == 3 ? 1.0 : 0.0));
    }
    memcpy(tuners, job.tuners, sizeof(job.tuners));
    return job.meetings;
}

static void right_model_is_trusted(void **state) {
    const double predicted[] = {1e-5, 2e-5, 3e-5};
    const double truth[] = {1.8e-5, 1e-6, 1e-6}; /* within a factor of two: these are not tried */
    struct tug_tuner tuners[RANKS];
    uint32_t taken[RUNS];
    (void)state;
    for (int r = 0; r < RANKS; r++)
        tuners[r] = tuner_of(3, predicted);
    assert_int_equal(run_together(tuners, truth, taken), 1);
    for (int run = 0; run < RUNS; run++)
        assert_int_equal(taken[run], 0);
    assert_true(tuners[2].settled);
    assert_true(fabs(tuners[2].measured_s[0] - 1.8e-5) < 1e-12); /* the slowest rank's median */
}

/* Those predicted to be nearly as fast are tried all the same. */
static void near_ones_are_tried(void **state) {
    const double predicted[] = {1e-5, 1.3e-5, 2e-5};
    const double truth[] = {1.1e-5, 0.9e-5, 1e-9};
    struct tug_tuner tuners[RANKS];
    uint32_t taken[RUNS];
    (void)state;
    for (int r = 0; r < RANKS; r++)
        tuners[r] = tuner_of(3, predicted);
    assert_int_equal(run_together(tuners, truth, taken), 2);
    assert_int_equal(taken[TUG_TUNER_LOOKS - 1], 0);
    for (int run = 0; run < 2 * TUG_TUNER_TRY; run++)
        assert_int_equal(taken[TUG_TUNER_LOOKS + run], run % 2);
    for (int run = TUG_TUNER_LOOKS + 2 * TUG_TUNER_TRY; run < RUNS; run++)
        assert_int_equal(taken[run], 1);
    assert_true(tuners[0].settled);
    assert_true(tuners[0].measured_s[2] == 0);
}

static void wrong_model_is_corrected(void **state) {
    const double predicted[] = {1e-5, 2e-5, 3e-5, 9e-5};
    const double truth[] = {4e-5, 5e-5, 1e-5, 1e-9}; /* the last is hopeless by the model */
    struct tug_tuner tuners[RANKS];
    uint32_t taken[RUNS];
    (void)state;
    for (int r = 0; r < RANKS; r++)
        tuners[r] = tuner_of(4, predicted);
    assert_int_equal(run_together(tuners, truth, taken), 2);
    assert_int_equal(taken[TUG_TUNER_LOOKS - 1], 0);
    for (int run = 0; run < 24; run++)
        assert_int_equal(taken[TUG_TUNER_LOOKS + run], run % 3);
    for (int run = TUG_TUNER_LOOKS + 24; run < RUNS; run++)
        assert_int_equal(taken[run], 2);
    assert_true(tuners[1].settled);
    assert_true(tuners[0].measured_s[3] == 0);
}

static void prediction_may_be_too_long(void **state) {
    const double predicted[] = {1e-4, 1.1e-4};
    const double truth[] = {1e-5, 5e-6};
    struct tug_tuner tuners[RANKS];
    uint32_t taken[RUNS];
    (void)state;
    for (int r = 0; r < RANKS; r++)
        tuners[r] = tuner_of(2, predicted);
    assert_int_equal(run_together(tuners, truth, taken), 2);
    assert_int_equal(taken[RUNS - 1], 1);
}

static void one_candidate_is_measured(void **state) {
    const double predicted[] = {1e-9};
    const double truth[] = {1e-5};
    struct tug_tuner tuners[RANKS];
    uint32_t taken[RUNS];
    (void)state;
    for (int r = 0; r < RANKS; r++)
        tuners[r] = tuner_of(1, predicted);
    assert_int_equal(run_together(tuners, truth, taken), 1);
    assert_true(tuners[2].settled);
    assert_true(fabs(tuners[2].measured_s[0] - 1e-5) < 1e-12);
}

/* A machine that is slow for a while is so for all that are tried. */
static void disturbed_alike(void **state) {
    const double predicted[] = {1e-5, 1.2e-5, 1.4e-5}, truth[] = {1e-5, 0.9e-5, 1.1e-5};
    struct tug_tuner tuner = tuner_of(3, predicted);
    int run = 0;
    (void)state;
    for (; !tuner.settled; run++) {
        double votes[TUG_TUNER_SAMPLES];
        tug_tuner_vote(&tuner, votes);
        if (tug_tuner_must_agree(&tuner))
            tug_tuner_agreed(&tuner, votes);
        else
            tug_tuner_note(&tuner, truth[tuner.current] * (run > TUG_TUNER_LOOKS + 7 ? 1 : 50));
    }
    assert_int_equal(tuner.current, 1);
}

/* ---- blind ones ---- */

enum { HOST = 1 };

static void compare_with_host(struct tug_tuner tuners[RANKS]) {
    const double predicted[] = {0};
    for (int r = 0; r < RANKS; r++) {
        tuners[r] = tuner_of(1, predicted);
        tuners[r].nblind = 1;
        tug_tuner_init(&tuners[r]);
    }
}

static void compared(double own_s, double host_s, uint32_t taken[RUNS]) {
    const double truth[] = {own_s, host_s};
    struct tug_tuner tuners[RANKS];
    compare_with_host(tuners);
    assert_int_equal(run_together(tuners, truth, taken), 1);
    assert_true(tuners[0].settled);
}

static void host_is_taken_if_faster(void **state) {
    const int begin = TUG_TUNER_WARM, end = begin + 4 * TUG_TUNER_LOOKS;
    uint32_t taken[RUNS];
    (void)state;
    compared(1.1e-5, 1e-5, taken);
    for (int run = 0; run < RUNS; run++)
        assert_int_equal(taken[run], run < begin ? 0 : run < end ? (run - begin) / 2 % 2 : HOST);
    compared(1.02e-5, 1e-5, taken); /* not worth it */
    assert_int_equal(taken[RUNS - 1], 0);
    compared(1e-6, 1e-5, taken);
    assert_int_equal(taken[RUNS - 1], 0);
}

/* Most of the first runs need not be timed. */
static void few_runs_count(void **state) {
    const double predicted[] = {0};
    struct tug_tuner tuner = tuner_of(1, predicted);
    int runs = 0, counted = 0;
    (void)state;
    tuner.nblind = 1;
    tug_tuner_init(&tuner);
    for (; !tug_tuner_must_agree(&tuner); runs++) {
        counted += tug_tuner_counts(&tuner);
        tug_tuner_note(&tuner, 1e-5);
    }
    assert_int_equal(runs, TUG_TUNER_WARM + 4 * TUG_TUNER_LOOKS);
    assert_int_equal(counted, 2 * TUG_TUNER_LOOKS);
}

/* Whatever is predicted and measured, it has settled soon. (There are not two blind ones beside
 * many predictions.) */
static void settles_soon(void **state) {
    uint32_t taken[RUNS];
    (void)state;
    for (uint32_t n = 1; n <= TUG_CANDIDATES_MOST; n++)
        for (uint32_t nblind = 0; nblind <= (n == 1 ? TUG_BLIND_MOST : 1); nblind++)
            for (uint32_t best = 0; best < n + nblind; best++) {
                struct tug_tuner tuners[RANKS];
                double predicted[TUG_WAYS_MOST], truth[TUG_WAYS_MOST];
                for (uint32_t i = 0; i < TUG_WAYS_MOST; i++) {
                    predicted[i] = 1e-5 * (1 + 0.05 * i);
                    truth[i] = i == best ? 3e-5 : 4e-5;
                }
                for (int r = 0; r < RANKS; r++) {
                    tuners[r] = tuner_of(n, predicted);
                    tuners[r].nblind = nblind;
                    tug_tuner_init(&tuners[r]);
                }
                assert_in_range(run_together(tuners, truth, taken), 1, 2);
                for (int run = TUG_TUNER_RUNS - 1; run < RUNS; run++)
                    assert_int_equal(taken[run], best);
            }
}

/* ---- tried again ---- */

/* All ranks make runs [from, to) of a job; those of candidate i take truth[i]. How many of them
 * were of `of`. */
static int run_on(struct job *job, int from, int to, const double *truth, uint32_t of) {
    int so_many = 0;
    for (int run = from; run < to; run++) {
        const uint32_t taken = begin_run(job);
        so_many += taken == of;
        for (int r = 0; r < RANKS; r++)
            end_run(job, r, truth[taken]);
    }
    return so_many;
}

static struct job job_with_host(void) {
    struct job job = {.rest = TUG_TUNER_NEVER};
    compare_with_host(job.tuners);
    return job;
}

/* The first trial fell into a bad moment. */
static void mistake_is_mended(void **state) {
    const double disturbed[] = {4e-4, 5.5e-4}, truth[] = {2e-4, 1e-4};
    struct job job = job_with_host();
    (void)state;
    run_on(&job, 0, TUG_TUNER_AGAIN, disturbed, HOST);
    assert_int_equal(job.tuners[0].current, 0);
    run_on(&job, TUG_TUNER_AGAIN, 2 * TUG_TUNER_AGAIN - 1, truth, HOST);
    assert_int_equal(job.tuners[0].current, HOST);
    assert_int_equal(job.meetings, 2);
}

/* Runs `job` until it has met once more. */
static int until_it_meets(struct job *job, int run, const double *truth) {
    const int meetings = job->meetings;
    for (; job->meetings == meetings; run++)
        run_on(job, run, run + 1, truth, HOST);
    return run;
}

static void bad_moment_does_not_decide(void **state) {
    const double disturbed[] = {4e-4, 5.5e-4}, truth[] = {2e-4, 1e-4};
    struct job job = job_with_host();
    int run = 0;
    (void)state;
    for (int i = 0; i < 3; i++)
        run = until_it_meets(&job, run, truth);
    for (int i = 0; i < 6; i++) {
        run = until_it_meets(&job, run, i % 3 == 0 ? disturbed : truth);
        assert_int_equal(job.tuners[0].current, HOST);
    }
}

static void lasting_change_is_followed(void **state) {
    const double before[] = {2e-4, 1e-4}, after[] = {1e-4, 1.5e-4};
    struct job job = job_with_host();
    (void)state;
    int run = 0;
    for (int i = 0; i < 5; i++)
        run = until_it_meets(&job, run, before);
    assert_int_equal(job.tuners[0].current, HOST);
    run = until_it_meets(&job, run, after);
    (void)until_it_meets(&job, run, after);
    assert_int_equal(job.tuners[0].current, 0);
}

/* Long ones meet by the time, short ones by the logarithm of their number. */
static void rounds_come_in_time(void **state) {
    const double second[] = {1.1e-3, 1e-3}, short_ones[] = {1.1e-7, 1e-7};
    const int runs_of_a_second = 1000, runs = 1000000;
    struct job job = job_with_host();
    (void)state;
    run_on(&job, 0, 1024, second, HOST);
    const int before = job.meetings;
    run_on(&job, 1024, 1024 + runs_of_a_second, second, HOST);
    assert_in_range(job.meetings - before, 3, 4);
    job = job_with_host();
    run_on(&job, 0, runs, short_ones, HOST);
    assert_in_range(job.meetings, 10, 16);
}

/* Whatever is far away costs little to look at again, and is looked at. */
static void trying_again_is_cheap(void **state) {
    static const double times[] = {1.0, 1.01, 1.2, 1.5, 2, 5, 20, 100};
    (void)state;
    for (unsigned i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        const double truth[] = {1e-6, times[i] * 1e-6};
        struct job job = job_with_host();
        run_on(&job, 0, TUG_TUNER_AGAIN, truth, HOST);
        for (int begin = TUG_TUNER_AGAIN; begin < 131072; begin *= 2) {
            const int taken = run_on(&job, begin, 2 * begin, truth, HOST);
            const double lost = taken * (times[i] - 1);
            if (lost > TUG_TUNER_COST + 2.0 * begin / TUG_TUNER_COST_SHARE)
                fail_msg("x%g: %d of the runs from %d to %d", times[i], taken, begin, 2 * begin);
        }
        assert_true(job.meetings > 1);
        assert_int_equal(job.tuners[0].current, 0);
    }
}

/* Each rank has its slow runs, and in every run one of them. */
static void slowest_of_each_run_counts(void **state) {
    struct job job = job_with_host();
    (void)state;
    for (int run = 0; run < TUG_TUNER_RUNS; run++) {
        const uint32_t taken = begin_run(&job);
        for (int r = 0; r < RANKS; r++)
            end_run(&job, r, taken == HOST ? 1.5e-5 : run / 4 % RANKS == r ? 2e-5 : 1e-5);
    }
    assert_true(job.tuners[0].settled);
    assert_int_equal(job.tuners[0].current, HOST);
}

/* Where one way was measured there is nothing to try again. */
static void alone_it_rests(void **state) {
    const double predicted[] = {1e-5}, truth[] = {1e-5};
    struct job job = {.rest = TUG_TUNER_NEVER};
    (void)state;
    for (int r = 0; r < RANKS; r++)
        job.tuners[r] = tuner_of(1, predicted);
    run_on(&job, 0, 10000, truth, 0);
    assert_int_equal(job.meetings, 1);
}

/* Of many, those nearest to the fastest have their turn first. */
static void nearest_are_tried_first(void **state) {
    double predicted[TUG_CANDIDATES_MOST], truth[TUG_CANDIDATES_MOST];
    struct job job = {.rest = TUG_TUNER_NEVER};
    int taken[TUG_CANDIDATES_MOST] = {0};
    (void)state;
    for (uint32_t i = 0; i < TUG_CANDIDATES_MOST; i++) {
        predicted[i] = 1e-5 * (1 + 0.05 * i);
        truth[i] = 3e-5 * (1 + 0.2 * (TUG_CANDIDATES_MOST - 1 - i));
    }
    for (int r = 0; r < RANKS; r++)
        job.tuners[r] = tuner_of(TUG_CANDIDATES_MOST, predicted);
    run_on(&job, 0, TUG_TUNER_AGAIN, truth, 0);
    for (int run = TUG_TUNER_AGAIN; run < 2 * TUG_TUNER_AGAIN; run++) {
        const uint32_t now = begin_run(&job);
        taken[now]++;
        for (int r = 0; r < RANKS; r++)
            end_run(&job, r, truth[now]);
    }
    assert_true(taken[TUG_CANDIDATES_MOST - 1] > 32);
    assert_int_equal(taken[TUG_CANDIDATES_MOST - 2], TUG_TUNER_TURNS * TUG_TUNER_ROW);
    assert_int_equal(taken[0], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_model_is_trusted),
        cmocka_unit_test(near_ones_are_tried),
        cmocka_unit_test(wrong_model_is_corrected),
        cmocka_unit_test(prediction_may_be_too_long),
        cmocka_unit_test(one_candidate_is_measured),
        cmocka_unit_test(disturbed_alike),
        cmocka_unit_test(host_is_taken_if_faster),
        cmocka_unit_test(few_runs_count),
        cmocka_unit_test(settles_soon),
        cmocka_unit_test(mistake_is_mended),
        cmocka_unit_test(bad_moment_does_not_decide),
        cmocka_unit_test(lasting_change_is_followed),
        cmocka_unit_test(rounds_come_in_time),
        cmocka_unit_test(trying_again_is_cheap),
        cmocka_unit_test(slowest_of_each_run_counts),
        cmocka_unit_test(alone_it_rests),
        cmocka_unit_test(nearest_are_tried_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
