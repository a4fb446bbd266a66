#include "engine/deferred.h"

#include <stddef.h>

#include "engine/engine.h"

static struct tug_deferred_list *of_service(struct tug_service *service) {
    return (struct tug_deferred_list *)((char *)service -
                                        offsetof(struct tug_deferred_list, service));
}

static bool any(const struct tug_deferred_list *deferred) {
    return deferred->first != NULL || atomic_load(&deferred->aside) != NULL;
}

/* Runs all that are there, once. True if any of them got anywhere. */
static bool run_all(struct tug_deferred_list *deferred) {
    struct tug_deferred *last_before = deferred->last, *work;
    bool moved = false;
    /* acquire: pairs with the release in put_aside */
    for (work = atomic_exchange_explicit(&deferred->aside, NULL, memory_order_acquire);
         work != NULL;) {
        struct tug_deferred *next = work->next;
        work->run(work);
        work = next;
        moved = true;
    }
    while (last_before != NULL && (work = deferred->first) != NULL) {
        deferred->first = work->next;
        if (deferred->first == NULL)
            deferred->last = NULL;
        const bool was_last = work == last_before;
        work->run(work);
        moved |= deferred->last != work;
        if (was_last)
            break;
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
    struct tug_deferred *work = command->payload.pointers[0];
    work->run(work);
}

static void execute_all(struct tug_command *command) {
    (void)run_all(command->payload.pointers[0]);
}

/* The ring is full: its holder will look, unless he has done so just before. */
static void put_aside(struct tug_deferred_list *deferred, struct tug_deferred *work) {
    struct tug_ticket ticket;
    struct tug_deferred *top = atomic_load_explicit(&deferred->aside, memory_order_relaxed);
    do
        work->next = top;
    /* release: pairs with the acquire in run_all */
    while (!atomic_compare_exchange_weak(&deferred->aside, &top, work));
    switch (tug_engine_enter(&ticket)) {
    case TUG_ENTRY_BATON:
        (void)run_all(deferred);
        tug_engine_leave();
        break;
    case TUG_ENTRY_TICKET:
        ticket.cell->execute = execute_all;
        ticket.cell->payload.pointers[0] = deferred;
        tug_engine_commit(&ticket);
        break;
    default:
        break;
    }
}

void tug_deferred_post(struct tug_deferred_list *deferred, struct tug_deferred *work) {
    struct tug_ticket ticket;
    switch (tug_engine_enter(&ticket)) {
    case TUG_ENTRY_BATON:
        work->run(work);
        tug_engine_leave();
        break;
    case TUG_ENTRY_TICKET:
        ticket.cell->execute = execute;
        ticket.cell->payload.pointers[0] = work;
        tug_engine_commit(&ticket);
        break;
    default:
        put_aside(deferred, work);
    }
}

void tug_deferred_retry(struct tug_deferred_list *deferred, struct tug_deferred *work) {
    work->next = NULL;
    if (deferred->first == NULL)
        deferred->first = work;
    else
        deferred->last->next = work;
    deferred->last = work;
    tug_engine_service_changed(&deferred->service);
}
