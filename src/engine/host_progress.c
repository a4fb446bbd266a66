/* Progress of the host MPI by the offload thread, while the program computes and something of the
 * host's is needed: windows of the native lane, messages of the host that carry packets.
 *
 * The host serialises its threads by one lock. A poll beside a thread of the program that is inside
 * the host is worth nothing, since that thread makes the progress itself, and it costs that thread
 * dearly, since the lock then changes hands through the kernel. So the offload thread polls if
 * the program has not called the host since the last beat, and at every TUG_CALLED_BEATS-th beat if
 * it has, since not every call makes progress (MPI_Win_sync in a loop): every TUG_GLANCE_NS for
 * TUG_QUICK_NS after a poll that had an effect, every TUG_TICK_NS otherwise. If the host is polled
 * for services alone, which know whether there was an effect, each poll without one doubles that,
 * up to the slowest beat. A poll that had to sleep has met a thread inside the host, and counts as
 * one without.
 */
#include <sched.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/stats.h"
#include "engine/private.h"

static long times_slept(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
}

/* Polls the services, whose polls progress the host, too, or else the host alone. True if something
 * is known to have moved. */
static bool look(struct tug_engine *engine) {
    bool moved = false;
    if (atomic_load(&engine->nservices) > 0 && tug_baton_take(&engine->ring))
        tug_offload_round(engine, &moved);
    else
        engine->poll_host();
    return moved;
}

bool tug_host_only_services(void) {
    return atomic_load_explicit(&tug_attendance, memory_order_relaxed) ==
           atomic_load_explicit(&tug_attended_services, memory_order_relaxed);
}

/* One poll. True if it had an effect: services know; the host does not say, but such a poll takes
 * clearly longer than an empty one. The estimate of that time drifts up slowly, so that it recovers
 * from having been too low. */
static bool poll(struct tug_engine *engine, struct tug_host_progress *progress) {
    const uint64_t start = tug_clock_ns();
    const bool moved = look(engine);
    const uint64_t took = tug_clock_ns() - start;
    tug_stat_add(TUG_STAT_HOST_POLLS, 1);
    if (moved || tug_host_only_services())
        return moved;
    if (took < progress->empty_ns)
        progress->empty_ns = took;
    else
        progress->empty_ns += progress->empty_ns / 64 + 1;
    return took > progress->empty_ns + progress->empty_ns / 2 + TUG_COLD_NS;
}

static uint64_t calls_so_far(const struct tug_engine *engine) {
    return atomic_load_explicit(&engine->in_host, memory_order_relaxed) >> 32;
}

/* Polls as long as that has an effect and the program stays out of the host. Not a poll longer: the
 * process that is to send the next message may be waiting for this core. True if there was an
 * effect; false also if a poll has slept for the host's lock. */
static bool poll_on(struct tug_engine *engine, struct tug_host_progress *progress) {
    const long slept = times_slept();
    const uint64_t start = tug_clock_ns();
    bool had_effect = false;
    while (poll(engine, progress)) {
        if (!tug_host_only_services() && times_slept() != slept)
            return false;
        had_effect = true;
        if (calls_so_far(engine) != progress->calls || tug_clock_ns() - start >= TUG_QUICK_NS)
            break;
    }
    return had_effect;
}

/* Has the program called the host since the last beat, or is it inside? */
static bool is_called(const struct tug_engine *engine, struct tug_host_progress *progress) {
    const uint64_t calls = calls_so_far(engine), before = progress->calls;
    progress->calls = calls;
    return calls != before ||
           (uint32_t)atomic_load_explicit(&engine->in_host, memory_order_relaxed) != 0;
}

/* After an effect more is likely to follow for a while. */
static int64_t next_pace(struct tug_host_progress *progress, bool had_effect) {
    const uint64_t now = tug_clock_ns();
    const int64_t slower_ns = 2 * progress->pace_ns, slowest_ns = tug_sleep_slower(TUG_DOUBLINGS);
    if (had_effect)
        progress->quick_until = now + TUG_QUICK_NS;
    if (now < progress->quick_until)
        return TUG_GLANCE_NS;
    if (!tug_host_only_services())
        return TUG_TICK_NS;
    return slower_ns < slowest_ns ? slower_ns : slowest_ns;
}

void tug_host_beat(struct tug_engine *engine, struct tug_host_progress *progress, bool served) {
    const unsigned before = progress->called;
    progress->called = 0;
    if (!tug_engine_attended())
        return;
    const uint64_t quiet_until = atomic_load_explicit(&engine->quiet_until, memory_order_relaxed);
    const int64_t settling_ns = (int64_t)(quiet_until - tug_clock_ns());
    if (settling_ns > 0) {
        progress->pace_ns = settling_ns + TUG_SETTLE_NS;
        return;
    }
    /* such callers get the host on, too, if that is for services alone */
    if (tug_engine_wants_help() && served && tug_host_only_services()) {
        progress->pace_ns = tug_sleep_slower(TUG_DOUBLINGS - 1);
        return;
    }
    if (is_called(engine, progress) && !tug_engine_wants_help()) {
        progress->called = before + 1;
        /* a beat disturbs such calls; but the last may be over by now: every other beat is short,
         * unless the program calls the host all the time */
        progress->pace_ns =
            before % 2 == 0 && before < TUG_STEADY_BEATS ? TUG_GLANCE_NS : 2 * TUG_TICK_NS;
        if (progress->called % TUG_CALLED_BEATS != 0)
            return;
    }
    const uint64_t begin_ns = tug_trace_begin(TUG_TRACE_HOST_POLL);
    const bool had_effect = poll_on(engine, progress);
    tug_trace_end(TUG_TRACE_HOST_POLL, had_effect ? TUG_TRACE_BY_FOUND : TUG_TRACE_BY_NOTHING,
                  begin_ns);
    if (progress->called == 0)
        progress->pace_ns = next_pace(progress, had_effect);
}

void tug_engine_keep_quiet(void) {
    atomic_store_explicit(&tug_engine.quiet_until, tug_clock_ns() + TUG_SETTLE_NS,
                          memory_order_relaxed);
}

void tug_engine_attend(int change) {
    struct tug_engine *engine = &tug_engine;
    if (change > 0)
        tug_engine_keep_quiet();
    uint32_t before = atomic_fetch_add(&tug_attendance, (uint32_t)change);
    if (change > 0 && before == 0 && engine->has_thread) {
        tug_engine_nudge(engine);
        /* seq_cst: pairs with the thread's look at the count before its deep sleep */
        if (tug_gather_wanted_by(TUG_GATHER_OFFLOAD))
            tug_engine_ring_offload(engine);
    }
}

/* ---- calls of the host by the program ---- */

#define ONE_CALL ((uint64_t)1 << 32)

/* This thread is counted. An error handler may have jumped out of its last call. */
static _Thread_local bool is_in_host;

void tug_engine_host_begin(void) {
    atomic_fetch_add_explicit(&tug_engine.in_host, ONE_CALL + !is_in_host, memory_order_relaxed);
    is_in_host = true;
}

void tug_engine_host_end(void) {
    atomic_fetch_sub_explicit(&tug_engine.in_host, is_in_host, memory_order_relaxed);
    is_in_host = false;
}

void tug_engine_host_called(void) {
    atomic_fetch_add_explicit(&tug_engine.in_host, ONE_CALL, memory_order_relaxed);
}

/* ---- visits of the offload thread ---- */

_Thread_local bool tug_is_offload;

bool tug_engine_is_own_thread(void) {
    return tug_is_offload;
}

_Atomic bool tug_host_reserved;

/* The offload thread is in the host, or about to look whether it may. */
static _Atomic bool visiting;

void tug_engine_reserve_host(void) {
    struct tug_backoff backoff = {0};
    if (atomic_load_explicit(&tug_host_reserved, memory_order_relaxed))
        return;
    /* seq_cst: either this thread sees the visit that has begun, or the visitor sees this */
    atomic_store(&tug_host_reserved, true);
    tug_engine.may_drive = true; /* also with TUGBOAT_PROGRESS=thread: jobs that need the host */
    while (atomic_load(&visiting))
        if (!tug_backoff_step(&backoff))
            sched_yield();
}

/* A thread of the program has been inside one call of the host for long: perhaps what it waits for
 * waits for an answer of ours. Offload thread only. */
static bool program_is_stuck(void) {
    static uint64_t call, since_ns;
    const uint64_t in_host = atomic_load_explicit(&tug_engine.in_host, memory_order_relaxed);
    const uint64_t now = tug_clock_ns();
    if ((uint32_t)in_host == 0 || in_host != call) {
        call = in_host;
        since_ns = now;
        return false;
    }
    return now - since_ns > TUG_STUCK_NS;
}

bool tug_engine_enter_host(void) {
    if (!tug_is_offload)
        return true;
    atomic_store(&visiting, true); /* seq_cst: pairs with tug_engine_reserve_host() */
    if (!atomic_load(&tug_host_reserved) || program_is_stuck())
        return true;
    tug_engine_leave_host();
    return false;
}

void tug_engine_leave_host(void) {
    /* release: pairs with the look at it in tug_engine_reserve_host(): the visit is over */
    if (tug_is_offload)
        atomic_store_explicit(&visiting, false, memory_order_release);
}

/* ---- looks from inside the host ----
 *
 * By a thread of the program that waits in a call of the host's, where the host has found nothing.
 * The thread may hold locks of the host's, so a look neither calls the host nor waits: it polls the
 * services that can be polled so, executes no command, and takes the baton only if that is free.
 * Commands that are queued meanwhile are left to the offload thread; without that thread there are
 * no such looks. Nor are there any while some service can only be polled from outside: the offload
 * thread has to be there for that service's peers, and it would sleep through their packets if it
 * relied on this thread. */

_Thread_local bool tug_engine_looked_inside;

static bool poll_inside(struct tug_engine *engine) {
    bool moved = false;
    for (struct tug_service *service = engine->services; service; service = service->state.next)
        if (service->state.poll_inside != NULL)
            moved |= tug_services_poll_inside(engine, service);
    /* seq_cst: as in tug_services_poll */
    if (moved)
        atomic_thread_fence(memory_order_seq_cst);
    return moved;
}

/* Since when this thread looks, in its call of the host's or in some that were short. */
static _Thread_local uint64_t since_ns;

/* This thread looks on for a while: peers, and the offload thread, may rely on it. A thread that
 * has done so for a beat says when it leaves; to say so after every call would wake the offload
 * thread as often. An offload thread in its deep sleep does not read the lease, and each packet
 * would wake it, at the sender's expense: it is woken once, ahead of them, and sleeps on with a
 * limit. */
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
    if (tug_gather_wanted_by(TUG_GATHER_OFFLOAD))
        tug_engine_ring_offload(engine);
}

/* Where something was found there is mostly more within a round trip: looks on for so long, but not
 * for ever, as the host waits too. True if something was found. */
static bool linger_inside(struct tug_engine *engine) {
    if (!poll_inside(engine))
        return false;
    for (unsigned looks = 0, vain = 0; looks < TUG_INSIDE_LOOKS && vain < TUG_INSIDE_VAIN;
         looks++) {
        vain = poll_inside(engine) ? 0 : vain + 1;
        extend_lease(engine);
    }
    tug_stat_add(TUG_STAT_INSIDE_ROUNDS, 1);
    tug_trace_count(TUG_TRACE_INSIDE, 1);
    return true;
}

bool tug_engine_look_inside(void) {
    struct tug_engine *engine = &tug_engine;
    if (!engine->has_thread || !tug_engine_enter_idle())
        return false;
    const bool all = tug_services_all_inside(engine);
    if (all)
        extend_lease(engine);
    const bool moved = all && linger_inside(engine);
    tug_engine_unmute(engine);
    if (tug_baton_leave(&engine->ring))
        tug_engine_after_look(engine, false);
    else
        tug_engine_offer(engine);
    return moved;
}

void tug_engine_leave_inside(void) {
    tug_engine_looked_inside = false;
    since_ns = 0;
    tug_engine_looks_until(&tug_engine, 0);
    tug_engine_say_gone(&tug_engine);
}
