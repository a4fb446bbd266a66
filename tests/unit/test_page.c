/* The page of a process: what its peers read there of who looks, while it waits awake, sleeps in
 * a wait, computes, and has several who wait. The process under test is a child, its peer is this
 * one; the two take turns by the numbers of steps in shared memory. */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/private.h"
#include "engine_fixture.h"
#include "node/page.h"

enum { COMPUTES = 1, WAITS, COMPUTES_AGAIN, SLEEPS, TWO_WAIT, ONE_WAITS, MANY_WAIT, FORKS, ENDS };

struct shared {
    struct tug_offer offer;
    _Atomic int wanted, reached; /* steps: of the child, by the peer; begun, by the child */
};
static struct shared *shared;

/* ---- the child ---- */

static bool is_wanted(void *argument) {
    return atomic_load(&shared->wanted) >= *(const int *)argument;
}

/* How a driver waits: for ever awake, or asleep at once. */
static void be_awake(bool awake) {
    atomic_store(&tug_park_budget.pauses, awake ? UINT32_MAX : 0);
    atomic_store(&tug_park_budget.yields, 0);
}

static void begin(int step) {
    while (!is_wanted(&step))
        sched_yield();
    atomic_store(&shared->reached, step);
}

/* In the engine, until that step is wanted: whoever makes it true does not wake this thread. */
static void wait_until(int step) {
    tug_engine_wait(is_wanted, &step, 10000000, 0);
}

static void *wait_for_one(void *argument) {
    (void)argument;
    wait_until(ONE_WAITS);
    return NULL;
}

static void two_wait(void) {
    pthread_t first;
    be_awake(true);
    (void)pthread_create(&first, NULL, wait_for_one, NULL);
    begin(TWO_WAIT);
    wait_until(MANY_WAIT);
    pthread_join(first, NULL);
}

static _Atomic int round_now;

static bool is_over(void *round) {
    return atomic_load(&round_now) >= *(const int *)round;
}

static void *wait_for_round(void *round) {
    tug_engine_wait(is_over, round, 1000000, 0);
    return NULL;
}

/* They take the baton from one another, put it down for a moment, and end one by one: the last of
 * them wherever it is just then. */
static void many_wait(void) {
    pthread_t others[3];
    atomic_store(&tug_park_budget.pauses, 2);
    atomic_store(&tug_park_budget.yields, 100000);
    for (int round = 1; round <= 300; round++) {
        for (int i = 0; i < 3; i++)
            (void)pthread_create(&others[i], NULL, wait_for_round, &round);
        check_sleep_us(50);
        atomic_store(&round_now, round);
        for (int i = 0; i < 3; i++)
            pthread_join(others[i], NULL);
        if (tug_lease_is(&tug_engine.news, TUG_LEASE_HELD))
            _exit(2);
    }
    begin(MANY_WAIT);
}

/* A child's child says nothing in the page of its parent. */
static void fork_and_wait(void) {
    const pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        tug_engine_forked();
        start_engine(TUG_PROGRESS_CALLER, 16);
        be_awake(true);
        atomic_store(&shared->reached, FORKS);
        wait_until(ENDS);
        _exit(0);
    }
    while (waitpid(child, NULL, 0) != child)
        ;
}

static void child_main(void) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    start_engine(TUG_PROGRESS_AUTO, 16);
    if (tug_node_page_own(&shared->offer) == NULL)
        _exit(1);
    begin(COMPUTES);
    be_awake(true);
    begin(WAITS);
    wait_until(COMPUTES_AGAIN);
    begin(COMPUTES_AGAIN);
    be_awake(false);
    begin(SLEEPS);
    wait_until(TWO_WAIT);
    two_wait();
    many_wait();
    fork_and_wait();
    stop_engine();
    _exit(0);
}

/* ---- its peer ---- */

#define LONG_NS UINT64_C(600000000000)

static void go_on(int step) {
    atomic_store(&shared->wanted, step);
    CHECK_SOON(atomic_load(&shared->reached) >= step);
}

static void assert_computing(const struct tug_node_page *page) {
    for (int i = 0; i < 100; i++) {
        assert_false(tug_node_page_served_within(page, 0));
        check_sleep_us(100);
    }
}

/* It wakes a hundred times a second, to look. */
static void assert_asleep(const struct tug_node_page *page) {
    int awake = 0;
    for (int i = 0; i < 1000; i++) {
        awake += tug_node_page_served_within(page, LONG_NS);
        check_sleep_us(100);
    }
    assert_true(awake < 100);
}

static void what_peers_read(void **state) {
    (void)state;
    const pid_t child = fork();
    if (child == 0)
        child_main();
    go_on(COMPUTES);
    const struct tug_node_page *page = tug_node_page_open(&shared->offer);
    assert_non_null(page);
    assert_computing(page);
    assert_false(tug_node_page_served_within(page, LONG_NS));
    go_on(WAITS);
    CHECK_SOON(tug_node_page_served_within(page, 0));
    go_on(COMPUTES_AGAIN);
    assert_computing(page);
    assert_true(tug_node_page_served_within(page, LONG_NS)); /* it has been there */
    go_on(SLEEPS);
    assert_asleep(page);
    go_on(TWO_WAIT);
    CHECK_SOON(tug_node_page_served_within(page, 0));
    atomic_store(&shared->wanted, ONE_WAITS); /* the other goes on */
    check_sleep_us(10000);
    CHECK_SOON(tug_node_page_served_within(page, 0));
    go_on(MANY_WAIT);
    assert_computing(page);
    go_on(FORKS);
    assert_computing(page);
    atomic_store(&shared->wanted, ENDS);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    tug_node_page_close(&shared->offer);
}

/* Whoever leaves does not end the lease of one who waits; what is fresh is dated, and nothing
 * else. */
static void the_lease(void **state) {
    struct tug_lease lease = {0};
    (void)state;
    assert_false(tug_lease_runs(&lease, 1));
    tug_lease_set(&lease, TUG_LEASE_FRESH);
    assert_true(tug_lease_runs(&lease, 1));
    tug_lease_turn(&lease, TUG_LEASE_FRESH, 10);
    assert_true(tug_lease_runs(&lease, 9) && !tug_lease_runs(&lease, 10));
    tug_lease_set(&lease, TUG_LEASE_HELD);
    tug_lease_turn(&lease, TUG_LEASE_FRESH, 10);
    tug_lease_end(&lease);
    assert_true(tug_lease_is(&lease, TUG_LEASE_HELD) && tug_lease_runs(&lease, UINT64_MAX / 2));
    tug_lease_set(&lease, TUG_LEASE_FRESH);
    tug_lease_end(&lease);
    assert_true(tug_lease_is(&lease, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_lease),
                                       cmocka_unit_test(what_peers_read)};
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : cmocka_run_group_tests_name("page", tests, NULL, NULL);
}
