/*
 * Log lines: the level decides, a line arrives whole and once.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

static int kept_stderr;
static FILE *captured;

static int capture(void **state) {
    (void)state;
    captured = tmpfile();
    if (captured == NULL)
        return -1;
    kept_stderr = dup(STDERR_FILENO);
    return dup2(fileno(captured), STDERR_FILENO) < 0;
}

/* Puts standard error back and returns what was written to it, to be freed. */
static char *release(void) {
    dup2(kept_stderr, STDERR_FILENO);
    close(kept_stderr);
    const off_t size = lseek(fileno(captured), 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(pread(fileno(captured), text, (size_t)size, 0), size);
    fclose(captured);
    tug_settings.verbose = TUG_VERBOSE_WARN;
    tug_log_set_rank(-1);
    return text;
}

static void test_levels(void **state) {
    (void)state;
    tug_settings.verbose = TUG_VERBOSE_WARN;
    tug_log(TUG_LOG_ERROR, "error %d", 1);
    tug_log(TUG_VERBOSE_WARN, "warning %s", "two");
    tug_log(TUG_VERBOSE_INFO, "not seen");
    tug_settings.verbose = TUG_VERBOSE_QUIET;
    tug_log(TUG_LOG_ERROR, "error 3");
    tug_log(TUG_VERBOSE_WARN, "not seen");
    tug_settings.verbose = TUG_VERBOSE_DEBUG;
    tug_log_set_rank(5);
    tug_log(TUG_VERBOSE_DEBUG, "with a newline\n");
    char *text = release();
    assert_string_equal(text, "tugboat: error 1\ntugboat: warning two\ntugboat: error 3\n"
                              "tugboat[5]: with a newline\n");
    free(text);
}

static void test_errno_is_kept_and_long_lines_are_cut(void **state) {
    (void)state;
    char body[3000];
    memset(body, 'x', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    errno = ERANGE;
    tug_log(TUG_VERBOSE_WARN, "%s", body);
    const int kept = errno;
    char *text = release();
    assert_int_equal(kept, ERANGE);
    const size_t length = strlen(text);
    assert_in_range(length, 1000, 1024);
    assert_int_equal(text[length - 1], '\n');
    assert_null(memchr(text, '\n', length - 1));
    free(text);
}

static void test_once(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++)
        tug_warn_once("said at %d", i);
    char *text = release();
    assert_string_equal(text, "tugboat: said at 0\n");
    free(text);
}

enum { WRITERS = 4, LINES = 500 };

static void *write_lines(void *arg) {
    const int writer = *(int *)arg;
    for (int i = 0; i < LINES; i++)
        tug_log(TUG_VERBOSE_WARN, "writer %d line %d end", writer, i);
    return NULL;
}

static void test_lines_of_threads_do_not_mix(void **state) {
    (void)state;
    /* Appending makes the position atomic, as a terminal or a pipe would. */
    FILE *again = freopen("/proc/self/fd/2", "a", stderr);
    assert_non_null(again);
    pthread_t threads[WRITERS];
    int ids[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        ids[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &ids[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    char *text = release();
    int next[WRITERS] = {0};
    int lines = 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && line[0] != '\0'; lines++) {
        int writer, number, consumed = 0;
        assert_int_equal(
            sscanf(line, "tugboat: writer %d line %d end%n", &writer, &number, &consumed), 2);
        assert_int_equal(consumed, strlen(line));
        assert_in_range(writer, 0, WRITERS - 1);
        assert_int_equal(number, next[writer]++);
    }
    assert_int_equal(lines, WRITERS * LINES);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_levels, capture),
        cmocka_unit_test_setup(test_errno_is_kept_and_long_lines_are_cut, capture),
        cmocka_unit_test_setup(test_once, capture),
        cmocka_unit_test_setup(test_lines_of_threads_do_not_mix, capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
