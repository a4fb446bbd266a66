#include "engine/suspend.h"

#include <stddef.h>

#include "base/clock.h"
#include "engine/private.h"

_Atomic uint32_t tug_suspended_out;

static struct tug_suspended *_Atomic pushed;
static _Atomic uint32_t looks;
static struct tug_suspended *list; /* of the thread that looks */

void tug_suspend_push(struct tug_suspended *wait) {
    atomic_fetch_add(&tug_suspended_out, 1); /* seq_cst, before the look behind this */
    struct tug_suspended *next = atomic_load_explicit(&pushed, memory_order_relaxed);
    do
        wait->next = next;
    while (!atomic_compare_exchange_weak(&pushed, &next, wait)); /* releases *wait to look_once() */
}

/* One round. A wait is out of the list before it is woken: then its memory may go. */
static void look_once(void) {
    struct tug_suspended **at = &list;
    while (*at != NULL)
        at = &(*at)->next;
    *at = atomic_exchange(&pushed, NULL);
    for (at = &list; *at != NULL;) {
        struct tug_suspended *wait = *at;
        if (!wait->done(wait->argument)) {
            at = &wait->next;
            continue;
        }
        *at = wait->next;
        atomic_fetch_sub(&tug_suspended_out, 1);
        wait->wake(wait);
    }
}

void tug_suspend_look(void) {
    uint32_t seen = 1;
    /* seq_cst: the thread that looks sees, with the count, what was true and pushed before */
    if (atomic_fetch_add(&looks, 1) != 0)
        return;
    do {
        seen = atomic_load(&looks);
        look_once();
        /* releases the list to the next thread that looks */
    } while (!atomic_compare_exchange_strong(&looks, &seen, 0));
}

void tug_engine_suspend(struct tug_suspended *wait) {
    struct tug_engine *engine = &tug_engine;
    const bool first = !tug_suspend_any();
    bool (*const done)(void *) = wait->done;
    void *const argument = wait->argument;
    tug_suspend_push(wait); /* from here on *wait may be woken */
    if (done(argument))
        tug_suspend_look();
    if (first)
        tug_engine_nudge(engine); /* the driver may sleep without a limit */
    /* seq_cst, after the count: pairs with the thread's look at it before its deep sleep */
    if (tug_notes_wanted_by(TUG_NOTES_OFFLOAD) || !tug_lease_runs(&engine->news, tug_clock_ns()))
        tug_engine_say_gone(engine);
}

void tug_engine_comes_back(void) {
    tug_engine_poll();
    tug_lease_set(&tug_engine.news, TUG_LEASE_FRESH);
}
