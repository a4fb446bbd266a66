/* Pages that follow their users, without a call of the program's: what is measured for rent.h, and
 * what is done about it.
 *
 * Beside the place of a page stands its rent, and its uses when it has come by itself (`used`).
 * Accesses, or moves, that are under way together share the time. A run is one order, as of
 * tug_array_own(). It takes along the pages of others that have been used from here, and those that
 * have not come in vain before.
 *
 * Pages in memory that this process maps are used where they are, and do not follow.
 *
 * Threading: the holder of the baton.
 */
#include "base/clock.h"
#include "gas/array.h"

#define STAY 16 /* prices: when a page that nobody has taken away is judged */

static bool is_in(const struct tug_run_of_pages *run, uint64_t page) {
    return page - run->first < run->npages;
}

static bool is_here(const struct tug_array *array, const struct tug_page *entry) {
    return entry != NULL && tug_page_known(entry) && entry->place.owner == array->rank;
}

static uint8_t uses_of(const struct tug_page *entry) {
    const unsigned uses = entry->served + atomic_load_explicit(&entry->used, memory_order_relaxed);
    return uses < TUG_USES_MOST ? (uint8_t)uses : TUG_USES_MOST;
}

/* Calls do_page for the pages of the runs that came last, as far as they are here. */
static bool any_of_last(struct tug_array *array, bool (*do_page)(struct tug_page *entry)) {
    bool any = false;
    for (int k = 0; k < TUG_RUNS; k++) {
        const struct tug_run_of_pages *last = &array->follow.last[k];
        for (uint32_t i = 0; i < last->npages; i++) {
            struct tug_page *entry = tug_pages_find(&array->pages, last->first + i);
            any |= is_here(array, entry) && do_page(entry);
        }
    }
    return any;
}

static bool was_used(struct tug_page *entry) {
    if (atomic_load_explicit(&entry->used, memory_order_relaxed) == 0)
        return false;
    entry->served = uses_of(entry);
    atomic_store_explicit(&entry->used, 0, memory_order_relaxed);
    return true;
}

/* Have the pages that came last been used since it was asked last? */
static bool works_here(struct tug_array *array) {
    return any_of_last(array, was_used);
}

/* ---- what has come ---- */

static void judge(struct tug_page *entry) {
    const enum tug_verdict verdict =
        tug_rent_judge(&entry->array->follow.rent, uses_of(entry), entry->least);
    entry->patience = tug_rent_patience(entry->patience, verdict);
    entry->came_ns = 0;
}

/* Has it done enough, or had the time for it? */
static bool judge_now(struct tug_page *entry) {
    const uint64_t long_ns = STAY * tug_rent_price(&entry->array->follow.rent);
    const bool judges = entry->came_ns != 0 && (uses_of(entry) >= entry->least ||
                                                tug_clock_ns() - entry->came_ns > long_ns);
    if (judges)
        judge(entry);
    return judges;
}

/* Before another run is thought of. */
static void learn(struct tug_array *array) {
    (void)any_of_last(array, judge_now);
    tug_rent_learn(&array->follow.rent);
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
    entry->served = 0;
    entry->came_ns = coming != NULL ? tug_clock_ns() : 0;
    entry->least = coming != NULL ? tug_rent_least(&follow->rent, coming->run.npages) : 0;
    atomic_store_explicit(&entry->used, 0, memory_order_relaxed);
}

void tug_follow_left(struct tug_page *entry) {
    if (!entry->array->follow.on)
        return;
    if (entry->came_ns != 0)
        judge(entry);
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
        entry->patience = tug_rent_patience(entry->patience, TUG_CAME_IN_VAIN);
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
    follow->last[follow->nlast++ % TUG_RUNS] = coming->run;
    coming->run.npages = 0;
}

/* leave: pages of the run, by bits, that do not come. */
static void come_here(struct tug_array *array, const struct tug_run_of_pages *run, uint64_t leave) {
    struct tug_coming *coming = &array->follow.coming[0];
    for (int i = 0; coming->run.npages != 0; coming++)
        if (++i == TUG_RUNS)
            return; /* at the next access */
    struct tug_order *order = tug_order_take(array);
    if (order == NULL)
        return;
    *coming = (struct tug_coming){.array = array, .run = *run, .since_ns = tug_clock_ns()};
    array->follow.moves_out++;
    array->follow.worked = false;
    const size_t index = run->first * array->page_bytes, left = array->bytes - index;
    order->kind = TUG_ORDER_MOVE;
    order->index = index;
    order->bytes = run->npages * array->page_bytes < left ? run->npages * array->page_bytes : left;
    order->leave = leave;
    order->buffer = NULL;
    order->to = array->rank;
    order->on_complete = (struct tug_callback){moved, coming};
    tug_order_start(order);
}

/* Is the run of the page worth a move now? */
static void think_of(struct tug_array *array, const struct tug_page *user, bool foreseen) {
    struct tug_follow *follow = &array->follow;
    const uint64_t page = atomic_load_explicit(&user->page, memory_order_relaxed);
    if (coming_with(follow, page) != NULL)
        return;
    learn(array);
    const struct tug_run_of_pages run = tug_rent_run(&follow->rent, page, array->npages);
    struct tug_run_seen seen = {
        .patience = user->patience, .foreseen = foreseen, .others_come = follow->moves_out > 0};
    uint64_t leave = 0;
    for (uint32_t i = 0; i < run.npages; i++) {
        const struct tug_page *entry = tug_pages_find(&array->pages, run.first + i);
        if (is_here(array, entry) || (entry != NULL && entry->rent_ns == 0 && entry->patience > 0))
            leave |= (uint64_t)1 << i;
        else if (entry != NULL) {
            seen.rent_ns += entry->rent_ns;
            seen.idle_ns += entry->spell == follow->spell ? entry->idle_ns : 0;
        }
    }
    if (tug_rent_buys(&follow->rent, &seen))
        come_here(array, &run, leave);
}

/* ---- accesses ---- */

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

/* Does the process do without what is here? Learns from what follows its accesses elsewhere. */
static bool is_idle(struct tug_array *array) {
    struct tug_follow *follow = &array->follow;
    const bool works = works_here(array);
    if (follow->worked) {
        follow->foreseen = follow->changes && !works;
        follow->changes = !works;
    }
    follow->worked = works;
    if (works)
        follow->spell++;
    return !works || follow->foreseen;
}

static void pay(struct tug_page *entry, uint64_t ns) {
    struct tug_follow *follow = &entry->array->follow;
    const bool idle = is_idle(entry->array);
    if (entry->spell != follow->spell)
        entry->idle_ns = 0;
    entry->spell = follow->spell;
    entry->rent_ns += ns;
    entry->idle_ns += idle ? ns : 0;
}

void tug_follow_end(struct tug_page *entry, const struct tug_task *task, int status) {
    struct tug_array *array = entry->array;
    struct tug_follow *follow = &array->follow;
    if (!follow->on)
        return;
    const uint64_t ns = (tug_clock_ns() - task->begun_ns) / follow->accesses_out--;
    tug_rent_accessed(&follow->rent, ns);
    if (status != 0 || is_here(array, entry))
        return;
    pay(entry, ns);
    if (!entry->asking && !entry->changing)
        think_of(array, entry, follow->foreseen);
}
