/* Attending to the host MPI: polls by the offload thread while the program computes.
 *
 * The host serialises its threads by one lock, so a poll is worth nothing beside a thread of the
 * program that is inside the host (it makes the progress itself) and costs that thread dearly: the
 * lock changes hands through the kernel. Three signs keep polls out of the way: the calls that the
 * shim sees; a thread that the shim knows to wait inside; and a poll that had to sleep, which can
 * only have been for the lock. Beats become rarer while the program is met inside the host, and
 * normal again after two in a row that do not meet it.
 *
 * A poll that took clearly longer than an empty one did something, and more is likely to follow:
 * the thread polls again at once, and when that is in vain beats quickly for a while.
 */
#include <sys/resource.h>

#include "base/clock.h"
#include "engine/private.h"

enum poll { POLL_EMPTY, POLL_BUSY, POLL_BLOCKED };

static long times_slept(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
}

/* Gets the services on if nobody else does (their polls progress the host too), else the host
 * alone. True if something is known to have moved. */
static bool look(struct tug_engine *engine) {
    bool moved = false;
    if (atomic_load(&engine->nservices) > 0 && tug_baton_take(&engine->ring))
        tug_offload_round(engine, &moved);
    else
        engine->config.host_poll();
    return moved;
}

bool tug_attend_sees(const struct tug_engine *engine, const struct tug_attention *attention) {
    return attention->trust > 0 &&
           atomic_load_explicit(&engine->offload.lookout.sees, memory_order_relaxed);
}

bool tug_attend_only_services(void) {
    return atomic_load_explicit(&tug_attendance, memory_order_relaxed) ==
           atomic_load_explicit(&tug_attended_services, memory_order_relaxed);
}

/* One poll. The estimate of an empty one drifts up slowly, so that it recovers from having been too
 * low. slept: times_slept() before the first poll of the beat. */
static enum poll poll(struct tug_engine *engine, struct tug_attention *attention, long slept) {
    uint64_t start = tug_clock_ns();
    bool moved = look(engine);
    uint64_t took = tug_clock_ns() - start;
    tug_stat_add(TUG_STAT_HOST_POLLS, 1);
    attention->served |= moved;
    if (moved)
        return POLL_BUSY;
    if (tug_attend_only_services()) /* they know; nothing need be guessed */
        return POLL_EMPTY;
    if (took < attention->empty_ns)
        attention->empty_ns = took;
    else
        attention->empty_ns += attention->empty_ns / 64 + 1;
    if (took <= attention->empty_ns + attention->empty_ns / 2 + TUG_COLD_NS)
        return POLL_EMPTY;
    return times_slept() != slept ? POLL_BLOCKED : POLL_BUSY;
}

/* How often the program's threads have begun to wait in the host. */
static uint64_t calls_so_far(const struct tug_engine *engine) {
    return atomic_load_explicit(&engine->in_host, memory_order_relaxed) >> 32;
}

static bool somebody_inside(const struct tug_engine *engine) {
    return (uint32_t)atomic_load_explicit(&engine->in_host, memory_order_relaxed) != 0;
}

/* Polls as long as it has an effect and the program stays out of the host. Not a poll longer: who
 * is to send the next message may be waiting for this core. */
static enum poll burst(struct tug_engine *engine, struct tug_attention *attention, bool once) {
    uint64_t calls = attention->calls;
    long slept = times_slept();
    uint64_t start = tug_clock_ns();
    bool had_effect = false;
    do {
        enum poll result = poll(engine, attention, slept);
        if (result == POLL_BLOCKED)
            return POLL_BLOCKED;
        if (result == POLL_EMPTY)
            break;
        had_effect = true;
    } while (!once && calls_so_far(engine) == calls &&
             !tug_lease_is(&engine->host, TUG_LEASE_FRESH) &&
             tug_clock_ns() - start < TUG_SETTLE_NS);
    return had_effect ? POLL_BUSY : POLL_EMPTY;
}

/* True if the program has called the host since the last beat, or is inside. */
static bool program_called(const struct tug_engine *engine, struct tug_attention *attention,
                           const struct tug_observed *seen) {
    uint64_t calls = calls_so_far(engine);
    bool called = seen->called || calls != attention->calls || somebody_inside(engine);
    attention->calls = calls;
    attention->passed = called ? attention->passed + 1 : 0;
    return called;
}

/* Was what a beat has found announced by the lookout, while the thread slept there? And is what it
 * announces ever there to be found? */
static void judge_lookout(struct tug_attention *attention, bool effect) {
    if (!attention->watched)
        return;
    if (attention->news) {
        attention->vain = effect ? 0 : attention->vain + 1;
        attention->trust += effect && attention->trust < TUG_FEW;
    } else {
        attention->trust -= effect && attention->trust > 0;
    }
}

static _Atomic uint32_t prompt; /* who promise their peers a prompt answer */

void tug_engine_be_prompt(int change) {
    atomic_fetch_add(&prompt, (uint32_t)change);
    /* where it looks after services whose news do not ring, it may have become slow */
    if (change > 0 && atomic_load(&tug_attended_services) > 0)
        tug_engine_ring_offload(&tug_engine);
}

/* Windows promise their peers a prompt answer. Services without a bell that have had nothing to do
 * for a while are looked after less and less often: an idle process costs next to nothing. */
static int64_t quiet_pace(const struct tug_engine *engine, struct tug_attention *attention,
                          bool effect) {
    bool may_wait =
        tug_attend_only_services() && atomic_load_explicit(&prompt, memory_order_relaxed) == 0;
    attention->quiet = effect || !may_wait ? 0 : attention->quiet + 1;
    const int64_t tick_ns =
        tug_attend_sees(engine, attention) ? tug_sleep_slower(TUG_FEW) : TUG_TICK_NS;
    return tug_sleep_slower(attention->quiet / TUG_HABIT) / TUG_TICK_NS * tick_ns;
}

/* True if callers get the attended services on, and with them the host: one has since the last
 * beat, or drives while it waits. Sets the pace: who only looked in now and then, with nothing of
 * its own out, may just have begun to compute, and the lookout is worth the next beat. */
static bool is_looked_after(struct tug_engine *engine, struct tug_attention *attention,
                            const struct tug_observed *seen) {
    bool idle = !tug_lease_is(&engine->news, TUG_LEASE_HELD) && !seen->out;
    attention->pace_ns =
        idle && tug_attend_sees(engine, attention) ? TUG_TICK_NS : tug_sleep_slower(TUG_FEW - 1);
    return tug_engine_wants_help() && seen->served;
}

void tug_attend(struct tug_engine *engine, struct tug_attention *attention,
                const struct tug_observed *seen) {
    if (!tug_engine_attended())
        return;
    uint64_t quiet_until = atomic_load_explicit(&engine->quiet_until, memory_order_relaxed);
    int64_t settling_ns = (int64_t)(quiet_until - tug_clock_ns());
    if (settling_ns > 0) {
        attention->pace_ns = settling_ns + TUG_SETTLE_NS;
        return;
    }
    bool looked_after = is_looked_after(engine, attention, seen);
    /* the host's progress is not the services': only who helps gets them on */
    bool called = program_called(engine, attention, seen) && !tug_engine_wants_help();
    if (looked_after)
        return;
    if (called && !attention->glancing && attention->passed <= TUG_HABIT) {
        /* since the last beat, perhaps long ago: is it still at it? Who calls all the time is at
         * it, and each look takes the core from it */
        attention->glancing = true;
        attention->pace_ns = TUG_GLANCE_NS;
        return;
    }
    attention->glancing = false;
    enum poll result = POLL_BLOCKED;
    if (!called || attention->passed % TUG_FEW == 0) {
        const uint64_t begin_ns = tug_trace_begin(TUG_TRACE_HOST_POLL);
        result = burst(engine, attention, called);
        tug_trace_end(TUG_TRACE_HOST_POLL,
                      result == POLL_BUSY ? TUG_TRACE_BY_FOUND : TUG_TRACE_BY_NOTHING, begin_ns);
    }
    if (called || (result == POLL_BLOCKED && attention->hot == 0)) {
        attention->hot = 0;
        attention->missed = true;
    } else if (result == POLL_BUSY) {
        attention->hot = 2 * TUG_TICK_NS / TUG_GLANCE_NS; /* for two beats */
        attention->missed = false;
    } else if (attention->missed && !attention->clear) {
        /* luck, or is the program out of the host? */
        attention->clear = true;
        attention->pace_ns = TUG_GLANCE_NS;
        return;
    } else {
        attention->missed = false;
    }
    attention->clear = false;
    judge_lookout(attention, result == POLL_BUSY);
    if (tug_attend_sees(engine, attention))
        attention->hot = 0;
    int64_t pace_ns = quiet_pace(engine, attention, called || result == POLL_BUSY);
    attention->pace_ns = attention->hot > 0 ? TUG_GLANCE_NS : pace_ns << attention->missed;
    attention->hot -= attention->hot > 0;
}
