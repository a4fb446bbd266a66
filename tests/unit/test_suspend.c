/* Waits without a thread: who is woken by a look, how often, and beside other looks.
 */
#include <pthread.h>
#include <sched.h>

#include "check.h"
#include "engine/suspend.h"

#define N 5

struct wait {
    struct tug_suspended suspended; /* first */
    _Atomic int flag, woken;
    void (*while_looked_at)(struct wait *wait); /* in done(), once */
};

static struct wait waits[N];

static bool is_set(void *argument) {
    struct wait *wait = argument;
    if (wait->while_looked_at != NULL) {
        void (*then)(struct wait *) = wait->while_looked_at;
        wait->while_looked_at = NULL;
        then(wait);
    }
    return atomic_load(&wait->flag) != 0;
}

static void count(struct tug_suspended *suspended) {
    atomic_fetch_add(&((struct wait *)suspended)->woken, 1);
}

static void push(struct wait *wait) {
    atomic_store(&wait->flag, 0);
    atomic_store(&wait->woken, 0);
    wait->suspended = (struct tug_suspended){.done = is_set, .argument = wait, .wake = count};
    tug_suspend_push(&wait->suspended);
}

static int reset(void **state) {
    (void)state;
    for (int i = 0; i < N; i++)
        push(&waits[i]);
    return 0;
}

static int finish(void **state) {
    (void)state;
    for (int i = 0; i < N; i++)
        atomic_store(&waits[i].flag, 1);
    tug_suspend_look();
    for (int i = 0; i < N; i++)
        assert_int_equal(atomic_load(&waits[i].woken), 1);
    assert_false(tug_suspend_any());
    return 0;
}

static void nothing_true_nobody_woken(void **state) {
    (void)state;
    tug_suspend_look();
    for (int i = 0; i < N; i++)
        assert_int_equal(atomic_load(&waits[i].woken), 0);
    assert_int_equal(atomic_load(&tug_suspended_out), N);
}

static void who_has_it_is_woken_once(void **state) {
    (void)state;
    for (int i = 0; i < N; i += 2)
        atomic_store(&waits[i].flag, 1);
    tug_suspend_look();
    tug_suspend_look();
    for (int i = 0; i < N; i++)
        assert_int_equal(atomic_load(&waits[i].woken), i % 2 == 0);
    assert_int_equal(atomic_load(&tug_suspended_out), N / 2);
}

static void who_is_woken_may_wait_again(void **state) {
    (void)state;
    atomic_store(&waits[1].flag, 1);
    tug_suspend_look();
    push(&waits[1]);
    tug_suspend_look();
    assert_int_equal(atomic_load(&waits[1].woken), 0);
}

static void make_all_true(struct wait *wait) {
    (void)wait;
    for (int i = 0; i < N; i++)
        atomic_store(&waits[i].flag, 1);
    tug_suspend_look(); /* left to the look that is going on */
}

/* Whichever place in the list it has: those before it have been looked at already. */
static void a_look_within_a_look_is_made_up_for(void **state) {
    (void)state;
    for (int which = 0; which < N; which++) {
        waits[which].while_looked_at = make_all_true;
        tug_suspend_look();
        for (int i = 0; i < N; i++) {
            assert_int_equal(atomic_load(&waits[i].woken), 1);
            push(&waits[i]);
        }
    }
}

static struct wait late;

static void push_late(struct wait *wait) {
    (void)wait;
    push(&late);
    atomic_store(&late.flag, 1);
    tug_suspend_look();
}

static void who_comes_during_a_look_is_looked_at(void **state) {
    (void)state;
    waits[N - 1].while_looked_at = push_late;
    tug_suspend_look();
    assert_int_equal(atomic_load(&late.woken), 1);
}

/* ---- threads ---- */

enum { THREADS = 4, TURNS = 2000 };

static _Atomic int ended;

static void *suspend_and_wait(void *argument) {
    struct wait *wait = argument;
    for (int turn = 0; turn < TURNS; turn++) {
        push(wait);
        tug_suspend_look();
        while (atomic_load(&wait->woken) == 0)
            sched_yield();
    }
    atomic_fetch_add(&ended, 1);
    return NULL;
}

static void *make_true(void *argument) {
    struct wait *all = argument;
    for (; atomic_load(&ended) < THREADS; sched_yield())
        for (int i = 0; i < THREADS; i++)
            if (atomic_load(&all[i].flag) == 0) {
                atomic_store(&all[i].flag, 1);
                if (tug_suspend_any())
                    tug_suspend_look();
            }
    return NULL;
}

/* One that is never woken makes this one hang. */
static void nobody_is_forgotten(void **state) {
    static struct wait all[THREADS];
    pthread_t threads[THREADS + 2];
    (void)state;
    atomic_store(&ended, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, suspend_and_wait, &all[i]);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[THREADS + i], NULL, make_true, all);
    for (int i = 0; i < THREADS + 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&tug_suspended_out), N);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_true_nobody_woken, reset, finish),
        cmocka_unit_test_setup_teardown(who_has_it_is_woken_once, reset, finish),
        cmocka_unit_test_setup_teardown(who_is_woken_may_wait_again, reset, finish),
        cmocka_unit_test_setup_teardown(a_look_within_a_look_is_made_up_for, reset, finish),
        cmocka_unit_test_setup_teardown(who_comes_during_a_look_is_looked_at, reset, finish),
        cmocka_unit_test_setup_teardown(nobody_is_forgotten, reset, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
