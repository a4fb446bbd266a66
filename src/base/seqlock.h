/* Data that one thread at a time changes and any thread reads without a lock: by a version, which
 * is odd during a change. What was read counts if the version was even before and is the same
 * after. The reader may read words of different changes before it finds that out: they are atomic,
 * or not looked at until then, and whatever they lead to stays there.
 *
 * Three maps are read in this way. They share the version and nothing else: keys by rank and number
 * (acp/cache.h: tables, the oldest of which makes room), pages by number (gas/pages.h: a hash
 * table, with a version for each page, under which its data are copied), and regions by address
 * (rma/book.h: a sorted list that grows, which other processes read).
 */
#ifndef TUG_BASE_SEQLOCK_H
#define TUG_BASE_SEQLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tug_seqlock {
    _Atomic uint32_t version;
};

/* Before reading. Any thread. */
static inline uint32_t tug_seqlock_read(const struct tug_seqlock *lock) {
    /* acquire: pairs with the release in tug_seqlock_end(); what is read next is as new */
    return atomic_load_explicit(&lock->version, memory_order_acquire);
}

/* After it: does what has been read count? */
static inline bool tug_seqlock_holds(const struct tug_seqlock *lock, uint32_t version) {
    /* acquire: pairs with the fence in tug_seqlock_begin(); who has read a new word sees the odd
     * version, or a later one */
    atomic_thread_fence(memory_order_acquire);
    return version % 2 == 0 &&
           atomic_load_explicit(&lock->version, memory_order_relaxed) == version;
}

/* Around a change. One thread at a time. */
static inline void tug_seqlock_begin(struct tug_seqlock *lock) {
    uint32_t version = atomic_load_explicit(&lock->version, memory_order_relaxed);
    atomic_store_explicit(&lock->version, version + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* pairs with the fence in tug_seqlock_holds() */
}

static inline void tug_seqlock_end(struct tug_seqlock *lock) {
    uint32_t version = atomic_load_explicit(&lock->version, memory_order_relaxed);
    /* release: pairs with the acquire in tug_seqlock_read() */
    atomic_store_explicit(&lock->version, version + 1, memory_order_release);
}

#endif
