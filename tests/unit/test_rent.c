/* When pages are moved to their user: not before their rent is the price, which is higher for a
 * process that works here, and for pages that came in vain. */
#include "check.h"
#include "gas/rent.h"

enum { ACCESS_NS = 40000, MOVE_NS = 400000, PRICE = 10, PAGE = 4096, USES = 15 };

static struct tug_rent rent;

static int make_rent(void **state) {
    (void)state;
    tug_rent_open(&rent, PAGE);
    tug_rent_accessed(&rent, ACCESS_NS);
    tug_rent_moved(&rent, MOVE_NS);
    return 0;
}

/* The accesses, one after the other, before a run is bought. */
static uint64_t accesses_bought(bool idle, uint8_t patience) {
    for (uint64_t n = 1; n < 100000; n++)
        if (tug_rent_buys(&rent, n * ACCESS_NS, idle ? n * ACCESS_NS : 0, patience))
            return n;
    return UINT64_MAX;
}

static void buys_when_the_rent_is_the_price(void **state) {
    (void)state;
    assert_int_equal(accesses_bought(true, 0), PRICE);
    /* so the whole is twice the best at most, whenever the accesses end */
    for (uint64_t accesses = 1; accesses < 10 * PRICE; accesses++) {
        const uint64_t before = accesses < PRICE ? accesses : PRICE;
        const uint64_t cost = before * ACCESS_NS + (accesses >= PRICE ? MOVE_NS : 0);
        const uint64_t best = accesses < PRICE ? accesses * ACCESS_NS : MOVE_NS;
        assert_true(cost <= 2 * best);
    }
}

static void the_first_price_is_a_guess(void **state) {
    (void)state;
    tug_rent_open(&rent, PAGE);
    assert_int_equal(accesses_bought(true, 0), UINT64_MAX); /* nothing is known */
    tug_rent_accessed(&rent, ACCESS_NS);
    const uint64_t guess = accesses_bought(true, 0);
    assert_true(guess > 1 && guess < 100);
    tug_rent_moved(&rent, MOVE_NS);
    assert_int_equal(accesses_bought(true, 0), PRICE);
}

static void prices_follow_what_is_measured(void **state) {
    (void)state;
    for (int i = 0; i < 100; i++)
        tug_rent_moved(&rent, (uint64_t)3 * MOVE_NS);
    const uint64_t bought = accesses_bought(true, 0);
    assert_true(bought >= 3 * PRICE - 1 && bought <= 3 * PRICE);
}

static void takes_little_from_others_while_it_works_here(void **state) {
    (void)state;
    assert_int_equal(accesses_bought(false, 0), TUG_CONTEST * PRICE);
}

static void runs_stand_side_by_side(void **state) {
    (void)state;
    assert_int_equal(rent.run, TUG_RUN_MOST);
    for (uint64_t page = 0; page < 19; page++) {
        const struct tug_run_of_pages run = tug_rent_run(&rent, page, 19);
        assert_true(page >= run.first && page < run.first + run.npages);
        assert_int_equal(run.first % rent.run, 0);
        assert_int_equal(run.npages, run.first == 16 ? 3 : rent.run);
    }
    /* large pages come alone: their data take longer than their messages */
    tug_rent_open(&rent, 1u << 20);
    assert_int_equal(tug_rent_run(&rent, 5, 19).npages, 1);
}

static void a_page_pays_its_part(void **state) {
    (void)state;
    assert_int_equal(tug_rent_least(&rent, 8), 1);
    assert_int_equal(tug_rent_least(&rent, 1), PRICE);
    /* no more are due than are counted */
    tug_rent_moved(&rent, (uint64_t)1000 * MOVE_NS);
    assert_int_equal(tug_rent_least(&rent, 1), USES);
}

static void patience_doubles_the_price_up_to_its_end(void **state) {
    (void)state;
    const uint8_t least = tug_rent_least(&rent, 1);
    uint8_t patience = 0;
    for (int i = 1; i < 20; i++) {
        patience = tug_rent_patience(patience, (uint8_t)(least - 1), least);
        const int doubled = i < TUG_PATIENCE_MOST ? i : TUG_PATIENCE_MOST;
        assert_int_equal(accesses_bought(true, patience), (uint64_t)PRICE << doubled);
    }
    assert_int_equal(tug_rent_patience(patience, least, least), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(buys_when_the_rent_is_the_price, make_rent),
        cmocka_unit_test_setup(the_first_price_is_a_guess, make_rent),
        cmocka_unit_test_setup(prices_follow_what_is_measured, make_rent),
        cmocka_unit_test_setup(takes_little_from_others_while_it_works_here, make_rent),
        cmocka_unit_test_setup(runs_stand_side_by_side, make_rent),
        cmocka_unit_test_setup(a_page_pays_its_part, make_rent),
        cmocka_unit_test_setup(patience_doubles_the_price_up_to_its_end, make_rent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
