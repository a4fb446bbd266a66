/* What this process knows of the others' registrations: their LLCL keys, by rank and number.
 *
 * A rank's table is made when its first key comes, and fills key by key; at most so many tables are
 * kept, and the one that was used longest ago makes room. A key that has ended stays until its
 * successor is stored: the owner refuses it by its generation (transport/memory.h), so that what is
 * here may be old and is never dangerous.
 *
 * The keys of all starter memory, which last as long as ACP, may be there from the start.
 *
 * Threads: any may look; storing is for the holder of the baton. A table changes
 * hands, and its keys change, under its seqlock; who looks meanwhile finds nothing.
 */
#ifndef TUG_ACP_CACHE_H
#define TUG_ACP_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "acp/address.h"
#include "base/seqlock.h"
#include "tugboat/llcl.h"

#define TUG_ACP_TABLES 1024

#define TUG_ACP_KEY_WORDS (sizeof(struct tug_key) / sizeof(uint64_t))

struct tug_acp_table {
    struct tug_seqlock lock;
    _Atomic uint32_t rank;
    _Atomic uint64_t used; /* when: by the cache's clock */
    /* first word 0: not known */
    _Atomic uint64_t keys[TUG_ACP_KEYS][TUG_ACP_KEY_WORDS];
};

struct tug_acp_cache {
    struct tug_acp_table *_Atomic tables[TUG_ACP_TABLES];
    _Atomic uint16_t *table_of; /* [nranks] index + 1, 0: none */
    _Atomic uint64_t clock;
    struct tug_key *starters; /* [nranks] keys of number 0; NULL: they are in tables */
    uint32_t nranks;
    uint32_t most;    /* tables */
    uint32_t ntables; /* made so far; holder only */
};

/* For most (1 to TUG_ACP_TABLES) tables. 0 or TUG_ERR_NO_MEMORY. */
int tug_acp_cache_init(struct tug_acp_cache *cache, uint32_t nranks, uint32_t most);
void tug_acp_cache_fini(struct tug_acp_cache *cache);

/* The keys of number 0 of all ranks, from malloc(): the cache's from now on. Before anybody looks.
 */
void tug_acp_cache_give(struct tug_acp_cache *cache, struct tug_key *starters);

/* True and *key if it is known. Any thread. */
bool tug_acp_cache_find(struct tug_acp_cache *cache, uint32_t rank, uint32_t number,
                        struct tug_key *key);

/* From now on it is this key; first word 0: it is not known. 0 or TUG_ERR_NO_MEMORY. Holder only.
 */
int tug_acp_cache_store(struct tug_acp_cache *cache, uint32_t rank, uint32_t number,
                        const struct tug_key *key);

#endif
