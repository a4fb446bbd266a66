/* Tables: what belongs to a 64-bit key, by hashing.
 *
 * An entry is where its key's hash says, or in one of the slots behind it; at most half of them
 * are taken. A table keeps no memory of what its entries point to. All zeros: an empty one. One
 * thread at a time.
 */
#ifndef TUG_BASE_TABLE_H
#define TUG_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tug_table_entry {
    uint64_t key;
    void *value; /* NULL: the slot is free */
};

struct tug_table {
    struct tug_table_entry *entries; /* NULL: none yet */
    uint32_t used;
    uint32_t shift; /* 64 - log2 of the number of slots */
};

static inline size_t tug_table_slots(const struct tug_table *table) {
    return table->entries != NULL ? (size_t)1 << (64 - table->shift) : 0;
}

/* Where the key's entry is, if nothing else is there. */
static inline size_t tug_table_home(const struct tug_table *table, uint64_t key) {
    return (size_t)(key * 0x9e3779b97f4a7c15u >> table->shift);
}

/* NULL: there is none. */
static inline void *tug_table_find(const struct tug_table *table, uint64_t key) {
    if (__builtin_expect(table->entries == NULL, 0))
        return NULL;
    const size_t mask = tug_table_slots(table) - 1;
    for (size_t i = tug_table_home(table, key);; i = (i + 1) & mask) {
        const struct tug_table_entry *entry = &table->entries[i];
        if (entry->key == key || entry->value == NULL)
            return entry->value;
    }
}

/* The key is not there yet, the value is not NULL. False: no memory, nothing has changed. */
bool tug_table_add(struct tug_table *table, uint64_t key, void *value);

/* Nothing, if it is not there. */
void tug_table_remove(struct tug_table *table, uint64_t key);

void tug_table_fini(struct tug_table *table);

/* Calls visit(value, d) for each, in any order; visit may remove its own entry and no other. */
void tug_table_each(struct tug_table *table, void (*visit)(void *value, void *d), void *d);

/* Bytes of a table of n entries. */
size_t tug_table_footprint(size_t n);

#endif
