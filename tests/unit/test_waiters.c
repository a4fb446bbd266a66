/* The list of waits: which are woken by a look, how often, and beside other looks.
 */
#include <pthread.h>
#include <sched.h>

#include "check.h"
#include "engine/waiters.h"

#define N 5

static struct tug_waiters waiters;

/* ---- parked threads ---- */

static struct tug_parked parked[N];
static uint32_t keys[N];
static _Atomic int flags[N];

static bool flag_is_set(void *argument) {
    return atomic_load((_Atomic int *)argument) != 0;
}

static void park(int i) {
    atomic_store(&flags[i], 0);
    keys[i] = tug_waiters_park(&waiters, &parked[i], flag_is_set, (void *)&flags[i]);
}

static void unpark(int i) {
    tug_waiters_unpark(&waiters, &parked[i], keys[i]);
}

static int park_all(void **state) {
    (void)state;
    memset((void *)&waiters, 0, sizeof(waiters));
    for (int i = 0; i < N; i++)
        park(i);
    return 0;
}

static int unpark_all(void **state) {
    (void)state;
    for (int i = 0; i < N; i++)
        unpark(i);
    assert_false(tug_waiters_parked(&waiters));
    assert_int_equal(atomic_load(&waiters.coming), 0);
    return 0;
}

static bool was_rung(int i) {
    return atomic_load(&parked[i].bell.word) != keys[i];
}

static int count_rung(void) {
    int count = 0;
    for (int i = 0; i < N; i++)
        count += was_rung(i);
    return count;
}

static bool look(unsigned how) {
    return tug_waiters_look(&waiters, how);
}

static void no_thread_is_woken_for_nothing(void **state) {
    (void)state;
    assert_true(look(TUG_LOOK_ALL));
    assert_int_equal(count_rung(), 0);
}

static void a_thread_is_woken_once_for_its_condition(void **state) {
    (void)state;
    atomic_store(&flags[1], 1);
    assert_true(look(TUG_LOOK_ALL));
    assert_int_equal(count_rung(), 1);
    assert_true(was_rung(1));
    assert_int_equal(atomic_load(&waiters.coming), 1);
    (void)look(TUG_LOOK_ALL);
    assert_int_equal(atomic_load(&waiters.coming), 1);
    unpark(1);
    assert_int_equal(atomic_load(&waiters.coming), 0);
    park(1);
}

static void singly_one_comes_after_the_other(void **state) {
    (void)state;
    bool was[N] = {false};
    for (int i = 0; i < N; i++)
        atomic_store(&flags[i], 1);
    for (int turn = 1; turn <= N; turn++) {
        assert_int_equal(look(TUG_LOOK_SINGLY), turn == N);
        assert_int_equal(count_rung(), turn);
        assert_int_equal(look(TUG_LOOK_SINGLY), turn == N); /* one is coming */
        assert_int_equal(count_rung(), turn);
        for (int i = 0; i < N; i++)
            if (was_rung(i) && !was[i]) {
                was[i] = true;
                unpark(i);
            }
    }
    for (int i = 0; i < N; i++)
        park(i);
}

static void all_are_woken_where_one_is_coming(void **state) {
    (void)state;
    atomic_store(&flags[0], 1);
    (void)look(TUG_LOOK_SINGLY);
    atomic_store(&flags[1], 1);
    assert_false(look(TUG_LOOK_SINGLY));
    assert_true(look(TUG_LOOK_SINGLY | TUG_LOOK_ALL));
    assert_true(was_rung(1));
}

/* Its condition is its own to look up, and it is not relied on. */
static void a_private_wait_is_woken_by_every_look(void **state) {
    (void)state;
    struct tug_parked private;
    uint32_t key = tug_waiters_park(&waiters, &private, NULL, NULL);
    assert_true(look(TUG_LOOK_SINGLY));
    assert_int_not_equal(atomic_load(&private.bell.word), key);
    assert_int_equal(count_rung(), 0);
    assert_int_equal(atomic_load(&waiters.coming), 0);
    tug_waiters_unpark(&waiters, &private, key);
    assert_int_equal(atomic_load(&waiters.coming), 0);
}

static void one_is_called_to_the_baton(void **state) {
    (void)state;
    (void)look(TUG_LOOK_ALL | TUG_LOOK_HEIR);
    assert_int_equal(count_rung(), 1);
    (void)look(TUG_LOOK_ALL | TUG_LOOK_HEIR); /* one is coming */
    assert_int_equal(count_rung(), 1);
    for (int i = 0; i < N; i++)
        if (was_rung(i)) {
            unpark(i);
            park(i);
        }
    (void)look(TUG_LOOK_ALL | TUG_LOOK_HEIR);
    assert_int_equal(count_rung(), 1);
}

static void a_thread_whose_wait_is_over_can_take_the_baton(void **state) {
    (void)state;
    atomic_store(&flags[2], 1);
    (void)look(TUG_LOOK_ALL | TUG_LOOK_HEIR);
    assert_true(was_rung(2));
    assert_int_equal(count_rung(), 1);
}

static void a_thread_that_has_left_is_not_asked(void **state) {
    (void)state;
    atomic_store(&flags[0], 1);
    unpark(0);
    (void)look(TUG_LOOK_ALL);
    assert_int_equal(count_rung(), 0);
    assert_int_equal(atomic_load(&waiters.coming), 0);
    park(0);
}

/* ---- waits without a thread ---- */

struct wait {
    struct tug_waiter waiter; /* first */
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

static void count(struct tug_waiter *waiter) {
    atomic_fetch_add(&((struct wait *)waiter)->woken, 1);
}

static void push(struct wait *wait) {
    atomic_store(&wait->flag, 0);
    atomic_store(&wait->woken, 0);
    wait->waiter = (struct tug_waiter){.done = is_set, .argument = wait, .wake = count};
    tug_waiters_add(&waiters, &wait->waiter);
}

static int push_all(void **state) {
    (void)state;
    memset((void *)&waiters, 0, sizeof(waiters));
    for (int i = 0; i < N; i++)
        push(&waits[i]);
    return 0;
}

static int wake_all(void **state) {
    (void)state;
    for (int i = 0; i < N; i++)
        atomic_store(&waits[i].flag, 1);
    (void)look(TUG_LOOK_SUSPENDED);
    for (int i = 0; i < N; i++)
        assert_int_equal(atomic_load(&waits[i].woken), 1);
    assert_false(tug_waiters_suspended(&waiters));
    return 0;
}

static void a_wait_is_woken_once(void **state) {
    (void)state;
    (void)look(TUG_LOOK_SUSPENDED);
    for (int i = 0; i < N; i++)
        assert_int_equal(atomic_load(&waits[i].woken), 0);
    for (int i = 0; i < N; i += 2)
        atomic_store(&waits[i].flag, 1);
    (void)look(TUG_LOOK_SUSPENDED);
    (void)look(TUG_LOOK_SUSPENDED);
    for (int i = 0; i < N; i++)
        assert_int_equal(atomic_load(&waits[i].woken), i % 2 == 0);
    assert_int_equal(atomic_load(&waiters.out) >> 32, N / 2);
}

/* Threads that put the baton down do not go through a thousand of them. */
static void a_look_at_parked_threads_leaves_them_alone(void **state) {
    (void)state;
    atomic_store(&waits[0].flag, 1);
    park(0);
    atomic_store(&flags[0], 1);
    (void)look(TUG_LOOK_ALL);
    assert_true(was_rung(0));
    assert_int_equal(atomic_load(&waits[0].woken), 0);
    unpark(0);
    park(0);
    atomic_store(&flags[0], 1);
    (void)look(TUG_LOOK_SUSPENDED);
    assert_false(was_rung(0));
    assert_int_equal(atomic_load(&waits[0].woken), 1);
    push(&waits[0]);
    unpark(0);
}

static void a_thread_that_is_woken_may_wait_again(void **state) {
    (void)state;
    atomic_store(&waits[1].flag, 1);
    (void)look(TUG_LOOK_SUSPENDED);
    push(&waits[1]);
    (void)look(TUG_LOOK_SUSPENDED);
    assert_int_equal(atomic_load(&waits[1].woken), 0);
}

/* No thread sleeps there, so none of them takes the baton. */
static void none_of_them_is_called_to_the_baton(void **state) {
    (void)state;
    (void)look(TUG_LOOK_SUSPENDED | TUG_LOOK_ALL | TUG_LOOK_HEIR);
    for (int i = 0; i < N; i++)
        assert_int_equal(atomic_load(&waits[i].woken), 0);
    park(0);
    (void)look(TUG_LOOK_SUSPENDED | TUG_LOOK_ALL | TUG_LOOK_HEIR);
    assert_true(was_rung(0));
    unpark(0);
}

static void make_all_true(struct wait *wait) {
    (void)wait;
    for (int i = 0; i < N; i++)
        atomic_store(&waits[i].flag, 1);
    assert_false(look(TUG_LOOK_SUSPENDED)); /* left to the look that is going on */
}

/* Whichever place in the list it has: those before it have been looked at already. */
static void a_look_within_a_look_is_made_up_for(void **state) {
    (void)state;
    for (int which = 0; which < N; which++) {
        waits[which].while_looked_at = make_all_true;
        (void)look(TUG_LOOK_SUSPENDED);
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
    (void)look(TUG_LOOK_SUSPENDED);
}

static void a_wait_that_comes_during_a_look_is_looked_at(void **state) {
    (void)state;
    waits[N - 1].while_looked_at = push_late;
    (void)look(TUG_LOOK_SUSPENDED);
    assert_int_equal(atomic_load(&late.woken), 1);
}

static pthread_t leaver;
static _Atomic bool has_left;

static void *leave_list(void *argument) {
    (void)argument;
    unpark(0);
    atomic_store(&has_left, true);
    return NULL;
}

static void let_one_leave(struct wait *wait) {
    (void)wait;
    pthread_create(&leaver, NULL, leave_list, NULL);
    while (!atomic_load(&parked[0].leaving))
        sched_yield();
}

/* It sleeps until the look is over, and is not taken for one that comes. */
static void a_thread_that_leaves_during_a_look_is_taken_out(void **state) {
    (void)state;
    park(0);
    waits[N - 1].while_looked_at = let_one_leave;
    (void)look(TUG_LOOK_SUSPENDED);
    pthread_join(leaver, NULL);
    assert_true(atomic_load(&has_left));
    assert_false(tug_waiters_parked(&waiters));
    assert_int_equal(atomic_load(&waiters.coming), 0);
}

static void call_heir(struct wait *wait) {
    (void)wait;
    assert_false(look(TUG_LOOK_SUSPENDED | TUG_LOOK_ALL | TUG_LOOK_HEIR));
}

static void an_heir_asked_for_during_a_look_is_woken(void **state) {
    (void)state;
    park(0);
    waits[N - 1].while_looked_at = call_heir;
    (void)look(TUG_LOOK_SUSPENDED);
    assert_true(was_rung(0));
    unpark(0);
}

/* ---- threads ---- */

enum { THREADS = 6, TURNS = 2000 };

static _Atomic int ended;
static struct wait all[THREADS];

/* Every other one waits at a bell, and leaves it now and then before it is rung. */
static void *wait_again_and_again(void *argument) {
    struct wait *wait = argument;
    const bool parks = (wait - all) % 2 == 0;
    for (int turn = 0; turn < TURNS; turn++) {
        if (!parks) {
            push(wait);
            (void)look(TUG_LOOK_SUSPENDED);
            while (atomic_load(&wait->woken) == 0)
                sched_yield();
            continue;
        }
        atomic_store(&wait->flag, 0);
        while (!is_set(wait)) {
            struct tug_parked its;
            const uint32_t key =
                tug_waiters_park(&waiters, &its, (wait - all) % 4 == 0 ? is_set : NULL, wait);
            if (!is_set(wait) && turn % 8 != 0)
                tug_bell_wait(&its.bell, key, -1, false);
            tug_waiters_unpark(&waiters, &its, key);
        }
    }
    atomic_fetch_add(&ended, 1);
    return NULL;
}

static void *make_true(void *argument) {
    (void)argument;
    for (unsigned round = 0; atomic_load(&ended) < THREADS; sched_yield())
        for (int i = 0; i < THREADS; i++)
            if (atomic_load(&all[i].flag) == 0) {
                atomic_store(&all[i].flag, 1);
                (void)look(TUG_LOOK_SUSPENDED |
                           (++round % 2 ? TUG_LOOK_ALL : TUG_LOOK_ALL | TUG_LOOK_HEIR));
            }
    return NULL;
}

/* One that is never woken makes this one hang. */
static void no_wait_is_forgotten(void **state) {
    pthread_t threads[THREADS + 2];
    (void)state;
    atomic_store(&ended, 0);
    for (int i = 0; i < THREADS; i++) {
        atomic_store(&all[i].flag, 1);
        pthread_create(&threads[i], NULL, wait_again_and_again, &all[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[THREADS + i], NULL, make_true, NULL);
    for (int i = 0; i < THREADS + 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal((uint32_t)(atomic_load(&waiters.out) >> 32), N);
    assert_int_equal(atomic_load(&waiters.coming), 0);
    assert_int_equal(atomic_load(&waiters.turn), 0);
}

int main(void) {
#define PARKED(name) cmocka_unit_test_setup_teardown(name, park_all, unpark_all)
#define SUSPENDED(name) cmocka_unit_test_setup_teardown(name, push_all, wake_all)
    const struct CMUnitTest tests[] = {
        PARKED(no_thread_is_woken_for_nothing),
        PARKED(a_thread_is_woken_once_for_its_condition),
        PARKED(singly_one_comes_after_the_other),
        PARKED(all_are_woken_where_one_is_coming),
        PARKED(a_private_wait_is_woken_by_every_look),
        PARKED(one_is_called_to_the_baton),
        PARKED(a_thread_whose_wait_is_over_can_take_the_baton),
        PARKED(a_thread_that_has_left_is_not_asked),
        SUSPENDED(a_wait_is_woken_once),
        SUSPENDED(a_look_at_parked_threads_leaves_them_alone),
        SUSPENDED(a_thread_that_is_woken_may_wait_again),
        SUSPENDED(a_thread_that_leaves_during_a_look_is_taken_out),
        SUSPENDED(none_of_them_is_called_to_the_baton),
        SUSPENDED(a_look_within_a_look_is_made_up_for),
        SUSPENDED(a_wait_that_comes_during_a_look_is_looked_at),
        SUSPENDED(an_heir_asked_for_during_a_look_is_woken),
        SUSPENDED(no_wait_is_forgotten),
    };
    return cmocka_run_group_tests_name("waiters", tests, NULL, NULL);
}
