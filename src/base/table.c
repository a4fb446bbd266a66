#include "base/table.h"

#include <stdlib.h>

#define SLOTS_LEAST_LOG2 3u

static void put(struct tug_table *table, uint64_t key, void *value) {
    const size_t mask = tug_table_slots(table) - 1;
    size_t i = tug_table_home(table, key);
    while (table->entries[i].value != NULL)
        i = (i + 1) & mask;
    table->entries[i] = (struct tug_table_entry){key, value};
}

/* Makes the number of slots 2^log2. */
static bool resize(struct tug_table *table, uint32_t log2) {
    const struct tug_table old = *table;
    struct tug_table_entry *entries = calloc((size_t)1 << log2, sizeof(*entries));
    if (entries == NULL)
        return false;
    table->entries = entries;
    table->shift = 64 - log2;
    for (size_t i = 0; i < tug_table_slots(&old); i++)
        if (old.entries[i].value != NULL)
            put(table, old.entries[i].key, old.entries[i].value);
    free(old.entries);
    return true;
}

bool tug_table_add(struct tug_table *table, uint64_t key, void *value) {
    const size_t slots = tug_table_slots(table);
    if ((size_t)table->used * 2 >= slots &&
        !resize(table, slots == 0 ? SLOTS_LEAST_LOG2 : 64 - table->shift + 1))
        return false;
    put(table, key, value);
    table->used++;
    return true;
}

/* The slot i is free now: an entry behind it that would be sought there moves to it, which frees
 * another. */
static void close_gap(struct tug_table *table, size_t i) {
    const size_t mask = tug_table_slots(table) - 1;
    struct tug_table_entry *entries = table->entries;
    for (size_t next = (i + 1) & mask; entries[next].value != NULL; next = (next + 1) & mask) {
        const size_t home = tug_table_home(table, entries[next].key);
        if (((next - home) & mask) < ((next - i) & mask))
            continue;
        entries[i] = entries[next];
        i = next;
    }
    entries[i] = (struct tug_table_entry){0};
}

void tug_table_remove(struct tug_table *table, uint64_t key) {
    const size_t mask = tug_table_slots(table) - 1;
    if (tug_table_find(table, key) == NULL)
        return;
    size_t i = tug_table_home(table, key);
    while (table->entries[i].key != key)
        i = (i + 1) & mask;
    close_gap(table, i);
    table->used--;
}

void tug_table_fini(struct tug_table *table) {
    free(table->entries);
    *table = (struct tug_table){0};
}

/* Against the order in which gaps are closed, and from a free slot, which none is closed across:
 * only entries that have been visited move. */
void tug_table_each(struct tug_table *table, void (*visit)(void *value, void *d), void *d) {
    const size_t slots = tug_table_slots(table);
    size_t free_slot = 0;
    if (table->used == 0)
        return;
    while (table->entries[free_slot].value != NULL)
        free_slot++;
    for (size_t n = 1; n < slots; n++) {
        void *value = table->entries[(free_slot - n) & (slots - 1)].value;
        if (value != NULL)
            visit(value, d);
    }
}

size_t tug_table_footprint(size_t n) {
    size_t slots = n > 0 ? (size_t)1 << SLOTS_LEAST_LOG2 : 0;
    while (slots < n * 2)
        slots *= 2;
    return slots * sizeof(struct tug_table_entry);
}
