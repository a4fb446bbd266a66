/* Looks from inside the host: by a thread of the program that waits in a call of the host's and has
 * found nothing there. It may hold locks of the host's, so nothing is done here that calls the host
 * or waits: only services that say they can are looked after, no command is executed, and the baton
 * is taken only if it is free. Commands that come meanwhile are left to the offload thread; without
 * that thread there are no such looks. Nor are there any while some service must be looked after
 * from outside: the offload thread has to be there for its peers anyway, and it sleeps through
 * their packets if it is told that somebody looks. */
#include "base/stats.h"
#include "engine/private.h"

_Thread_local bool tug_engine_looked_inside;

static bool poll_inside(struct tug_engine *engine) {
    bool moved = false;
    for (struct tug_service *service = engine->services; service; service = service->next)
        if (service->poll_inside != NULL)
            moved |= tug_services_poll_inside(engine, service);
    /* seq_cst: as in tug_services_poll */
    if (moved)
        atomic_thread_fence(memory_order_seq_cst);
    return moved;
}

/* Since when this thread looks, in its call of the host's or in some that were short. */
static _Thread_local uint64_t since_ns;

/* The thread looks on for a while: peers, and the offload thread, may rely on it. Who has done so
 * for a beat says when it leaves: to say so after every call would wake the offload thread as
 * often. An offload thread in its deep sleep does not know of it, and each packet would wake it, at
 * the sender's expense: it is woken once, ahead of them, and sleeps on with a limit. */
static void extend_lease(struct tug_engine *engine) {
    const uint64_t now = tug_engine_keep_looking(engine);
    /* jobs are not advanced from here: the offload thread is to look after them */
    if (now == 0 || engine->left || engine->nactive > 0 ||
        tug_lease_is(&engine->news, TUG_LEASE_HELD))
        return;
    if (since_ns == 0)
        since_ns = now;
    tug_engine_looked_inside = now - since_ns > TUG_TICK_NS;
    tug_lease_set(&engine->news, now + (tug_engine_looked_inside ? TUG_TICK_NS : TUG_GLANCE_NS));
    if (!tug_engine_looked_inside)
        return;
    tug_engine_stays(engine, true);
    if (tug_notes_wanted_by(TUG_NOTES_OFFLOAD))
        tug_engine_ring_offload(engine);
}

/* Where something was found there is mostly more within a round trip: looks on for so long, but not
 * for ever, as the host waits too. True if something was found. */
static bool linger_inside(struct tug_engine *engine) {
    if (!poll_inside(engine))
        return false;
    for (unsigned looks = 0, vain = 0; looks < TUG_BATCH && vain < TUG_HABIT; looks++) {
        vain = poll_inside(engine) ? 0 : vain + 1;
        extend_lease(engine);
    }
    tug_stat_add(TUG_STAT_INSIDE_ROUNDS, 1);
    tug_trace_count(TUG_TRACE_INSIDE, 1);
    return true;
}

bool tug_engine_look_inside(void) {
    struct tug_engine *engine = &tug_engine;
    bool wake;
    if (!engine->has_thread || !tug_engine_enter_idle())
        return false;
    const bool all = tug_services_all_inside(engine);
    if (all)
        extend_lease(engine);
    const bool moved = all && linger_inside(engine);
    tug_engine_unmute(engine);
    if (tug_baton_leave(&engine->ring, &wake))
        tug_engine_after_look(engine, wake, false);
    else
        tug_engine_offer(engine);
    return moved;
}

void tug_engine_leave_inside(void) {
    tug_engine_looked_inside = false;
    since_ns = 0;
    tug_engine_stays(&tug_engine, false);
    tug_engine_looks_until(&tug_engine, 0);
    tug_engine_say_gone(&tug_engine);
}
