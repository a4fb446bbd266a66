#include "gas/pages.h"

#include <stdlib.h>

#include "gas/array.h"

int tug_pages_init(struct tug_pages *pages, size_t foreign, size_t own, uint32_t self) {
    size_t nbuckets = 64;
    *pages = (struct tug_pages){
        .nentries = foreign + own, .foreign_most = foreign, .self = self, .shift = 64 - 6};
    while (nbuckets < pages->nentries) {
        nbuckets *= 2;
        pages->shift--;
    }
    pages->buckets = calloc(nbuckets, sizeof(*pages->buckets));
    /* aligned_alloc() wants a multiple of the alignment */
    pages->entries =
        aligned_alloc(128, (pages->nentries * sizeof(*pages->entries) + 127) / 128 * 128);
    if (pages->buckets == NULL || pages->entries == NULL) {
        tug_pages_fini(pages);
        return TUG_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < pages->nentries; i++) {
        struct tug_page *entry = &pages->entries[i];
        *entry = (struct tug_page){.page = TUG_NO_PAGE, .owner = TUG_NO_OWNER};
        atomic_init(&entry->writers, TUG_WRITERS_NO_PUTS);
        entry->after = pages->free;
        pages->free = entry;
    }
    return 0;
}

void tug_pages_fini(struct tug_pages *pages) {
    free((void *)pages->buckets);
    free(pages->entries);
    *pages = (struct tug_pages){0};
}

/* ---- the cycle of others' pages ---- */

static void cycle_add(struct tug_pages *pages, struct tug_page *entry) {
    struct tug_page *hand = pages->hand;
    if (hand == NULL) {
        pages->hand = entry->before = entry->after = entry;
    } else { /* the new entry is the last that the hand reaches */
        entry->before = hand->before;
        entry->after = hand;
        hand->before->after = entry;
        hand->before = entry;
    }
    pages->nforeign++;
}

static void cycle_remove(struct tug_pages *pages, struct tug_page *entry) {
    entry->before->after = entry->after;
    entry->after->before = entry->before;
    if (pages->hand == entry)
        pages->hand = entry->after != entry ? entry->after : NULL;
    pages->nforeign--;
}

static bool idle(const struct tug_pages *pages, const struct tug_page *entry) {
    return atomic_load_explicit(&entry->owner, memory_order_relaxed) != pages->self &&
           !entry->asking && !entry->stopping && !entry->changing && !entry->coming &&
           entry->gets == 0 && entry->first == NULL;
}

static void unlink_from_bucket(struct tug_pages *pages, struct tug_page *entry) {
    uint64_t page = atomic_load_explicit(&entry->page, memory_order_relaxed);
    struct tug_page *_Atomic *at = &pages->buckets[tug_pages_bucket(pages, page)];
    struct tug_page *there;
    while ((there = atomic_load_explicit(at, memory_order_relaxed)) != entry)
        at = &there->chain;
    /* release: pairs with the acquires in tug_pages_find() */
    atomic_store_explicit(at, atomic_load_explicit(&entry->chain, memory_order_relaxed),
                          memory_order_release);
}

bool tug_pages_forget(struct tug_pages *pages, struct tug_page *entry) {
    uint64_t none = TUG_NO_PAGE;
    if (atomic_load_explicit(&entry->page, memory_order_relaxed) == none)
        return true;
    uint32_t writers = atomic_load_explicit(&entry->writers, memory_order_relaxed);
    if (!idle(pages, entry) || (writers & TUG_WRITERS_COUNT) != 0 ||
        /* seq_cst: a put that comes now finds NO_PUTS, or this finds the put */
        !atomic_compare_exchange_strong(&entry->writers, &writers, TUG_WRITERS_NO_PUTS))
        return false;
    tug_seqlock_begin(&entry->lock);
    unlink_from_bucket(pages, entry);
    atomic_store_explicit(&entry->page, none, memory_order_relaxed);
    atomic_store_explicit(&entry->owner, TUG_NO_OWNER, memory_order_relaxed);
    atomic_store_explicit(&entry->address, NULL, memory_order_relaxed);
    tug_seqlock_end(&entry->lock);
    entry->puts_from = entry->rent_ns = entry->idle_ns = 0;
    entry->least = entry->patience = 0;
    cycle_remove(pages, entry);
    entry->after = pages->free;
    pages->free = entry;
    return true;
}

/* The hand goes round twice: in the first round all entries may have been used lately. */
static bool forget_one(struct tug_pages *pages) {
    for (size_t steps = 2 * pages->nforeign; steps > 0; steps--) {
        struct tug_page *entry = pages->hand;
        pages->hand = entry->after;
        if (atomic_load_explicit(&entry->used, memory_order_relaxed) != 0)
            atomic_store_explicit(&entry->used, 0, memory_order_relaxed);
        else if (tug_pages_forget(pages, entry))
            return true;
    }
    return false;
}

/* Makes room for another page of others'. False: there is none. */
static bool make_room(struct tug_pages *pages) {
    /* pages of this process that moved away have made it too many: forgets two for each new one */
    for (int i = 0; i < 2 && pages->nforeign >= pages->foreign_most; i++)
        if (!forget_one(pages) && i == 0)
            return false;
    return true;
}

struct tug_page *tug_pages_take(struct tug_pages *pages, uint64_t page, bool comes) {
    if (comes ? pages->free == NULL && !forget_one(pages) : !make_room(pages))
        return NULL;
    struct tug_page *entry = pages->free;
    pages->free = entry->after;
    cycle_add(pages, entry);
    struct tug_page *_Atomic *bucket = &pages->buckets[tug_pages_bucket(pages, page)];
    tug_seqlock_begin(&entry->lock);
    atomic_store_explicit(&entry->page, page, memory_order_relaxed);
    /* release, twice: pair with the acquires in tug_pages_find() */
    atomic_store_explicit(&entry->chain, atomic_load_explicit(bucket, memory_order_relaxed),
                          memory_order_release);
    atomic_store_explicit(bucket, entry, memory_order_release);
    tug_seqlock_end(&entry->lock);
    tug_page_touch(entry);
    return entry;
}

void tug_pages_set(struct tug_pages *pages, struct tug_page *entry,
                   const struct tug_page_slot *place, unsigned char *address) {
    const bool was_own = atomic_load_explicit(&entry->owner, memory_order_relaxed) == pages->self;
    if (was_own && place->owner != pages->self)
        cycle_add(pages, entry);
    else if (!was_own && place->owner == pages->self)
        cycle_remove(pages, entry);
    tug_seqlock_begin(&entry->lock);
    entry->place = *place;
    atomic_store_explicit(&entry->owner, place->owner, memory_order_relaxed);
    atomic_store_explicit(&entry->address, address, memory_order_relaxed);
    tug_seqlock_end(&entry->lock);
}

/* ---- writers ---- */

void tug_page_tell(struct tug_page *entry) {
    if (!atomic_exchange(&entry->told, true))
        tug_deferred_post(&entry->array->deferred, &entry->work);
}

bool tug_page_stop(struct tug_page *entry) {
    uint32_t before = atomic_fetch_or(&entry->writers, TUG_WRITERS_NO_PUTS | TUG_WRITERS_AWAITED);
    if ((before & TUG_WRITERS_COUNT) != 0)
        return false;
    atomic_fetch_and(&entry->writers, ~TUG_WRITERS_AWAITED);
    return true;
}

void tug_page_open(struct tug_page *entry) {
    /* release: pairs with tug_page_enter(), which then reads the place */
    atomic_fetch_and(&entry->writers, ~(TUG_WRITERS_NO_PUTS | TUG_WRITERS_AWAITED));
}
