/* The streaming copy: every byte and no other, from and to any alignment; and the share of the
 * last-level cache that decides on it. */
#include "check.h"
#include "persistent/copy.h"

#define MOST 300
#define GUARD 0xa5

static void copies_exactly_what_it_is_told(void **state) {
    static unsigned char from[MOST + 64], to[MOST + 192];
    (void)state;
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (unsigned char)(i * 7 + 1);
    for (size_t shift = 0; shift < 64; shift++) {
        for (size_t bytes = 0; bytes <= MOST; bytes++) {
            unsigned char *at = to + 64 + shift;
            const unsigned char *source = from + (shift * 5 + bytes) % 64;
            memset(to, GUARD, sizeof(to));
            tug_copy_streaming(at, source, bytes);
            assert_memory_equal(at, source, bytes);
            for (const unsigned char *p = to; p < to + sizeof(to); p++)
                assert_true((p >= at && p < at + bytes) || *p == GUARD);
        }
    }
}

static void more_ranks_have_smaller_shares(void **state) {
    size_t alone = tug_copy_cache_share(1);
    (void)state;
    if (alone == SIZE_MAX)
        skip(); /* the kernel does not say */
    assert_in_range(alone, 1 << 15, (size_t)1 << 33);
    for (int nranks = 2; nranks <= 1024; nranks *= 2) {
        size_t share = tug_copy_cache_share(nranks);
        assert_true(share <= tug_copy_cache_share(nranks / 2));
        assert_true(share >= alone / (size_t)nranks);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_exactly_what_it_is_told),
        cmocka_unit_test(more_ranks_have_smaller_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
