#include "rma/book.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_WORDS (sizeof(struct tug_region) / sizeof(uint64_t))
#define OFFER_WORDS (sizeof(struct tug_offer) / sizeof(uint64_t))
#define GROWTH 8u
/* Some 20 us: the longest change, with ten thousand regions, takes less. */
#define LOOKS_MOST 500u

struct entry {
    _Atomic uint64_t words[ENTRY_WORDS]; /* of a struct tug_region */
};

/* A page as this process has it. */
struct tug_book_page {
    struct tug_book_page *older;
    uint32_t number, size;
    struct entry *entries; /* [size]; NULL: it cannot be read here */
    _Atomic uint64_t *bases;
    _Atomic uint32_t *slots; /* behind the first n: those that are free again */
    void *memory;            /* it, if this process has made it */
    struct tug_offer offer;  /* where it is in lent memory; all zeros: it is not, or not open */
};

static struct tug_book_head *head_of(struct tug_book *book) {
    return book->room != NULL ? &book->room->head : &book->own;
}

/* NULL without memory. */
static struct tug_book_page *page_over(void *memory, uint32_t number, uint32_t size) {
    struct tug_book_page *page = calloc(1, sizeof(*page));
    if (page == NULL)
        return NULL;
    page->number = number;
    page->size = size;
    if (memory != NULL) {
        page->entries = memory;
        page->bases = (_Atomic uint64_t *)(page->entries + size);
        page->slots = (_Atomic uint32_t *)(page->bases + size);
    }
    return page;
}

static void free_page(struct tug_book_page *page) {
    if (page->memory == NULL && page->offer.name != 0)
        tug_lent_unshare(&page->offer);
    if (page->memory != NULL && !tug_lent_free(page->memory))
        free(page->memory);
    free(page);
}

void tug_book_close(struct tug_book *book) {
    struct tug_book_page *page = atomic_load(&book->page), *older;
    for (; page != NULL; page = older) {
        older = page->older;
        free_page(page);
    }
}

/* ---- reading ---- */

static void read_entry(const struct entry *entry, struct tug_region *region) {
    uint64_t words[ENTRY_WORDS] = {0};
    for (size_t i = 0; i < ENTRY_WORDS; i++)
        words[i] = atomic_load_explicit(&entry->words[i], memory_order_relaxed);
    memcpy(region, words, sizeof(words));
}

static uint32_t slot_at(const struct tug_book_page *page, uint32_t place) {
    return atomic_load_explicit(&page->slots[place], memory_order_relaxed);
}

/* During a change it may be that of another page. */
static uint32_t count_on(const struct tug_book_head *head, const struct tug_book_page *page) {
    const uint32_t n = atomic_load_explicit(&head->n, memory_order_relaxed);
    return n < page->size ? n : page->size;
}

/* How many of the regions begin at the address or below it. */
static uint32_t rank_in(const struct tug_book_head *head, const struct tug_book_page *page,
                        uint64_t address) {
    uint32_t low = 0, high = count_on(head, page);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (atomic_load_explicit(&page->bases[middle], memory_order_relaxed) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The place of the last region that begins at the address or below it and is not empty. */
static uint32_t last_below(const struct tug_book_head *head, const struct tug_book_page *page,
                           uint64_t address, struct tug_region *region) {
    for (uint32_t place = rank_in(head, page, address); place-- > 0;) {
        const uint32_t slot = slot_at(page, place);
        if (slot >= page->size) /* in the middle of a change */
            break;
        read_entry(&page->entries[slot], region);
        if (region->bytes > 0)
            return place;
    }
    return TUG_BOOK_NOWHERE;
}

/* The page of that number, which a neighbour has made. NULL: the book has been changed, or there is
 * no memory. */
static struct tug_book_page *open_page(struct tug_book *book, uint32_t version, uint32_t number) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct tug_book_room *room = book->room;
    struct tug_offer offer;
    uint64_t words[OFFER_WORDS];
    for (size_t i = 0; i < OFFER_WORDS; i++)
        words[i] = atomic_load_explicit(&room->head.where[i], memory_order_relaxed);
    memcpy(&offer, words, sizeof(offer));
    const uint32_t size = atomic_load_explicit(&room->head.size, memory_order_relaxed);
    if (!tug_seqlock_holds(&room->head.lock, version))
        return NULL;
    pthread_mutex_lock(&lock);
    struct tug_book_page *known = atomic_load_explicit(&book->page, memory_order_relaxed);
    struct tug_book_page *page = known != NULL && known->number >= number ? known : NULL;
    if (page == NULL) {
        void *memory = number == 1 ? room->first : NULL;
        if (offer.name != 0)
            memory = tug_lent_share(&offer);
        page = page_over(memory, number, size);
        if (page != NULL) {
            page->older = known;
            page->offer = memory != NULL ? offer : (struct tug_offer){0};
            /* release: pairs with the acquire in page_of() */
            atomic_store_explicit(&book->page, page, memory_order_release);
        }
    }
    pthread_mutex_unlock(&lock);
    return page != NULL && page->number == number ? page : NULL;
}

/* The page that the head names; NULL: look again. */
static struct tug_book_page *page_of(struct tug_book *book, uint32_t version, uint32_t number) {
    /* acquire: pairs with the release in open_page() and turn_page(): the page is filled in */
    struct tug_book_page *page = atomic_load_explicit(&book->page, memory_order_acquire);
    if (__builtin_expect(page != NULL && page->number == number, 1))
        return page;
    return book->room != NULL ? open_page(book, version, number) : NULL;
}

/* One look; TUG_BOOK_CANNOT_SAY if the page cannot be read. */
static enum tug_book_answer look_up(const struct tug_book_head *head,
                                    const struct tug_book_page *page, uint64_t address,
                                    struct tug_region *region) {
    if (page->entries == NULL)
        return TUG_BOOK_CANNOT_SAY;
    return last_below(head, page, address, region) != TUG_BOOK_NOWHERE &&
                   tug_region_holds(region, address)
               ? TUG_BOOK_HAS
               : TUG_BOOK_HAS_NOT;
}

enum tug_book_answer tug_book_find(struct tug_book *book, uint64_t address,
                                   struct tug_region *region) {
    const struct tug_book_head *head = head_of(book);
    for (unsigned looks = 0; looks < LOOKS_MOST; looks++) {
        const uint32_t version = tug_seqlock_read(&head->lock);
        const uint32_t number = atomic_load_explicit(&head->page, memory_order_relaxed);
        enum tug_book_answer answer = TUG_BOOK_HAS_NOT;
        const struct tug_book_page *page = number > 0 ? page_of(book, version, number) : NULL;
        if (page != NULL)
            answer = look_up(head, page, address, region);
        if (__builtin_expect(
                (page != NULL || number == 0) && tug_seqlock_holds(&head->lock, version), 1))
            return answer;
        tug_cpu_pause();
    }
    return TUG_BOOK_CANNOT_SAY;
}

/* ---- writing; holder only ---- */

/* NULL: nothing has been entered so far. */
static struct tug_book_page *own_page(struct tug_book *book) {
    return atomic_load_explicit(&book->page, memory_order_relaxed);
}

/* The page, which is new, takes the place of the older one; within a change. */
static void turn_page(struct tug_book *book, struct tug_book_page *page) {
    struct tug_book_head *head = head_of(book);
    uint64_t words[OFFER_WORDS];
    memcpy(words, &page->offer, sizeof(words));
    for (size_t i = 0; i < OFFER_WORDS; i++)
        atomic_store_explicit(&head->where[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&head->page, page->number, memory_order_relaxed);
    atomic_store_explicit(&head->size, page->size, memory_order_relaxed);
    /* release: pairs with the acquire in page_of() */
    atomic_store_explicit(&book->page, page, memory_order_release);
}

/* Memory for a page, which begins zeroed. NULL without. */
static void *page_memory(const struct tug_book *book, size_t bytes, struct tug_offer *offer) {
    void *memory = book->room != NULL ? tug_lent_allocate(bytes) : NULL;
    *offer = memory != NULL ? tug_lent_offer(memory, bytes) : (struct tug_offer){0};
    return memory != NULL ? memory : calloc(1, bytes);
}

/* NULL without memory. */
static struct tug_book_page *longer_page(struct tug_book *book, struct tug_book_page *than) {
    struct tug_offer offer = {0};
    void *memory = NULL;
    const uint32_t number = than == NULL ? 1 : than->number + 1;
    const uint32_t size = than == NULL ? TUG_BOOK_FIRST : than->size * GROWTH;
    const bool first = book->room != NULL && than == NULL;
    if (!first && (memory = page_memory(book, TUG_BOOK_PAGE_BYTES((size_t)size), &offer)) == NULL)
        return NULL;
    struct tug_book_page *longer = page_over(first ? book->room->first : memory, number, size);
    if (longer == NULL) {
        if (memory != NULL && !tug_lent_free(memory))
            free(memory);
        return NULL;
    }
    longer->older = than;
    longer->memory = memory;
    longer->offer = offer;
    return longer;
}

/* Room for one more; NULL without memory. */
static struct tug_book_page *make_room(struct tug_book *book) {
    struct tug_book_head *head = head_of(book);
    struct tug_book_page *page = own_page(book);
    if (page != NULL && count_on(head, page) < page->size)
        return page;
    struct tug_book_page *longer = longer_page(book, page);
    if (longer == NULL)
        return NULL;
    if (page != NULL) { /* which is full */
        memcpy(longer->entries, page->entries, page->size * sizeof(*page->entries));
        memcpy((void *)longer->bases, (void *)page->bases, page->size * sizeof(*page->bases));
        memcpy((void *)longer->slots, (void *)page->slots, page->size * sizeof(*page->slots));
    }
    tug_seqlock_begin(&head->lock);
    turn_page(book, longer);
    tug_seqlock_end(&head->lock);
    return longer;
}

static void move_place(const struct tug_book_page *page, uint32_t to, uint32_t from) {
    atomic_store_explicit(&page->bases[to],
                          atomic_load_explicit(&page->bases[from], memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&page->slots[to], slot_at(page, from), memory_order_relaxed);
}

uint32_t tug_book_enter(struct tug_book *book, const struct tug_region *region) {
    struct tug_book_head *head = head_of(book);
    struct tug_book_page *page = make_room(book);
    uint64_t words[ENTRY_WORDS];
    if (page == NULL)
        return TUG_BOOK_NOWHERE;
    memcpy(words, region, sizeof(words));
    const uint32_t n = count_on(head, page), place = rank_in(head, page, region->base);
    const uint32_t slot = n < book->used ? slot_at(page, n) : book->used++;
    tug_seqlock_begin(&head->lock);
    for (size_t i = 0; i < ENTRY_WORDS; i++)
        atomic_store_explicit(&page->entries[slot].words[i], words[i], memory_order_relaxed);
    for (uint32_t i = n; i > place; i--)
        move_place(page, i, i - 1);
    atomic_store_explicit(&page->bases[place], region->base, memory_order_relaxed);
    atomic_store_explicit(&page->slots[place], slot, memory_order_relaxed);
    atomic_store_explicit(&head->n, n + 1, memory_order_relaxed);
    tug_seqlock_end(&head->lock);
    return slot;
}

/* The region's slot. */
static uint32_t take_out(struct tug_book *book, uint32_t place) {
    struct tug_book_head *head = head_of(book);
    struct tug_book_page *page = own_page(book);
    const uint32_t slot = slot_at(page, place), n = count_on(head, page) - 1;
    tug_seqlock_begin(&head->lock);
    for (uint32_t i = place; i < n; i++)
        move_place(page, i, i + 1);
    atomic_store_explicit(&page->slots[n], slot, memory_order_relaxed);
    atomic_store_explicit(&head->n, n, memory_order_relaxed);
    tug_seqlock_end(&head->lock);
    return slot;
}

uint32_t tug_book_take_out(struct tug_book *book, uint64_t base) {
    const struct tug_book_head *head = head_of(book);
    const struct tug_book_page *page = own_page(book);
    if (page == NULL)
        return TUG_BOOK_NOWHERE;
    const uint32_t place = base == 0 ? 0 : rank_in(head, page, base - 1);
    if (place == count_on(head, page) ||
        atomic_load_explicit(&page->bases[place], memory_order_relaxed) != base)
        return TUG_BOOK_NOWHERE;
    return take_out(book, place);
}

/* The place of the last region that overlaps the bytes. */
static uint32_t last_within(struct tug_book *book, uint64_t base, uint64_t bytes) {
    const struct tug_book_page *page = own_page(book);
    struct tug_region region;
    if (page == NULL || bytes == 0)
        return TUG_BOOK_NOWHERE;
    const uint32_t place = last_below(head_of(book), page, base + bytes - 1, &region);
    return place != TUG_BOOK_NOWHERE && region.base + region.bytes > base ? place
                                                                          : TUG_BOOK_NOWHERE;
}

uint32_t tug_book_slot(struct tug_book *book, uint64_t address, struct tug_region *region) {
    const uint32_t place = last_within(book, address, 1);
    if (place == TUG_BOOK_NOWHERE)
        return TUG_BOOK_NOWHERE;
    const struct tug_book_page *page = own_page(book);
    read_entry(&page->entries[slot_at(page, place)], region);
    return slot_at(page, place);
}

bool tug_book_overlaps(struct tug_book *book, uint64_t base, uint64_t bytes) {
    return last_within(book, base, bytes) != TUG_BOOK_NOWHERE;
}

void tug_book_strike_out(struct tug_book *book, uint64_t base, uint64_t bytes) {
    uint32_t place;
    while ((place = last_within(book, base, bytes)) != TUG_BOOK_NOWHERE)
        (void)take_out(book, place);
}
