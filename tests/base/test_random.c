/* Random bytes: there are some, and others each time. Run again where getrandom() is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

static void no_two_are_alike(void **state) {
    (void)state;
    unsigned char drawn[8][16];
    memset(drawn, 0, sizeof(drawn));
    for (int i = 0; i < 8; i++) {
        assert_true(tug_random_draw(drawn[i], sizeof(drawn[i])));
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(drawn[i], drawn[k], sizeof(drawn[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_two_are_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
