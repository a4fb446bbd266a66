/* Locks and the barrier: who is let in and in which order, also where the tickets wrap; that
 * waiters sleep, are woken in whichever process they are, and keep idle() going. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "node/locks.h"

static struct tug_rwlock rwlock_at(uint32_t ticket) {
    return (struct tug_rwlock){.next = ticket, .readers = ticket, .writers = ticket};
}

/* A thread that locks and stays in until it is told to leave. */
struct visitor {
    struct tug_rwlock *lock;
    bool exclusive;
    void (*idle)(void);
    _Atomic bool in, leave;
    pthread_t thread;
};

static void *visit(void *argument) {
    struct visitor *self = argument;
    (self->exclusive ? tug_rwlock_lock_exclusive : tug_rwlock_lock_shared)(self->lock, self->idle);
    atomic_store(&self->in, true);
    while (!atomic_load(&self->leave))
        check_sleep_us(100);
    (self->exclusive ? tug_rwlock_unlock_exclusive : tug_rwlock_unlock_shared)(self->lock);
    return NULL;
}

/* Returns when the visitor has its place in the queue. */
static void arrive(struct visitor *visitor) {
    uint32_t before = atomic_load(&visitor->lock->next);
    assert_int_equal(pthread_create(&visitor->thread, NULL, visit, visitor), 0);
    CHECK_SOON(atomic_load(&visitor->lock->next) == before + 1);
}

static void leave(struct visitor *visitor) {
    atomic_store(&visitor->leave, true);
    pthread_join(visitor->thread, NULL);
}

static void wait_until_asleep(struct tug_rwlock *lock) {
    CHECK_SOON(atomic_load(&lock->bell.word) & TUG_BELL_SLEEPER);
}

static void must_not_be_called(void) {
    abort();
}

static void a_free_lock_is_taken_without_waiting(void **state) {
    (void)state;
    struct tug_rwlock lock = {0};
    tug_rwlock_lock_shared(&lock, must_not_be_called);
    tug_rwlock_lock_shared(&lock, must_not_be_called);
    assert_int_equal(atomic_load(&lock.next), 2);
    assert_int_equal(atomic_load(&lock.readers), 2);
    assert_int_equal(atomic_load(&lock.writers), 0);
    tug_rwlock_unlock_shared(&lock);
    tug_rwlock_unlock_shared(&lock);
    assert_int_equal(atomic_load(&lock.writers), 2);
    tug_rwlock_lock_exclusive(&lock, must_not_be_called);
    assert_int_equal(atomic_load(&lock.next), 3);
    assert_int_equal(atomic_load(&lock.readers), 2);
    assert_int_equal(atomic_load(&lock.writers), 2);
    tug_rwlock_unlock_exclusive(&lock);
    assert_int_equal(atomic_load(&lock.readers), 3);
    assert_int_equal(atomic_load(&lock.writers), 3);
    assert_int_equal(atomic_load(&lock.bell.word), 0);
}

static void a_writer_waits_for_every_reader(void **state) {
    (void)state;
    struct tug_rwlock lock = {0};
    struct visitor readers[] = {{.lock = &lock}, {.lock = &lock}};
    struct visitor writer = {.lock = &lock, .exclusive = true};
    arrive(&readers[0]);
    arrive(&readers[1]);
    CHECK_SOON(atomic_load(&readers[0].in) && atomic_load(&readers[1].in));
    arrive(&writer);
    leave(&readers[1]);
    wait_until_asleep(&lock);
    assert_false(atomic_load(&writer.in));
    leave(&readers[0]);
    CHECK_SOON(atomic_load(&writer.in));
    leave(&writer);
}

static void order_of_arrival(uint32_t ticket) {
    struct tug_rwlock lock = rwlock_at(ticket);
    struct visitor reader = {.lock = &lock};
    struct visitor writer = {.lock = &lock, .exclusive = true};
    struct visitor later[] = {{.lock = &lock}, {.lock = &lock}};
    struct visitor last = {.lock = &lock, .exclusive = true};
    arrive(&reader);
    CHECK_SOON(atomic_load(&reader.in));
    arrive(&writer);
    arrive(&later[0]);
    arrive(&later[1]);
    arrive(&last);
    wait_until_asleep(&lock);
    check_sleep_us(2000);
    assert_false(atomic_load(&writer.in));
    assert_false(atomic_load(&later[0].in) || atomic_load(&later[1].in)); /* not past the writer */
    leave(&reader);
    CHECK_SOON(atomic_load(&writer.in));
    check_sleep_us(2000);
    assert_false(atomic_load(&later[0].in) || atomic_load(&later[1].in));
    leave(&writer);
    CHECK_SOON(atomic_load(&later[0].in) && atomic_load(&later[1].in));
    leave(&later[0]);
    check_sleep_us(2000);
    assert_false(atomic_load(&last.in));
    leave(&later[1]);
    CHECK_SOON(atomic_load(&last.in));
    leave(&last);
    assert_int_equal(atomic_load(&lock.next), ticket + 5);
    assert_int_equal(atomic_load(&lock.readers), ticket + 5);
    assert_int_equal(atomic_load(&lock.writers), ticket + 5);
}

static void nobody_is_overtaken(void **state) {
    (void)state;
    order_of_arrival(0);
}

static void nobody_is_overtaken_where_tickets_wrap(void **state) {
    (void)state;
    for (uint32_t before = 1; before <= 5; before++)
        order_of_arrival(-before);
}

static void *lock_and_go(void *lock) {
    tug_rwlock_lock_exclusive(lock, NULL);
    return NULL;
}

static void another_thread_may_unlock(void **state) {
    (void)state;
    struct tug_rwlock lock = {0};
    struct visitor reader = {.lock = &lock};
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, lock_and_go, &lock), 0);
    pthread_join(writer, NULL);
    arrive(&reader);
    wait_until_asleep(&lock);
    assert_false(atomic_load(&reader.in));
    tug_rwlock_unlock_exclusive(&lock);
    CHECK_SOON(atomic_load(&reader.in));
    leave(&reader);
}

static uint64_t cpu_ns_of(pthread_t thread) {
    clockid_t clock;
    assert_int_equal(pthread_getcpuclockid(thread, &clock), 0);
    return check_clock_ns(clock);
}

static void who_waits_long_sleeps(void **state) {
    (void)state;
    struct tug_rwlock lock = {0};
    struct visitor reader = {.lock = &lock};
    tug_rwlock_lock_exclusive(&lock, NULL);
    arrive(&reader);
    wait_until_asleep(&lock);
    check_sleep_us(1000);
    uint64_t before = cpu_ns_of(reader.thread), start = check_clock_ns(CLOCK_MONOTONIC);
    check_sleep_us(50000);
    /* of the time that it was, on a busy machine, a fiftieth at most */
    assert_in_range(cpu_ns_of(reader.thread) - before, 0,
                    (check_clock_ns(CLOCK_MONOTONIC) - start) / 50);
    tug_rwlock_unlock_exclusive(&lock);
    leave(&reader);
}

static _Atomic uint32_t idled;
static _Atomic pthread_t idler;

static void count_idle(void) {
    atomic_store(&idler, pthread_self());
    atomic_fetch_add(&idled, 1);
}

/* Rings so often that no sleep comes to its end, for some milliseconds; false when this thread was
 * held up. */
static bool ring_incessantly(struct tug_bell *bell) {
    uint64_t start = check_clock_ns(CLOCK_MONOTONIC), last = start;
    while (last - start < 10 * TUG_LOCK_IDLE_NS) {
        (void)tug_bell_ring(bell, true);
        uint64_t now = check_clock_ns(CLOCK_MONOTONIC);
        if (now - last > TUG_LOCK_IDLE_NS / 2)
            return false;
        last = now;
    }
    return true;
}

static bool idles_although_rung(struct tug_bell *bell) {
    for (int attempt = 0; attempt < 10000; attempt++) {
        uint32_t before = atomic_load(&idled);
        if (ring_incessantly(bell) && atomic_load(&idled) - before >= 2)
            return true;
        check_sleep_us(1000);
    }
    return false;
}

static void idle_is_called_while_waiting(void **state) {
    (void)state;
    for (int exclusive = 0; exclusive <= 1; exclusive++) {
        struct tug_rwlock lock = {0};
        struct visitor visitor = {.lock = &lock, .exclusive = exclusive, .idle = count_idle};
        tug_rwlock_lock_exclusive(&lock, NULL);
        atomic_store(&idled, 0);
        uint64_t start = check_clock_ns(CLOCK_MONOTONIC);
        arrive(&visitor);
        CHECK_SOON(atomic_load(&idled) >= 10);
        assert_true(check_clock_ns(CLOCK_MONOTONIC) - start >= 10 * TUG_LOCK_IDLE_NS);
        assert_true(pthread_equal(atomic_load(&idler), visitor.thread));
        assert_true(idles_although_rung(&lock.bell));
        tug_rwlock_unlock_exclusive(&lock);
        CHECK_SOON(atomic_load(&visitor.in));
        uint32_t before = atomic_load(&idled);
        check_sleep_us(2000);
        assert_int_equal(atomic_load(&idled), before);
        leave(&visitor);
    }
}

struct shared {
    struct tug_rwlock rwlock;
    struct tug_mutex mutex;
    uint32_t counter;
};

static struct shared *map_shared(void) {
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    return shared;
}

static void join_child(pid_t child) {
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_process_wakes_another(void **state) {
    (void)state;
    struct shared *shared = map_shared();
    tug_rwlock_lock_exclusive(&shared->rwlock, NULL);
    tug_mutex_lock(&shared->mutex);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* sleeps twice, without a timer: hangs if it is not woken */
        alarm(150);
        tug_rwlock_lock_shared(&shared->rwlock, NULL);
        tug_mutex_lock(&shared->mutex);
        _exit(shared->counter == 2 ? 0 : 1);
    }
    wait_until_asleep(&shared->rwlock);
    check_sleep_us(2000);
    shared->counter = 1;
    tug_rwlock_unlock_exclusive(&shared->rwlock);
    CHECK_SOON(atomic_load(&shared->mutex.word) == 2);
    check_sleep_us(2000);
    shared->counter = 2;
    tug_mutex_unlock(&shared->mutex);
    join_child(child);
    munmap(shared, sizeof(*shared));
}

struct queue {
    struct tug_mutex mutex;
    uint32_t served; /* under the mutex */
};

static void *be_served(void *argument) {
    struct queue *queue = argument;
    tug_mutex_lock(&queue->mutex);
    queue->served++;
    tug_mutex_unlock(&queue->mutex);
    return NULL;
}

static void a_mutex_costs_no_wake_when_nobody_waits(void **state) {
    (void)state;
    struct tug_mutex mutex = {0};
    for (int i = 0; i < 3; i++) {
        tug_mutex_lock(&mutex);
        assert_int_equal(atomic_load(&mutex.word), 1);
        tug_mutex_unlock(&mutex);
        assert_int_equal(atomic_load(&mutex.word), 0);
    }
}

static void a_mutex_wakes_its_sleepers_in_turn(void **state) {
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct queue queue = {0};
        pthread_t threads[4];
        tug_mutex_lock(&queue.mutex);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, be_served, &queue), 0);
        CHECK_SOON(atomic_load(&queue.mutex.word) == 2);
        check_sleep_us(round % 2 ? 5000 : 0); /* all asleep, or some on their way */
        assert_int_equal(queue.served, 0);
        tug_mutex_unlock(&queue.mutex);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(queue.served, 4);
        assert_int_equal(atomic_load(&queue.mutex.word), 0);
    }
}

static void *lock_mutex_and_go(void *mutex) {
    tug_mutex_lock(mutex);
    return NULL;
}

static void another_thread_may_unlock_a_mutex(void **state) {
    (void)state;
    struct tug_mutex mutex = {0};
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, lock_mutex_and_go, &mutex), 0);
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&mutex.word), 1);
        tug_mutex_unlock(&mutex);
    }
}

/* Threads, more than cores, that write their round, meet, look at everybody's and meet again. */
enum { NMEET = 6, NROUNDS = 400 };

static struct {
    struct tug_barrier barrier;
    unsigned plain[NMEET]; /* the barrier alone orders these */
    _Atomic unsigned wrong;
} meeting;

static void *meet(void *argument) {
    unsigned *mine = argument;
    for (unsigned round = 1; round <= NROUNDS; round++) {
        *mine = round;
        if (mine == meeting.plain && round == NROUNDS / 2)
            check_sleep_us(5000); /* the others sleep by then */
        tug_barrier_wait(&meeting.barrier, NMEET, count_idle);
        for (int i = 0; i < NMEET; i++)
            if (meeting.plain[i] != round)
                atomic_fetch_add(&meeting.wrong, 1);
        tug_barrier_wait(&meeting.barrier, NMEET, count_idle);
    }
    return NULL;
}

/* Begins where the count of rounds wraps on the way. */
static void nobody_leaves_a_barrier_before_all_are_there(void **state) {
    (void)state;
    pthread_t threads[NMEET];
    meeting.barrier.rounds = (uint32_t)-NROUNDS;
    atomic_store(&idled, 0);
    for (int i = 0; i < NMEET; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, meet, &meeting.plain[i]), 0);
    for (int i = 0; i < NMEET; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(meeting.wrong, 0);
    assert_int_equal(meeting.barrier.rounds, NROUNDS);
    assert_int_equal(meeting.barrier.arrived, 0);
    assert_true(atomic_load(&idled) > 0);
}

/* A thread that has a lock exclusively and closes the lock of all. */
struct closer {
    struct tug_all_lock *all;
    _Atomic bool closed;
    pthread_t thread;
};

static void *close_all(void *argument) {
    struct closer *self = argument;
    tug_all_lock_close(self->all, NULL);
    atomic_store(&self->closed, true);
    return NULL;
}

static void all_locks_are_held_at_once_until_one_is_closed(void **state) {
    (void)state;
    struct tug_all_lock all = {0};
    struct closer closer = {.all = &all};
    assert_true(tug_all_lock_try(&all));
    assert_true(tug_all_lock_try(&all));
    assert_int_equal(pthread_create(&closer.thread, NULL, close_all, &closer), 0);
    CHECK_SOON(atomic_load(&all.bell.word) & TUG_BELL_SLEEPER);
    assert_false(tug_all_lock_try(&all));
    tug_all_lock_leave(&all);
    check_sleep_us(20000);
    assert_false(atomic_load(&closer.closed));
    tug_all_lock_leave(&all);
    CHECK_SOON(atomic_load(&closer.closed));
    pthread_join(closer.thread, NULL);
    tug_all_lock_close(&all, must_not_be_called); /* another, of another lock */
    assert_false(tug_all_lock_try(&all));
    tug_all_lock_open(&all);
    assert_true(tug_all_lock_try(&all));
    tug_all_lock_leave(&all);
    tug_all_lock_close(&all, must_not_be_called);
}

static void who_asks_is_let_in_in_its_turn(void **state) {
    (void)state;
    struct tug_rwlock lock = rwlock_at(UINT32_MAX - 1);
    struct visitor reader = {.lock = &lock}, writer = {.lock = &lock, .exclusive = true};
    arrive(&reader);
    CHECK_SOON(atomic_load(&reader.in));
    const uint32_t first = tug_rwlock_ask(&lock);
    arrive(&writer);
    const uint32_t second = tug_rwlock_ask(&lock), third = tug_rwlock_ask(&lock);
    assert_false(tug_rwlock_take(&lock, first, true)); /* the reader is in */
    assert_false(tug_rwlock_take(&lock, second, false));
    leave(&reader);
    assert_false(tug_rwlock_take(&lock, second, false)); /* two are before it */
    assert_true(tug_rwlock_take(&lock, first, true));
    check_sleep_us(20000);
    assert_false(atomic_load(&writer.in));
    tug_rwlock_unlock_exclusive(&lock);
    CHECK_SOON(atomic_load(&writer.in)); /* it may have slept */
    assert_false(tug_rwlock_take(&lock, second, false));
    leave(&writer);
    assert_false(tug_rwlock_take(&lock, third, false));
    assert_true(tug_rwlock_take(&lock, second, false)); /* lets in the next reader */
    assert_true(tug_rwlock_take(&lock, third, false));
    tug_rwlock_unlock_shared(&lock);
    tug_rwlock_unlock_shared(&lock);
    assert_int_equal(atomic_load(&lock.writers), atomic_load(&lock.next));
}

static void groups_join_ahead_of_writers(void **state) {
    (void)state;
    struct tug_rwlock lock = rwlock_at(UINT32_MAX);
    assert_false(tug_rwlock_join(&lock)); /* there is none */
    tug_rwlock_lock_shared(&lock, must_not_be_called);
    tug_rwlock_lock_shared(&lock, must_not_be_called);
    assert_false(tug_rwlock_join(&lock)); /* readers alone are none */
    tug_rwlock_found(&lock);
    tug_rwlock_found(&lock); /* there is one, which has a ticket */
    const uint32_t writer = tug_rwlock_ask(&lock);
    assert_true(tug_rwlock_join(&lock));
    tug_rwlock_quit(&lock);
    tug_rwlock_quit(&lock);
    assert_false(tug_rwlock_take(&lock, writer, true)); /* one of the group is left */
    tug_rwlock_quit(&lock);
    assert_false(tug_rwlock_join(&lock));
    assert_true(tug_rwlock_take(&lock, writer, true));
    assert_false(tug_rwlock_join(&lock));
    tug_rwlock_unlock_exclusive(&lock);
    assert_int_equal(atomic_load(&lock.writers), atomic_load(&lock.next));
}

/* A server that asks and is told by whoever moves the lock while it is watched, and takers. */
#define TOLD_TURNS 20000
struct told {
    struct tug_rwlock lock;
    _Atomic uint32_t tellings;
};

static void *move_and_tell(void *argument) {
    struct told *told = argument;
    for (int i = 0; i < TOLD_TURNS; i++) {
        tug_rwlock_lock_shared(&told->lock, NULL);
        if (tug_rwlock_is_watched(&told->lock))
            atomic_fetch_add(&told->tellings, 1);
        tug_rwlock_unlock_shared(&told->lock);
        if (tug_rwlock_is_watched(&told->lock))
            atomic_fetch_add(&told->tellings, 1);
    }
    return NULL;
}

static void who_watches_is_told(void **state) {
    (void)state;
    struct told told = {0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, move_and_tell, &told), 0);
    for (int i = 0; i < TOLD_TURNS; i++) {
        const bool exclusive = i % 3 != 0;
        const uint32_t ticket = tug_rwlock_ask(&told.lock);
        bool in = tug_rwlock_take(&told.lock, ticket, exclusive);
        uint32_t seen = atomic_load(&told.tellings);
        if (!in) {
            tug_rwlock_watch(&told.lock, true);
            in = tug_rwlock_take(&told.lock, ticket, exclusive);
        }
        while (!in) { /* looks again only when it has been told */
            CHECK_SOON(atomic_load(&told.tellings) != seen);
            seen = atomic_load(&told.tellings);
            in = tug_rwlock_take(&told.lock, ticket, exclusive);
        }
        tug_rwlock_watch(&told.lock, false);
        (exclusive ? tug_rwlock_unlock_exclusive : tug_rwlock_unlock_shared)(&told.lock);
    }
    pthread_join(thread, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_is_let_in_in_its_turn),
        cmocka_unit_test(groups_join_ahead_of_writers),
        cmocka_unit_test(who_watches_is_told),
        cmocka_unit_test(a_free_lock_is_taken_without_waiting),
        cmocka_unit_test(a_writer_waits_for_every_reader),
        cmocka_unit_test(nobody_is_overtaken),
        cmocka_unit_test(nobody_is_overtaken_where_tickets_wrap),
        cmocka_unit_test(another_thread_may_unlock),
        cmocka_unit_test(who_waits_long_sleeps),
        cmocka_unit_test(idle_is_called_while_waiting),
        cmocka_unit_test(a_process_wakes_another),
        cmocka_unit_test(a_mutex_costs_no_wake_when_nobody_waits),
        cmocka_unit_test(a_mutex_wakes_its_sleepers_in_turn),
        cmocka_unit_test(another_thread_may_unlock_a_mutex),
        cmocka_unit_test(nobody_leaves_a_barrier_before_all_are_there),
        cmocka_unit_test(all_locks_are_held_at_once_until_one_is_closed),
    };
    return cmocka_run_group_tests_name("locks", tests, NULL, NULL);
}
