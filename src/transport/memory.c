/* The table of registrations: an entry per index.
 *
 * Everything that finding needs stands in the entry, beside the id that it belongs to:
 *
 *        0            8               16           24           28
 *       +------------+---------------+------------+------------+------------+
 *       | id, or 0   | registration  | bytes      | generation | next free  |    32 bytes
 *       +------------+---------------+------------+------------+------------+
 *
 * tug_memory_find() reads id, the two words, and id again. An id is given once (an index whose
 * generations are used up is not used again), so two equal readings mean that the words between
 * them are this id's. The registration itself is never looked at: a key that has ended is refused
 * without touching memory that may be gone, whoever removes or adds at the same moment. What is
 * returned was there during the call; that it stays is the caller's to see to: the holder of the
 * baton knows because he alone ends registrations, others because ending a registration that their
 * operations use is a mistake of the program.
 */
#include "transport/memory.h"

#include <assert.h>
#include <stdlib.h>

#define CHUNK_ENTRIES 1024u
#define CHUNKS (sizeof(((struct tug_memory_table *)NULL)->chunks) / sizeof(void *))

struct entry {
    _Atomic uint64_t id;
    struct tug_registration *_Atomic registration;
    _Atomic uint64_t bytes;
    uint32_t generation; /* under the lock: the last one given */
    uint32_t next_free;  /* under the lock: index + 1 */
};

_Static_assert(sizeof(struct entry) == 32, "see the drawing");

struct tug_memory_chunk {
    struct entry entries[CHUNK_ENTRIES];
};

int tug_memory_table_init(struct tug_memory_table *table) {
    if (pthread_mutex_init(&table->lock, NULL) != 0)
        return TUG_ERR_NO_MEMORY;
    for (size_t i = 0; i < CHUNKS; i++)
        atomic_init(&table->chunks[i], NULL);
    table->used = 0;
    table->free_list = 0;
    return 0;
}

void tug_memory_table_fini(struct tug_memory_table *table) {
    for (size_t i = 0; i < CHUNKS; i++) {
        free(atomic_load_explicit(&table->chunks[i], memory_order_relaxed));
        atomic_store_explicit(&table->chunks[i], NULL, memory_order_relaxed);
    }
    table->used = 0;
    table->free_list = 0;
    pthread_mutex_destroy(&table->lock);
}

/* NULL: the index was never used. */
static struct entry *entry_of(struct tug_memory_table *table, uint32_t index) {
    if (index >= CHUNKS * CHUNK_ENTRIES)
        return NULL;
    /* acquire: pairs with the release in take_index(); without it the zeros of a new chunk could
     * be missed. */
    struct tug_memory_chunk *chunk =
        atomic_load_explicit(&table->chunks[index / CHUNK_ENTRIES], memory_order_acquire);
    return chunk != NULL ? &chunk->entries[index % CHUNK_ENTRIES] : NULL;
}

/* Under the lock. False: there is none. */
static bool take_index(struct tug_memory_table *table, uint32_t *index) {
    if (table->free_list != 0) {
        *index = table->free_list - 1;
        table->free_list = entry_of(table, *index)->next_free;
        return true;
    }
    if (table->used == CHUNKS * CHUNK_ENTRIES)
        return false;
    if (table->used % CHUNK_ENTRIES == 0) {
        struct tug_memory_chunk *chunk = calloc(1, sizeof(*chunk));
        if (chunk == NULL)
            return false;
        /* release: pairs with the acquire in entry_of() */
        atomic_store_explicit(&table->chunks[table->used / CHUNK_ENTRIES], chunk,
                              memory_order_release);
    }
    *index = table->used++;
    return true;
}

int tug_memory_add(struct tug_memory_table *table, struct tug_registration *registration) {
    uint32_t index;
    pthread_mutex_lock(&table->lock);
    if (!take_index(table, &index)) {
        pthread_mutex_unlock(&table->lock);
        return TUG_ERR_NO_MEMORY;
    }
    struct entry *entry = entry_of(table, index);
    registration->id = (uint64_t)++entry->generation << 32 | index;
    /* release: pair with the acquires in tug_memory_find(). Who reads one of these two sees the 0
     * that tug_memory_remove() put into id before, or the new id, but not the old one again. */
    atomic_store_explicit(&entry->registration, registration, memory_order_release);
    atomic_store_explicit(&entry->bytes, registration->bytes, memory_order_release);
    /* release: pairs with the first acquire in tug_memory_find(): who reads this id reads its two
     * words, and sees the registration filled in. */
    atomic_store_explicit(&entry->id, registration->id, memory_order_release);
    pthread_mutex_unlock(&table->lock);
    return 0;
}

void tug_memory_remove(struct tug_memory_table *table, struct tug_registration *registration) {
    const uint32_t index = (uint32_t)registration->id;
    pthread_mutex_lock(&table->lock);
    struct entry *entry = entry_of(table, index);
    assert(entry != NULL && registration->id != 0 &&
           atomic_load_explicit(&entry->id, memory_order_relaxed) == registration->id &&
           "a registration is removed once");
    atomic_store_explicit(&entry->id, 0, memory_order_relaxed);
    if (entry->generation != UINT32_MAX) {
        entry->next_free = table->free_list;
        table->free_list = index + 1;
    }
    pthread_mutex_unlock(&table->lock);
}

struct tug_registration *tug_memory_find(struct tug_memory_table *table, uint64_t id,
                                         uint64_t offset, uint64_t bytes, int *status) {
    struct entry *entry = entry_of(table, (uint32_t)id);
    /* acquire: pairs with the last release in tug_memory_add() */
    if (entry == NULL || id >> 32 == 0 ||
        atomic_load_explicit(&entry->id, memory_order_acquire) != id) {
        *status = TUG_ERR_KEY;
        return NULL;
    }
    /* acquire: pair with the first two releases in tug_memory_add(); without them the second
     * reading of id could be older than theirs. */
    struct tug_registration *registration =
        atomic_load_explicit(&entry->registration, memory_order_acquire);
    const uint64_t size = atomic_load_explicit(&entry->bytes, memory_order_acquire);
    if (atomic_load_explicit(&entry->id, memory_order_relaxed) != id) {
        *status = TUG_ERR_KEY;
        return NULL;
    }
    if (offset > size || bytes > size - offset) {
        *status = TUG_ERR_RANGE;
        return NULL;
    }
    return registration;
}

void tug_memory_each(struct tug_memory_table *table,
                     void (*each)(struct tug_registration *, void *), void *argument) {
    for (uint32_t index = 0; index < table->used; index++) {
        struct entry *entry = entry_of(table, index);
        if (atomic_load_explicit(&entry->id, memory_order_relaxed) != 0)
            each(atomic_load_explicit(&entry->registration, memory_order_relaxed), argument);
    }
}

size_t tug_memory_footprint(uint32_t registrations) {
    const size_t chunks = (registrations + CHUNK_ENTRIES - 1) / CHUNK_ENTRIES;
    return chunks * sizeof(struct tug_memory_chunk) +
           registrations * sizeof(struct tug_registration);
}
