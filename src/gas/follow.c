/* Pages that follow their users, without a call of the program's: what is measured for rent.h, and
 * what is done about it.
 *
 * Beside the place of a page stands its rent, and its uses when it has come by itself (`used`).
 * Accesses, or moves, that are under way together share the time. A run is one order, as of
 * tug_array_own(). It takes along the pages of others that have been used from here, and those that
 * have not come in vain before. Whether it pays is thought of before an access is sent: if so, the
 * access waits for its page, once, and is then made wherever the page is. What it waits for are
 * other such moves and puts under way, which end by themselves: the home refuses a move by itself
 * to a page that is held, or that a move by call waits for.
 *
 * Whether the process uses what is here it says by one mark an array (`used_here`), which each
 * access elsewhere takes away. A hint, so it is relaxed: threads that mark it at once mark it once.
 *
 * Pages in memory that this process maps are used where they are, and do not follow.
 *
 * Threading: the holder of the baton.
 */
#include "base/clock.h"
#include "gas/array.h"

static bool is_in(const struct tug_run_of_pages *run, uint64_t page) {
    return page - run->first < run->npages;
}

static bool is_here(const struct tug_array *array, const struct tug_page *entry) {
    return entry != NULL && tug_page_known(entry) && entry->place.owner == array->rank;
}

static uint8_t uses_of(const struct tug_page *entry) {
    return atomic_load_explicit(&entry->used, memory_order_relaxed);
}

static struct tug_coming *coming_with(struct tug_follow *follow, uint64_t page) {
    for (int i = 0; i < TUG_RUNS; i++)
        if (is_in(&follow->coming[i].run, page))
            return &follow->coming[i];
    return NULL;
}

void tug_follow_came(struct tug_page *entry) {
    struct tug_follow *follow = &entry->array->follow;
    if (!follow->on)
        return;
    const struct tug_coming *coming =
        coming_with(follow, atomic_load_explicit(&entry->page, memory_order_relaxed));
    entry->rent_ns = entry->idle_ns = 0;
    entry->least = coming != NULL ? tug_rent_least(&follow->rent, coming->run.npages) : 0;
    atomic_store_explicit(&entry->used, 0, memory_order_relaxed);
}

void tug_follow_left(struct tug_page *entry) {
    if (!entry->array->follow.on)
        return;
    if (entry->least > 0)
        entry->patience = tug_rent_patience(entry->patience, uses_of(entry), entry->least);
    entry->least = 0;
    entry->rent_ns = entry->idle_ns = 0;
}

/* ---- runs ---- */

/* Those that did not come: there is no room here, perhaps. */
static void lose_patience(struct tug_array *array, const struct tug_run_of_pages *run) {
    for (uint32_t i = 0; i < run->npages; i++) {
        struct tug_page *entry = tug_pages_find(&array->pages, run->first + i);
        if (entry == NULL || is_here(array, entry))
            continue;
        entry->rent_ns = entry->idle_ns = 0;
        entry->patience = tug_rent_patience(entry->patience, 0, 1);
    }
}

static void moved(void *d, int status) {
    struct tug_coming *coming = d;
    struct tug_array *array = coming->array;
    struct tug_follow *follow = &array->follow;
    if (status == 0)
        tug_rent_moved(&follow->rent, (tug_clock_ns() - coming->since_ns) / follow->moves_out);
    else
        lose_patience(array, &coming->run);
    follow->moves_out--;
    coming->run.npages = 0;
}

void tug_follow_over(struct tug_array *array, uint64_t page) {
    struct tug_coming *coming = coming_with(&array->follow, page);
    if (coming != NULL)
        coming->over |= (uint64_t)1 << (page - coming->run.first);
}

_Static_assert(TUG_RUN_MOST <= TUG_ORDER_TASKS, "the pages of a run do not set out at once");

/* leave: pages of the run, by bits, that do not come. */
static void come_here(struct tug_array *array, const struct tug_run_of_pages *run, uint64_t leave) {
    struct tug_coming *coming = &array->follow.coming[0];
    for (int i = 0; coming->run.npages != 0; coming++)
        if (++i == TUG_RUNS)
            return; /* at the next access */
    struct tug_order *order = tug_order_take(array);
    if (order == NULL)
        return;
    *coming = (struct tug_coming){
        .array = array, .run = *run, .left_out = leave, .since_ns = tug_clock_ns()};
    array->follow.moves_out++;
    const size_t index = run->first * array->page_bytes, left = array->bytes - index;
    order->kind = TUG_ORDER_MOVE;
    order->index = index;
    order->bytes = run->npages * array->page_bytes < left ? run->npages * array->page_bytes : left;
    order->leave = leave;
    order->gently = true;
    order->buffer = NULL;
    order->to = array->rank;
    order->on_complete = (struct tug_callback){moved, coming};
    tug_order_start(order);
}

/* Before, and has not been used since. */
static bool came_for_nothing(const struct tug_page *entry) {
    return entry != NULL && entry->rent_ns == 0 && entry->patience > 0;
}

/* Is the run of the page, which is about to be used, worth a move now? */
static void think_of(struct tug_array *array, const struct tug_page *user) {
    struct tug_follow *follow = &array->follow;
    const uint64_t page = atomic_load_explicit(&user->page, memory_order_relaxed);
    if (coming_with(follow, page) != NULL)
        return;
    const struct tug_run_of_pages run = tug_rent_run(&follow->rent, page, array->npages);
    uint64_t rent_ns = 0, idle_ns = 0, leave = 0;
    for (uint32_t i = 0; i < run.npages; i++) {
        const struct tug_page *entry = tug_pages_find(&array->pages, run.first + i);
        if (entry != user && (is_here(array, entry) || came_for_nothing(entry)))
            leave |= (uint64_t)1 << i;
        else if (entry != NULL) {
            rent_ns += entry->rent_ns;
            idle_ns += entry->idle_ns;
        }
    }
    if (tug_rent_buys(&follow->rent, rent_ns, idle_ns, user->patience))
        come_here(array, &run, leave);
}

/* ---- accesses ---- */

static bool is_coming(struct tug_follow *follow, uint64_t page) {
    const struct tug_coming *coming = coming_with(follow, page);
    return coming != NULL && !((coming->left_out | coming->over) >> (page - coming->run.first) & 1);
}

bool tug_follow_waits(struct tug_page *entry, struct tug_task *task) {
    struct tug_array *array = entry->array;
    struct tug_follow *follow = &array->follow;
    if (!follow->on || task->thought || is_here(array, entry))
        return false;
    task->thought = true;
    if (is_coming(follow, task->page))
        return true;
    follow->idle = !atomic_exchange_explicit(&array->used_here, false, memory_order_relaxed);
    if (!entry->asking)
        think_of(array, entry);
    return is_coming(follow, task->page);
}

void tug_follow_begin(struct tug_page *entry, struct tug_task *task) {
    struct tug_follow *follow = &entry->array->follow;
    if (!follow->on)
        return;
    task->begun_ns = tug_clock_ns();
    follow->accesses_out++;
}

void tug_follow_cancel(struct tug_page *entry) {
    if (entry->array->follow.on)
        entry->array->follow.accesses_out--;
}

void tug_follow_end(struct tug_page *entry, const struct tug_task *task, int status) {
    struct tug_array *array = entry->array;
    struct tug_follow *follow = &array->follow;
    if (!follow->on)
        return;
    const uint64_t ns = (tug_clock_ns() - task->begun_ns) / follow->accesses_out--;
    tug_rent_accessed(&follow->rent, ns);
    if (is_here(array, entry))
        tug_array_used_here(array);
    else if (status == 0) {
        entry->rent_ns += ns;
        entry->idle_ns += follow->idle ? ns : 0;
    }
}
