/* Relocatable global arrays: creation and end, on the program's thread. */
#include "gas/array.h"

#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "host/agreement.h"
#include "host/host.h"
#include "host/polite.h"
#include "llcl/llcl.h"

#define SPARE_SLOTS 64

/* ---- first places ---- */

uint64_t tug_array_first_page(size_t npages, uint32_t nranks, uint32_t rank) {
    const size_t share = npages / nranks, rest = npages % nranks;
    return rank * share + (rank < rest ? rank : rest);
}

static uint32_t block_owner(size_t npages, uint32_t nranks, uint64_t page) {
    const size_t share = npages / nranks, rest = npages % nranks;
    if (page < rest * (share + 1))
        return (uint32_t)(page / (share + 1));
    return (uint32_t)(rest + (page - rest * (share + 1)) / share);
}

struct tug_page_slot tug_array_first_place(const struct tug_array *array,
                                           enum tug_placement placement, uint64_t page) {
    if (placement == TUG_PLACE_CYCLIC)
        return (struct tug_page_slot){.owner = (uint32_t)(page % array->nranks),
                                      .slot = (uint32_t)(page / array->nranks)};
    const uint32_t owner = block_owner(array->npages, array->nranks, page);
    return (struct tug_page_slot){
        .owner = owner,
        .slot = (uint32_t)(page - tug_array_first_page(array->npages, array->nranks, owner))};
}

/* This process's pages, open for puts; the slots that are left. */
static void place_own_pages(struct tug_array *array, enum tug_placement placement) {
    const bool cyclic = placement == TUG_PLACE_CYCLIC;
    uint64_t page =
        cyclic ? array->rank : tug_array_first_page(array->npages, array->nranks, array->rank);
    const uint64_t end = cyclic
                             ? array->npages
                             : tug_array_first_page(array->npages, array->nranks, array->rank + 1);
    size_t taken = 0;
    for (; page < end; page += cyclic ? array->nranks : 1, taken++) {
        const struct tug_page_slot place = tug_array_first_place(array, placement, page);
        array->slot_pages[place.slot] = page;
        struct tug_page *entry = tug_pages_take(&array->pages, page, true);
        tug_pages_set(&array->pages, entry, &place, tug_array_address(array, &place));
        tug_page_open(entry);
    }
    tug_slots_open(array, taken);
}

/* ---- creation ---- */

static bool valid(const struct tug_array_params *params) {
    const size_t page = params->page_bytes;
    return (unsigned)params->moves <= TUG_MOVES_AUTOMATIC && params->size_in_bytes > 0 &&
           (params->size_most == 0 || params->size_most >= params->size_in_bytes) &&
           params->size_most < PTRDIFF_MAX && params->size_in_bytes < PTRDIFF_MAX && page >= 64 &&
           page <= (size_t)1 << 30 && page % 8 == 0 &&
           (params->placement == TUG_PLACE_BLOCK || params->placement == TUG_PLACE_CYCLIC);
}

/* An agreement that the others may have to be served for. */
struct vote {
    struct tug_pending pending;
    tug_context *context;
};

static bool is_taken(void *argument) {
    struct vote *vote = argument;
    tug_progress(vote->context);
    return tug_pending_is_over(&vote->pending);
}

/* The largest of each word. False: MPI could not tell. */
static bool find_largest(struct tug_array *array, const int64_t mine[], int64_t all[], int n) {
    MPI_Request request;
    struct vote vote = {{.request = &request, .status = MPI_STATUS_IGNORE}, array->context};
    if (tug_host.Iallreduce(mine, all, n, MPI_INT64_T, MPI_MAX, tug_context_comm(array->context),
                            &request) != MPI_SUCCESS)
        return false;
    tug_polite_until(is_taken, &vote);
    return vote.pending.error == MPI_SUCCESS;
}

bool tug_array_agree(struct tug_array *array, bool mine) {
    const int64_t refused = !mine;
    int64_t any = 1;
    return find_largest(array, &refused, &any, 1) && any == 0;
}

bool tug_array_alike(struct tug_array *array, const uint64_t facts[], int n) {
    int64_t mine[2 * TUG_ARRAY_FACTS], all[2 * TUG_ARRAY_FACTS];
    for (int i = 0; i < n; i++) {
        mine[i] = (int64_t)facts[i];
        mine[n + i] = ~mine[i];
    }
    return find_largest(array, mine, all, 2 * n) &&
           memcmp(all, mine, 2 * (size_t)n * sizeof(*all)) == 0;
}

/* Are the parameters valid, and the same on all processes? Collective. */
static bool agree_on(struct tug_array *array, const struct tug_array_params *params, bool usable) {
    uint64_t facts[TUG_ARRAY_FACTS] = {0};
    if (usable && valid(params)) {
        const uint64_t theirs[TUG_ARRAY_FACTS] = {
            params->size_in_bytes, params->page_bytes, params->placement,
            params->pages_most,    params->places,     params->copies_most,
            params->home != NULL,  params->size_most,  params->moves};
        memcpy(facts, theirs, sizeof(facts));
    }
    return tug_array_alike(array, facts, TUG_ARRAY_FACTS) && facts[0] != 0;
}

/* The parts that cards are told of. */
static void cut_pool(struct tug_array *array) {
    const size_t least = (TUG_POOL_PART_LEAST - 1) / array->page_bytes + 1;
    const size_t share = (array->nslots - 1) / TUG_POOL_PARTS + 1;
    array->part_slots = (uint32_t)(least > share ? least : share);
    array->nparts = (uint32_t)((array->nslots - 1) / array->part_slots + 1);
}

/* What follows from the parameters. False: they do not fit together. */
static bool measure(struct tug_array *array, const struct tug_array_params *params) {
    array->rank = (uint32_t)tug_context_rank(array->context);
    array->nranks = (uint32_t)tug_context_size(array->context);
    array->follow.on = params->moves == TUG_MOVES_AUTOMATIC ||
                       (params->moves == TUG_MOVES_BY_SETTING && tug_settings.array_moves);
    tug_rent_open(&array->follow.rent, params->page_bytes);
    array->cpu_atomics = tug_context_cpu_atomics(array->context);
    array->bytes = params->size_in_bytes;
    array->page_bytes = params->page_bytes;
    array->by_page = tug_divisor(params->page_bytes);
    array->npages = (params->size_in_bytes - 1) / params->page_bytes + 1;
    array->npages_most = params->size_most > params->size_in_bytes
                             ? (params->size_most - 1) / params->page_bytes + 1
                             : array->npages;
    const size_t share = tug_array_share(array);
    const size_t last = (array->npages_most - 1) / array->nranks + 1;
    size_t most = params->pages_most != 0 ? params->pages_most : 2 * last + SPARE_SLOTS;
    array->nslots = most < array->npages_most ? most : array->npages_most;
    cut_pool(array);
    return array->nslots >= share && array->nslots < UINT32_MAX;
}

/* See array.h: half of the operations. */
static uint32_t count_orders(uint32_t noperations) {
    uint32_t norders = TUG_ARRAY_ORDERS;
    while (norders > 1 && 2 * TUG_ORDER_TASKS * norders > noperations)
        norders /= 2;
    return norders;
}

struct tug_array_footprint tug_array_footprint(uint32_t noperations) {
    const size_t part = sizeof(struct tug_pool_part *) + sizeof(struct tug_pool_part);
    return (struct tug_array_footprint){
        .bare = sizeof(struct tug_array),
        .norders = count_orders(noperations),
        .order = sizeof(struct tug_order) + sizeof(uint32_t),
        .pointer = sizeof(struct tug_array_pool *),
        .pool = sizeof(struct tug_array_pool) + part,
        .part = part,
        .entry = sizeof(struct tug_page) + sizeof(struct tug_page *),
        .slot = sizeof(*(struct tug_array){0}.free_slots) + sizeof(*(struct tug_array){0}.real) +
                sizeof(*(struct tug_array){0}.slot_pages),
        .record = tug_home_footprint(),
    };
}

static int make_tables(struct tug_array *array, const struct tug_array_params *params) {
    const uint32_t norders = count_orders(tug_context_operations(array->context));
    array->pools = calloc(array->nranks, sizeof(*array->pools));
    array->free_slots = calloc(array->nslots, sizeof(*array->free_slots));
    array->real = calloc(array->nslots, 1);
    array->slot_pages = calloc(array->nslots, sizeof(*array->slot_pages));
    array->orders = calloc(norders, sizeof(*array->orders));
    if (array->pools == NULL || array->free_slots == NULL || array->real == NULL ||
        array->slot_pages == NULL || array->orders == NULL)
        return TUG_ERR_NO_MEMORY;
    size_t foreign = params->places != 0 ? params->places : TUG_ARRAY_PLACES;
    if (foreign > array->npages_most)
        foreign = array->npages_most;
    int status = tug_tags_init(&array->tags, norders);
    if (status == 0)
        status = tug_pages_init(&array->pages, foreign, array->nslots, array->rank);
    if (status == 0)
        status = tug_home_open(array, params->placement);
    if (status == 0 && params->copies_most > 0)
        status = tug_copies_open(array, params->copies_most);
    return status;
}

static void destroy(struct tug_array *array) {
    if (array->context != NULL)
        (void)tug_context_free(&array->context);
    tug_copies_close(array);
    tug_home_close(array);
    tug_pages_fini(&array->pages);
    tug_tags_fini(&array->tags);
    free(array->orders);
    free(array->real);
    free(array->slot_pages);
    free(array->free_slots);
    tug_pools_close(array);
    free(array->homes);
    free(array);
}

static int build(struct tug_array *array, const struct tug_array_params *params, bool usable) {
    if (!agree_on(array, params, usable))
        return TUG_ERR_INVALID;
    MPI_Comm comm = tug_context_comm(array->context);
    if (!tug_all_agree(comm, measure(array, params)))
        return TUG_ERR_INVALID;
    int status = tug_array_find_homes(array, params);
    if (status != 0)
        return status;
    if (!tug_all_agree(comm, make_tables(array, params) == 0))
        return TUG_ERR_NO_MEMORY;
    return tug_pools_open(array);
}

/* With the context, which MPI_Finalize may end. */
static void close_deferred(void *d) {
    struct tug_array *array = d;
    tug_deferred_close(&array->deferred);
}

int tug_array_create(MPI_Comm comm, const struct tug_array_params *params, tug_array **result) {
    tug_context *context = NULL;
    int status = tug_context_create(comm, &context);
    if (status != 0)
        return status;
    struct tug_array *array = calloc(1, sizeof(*array));
    if (!tug_all_agree(tug_context_comm(context), array != NULL)) {
        (void)tug_context_free(&context);
        free(array);
        return TUG_ERR_NO_MEMORY;
    }
    array->context = context;
    status = build(array, params, params != NULL && result != NULL);
    if (status != 0) {
        destroy(array);
        return status;
    }
    tug_order_register(array);
    tug_home_show(array);
    place_own_pages(array, params->placement);
    tug_deferred_open(&array->deferred);
    tug_context_set_end(context, close_deferred, array);
    /* nobody calls one who is not listening */
    (void)tug_all_agree(tug_context_comm(context), true);
    *result = array;
    return 0;
}

/* ---- messages ---- */

#define WHAT "a message about an array"

void tug_array_refuse(struct tug_array *array, struct tug_caller caller) {
    tug_message_complain(caller.process, WHAT);
    tug_answer(array->context, caller, NULL, 0);
}

int tug_array_status(int status, uint32_t process, int32_t told, bool right) {
    return status != 0 ? status : tug_message_status((int)process, WHAT, told, right);
}

static size_t bytes_of(enum tug_gas_call kind) {
    switch (kind) {
    case TUG_CALL_ASK:
    case TUG_CALL_MOVE:
        return sizeof(struct tug_question);
    case TUG_CALL_POOL:
        return sizeof(uint32_t);
    default:
        return sizeof(struct tug_message);
    }
}

static void take_call(tug_context *context, struct tug_caller caller, const void *payload,
                      size_t bytes, void *d) {
    const struct tug_receiver *receiver = d;
    struct tug_array *array = receiver->array;
    (void)context;
    if (bytes != bytes_of((enum tug_gas_call)(receiver - array->receivers)) ||
        !receiver->receive(array, caller, payload))
        tug_array_refuse(array, caller);
}

void tug_array_receive(struct tug_array *array, enum tug_gas_call kind, tug_receive receive) {
    array->receivers[kind] = (struct tug_receiver){array, receive};
    (void)tug_call_register(array->context, kind, take_call, &array->receivers[kind]);
}

/* ---- the end ---- */

static bool nothing_is_out(void *d) {
    struct tug_array *array = d;
    return atomic_load(&array->orders_out) == 0;
}

void tug_array_settle(struct tug_array *array) {
    tug_wait(array->context, nothing_is_out, array);
}

int tug_array_free(tug_array **handle) {
    if (handle == NULL || *handle == NULL)
        return TUG_ERR_INVALID;
    struct tug_array *array = *handle;
    tug_array_settle(array);
    if (!tug_array_agree(array, atomic_load(&array->holds) == 0))
        return TUG_ERR_STATE;
    destroy(array);
    *handle = NULL;
    return 0;
}

/* ---- facts ---- */

size_t tug_array_size(const tug_array *array) {
    return array != NULL ? array->bytes : 0;
}

size_t tug_array_page_bytes(const tug_array *array) {
    return array != NULL ? array->page_bytes : 0;
}

size_t tug_array_pages(const tug_array *array) {
    return array != NULL ? array->npages : 0;
}
