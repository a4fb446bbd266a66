/* What a process says of where it waits, and for how long that is believed. */
#include "check.h"
#include "node/spread.h"

#define MS 1000000u

static void says_core_and_time(void **state) {
    (void)state;
    const uint64_t now = 123456789012345;
    for (int core = 0; core < 4096; core += 65) {
        const uint64_t word = tug_spread_word(core, now);
        assert_true(tug_spread_says(word, core, now));
        assert_false(tug_spread_says(word, core ^ 1, now));
        assert_true(tug_spread_says(word, core, now + 2 * MS - 4096));
        assert_false(tug_spread_says(word, core, now + 2 * MS + 4096));
    }
}

/* Another process's clock, read later on another core, is the same to some ns. */
static void is_believed_from_the_future(void **state) {
    (void)state;
    assert_true(tug_spread_says(tug_spread_word(3, 50 * MS), 3, 50 * MS - 1000));
}

static void says_nothing_where_it_cannot(void **state) {
    (void)state;
    assert_int_equal(tug_spread_word(-1, 50 * MS), 0);
    assert_int_equal(tug_spread_word(4096, 50 * MS), 0);
    assert_false(tug_spread_says(0, 0, 1000)); /* a page of one that has never waited */
    assert_false(tug_spread_says(tug_spread_word(0, 50 * MS), -1, 50 * MS));
}

/* Nobody is there to wait with. */
static void alone_it_leaves_nothing(void **state) {
    (void)state;
    struct tug_offer offer;
    assert_false(tug_spread());
    assert_non_null(tug_node_page_own(&offer));
    assert_false(tug_spread());
    assert_true(atomic_load(&tug_node_page_made()->waits) != 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_core_and_time),
        cmocka_unit_test(is_believed_from_the_future),
        cmocka_unit_test(says_nothing_where_it_cannot),
        cmocka_unit_test(alone_it_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
