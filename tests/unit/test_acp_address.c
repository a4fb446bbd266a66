/* The bits of global addresses: those of the paper's table 2, and that they come back. The same
 * file makes a second program with other widths. */
#include "acp/address.h"
#include "check.h"

static const uint32_t last_rank = TUG_ACP_RANKS - 1;

static void has_the_bits_of_the_paper(void **state) {
    (void)state;
#ifdef WIDE
    assert_int_equal(TUG_ACP_RANK_BITS, 11);
#else
    assert_int_equal(TUG_ACP_RANK_BITS, 21);
    assert_int_equal(tug_acp_ga(0, 0, 0, 0), UINT64_C(1) << 43);
    assert_int_equal(tug_acp_ga(1, 0, 3, 5), UINT64_C(2) << 43 | UINT64_C(3) << 34 | 5);
#endif
    assert_int_equal(
        TUG_ACP_RANK_BITS + TUG_ACP_COLOR_BITS + TUG_ACP_KEY_BITS + TUG_ACP_OFFSET_BITS, 64);
}

static void every_part_comes_back(void **state) {
    const uint32_t ranks[] = {0, 1, 77, last_rank}, keys[] = {0, 1, TUG_ACP_KEYS - 1};
    const uint64_t offsets[] = {0, 1, TUG_ACP_OFFSETS / 2, TUG_ACP_OFFSETS - 1};
    (void)state;
    for (int r = 0; r < 4; r++)
        for (int k = 0; k < 3; k++)
            for (int o = 0; o < 4; o++) {
                const uint32_t color = (uint32_t)(r + k + o) % TUG_ACP_COLORS;
                const acp_ga_t ga = tug_acp_ga(ranks[r], color, keys[k], offsets[o]);
                assert_int_not_equal(ga, ACP_GA_NULL);
                assert_int_equal(tug_acp_ga_rank(ga), ranks[r]);
                assert_int_equal(tug_acp_ga_number(ga), keys[k]);
                assert_int_equal(tug_acp_ga_offset(ga), offsets[o]);
                assert_int_equal(tug_acp_ga_color(ga), color);
                assert_int_equal(tug_acp_ga_base(ga), tug_acp_ga(ranks[r], color, keys[k], 0));
                const acp_ga_t other = ga ^ UINT64_C(1) << (TUG_ACP_RANK_SHIFT - 1);
                assert_int_equal(tug_acp_ga_color(other), 1 - color);
                assert_int_equal(tug_acp_ga_rank(other), ranks[r]);
                assert_int_equal(tug_acp_ga_number(other), keys[k]);
            }
}

static void addresses_add_up(void **state) {
    (void)state;
    acp_ga_t ga = tug_acp_ga(last_rank, 0, 1, 0);
    assert_int_equal(tug_acp_ga_offset(ga + 1000), 1000);
    assert_int_equal(tug_acp_ga_number(ga + TUG_ACP_OFFSETS - 1), 1);
    assert_int_equal(tug_acp_ga_number(ga + TUG_ACP_OFFSETS), 2);
}

static void null_is_nobodys(void **state) {
    (void)state;
    assert_int_equal(tug_acp_ga_rank(ACP_GA_NULL), TUG_ACP_NO_RANK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_bits_of_the_paper),
        cmocka_unit_test(every_part_comes_back),
        cmocka_unit_test(addresses_add_up),
        cmocka_unit_test(null_is_nobodys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
