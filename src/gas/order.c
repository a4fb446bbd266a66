/* Orders: gets, puts and moves that have to ask, wait or send.
 *
 * An order takes its pages one after the other by up to TUG_ORDER_TASKS tasks. A task finds the
 * entry of its page, and does what it is for, or asks the page's home, or waits in the entry for
 * who has asked already; whatever happens to the entry sets it going again.
 *
 * Also here: what this process does when others' pages, or its own, move: stop, fetch, change,
 * free.
 *
 * Threading: all but take and start by the holder of the baton.
 */
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "gas/array.h"
#include "transport/atomic.h"

static void run_task(struct tug_task *task);

/* ---- beginning and end ---- */

struct tug_order *tug_order_take(struct tug_array *array) {
    uint32_t tag;
    if (!tug_tags_take(&array->tags, &tag))
        return NULL;
    atomic_fetch_add_explicit(&array->orders_out, 1, memory_order_relaxed);
    struct tug_order *order = &array->orders[tag];
    order->array = array;
    order->status = 0;
    order->leave = 0;
    order->gently = false;
    return order;
}

static void end_order(struct tug_order *order) {
    struct tug_array *array = order->array;
    struct tug_callback callback = order->on_complete;
    int status = order->status;
    tug_tags_give(&array->tags, (uint32_t)(order - array->orders));
    if (callback.f != NULL)
        callback.f(callback.d, status);
    /* seq_cst: tug_array_free() waits for it */
    atomic_fetch_sub(&array->orders_out, 1);
}

/* The next page that no task has taken. False: there is none. */
static bool pick(struct tug_order *order, uint64_t *page) {
    while (order->next < order->end) {
        const uint64_t nth = order->next - order->first;
        *page = order->next++;
        if (nth >= 64 || !(order->leave >> nth & 1))
            return true;
    }
    return false;
}

/* The task's page is done. True: it has another one. */
static bool next_page(struct tug_task *task, int status) {
    struct tug_order *order = task->order;
    if (status != 0 && order->status == 0)
        order->status = status;
    if (order->gently)
        tug_follow_over(order->array, task->page);
    task->thought = false;
    if (order->status == 0 && pick(order, &task->page))
        return true;
    if (--order->tasks_out == 0)
        end_order(order);
    return false;
}

static void go_on(struct tug_task *task, int status) {
    if (next_page(task, status))
        run_task(task);
}

static void run_again(struct tug_deferred *work) {
    run_task((struct tug_task *)((char *)work - offsetof(struct tug_task, work)));
}

static struct tug_deferred *again(struct tug_task *task) {
    task->work.run = run_again;
    return &task->work;
}

static void retry(struct tug_task *task) {
    tug_deferred_retry(&task->order->array->deferred, again(task));
}

static void run_order(struct tug_deferred *work) {
    struct tug_order *order = (struct tug_order *)((char *)work - offsetof(struct tug_order, work));
    uint64_t page;
    unsigned tasks = 0;
    while (tasks < TUG_ORDER_TASKS && pick(order, &page))
        order->tasks[tasks++] = (struct tug_task){.order = order, .page = page};
    order->tasks_out = tasks;
    if (tasks == 0) /* all stay */
        end_order(order);
    for (unsigned i = 0; i < tasks; i++) /* the last to end gives the order back */
        run_task(&order->tasks[i]);
}

void tug_order_start(struct tug_order *order) {
    struct tug_array *array = order->array;
    order->first = order->next = tug_array_page(array, order->index);
    order->end = tug_array_page(array, order->index + order->bytes - 1) + 1;
    order->work.run = run_order;
    tug_deferred_post(&array->deferred, &order->work);
}

/* ---- waiting ---- */

static bool wait_on(struct tug_page *entry, struct tug_task *task) {
    task->next = NULL;
    if (entry->first == NULL)
        entry->first = task;
    else
        entry->last->next = task;
    entry->last = task;
    return false;
}

/* Sets all going that wait. */
static void wake(struct tug_page *entry) {
    struct tug_task *task = entry->first;
    entry->first = entry->last = NULL;
    while (task != NULL) {
        struct tug_task *next = task->next;
        run_task(task);
        task = next;
    }
}

/* ---- asking the home ---- */

static void set_place(struct tug_page *entry, const struct tug_page_slot *place) {
    tug_pages_set(&entry->array->pages, entry, place, tug_array_address(entry->array, place));
}

/* Is this place of the page, as the home tells it, possible? This process knows which pages it has:
 * a page enters and leaves it by a change, and the change arrives before any newer message of the
 * home. */
static bool can_be(const struct tug_page *entry, const struct tug_page_slot *place) {
    const struct tug_array *array = entry->array;
    const bool known = tug_page_known(entry);
    const bool here = known && entry->place.owner == array->rank;
    if (!tug_array_has_place(array, place))
        return false;
    if (known && place->generation < entry->place.generation)
        return true;
    return here == (place->owner == array->rank) && (!here || place->slot == entry->place.slot);
}

/* What the home says counts unless this process has been told something newer since. */
static void apply(struct tug_page *entry, const struct tug_reply *reply) {
    const struct tug_page_slot *place = &reply->place;
    if (entry->changing || (tug_page_known(entry) && place->generation < entry->place.generation))
        return;
    if (!tug_page_known(entry) || place->generation > entry->place.generation)
        set_place(entry, place);
    if (reply->puts && place->generation >= entry->puts_from)
        tug_page_open(entry);
}

static void replied(void *d, int status) {
    struct tug_task *task = d;
    struct tug_page *entry = task->entry;
    const bool moved = task->question.to != TUG_NO_OWNER;
    const struct tug_reply *reply = &task->reply;
    const uint32_t to = task->question.to;
    entry->asking = false;
    status = tug_array_status(status, tug_array_home(entry->array, task->page).rank, reply->status,
                              can_be(entry, &reply->place) && reply->puts <= 1 &&
                                  (!moved || reply->place.owner == to));
    if (status == 0)
        apply(entry, &task->reply);
    if (status != 0 || moved)
        go_on(task, status);
    else
        run_task(task);
    entry->turn = moved; /* those who have waited for the page here have had their turn too */
    wake(entry);
    entry->turn = false;
}

static struct tug_local_address local(const struct tug_array *array, const void *address) {
    return (struct tug_local_address){tug_context_everything(array->context), (uintptr_t)address};
}

static void send(struct tug_page *entry, struct tug_task *task, enum tug_gas_call what);

/* The record has been read. If the page moves, or has moved, or another process stands where this
 * one would enter itself, the home is asked. */
static void looked(void *d, int status) {
    struct tug_task *task = d;
    struct tug_page *entry = task->entry;
    struct tug_reply reply = {.puts = true};
    const bool right =
        status == 0 && tug_record_read(&task->seen, &reply.place) && can_be(entry, &reply.place);
    entry->asking = false;
    if (right)
        apply(entry, &reply);
    if (right && tug_page_known(entry) && !(entry->writers & TUG_WRITERS_NO_PUTS)) {
        run_task(task);
        wake(entry);
    } else {
        send(entry, task, TUG_CALL_ASK);
    }
}

static struct tug_remote_address record_at(const struct tug_task *task, size_t offset) {
    const struct tug_page_home home = tug_array_home(task->order->array, task->page);
    struct tug_remote_address there = tug_pool_records(task->order->array, home.rank);
    there.offset += home.ordinal * sizeof(struct tug_page_record) + offset;
    return there;
}

/* This process stands among the askers, or another one does. */
static void entered(void *d, int status) {
    struct tug_task *task = d;
    struct tug_array *array = task->order->array;
    const struct tug_read_params read = {
        .src_proc = (int)tug_array_home(array, task->page).rank,
        .src_raddr = record_at(task, offsetof(struct tug_page_record, seen)),
        .dest_laddr = local(array, &task->seen),
        .size_in_bytes = sizeof(task->seen),
        .on_complete = {looked, task}};
    atomic_thread_fence(memory_order_seq_cst); /* loads: the record is read after the entering */
    if (status != 0 || (task->had != 0 && task->had != (uint64_t)array->rank + 1) ||
        read.src_raddr.key == NULL || !tug_try_read_async(array->context, &read))
        looked(task, TUG_ERR_STATE);
}

/* Finds the page in the home's memory. False: that is out of reach, or there is no room. */
static bool look(struct tug_page *entry, struct tug_task *task) {
    struct tug_array *array = entry->array;
    const size_t asker = array->rank % TUG_RECORD_ASKERS * sizeof(uint64_t);
    const struct tug_compare_and_swap_params enter = {
        .dest_proc = (int)tug_array_home(array, task->page).rank,
        .dest_raddr = record_at(task, offsetof(struct tug_page_record, askers) + asker),
        .result_laddr = local(array, &task->had),
        .size_in_bytes = sizeof(uint64_t),
        .desired = (uint64_t)array->rank + 1,
        .on_complete = {entered, task}};
    if (enter.dest_raddr.key == NULL)
        return false;
    entry->asking = true;
    if (tug_try_compare_and_swap_async(array->context, &enter))
        return true;
    entry->asking = false;
    return false;
}

static bool ask(struct tug_page *entry, struct tug_task *task, enum tug_gas_call what) {
    if (entry->asking)
        return wait_on(entry, task);
    if (what != TUG_CALL_ASK || !look(entry, task))
        send(entry, task, what);
    return false;
}

/* Does such an order need the page to accept puts? */
static bool needs_puts(enum tug_order_kind kind) {
    return kind != TUG_ORDER_GET && kind != TUG_ORDER_LOCATE;
}

static void send(struct tug_page *entry, struct tug_task *task, enum tug_gas_call what) {
    struct tug_array *array = entry->array;
    const bool moves = what == TUG_CALL_MOVE;
    struct tug_page_record *record = moves ? tug_array_record(array, task->page) : NULL;
    _Atomic uint32_t *wants = record != NULL ? &record->wants : NULL;
    task->question = (struct tug_question){.page = task->page,
                                           .to = moves ? task->order->to : TUG_NO_OWNER,
                                           .puts = !moves && needs_puts(task->order->kind),
                                           .wanted = wants != NULL,
                                           .gently = moves && task->order->gently};
    const struct tug_call_params call = {.dest_proc = (int)tug_array_home(array, task->page).rank,
                                         .handler = what,
                                         .payload = &task->question,
                                         .size_in_bytes = sizeof(task->question),
                                         .answer = &task->reply,
                                         .answer_in_bytes = sizeof(task->reply),
                                         .on_complete = {replied, task}};
    entry->asking = true;
    if (wants != NULL)
        atomic_fetch_add(wants, 1);
    if (!tug_try_call_async(array->context, &call)) {
        entry->asking = false;
        if (wants != NULL)
            atomic_fetch_sub(wants, 1);
        retry(task);
    }
}

/* ---- doing it: true if the page is done, false if something or somebody else goes on ---- */

/* Which bytes of the page, and where they come from or go to. */
struct part {
    size_t offset, bytes; /* in the page */
    unsigned char *local;
};

static struct part part_of(const struct tug_task *task) {
    const struct tug_order *order = task->order;
    const size_t start = (size_t)task->page * order->array->page_bytes;
    const size_t end = start + order->array->page_bytes, upto = order->index + order->bytes;
    const size_t from = order->index > start ? order->index : start;
    return (struct part){
        from - start, (upto < end ? upto : end) - from,
        order->buffer != NULL ? (unsigned char *)order->buffer + (from - order->index) : NULL};
}

static struct tug_remote_address remote(const struct tug_page *entry, size_t offset) {
    return tug_pool_there(entry->array, &entry->place, offset);
}

/* Is the memory that holds the page known? If not, something else goes on. */
static bool reach(const struct tug_page *entry, struct tug_task *task) {
    int status;
    if (!tug_pool_find(entry->array, &entry->place, again(task), &status))
        return false;
    if (status != 0)
        go_on(task, status);
    return status == 0;
}

static void finish_change(struct tug_page *entry, const struct tug_page_slot *place);

static void end_get(struct tug_page *entry) {
    if (--entry->gets == 0 && entry->changing) {
        const struct tug_page_slot next = entry->next;
        const struct tug_caller caller = entry->caller;
        finish_change(entry, &next);
        tug_answer(entry->array->context, caller, &(uint32_t){0}, sizeof(uint32_t));
    }
}

static void got(void *d, int status) {
    struct tug_task *task = d;
    struct tug_page *entry = task->entry;
    tug_follow_end(entry, task, status);
    go_on(task, status);
    end_get(entry);
}

static bool do_get(struct tug_page *entry, struct tug_task *task) {
    struct tug_array *array = entry->array;
    const struct part part = part_of(task);
    if (!tug_page_known(entry))
        return ask(entry, task, TUG_CALL_ASK);
    const unsigned char *address = atomic_load_explicit(&entry->address, memory_order_relaxed);
    if (address != NULL) {
        tug_copy(part.local, address + part.offset, part.bytes);
        tug_array_used_here(array);
        return true;
    }
    if (!reach(entry, task))
        return false;
    if (tug_follow_waits(entry, task))
        return wait_on(entry, task);
    const struct tug_read_params read = {.src_proc = (int)entry->place.owner,
                                         .src_raddr = remote(entry, part.offset),
                                         .dest_laddr = local(array, part.local),
                                         .size_in_bytes = part.bytes,
                                         .on_complete = {got, task}};
    entry->gets++;
    tug_follow_begin(entry, task);
    if (!tug_try_read_async(array->context, &read)) {
        tug_follow_cancel(entry);
        entry->gets--;
        retry(task);
    }
    return false;
}

static void done_put(void *d, int status) {
    struct tug_task *task = d;
    struct tug_page *entry = task->entry;
    tug_follow_end(entry, task, status);
    tug_page_leave(entry);
    go_on(task, status);
}

static bool try_put(struct tug_page *entry, struct tug_task *task, const struct part *part) {
    const struct tug_write_params write = {.dest_proc = (int)entry->place.owner,
                                           .dest_raddr = remote(entry, part->offset),
                                           .src_laddr = local(entry->array, part->local),
                                           .size_in_bytes = part->bytes,
                                           .on_complete = {done_put, task}};
    return tug_try_write_async(entry->array->context, &write);
}

static bool try_fetch(struct tug_page *entry, struct tug_task *task, const struct part *part) {
    struct tug_fetch_and_op_params fetch = {.dest_proc = (int)entry->place.owner,
                                            .dest_raddr = remote(entry, part->offset),
                                            .size_in_bytes = part->bytes,
                                            .op = task->order->op,
                                            .operand = task->order->operand,
                                            .on_complete = {done_put, task}};
    if (part->local != NULL)
        fetch.result_laddr = local(entry->array, part->local);
    return tug_try_fetch_and_op_async(entry->array->context, &fetch);
}

static bool do_put(struct tug_page *entry, struct tug_task *task) {
    const struct part part = part_of(task);
    unsigned char *address = atomic_load_explicit(&entry->address, memory_order_relaxed);
    if (tug_page_known(entry) && !reach(entry, task))
        return false;
    if (tug_page_known(entry) && address == NULL && tug_follow_waits(entry, task))
        return wait_on(entry, task);
    if (!tug_page_known(entry) || !tug_page_enter(entry, task->page))
        return ask(entry, task, TUG_CALL_ASK);
    if (address != NULL && task->order->kind == TUG_ORDER_PUT) {
        tug_copy(address + part.offset, part.local, part.bytes);
        tug_page_leave(entry);
        tug_array_used_here(entry->array);
        return true;
    }
    tug_follow_begin(entry, task);
    if (!(task->order->kind == TUG_ORDER_PUT ? try_put : try_fetch)(entry, task, &part)) {
        tug_follow_cancel(entry);
        tug_page_leave(entry);
        retry(task);
    }
    return false;
}

/* Does anybody wait for the page? False if the wants cannot be seen from here. */
static bool wanted(const struct tug_array *array, uint64_t page) {
    const struct tug_page_record *record = tug_array_record(array, page);
    return record != NULL && atomic_load_explicit(&record->wants, memory_order_relaxed) != 0;
}

static bool do_move(struct tug_page *entry, struct tug_task *task) {
    if (tug_page_known(entry) && entry->place.owner == task->order->to &&
        (entry->turn || !wanted(entry->array, task->page)))
        return true;
    return ask(entry, task, TUG_CALL_MOVE);
}

static bool do_locate(struct tug_page *entry, struct tug_task *task) {
    const bool hold = task->order->kind == TUG_ORDER_HOLD;
    if (!tug_page_known(entry))
        return ask(entry, task, TUG_CALL_ASK);
    if (hold && entry->place.owner == entry->array->rank &&
        (atomic_load_explicit(&entry->writers, memory_order_relaxed) & TUG_WRITERS_NO_PUTS))
        return ask(entry, task, TUG_CALL_ASK);
    if (!reach(entry, task))
        return false;
    const struct tug_remote_address there = remote(entry, 0);
    *(struct tug_page_place *)task->order->buffer =
        (struct tug_page_place){.owner = (int)entry->place.owner,
                                .home = (int)tug_array_home(entry->array, task->page).rank,
                                .generation = entry->place.generation,
                                .key = *there.key,
                                .offset = there.offset};
    return true;
}

static bool do_page(struct tug_task *task) {
    struct tug_array *array = task->order->array;
    struct tug_page *entry = tug_pages_find(&array->pages, task->page);
    if (entry == NULL)
        entry = tug_pages_take(&array->pages, task->page, false);
    if (entry == NULL) {
        retry(task);
        return false;
    }
    task->entry = entry;
    tug_page_touch(entry);
    if (entry->changing)
        return wait_on(entry, task);
    switch (task->order->kind) {
    case TUG_ORDER_GET:
        return do_get(entry, task);
    case TUG_ORDER_PUT:
    case TUG_ORDER_FETCH:
        return do_put(entry, task);
    case TUG_ORDER_MOVE:
        return do_move(entry, task);
    default:
        return do_locate(entry, task);
    }
}

static void run_task(struct tug_task *task) {
    while (do_page(task) && next_page(task, 0)) {
    }
}

/* ---- pages that move ---- */

static void answer(struct tug_array *array, struct tug_caller caller, uint32_t no) {
    tug_answer(array->context, caller, &no, sizeof(no));
}

/* Puts under way are complete, perhaps. */
static void settle(struct tug_deferred *work) {
    struct tug_page *entry = (struct tug_page *)((char *)work - offsetof(struct tug_page, work));
    atomic_store(&entry->told, false);
    if (!entry->stopping || !tug_page_stop(entry))
        return;
    entry->stopping = false;
    answer(entry->array, entry->caller, 0);
}

/* Is it from the page's home? */
static bool read_message(const struct tug_array *array, struct tug_caller caller,
                         const void *payload, struct tug_message *message) {
    memcpy(message, payload, sizeof(*message));
    return tug_array_is_home(array, message->page, (uint32_t)caller.process) &&
           tug_array_has_place(array, &message->place) && message->gently <= 1;
}

/* Has a step in a move of the page not been answered yet, or does the page come? */
static bool in_a_step(const struct tug_page *entry) {
    return entry->stopping || entry->changing || entry->coming;
}

/* Can the page leave that place, as far as this process knows? The home's generation may be newer:
 * a move that is given up adds one. */
static bool can_leave(const struct tug_page *entry, const struct tug_page_slot *place) {
    return !in_a_step(entry) &&
           (!tug_page_known(entry) ||
            (entry->place.owner == place->owner && entry->place.slot == place->slot &&
             entry->place.generation <= place->generation));
}

static bool on_stop(struct tug_array *array, struct tug_caller caller, const void *payload) {
    struct tug_message message;
    if (!read_message(array, caller, payload, &message))
        return false;
    struct tug_page *entry = tug_pages_find(&array->pages, message.page);
    bool held = false;
    if (entry != NULL) {
        if (!can_leave(entry, &message.place))
            return false;
        entry->puts_from = message.place.generation + 1;
        /* seq_cst, then the holds: pairs with try_hold(), which counts its hold before it enters */
        entry->stopping = !tug_page_stop(entry);
        held = message.gently && atomic_load(&entry->holds) != 0;
        entry->stopping &= !held;
        entry->caller = caller;
    }
    if (entry == NULL || !entry->stopping)
        answer(array, caller, held);
    return true;
}

static void finish_change(struct tug_page *entry, const struct tug_page_slot *place) {
    entry->changing = entry->coming = false;
    if (entry->puts_from < place->generation)
        entry->puts_from = place->generation;
    const bool was_here = tug_page_known(entry) && entry->place.owner == entry->array->rank;
    const bool is_here = place->owner == entry->array->rank;
    if (was_here && !is_here)
        tug_follow_left(entry);
    else if (is_here && !was_here)
        tug_follow_came(entry);
    set_place(entry, place);
    wake(entry);
}

/* Is this new place of the page possible? If the place is in this process, the page must have been
 * copied there. If not, this process must have been stopped before: each process that may put is,
 * and so is the owner. */
static bool can_go(const struct tug_page *entry, const struct tug_page_slot *place) {
    const struct tug_page_slot *next = &entry->next;
    if (place->owner == entry->array->rank)
        return entry->coming && !entry->changing && next->owner == place->owner &&
               next->slot == place->slot && next->generation == place->generation;
    return !in_a_step(entry) && (atomic_load(&entry->writers) & TUG_WRITERS_NO_PUTS) &&
           (!tug_page_known(entry) ||
            (entry->place.generation < place->generation &&
             (entry->place.owner != entry->array->rank || entry->puts_from == place->generation)));
}

static bool on_change(struct tug_array *array, struct tug_caller caller, const void *payload) {
    struct tug_message message;
    if (!read_message(array, caller, payload, &message))
        return false;
    struct tug_page *entry = tug_pages_find(&array->pages, message.page);
    if (entry != NULL ? !can_go(entry, &message.place) : message.place.owner == array->rank)
        return false;
    if (entry != NULL && entry->gets > 0) {
        entry->changing = true;
        entry->next = message.place;
        entry->caller = caller;
        return true;
    }
    if (entry != NULL)
        finish_change(entry, &message.place);
    answer(array, caller, entry == NULL);
    return true;
}

/* The page has left the slot. It may have come back to another one, and the array may have shrunk
 * since. */
static bool on_free(struct tug_array *array, struct tug_caller caller, const void *payload) {
    struct tug_message message;
    memcpy(&message, payload, sizeof(message));
    const struct tug_page_slot *place = &message.place;
    if (message.page >= array->npages_most || !tug_array_has_place(array, place) ||
        tug_array_home(array, message.page).rank != (uint32_t)caller.process ||
        place->owner != array->rank || array->slot_pages[place->slot] != message.page)
        return false;
    const struct tug_page *entry = tug_pages_find(&array->pages, message.page);
    if (entry != NULL && ((tug_page_known(entry) && entry->place.owner == array->rank &&
                           entry->place.slot == place->slot) ||
                          (entry->coming && entry->next.slot == place->slot)))
        return false;
    tug_slot_give(array, place->slot);
    answer(array, caller, 0);
    return true;
}

/* ---- fetching a page that comes ---- */

struct fetch {
    struct tug_deferred work;
    struct tug_array *array;
    struct tug_caller caller;
    struct tug_message message;
    struct tug_page *entry;
    struct tug_fetched fetched;
};

static void fetched(void *d, int status) {
    struct fetch *fetch = d;
    struct tug_array *array = fetch->array;
    fetch->fetched.status = status;
    if (status != 0) {
        fetch->entry->coming = false;
        tug_slot_give(array, fetch->fetched.slot);
    } else {
        fetch->entry->next.owner = array->rank;
    }
    tug_answer(array->context, fetch->caller, &fetch->fetched, sizeof(fetch->fetched));
    free(fetch);
}

/* Makes the new owner's entry, before the page arrives. The entry stays. False: there is no memory
 * now, and the work is repeated later; or the message is refused. */
static bool find_entry(struct fetch *fetch) {
    struct tug_array *array = fetch->array;
    const struct tug_page_slot *place = &fetch->message.place;
    struct tug_page *entry = tug_pages_find(&array->pages, fetch->message.page);
    if (entry == NULL)
        entry = tug_pages_take(&array->pages, fetch->message.page, true);
    if (entry == NULL) {
        tug_deferred_retry(&array->deferred, &fetch->work);
        return false;
    }
    if (!can_leave(entry, place)) {
        tug_slot_give(array, fetch->fetched.slot);
        tug_array_refuse(array, fetch->caller);
        free(fetch);
        return false;
    }
    entry->coming = true;
    entry->next = (struct tug_page_slot){place->generation + 1, TUG_NO_OWNER, fetch->fetched.slot};
    fetch->entry = entry;
    return true;
}

static void run_fetch(struct tug_deferred *work) {
    struct fetch *fetch = (struct fetch *)work;
    struct tug_array *array = fetch->array;
    const struct tug_page_slot *place = &fetch->message.place;
    int status;
    if (fetch->entry == NULL && !find_entry(fetch))
        return;
    if (!tug_pool_find(array, place, work, &status))
        return;
    if (status != 0) {
        fetched(fetch, status);
        return;
    }
    const struct tug_read_params read = {
        .src_proc = (int)place->owner,
        .src_raddr = tug_pool_there(array, place, 0),
        .dest_laddr = tug_pool_here(array, place->owner, fetch->fetched.slot),
        .size_in_bytes = array->page_bytes,
        .on_complete = {fetched, fetch}};
    if (!tug_try_read_async(array->context, &read))
        tug_deferred_retry(&array->deferred, work);
}

static bool on_fetch(struct tug_array *array, struct tug_caller caller, const void *payload) {
    struct tug_message message;
    if (!read_message(array, caller, payload, &message) || message.place.owner == array->rank)
        return false;
    struct fetch *fetch = calloc(1, sizeof(*fetch));
    if (fetch == NULL || !tug_slot_take(array, message.page, &fetch->fetched.slot)) {
        free(fetch);
        const struct tug_fetched full = {.status = TUG_ERR_NO_MEMORY};
        tug_answer(array->context, caller, &full, sizeof(full));
        return true;
    }
    fetch->work.run = run_fetch;
    fetch->array = array;
    fetch->caller = caller;
    fetch->message = message;
    run_fetch(&fetch->work);
    return true;
}

void tug_order_register(struct tug_array *array) {
    for (size_t i = 0; i < array->pages.nentries; i++) {
        array->pages.entries[i].array = array;
        array->pages.entries[i].work.run = settle;
    }
    tug_array_receive(array, TUG_CALL_STOP, on_stop);
    tug_array_receive(array, TUG_CALL_CHANGE, on_change);
    tug_array_receive(array, TUG_CALL_FETCH, on_fetch);
    tug_array_receive(array, TUG_CALL_FREE, on_free);
}
