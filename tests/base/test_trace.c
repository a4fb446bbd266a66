/*
 * The timeline: silent when off, bounded and exact when on, and printed as whole lines.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/trace.h"

static int begin_anew(void **state) {
    (void)state;
    tug_trace_reset();
    return 0;
}

/* The caller frees it. */
static char *print(void) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    tug_trace_stop();
    tug_trace_print_head(out, 1);
    tug_trace_print(out, 0, tug_trace_began_ns());
    tug_trace_print_tail(out);
    fclose(out);
    return text;
}

/* Where WHAT is next, or NULL. Looked for line by line: under the sanitizers each search of a
 * string reads all of it first. */
static const char *find(const char *text, const char *what) {
    for (const char *end;; text = end + 1) {
        end = strchrnul(text, '\n');
        const char *found = memmem(text, (size_t)(end - text), what, strlen(what));
        if (found || *end == '\0')
            return found;
    }
}

static unsigned times(const char *text, const char *what) {
    unsigned n = 0;
    for (; (text = find(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

/* The sum of the numbers behind KEY in lines that have NAME. */
static unsigned long sum(const char *text, const char *name, const char *key) {
    unsigned long all = 0;
    for (; (text = find(text, name)) != NULL; text += strlen(name)) {
        const char *at = find(text, key);
        assert_non_null(at);
        all += strtoul(at + strlen(key), NULL, 10);
    }
    return all;
}

static void test_off_leaves_nothing(void **state) {
    (void)state;
    assert_int_equal(tug_trace_begin(TUG_TRACE_WAIT), 0);
    assert_int_equal(tug_trace_sleep_begin(), 0);
    tug_trace_count(TUG_TRACE_SENT, 3);
    char *text = print();
    assert_null(strstr(text, "packets sent"));
    free(text);
}

static void test_spans_say_what_ended_them(void **state) {
    (void)state;
    assert_true(tug_trace_start());
    tug_trace_name_thread("one of a kind");
    tug_trace_end(TUG_TRACE_WAIT, TUG_TRACE_BY_OWN_LOOK, tug_trace_begin(TUG_TRACE_WAIT));
    tug_trace_end(TUG_TRACE_PARK, TUG_TRACE_BY_LIMIT, tug_trace_sleep_begin());
    tug_trace_end(TUG_TRACE_COLLECTIVE, TUG_TRACE_BY_UNSAID, tug_trace_begin(TUG_TRACE_COLLECTIVE));
    char *text = print();
    assert_non_null(strstr(text, "\"ended by\":\"own look\""));
    assert_non_null(strstr(text, "\"ended by\":\"limit\""));
    assert_non_null(strstr(text, "one of a kind"));
    assert_int_equal(times(text, "\"ph\":\"X\""), 2);
    assert_int_equal(times(text, "\"ph\":\"b\""), 1);
    assert_int_equal(times(text, "\"ph\":\"e\""), 1);
    free(text);
}

static void test_what_is_passed_over_is_counted(void **state) {
    (void)state;
    enum { N = 100000 };
    assert_true(tug_trace_start());
    unsigned taken = 0, later;
    for (unsigned i = 0; i < N; i++) {
        const uint64_t begin_ns = tug_trace_begin(TUG_TRACE_WAIT);
        taken += begin_ns != 0;
        tug_trace_end(TUG_TRACE_WAIT, TUG_TRACE_BY_OWN_LOOK, begin_ns);
        tug_trace_count(TUG_TRACE_SENT, 2);
    }
    assert_in_range(taken, 1, N / 10);
    char *text = print();
    later = (unsigned)sum(text, "\"wait\"", "\"stands for\":");
    assert_in_range(later, N / 2, N); /* those since the last record stand for nothing yet */
    assert_int_equal(sum(text, "packets sent", "\"number\":"), 2 * N);
    free(text);
}

static void test_ring_keeps_the_newest(void **state) {
    (void)state;
    assert_true(tug_trace_start());
    for (unsigned i = 0; i < TUG_TRACE_RECORDS + 7; i++)
        tug_trace_end(TUG_TRACE_PARK, i < 7 ? TUG_TRACE_BY_LIMIT : TUG_TRACE_BY_RUNG,
                      tug_trace_sleep_begin());
    char *text = print();
    assert_null(strstr(text, "\"limit\""));
    assert_int_equal(times(text, "\"rung\""), TUG_TRACE_RECORDS);
    assert_int_equal(sum(text, "records overwritten", "\"number\":"), 7);
    free(text);
}

static void *record_one(void *argument) {
    (void)argument;
    tug_trace_end(TUG_TRACE_PARK, TUG_TRACE_BY_RUNG, tug_trace_sleep_begin());
    return NULL;
}

static void test_threads_beyond_the_last_ring_are_told(void **state) {
    (void)state;
    assert_true(tug_trace_start());
    for (unsigned i = 0; i < TUG_TRACE_THREADS + 3; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, record_one, NULL), 0);
        pthread_join(thread, NULL);
    }
    char *text = print();
    assert_int_equal(times(text, "thread_name"), TUG_TRACE_THREADS);
    assert_int_equal(sum(text, "threads without records", "\"number\":"), 3);
    free(text);
}

static void test_lines_are_whole(void **state) {
    (void)state;
    assert_true(tug_trace_start());
    (void)record_one(NULL);
    char *text = print(), *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && rest != NULL && *rest != '\0';)
        assert_true(line[0] == '{' || line[0] == '"' || line[0] == ']');
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_off_leaves_nothing, begin_anew),
        cmocka_unit_test_setup(test_spans_say_what_ended_them, begin_anew),
        cmocka_unit_test_setup(test_what_is_passed_over_is_counted, begin_anew),
        cmocka_unit_test_setup(test_ring_keeps_the_newest, begin_anew),
        cmocka_unit_test_setup(test_threads_beyond_the_last_ring_are_told, begin_anew),
        cmocka_unit_test_setup(test_lines_are_whole, begin_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
