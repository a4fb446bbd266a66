#include "acp/cache.h"

#include <stdlib.h>
#include <string.h>

int tug_acp_cache_init(struct tug_acp_cache *cache, uint32_t nranks, uint32_t most) {
    *cache = (struct tug_acp_cache){.group = 1, .most = most};
    cache->table_of = calloc(nranks, sizeof(*cache->table_of));
    return cache->table_of != NULL ? 0 : TUG_ERR_NO_MEMORY;
}

void tug_acp_cache_fini(struct tug_acp_cache *cache) {
    for (uint32_t i = 0; i < cache->most; i++)
        free(cache->tables[i]);
    free((void *)cache->table_of);
    free(cache->leaders);
    memset(cache, 0, sizeof(*cache));
}

/* ---- looking ---- */

bool tug_acp_cache_find(struct tug_acp_cache *cache, uint32_t rank, uint32_t number,
                        struct tug_key *key) {
    if (number == 0 && cache->leaders != NULL) {
        const uint32_t leader = rank / cache->group;
        if (leader * cache->group == rank) {
            *key = cache->leaders[leader];
            return true;
        }
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
    return tug_seqlock_holds(&table->lock, version) && key->word[0] != 0;
}

/* ---- storing: holder only ---- */

/* The rank's table, new or another's if it has none: with tug_seqlock_begin() done. NULL: no
 * memory. */
static struct tug_acp_table *open_table(struct tug_acp_cache *cache, uint32_t rank) {
    uint16_t at = atomic_load_explicit(&cache->table_of[rank], memory_order_relaxed);
    if (at != 0) {
        tug_seqlock_begin(&cache->tables[at - 1]->lock);
        return cache->tables[at - 1];
    }
    const uint32_t index = cache->opened % cache->most;
    struct tug_acp_table *table = cache->tables[index];
    if (table != NULL)
        atomic_store_explicit(&cache->table_of[table->rank], 0, memory_order_relaxed);
    else
        cache->tables[index] = table = calloc(1, sizeof(*table));
    if (table == NULL)
        return NULL;
    cache->opened++;
    tug_seqlock_begin(&table->lock);
    for (uint32_t i = 0; i < TUG_ACP_KEYS; i++)
        atomic_store_explicit(&table->keys[i][0], 0, memory_order_relaxed);
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
    tug_seqlock_end(&table->lock);
    return 0;
}
