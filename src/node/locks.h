/* Locks in memory that processes share: a reader-writer lock in order of arrival, a shared lock of
 * many such locks at once, a mutex, and a barrier.
 *
 * All of them wait as everything here waits (park.h): pause, yield, then sleep on a futex. They are
 * owned by nobody: who has locked, in whichever thread, may have another thread unlock. Zeroed
 * memory is an unlocked lock; nothing needs to be destroyed. A process that dies while it holds one
 * leaves it held: an MPI job does not outlive its ranks.
 *
 * The reader-writer lock hands out tickets, so nobody is overtaken: not a writer by a stream of
 * readers, nor the other way round. Readers who stand next to each other in the queue hold it
 * together.
 *
 *      next     tickets given out
 *      readers  the ticket that may lock for reading now; a reader who has it lets the next one in
 *      writers  the ticket that may lock for writing now: so many have unlocked
 *      bell     rung when readers or writers moves
 *      watched  somebody has a ticket who must be told when they move, for he cannot sleep here
 *      group    readers who hold it by one ticket together, see tug_rwlock_join()
 */
#ifndef TUG_NODE_LOCKS_H
#define TUG_NODE_LOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"
#include "engine/park.h"

struct tug_rwlock {
    _Atomic uint32_t next;
    _Atomic uint32_t readers;
    _Atomic uint32_t writers;
    struct tug_bell bell;
    _Atomic uint32_t watched;
    _Atomic uint32_t group;
} __attribute__((aligned(TUG_CACHE_LINE)));

/* Locks and returns; blocks until every earlier ticket allows it. idle: see tug_shared_wait(); it
 * must not wait for this lock. Acquire: sees what was written under the lock before. */
void tug_rwlock_lock_shared(struct tug_rwlock *lock, void (*idle)(void));
void tug_rwlock_lock_exclusive(struct tug_rwlock *lock, void (*idle)(void));

/* Unlocks. Release. No system call unless somebody sleeps. */
void tug_rwlock_unlock_shared(struct tug_rwlock *lock);
void tug_rwlock_unlock_exclusive(struct tug_rwlock *lock);

/* For those who lock several locks for reading, one after the other, and keep them (a target at a
 * time in MPI_Win_lock_all): they are a *group*, whom no waiting writer keeps from joining those
 * of it who hold a lock already. Else two of them could wait for each other for ever, behind two
 * writers. The price is that a stream of them overtakes writers; so the first of its locks each
 * takes in its turn. join: true, locked, if the group has it. Otherwise the caller locks it shared,
 * by whichever call, and then found() makes the lock the group's. Who has joined or founded quits.
 * Acquire, and release. */
bool tug_rwlock_join(struct tug_rwlock *lock);
void tug_rwlock_found(struct tug_rwlock *lock);
void tug_rwlock_quit(struct tug_rwlock *lock);

/* For one who serves many and waits for none: takes a ticket, to be locked with as soon as it can
 * be. Nobody behind it is let in before. */
uint32_t tug_rwlock_ask(struct tug_rwlock *lock);

/* Locks if it is the ticket's turn; once true, not again. Acquire. */
bool tug_rwlock_take(struct tug_rwlock *lock, uint32_t ticket, bool exclusive);

/* Takes a ticket and locks exclusively if nobody holds the lock or waits for it. Acquire. The
 * holder may share it from then on: tug_rwlock_take() once more, shared; and then unlocks it
 * shared. */
bool tug_rwlock_try_exclusive(struct tug_rwlock *lock, uint32_t *ticket);

/* From now on whoever has moved the lock tells, or (false) need not. By one thread at a time. Who
 * has switched it on tries to take its turn after that, and only then counts on being told. */
void tug_rwlock_watch(struct tug_rwlock *lock, bool on);

/* Is somebody to be told? Asked by who has locked it shared, or unlocked it. */
static inline bool tug_rwlock_is_watched(const struct tug_rwlock *lock) {
    return atomic_load(&lock->watched); /* seq_cst: behind the move, see tug_rwlock_watch() */
}

/* The shared lock of all locks of a set at once, by one atomic operation: as long as it is *open*.
 * Who has locked one of the set exclusively closes it, and waits until nobody holds it. While it is
 * closed, who wants all locks takes each of them in its turn, so that nobody is kept out for ever;
 * and opens it again when it has them, for then nobody has any exclusively. All locks are free, and
 * it is open, in zeroed memory. */
struct tug_all_lock {
    _Atomic uint32_t word; /* holders << 1 | closed */
    struct tug_bell bell;  /* rung when the last holder of a closed one has left */
} __attribute__((aligned(TUG_CACHE_LINE)));

#define TUG_ALL_CLOSED 1u
#define TUG_ALL_HOLDER 2u

/* True: all locks are held, shared. False: it is closed; nothing has happened. Acquire. */
bool tug_all_lock_try(struct tug_all_lock *all);

/* After true. Release. */
void tug_all_lock_leave(struct tug_all_lock *all);

/* The caller has locked each lock of the set, shared. */
void tug_all_lock_open(struct tug_all_lock *all);

/* The caller has locked one of the set exclusively: returns when nobody holds all of them at once,
 * nor can before the caller has unlocked. One load where it has been closed before. idle: see
 * tug_shared_wait(). Acquire. */
void tug_all_lock_close(struct tug_all_lock *all, void (*idle)(void));

#define TUG_LOCK_IDLE_NS 20000
#define TUG_LOCK_NAP_NS 200000

/* Returns when done(argument) is true: what it looks at lies in shared memory, and who makes it
 * true by a seq_cst access then rings the bell (shared). Meanwhile the thread drives the engine
 * where nobody else does, as other processes may wait for this one's answers; and calls idle(),
 * about every TUG_LOCK_IDLE_NS, or every TUG_LOCK_NAP_NS once it sleeps: what else must go on. idle
 * NULL: neither, and it sleeps without a timer. */
void tug_shared_wait(bool (*done)(void *), void *argument, struct tug_bell *bell,
                     void (*idle)(void));

/* A mutex for a few instructions, a cache line of its own: one atomic operation to lock, one to
 * unlock. Unfair. */
struct tug_mutex {
    _Atomic uint32_t word; /* 0 free, 1 held, 2 held and somebody may sleep */
} __attribute__((aligned(TUG_CACHE_LINE)));

void tug_mutex_wait(struct tug_mutex *mutex); /* the rest of lock, out of line */
void tug_mutex_wake(struct tug_mutex *mutex); /* the rest of unlock */

static inline void tug_mutex_lock(struct tug_mutex *mutex) {
    uint32_t unlocked = 0;
    /* acquire: pairs with the release in unlock */
    if (__builtin_expect(!atomic_compare_exchange_strong_explicit(&mutex->word, &unlocked, 1,
                                                                  memory_order_acquire,
                                                                  memory_order_relaxed),
                         0))
        tug_mutex_wait(mutex);
}

static inline bool tug_mutex_try(struct tug_mutex *mutex) {
    uint32_t unlocked = 0;
    return atomic_compare_exchange_strong(&mutex->word, &unlocked, 1); /* acquire, as above */
}

static inline void tug_mutex_unlock(struct tug_mutex *mutex) {
    /* release: pairs with the acquire in lock. An exchange, not a store: it must see a 2. */
    if (__builtin_expect(atomic_exchange_explicit(&mutex->word, 0, memory_order_release) == 2, 0))
        tug_mutex_wake(mutex);
}

/* A barrier for n threads, always the same number. */
struct tug_barrier {
    _Atomic uint32_t arrived;
    _Atomic uint32_t rounds; /* that are complete */
    struct tug_bell bell;
} __attribute__((aligned(TUG_CACHE_LINE)));

/* Returns when n threads have called it in this round. What each wrote before, all see after.
 * idle(): as for the reader-writer lock. */
void tug_barrier_wait(struct tug_barrier *barrier, uint32_t n, void (*idle)(void));

#endif
