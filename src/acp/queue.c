/* Commands that cannot start yet, and the service by which the engine starts them.
 *
 * Threads push commands onto `arrived` and see to it that the holder of the baton looks: by being
 * it, or by a command in the engine's ring. The holder sorts them:
 *
 *   arrived -> waiting for order (at the slot of the handle they wait for) -> ready -> started
 *                                                                              |  \
 *                                                           no credit: waiting to be relayed
 *                                                           no key: with the lookup, lookup.c
 *
 * A service of the engine's looks after them in every round, and keeps somebody driving while there
 * are any. Invariant: nobody but the holder touches anything but `arrived` and `called`.
 */
#include "acp/layer.h"
#include "engine/service.h"

static struct {
    struct tug_acp_command *_Atomic arrived; /* the last first */
    _Atomic bool called;                     /* a run has been asked for, and has not begun */
    _Atomic unsigned waiting;                /* for order; written by the holder */
    struct tug_acp_list ready;
    struct tug_acp_list unsent;
    acp_handle_t released; /* those that waited for handles up to here are ready */
    unsigned queued;       /* commands in all lists */
    struct tug_service service;
} queue;

void tug_acp_append(struct tug_acp_list *list, struct tug_acp_command *command) {
    command->next = NULL;
    if (list->first == NULL)
        list->first = command;
    else
        list->last->next = command;
    list->last = command;
}

static struct tug_acp_command *take_first(struct tug_acp_list *list) {
    struct tug_acp_command *first = list->first;
    list->first = first->next;
    queue.queued--;
    return first;
}

/* What has been taken is the first again. */
static void put_back(struct tug_acp_list *list, struct tug_acp_command *command) {
    if (list->first == NULL)
        list->last = command;
    command->next = list->first;
    list->first = command;
    queue.queued++;
}

static void put(struct tug_acp_list *list, struct tug_acp_command *command) {
    queue.queued++;
    tug_acp_append(list, command);
}

/* ---- order ---- */

static void release_waiting(void) {
    acp_handle_t until = tug_acp_complete_until();
    while (queue.released < until) {
        struct tug_acp_list *waiting = &tug_acp_slot_of(++queue.released)->waiting;
        struct tug_acp_command *next, *at = waiting->first;
        for (waiting->first = NULL; at != NULL; at = next) {
            next = at->next;
            tug_acp_append(&queue.ready, at);
            (void)atomic_fetch_sub_explicit(&queue.waiting, 1, memory_order_relaxed);
        }
    }
}

/* What has arrived, the first first. */
static struct tug_acp_command *take_arrived(void) {
    struct tug_acp_command *next, *at, *in_order = NULL;
    /* acquire: pairs with the release in hand_over */
    at = atomic_exchange_explicit(&queue.arrived, NULL, memory_order_acquire);
    for (; at != NULL; at = next) {
        next = at->next;
        at->next = in_order;
        in_order = at;
    }
    return in_order;
}

static void sort(void) {
    struct tug_acp_command *next, *at = take_arrived();
    if (at != NULL)
        release_waiting(); /* leaves no list of a handle before the last round of the ring */
    for (; at != NULL; at = next) {
        next = at->next;
        bool early = at->order > queue.released;
        put(early ? &tug_acp_slot_of(at->order)->waiting : &queue.ready, at);
        /* seq_cst: pairs with the load in tug_acp_order_moved; who completes what is waited for
         * sees that it is, or release_waiting() sees that it is complete */
        if (early)
            (void)atomic_fetch_add(&queue.waiting, 1);
    }
}

/* ---- starting ---- */

/* False: there is no room, and the command is still the caller's. */
static bool send(struct tug_acp_command *command) {
    enum tug_acp_relay sent =
        queue.unsent.first != NULL ? TUG_ACP_NO_CREDIT : tug_acp_relay(command);
    if (sent == TUG_ACP_NO_CREDIT)
        put(&queue.unsent, command);
    return sent != TUG_ACP_NO_ROOM;
}

static bool send_again(struct tug_acp_command *command) {
    return tug_acp_relay(command) == TUG_ACP_SENT;
}

static bool start(struct tug_acp_command *command) {
    int status = tug_acp_order_failed(command);
    if (status != 0) {
        tug_acp_end(command, status);
        return true;
    }
    switch (tug_acp_start(command)) {
    case TUG_ACP_FULL:
        return false;
    case TUG_ACP_LOOK_UP:
        return tug_acp_look_up(command);
    case TUG_ACP_RELAY:
        return send(command);
    default:
        return true;
    }
}

void tug_acp_start_queued(struct tug_acp_command *command) {
    if (!start(command))
        put(&queue.ready, command);
}

/* How many have started; what goes to the end of the list meanwhile is for the next round. */
static unsigned run_list(struct tug_acp_list *list, bool (*how)(struct tug_acp_command *)) {
    const struct tug_acp_command *last = list->last;
    bool more = list->first != NULL;
    unsigned started = 0;
    while (more) {
        struct tug_acp_command *command = take_first(list);
        more = command != last;
        if (!how(command)) {
            put_back(list, command);
            break;
        }
        started++;
    }
    return started;
}

/* Starts what can be. True if anything has. Holder only. */
static bool run(void) {
    /* seq_cst: who finds it set has published what it is about, which is seen below */
    atomic_store(&queue.called, false);
    sort();
    release_waiting();
    return run_list(&queue.ready, start) + run_list(&queue.unsent, send_again) > 0;
}

/* ---- in the engine ---- */

static void execute_run(struct tug_command *command) {
    (void)command;
    (void)run();
    tug_engine_service_changed(&queue.service);
}

/* The holder will run soon. Any thread, callbacks too. */
static void call_for_run(void) {
    struct tug_ticket ticket;
    if (atomic_exchange(&queue.called, true)) /* seq_cst: pairs with the store in run */
        return;
    switch (tug_engine_enter(&ticket)) {
    case TUG_ENTRY_BATON:
        execute_run(NULL);
        tug_engine_leave();
        break;
    case TUG_ENTRY_TICKET:
        ticket.cell->execute = execute_run;
        tug_engine_commit(&ticket);
        break;
    case TUG_ENTRY_FULL: /* whoever empties the ring polls the service afterwards */
        atomic_store(&queue.called, false);
        break;
    }
}

void tug_acp_hand_over(struct tug_acp_command *command) {
    command->next = atomic_load_explicit(&queue.arrived, memory_order_relaxed);
    /* release: pairs with the acquire in sort */
    while (!atomic_compare_exchange_weak_explicit(&queue.arrived, &command->next, command,
                                                  memory_order_release, memory_order_relaxed))
        ;
    call_for_run();
}

void tug_acp_order_moved(void) {
    if (__builtin_expect(atomic_load(&queue.waiting) > 0, 0)) /* seq_cst: pairs with sort */
        call_for_run();
}

void tug_acp_relay_again(struct tug_acp_command *command) {
    put(&queue.unsent, command);
    tug_engine_service_changed(&queue.service);
}

static bool poll(struct tug_service *service, bool more_comes) {
    (void)service, (void)more_comes;
    return run();
}

static bool busy(struct tug_service *service) {
    (void)service;
    return queue.queued > 0 || atomic_load_explicit(&queue.arrived, memory_order_relaxed) != NULL;
}

static void flush(struct tug_service *service) {
    (void)service;
}

/* Everything else waits for answers, which ring. */
static bool arm(struct tug_service *service) {
    (void)service;
    return queue.ready.first == NULL &&
           atomic_load_explicit(&queue.arrived, memory_order_relaxed) == NULL;
}

void tug_acp_queue_open(void) {
    queue.ready = queue.unsent = (struct tug_acp_list){0};
    queue.released = 0;
    queue.queued = 0;
    queue.service = (struct tug_service){
        .poll = poll, .flush = flush, .busy = busy, .arm = arm, .descriptor = -1};
    tug_engine_serve(&queue.service);
}

void tug_acp_queue_close(void) {
    tug_engine_unserve(&queue.service);
}
