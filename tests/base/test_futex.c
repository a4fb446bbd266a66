/*
 * The futex wrappers: wrong value, time-out, wake, within a process and between two.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/futex.h"

static void test_wrong_value_returns_at_once(void **state) {
    (void)state;
    uint32_t _Atomic word = 5;
    errno = ERANGE;
    assert_int_equal(tug_futex_wait(&word, 4, -1, false), -EAGAIN);
    assert_int_equal(errno, ERANGE);
}

static void test_timeout(void **state) {
    (void)state;
    uint32_t _Atomic word = 5;
    const uint64_t begin = tug_clock_ns();
    int status;
    do
        status = tug_futex_wait(&word, 5, 20000000, false);
    while (status == -EINTR);
    assert_int_equal(status, -ETIMEDOUT);
    assert_true(tug_clock_ns() - begin >= 20000000);
}

struct hand {
    uint32_t _Atomic word;
    uint32_t _Atomic done;
    bool shared;
};

static void sleep_until_set(struct hand *hand) {
    while (atomic_load(&hand->word) == 0)
        tug_futex_wait(&hand->word, 0, -1, hand->shared);
    atomic_store(&hand->done, 1);
}

static void *sleeper(void *arg) {
    sleep_until_set(arg);
    return NULL;
}

/* The sleeper may not be asleep yet: wake it until it says that it is done. */
static int wake_until_done(struct hand *hand) {
    atomic_store(&hand->word, 1);
    for (int i = 0; i < 5000; i++) {
        const int woken = tug_futex_wake(&hand->word, 1, hand->shared);
        if (woken < 0)
            return woken;
        if (atomic_load(&hand->done))
            return 0;
        usleep(1000);
    }
    return -ETIMEDOUT;
}

static void test_wake_thread(void **state) {
    (void)state;
    struct hand hand = {.shared = false};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, sleeper, &hand), 0);
    usleep(20000);
    assert_int_equal(wake_until_done(&hand), 0);
    pthread_join(thread, NULL);
}

static void test_wake_process(void **state) {
    (void)state;
    struct hand *hand =
        mmap(NULL, sizeof *hand, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(hand != MAP_FAILED);
    hand->shared = true;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sleep_until_set(hand);
        _exit(7);
    }
    usleep(20000);
    assert_int_equal(wake_until_done(hand), 0);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    munmap(hand, sizeof *hand);
}

static void test_clock_goes_forward(void **state) {
    (void)state;
    uint64_t last = tug_clock_ns();
    for (int i = 0; i < 100000; i++) {
        const uint64_t now = tug_clock_ns();
        assert_true(now >= last);
        last = now;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_value_returns_at_once), cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_wake_thread), cmocka_unit_test(test_wake_process),
        cmocka_unit_test(test_clock_goes_forward)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
