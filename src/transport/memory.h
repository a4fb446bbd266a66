/* Registered memory of one context, and the keys that name it.
 *
 * A registration has an *id*: its index in the table, and a generation that differs each time the
 * index is used again, so that a key of a registration that has ended is refused for ever:
 *
 *        63            32 31             0
 *       +----------------+----------------+
 *       | generation     | index          |      generation 0: never
 *       +----------------+----------------+
 *
 * A key, as it travels:
 *
 *       word 0   id
 *       word 1   id of the context (agreed by its processes)
 *       word 2   address of the first byte at the owner
 *       word 3   bytes
 *       word 4   rkey (low half) | owner's rank in its context (high half)
 *       word 5   segment + 1 (16 bits, 0: not mapped) | rank in the node (15 bits) | lent (1 bit)
 *                | check (32 bits)
 *       word 6   rkey of a process's second device (low half) | of its third (high half)
 *       word 7   of its fourth (low half) | port (2 bits) | 0
 *
 * The port is the one by which short reads and writes of the memory go, from 0 in the order of the
 * rkeys, where a process has several.
 *
 * The check is a hash of all else: a key that was damaged on its way is refused when it is used.
 * The owner checks id, generation and bounds again whenever it serves a request.
 *
 * Finding: any thread, no lock. Adding and ending: under the table's lock; ending by the holder
 * of the baton, who alone serves peers, so that nothing is found and then ended under him.
 */
#ifndef TUG_TRANSPORT_MEMORY_H
#define TUG_TRANSPORT_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tugboat/llcl.h"

#define TUG_TRANSPORTS 8 /* at most: slots of device data in a registration */
#define TUG_RKEYS 4      /* devices of a process that give a registration a name, at most */

struct tug_live;

struct tug_registration {
    struct tug_context *context;
    unsigned char *base;
    size_t bytes;
    uint64_t id;
    uint32_t rkeys[TUG_RKEYS]; /* devices' names of it, for keys; 0: that one does not know it */
    uint8_t port;              /* for keys, see above */
    uint32_t segment;          /* + 1; 0: not from tug_mem_allocate() */
    uint32_t serving;          /* transfers under way that peers asked for; holder only */
    uint32_t users;            /* operations of this process that are out with it; holder only */
    _Atomic uint64_t *live;    /* mapped memory: where its id stands while it lives */
    struct tug_live *entry;    /* its entry in the list that the node's others read; NULL: none */
    void *of_transport[TUG_TRANSPORTS]; /* what each transport keeps with it, by transport number */
};

struct tug_memory_table {
    pthread_mutex_t lock;
    /* chunks of 1024 entries, made when needed and never moved: readers take no lock */
    struct tug_memory_chunk *_Atomic chunks[1024];
    uint32_t used;      /* indices ever used */
    uint32_t free_list; /* index + 1 of the first free one */
};

int tug_memory_table_init(struct tug_memory_table *table);
void tug_memory_table_fini(struct tug_memory_table *table);

/* Gives the registration an id. 0 or TUG_ERR_NO_MEMORY. */
int tug_memory_add(struct tug_memory_table *table, struct tug_registration *registration);

/* The id is refused from now on. */
void tug_memory_remove(struct tug_memory_table *table, struct tug_registration *registration);

/* The registration of an id if [offset, offset + bytes) lies in it. *status is set when NULL is
 * returned: TUG_ERR_KEY or TUG_ERR_RANGE. */
struct tug_registration *tug_memory_find(struct tug_memory_table *table, uint64_t id,
                                         uint64_t offset, uint64_t bytes, int *status);

/* Bytes that so many registrations take, the table itself apart. */
size_t tug_memory_footprint(uint32_t registrations);

/* Calls each(registration, argument) for all that are left. Not concurrently with the others. */
void tug_memory_each(struct tug_memory_table *table,
                     void (*each)(struct tug_registration *, void *), void *argument);

/* ---- keys ---- */

#define TUG_KEY_NODE_RANK_MOST 0x7fffu
#define TUG_KEY_LENT ((uint64_t)1 << 31)

/* All bits of a product, so that every bit of both counts. */
static inline uint64_t tug_key_fold(uint64_t a, uint64_t b) {
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint32_t tug_key_check(const struct tug_key *key) {
    const uint64_t *w = key->word;
    const uint64_t hash =
        tug_key_fold(w[0] ^ 0x9e3779b97f4a7c15u, w[1] ^ 0xff51afd7ed558ccdu) ^
        tug_key_fold(w[2] ^ 0xc4ceb9fe1a85ec53u, w[3] ^ 0xbf58476d1ce4e5b9u) ^
        tug_key_fold(w[4] ^ 0x94d049bb133111ebu, (uint32_t)w[5] ^ 0xd6e8feb86659fd93u) ^
        tug_key_fold(w[6] ^ 0xa0761d6478bd642fu, w[7] ^ 0xe7037ed1a0b428dbu);
    return (uint32_t)(tug_key_fold(hash, 0x9e3779b97f4a7c15u) >> 32);
}

static inline uint32_t tug_key_owner(const struct tug_key *key) {
    return (uint32_t)(key->word[4] >> 32);
}

static inline uint32_t tug_key_segment(const struct tug_key *key) { /* + 1 */
    return (uint16_t)key->word[5];
}

static inline uint32_t tug_key_node_rank(const struct tug_key *key) {
    return (key->word[5] >> 16) & TUG_KEY_NODE_RANK_MOST;
}

/* Where a key has the rkey of the owner's device i: bits from `shift` on of a word. */
static inline unsigned tug_key_rkey_word(unsigned i) {
    return i == 0 ? 4 : 6 + (i - 1) / 2;
}

static inline unsigned tug_key_rkey_shift(unsigned i) {
    return i == 0 ? 0 : 32 * ((i - 1) % 2);
}

/* What the owner's devices call the memory; 0: one does not know it. */
static inline void tug_key_rkeys(const struct tug_key *key, uint32_t rkeys[TUG_RKEYS]) {
    for (unsigned i = 0; i < TUG_RKEYS; i++)
        rkeys[i] = (uint32_t)(key->word[tug_key_rkey_word(i)] >> tug_key_rkey_shift(i));
}

static inline uint32_t tug_key_port(const struct tug_key *key) {
    return (key->word[7] >> 32) % TUG_RKEYS;
}

/* Adds them to a key in which their places are zero. */
static inline void tug_key_add_rkeys(struct tug_key *key, const uint32_t rkeys[TUG_RKEYS]) {
    for (unsigned i = 0; i < TUG_RKEYS; i++)
        key->word[tug_key_rkey_word(i)] |= (uint64_t)rkeys[i] << tug_key_rkey_shift(i);
}

/* May the node's others map it where it is, as it is lent memory (node/lent.h)? */
static inline bool tug_key_is_lent(const struct tug_key *key) {
    return key->word[5] & TUG_KEY_LENT;
}

/* Is this an undamaged key of that process in that context, and [offset, offset + bytes) inside?
 * 0, TUG_ERR_KEY, TUG_ERR_RANGE. */
static inline int tug_key_allows(const struct tug_key *key, uint64_t context, uint32_t owner,
                                 uint64_t offset, uint64_t bytes) {
    if (key->word[1] != context || tug_key_owner(key) != owner ||
        (uint32_t)(key->word[5] >> 32) != tug_key_check(key))
        return TUG_ERR_KEY;
    if (offset > key->word[3] || bytes > key->word[3] - offset)
        return TUG_ERR_RANGE;
    return 0;
}

#endif
