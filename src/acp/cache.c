#include "acp/cache.h"

#include <stdlib.h>
#include <string.h>

int tug_acp_cache_init(struct tug_acp_cache *cache, uint32_t nranks, uint32_t most) {
    *cache = (struct tug_acp_cache){.nranks = nranks, .most = most, .clock = 1};
    cache->table_of = calloc(nranks, sizeof(*cache->table_of));
    return cache->table_of != NULL ? 0 : TUG_ERR_NO_MEMORY;
}

void tug_acp_cache_fini(struct tug_acp_cache *cache) {
    for (uint32_t i = 0; i < cache->ntables; i++)
        free(cache->tables[i]);
    free((void *)cache->table_of);
    free(cache->starters);
    memset(cache, 0, sizeof(*cache));
}

void tug_acp_cache_give(struct tug_acp_cache *cache, struct tug_key *starters) {
    cache->starters = starters;
}

/* ---- looking ---- */

/* The clock ticks when another table is used than the last time. While the same table is used
 * again, nothing is written that other cores read. */
static void touch(struct tug_acp_cache *cache, struct tug_acp_table *table) {
    uint64_t now = atomic_load_explicit(&cache->clock, memory_order_relaxed);
    if (atomic_load_explicit(&table->used, memory_order_relaxed) == now)
        return;
    atomic_store_explicit(&cache->clock, now + 1, memory_order_relaxed);
    atomic_store_explicit(&table->used, now + 1, memory_order_relaxed);
}

bool tug_acp_cache_find(struct tug_acp_cache *cache, uint32_t rank, uint32_t number,
                        struct tug_key *key) {
    if (number == 0 && cache->starters != NULL) {
        *key = cache->starters[rank];
        return true;
    }
    /* acquire: pairs with the release in store */
    uint16_t at = atomic_load_explicit(&cache->table_of[rank], memory_order_acquire);
    if (at == 0)
        return false;
    struct tug_acp_table *table =
        atomic_load_explicit(&cache->tables[at - 1], memory_order_relaxed);
    const uint32_t version = tug_seqlock_read(&table->lock);
    if (atomic_load_explicit(&table->rank, memory_order_relaxed) != rank)
        return false;
    for (size_t i = 0; i < TUG_ACP_KEY_WORDS; i++)
        key->word[i] = atomic_load_explicit(&table->keys[number][i], memory_order_relaxed);
    if (!tug_seqlock_holds(&table->lock, version) || key->word[0] == 0)
        return false;
    touch(cache, table);
    return true;
}

/* ---- storing: holder only ---- */

static uint32_t oldest(const struct tug_acp_cache *cache) {
    uint32_t found = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < cache->ntables; i++) {
        uint64_t used = atomic_load_explicit(&cache->tables[i]->used, memory_order_relaxed);
        if (used < least) {
            least = used;
            found = i;
        }
    }
    return found;
}

/* The rank's table, new or another's if it has none: with tug_seqlock_begin() done. NULL: no
 * memory. */
static struct tug_acp_table *open_table(struct tug_acp_cache *cache, uint32_t rank) {
    uint16_t at = atomic_load_explicit(&cache->table_of[rank], memory_order_relaxed);
    if (at != 0) {
        tug_seqlock_begin(&cache->tables[at - 1]->lock);
        return cache->tables[at - 1];
    }
    struct tug_acp_table *table = cache->ntables < cache->most ? calloc(1, sizeof(*table)) : NULL;
    uint32_t index = cache->ntables;
    if (table != NULL) {
        atomic_store_explicit(&cache->tables[index], table, memory_order_relaxed);
        cache->ntables++;
        tug_seqlock_begin(&table->lock);
    } else if (cache->ntables > 0) {
        index = oldest(cache);
        table = cache->tables[index];
        atomic_store_explicit(&cache->table_of[table->rank], 0, memory_order_relaxed);
        tug_seqlock_begin(&table->lock);
        for (uint32_t i = 0; i < TUG_ACP_KEYS; i++)
            atomic_store_explicit(&table->keys[i][0], 0, memory_order_relaxed);
    } else {
        return NULL;
    }
    atomic_store_explicit(&table->rank, rank, memory_order_relaxed);
    /* release: pairs with the acquire in find */
    atomic_store_explicit(&cache->table_of[rank], (uint16_t)(index + 1), memory_order_release);
    return table;
}

int tug_acp_cache_store(struct tug_acp_cache *cache, uint32_t rank, uint32_t number,
                        const struct tug_key *key) {
    struct tug_acp_table *table = open_table(cache, rank);
    if (table == NULL)
        return TUG_ERR_NO_MEMORY;
    for (size_t i = 0; i < TUG_ACP_KEY_WORDS; i++)
        atomic_store_explicit(&table->keys[number][i], key->word[i], memory_order_relaxed);
    touch(cache, table);
    tug_seqlock_end(&table->lock);
    return 0;
}
