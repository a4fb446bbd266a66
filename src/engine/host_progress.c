/* Progress of the host MPI by the offload thread, while the program computes and something of the
 * host's is needed: windows of the native lane, messages of the host that carry packets.
 *
 * The host serialises its threads by one lock. A poll beside a thread of the program that is inside
 * the host is worth nothing, since that thread makes the progress itself, and it costs that thread
 * dearly, since the lock then changes hands through the kernel. So the offload thread polls only if
 * the program has not called the host since the last beat: every TUG_GLANCE_NS for TUG_SETTLE_NS
 * after a poll that had an effect, every TUG_TICK_NS otherwise. If the host is polled for services
 * alone, which know whether there was an effect, each poll without one doubles that, up to the
 * slowest beat. A poll that had to sleep has met a thread inside the host, and counts as one
 * without.
 */
#include <sys/resource.h>

#include "base/clock.h"
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
        engine->config.host_poll();
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
    progress->served |= moved;
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
 * process that is to send the next message may be waiting for this core. True: the last sleep was
 * for the host's lock, or the first poll had no effect. */
static bool polls_in_vain(struct tug_engine *engine, struct tug_host_progress *progress) {
    const long slept = times_slept();
    const uint64_t start = tug_clock_ns();
    bool had_effect = false;
    while (poll(engine, progress)) {
        if (times_slept() != slept)
            return true;
        had_effect = true;
        if (calls_so_far(engine) != progress->calls ||
            tug_lease_is(&engine->host, TUG_LEASE_FRESH) || tug_clock_ns() - start >= TUG_SETTLE_NS)
            break;
    }
    return !had_effect;
}

/* Has the program called the host since the last beat, or is it inside? */
static bool is_called(const struct tug_engine *engine, struct tug_host_progress *progress) {
    const uint64_t calls = calls_so_far(engine), before = progress->calls;
    progress->calls = calls;
    return calls != before ||
           (uint32_t)atomic_load_explicit(&engine->in_host, memory_order_relaxed) != 0 ||
           tug_lease_runs(&engine->host, tug_clock_ns());
}

/* After an effect more is likely to follow for a while. */
static int64_t next_pace(struct tug_host_progress *progress, bool in_vain) {
    const uint64_t now = tug_clock_ns();
    const int64_t slower_ns = 2 * progress->pace_ns, slowest_ns = tug_sleep_slower(TUG_FEW);
    if (!in_vain)
        progress->quick_until = now + TUG_SETTLE_NS;
    if (now < progress->quick_until)
        return TUG_GLANCE_NS;
    if (!tug_host_only_services())
        return TUG_TICK_NS;
    return slower_ns < slowest_ns ? slower_ns : slowest_ns;
}

void tug_host_beat(struct tug_engine *engine, struct tug_host_progress *progress,
                   const struct tug_observed *seen) {
    const bool called_before = progress->called;
    progress->called = false;
    if (!tug_engine_attended())
        return;
    const uint64_t quiet_until = atomic_load_explicit(&engine->quiet_until, memory_order_relaxed);
    const int64_t settling_ns = (int64_t)(quiet_until - tug_clock_ns());
    if (settling_ns > 0) {
        progress->pace_ns = settling_ns + TUG_SETTLE_NS;
        return;
    }
    if (tug_engine_wants_help() && seen->served) { /* such callers get the host on, too */
        progress->pace_ns = tug_sleep_slower(TUG_FEW - 1);
        return;
    }
    progress->called = is_called(engine, progress) && !tug_engine_wants_help();
    if (progress->called) { /* every beat disturbs such calls; and the last may be over by now */
        progress->pace_ns = called_before ? 2 * TUG_TICK_NS : TUG_TICK_NS;
        return;
    }
    const uint64_t begin_ns = tug_trace_begin(TUG_TRACE_HOST_POLL);
    const bool in_vain = polls_in_vain(engine, progress);
    tug_trace_end(TUG_TRACE_HOST_POLL, in_vain ? TUG_TRACE_BY_NOTHING : TUG_TRACE_BY_FOUND,
                  begin_ns);
    progress->pace_ns = next_pace(progress, in_vain);
}
