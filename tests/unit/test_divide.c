/* Division by a multiplication gives what the processor's division gives. */
#include <stdlib.h>

#include "base/divide.h"
#include "check.h"

static void compare(const struct tug_divisor *by, uint64_t dividend) {
    const struct tug_division got = tug_divide(by, dividend);
    if (got.quotient != dividend / by->divisor || got.rest != dividend % by->divisor)
        fail_msg("%llu / %llu is not %llu, %llu left", (unsigned long long)dividend,
                 (unsigned long long)by->divisor, (unsigned long long)got.quotient,
                 (unsigned long long)got.rest);
}

/* Beside multiples of the divisor a quotient that is one too large or too small shows. */
static void compare_near(uint64_t divisor, uint64_t seed) {
    const uint64_t end = (uint64_t)1 << 63;
    const struct tug_divisor by = tug_divisor(divisor);
    for (int i = 0; i < 64; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const uint64_t multiple = (seed >> (1 + i % 62)) / divisor * divisor;
        compare(&by, multiple);
        compare(&by, multiple + divisor / 2);
        if (multiple > 0)
            compare(&by, multiple - 1);
    }
    const uint64_t last = (end - 1) / divisor * divisor;
    compare(&by, 0);
    compare(&by, 1);
    compare(&by, last);
    compare(&by, last - 1);
    compare(&by, end - 1);
}

static void small_divisors(void **state) {
    (void)state;
    for (uint64_t divisor = 1; divisor <= 5000; divisor++)
        compare_near(divisor, divisor);
}

static void divisors_beside_powers(void **state) {
    (void)state;
    for (unsigned k = 3; k <= 62; k++)
        for (uint64_t d = 0; d < 3; d++)
            compare_near(((uint64_t)1 << k) - (k == 62 ? d : d - 1), k);
}

static void powers_shift(void **state) {
    (void)state;
    for (unsigned k = 0; k <= 62; k++) {
        const struct tug_divisor by = tug_divisor((uint64_t)1 << k);
        assert_int_equal(by.multiplier, 0);
        assert_int_equal(by.shift, k);
    }
    assert_int_not_equal(tug_divisor(24).multiplier, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_divisors),
        cmocka_unit_test(divisors_beside_powers),
        cmocka_unit_test(powers_shift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
