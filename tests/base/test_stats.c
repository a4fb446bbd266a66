/*
 * Counters: silent when off, exact when on, and printed with every name.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/stats.h"

static int clean(void **state) {
    (void)state;
    tug_stats_on = false;
    for (int i = 0; i < TUG_STAT_COUNT; i++)
        atomic_store(&tug_stat_values[i], 0);
    return 0;
}

static uint64_t value(enum tug_stat stat) {
    uint64_t all[TUG_STAT_COUNT];
    tug_stats_snapshot(all);
    return all[stat];
}

static void test_off_counts_nothing(void **state) {
    (void)state;
    tug_stat_add(TUG_STAT_PUT_TAKEN, 3);
    tug_stat_max(TUG_STAT_RING_HIGH_WATER, 9);
    assert_int_equal(value(TUG_STAT_PUT_TAKEN), 0);
    assert_int_equal(value(TUG_STAT_RING_HIGH_WATER), 0);
}

static void *count(void *arg) {
    const uint64_t start = *(uint64_t *)arg;
    for (uint64_t i = 0; i < 20000; i++) {
        tug_stat_add(TUG_STAT_BYTES, 3);
        tug_stat_max(TUG_STAT_RING_HIGH_WATER, start + i);
    }
    return NULL;
}

static void test_threads_lose_nothing(void **state) {
    (void)state;
    tug_stats_on = true;
    pthread_t threads[4];
    uint64_t starts[4] = {0, 70000, 100, 30000};
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, &starts[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(value(TUG_STAT_BYTES), 4 * 20000 * 3);
    assert_int_equal(value(TUG_STAT_RING_HIGH_WATER), 70000 + 19999);
}

static char *print_with(void (*print)(FILE *, const uint64_t *, const uint64_t *, int)) {
    uint64_t sum[TUG_STAT_COUNT], max[TUG_STAT_COUNT];
    for (int i = 0; i < TUG_STAT_COUNT; i++) {
        sum[i] = 1000 + (uint64_t)i;
        max[i] = 500 + (uint64_t)i;
    }
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    print(out, sum, max, 4);
    fclose(out);
    return text;
}

static void test_print(void **state) {
    (void)state;
    char *text = print_with(tug_stats_print);
    static const char *const wanted[] = {"4 ranks",    "put",   "compare_and_swap",
                                         "persistent", "parks", "offload_wakes"};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        assert_non_null(strstr(text, wanted[i]));
    char number[32];
    /* The high-water mark is the maximum over ranks, the bytes are their sum. */
    snprintf(number, sizeof number, " %d ", 500 + TUG_STAT_RING_HIGH_WATER);
    assert_non_null(strstr(strstr(text, "ring_high_water"), number));
    snprintf(number, sizeof number, " %d ", 1000 + TUG_STAT_BYTES);
    assert_non_null(strstr(text, number));
    free(text);
}

static void test_json(void **state) {
    (void)state;
    char *text = print_with(tug_stats_print_json);
    char row[128];
    snprintf(row, sizeof row, "\"put\": {\"taken\": %d, \"passed\": %d,", 1000 + TUG_STAT_PUT_TAKEN,
             1000 + TUG_STAT_PUT_PASSED);
    assert_non_null(strstr(text, row));
    snprintf(row, sizeof row, "\"ring_high_water\": %d,", 500 + TUG_STAT_RING_HIGH_WATER);
    assert_non_null(strstr(text, row));
    assert_non_null(strstr(text, "\"ranks\": 4"));
    int depth = 0;
    for (const char *at = text; *at != '\0'; at++) {
        depth += (*at == '{') - (*at == '}');
        assert_true(depth >= 0);
        /* No comma before a closing brace: the usual slip of hand-written JSON. */
        if (*at == ',')
            assert_int_not_equal(at[1 + strspn(at + 1, " \n")], '}');
    }
    assert_int_equal(depth, 0);
    free(text);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, clean, clean)
    const struct CMUnitTest tests[] = {CASE(test_off_counts_nothing),
                                       CASE(test_threads_lose_nothing), CASE(test_print),
                                       CASE(test_json)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
