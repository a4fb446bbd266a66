/* Pools: the memory of the pages of one process each.
 *
 * This process's own, and those of its node, are known from the beginning: they are mapped as
 * wholes, and no network card is told of them. Of any other pool a page is reached by the key of
 * the part that it lies in (array.h), which is asked for when a page there is used for the first
 * time: the owner tells its card of that part then. So an array costs memory for the processes, and
 * their parts, whose pages it uses, and a card pins no more than that. The pointers to pools are of
 * zero pages, most of which never become memory.
 *
 * A part that no card will know is reached by the key of the whole pool, in packets. The records of
 * pages (array.h), behind the slots, are a part of their own, which is not reached so.
 *
 * Threading: open, forget and close: the program's thread; the rest: the holder of the baton.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
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
    pool->next = array->first_pool;
    array->first_pool = array->pools[rank] = pool;
    return pool;
}

/* Of that process's pool, made if need be. NULL: no memory. */
static struct tug_pool_part *part_of(struct tug_array *array, struct tug_array_pool *pool,
                                     uint32_t number) {
    if (pool->parts == NULL)
        pool->parts = calloc(array->nparts + 1, sizeof(struct tug_pool_part *));
    if (pool->parts == NULL)
        return NULL;
    struct tug_pool_part *part = pool->parts[number];
    if (part != NULL)
        return part;
    part = calloc(1, sizeof(*part));
    if (part != NULL)
        part->array = array;
    pool->parts[number] = part;
    return part;
}

/* Memory that is mapped goes by itself, but for atomics where those of cards count. */
static bool goes_mapped(const struct tug_array *array, const struct tug_array_pool *pool) {
    return pool->mapped != NULL && array->cpu_atomics;
}

/* ---- this process's own ---- */

/* The part, and cards are told of it, if they can be. NULL: no memory. */
static struct tug_pool_part *tell_of(struct tug_array *array, uint32_t number) {
    const bool records = number == array->nparts;
    const size_t slots = array->part_slots * array->page_bytes;
    const size_t begin = records ? array->records_at : number * slots;
    const size_t end = records ? tug_mem_size(array->pool) : array->records_at;
    struct tug_array_pool *pool = array->pools[array->rank];
    struct tug_pool_part *part = part_of(array, pool, number);
    if (part == NULL || part->state == TUG_POOL_KNOWN)
        return part;
    part->at = records ? (struct tug_pool_key){0} : pool->whole;
    part->state = TUG_POOL_KNOWN;
    if (end > begin && tug_mem_register(array->context, pool->mapped + begin,
                                        records || slots > end - begin ? end - begin : slots,
                                        &array->registered[number]) == 0) {
        tug_mem_key(array->registered[number], &part->at.key);
        part->at.first = records ? 0 : (uint64_t)number * array->part_slots;
    }
    return part;
}

struct tug_local_address tug_pool_here(struct tug_array *array, uint32_t from, uint32_t slot) {
    const uint32_t number = slot / array->part_slots;
    if (goes_mapped(array, array->pools[from]) || tell_of(array, number) == NULL ||
        array->registered[number] == NULL)
        return (struct tug_local_address){array->pool, slot * array->page_bytes};
    return (struct tug_local_address){array->registered[number],
                                      slot % array->part_slots * array->page_bytes};
}

bool tug_pool_is_loose(const struct tug_array *array, uint32_t slot) {
    const tug_registration *part = array->registered[slot / array->part_slots];
    return part == NULL || !tug_mem_is_locked(part);
}

/* No memory: nothing is named. */
static bool on_pool(struct tug_array *array, struct tug_caller caller, const void *payload) {
    struct tug_pool_key at = {0};
    uint32_t number;
    memcpy(&number, payload, sizeof(number));
    if (number > array->nparts)
        return false;
    const struct tug_pool_part *part = tell_of(array, number);
    if (part != NULL)
        at = part->at;
    tug_answer(array->context, caller, &at, sizeof(at));
    return true;
}

/* ---- those of others ---- */

static void told(void *d, int status) {
    struct tug_pool_part *part = d;
    struct tug_deferred *work = part->waiting;
    const uint64_t first = part->at.first;
    const bool none = part->at.key.word[0] == 0;
    const bool right =
        none || (tug_key_owner(&part->at.key) == part->owner &&
                 (first == 0 || first == (uint64_t)part->number * part->array->part_slots));
    part->waiting = NULL;
    part->status = tug_array_status(status, part->owner, none ? TUG_ERR_NO_MEMORY : 0, right);
    part->state = TUG_POOL_KNOWN;
    while (work != NULL) {
        struct tug_deferred *next = work->next;
        work->run(work);
        work = next;
    }
}

static bool ask(struct tug_pool_part *part, uint32_t rank, uint32_t number) {
    const struct tug_call_params call = {.dest_proc = (int)rank,
                                         .handler = TUG_CALL_POOL,
                                         .payload = &number,
                                         .size_in_bytes = sizeof(number),
                                         .answer = &part->at,
                                         .answer_in_bytes = sizeof(part->at),
                                         .on_complete = {told, part}};
    part->state = TUG_POOL_ASKED;
    part->owner = rank;
    part->number = number;
    if (tug_try_call_async(part->array->context, &call))
        return true;
    part->state = TUG_POOL_UNKNOWN;
    return false;
}

bool tug_pool_find(struct tug_array *array, const struct tug_page_slot *place,
                   struct tug_deferred *work, int *status) {
    const uint32_t number = place->slot / array->part_slots;
    struct tug_array_pool *pool = pool_of(array, place->owner);
    struct tug_pool_part *part = NULL;
    *status = 0;
    if (pool != NULL && goes_mapped(array, pool))
        return true;
    if (place->owner == array->rank)
        part = tell_of(array, number);
    else if (pool != NULL)
        part = part_of(array, pool, number);
    *status = part != NULL ? part->status : TUG_ERR_NO_MEMORY;
    if (part == NULL || part->state == TUG_POOL_KNOWN)
        return true;
    if (part->state == TUG_POOL_UNKNOWN && !ask(part, place->owner, number)) {
        tug_deferred_retry(&array->deferred, work);
        return false;
    }
    work->next = part->waiting;
    part->waiting = work;
    return false;
}

struct tug_remote_address tug_pool_records(struct tug_array *array, uint32_t rank) {
    struct tug_array_pool *pool = pool_of(array, rank);
    if (pool != NULL && goes_mapped(array, pool))
        return (struct tug_remote_address){&pool->whole.key, array->records_at};
    struct tug_pool_part *part =
        pool != NULL && !array->cpu_atomics ? part_of(array, pool, array->nparts) : NULL;
    if (part == NULL || (part->state == TUG_POOL_UNKNOWN && !ask(part, rank, array->nparts)) ||
        part->state != TUG_POOL_KNOWN || part->status != 0 || part->at.key.word[0] == 0 ||
        tug_context_shortcut(array->context, rank, &part->at.key) == TUG_SHORTCUT_NONE)
        return (struct tug_remote_address){0};
    return (struct tug_remote_address){&part->at.key, 0};
}

struct tug_remote_address tug_pool_there(const struct tug_array *array,
                                         const struct tug_page_slot *place, size_t offset) {
    const struct tug_array_pool *pool = array->pools[place->owner];
    const struct tug_pool_part *part =
        pool->parts != NULL ? pool->parts[place->slot / array->part_slots] : NULL;
    const struct tug_pool_key *at =
        part != NULL && part->state == TUG_POOL_KNOWN ? &part->at : &pool->whole;
    return (struct tug_remote_address){&at->key,
                                       (place->slot - at->first) * array->page_bytes + offset};
}

/* ---- forgetting ---- */

struct forgetting {
    struct tug_array *array;
    bool empty[TUG_POOL_PARTS]; /* of this process's parts */
};

static void forget_others(void *argument) {
    struct forgetting *forgetting = argument;
    struct tug_array *array = forgetting->array;
    uint32_t used[TUG_POOL_PARTS];
    tug_slots_count(array, used);
    for (uint32_t i = 0; i < array->nparts; i++)
        forgetting->empty[i] = used[i] == 0;
    for (struct tug_array_pool *pool = array->first_pool; pool != NULL; pool = pool->next)
        for (uint32_t i = 0; pool->parts != NULL && i < array->nparts; i++)
            if (pool != array->pools[array->rank] && pool->parts[i] != NULL &&
                pool->parts[i]->state == TUG_POOL_KNOWN)
                pool->parts[i]->state = TUG_POOL_UNKNOWN;
}

void tug_pools_forget(struct tug_array *array) {
    struct forgetting forgetting = {.array = array};
    struct tug_pool_part **parts = array->pools[array->rank]->parts;
    tug_engine_call(forget_others, &forgetting);
    for (uint32_t i = 0; parts != NULL && i < array->nparts; i++)
        if (forgetting.empty[i] && parts[i] != NULL &&
            (array->registered[i] == NULL || tug_mem_deregister(&array->registered[i]) == 0))
            parts[i]->state = TUG_POOL_UNKNOWN;
}

/* ---- beginning and end ---- */

/* Memory for the first pages of this process, and for records. Other slots take theirs when pages
 * come. */
static bool make_real(struct tug_array *array, size_t records) {
    unsigned char *base = tug_mem_address(array->pool);
    const size_t share = tug_array_share(array);
    if (!tug_shm_populate(base, share * array->page_bytes, "an array") ||
        !tug_shm_populate(base + array->records_at, records, "an array"))
        return false;
    memset(base, 0, share * array->page_bytes); /* of a process alone on its node: from malloc */
    memset(base + array->records_at, 0, records);
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
        pool->whole.key = keys[i];
        if (rank == array->rank || maps)
            pool->mapped = tug_mem_map(array->context, &keys[i]);
    }
    return true;
}

/* The parts that have pages from the beginning: to pin them takes time. */
static void tell_of_first(struct tug_array *array) {
    const size_t share = tug_array_share(array);
    for (uint32_t i = 0; i * array->part_slots < share; i++)
        (void)tell_of(array, i);
    (void)tell_of(array, array->nparts);
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
    if (status == 0 && (uint32_t)size < array->nranks)
        tell_of_first(array);
    return status;
}

int tug_pools_open(struct tug_array *array) {
    const size_t records = array->nhomed * sizeof(struct tug_page_record);
    const MPI_Comm comm = tug_context_comm(array->context);
    size_t bytes;
    if (__builtin_mul_overflow(array->nslots, array->page_bytes, &array->records_at) ||
        __builtin_add_overflow(array->records_at, records, &bytes))
        return TUG_ERR_NO_MEMORY;
    int status = tug_mem_reserve(array->context, bytes, 0, &array->pool);
    if (status != 0)
        return status;
    if (!tug_all_agree(comm, make_real(array, records)))
        return TUG_ERR_NO_MEMORY;
    tug_array_receive(array, TUG_CALL_POOL, on_pool);
    status = meet_node(array);
    return tug_all_agree(comm, status == 0) ? 0 : status != 0 ? status : TUG_ERR_NO_MEMORY;
}

void tug_pools_close(struct tug_array *array) {
    struct tug_array_pool *pool = array->first_pool;
    while (pool != NULL) {
        struct tug_array_pool *next = pool->next;
        for (uint32_t i = 0; pool->parts != NULL && i <= array->nparts; i++)
            free(pool->parts[i]);
        free((void *)pool->parts);
        free(pool);
        pool = next;
    }
    free((void *)array->pools);
}
