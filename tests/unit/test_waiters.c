/* Slots and the bell of all others: who is woken when something has come true, and when the baton
 * is put down.
 */
#include <pthread.h>

#include "check.h"
#include "engine/waiters.h"

#define N 3

static struct tug_waiters waiters;
static struct tug_waiter_slot *slots[TUG_WAITER_SLOTS];
static uint32_t keys[TUG_WAITER_SLOTS];
static _Atomic int flags[TUG_WAITER_SLOTS];

static bool is_set(void *argument) {
    return atomic_load((_Atomic int *)argument) != 0;
}

static struct tug_waiter_slot *sit(int i) {
    atomic_store(&flags[i], 0);
    return tug_waiters_enter(&waiters, is_set, (void *)&flags[i], &keys[i]);
}

static int reset(void **state) {
    (void)state;
    memset((void *)&waiters, 0, sizeof(waiters));
    for (int i = 0; i < N; i++)
        slots[i] = sit(i);
    return 0;
}

static bool was_rung(int i) {
    return atomic_load(&slots[i]->bell.word) != keys[i];
}

static int count_rung(void) {
    int count = 0;
    for (int i = 0; i < N; i++)
        count += was_rung(i);
    return count;
}

static void nothing_true_nobody_woken(void **state) {
    (void)state;
    (void)tug_waiters_wake(&waiters, false);
    assert_int_equal(count_rung(), 0);
}

static void who_has_it_is_woken(void **state) {
    (void)state;
    atomic_store(&flags[1], 1);
    (void)tug_waiters_wake(&waiters, false);
    assert_int_equal(count_rung(), 1);
    assert_true(was_rung(1));
    assert_int_equal(atomic_load(&waiters.coming), 1);
    (void)tug_waiters_wake(&waiters, false); /* once */
    assert_int_equal(atomic_load(&waiters.coming), 1);
    tug_waiters_leave(&waiters, slots[1]);
    assert_int_equal(atomic_load(&waiters.coming), 0);
}

static void singly_one_comes_after_the_other(void **state) {
    (void)state;
    bool was[N] = {false};
    for (int i = 0; i < N; i++)
        atomic_store(&flags[i], 1);
    for (int turn = 1; turn <= N; turn++) {
        assert_int_equal(tug_waiters_wake(&waiters, true), turn == N);
        assert_int_equal(count_rung(), turn);
        assert_int_equal(tug_waiters_wake(&waiters, true), turn == N); /* one is coming */
        assert_int_equal(count_rung(), turn);
        for (int i = 0; i < N; i++)
            if (was_rung(i) && !was[i]) {
                was[i] = true;
                tug_waiters_leave(&waiters, slots[i]);
            }
    }
}

static void the_others_are_always_woken(void **state) {
    (void)state;
    uint32_t key = tug_bell_prepare(&waiters.others);
    (void)tug_waiters_wake(&waiters, false);
    assert_int_not_equal(atomic_load(&waiters.others.word), key);
    assert_int_equal(count_rung(), 0);
}

static void one_is_called_to_the_baton(void **state) {
    (void)state;
    tug_waiters_call(&waiters, false);
    assert_int_equal(count_rung(), 1);
    tug_waiters_call(&waiters, false); /* he is still coming */
    assert_int_equal(count_rung(), 1);
    for (int i = 0; i < N; i++)
        if (was_rung(i))
            tug_waiters_leave(&waiters, slots[i]);
    tug_waiters_call(&waiters, false);
    assert_int_equal(count_rung(), 2);
}

static void who_has_it_can_take_the_baton(void **state) {
    (void)state;
    atomic_store(&flags[2], 1);
    tug_waiters_call(&waiters, false);
    assert_true(was_rung(2));
    assert_int_equal(count_rung(), 1);
}

static void who_has_left_is_not_asked(void **state) {
    (void)state;
    atomic_store(&flags[0], 1);
    tug_waiters_leave(&waiters, slots[0]);
    (void)tug_waiters_wake(&waiters, false);
    assert_int_equal(count_rung(), 0);
    assert_int_equal(atomic_load(&waiters.coming), 0);
    assert_ptr_equal(sit(0), slots[0]); /* somebody else's now */
}

static void slots_run_out(void **state) {
    (void)state;
    for (int i = N; i < TUG_WAITER_SLOTS; i++) {
        slots[i] = sit(i);
        assert_non_null(slots[i]);
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(slots[i], slots[k]);
    }
    uint32_t key;
    assert_null(tug_waiters_enter(&waiters, is_set, (void *)&flags[0], &key));
    tug_waiters_leave(&waiters, slots[TUG_WAITER_SLOTS - 1]);
    assert_non_null(sit(TUG_WAITER_SLOTS - 1));
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup(name, reset)
    const struct CMUnitTest tests[] = {
        CASE(nothing_true_nobody_woken),        CASE(who_has_it_is_woken),
        CASE(singly_one_comes_after_the_other), CASE(the_others_are_always_woken),
        CASE(one_is_called_to_the_baton),       CASE(who_has_it_can_take_the_baton),
        CASE(who_has_left_is_not_asked),        CASE(slots_run_out),
    };
    return cmocka_run_group_tests_name("waiters", tests, NULL, NULL);
}
