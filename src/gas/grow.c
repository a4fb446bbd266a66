/* Pages at the end of an array come and go.
 *
 * Everything that is kept for a page was reserved at creation for as many pages as the array may
 * have: growing gives the new pages, at their homes, slots and entries. A page that has gone leaves
 * nothing behind but the generation of its record: nobody takes the place of an earlier page for
 * that of a later one with the same number.
 *
 * Threading: collective; the program's thread, and none of its others in the array. Tables are
 * changed by the holder of the baton, who may be serving other processes.
 */
#include <string.h>

#include "engine/engine.h"
#include "gas/array.h"

struct resize {
    struct tug_array *array;
    size_t bytes;
    uint64_t npages;
    bool done;
};

/* All pass the same size, from 1 to what the array may have, and on the right side. */
static int check_size(struct tug_array *array, size_t bytes, bool grows) {
    const uint64_t size = bytes;
    const size_t most = array->npages_most * array->page_bytes;
    if (!tug_array_alike(array, &size, 1))
        return TUG_ERR_INVALID;
    if (bytes == 0 || bytes > most || (grows ? bytes < array->bytes : bytes > array->bytes))
        return TUG_ERR_RANGE;
    return 0;
}

/* By the holder, who compares the pages of messages with it. */
static void set_size(void *argument) {
    const struct resize *resize = argument;
    resize->array->bytes = resize->bytes;
    resize->array->npages = resize->npages;
}

/* ---- pages that go ---- */

/* It is nobody's, and forgotten. */
static void drop(struct tug_array *array, struct tug_page *entry) {
    if (entry->place.owner == array->rank && tug_page_known(entry))
        tug_slot_give(array, entry->place.slot);
    const struct tug_page_slot nowhere = {.owner = TUG_NO_OWNER};
    (void)tug_page_stop(entry); /* nothing is under way */
    tug_pages_set(&array->pages, entry, &nowhere, NULL);
    (void)tug_pages_forget(&array->pages, entry);
}

static void drop_all(void *argument) {
    const struct resize *resize = argument;
    struct tug_array *array = resize->array;
    for (size_t i = 0; i < array->pages.nentries; i++) {
        struct tug_page *entry = &array->pages.entries[i];
        const uint64_t page = atomic_load_explicit(&entry->page, memory_order_relaxed);
        if (page != TUG_NO_PAGE && page >= resize->npages)
            drop(array, entry);
    }
}

static void trim(void *array) {
    tug_slots_trim(array);
}

/* Pages from `npages` on, and their memory. */
static void let_go(struct tug_array *array, uint64_t npages) {
    struct resize resize = {.array = array, .npages = npages};
    tug_engine_call(drop_all, &resize);
    tug_pools_forget(array);
    tug_engine_call(trim, array);
}

/* What is behind the end of the last page is zeros when the array grows again. */
static void clear_rest(struct tug_array *array, size_t bytes) {
    const struct tug_page *entry = tug_pages_find(&array->pages, tug_array_page(array, bytes - 1));
    const size_t rest = tug_array_spot(array, bytes).offset;
    if (rest > 0 && entry != NULL && tug_page_known(entry) && entry->place.owner == array->rank)
        memset(tug_slot_address(array, entry->place.slot) + rest, 0, array->page_bytes - rest);
}

int tug_array_shrink(tug_array *array, size_t bytes) {
    if (array == NULL)
        return TUG_ERR_INVALID;
    tug_array_settle(array);
    int status = check_size(array, bytes, false);
    if (status != 0)
        return status;
    if (!tug_array_agree(array, atomic_load(&array->holds) == 0))
        return TUG_ERR_STATE;
    struct resize resize = {array, bytes, tug_array_page(array, bytes - 1) + 1, true};
    (void)tug_array_invalidate(array, bytes, array->bytes - bytes);
    let_go(array, resize.npages);
    clear_rest(array, bytes);
    tug_engine_call(set_size, &resize);
    (void)tug_array_agree(array, true); /* nobody uses what others have not done with */
    return 0;
}

/* ---- pages that come ---- */

static bool come(struct tug_array *array, uint64_t page) {
    uint32_t slot;
    struct tug_page *entry = tug_pages_take(&array->pages, page, true);
    if (entry == NULL)
        return false;
    if (!tug_slot_take(array, page, &slot)) {
        (void)tug_pages_forget(&array->pages, entry);
        return false;
    }
    memset(tug_slot_address(array, slot), 0, array->page_bytes);
    const struct tug_page_slot place = tug_home_begin(array, page, slot);
    tug_pages_set(&array->pages, entry, &place, tug_array_address(array, &place));
    tug_page_open(entry);
    return true;
}

static void come_all(void *argument) {
    struct resize *resize = argument;
    struct tug_array *array = resize->array;
    for (uint64_t page = array->npages; resize->done && page < resize->npages; page++)
        if (tug_array_home(array, page).rank == array->rank)
            resize->done = come(array, page);
}

int tug_array_grow(tug_array *array, size_t bytes) {
    if (array == NULL)
        return TUG_ERR_INVALID;
    tug_array_settle(array);
    int status = check_size(array, bytes, true);
    if (status != 0)
        return status;
    struct resize resize = {array, bytes, tug_array_page(array, bytes - 1) + 1, true};
    tug_engine_call(come_all, &resize);
    if (!tug_array_agree(array, resize.done)) { /* as it was */
        let_go(array, array->npages);
        return tug_array_agree(array, true) ? TUG_ERR_NO_MEMORY : TUG_ERR_MPI;
    }
    tug_engine_call(set_size, &resize);
    (void)tug_array_agree(array, true);
    return 0;
}
