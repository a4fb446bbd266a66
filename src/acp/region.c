/* This process's registrations: a table by key number, and the entries that others read.
 *
 * A region is live from acp_register_memory() to acp_unregister_memory(). Who uses it pins it for
 * the moment in which an operation is handed to LLCL, which from then on keeps the registration;
 * who ends it first takes `live` away and waits for the pins. Number 0 is the starter memory, which
 * lives as long as ACP and needs no pins. Numbers that are free queue up, so that each is used
 * again as late as can be.
 *
 * The entries (address.h) stand in front of starter memory, under the same key: that of number n is
 * the n-th; behind them stand the starter keys of this rank's group, of which a leader alone uses
 * more than the first. The holder of the baton alone writes entries, since it serves packets that
 * read them.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "acp/layer.h"
#include "base/settings.h"

#define LIVE 0x80000000u /* in state; below: pins */

struct region {
    _Atomic uint32_t state;
    uint32_t generation;
    tug_registration *registration;
    unsigned char *base;
    size_t bytes;
    uint32_t color;
    struct tug_acp_entry *entry;
    struct tug_key key; /* this process's own copy: peers can write to the entry */
};

static struct region regions[TUG_ACP_KEYS];
static uint32_t free_numbers[TUG_ACP_KEYS]; /* a ring */
static uint32_t first_free, nfree;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* registering and its end */

/* ---- beginning and end ---- */

/* What others read, and without a registration no key. */
static void publish(void *argument) {
    struct region *region = argument;
    region->key = (struct tug_key){{0}};
    if (region->registration != NULL)
        tug_mem_key(region->registration, &region->key);
    tug_acp_entry_write(region->entry, &region->key);
}

static void fill(struct region *region, tug_registration *registration, uint32_t color) {
    const size_t front = region == regions ? tug_acp.front_bytes : 0;
    tug_mem_set_port(registration, color);
    region->registration = registration;
    region->color = color;
    region->base = (unsigned char *)tug_mem_address(registration) + front;
    __atomic_store_n(&region->bytes, tug_mem_size(registration) - front, __ATOMIC_RELAXED);
    region->generation++;
    region->entry = tug_acp.entries + (region - regions);
    tug_engine_call(publish, region);
    /* release: pairs with the acquire in pin, whoever sees it live reads what was written above */
    (void)atomic_fetch_or_explicit(&region->state, LIVE, memory_order_release);
}

int tug_acp_regions_open(uint32_t group) {
    tug_registration *starter;
    const size_t bytes = (TUG_ACP_KEYS + (size_t)group) * sizeof(struct tug_acp_entry);
    tug_acp.front_bytes = (bytes | 4095) + 1; /* the same on all ranks, whatever their pages */
    int status =
        tug_mem_allocate(tug_acp.context, tug_acp.front_bytes + tug_acp_starter_bytes(), &starter);
    if (status != 0)
        return status;
    tug_acp.entries = tug_mem_address(starter);
    fill(&regions[0], starter, 0);
    first_free = 0;
    nfree = TUG_ACP_KEYS - 1;
    for (uint32_t i = 0; i < nfree; i++)
        free_numbers[i] = i + 1;
    return 0;
}

/* The context ends the registrations. */
void tug_acp_regions_close(void) {
    for (uint32_t i = 0; i < TUG_ACP_KEYS; i++)
        atomic_store_explicit(&regions[i].state, 0, memory_order_relaxed);
}

/* ---- using ---- */

static bool within(const struct region *region, uint64_t offset, uint64_t bytes) {
    /* relaxed: may be read while the region is made anew, by who has not pinned it */
    size_t all = __atomic_load_n(&region->bytes, __ATOMIC_RELAXED);
    return offset <= all && bytes <= all - offset;
}

int tug_acp_pin(acp_ga_t ga, uint64_t bytes, struct tug_acp_pinned *pinned) {
    uint32_t number = tug_acp_ga_number(ga);
    uint64_t offset = tug_acp_ga_offset(ga);
    struct region *region = &regions[number];
    /* acquire: pairs with the release in fill; and what follows does not come before the pin */
    if (number != 0 &&
        !(atomic_fetch_add_explicit(&region->state, 1, memory_order_acquire) & LIVE)) {
        (void)atomic_fetch_sub_explicit(&region->state, 1, memory_order_relaxed);
        return TUG_ERR_KEY;
    }
    pinned->number = number;
    if (!within(region, offset, bytes)) {
        tug_acp_unpin(pinned);
        return TUG_ERR_RANGE;
    }
    pinned->registration = region->registration;
    pinned->address = region->base + offset;
    pinned->offset = tug_acp_offset(ga);
    pinned->key = region->key;
    return 0;
}

void tug_acp_unpin(const struct tug_acp_pinned *pinned) {
    /* release: pairs with the acquire in unregister, which then ends the registration */
    if (pinned->number != 0)
        (void)atomic_fetch_sub_explicit(&regions[pinned->number].state, 1, memory_order_release);
}

/* ---- registering ---- */

static acp_atkey_t atkey_of(uint32_t number) {
    const struct region *region = &regions[number];
    return tug_acp_ga(tug_acp.rank, region->color, number, region->generation);
}

/* The number of a live key of ours, or 0. */
static uint32_t number_of(acp_atkey_t atkey) {
    uint32_t number = tug_acp_ga_number(atkey);
    bool ours = number != 0 && atkey == atkey_of(number) &&
                atomic_load_explicit(&regions[number].state, memory_order_acquire) & LIVE;
    return ours ? number : 0;
}

static int register_at(void *address, size_t bytes, uint32_t color, acp_atkey_t *atkey) {
    if (nfree == 0)
        return TUG_ERR_FULL;
    tug_registration *registration;
    int status = tug_mem_register(tug_acp.context, address, bytes, &registration);
    if (status != 0)
        return status;
    uint32_t number = free_numbers[first_free];
    first_free = (first_free + 1) % TUG_ACP_KEYS;
    nfree--;
    fill(&regions[number], registration, color);
    *atkey = atkey_of(number);
    return 0;
}

acp_atkey_t acp_register_memory(void *address, size_t size_in_bytes, int color) {
    acp_atkey_t atkey = ACP_ATKEY_NULL;
    int status = 0;
    if (!tug_acp_runs("acp_register_memory"))
        return ACP_ATKEY_NULL;
    if (address == NULL || size_in_bytes == 0 || (uint32_t)color >= tug_acp.ncolors)
        status = TUG_ERR_INVALID;
    else if (size_in_bytes > TUG_ACP_OFFSETS)
        status = TUG_ERR_RANGE;
    if (status == 0) {
        pthread_mutex_lock(&lock);
        status = register_at(address, size_in_bytes, (uint32_t)color, &atkey);
        pthread_mutex_unlock(&lock);
    }
    if (status != 0)
        tug_acp_fail("acp_register_memory", status);
    return atkey;
}

/* The region is not live any more: waits for what is under way in it. */
static void end(struct region *region) {
    /* acquire: pairs with the release in unpin */
    while (atomic_load_explicit(&region->state, memory_order_acquire) != 0)
        sched_yield();
    tug_registration *registration = region->registration;
    region->registration = NULL;
    tug_engine_call(publish, region);
    while (tug_mem_deregister(&registration) == TUG_ERR_STATE)
        tug_progress(tug_acp.context);
}

int acp_unregister_memory(acp_atkey_t atkey) {
    if (!tug_acp_runs("acp_unregister_memory"))
        return -1;
    pthread_mutex_lock(&lock);
    uint32_t number = number_of(atkey);
    if (number != 0)
        (void)atomic_fetch_and_explicit(&regions[number].state, ~LIVE, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    if (number == 0) {
        tug_acp_fail("acp_unregister_memory", TUG_ERR_KEY);
        return -1;
    }
    end(&regions[number]);
    pthread_mutex_lock(&lock);
    free_numbers[(first_free + nfree) % TUG_ACP_KEYS] = number;
    nfree++;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* ---- facts ---- */

acp_ga_t acp_query_ga(acp_atkey_t atkey, void *address) {
    if (!tug_acp_runs("acp_query_ga"))
        return ACP_GA_NULL;
    uint32_t number = number_of(atkey);
    const struct region *region = &regions[number];
    size_t offset = (uintptr_t)address - (uintptr_t)region->base;
    if (number == 0 || offset >= region->bytes) {
        tug_acp_fail("acp_query_ga", number == 0 ? TUG_ERR_KEY : TUG_ERR_RANGE);
        return ACP_GA_NULL;
    }
    return tug_acp_ga(tug_acp.rank, region->color, number, offset);
}

void *acp_query_address(acp_ga_t ga) {
    struct tug_acp_pinned pinned;
    if (!tug_acp_runs("acp_query_address"))
        return NULL;
    int status = TUG_ERR_INVALID;
    if (tug_acp_ga_rank(ga) == tug_acp.rank && tug_acp_ga_color(ga) < tug_acp.ncolors)
        status = tug_acp_pin(ga, 1, &pinned);
    if (status != 0) {
        tug_acp_fail("acp_query_address", status);
        return NULL;
    }
    tug_acp_unpin(&pinned);
    return pinned.address;
}
