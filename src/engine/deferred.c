#include "engine/deferred.h"

#include <stddef.h>

#include "engine/engine.h"

static struct tug_deferred_list *of_service(struct tug_service *service) {
    return (struct tug_deferred_list *)((char *)service -
                                        offsetof(struct tug_deferred_list, service));
}

static bool any(const struct tug_deferred_list *deferred) {
    return atomic_load(&deferred->posted) != NULL;
}

/* Runs all that are there, once, in the order in which they were posted. True if any of them got
 * anywhere. */
static bool run_all(struct tug_deferred_list *deferred) {
    struct tug_deferred *first = NULL, *next;
    bool moved = false;
    /* acquire: pairs with the release in push */
    for (struct tug_deferred *work =
             atomic_exchange_explicit(&deferred->posted, NULL, memory_order_acquire);
         work != NULL; work = next) {
        next = work->next;
        work->next = first;
        first = work;
    }
    for (; first != NULL; first = next) {
        next = first->next;
        first->run(first);
        moved |= atomic_load(&deferred->posted) != first; /* else it is to be tried again */
    }
    return moved;
}

static bool poll(struct tug_service *service, bool more_comes) {
    struct tug_deferred_list *deferred = of_service(service);
    (void)more_comes;
    return any(deferred) && run_all(deferred);
}

static void flush(struct tug_service *service) {
    (void)poll(service, false);
}

static bool busy(struct tug_service *service) {
    return any(of_service(service));
}

static bool arm(struct tug_service *service) {
    return !any(of_service(service));
}

void tug_deferred_open(struct tug_deferred_list *deferred) {
    *deferred = (struct tug_deferred_list){
        .service = {.poll = poll, .flush = flush, .busy = busy, .arm = arm, .descriptor = -1}};
    tug_engine_serve(&deferred->service);
}

void tug_deferred_close(struct tug_deferred_list *deferred) {
    tug_engine_unserve(&deferred->service);
}

static void execute(struct tug_command *command) {
    (void)run_all(command->payload.pointers[0]);
}

static void push(struct tug_deferred_list *deferred, struct tug_deferred *work) {
    struct tug_deferred *top = atomic_load_explicit(&deferred->posted, memory_order_relaxed);
    do
        work->next = top;
    /* release: pairs with the acquire in run_all */
    while (!atomic_compare_exchange_weak(&deferred->posted, &top, work));
}

void tug_deferred_post(struct tug_deferred_list *deferred, struct tug_deferred *work) {
    struct tug_ticket ticket;
    push(deferred, work);
    switch (tug_engine_enter(&ticket)) {
    case TUG_ENTRY_BATON:
        (void)run_all(deferred);
        tug_engine_leave();
        break;
    case TUG_ENTRY_TICKET:
        ticket.cell->execute = execute;
        ticket.cell->payload.pointers[0] = deferred;
        tug_engine_commit(&ticket);
        break;
    default: /* the ring is full: its holder polls, unless it has done so just before */
        break;
    }
}

void tug_deferred_retry(struct tug_deferred_list *deferred, struct tug_deferred *work) {
    push(deferred, work);
    tug_engine_service_changed(&deferred->service);
}
