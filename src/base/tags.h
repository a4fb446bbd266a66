/* Free tags: the numbers of the free entries of a table of outstanding operations.
 *
 * Many threads take, one at a time (the holder of the baton) gives back. The free tags stand in
 * an SPMC ring as long as there are tags, so that giving never fails and nobody takes a lock: the
 * spinlock that costs Endo & Taura's InfiniBand layer its thread scaling (SWoPP'16, section 6) is
 * not here.
 *
 * A taker reads the slot before it wins the head by CAS. The slot can be overwritten only after all
 * tags went round, hence only after head moved on, and then the CAS fails: what was read is never
 * used.
 *
 * Giving and taking through the ring costs an atomic operation and a cold name. A holder of the
 * baton who takes as well may keep some tags *in hand*: a stack of its own, invisible to the other
 * takers, who therefore find fewer. No tag is lost to them: with the hand full, the others are in
 * the ring.
 *
 * One tag is in hand from the beginning, so that one is always in hand or with what the holder has
 * started: a tag in hand that is given back comes back to the hand. The others can take all tags
 * for operations that wait behind one of the holder's, and the holder still gets on.
 */
#ifndef TUG_BASE_TAGS_H
#define TUG_BASE_TAGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tug_tags {
    _Atomic uint64_t head __attribute__((aligned(64))); /* next to take */
    _Atomic uint64_t tail __attribute__((aligned(64))); /* next to give; holder only */
    _Atomic uint32_t *slots __attribute__((aligned(64)));
    uint64_t mask;
    uint32_t *hand; /* holder only, all three */
    uint32_t nhand, hand_most;
};

/* All of 0 .. count - 1 are free (count a power of two). 0 or TUG_ERR_NO_MEMORY. */
int tug_tags_init(struct tug_tags *tags, uint32_t count);

/* From now on up to `most` tags are kept in hand, and one at first. 0 or TUG_ERR_NO_MEMORY. Before
 * first use. */
int tug_tags_keep_in_hand(struct tug_tags *tags, uint32_t most);

void tug_tags_fini(struct tug_tags *tags);

/* Takes a free tag. False when all are out. Any thread. */
static inline bool tug_tags_take(struct tug_tags *tags, uint32_t *tag) {
    /* acquire, here and below: a head that is newer than the tail read after it would let a taker
     * pass the tail; whoever moved head had seen the tail that allowed it */
    uint64_t head = atomic_load_explicit(&tags->head, memory_order_acquire);
    uint32_t candidate;
    do {
        /* acquire: pairs with the release in tug_tags_give */
        if (head == atomic_load_explicit(&tags->tail, memory_order_acquire))
            return false;
        candidate = atomic_load_explicit(&tags->slots[head & tags->mask], memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&tags->head, &head, head + 1,
                                                    memory_order_acq_rel, memory_order_acquire));
    *tag = candidate;
    return true;
}

/* Takes a free tag, one in hand if there is any. Holder only. */
static inline bool tug_tags_take_in_hand(struct tug_tags *tags, uint32_t *tag) {
    if (tags->nhand == 0)
        return tug_tags_take(tags, tag);
    *tag = tags->hand[--tags->nhand];
    return true;
}

/* Gives a tag back. Holder only. */
static inline void tug_tags_give(struct tug_tags *tags, uint32_t tag) {
    if (tags->nhand < tags->hand_most) {
        tags->hand[tags->nhand++] = tag;
        return;
    }
    uint64_t tail = atomic_load_explicit(&tags->tail, memory_order_relaxed);
    atomic_store_explicit(&tags->slots[tail & tags->mask], tag, memory_order_relaxed);
    atomic_store_explicit(&tags->tail, tail + 1, memory_order_release);
}

#endif
