/*
 * The verdict: each outcome from records that mean it, and every word of it printed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/verdict.h"

enum { RANKS = 3 };
static const uint64_t second = 1000000000;

static struct tug_verdict_rank ranks[RANKS];

static int clean(void **state) {
    (void)state;
    memset(ranks, 0, sizeof(ranks));
    for (int i = 0; i < RANKS; i++)
        ranks[i].elapsed_ns = 10 * second;
    return 0;
}

/* Rank 1 spends own_s in one-sided calls for which the host needs host_s. */
static void rma(uint64_t own_s, uint64_t host_s) {
    ranks[1].stats[TUG_STAT_PUT_TAKEN] = 1000;
    ranks[1].time_ns[TUG_TIME_ONE_SIDED] = own_s * second;
    ranks[1].host_rma_ns = host_s * second;
}

static struct tug_verdict judge(void) {
    struct tug_verdict verdict;
    tug_verdict_judge(ranks, RANKS, &verdict);
    return verdict;
}

static void test_helped(void **state) {
    (void)state;
    rma(1, 31);
    struct tug_verdict verdict = judge();
    assert_int_equal(verdict.outcome, TUG_VERDICT_HELPED);
    assert_true(verdict.saved_s > 9.99 && verdict.saved_s < 10.01); /* 30 s over 3 ranks */
    assert_true(verdict.saved_share > 0.499 && verdict.saved_share < 0.501);
    assert_non_null(strstr(verdict.words, "helped"));
    assert_non_null(strstr(verdict.words, "50 %"));
}

static void test_hurt_by_one_sided_calls(void **state) {
    (void)state;
    rma(9, 3);
    struct tug_verdict verdict = judge();
    assert_int_equal(verdict.outcome, TUG_VERDICT_HURT);
    assert_true(verdict.saved_s < -1.99 && verdict.saved_s > -2.01);
    assert_non_null(strstr(verdict.words, "TUGBOAT_RMA=native"));
}

static void test_hurt_by_persistent_collectives(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) {
        ranks[i].stats[TUG_STAT_PERSISTENT_TAKEN] = 1;
        ranks[i].call_ns = 4 * second;
        ranks[i].run_ns = 4 * second;
        ranks[i].twin_runs = 2;
        ranks[i].twin_own_ns = 200;
        ranks[i].twin_host_ns = 100;
    }
    struct tug_verdict verdict = judge();
    assert_int_equal(verdict.outcome, TUG_VERDICT_HURT);
    assert_true(verdict.saved_s < -1.99 && verdict.saved_s > -2.01); /* half as long by the host */
    assert_non_null(strstr(verdict.words, "TUGBOAT_TUNING"));
}

static void test_no_difference(void **state) {
    (void)state;
    struct tug_verdict verdict = judge();
    assert_int_equal(verdict.outcome, TUG_VERDICT_NO_DIFFERENCE);
    assert_non_null(strstr(verdict.words, "leave it away"));
    rma(1, 1);
    verdict = judge();
    assert_int_equal(verdict.outcome, TUG_VERDICT_NO_DIFFERENCE);
    assert_null(strstr(verdict.words, "leave it away"));
    /* nobody could compare: nothing is claimed */
    rma(5, 0);
    assert_int_equal(judge().outcome, TUG_VERDICT_NO_DIFFERENCE);
}

static char *print_with(void (*print)(FILE *, const struct tug_verdict_rank *, int)) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    print(out, ranks, RANKS);
    fclose(out);
    return text;
}

static void test_print(void **state) {
    (void)state;
    rma(1, 31);
    ranks[0].stats[TUG_STAT_PUT_TAKEN] = 10;
    ranks[2].stats[TUG_STAT_PUT_TAKEN] = 20;
    ranks[2].stats[TUG_STAT_GET_PASSED] = 7;
    ranks[0].stats[TUG_STAT_OPERATIONS] = 90;
    ranks[1].stats[TUG_STAT_PACKETS] = 9;
    ranks[0].run_ns = 4 * second;
    ranks[0].call_ns = 1 * second;
    char *text = print_with(tug_verdict_print);
    assert_non_null(strstr(text, "verdict, 3 ranks"));
    char *put = strstr(text, "  put ");
    unsigned long long least, median, most;
    assert_non_null(put);
    assert_int_equal(sscanf(put, " put %llu %llu %llu", &least, &median, &most), 3);
    assert_int_equal(least, 10);
    assert_int_equal(median, 20);
    assert_int_equal(most, 1000);
    assert_non_null(strstr(text, "operations in a packet: 10.0"));
    assert_non_null(strstr(text, "75 % of their time"));
    assert_non_null(strstr(text, "  Tugboat helped: "));
    free(text);
    text = print_with(tug_verdict_print_json);
    assert_non_null(strstr(text, "\"outcome\": \"helped\""));
    assert_non_null(strstr(text, "\"put_taken\": {\"least\": 10, \"median\": 20, \"most\": 1000"));
    for (int i = 0; i < TUG_STAT_COUNT; i++)
        assert_non_null(strstr(text, tug_stat_name((enum tug_stat)i)));
    free(text);
}

/* What is printed is read again, between lines of others; half a block is none. */
static void test_read(void **state) {
    (void)state;
    rma(1, 31);
    for (int i = 0; i < RANKS; i++) {
        ranks[i].time_ns[TUG_TIME_BLOCKING] = 3 * second;
        ranks[i].time_ns[TUG_TIME_SYNC] = 2 * second;
        ranks[i].engine_cpu_ns = second / 2;
        ranks[i].stats[TUG_STAT_OUTSIDE_WAITS] = 17;
        ranks[i].stats[TUG_STAT_COLLECTIVE_PASSED] = 40;
    }
    char *block = print_with(tug_verdict_print), *text;
    struct tug_verdict_report report;
    assert_true(asprintf(&text, "the verdict, 9 ranked\n%snoise\n", block) > 0);
    assert_true(tug_verdict_read(text, &report));
    assert_int_equal(report.ranks, RANKS);
    assert_true(report.elapsed_s > 9.99 && report.elapsed_s < 10.01);
    assert_true(report.engine_cpu_s > 0.49 && report.engine_cpu_s < 0.51);
    assert_true(tug_verdict_waiting_s(&report) > 4.99 && tug_verdict_waiting_s(&report) < 5.01);
    assert_int_equal(report.outside_waits, 17);
    assert_int_equal(report.collectives_passed, 120);
    assert_false(report.engine_called_for);
    assert_int_equal(strncmp(report.words, "helped: ", 8), 0);
    assert_int_not_equal(report.words[strlen(report.words) - 1], '.'); /* no full stop */
    text[strlen(text) / 2] = '\0';
    assert_false(tug_verdict_read(text, &report));
    assert_false(tug_verdict_read("", &report));
    free(text);
    free(block);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_helped, clean),
        cmocka_unit_test_setup(test_hurt_by_one_sided_calls, clean),
        cmocka_unit_test_setup(test_hurt_by_persistent_collectives, clean),
        cmocka_unit_test_setup(test_no_difference, clean),
        cmocka_unit_test_setup(test_print, clean),
        cmocka_unit_test_setup(test_read, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
