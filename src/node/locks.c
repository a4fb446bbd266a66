#include "node/locks.h"

#include "base/clock.h"
#include "engine/engine.h"

/* Why the reader-writer lock is right. Who has a ticket adds one to each counter, once: a reader to
 * readers when it is let in and to writers when it unlocks, a writer to both when it unlocks. Who
 * waits with ticket t has added nothing yet, and nobody behind it is let in before it has. So
 *
 *      readers == t   all tickets before t are readers who were let in, or have unlocked
 *      writers == t   all tickets before t have unlocked
 *
 * which is the order of arrival. Only equality is asked, so the counters may wrap.
 *
 * No wake-up is lost: a counter is moved by a seq_cst access before the bell is looked at, and a
 * waiter looks again by one after it has announced itself (park.h). A ring wakes every sleeper,
 * although it may be the turn of one only; the others sleep again. That is the price of one bell
 * for all, and paid by locks alone that are held for so long that waiters sleep. */

/* A thread that waits. */
struct waiter {
    bool (*done)(void *);
    void *argument;
    struct tug_backoff backoff;
    unsigned looks;
    uint64_t since_ns; /* the first look at the clock, or the last call of idle() */
};

#define LOOKS_BEFORE_CLOCK 16

/* The clock takes as long as a cache line from another core: short waits are over before it is
 * looked at. */
static bool idle_is_due(struct waiter *waiter) {
    const uint64_t now_ns = tug_clock_ns();
    if (waiter->since_ns == 0)
        waiter->since_ns = now_ns;
    return now_ns - waiter->since_ns >= TUG_LOCK_IDLE_NS;
}

/* Pauses, and says whether the thread is to look again before it does something else. */
static bool looks_on(void *argument) {
    struct waiter *waiter = argument;
    return !waiter->done(waiter->argument) &&
           (++waiter->looks % LOOKS_BEFORE_CLOCK != 0 || !idle_is_due(waiter)) &&
           tug_backoff_pauses(&waiter->backoff) && tug_backoff_step(&waiter->backoff);
}

/* What else must go on. By the clock: a bell that rings for others all the time leaves no sleep to
 * time out. */
static void help(struct waiter *waiter, void (*idle)(void)) {
    (void)tug_engine_drive_while(looks_on, waiter);
    if (waiter->done(waiter->argument) || !idle_is_due(waiter))
        return;
    idle();
    waiter->since_ns = tug_clock_ns();
}

void tug_shared_wait(bool (*done)(void *), void *argument, struct tug_bell *bell,
                     void (*idle)(void)) {
    struct waiter waiter = {.done = done, .argument = argument};
    if (done(argument))
        return;
    while (!done(argument)) {
        if (idle)
            help(&waiter, idle);
        if (done(argument) || tug_backoff_step(&waiter.backoff))
            continue;
        uint32_t key = tug_bell_prepare(bell);
        if (!done(argument))
            tug_bell_wait(bell, key, idle ? TUG_LOCK_NAP_NS : -1, true);
    }
}

struct turn {
    const _Atomic uint32_t *counter;
    uint32_t ticket;
};

static bool has_come(void *argument) {
    const struct turn *turn = argument;
    /* acquire: pairs with the releases of all that moved the counter to here */
    return atomic_load(turn->counter) == turn->ticket;
}

static inline void take_turn(const _Atomic uint32_t *counter, uint32_t ticket,
                             struct tug_bell *bell, void (*idle)(void)) {
    struct turn turn = {counter, ticket};
    if (__builtin_expect(!has_come(&turn), 0))
        tug_shared_wait(has_come, &turn, bell, idle);
}

void tug_rwlock_lock_shared(struct tug_rwlock *lock, void (*idle)(void)) {
    uint32_t ticket = atomic_fetch_add_explicit(&lock->next, 1, memory_order_relaxed);
    take_turn(&lock->readers, ticket, &lock->bell, idle);
    /* An addition: it prolongs the release sequence in which the next reader meets the last writer.
     */
    atomic_fetch_add(&lock->readers, 1);
    (void)tug_bell_ring(&lock->bell, true);
}

void tug_rwlock_lock_exclusive(struct tug_rwlock *lock, void (*idle)(void)) {
    uint32_t ticket = atomic_fetch_add_explicit(&lock->next, 1, memory_order_relaxed);
    take_turn(&lock->writers, ticket, &lock->bell, idle);
}

void tug_rwlock_unlock_shared(struct tug_rwlock *lock) {
    /* release: pairs with the acquire of the next writer, which must not write under our reads. An
     * addition, as readers unlock at the same time: its release sequence carries all of theirs. */
    atomic_fetch_add(&lock->writers, 1);
    (void)tug_bell_ring(&lock->bell, true);
}

void tug_rwlock_unlock_exclusive(struct tug_rwlock *lock) {
    /* release, both: pair with the acquire of the next reader and of the next writer */
    atomic_fetch_add(&lock->readers, 1);
    atomic_fetch_add(&lock->writers, 1);
    (void)tug_bell_ring(&lock->bell, true);
}

/* Why the group is right. While `group` is not 0 there is one ticket that has been let in and not
 * unlocked: the founder's who made it 1. Nobody makes it 1 but founders, each of whom has a ticket
 * of his own; nobody but who makes it 0 unlocks. And why two of the group do not wait for each
 * other: who waits for a lock has found it without a group, so that who has it now came later, to
 * a lock that he took before those he waits for. Round a circle each would be later than itself.
 * Checked by tests/model/group_lock.pml. */

bool tug_rwlock_join(struct tug_rwlock *lock) {
    uint32_t n = atomic_load_explicit(&lock->group, memory_order_relaxed);
    while (n > 0)
        /* acquire: pairs with the founder's release, who has met the last writer */
        if (atomic_compare_exchange_weak_explicit(&lock->group, &n, n + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    return false;
}

void tug_rwlock_found(struct tug_rwlock *lock) {
    /* release: pairs with the acquire in join */
    if (atomic_fetch_add_explicit(&lock->group, 1, memory_order_acq_rel) > 0)
        tug_rwlock_unlock_shared(lock); /* the group has a ticket */
}

void tug_rwlock_quit(struct tug_rwlock *lock) {
    /* release and acquire: who unlocks does so behind the reads of all */
    if (atomic_fetch_sub_explicit(&lock->group, 1, memory_order_acq_rel) == 1)
        tug_rwlock_unlock_shared(lock);
}

uint32_t tug_rwlock_ask(struct tug_rwlock *lock) {
    return atomic_fetch_add_explicit(&lock->next, 1, memory_order_relaxed);
}

bool tug_rwlock_take(struct tug_rwlock *lock, uint32_t ticket, bool exclusive) {
    struct turn turn = {exclusive ? &lock->writers : &lock->readers, ticket};
    if (!has_come(&turn))
        return false;
    if (!exclusive) { /* as in tug_rwlock_lock_shared() */
        atomic_fetch_add(&lock->readers, 1);
        (void)tug_bell_ring(&lock->bell, true);
    }
    return true;
}

bool tug_rwlock_try_exclusive(struct tug_rwlock *lock, uint32_t *ticket) {
    *ticket = atomic_load(&lock->writers); /* acquire: as in has_come() */
    uint32_t next = *ticket;
    return atomic_compare_exchange_strong(&lock->next, &next, next + 1);
}

/* seq_cst, as the moves are, and the looks of both sides after it: either the look at the counter
 * sees the move, or who has moved it sees this. */
void tug_rwlock_watch(struct tug_rwlock *lock, bool on) {
    atomic_store(&lock->watched, on);
}

/* Why the lock of all is right. It is opened only by who has each lock of the set shared, when
 * nobody has one exclusively. So, while somebody has one exclusively and has seen it closed without
 * holders, it stays so. All changes are read-modify-writes: who reads one of them has met all who
 * left before (a release sequence). Checked by tests/model/all_lock.pml. */

bool tug_all_lock_try(struct tug_all_lock *all) {
    uint32_t word = atomic_load_explicit(&all->word, memory_order_relaxed);
    while (!(word & TUG_ALL_CLOSED))
        /* acquire: pairs with the release in tug_all_lock_open(), behind which all exclusive
         * holders are */
        if (atomic_compare_exchange_weak_explicit(&all->word, &word, word + TUG_ALL_HOLDER,
                                                  memory_order_acquire, memory_order_relaxed))
            return true;
    return false;
}

void tug_all_lock_leave(struct tug_all_lock *all) {
    /* release: pairs with the acquire in is_left(); seq_cst for the look at the bell */
    if (atomic_fetch_sub(&all->word, TUG_ALL_HOLDER) == (TUG_ALL_HOLDER | TUG_ALL_CLOSED))
        (void)tug_bell_ring(&all->bell, true);
}

void tug_all_lock_open(struct tug_all_lock *all) {
    if (atomic_load_explicit(&all->word, memory_order_relaxed) & TUG_ALL_CLOSED)
        atomic_fetch_and_explicit(&all->word, ~TUG_ALL_CLOSED, memory_order_release);
}

static bool is_left(void *word) {
    return atomic_load((_Atomic uint32_t *)word) == TUG_ALL_CLOSED;
}

void tug_all_lock_close(struct tug_all_lock *all, void (*idle)(void)) {
    if (__builtin_expect(is_left(&all->word), 1))
        return;
    (void)atomic_fetch_or(&all->word, TUG_ALL_CLOSED);
    tug_shared_wait(is_left, &all->word, &all->bell, idle);
}

/* A thread stores a 2 before it sleeps, and locks with a 2 after it: it cannot know whether others
 * sleep. So the word is a 2 whenever somebody sleeps and nobody has been woken. */
void tug_mutex_wait(struct tug_mutex *mutex) {
    struct tug_backoff backoff = {0};
    while (tug_backoff_step(&backoff)) {
        uint32_t unlocked = 0;
        /* looked at first: a failing compare-exchange takes the line from the holder */
        if (atomic_load_explicit(&mutex->word, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_weak_explicit(&mutex->word, &unlocked, 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return;
    }
    /* acquire: as in tug_mutex_lock */
    while (atomic_exchange_explicit(&mutex->word, 2, memory_order_acquire) != 0)
        (void)tug_futex_wait(&mutex->word, 2, -1, true);
}

void tug_mutex_wake(struct tug_mutex *mutex) {
    (void)tug_futex_wake(&mutex->word, 1, true);
}

/* Nobody can arrive for the round after before this thread has left this one, so rounds is either
 * what it was or one more. */
void tug_barrier_wait(struct tug_barrier *barrier, uint32_t n, void (*idle)(void)) {
    uint32_t rounds = atomic_load_explicit(&barrier->rounds, memory_order_relaxed);
    /* acquire and release: the last to arrive sees what all wrote before they did */
    if (atomic_fetch_add(&barrier->arrived, 1) + 1 < n) {
        take_turn(&barrier->rounds, rounds + 1, &barrier->bell, idle);
        return;
    }
    atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
    /* release: pairs with the acquire in take_turn; orders the store above for the next round */
    atomic_fetch_add(&barrier->rounds, 1);
    (void)tug_bell_ring(&barrier->bell, true);
}
