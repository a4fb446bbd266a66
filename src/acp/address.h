/* The bits of a global address, drawn in <acp.h>, and of a registration's key.
 *
 * A key (acp_atkey_t) is the GA of the registration's first byte with a generation where the offset
 * would be, so that a key that has ended is known from the next one of the same number:
 *
 *        63              43 42   41        34 33                                0
 *       +------------------+---+------------+-----------------------------------+
 *       | rank + 1         | c | number     | generation                        |
 *       +------------------+---+------------+-----------------------------------+
 *
 * An entry of the table of registrations, which every rank has in memory that the others read: by a
 * card, by loads, in packets.
 *
 *        0       8                    64      72
 *       +-------+--------------------+-------+
 *       | id    | rest of the key    | id    |      id 0: not registered
 *       +-------+--------------------+-------+
 *
 * The owner zeroes both ids, writes the rest, and writes the ids last. An id is never
 * used again (transport/memory.h). A reader that finds one id at both ends has that id's key,
 * whether it read upward or downward. The check in the key detects any other order.
 *
 * Pure; any thread.
 */
#ifndef TUG_ACP_ADDRESS_H
#define TUG_ACP_ADDRESS_H

#include <acp.h>
#include <stdbool.h>
#include <stdint.h>

#include "tugboat/llcl.h"

#ifndef TUG_ACP_KEY_BITS
#define TUG_ACP_KEY_BITS 8
#endif
#ifndef TUG_ACP_OFFSET_BITS
#define TUG_ACP_OFFSET_BITS 34
#endif
#define TUG_ACP_COLOR_BITS 1
#define TUG_ACP_COLORS (1u << TUG_ACP_COLOR_BITS)
#define TUG_ACP_RANK_SHIFT (TUG_ACP_OFFSET_BITS + TUG_ACP_KEY_BITS + TUG_ACP_COLOR_BITS)
#define TUG_ACP_RANK_BITS (64 - TUG_ACP_RANK_SHIFT)

_Static_assert(TUG_ACP_KEY_BITS >= 1 && TUG_ACP_KEY_BITS <= 16, "16 bits of keys are enough");
_Static_assert(TUG_ACP_OFFSET_BITS >= 32, "a generation takes the place of an offset");
_Static_assert(TUG_ACP_RANK_BITS >= 8 && TUG_ACP_RANK_BITS <= 31, "ranks are ints");

#define TUG_ACP_KEYS (1u << TUG_ACP_KEY_BITS)
#define TUG_ACP_OFFSETS                                                                            \
    (UINT64_C(1) << TUG_ACP_OFFSET_BITS) /* bytes of a registration, at most                       \
                                          */
#define TUG_ACP_RANKS ((UINT32_C(1) << TUG_ACP_RANK_BITS) - 1)
#define TUG_ACP_NO_RANK UINT32_MAX

static inline acp_ga_t tug_acp_ga(uint32_t rank, uint32_t color, uint32_t number, uint64_t offset) {
    return ((uint64_t)rank + 1) << TUG_ACP_RANK_SHIFT |
           (uint64_t)color << (TUG_ACP_RANK_SHIFT - TUG_ACP_COLOR_BITS) |
           (uint64_t)number << TUG_ACP_OFFSET_BITS | offset;
}

/* TUG_ACP_NO_RANK for ACP_GA_NULL. */
static inline uint32_t tug_acp_ga_rank(acp_ga_t ga) {
    return (uint32_t)(ga >> TUG_ACP_RANK_SHIFT) - 1;
}

static inline uint32_t tug_acp_ga_color(acp_ga_t ga) {
    return ga >> (TUG_ACP_RANK_SHIFT - TUG_ACP_COLOR_BITS) & 1;
}

static inline uint32_t tug_acp_ga_number(acp_ga_t ga) {
    return ga >> TUG_ACP_OFFSET_BITS & (TUG_ACP_KEYS - 1);
}

static inline uint64_t tug_acp_ga_offset(acp_ga_t ga) {
    return ga & (TUG_ACP_OFFSETS - 1);
}

/* The GA of the first byte of the same registration. */
static inline acp_ga_t tug_acp_ga_base(acp_ga_t ga) {
    return ga & ~(TUG_ACP_OFFSETS - 1);
}

/* ---- entries ---- */

#define TUG_ACP_KEY_WORDS (sizeof(struct tug_key) / sizeof(uint64_t))

struct tug_acp_entry {
    struct tug_key key; /* its first word is the id */
    uint64_t id;
};

_Static_assert(sizeof(struct tug_acp_entry) == 72, "see the drawing");

/* Does the copy hold exactly one key? */
static inline bool tug_acp_entry_holds(const struct tug_acp_entry *copy) {
    return copy->id != 0 && copy->id == copy->key.word[0];
}

/* The entry becomes that of a key; id 0: of none. One writer at a time. */
static inline void tug_acp_entry_write(struct tug_acp_entry *entry, const struct tug_key *key) {
    __atomic_store_n(&entry->id, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->key.word[0], 0, __ATOMIC_RELAXED);
    /* release: a reader of a new word cannot then read an old id */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (size_t i = 1; i < TUG_ACP_KEY_WORDS; i++)
        __atomic_store_n(&entry->key.word[i], key->word[i], __ATOMIC_RELAXED);
    /* release: who reads one of the new ids reads the words above */
    __atomic_store_n(&entry->key.word[0], key->word[0], __ATOMIC_RELEASE);
    __atomic_store_n(&entry->id, key->word[0], __ATOMIC_RELEASE);
}

#endif
