#include "gas/errand.h"

#include <stddef.h>

static struct tug_errands *of_service(struct tug_service *service) {
    return (struct tug_errands *)((char *)service - offsetof(struct tug_errands, service));
}

static bool any(const struct tug_errands *errands) {
    return errands->first != NULL || atomic_load(&errands->aside) != NULL;
}

/* Runs all that are there, once. True if any of them got anywhere. */
static bool run_all(struct tug_errands *errands) {
    struct tug_errand *last_before = errands->last, *errand;
    bool moved = false;
    /* acquire: pairs with the release in put_aside */
    for (errand = atomic_exchange_explicit(&errands->aside, NULL, memory_order_acquire);
         errand != NULL;) {
        struct tug_errand *next = errand->next;
        errand->run(errand);
        errand = next;
        moved = true;
    }
    while (last_before != NULL && (errand = errands->first) != NULL) {
        errands->first = errand->next;
        if (errands->first == NULL)
            errands->last = NULL;
        const bool was_last = errand == last_before;
        errand->run(errand);
        moved |= errands->last != errand;
        if (was_last)
            break;
    }
    return moved;
}

static bool poll(struct tug_service *service, bool more_comes) {
    struct tug_errands *errands = of_service(service);
    (void)more_comes;
    return any(errands) && run_all(errands);
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

void tug_errands_open(struct tug_errands *errands) {
    *errands = (struct tug_errands){
        .service = {.poll = poll, .flush = flush, .busy = busy, .arm = arm, .descriptor = -1}};
    tug_engine_serve(&errands->service);
}

void tug_errands_close(struct tug_errands *errands) {
    tug_engine_unserve(&errands->service);
}

static void execute(struct tug_command *command) {
    struct tug_errand *errand = command->payload.pointers[0];
    errand->run(errand);
}

static void execute_all(struct tug_command *command) {
    (void)run_all(command->payload.pointers[0]);
}

/* The ring is full: its holder will look, unless he has done so just before. */
static void put_aside(struct tug_errands *errands, struct tug_errand *errand) {
    struct tug_ticket ticket;
    struct tug_errand *top = atomic_load_explicit(&errands->aside, memory_order_relaxed);
    do
        errand->next = top;
    /* release: pairs with the acquire in run_all */
    while (!atomic_compare_exchange_weak(&errands->aside, &top, errand));
    switch (tug_engine_enter(&ticket)) {
    case TUG_ENTRY_BATON:
        (void)run_all(errands);
        tug_engine_leave();
        break;
    case TUG_ENTRY_TICKET:
        ticket.cell->execute = execute_all;
        ticket.cell->payload.pointers[0] = errands;
        tug_engine_commit(&ticket);
        break;
    default:
        break;
    }
}

void tug_errands_post(struct tug_errands *errands, struct tug_errand *errand) {
    struct tug_ticket ticket;
    switch (tug_engine_enter(&ticket)) {
    case TUG_ENTRY_BATON:
        errand->run(errand);
        tug_engine_leave();
        break;
    case TUG_ENTRY_TICKET:
        ticket.cell->execute = execute;
        ticket.cell->payload.pointers[0] = errand;
        tug_engine_commit(&ticket);
        break;
    default:
        put_aside(errands, errand);
    }
}

void tug_errands_retry(struct tug_errands *errands, struct tug_errand *errand) {
    errand->next = NULL;
    if (errands->first == NULL)
        errands->first = errand;
    else
        errands->last->next = errand;
    errands->last = errand;
    tug_engine_service_changed(&errands->service);
}
