/* Copies of all kinds of places and lengths, and that none takes much longer than its neighbours.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/copy.h"

#define PAGE 4096
#define MOST (5 * PAGE)

static unsigned char from[MOST + PAGE] __attribute__((aligned(PAGE)));
static unsigned char to[MOST + 2 * PAGE] __attribute__((aligned(PAGE)));

typedef void copy_function(void *, const void *, size_t);

static void copy_all(copy_function *copy) {
    static const size_t lengths[] = {0, 1, 40, TUG_COPY_PIECE, TUG_COPY_PIECE + 1, PAGE + 5, MOST};
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (unsigned char)(i * 131 + (i >> 8) * 7 + 3);
    for (size_t behind = 0; behind < 80; behind += behind < 34 ? 1 : 15)
        for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
            const size_t begin = 16, at = begin + behind, bytes = lengths[l];
            memset(to, 0x5a, sizeof(to));
            copy(to + at, from + begin, bytes);
            assert_memory_equal(to + at, from + begin, bytes);
            assert_int_equal(to[at - 1], 0x5a);
            assert_int_equal(to[at + bytes], 0x5a);
        }
}

static void copies_what_is_there(void **state) {
    (void)state;
    copy_all(tug_copy);
    copy_all(tug_copy_pieces);
}

static void pieces_may_move_down(void **state) {
    (void)state;
    for (size_t i = 0; i < MOST; i++)
        to[i] = (unsigned char)(i * 89 + (i >> 8));
    tug_copy_pieces(to, to + 32, MOST - 32);
    for (size_t i = 0; i + 32 < MOST; i++)
        assert_int_equal(to[i], (unsigned char)((i + 32) * 89 + ((i + 32) >> 8)));
}

static void near_is_close_behind(void **state) {
    (void)state;
    assert_false(tug_copy_is_near(to, from));
    assert_true(tug_copy_is_near(to + 1, from));
    assert_true(tug_copy_is_near(to + PAGE + 31, from));
    assert_false(tug_copy_is_near(to + 32, from));
    assert_false(tug_copy_is_near(to, from + 1));
}

static uint64_t least_time(size_t behind) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 100; i++) {
        const uint64_t begin = tug_clock_ns();
        tug_copy(to + behind, from, MOST);
        const uint64_t took = tug_clock_ns() - begin;
        least = took < least ? took : least;
    }
    return least;
}

/* 20 times as long without pieces, on a processor that has it. */
static void no_place_takes_much_longer(void **state) {
    (void)state;
    tug_copy(to + 16, from, MOST);
    const uint64_t near = least_time(16), other = least_time(64);
    printf("20 KiB: near %llu ns, else %llu ns; attach %s\n", (unsigned long long)near,
           (unsigned long long)other, tug_copy_is_slow() ? "slow" : "as fast");
    assert_true(near < 5 * other + 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_what_is_there),
        cmocka_unit_test(pieces_may_move_down),
        cmocka_unit_test(near_is_close_behind),
        cmocka_unit_test(no_place_takes_much_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
