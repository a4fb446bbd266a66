#include "rma/book.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_WORDS (sizeof(struct tug_region) / sizeof(uint64_t))
#define BASE_WORD (offsetof(struct tug_region, base) / sizeof(uint64_t))
#define PAGE_LEAST 4

struct entry {
    _Atomic uint64_t words[ENTRY_WORDS]; /* of a struct tug_region */
};

/* A book's regions, by address. A page that is full is replaced by one twice as long, and kept
 * until the book ends, for it may be being read. */
struct tug_book_page {
    struct tug_book_page *older;
    uint32_t size;
    _Atomic uint32_t n;
    struct entry entries[];
};

static void read_entry(const struct entry *entry, struct tug_region *region) {
    uint64_t words[ENTRY_WORDS] = {0};
    for (size_t i = 0; i < ENTRY_WORDS; i++)
        words[i] = atomic_load_explicit(&entry->words[i], memory_order_relaxed);
    memcpy(region, words, sizeof(words));
}

static void write_entry(struct entry *entry, const struct tug_region *region) {
    uint64_t words[ENTRY_WORDS];
    memcpy(words, region, sizeof(words));
    for (size_t i = 0; i < ENTRY_WORDS; i++)
        atomic_store_explicit(&entry->words[i], words[i], memory_order_relaxed);
}

/* How many of the regions begin at the address or below it. */
static uint32_t rank_in(const struct tug_book_page *page, uint64_t address) {
    uint32_t low = 0, high = atomic_load_explicit(&page->n, memory_order_relaxed);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct entry *entry = &page->entries[middle];
        if (atomic_load_explicit(&entry->words[BASE_WORD], memory_order_relaxed) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool tug_book_find(const struct tug_book *book, uint64_t address, struct tug_region *region) {
    for (;;) {
        const uint32_t version = tug_seqlock_read(&book->lock);
        /* acquire: pairs with the release in make_room(): the page is filled in */
        const struct tug_book_page *page = atomic_load_explicit(&book->page, memory_order_acquire);
        uint32_t position = page == NULL ? 0 : rank_in(page, address);
        if (position > 0)
            read_entry(&page->entries[position - 1], region);
        if (tug_seqlock_holds(&book->lock, version))
            return position > 0 && tug_region_holds(region, address);
    }
}

/* Moves the entries from `from` on to `to`; holder, within a change. */
static void move_entries(struct tug_book_page *page, uint32_t to, uint32_t from) {
    struct tug_region region;
    uint32_t n = atomic_load_explicit(&page->n, memory_order_relaxed), count = n - from;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = to < from ? i : count - 1 - i;
        read_entry(&page->entries[from + k], &region);
        write_entry(&page->entries[to + k], &region);
    }
    atomic_store_explicit(&page->n, to + count, memory_order_relaxed);
}

void tug_book_strike_out(struct tug_book *book, uint64_t base, uint64_t bytes) {
    struct tug_book_page *page = atomic_load_explicit(&book->page, memory_order_relaxed);
    struct tug_region region;
    if (page == NULL || bytes == 0)
        return;
    uint32_t end = rank_in(page, base + bytes - 1), first = end;
    for (; first > 0; first--) {
        read_entry(&page->entries[first - 1], &region);
        if (region.base + region.bytes <= base)
            break;
    }
    if (first == end)
        return;
    tug_seqlock_begin(&book->lock);
    move_entries(page, first, end);
    tug_seqlock_end(&book->lock);
}

/* Room for one more; NULL without memory. */
static struct tug_book_page *make_room(struct tug_book *book) {
    struct tug_book_page *page = atomic_load_explicit(&book->page, memory_order_relaxed);
    uint32_t n = page == NULL ? 0 : atomic_load_explicit(&page->n, memory_order_relaxed);
    if (page != NULL && n < page->size)
        return page;
    uint32_t size = page == NULL ? PAGE_LEAST : 2 * page->size;
    struct tug_book_page *longer = calloc(1, sizeof(*longer) + size * sizeof(struct entry));
    if (longer == NULL)
        return NULL;
    longer->older = page;
    longer->size = size;
    if (page != NULL)
        memcpy(longer->entries, page->entries, n * sizeof(struct entry));
    atomic_init(&longer->n, n);
    /* release: pairs with the acquire in tug_book_find() */
    atomic_store_explicit(&book->page, longer, memory_order_release);
    return longer;
}

void tug_book_enter(struct tug_book *book, const struct tug_region *region) {
    tug_book_strike_out(book, region->base, region->bytes);
    struct tug_book_page *page = make_room(book);
    if (page == NULL)
        return;
    uint32_t position = rank_in(page, region->base);
    tug_seqlock_begin(&book->lock);
    move_entries(page, position + 1, position);
    write_entry(&page->entries[position], region);
    tug_seqlock_end(&book->lock);
}

void tug_book_close(struct tug_book *book) {
    struct tug_book_page *page = atomic_load(&book->page), *older;
    for (; page != NULL; page = older) {
        older = page->older;
        free(page);
    }
}
