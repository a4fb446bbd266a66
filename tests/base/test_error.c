/*
 * Every error code has a sentence of its own; any other number has one too.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tugboat/tugboat.h"

static void test_sentences(void **state) {
    (void)state;
    const char *unknown = tug_strerror(1);
    assert_non_null(unknown);
    for (int error = 0; error >= TUG_ERR_DEVICE; error--) {
        assert_string_not_equal(tug_strerror(error), unknown);
        for (int other = 0; other > error; other--)
            assert_string_not_equal(tug_strerror(error), tug_strerror(other));
    }
    static const int strange[] = {2, INT_MAX, TUG_ERR_DEVICE - 1, INT_MIN, INT_MIN + 1};
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++)
        assert_string_equal(tug_strerror(strange[i]), unknown);
}

static void test_version(void **state) {
    (void)state;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%d.%d.%d", TUG_VERSION_MAJOR, TUG_VERSION_MINOR,
             TUG_VERSION_PATCH);
    assert_string_equal(tug_version(), wanted);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sentences),
                                       cmocka_unit_test(test_version)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
