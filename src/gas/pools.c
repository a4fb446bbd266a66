/* Pools: the memory of the pages of one process each.
 *
 * This process's own, and those of its node, are known from the beginning. The key of any other is
 * asked for when a page that is there is used for the first time: an array costs memory for the
 * processes whose pages it uses. The pointers to them are of zero pages, most of which never become
 * memory.
 *
 * Threading: open and close: the program's thread; the rest: the holder of the baton.
 */
#include <stdlib.h>
#include <string.h>

#include "gas/array.h"
#include "host/agreement.h"
#include "host/host.h"
#include "host/polite.h"
#include "node/segment.h"
#include "transport/memory.h"

/* Of that process, made if need be. NULL: no memory. */
static struct tug_array_pool *pool_of(struct tug_array *array, uint32_t rank) {
    struct tug_array_pool *pool = array->pools[rank];
    if (pool != NULL)
        return pool;
    pool = calloc(1, sizeof(*pool));
    if (pool == NULL)
        return NULL;
    pool->array = array;
    pool->next = array->first_pool;
    array->first_pool = array->pools[rank] = pool;
    return pool;
}

/* ---- keys of others ---- */

static void told(void *d, int status) {
    struct tug_array_pool *pool = d;
    struct tug_deferred *work = pool->waiting;
    pool->waiting = NULL;
    pool->status = status;
    pool->state = TUG_POOL_KNOWN;
    while (work != NULL) {
        struct tug_deferred *next = work->next;
        work->run(work);
        work = next;
    }
}

static bool ask(struct tug_array *array, struct tug_array_pool *pool, uint32_t rank) {
    const uint32_t nothing = 0;
    const struct tug_call_params call = {.dest_proc = (int)rank,
                                         .handler = TUG_CALL_POOL,
                                         .payload = &nothing,
                                         .size_in_bytes = sizeof(nothing),
                                         .answer = &pool->key,
                                         .answer_in_bytes = sizeof(pool->key),
                                         .on_complete = {told, pool}};
    pool->state = TUG_POOL_ASKED;
    if (tug_try_call_async(array->context, &call))
        return true;
    pool->state = TUG_POOL_UNKNOWN;
    return false;
}

bool tug_pool_find(struct tug_array *array, uint32_t rank, struct tug_deferred *work, int *status) {
    struct tug_array_pool *pool = pool_of(array, rank);
    *status = pool != NULL ? pool->status : TUG_ERR_NO_MEMORY;
    if (pool == NULL || pool->state == TUG_POOL_KNOWN)
        return true;
    if (pool->state == TUG_POOL_UNKNOWN && !ask(array, pool, rank)) {
        tug_deferred_retry(&array->deferred, work);
        return false;
    }
    work->next = pool->waiting;
    pool->waiting = work;
    return false;
}

static void on_pool(struct tug_array *array, struct tug_caller caller, const void *payload) {
    struct tug_key key;
    (void)payload;
    tug_mem_key(array->pool, &key);
    tug_answer(array->context, caller, &key, sizeof(key));
}

/* ---- beginning and end ---- */

/* Memory for the first pages of this process, and for wants. Other slots take theirs when pages
 * come. */
static bool make_real(struct tug_array *array, size_t wants) {
    unsigned char *base = tug_mem_address(array->pool);
    const size_t share = (array->npages - 1) / array->nranks + 1;
    if (!tug_shm_populate(base, share * array->page_bytes, "an array") ||
        !tug_shm_populate(base + array->wants_at, wants, "an array"))
        return false;
    memset(base, 0, share * array->page_bytes); /* of a process alone on its node: from malloc */
    memset(base + array->wants_at, 0, wants);
    memset(array->real, 1, share);
    return true;
}

/* The pools of this node: their keys, and where they are mapped. */
static bool keep(struct tug_array *array, const struct tug_key *keys, int nkeys) {
    const bool maps = tug_context_maps(array->context);
    for (int i = 0; i < nkeys; i++) {
        const uint32_t rank = tug_key_owner(&keys[i]);
        struct tug_array_pool *pool = pool_of(array, rank);
        if (pool == NULL)
            return false;
        pool->key = keys[i];
        pool->state = TUG_POOL_KNOWN;
        if (rank == array->rank || maps)
            pool->mapped = tug_mem_map(array->context, &keys[i]);
    }
    return true;
}

/* Collective over the node. */
static int meet_node(struct tug_array *array) {
    const MPI_Comm comm = tug_context_node_comm(array->context);
    struct tug_key mine, *keys;
    int size;
    if (tug_host.Comm_size(comm, &size) != MPI_SUCCESS)
        return TUG_ERR_MPI;
    tug_mem_key(array->pool, &mine);
    keys = calloc((size_t)size, sizeof(*keys));
    int status = keys != NULL ? 0 : TUG_ERR_NO_MEMORY;
    if (tug_all_agree(comm, keys != NULL)) {
        if (TUG_POLITE(Iallgather, &mine, sizeof(mine), MPI_BYTE, keys, sizeof(mine), MPI_BYTE,
                       comm) != MPI_SUCCESS)
            status = TUG_ERR_MPI;
        else if (!keep(array, keys, size))
            status = TUG_ERR_NO_MEMORY;
    } else {
        status = TUG_ERR_NO_MEMORY;
    }
    free(keys);
    return status;
}

int tug_pools_open(struct tug_array *array) {
    const size_t wants = array->nhomed * sizeof(uint32_t);
    const MPI_Comm comm = tug_context_comm(array->context);
    size_t bytes;
    if (__builtin_mul_overflow(array->nslots, array->page_bytes, &array->wants_at) ||
        __builtin_add_overflow(array->wants_at, wants, &bytes))
        return TUG_ERR_NO_MEMORY;
    int status = tug_mem_reserve(array->context, bytes, 0, &array->pool);
    if (status != 0)
        return status;
    if (!tug_all_agree(comm, make_real(array, wants)))
        return TUG_ERR_NO_MEMORY;
    status = meet_node(array);
    return tug_all_agree(comm, status == 0) ? 0 : status != 0 ? status : TUG_ERR_NO_MEMORY;
}

void tug_pools_register(struct tug_array *array) {
    tug_array_receive(array, TUG_CALL_POOL, on_pool);
}

void tug_pools_close(struct tug_array *array) {
    struct tug_array_pool *pool = array->first_pool;
    while (pool != NULL) {
        struct tug_array_pool *next = pool->next;
        free(pool);
        pool = next;
    }
    free((void *)array->pools);
}
