/* What this process knows of the others' registrations: their LLCL keys, by rank and number.
 *
 * A rank's table is made when its first key comes, and fills key by key; at most so many tables are
 * kept, and the oldest makes room: to find a key again costs one reading (lookup.c). A key that has
 * ended stays until its successor is stored: the owner refuses it by its generation
 * (transport/memory.h), so that what is here may be old and is never dangerous.
 *
 * The ranks form groups of consecutive ranks. The starter keys of the first rank of each group, its
 * leader, last as long as ACP and are here from the start.
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

struct tug_acp_table {
    struct tug_seqlock lock;
    _Atomic uint32_t rank;
    /* first word 0: not known */
    _Atomic uint64_t keys[TUG_ACP_KEYS][TUG_ACP_KEY_WORDS];
};

struct tug_acp_cache {
    struct tug_acp_table *_Atomic tables[TUG_ACP_TABLES];
    _Atomic uint16_t *table_of; /* [nranks] index + 1, 0: none */
    struct tug_key *leaders;    /* keys of number 0, by group */
    uint32_t group;             /* ranks of a group */
    uint32_t most;              /* tables */
    uint32_t opened;            /* so far, for a rank that had none; holder only */
};

/* For most (1 to TUG_ACP_TABLES) tables. 0 or TUG_ERR_NO_MEMORY. */
int tug_acp_cache_init(struct tug_acp_cache *cache, uint32_t nranks, uint32_t most);
void tug_acp_cache_fini(struct tug_acp_cache *cache);

/* True and *key if it is known. Any thread. */
bool tug_acp_cache_find(struct tug_acp_cache *cache, uint32_t rank, uint32_t number,
                        struct tug_key *key);

/* From now on it is this key; first word 0: it is not known. 0 or TUG_ERR_NO_MEMORY. Holder only.
 */
int tug_acp_cache_store(struct tug_acp_cache *cache, uint32_t rank, uint32_t number,
                        const struct tug_key *key);

#endif
