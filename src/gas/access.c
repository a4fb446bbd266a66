/* The public calls: checks, and what the calling thread can do itself on memory in reach.
 *
 * A get from mapped memory writes nothing but its destination; see pages.h for why what it has
 * read is right. A put marks its entry while it stores. What is not known, not mapped or moving
 * becomes an order.
 *
 * Threading: any thread.
 */
#include <string.h>

#include "base/copy.h"
#include "engine/engine.h"
#include "engine/service.h"
#include "gas/array.h"
#include "transport/atomic.h"

#define OWNS_UNHEARD 64 /* gas.h says it */

/* ---- checks ---- */

static inline int check_range(const struct tug_array *array, size_t index, size_t bytes) {
    if (__builtin_expect(array == NULL, 0))
        return TUG_ERR_INVALID;
    return index <= array->bytes && bytes <= array->bytes - index ? 0 : TUG_ERR_RANGE;
}

static inline int check_access(const struct tug_array *array, size_t index, const void *local,
                               size_t bytes) {
    int status = check_range(array, index, bytes);
    return status != 0 || local != NULL || bytes == 0 ? status : TUG_ERR_INVALID;
}

static int check_fetch(const struct tug_array *array, size_t index, size_t bytes,
                       enum tug_atomic_op op) {
    if ((bytes != 4 && bytes != 8) || index % bytes != 0 || (unsigned)op > TUG_SWAP)
        return TUG_ERR_INVALID;
    return check_range(array, index, bytes);
}

static bool tell(struct tug_callback callback, int status) {
    if (callback.f != NULL)
        callback.f(callback.d, status);
    return true;
}

/* ---- by the caller itself ---- */

/* Bytes from there on that are in the page. */
static inline size_t in_page(const struct tug_array *array, struct tug_spot spot, size_t bytes) {
    const size_t left = array->page_bytes - spot.offset;
    return bytes < left ? bytes : left;
}

static inline void copy(void *to, const void *from, size_t bytes) {
    if (bytes == 8)
        memcpy(to, from, 8);
    else if (bytes == 4)
        memcpy(to, from, 4);
    else
        tug_copy(to, from, bytes);
}

/* False: not this way. */
static inline bool get_here(struct tug_array *array, struct tug_spot spot, void *dest,
                            size_t bytes) {
    struct tug_page *entry = tug_pages_find(&array->pages, spot.page);
    if (entry == NULL)
        return false;
    const uint32_t version = tug_seqlock_read(&entry->lock);
    const unsigned char *address = atomic_load_explicit(&entry->address, memory_order_relaxed);
    if (address == NULL || atomic_load_explicit(&entry->page, memory_order_relaxed) != spot.page)
        return false;
    copy(dest, address + spot.offset, bytes);
    if (!tug_seqlock_holds(&entry->lock, version))
        return false;
    tug_page_touch(entry);
    tug_array_used_here(array);
    return true;
}

/* The entry of a page in reach, entered, and the address of the spot; NULL: not this way. */
static inline struct tug_page *enter_here(struct tug_array *array, struct tug_spot spot,
                                          unsigned char **address) {
    struct tug_page *entry = tug_pages_find(&array->pages, spot.page);
    if (entry == NULL || !tug_page_enter(entry, spot.page))
        return NULL;
    *address = atomic_load_explicit(&entry->address, memory_order_relaxed);
    if (*address == NULL) {
        tug_page_leave(entry);
        return NULL;
    }
    *address += spot.offset;
    tug_page_touch(entry);
    tug_array_used_here(array);
    return entry;
}

static inline bool put_here(struct tug_array *array, struct tug_spot spot, const void *src,
                            size_t bytes) {
    unsigned char *address;
    struct tug_page *entry = enter_here(array, spot, &address);
    if (entry == NULL)
        return false;
    copy(address, src, bytes);
    tug_page_leave(entry);
    return true;
}

static bool fetch_here(struct tug_array *array, size_t index, size_t bytes, enum tug_atomic_op op,
                       uint64_t operand, void *result) {
    unsigned char *address;
    struct tug_page *entry = NULL;
    if (array->cpu_atomics)
        entry = enter_here(array, tug_array_spot(array, index), &address);
    if (entry == NULL)
        return false;
    const uint64_t old = tug_atomic_fetch(address, (unsigned)bytes, op, operand);
    tug_page_leave(entry);
    if (result != NULL)
        tug_atomic_result(result, (unsigned)bytes, old);
    return true;
}

/* ---- by an order ---- */

/* What an order is given; the rest is its own. */
struct wanted {
    enum tug_order_kind kind;
    size_t index, bytes;
    void *buffer;
    uint64_t operand;
    enum tug_atomic_op op;
    uint32_t to;
};

static bool try_wanted(struct tug_array *array, const struct wanted *wanted,
                       struct tug_callback on_complete) {
    struct tug_order *order = tug_order_take(array);
    if (order == NULL)
        return false;
    order->kind = wanted->kind;
    order->index = wanted->index;
    order->bytes = wanted->bytes;
    order->buffer = wanted->buffer;
    order->operand = wanted->operand;
    order->op = wanted->op;
    order->to = wanted->to;
    order->on_complete = on_complete;
    tug_order_start(order);
    return true;
}

static __attribute__((noinline)) int carry_out(struct tug_array *array, struct wanted wanted) {
    struct tug_counter counter = {0};
    while (!try_wanted(array, &wanted, (struct tug_callback){tug_counter_add, &counter}))
        tug_progress(array->context);
    return tug_counter_wait(array->context, &counter, 1);
}

/* ---- get and put ---- */

int tug_array_get(tug_array *array, size_t index, void *dest, size_t bytes) {
    int status = check_access(array, index, dest, bytes);
    if (__builtin_expect(status != 0, 0))
        return status;
    unsigned char *to = dest;
    while (bytes > 0) {
        const struct tug_spot spot = tug_array_spot(array, index);
        const size_t part = in_page(array, spot, bytes);
        if (__builtin_expect(!get_here(array, spot, to, part), 0))
            return carry_out(
                array, (struct wanted){
                           .kind = TUG_ORDER_GET, .index = index, .bytes = bytes, .buffer = to});
        index += part;
        to += part;
        bytes -= part;
    }
    return 0;
}

bool tug_try_array_get_async(tug_array *array, size_t index, void *dest, size_t bytes,
                             struct tug_callback on_complete) {
    int status = check_access(array, index, dest, bytes);
    if (status != 0 || bytes == 0)
        return tell(on_complete, status);
    const struct tug_spot spot = tug_array_spot(array, index);
    if (in_page(array, spot, bytes) == bytes && get_here(array, spot, dest, bytes))
        return tell(on_complete, 0);
    const struct wanted wanted = {
        .kind = TUG_ORDER_GET, .index = index, .bytes = bytes, .buffer = dest};
    return try_wanted(array, &wanted, on_complete);
}

int tug_array_put(tug_array *array, size_t index, const void *src, size_t bytes) {
    int status = check_access(array, index, src, bytes);
    if (__builtin_expect(status != 0, 0))
        return status;
    const unsigned char *from = src;
    while (bytes > 0) {
        const struct tug_spot spot = tug_array_spot(array, index);
        const size_t part = in_page(array, spot, bytes);
        if (__builtin_expect(!put_here(array, spot, from, part), 0))
            return carry_out(array, (struct wanted){.kind = TUG_ORDER_PUT,
                                                    .index = index,
                                                    .bytes = bytes,
                                                    .buffer = (void *)(uintptr_t)from});
        index += part;
        from += part;
        bytes -= part;
    }
    return 0;
}

bool tug_try_array_put_async(tug_array *array, size_t index, const void *src, size_t bytes,
                             struct tug_callback on_complete) {
    int status = check_access(array, index, src, bytes);
    if (status != 0 || bytes == 0)
        return tell(on_complete, status);
    const struct tug_spot spot = tug_array_spot(array, index);
    if (in_page(array, spot, bytes) == bytes && put_here(array, spot, src, bytes))
        return tell(on_complete, 0);
    const struct wanted wanted = {
        .kind = TUG_ORDER_PUT, .index = index, .bytes = bytes, .buffer = (void *)(uintptr_t)src};
    return try_wanted(array, &wanted, on_complete);
}

/* ---- fetch and op ---- */

int tug_array_fetch_and_op(tug_array *array, size_t index, size_t bytes, enum tug_atomic_op op,
                           uint64_t operand, void *result) {
    int status = check_fetch(array, index, bytes, op);
    if (status != 0 || fetch_here(array, index, bytes, op, operand, result))
        return status;
    return carry_out(array, (struct wanted){.kind = TUG_ORDER_FETCH,
                                            .index = index,
                                            .bytes = bytes,
                                            .buffer = result,
                                            .operand = operand,
                                            .op = op});
}

bool tug_try_array_fetch_and_op_async(tug_array *array, size_t index, size_t bytes,
                                      enum tug_atomic_op op, uint64_t operand, void *result,
                                      struct tug_callback on_complete) {
    int status = check_fetch(array, index, bytes, op);
    if (status != 0 || fetch_here(array, index, bytes, op, operand, result))
        return tell(on_complete, status);
    const struct wanted wanted = {.kind = TUG_ORDER_FETCH,
                                  .index = index,
                                  .bytes = bytes,
                                  .buffer = result,
                                  .operand = operand,
                                  .op = op};
    return try_wanted(array, &wanted, on_complete);
}

/* ---- own and move ---- */

/* The bytes of a page, as far as they belong to the array; INVALID: there is no such page. */
static int whole_page(const struct tug_array *array, size_t page, struct wanted *wanted) {
    if (array == NULL || page >= array->npages)
        return TUG_ERR_INVALID;
    wanted->index = page * array->page_bytes;
    wanted->bytes = in_page(array, (struct tug_spot){page, 0}, array->bytes - wanted->index);
    return 0;
}

/* A process that owns its pages again and again never waits. It would learn that others want them
 * only when its offload thread gets a core, so it looks for news itself. */
static void look_around(void *argument) {
    (void)argument;
    tug_engine_look(false);
}

static void look_now_and_then(struct tug_array *array) {
    const uint32_t owns = atomic_load_explicit(&array->owns, memory_order_relaxed) + 1;
    atomic_store_explicit(&array->owns, owns, memory_order_relaxed);
    if (owns % OWNS_UNHEARD == 0)
        tug_engine_call(look_around, NULL);
}

int tug_array_own(tug_array *array, size_t index, size_t bytes) {
    int status = check_range(array, index, bytes);
    if (status != 0 || bytes == 0)
        return status;
    look_now_and_then(array);
    return carry_out(
        array,
        (struct wanted){.kind = TUG_ORDER_MOVE, .index = index, .bytes = bytes, .to = array->rank});
}

bool tug_try_array_own_async(tug_array *array, size_t index, size_t bytes,
                             struct tug_callback on_complete) {
    int status = check_range(array, index, bytes);
    if (status != 0 || bytes == 0)
        return tell(on_complete, status);
    const struct wanted wanted = {
        .kind = TUG_ORDER_MOVE, .index = index, .bytes = bytes, .to = array->rank};
    return try_wanted(array, &wanted, on_complete);
}

static int want_move(const struct tug_array *array, size_t page, int process,
                     struct wanted *wanted) {
    int status = whole_page(array, page, wanted);
    if (status == 0 && (process < 0 || (uint32_t)process >= array->nranks))
        status = TUG_ERR_INVALID;
    wanted->to = (uint32_t)process;
    return status;
}

int tug_array_move(tug_array *array, size_t page, int process) {
    struct wanted wanted = {.kind = TUG_ORDER_MOVE};
    int status = want_move(array, page, process, &wanted);
    return status != 0 ? status : carry_out(array, wanted);
}

bool tug_try_array_move_async(tug_array *array, size_t page, int process,
                              struct tug_callback on_complete) {
    struct wanted wanted = {.kind = TUG_ORDER_MOVE};
    int status = want_move(array, page, process, &wanted);
    return status != 0 ? tell(on_complete, status) : try_wanted(array, &wanted, on_complete);
}

void tug_array_progress(tug_array *array) {
    if (array != NULL)
        tug_progress(array->context);
}

/* ---- pages here ---- */

/* 1: held; 0: ask for it and try again; TUG_ERR_STATE. */
static int try_hold(struct tug_array *array, size_t page, void **address) {
    struct tug_page *entry = tug_pages_find(&array->pages, page);
    if (entry == NULL)
        return 0;
    atomic_fetch_add(&entry->holds, 1); /* seq_cst: pairs with on_stop() */
    if (!tug_page_enter(entry, page)) {
        atomic_fetch_sub(&entry->holds, 1);
        return 0;
    }
    if (atomic_load_explicit(&entry->owner, memory_order_relaxed) != array->rank) {
        atomic_fetch_sub(&entry->holds, 1);
        tug_page_leave(entry);
        return TUG_ERR_STATE;
    }
    atomic_fetch_add(&array->holds, 1);
    tug_array_used_here(array);
    *address = atomic_load_explicit(&entry->address, memory_order_relaxed);
    return 1;
}

int tug_array_hold(tug_array *array, size_t page, void **address) {
    struct tug_page_place place;
    struct wanted wanted = {.kind = TUG_ORDER_HOLD, .buffer = &place};
    int status = whole_page(array, page, &wanted);
    if (status != 0 || address == NULL)
        return TUG_ERR_INVALID;
    for (;;) {
        int held = try_hold(array, page, address);
        if (held != 0)
            return held > 0 ? 0 : held;
        status = carry_out(array, wanted);
        if (status != 0)
            return status;
        if (place.owner != (int)array->rank)
            return TUG_ERR_STATE;
    }
}

int tug_array_release(tug_array *array, size_t page) {
    if (array == NULL || page >= array->npages)
        return TUG_ERR_INVALID;
    struct tug_page *entry = tug_pages_find(&array->pages, page); /* what is held is found */
    uint32_t holds = entry != NULL ? atomic_load(&entry->holds) : 0;
    do
        if (holds == 0)
            return TUG_ERR_STATE;
    while (!atomic_compare_exchange_weak(&entry->holds, &holds, holds - 1));
    atomic_fetch_sub(&array->holds, 1);
    tug_page_leave(entry);
    return 0;
}

bool tug_array_next(tug_array *array, struct tug_local_page *it) {
    if (array == NULL || it == NULL)
        return false;
    if (it->address != NULL)
        (void)tug_array_release(array, it->page);
    it->address = NULL;
    while (it->next < array->pages.nentries) {
        const struct tug_page *entry = &array->pages.entries[it->next++];
        const uint64_t page = atomic_load_explicit(&entry->page, memory_order_relaxed);
        if (page != TUG_NO_PAGE &&
            atomic_load_explicit(&entry->owner, memory_order_relaxed) == array->rank &&
            tug_array_hold(array, page, &it->address) == 0) {
            it->page = page;
            return true;
        }
    }
    return false;
}

/* ---- places ---- */

int tug_array_locate(tug_array *array, size_t page, struct tug_page_place *result) {
    struct wanted wanted = {.kind = TUG_ORDER_LOCATE, .buffer = result};
    if (whole_page(array, page, &wanted) != 0 || result == NULL)
        return TUG_ERR_INVALID;
    return carry_out(array, wanted);
}

struct range {
    tug_array *array;
    uint64_t first, last;
};

static void forget(void *argument) {
    const struct range *range = argument;
    struct tug_pages *pages = &range->array->pages;
    for (size_t i = 0; i < pages->nentries; i++) {
        const uint64_t page = atomic_load_explicit(&pages->entries[i].page, memory_order_relaxed);
        if (page >= range->first && page <= range->last)
            (void)tug_pages_forget(pages, &pages->entries[i]);
    }
}

int tug_array_forget(tug_array *array, size_t index, size_t bytes) {
    int status = check_range(array, index, bytes);
    if (status != 0 || bytes == 0)
        return status;
    struct range range = {array, tug_array_page(array, index),
                          tug_array_page(array, index + bytes - 1)};
    tug_engine_call(forget, &range);
    return 0;
}
