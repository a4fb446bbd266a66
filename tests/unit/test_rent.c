/* When pages are moved to their user: not before their rent is the price, unless streaks of
 * accesses elsewhere have been changes before; what came in vain makes the next move dearer and the
 * next run shorter. A model of three kinds of users counts what the rule costs them. */
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

/* Of a process that does nothing here: all its rent is idle rent. */
static struct tug_run_seen idle(uint64_t accesses) {
    return (struct tug_run_seen){.rent_ns = accesses * ACCESS_NS,
                                 .idle_ns = accesses * ACCESS_NS,
                                 .streak = 1,
                                 .leads = true};
}

/* The accesses, one after the other, before the run is bought. */
static uint64_t accesses_of(struct tug_run_seen how, bool is_idle) {
    for (uint64_t n = 1; n < 100000; n++) {
        how.rent_ns = n * ACCESS_NS;
        how.streak = 1;
        how.idle_ns = is_idle ? how.rent_ns : 0;
        if (tug_rent_buys(&rent, &how))
            return n;
    }
    return UINT64_MAX;
}

/* A run that was a change is counted. */
static void count_run(uint8_t uses, uint32_t npages) {
    for (uint32_t i = 0; i < npages; i++)
        tug_rent_count(&rent, tug_rent_judge(uses, 1));
    tug_rent_learn(&rent);
}

/* The accesses of a streak before a run is bought that has no rent to speak of. */
static uint32_t streak_bought(bool others_come) {
    for (uint32_t n = 1; n <= 2 * TUG_STREAK_MOST; n++)
        if (tug_rent_buys(&rent, &(struct tug_run_seen){
                                     .streak = n, .leads = true, .others_come = others_come}))
            return n;
    return UINT32_MAX;
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

static void the_first_move_is_a_try(void **state) {
    (void)state;
    tug_rent_open(&rent, PAGE);
    assert_int_equal(streak_bought(false), UINT32_MAX); /* nothing is known */
    tug_rent_accessed(&rent, ACCESS_NS);
    assert_int_equal(streak_bought(false), 2);
    tug_rent_returned(&rent, 1); /* it uses what is here, too */
    assert_true(streak_bought(false) > 2);
    tug_rent_moved(&rent, MOVE_NS);
    assert_int_equal(streak_bought(false), UINT32_MAX);
}

static void takes_little_from_others_while_it_works_here(void **state) {
    (void)state;
    assert_int_equal(accesses_of(idle(0), false), TUG_CONTEST * PRICE);
    for (int i = 0; i < 100; i++)
        tug_rent_returned(&rent, 1);
    for (int i = 0; i < 10; i++)
        tug_rent_changed(&rent);
    assert_int_equal(accesses_of(idle(0), false), TUG_CONTEST * PRICE);
}

static void goes_at_once_where_each_streak_was_a_change(void **state) {
    (void)state;
    assert_int_equal(streak_bought(false), UINT32_MAX);
    tug_rent_changed(&rent);
    assert_int_equal(streak_bought(false), 1);
    assert_int_equal(streak_bought(true), UINT32_MAX); /* but waits for what is on its way */
}

/* Longer than the streaks that returned, and for ever if those were long. */
static void waits_as_long_as_streaks_have_returned(void **state) {
    (void)state;
    tug_rent_changed(&rent);
    tug_rent_changed(&rent);
    for (uint32_t longest = 1; longest < TUG_STREAK_MOST; longest++) {
        tug_rent_returned(&rent, longest);
        const uint32_t bought = streak_bought(false);
        assert_true(bought > longest && bought <= TUG_STREAK_MOST);
    }
    tug_rent_returned(&rent, TUG_STREAK_MOST);
    tug_rent_returned(&rent, 10 * TUG_STREAK_MOST);
    assert_int_equal(streak_bought(false), UINT32_MAX);
}

/* In a streak that is a change a lone access to pages of others is not what it is about. */
static void takes_the_run_that_the_streak_is_about(void **state) {
    (void)state;
    const uint64_t pages[] = {8, 15, 22, 16, 0, 23};
    assert_int_equal(rent.run, 8);
    assert_true(tug_rent_leads(&rent, pages, 1));
    assert_true(tug_rent_leads(&rent, pages, 2));
    assert_false(tug_rent_leads(&rent, pages, 3)); /* 22 once, 8 to 15 twice */
    assert_true(tug_rent_leads(&rent, pages, 4));  /* as often */
    assert_false(tug_rent_leads(&rent, pages, 5));
    assert_true(tug_rent_leads(&rent, pages, 6));
    tug_rent_changed(&rent);
    struct tug_run_seen seen = {.streak = TUG_STREAK_MOST, .leads = true};
    assert_true(tug_rent_buys(&rent, &seen));
    seen.leads = false;
    assert_false(tug_rent_buys(&rent, &seen));
    seen.idle_ns = MOVE_NS; /* what has been paid counts wherever it was */
    assert_true(tug_rent_buys(&rent, &seen));
}

static void forgets_old_streaks(void **state) {
    (void)state;
    tug_rent_changed(&rent);
    for (int i = 0; i < 5; i++)
        tug_rent_returned(&rent, TUG_STREAK_MOST);
    assert_int_equal(streak_bought(false), UINT32_MAX);
    for (int i = 0; i < 10000; i++)
        tug_rent_changed(&rent);
    assert_int_equal(streak_bought(false), 1);
}

static void a_change_brings_most_accesses_here(void **state) {
    (void)state;
    const uint32_t due = tug_rent_due(&rent, 8);
    assert_int_equal(due, PRICE);
    assert_true(tug_rent_was_change(due, due, 1));
    assert_false(tug_rent_was_change(due - 1, due, 0));
    assert_false(tug_rent_was_change(due, due, due));
    /* no more are due than are counted */
    tug_rent_moved(&rent, (uint64_t)1000 * MOVE_NS);
    assert_true(tug_rent_due(&rent, 1) <= USES);
}

/* ---- a model of users ---- */

static uint64_t seed;

static bool draw(uint32_t one_of) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % one_of == 0;
}

/* A user whose pages, all in one run, change after so many accesses; one of `one_of` is to a page
 * of another (0: none). Returns the accesses elsewhere and the moves, in accesses, above the best
 * by hand, for a change. A run that is taken in vain costs a move there and one back. */
static double cost_of_a_change(uint32_t accesses, uint32_t one_of, unsigned changes) {
    uint64_t cost = 0, pages[TUG_STREAK_MOST] = {0};
    seed = 1;
    for (unsigned i = 0; i < changes; i++) {
        bool is_here = false;
        uint32_t streak = 0;
        uint64_t idle_ns = 0;
        for (uint32_t n = 0; n < accesses; n++) {
            const bool far = one_of != 0 && draw(one_of);
            if (is_here && !far) {
                if (streak > 0)
                    tug_rent_returned(&rent, streak);
                streak = 0;
                continue;
            }
            cost += !far;
            streak++;
            idle_ns += streak > 1 && !far ? ACCESS_NS : 0;
            memmove(pages, pages + 1, sizeof pages - sizeof pages[0]);
            pages[TUG_STREAK_MOST - 1] = far ? 10 * TUG_RUN_MOST : 0;
            const uint32_t kept = streak < TUG_STREAK_MOST ? streak : TUG_STREAK_MOST;
            const struct tug_run_seen seen = {
                .streak = streak,
                .idle_ns = far ? 0 : idle_ns,
                .leads = tug_rent_leads(&rent, pages + TUG_STREAK_MOST - kept, kept)};
            if (!tug_rent_buys(&rent, &seen))
                continue;
            if (far) {
                cost += 2 * PRICE;
                tug_rent_returned(&rent, streak);
            } else {
                tug_rent_changed(&rent);
                is_here = true;
            }
            streak = 0;
        }
    }
    return (double)cost / changes;
}

static void costs_little_above_the_best_by_hand(void **state) {
    (void)state;
    /* a sweep: the first change costs the price, all others an access */
    assert_true(cost_of_a_change(2000, 0, 1) <= PRICE + 1);
    assert_true(cost_of_a_change(2000, 0, 10) <= 1);
    /* one access of twenty elsewhere: these alone cost the best 100 */
    tug_rent_open(&rent, PAGE);
    tug_rent_accessed(&rent, ACCESS_NS);
    tug_rent_moved(&rent, MOVE_NS);
    assert_true(cost_of_a_change(2000, 20, 40) < 6);
}

static void runs_become_shorter_in_vain_and_grow_again(void **state) {
    (void)state;
    const uint32_t most = rent.run;
    assert_int_equal(most, TUG_RUN_MOST);
    for (uint32_t run = most; run > 1; run /= 2) {
        count_run(0, rent.run);
        assert_int_equal(rent.run, run / 2);
    }
    count_run(0, 1);
    assert_int_equal(rent.run, 1);
    for (int i = 0; i < 10; i++)
        count_run(USES, rent.run);
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
    assert_int_equal(tug_rent_judge(0, 1), TUG_CAME_IN_VAIN);
    assert_int_equal(tug_rent_judge((uint8_t)(alone - 1), alone), TUG_CAME_IN_VAIN);
    assert_int_equal(tug_rent_judge(alone, alone), TUG_HAS_PAID);
    assert_int_equal(tug_rent_judge(USES, alone), TUG_HAS_PAID_OFTEN);
}

static void patience_doubles_the_price_up_to_its_end(void **state) {
    (void)state;
    uint8_t patience = 0;
    for (int i = 1; i < 20; i++) {
        patience = tug_rent_patience(patience, TUG_CAME_IN_VAIN);
        const int doubled = i < TUG_PATIENCE_MOST ? i : TUG_PATIENCE_MOST;
        assert_int_equal(accesses_of((struct tug_run_seen){.patience = patience}, true),
                         (uint64_t)PRICE << doubled);
    }
    assert_int_equal(tug_rent_patience(patience, TUG_HAS_PAID), patience);
    assert_int_equal(tug_rent_patience(patience, TUG_HAS_PAID_OFTEN), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(buys_when_the_rent_is_the_price, make_rent),
        cmocka_unit_test_setup(the_first_move_is_a_try, make_rent),
        cmocka_unit_test_setup(takes_little_from_others_while_it_works_here, make_rent),
        cmocka_unit_test_setup(goes_at_once_where_each_streak_was_a_change, make_rent),
        cmocka_unit_test_setup(waits_as_long_as_streaks_have_returned, make_rent),
        cmocka_unit_test_setup(takes_the_run_that_the_streak_is_about, make_rent),
        cmocka_unit_test_setup(forgets_old_streaks, make_rent),
        cmocka_unit_test_setup(a_change_brings_most_accesses_here, make_rent),
        cmocka_unit_test_setup(costs_little_above_the_best_by_hand, make_rent),
        cmocka_unit_test_setup(runs_become_shorter_in_vain_and_grow_again, make_rent),
        cmocka_unit_test_setup(runs_stand_side_by_side, make_rent),
        cmocka_unit_test_setup(a_page_pays_its_part, make_rent),
        cmocka_unit_test_setup(patience_doubles_the_price_up_to_its_end, make_rent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
