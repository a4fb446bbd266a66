/* The read cache: copies of pages that the program keeps and drops.
 *
 * Sets of WAYS copies, each set under a lock of its own; a page belongs to one set, in which the
 * copy that was not used for longest makes room. The lock is held while a copy is fetched: others
 * who want the page wait for it, and an invalidate that comes meanwhile drops what was fetched.
 *
 * Threading: any thread, not in callbacks (callbacks take none of these locks).
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "gas/array.h"

#define WAYS 4

struct line {
    uint64_t page; /* TUG_NO_PAGE: none */
    uint64_t used; /* by the set's clock */
    unsigned char *data;
};

struct set {
    pthread_mutex_t lock;
    uint64_t clock;
    struct line lines[WAYS];
};

struct tug_copies {
    size_t nsets;
    unsigned ways;
    unsigned char *data;
    struct set sets[];
};

int tug_copies_open(struct tug_array *array, size_t copies) {
    const size_t most = copies < array->npages_most ? copies : array->npages_most;
    const size_t nsets = most >= WAYS ? most / WAYS : 1;
    struct tug_copies *table = calloc(1, sizeof(*table) + nsets * sizeof(struct set));
    if (table == NULL)
        return TUG_ERR_NO_MEMORY;
    table->nsets = nsets;
    table->ways = most < WAYS ? (unsigned)most : WAYS;
    table->data = calloc(nsets * table->ways, array->page_bytes);
    if (table->data == NULL) {
        free(table);
        return TUG_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < nsets; i++) {
        pthread_mutex_init(&table->sets[i].lock, NULL);
        for (unsigned k = 0; k < table->ways; k++)
            table->sets[i].lines[k] =
                (struct line){.page = TUG_NO_PAGE,
                              .data = table->data + (i * table->ways + k) * array->page_bytes};
    }
    array->copies = table;
    return 0;
}

void tug_copies_close(struct tug_array *array) {
    struct tug_copies *table = array->copies;
    if (table == NULL)
        return;
    for (size_t i = 0; i < table->nsets; i++)
        pthread_mutex_destroy(&table->sets[i].lock);
    free(table->data);
    free(table);
}

/* The page's line, or the one that makes room for it. Under the set's lock. */
static struct line *choose(const struct tug_copies *table, struct set *set, uint64_t page) {
    struct line *oldest = &set->lines[0];
    for (unsigned i = 0; i < table->ways; i++) {
        if (set->lines[i].page == page)
            return &set->lines[i];
        if (set->lines[i].used < oldest->used)
            oldest = &set->lines[i];
    }
    return oldest;
}

static int fetch(struct tug_array *array, struct line *line, uint64_t page) {
    const size_t start = (size_t)page * array->page_bytes, left = array->bytes - start;
    line->page = TUG_NO_PAGE;
    int status = tug_array_get(array, start, line->data,
                               left < array->page_bytes ? left : array->page_bytes);
    if (status == 0)
        line->page = page;
    return status;
}

enum what { READ, DROP, REFRESH };

/* One page: the bytes [offset, offset + bytes) of it to dest, for READ. */
static int do_page(struct tug_array *array, enum what what, uint64_t page, size_t offset,
                   size_t bytes, unsigned char *dest) {
    struct tug_copies *table = array->copies;
    struct set *set = &table->sets[page % table->nsets];
    int status = 0;
    pthread_mutex_lock(&set->lock);
    struct line *line = choose(table, set, page);
    if (what == DROP) {
        if (line->page == page)
            *line = (struct line){.page = TUG_NO_PAGE, .data = line->data};
    } else {
        if (what == REFRESH || line->page != page)
            status = fetch(array, line, page);
        line->used = ++set->clock;
    }
    if (status == 0 && what == READ)
        tug_copy(dest, line->data + offset, bytes);
    pthread_mutex_unlock(&set->lock);
    return status;
}

static int do_range(struct tug_array *array, enum what what, size_t index, size_t bytes,
                    unsigned char *dest) {
    if (array == NULL || (what == READ && dest == NULL && bytes > 0))
        return TUG_ERR_INVALID;
    if (index > array->bytes || bytes > array->bytes - index)
        return TUG_ERR_RANGE;
    if (array->copies == NULL)
        return what == DROP ? 0 : TUG_ERR_UNSUPPORTED;
    int status = 0;
    for (size_t done = 0, part; done < bytes && status == 0; done += part) {
        const struct tug_spot spot = tug_array_spot(array, index + done);
        part = array->page_bytes - spot.offset;
        if (part > bytes - done)
            part = bytes - done;
        status =
            do_page(array, what, spot.page, spot.offset, part, dest != NULL ? dest + done : NULL);
    }
    return status;
}

int tug_array_get_copy(tug_array *array, size_t index, void *dest, size_t bytes) {
    return do_range(array, READ, index, bytes, dest);
}

int tug_array_invalidate(tug_array *array, size_t index, size_t bytes) {
    return do_range(array, DROP, index, bytes, NULL);
}

int tug_array_refresh(tug_array *array, size_t index, size_t bytes) {
    return do_range(array, REFRESH, index, bytes, NULL);
}
