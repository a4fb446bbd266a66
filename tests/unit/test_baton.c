/* The baton's transitions on the ring's state word, one thread: who gets it, who is refused, and
 * which wakes are owed. Interleavings are the models' matter (tests/model). */
#include "check.h"
#include "engine/baton.h"

#define SIZE 16

static struct tug_ring ring;

static int make_ring(void **state) {
    (void)state;
    return tug_ring_init(&ring, SIZE);
}

static int drop_ring(void **state) {
    (void)state;
    tug_ring_fini(&ring);
    return 0;
}

static uint64_t flags(void) {
    return atomic_load(&ring.state) & (TUG_TAIL_ONE - 1);
}

static struct tug_ticket queue_one(bool may_drive) {
    struct tug_ticket ticket = {0};
    assert_int_equal(tug_ring_enter(&ring, may_drive, &ticket), TUG_ENTRY_TICKET);
    tug_ring_commit(&ticket);
    return ticket;
}

static void execute_one(void) {
    struct tug_command *cell = tug_ring_next(&ring);
    assert_non_null(cell);
    tug_ring_consume(&ring, cell);
}

static void entering_an_idle_ring_takes_the_baton(void **state) {
    (void)state;
    struct tug_ticket ticket = {0};
    assert_int_equal(tug_ring_enter(&ring, true, &ticket), TUG_ENTRY_BATON);
    assert_int_equal(flags(), TUG_BATON_HELD);
    assert_int_equal(tug_ring_tail(&ring), 0); /* no cell was used */
    assert_false(tug_baton_take(&ring));
    assert_int_equal(tug_ring_enter(&ring, true, &ticket), TUG_ENTRY_TICKET);
    assert_false(tug_baton_leave(&ring)); /* reserved counts as work */
    tug_ring_commit(&ticket);
    assert_false(tug_baton_leave(&ring));
    execute_one();
    assert_true(tug_baton_leave(&ring));
    assert_int_equal(flags(), 0);
    assert_int_equal(tug_ring_enter(&ring, true, &ticket), TUG_ENTRY_BATON);
}

static void one_taker_only(void **state) {
    (void)state;
    assert_true(tug_baton_take(&ring));
    assert_false(tug_baton_take(&ring));
    assert_true(tug_baton_leave(&ring));
    assert_true(tug_baton_take(&ring));
}

static void refusing_to_leave_keeps_the_baton(void **state) {
    (void)state;
    assert_true(tug_baton_take(&ring));
    (void)queue_one(true);
    uint64_t before = atomic_load(&ring.state);
    assert_false(tug_baton_leave(&ring));
    assert_int_equal(atomic_load(&ring.state), before);
    assert_false(tug_baton_take(&ring));
}

static void an_offer_goes_to_one_and_keeps_the_work(void **state) {
    (void)state;
    assert_true(tug_baton_take(&ring));
    (void)queue_one(true);
    (void)queue_one(true);
    tug_baton_offer(&ring);
    assert_int_equal(flags(), TUG_BATON_HELD | TUG_BATON_OFFER);
    /* who may drive still queues behind the work, in order */
    struct tug_ticket ticket = queue_one(true);
    assert_int_equal(ticket.position, 2);
    assert_true(flags() & TUG_BATON_OFFER);
    assert_true(tug_baton_take(&ring));
    assert_false(tug_baton_take(&ring));
    assert_int_equal(flags(), TUG_BATON_HELD);
    for (int i = 0; i < 3; i++)
        execute_one();
    assert_true(tug_baton_leave(&ring));
}

static void without_driving_a_free_baton_is_put_up(void **state) {
    (void)state;
    struct tug_ticket ticket = queue_one(false);
    assert_true(ticket.owes_ring);
    assert_int_equal(flags(), TUG_BATON_HELD | TUG_BATON_OFFER);
    ticket = queue_one(false);
    assert_false(ticket.owes_ring); /* once is enough */
    assert_true(tug_baton_take(&ring));
    ticket = queue_one(false);
    assert_false(ticket.owes_ring);
    assert_int_equal(flags(), TUG_BATON_HELD);
}

static void sleep_is_refused_with_work(void **state) {
    (void)state;
    assert_true(tug_baton_take(&ring));
    struct tug_ticket ticket = {0};
    assert_int_equal(tug_ring_enter(&ring, true, &ticket), TUG_ENTRY_TICKET);
    assert_false(tug_baton_sleep(&ring)); /* reserved is enough */
    tug_ring_commit(&ticket);
    assert_false(tug_baton_sleep(&ring));
    assert_int_equal(flags(), TUG_BATON_HELD);
    execute_one();
    assert_true(tug_baton_sleep(&ring));
    assert_int_equal(flags(), TUG_BATON_HELD | TUG_BATON_SLEEP);
    tug_baton_awake(&ring);
    assert_int_equal(flags(), TUG_BATON_HELD);
    tug_baton_awake(&ring);
    assert_int_equal(flags(), TUG_BATON_HELD);
}

static void who_clears_sleep_owes_the_ring_once(void **state) {
    (void)state;
    assert_true(tug_baton_take(&ring));
    assert_true(tug_baton_sleep(&ring));
    struct tug_ticket ticket = queue_one(true);
    assert_true(ticket.owes_ring);
    assert_int_equal(flags(), TUG_BATON_HELD);
    ticket = queue_one(true);
    assert_false(ticket.owes_ring);
    execute_one();
    execute_one();
    bool owes = false;
    assert_true(tug_baton_sleep(&ring));
    assert_true(tug_baton_rouse(&ring, &owes));
    assert_true(owes);
    assert_int_equal(flags(), TUG_BATON_HELD);
    assert_true(tug_baton_rouse(&ring, &owes));
    assert_false(owes);
}

static void no_holder_is_roused_when_the_baton_is_to_be_had(void **state) {
    (void)state;
    bool owes;
    assert_false(tug_baton_rouse(&ring, &owes));
    assert_int_equal(flags(), 0);
    assert_true(tug_baton_take(&ring));
    assert_true(tug_baton_rouse(&ring, &owes));
    (void)queue_one(true);
    tug_baton_offer(&ring);
    assert_false(tug_baton_rouse(&ring, &owes));
    assert_true(tug_baton_take(&ring));
}

static void a_held_baton_is_not_offered(void **state) {
    (void)state;
    assert_false(tug_baton_is_held(&ring));
    assert_true(tug_baton_take(&ring));
    assert_true(tug_baton_is_held(&ring));
    (void)queue_one(true);
    tug_baton_offer(&ring);
    assert_false(tug_baton_is_held(&ring));
}

static void flags_never_touch_the_tail(void **state) {
    (void)state;
    bool owes;
    assert_true(tug_baton_take(&ring));
    for (uint64_t i = 0; i < 3 * SIZE; i++) {
        (void)queue_one(true);
        assert_true(tug_baton_rouse(&ring, &owes));
        tug_baton_offer(&ring);
        assert_true(tug_baton_take(&ring));
        execute_one();
        assert_true(tug_baton_sleep(&ring));
        tug_baton_awake(&ring);
        assert_int_equal(tug_ring_tail(&ring), i + 1);
        assert_true(tug_baton_leave(&ring));
        assert_int_equal(tug_ring_tail(&ring), i + 1);
        assert_true(tug_baton_take(&ring));
    }
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_ring, drop_ring)
    const struct CMUnitTest tests[] = {
        CASE(entering_an_idle_ring_takes_the_baton),
        CASE(one_taker_only),
        CASE(refusing_to_leave_keeps_the_baton),
        CASE(an_offer_goes_to_one_and_keeps_the_work),
        CASE(without_driving_a_free_baton_is_put_up),
        CASE(sleep_is_refused_with_work),
        CASE(who_clears_sleep_owes_the_ring_once),
        CASE(no_holder_is_roused_when_the_baton_is_to_be_had),
        CASE(a_held_baton_is_not_offered),
        CASE(flags_never_touch_the_tail),
    };
    return cmocka_run_group_tests_name("baton", tests, NULL, NULL);
}
