/* When pages are moved to their user: not before their rent is the price, not by a few accesses of
 * a process that has its work elsewhere, and by the first one when moves have kept paying; what
 * came in vain makes the next move dearer and the next run shorter. */
#include "check.h"
#include "gas/rent.h"

enum { ACCESS_NS = 40000, MOVE_NS = 320000, PAGE = 4096, USES = 15 };

static struct tug_rent rent;

static int make_rent(void **state) {
    (void)state;
    tug_rent_open(&rent, PAGE);
    tug_rent_accessed(&rent, ACCESS_NS);
    tug_rent_moved(&rent, MOVE_NS);
    return 0;
}

/* Of a process that does nothing here: all its rent is idle rent. */
static struct tug_run_seen idle(uint64_t accesses) {
    return (struct tug_run_seen){.rent_ns = accesses * ACCESS_NS, .idle_ns = accesses * ACCESS_NS};
}

/* The accesses, one after the other, before the run is bought. */
static uint64_t accesses_of(struct tug_run_seen how, bool is_idle) {
    for (uint64_t n = 1; n < 100000; n++) {
        how.rent_ns = n * ACCESS_NS;
        how.idle_ns = is_idle ? how.rent_ns : 0;
        if (tug_rent_buys(&rent, &how))
            return n;
    }
    return UINT64_MAX;
}

static void judge_run(uint8_t uses, uint32_t npages) {
    for (uint32_t i = 0; i < npages; i++)
        (void)tug_rent_judge(&rent, uses, 1);
    tug_rent_learn(&rent);
}

static void buys_when_the_rent_is_the_price(void **state) {
    (void)state;
    const uint64_t price = MOVE_NS / ACCESS_NS;
    struct tug_run_seen seen = idle(price - 1);
    assert_false(tug_rent_buys(&rent, &seen));
    seen = idle(price);
    assert_true(tug_rent_buys(&rent, &seen));
    /* so the whole is twice the best at most, whenever the accesses end */
    for (uint64_t accesses = 1; accesses < 10 * price; accesses++) {
        const uint64_t before = accesses < price ? accesses : price;
        const uint64_t cost = before * ACCESS_NS + (accesses >= price ? MOVE_NS : 0);
        const uint64_t best = accesses < price ? accesses * ACCESS_NS : MOVE_NS;
        assert_true(cost <= 2 * best);
    }
}

static void buys_nothing_before_anything_is_known(void **state) {
    (void)state;
    tug_rent_open(&rent, PAGE);
    const struct tug_run_seen seen = idle(1000);
    assert_false(tug_rent_buys(&rent, &seen));
    tug_rent_accessed(&rent, ACCESS_NS);
    assert_int_equal(accesses_of(idle(0), true), 2);
}

static void takes_little_from_others_while_it_works_here(void **state) {
    (void)state;
    const uint64_t price = MOVE_NS / ACCESS_NS;
    assert_int_equal(accesses_of(idle(0), false), TUG_CONTEST * price);
    for (int i = 0; i < 10; i++)
        judge_run(USES, rent.run);
    assert_int_equal(accesses_of(idle(0), false), TUG_CONTEST * price);
}

static void trusts_what_has_paid(void **state) {
    (void)state;
    uint64_t before = accesses_of(idle(0), true);
    judge_run(USES, rent.run);
    uint64_t after = accesses_of(idle(0), true);
    assert_true(after < before && after >= 2);
    judge_run(USES, rent.run);
    assert_int_equal(accesses_of(idle(0), true), 1);
    /* ... but waits for what is on its way, and loses trust by what came in vain */
    assert_int_equal(accesses_of((struct tug_run_seen){.others_come = true}, true), before);
    judge_run(0, rent.run);
    assert_int_equal(accesses_of(idle(0), true), before);
}

static void goes_at_once_where_a_change_is_foreseen(void **state) {
    (void)state;
    judge_run(USES, rent.run);
    assert_true(accesses_of(idle(0), true) > 1);
    assert_int_equal(accesses_of((struct tug_run_seen){.foreseen = true}, true), 1);
}

static void one_page_does_not_count_as_a_run(void **state) {
    (void)state;
    const uint64_t before = accesses_of(idle(0), true);
    judge_run(USES, 1);
    assert_int_equal(accesses_of(idle(0), true), before);
    judge_run(USES, rent.run / 2 - 1);
    assert_true(accesses_of(idle(0), true) < before);
}

static void runs_become_shorter_in_vain_and_grow_again(void **state) {
    (void)state;
    const uint32_t most = rent.run;
    assert_int_equal(most, TUG_RUN_MOST);
    for (uint32_t run = most; run > 1; run /= 2) {
        judge_run(0, rent.run);
        assert_int_equal(rent.run, run / 2);
    }
    judge_run(0, 1);
    assert_int_equal(rent.run, 1);
    for (int i = 0; i < 10; i++)
        judge_run(USES, rent.run);
    assert_int_equal(rent.run, most);
}

static void runs_stand_side_by_side(void **state) {
    (void)state;
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
    const uint8_t alone = tug_rent_least(&rent, 1);
    assert_true(alone > 1);
    assert_int_equal(tug_rent_judge(&rent, 0, 1), TUG_CAME_IN_VAIN);
    assert_int_equal(tug_rent_judge(&rent, (uint8_t)(alone - 1), alone), TUG_CAME_IN_VAIN);
    assert_int_equal(tug_rent_judge(&rent, alone, alone), TUG_HAS_PAID);
    assert_int_equal(tug_rent_judge(&rent, USES, alone), TUG_HAS_PAID_OFTEN);
}

static void patience_doubles_the_price_up_to_its_end(void **state) {
    (void)state;
    const uint64_t price = MOVE_NS / ACCESS_NS;
    uint8_t patience = 0;
    for (int i = 1; i < 20; i++) {
        patience = tug_rent_patience(patience, TUG_CAME_IN_VAIN);
        const int doubled = i < TUG_PATIENCE_MOST ? i : TUG_PATIENCE_MOST;
        assert_int_equal(accesses_of((struct tug_run_seen){.patience = patience}, true),
                         price << doubled);
    }
    assert_int_equal(tug_rent_patience(patience, TUG_HAS_PAID), patience);
    assert_int_equal(tug_rent_patience(patience, TUG_HAS_PAID_OFTEN), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(buys_when_the_rent_is_the_price, make_rent),
        cmocka_unit_test_setup(buys_nothing_before_anything_is_known, make_rent),
        cmocka_unit_test_setup(takes_little_from_others_while_it_works_here, make_rent),
        cmocka_unit_test_setup(trusts_what_has_paid, make_rent),
        cmocka_unit_test_setup(goes_at_once_where_a_change_is_foreseen, make_rent),
        cmocka_unit_test_setup(one_page_does_not_count_as_a_run, make_rent),
        cmocka_unit_test_setup(runs_become_shorter_in_vain_and_grow_again, make_rent),
        cmocka_unit_test_setup(runs_stand_side_by_side, make_rent),
        cmocka_unit_test_setup(a_page_pays_its_part, make_rent),
        cmocka_unit_test_setup(patience_doubles_the_price_up_to_its_end, make_rent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
