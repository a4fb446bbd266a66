/* Bells and backoff: when a ring costs a wake, when a sleeper sleeps, and how long a waiter pauses
 * and yields before it must park. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "engine/park.h"

static void nobody_there_no_wake(void **state) {
    (void)state;
    struct tug_bell bell = {0};
    for (int i = 0; i < 5; i++)
        assert_false(tug_bell_ring(&bell, false));
    assert_int_equal(atomic_load(&bell.word), 0);
}

static void one_ring_answers_a_prepare(void **state) {
    (void)state;
    struct tug_bell bell = {0};
    uint32_t key = tug_bell_prepare(&bell);
    assert_int_equal(key, atomic_load(&bell.word));
    assert_true(key & TUG_BELL_SLEEPER);
    assert_true(tug_bell_ring(&bell, false));
    assert_false(tug_bell_ring(&bell, false));
    assert_int_not_equal(atomic_load(&bell.word) | TUG_BELL_SLEEPER, key);
}

static void a_ring_after_the_prepare_forbids_the_sleep(void **state) {
    (void)state;
    struct tug_bell bell = {0};
    for (int i = 0; i < 100; i++) {
        uint32_t key = tug_bell_prepare(&bell);
        assert_true(tug_bell_ring(&bell, false));
        tug_bell_wait(&bell, key, -1, false); /* returns, or the test times out */
        /* returns also when another thread has prepared meanwhile */
        key = tug_bell_prepare(&bell);
        assert_true(tug_bell_ring(&bell, false));
        (void)tug_bell_prepare(&bell);
        tug_bell_wait(&bell, key, -1, false);
        (void)tug_bell_ring(&bell, false);
    }
}

static void a_timeout_ends_the_sleep(void **state) {
    (void)state;
    struct tug_bell bell = {0};
    uint64_t start = check_clock_ns(CLOCK_MONOTONIC);
    uint32_t key = tug_bell_prepare(&bell);
    tug_bell_wait(&bell, key, 20000000, false);
    uint64_t took = check_clock_ns(CLOCK_MONOTONIC) - start;
    assert_true(took >= 19000000); /* and ended */
}

struct sleeper {
    struct tug_bell *bell;
    _Atomic int *condition;
    _Atomic int *woken;
};

static void *sleep_until_set(void *argument) {
    struct sleeper *sleeper = argument;
    for (;;) {
        uint32_t key = tug_bell_prepare(sleeper->bell);
        if (atomic_load(sleeper->condition))
            break;
        tug_bell_wait(sleeper->bell, key, -1, false);
    }
    atomic_fetch_add(sleeper->woken, 1);
    return NULL;
}

static void one_ring_wakes_all(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct tug_bell bell = {0};
        _Atomic int condition = 0, woken = 0;
        struct sleeper sleeper = {&bell, &condition, &woken};
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, sleep_until_set, &sleeper), 0);
        check_sleep_us(round % 2 ? 2000 : 0); /* sleeping, or still on their way */
        atomic_store(&condition, 1);
        (void)tug_bell_ring(&bell, false);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(atomic_load(&woken), 4);
    }
}

static void rings_across_processes(void **state) {
    (void)state;
    struct shared {
        struct tug_bell bell;
        _Atomic int turn;
    } *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    pid_t child = fork();
    assert_true(child >= 0);
    for (int i = child == 0; i < 400; i += 2) {
        for (;;) {
            uint32_t key = tug_bell_prepare(&shared->bell);
            if (atomic_load(&shared->turn) == i)
                break;
            tug_bell_wait(&shared->bell, key, -1, true);
        }
        atomic_store(&shared->turn, i + 1);
        (void)tug_bell_ring(&shared->bell, true);
    }
    if (child == 0)
        _exit(0);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(atomic_load(&shared->turn), 400);
    munmap(shared, 4096);
}

static uint32_t steps_to_park(struct tug_backoff *backoff) {
    uint32_t steps = 0;
    while (tug_backoff_step(backoff)) {
        steps++;
        assert_true(steps < 100000000);
    }
    return steps;
}

static void backoff_ends_and_starts_again(void **state) {
    (void)state;
    struct tug_backoff backoff = {0};
    tug_park_configure(0, false);
    uint32_t pauses = atomic_load(&tug_park_budget.pauses);
    uint32_t yields = atomic_load(&tug_park_budget.yields);
    assert_int_equal(steps_to_park(&backoff), pauses + yields);
    assert_false(tug_backoff_step(&backoff)); /* stays there */
    tug_backoff_reset(&backoff);
    assert_int_equal(steps_to_park(&backoff), pauses + yields);
}

static void budgets_follow_the_load(void **state) {
    (void)state;
    tug_park_configure(50, false);
    uint32_t roomy = atomic_load(&tug_park_budget.pauses);
    tug_park_configure(50, true);
    uint32_t crowded = atomic_load(&tug_park_budget.pauses);
    tug_park_configure(0, false);
    assert_int_equal(atomic_load(&tug_park_budget.pauses), 0);
    assert_true(crowded < roomy);
    assert_true(crowded <= 100);
}

static void spin_budget_is_in_microseconds(void **state) {
    (void)state;
    tug_park_configure(200, false);
    uint32_t pauses = atomic_load(&tug_park_budget.pauses);
    struct tug_backoff backoff = {0};
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 10; i++) { /* the best of some: the machine is shared */
        tug_backoff_reset(&backoff);
        uint64_t start = check_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (uint32_t k = 0; k < pauses; k++)
            (void)tug_backoff_step(&backoff);
        uint64_t took = check_clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        best = took < best ? took : best;
    }
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    assert_in_range(best, 20000, 2000000);
#endif
    tug_park_configure(0, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_there_no_wake),
        cmocka_unit_test(one_ring_answers_a_prepare),
        cmocka_unit_test(a_ring_after_the_prepare_forbids_the_sleep),
        cmocka_unit_test(a_timeout_ends_the_sleep),
        cmocka_unit_test(one_ring_wakes_all),
        cmocka_unit_test(rings_across_processes),
        cmocka_unit_test(backoff_ends_and_starts_again),
        cmocka_unit_test(budgets_follow_the_load),
        cmocka_unit_test(spin_budget_is_in_microseconds),
    };
    return cmocka_run_group_tests_name("park", tests, NULL, NULL);
}
