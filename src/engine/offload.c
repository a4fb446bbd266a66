/* The offload thread: drives when there is work and nobody else does.
 *
 * Where a core is to spare for it, it stays awake: it polls as long as something is out, and for a
 * moment after that, but leaves what callers look after to them. Elsewhere it sleeps at the bell or
 * the descriptors of the services and jobs, whose news wake it; it does what they bring and sleeps
 * again. Beats cover the rest: events that ring no bell, callers that have stopped looking, and the
 * host MPI, which it polls while something is attended. With nothing of that it sleeps
 * without a timer (deep), or in the lookout with one of a second: an idle process costs no CPU.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/log.h"
#include "base/settings.h"
#include "engine/private.h"
#include "tugboat/tugboat.h"

/* TUGBOAT_AFFINITY=auto: the cores the process was given, not those that an OpenMP runtime may have
 * bound the starting thread to since. */
static struct tug_cpus cpus_at_load;
static bool bound_apart; /* the thread may use a CPU that the process may not */

__attribute__((constructor)) static void remember_cpus(void) {
    (void)tug_cpus_find(&cpus_at_load);
}

/* Linux' struct sched_attr, which glibc 2.36 does not declare. */
struct tug_sched_attr {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime;
    uint64_t deadline;
    uint64_t period;
};

/* Asks to run promptly among computing threads: no timer slack, a short slice (Linux 6.12 lets a
 * thread with a shorter slice preempt a longer one), and a better nice value where the user may
 * have it. Without, a thread that has used up its share waits for the next timer tick or two: 4-8
 * ms with HZ=250. Best effort, each alone; older kernels ignore the slice. */
static void ask_for_prompt_wakes(void) {
    struct tug_sched_attr attr = {.size = sizeof(attr), .runtime = 100000};
    int nice_now = getpriority(PRIO_PROCESS, 0);
    attr.nice = nice_now - 10 < -20 ? -20 : nice_now - 10;
    if (syscall(SYS_sched_setattr, 0, &attr, 0) != 0) {
        attr.nice = nice_now;
        (void)syscall(SYS_sched_setattr, 0, &attr, 0);
    }
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "tugboat", 0, 0, 0);
}

static bool offered(struct tug_engine *engine) {
    return atomic_load(&engine->ring.state) & TUG_BATON_OFFER;
}

static bool wanted(struct tug_engine *engine) {
    return atomic_load(&engine->outstanding) > 0 || atomic_load(&tug_attendance) > 0 ||
           atomic_load(&engine->stopping) || offered(engine) || tug_gathered_waits() ||
           tug_engine_has_suspended();
}

void tug_offload_round(struct tug_engine *engine, bool *moved) {
    struct tug_backoff backoff = {0};
    *moved = tug_driver_round(engine);
    while (!tug_baton_leave(&engine->ring)) {
        /* a command reserved and not yet committed: its producer wants the core */
        if (tug_driver_round(engine))
            *moved = true;
        else if (!tug_backoff_step(&backoff))
            sched_yield();
    }
    tug_engine_left(engine);
}

/* What the thread remembers from beat to beat, and what it sees in this one. */
struct beat {
    struct tug_observed seen;
    struct tug_host_progress host;
    bool news;              /* news at descriptors have ended the last sleep */
    bool moved;             /* something has moved since the thread looked on */
    uint64_t crowded_until; /* no core is to spare before this (CLOCK_MONOTONIC, ns) */
};

/* Callers look for news, also if they have put the baton down for a moment: to watch now would ask
 * the peers for a wake with every packet. */
static bool left_to_callers(const struct tug_engine *engine) {
    return engine->may_drive && tug_lease_runs(&engine->news, tug_clock_ns());
}

static void observe(struct tug_engine *engine, struct beat *beat) {
    struct tug_observed *seen = &beat->seen;
    seen->served = left_to_callers(engine);
    seen->called = atomic_exchange_explicit(&engine->passed, false, memory_order_relaxed) ||
                   beat->host.called > 0;
    seen->offered = offered(engine);
    seen->held = tug_baton_is_held(&engine->ring);
    seen->out = atomic_load(&engine->outstanding) > 0 || tug_gathered_waits();
    seen->services = tug_engine_serves();
    seen->suspended = tug_engine_has_suspended();
}

/* Takes the baton. False: a caller has it, on its way through a call, and rings this thread's bell,
 * which is prepared, when it puts the baton down. */
static bool take_or_ask(struct tug_engine *engine) {
    bool owes;
    while (!tug_baton_take(&engine->ring)) {
        atomic_store(&engine->asked, true); /* seq_cst, before the next look at the baton */
        if (tug_baton_rouse(&engine->ring, &owes)) {
            if (owes)
                tug_engine_ring_driver(engine);
            return false;
        }
    }
    /* relaxed: a holder that sees the old value rings in vain */
    atomic_store_explicit(&engine->asked, false, memory_order_relaxed);
    return true;
}

/* Does what there is to do, unless callers do it, and has the news of services and jobs wake the
 * thread. False: something has moved, there may be more. The bell is chosen with the baton in hand,
 * so that it cannot go. */
static bool settle(struct tug_engine *engine, struct beat *beat, struct tug_prepared *prepared) {
    struct tug_observed *seen = &beat->seen;
    bool moved;
    seen->watched = false;
    if (!seen->offered && (seen->served || !(seen->services || seen->out)))
        return true;
    seen->held = !take_or_ask(engine);
    if (seen->held)
        return true;
    engine->told = 0;
    seen->watched = tug_sleeper_watch(engine, &engine->offload, prepared);
    tug_offload_round(engine, &moved);
    beat->moved |= moved;
    seen->still = moved ? 0 : seen->still + 1;
    return !moved;
}

/* Is a core to spare for this thread? The ranks that share the process's cores leave one for the
 * thread of each, or the user has given it one (TUGBOAT_AFFINITY) or has it drive alone
 * (TUGBOAT_PROGRESS=thread). */
static bool has_own_core(const struct tug_engine *engine, const struct beat *beat) {
    return tug_core_is_spare(tug_cores_crowd(), bound_apart || !engine->may_drive) &&
           tug_clock_ns() >= beat->crowded_until;
}

/* Is there something that no caller looks after? Callers that look for news are believed for as
 * long as a look takes. *looked_ns: when one has. */
static bool is_left_alone(struct tug_engine *engine, uint64_t now, uint64_t *looked_ns) {
    if (tug_lease_is(&engine->news, TUG_LEASE_FRESH)) {
        *looked_ns = now;
        tug_lease_turn(&engine->news, TUG_LEASE_FRESH, now + TUG_LOOK_NS);
    }
    return offered(engine) ||
           ((!engine->may_drive || !tug_lease_runs(&engine->news, now)) &&
            (atomic_load(&engine->outstanding) > 0 || tug_gathered_waits() || tug_engine_serves()));
}

/* Polls the host, and looks at suspended waits, whose conditions may have come true outside of the
 * engine. */
static void do_each_beat(struct tug_engine *engine, struct beat *beat) {
    tug_host_beat(engine, &beat->host, beat->seen.served);
    tug_engine_stir(engine, true);
}

static uint64_t patience_ns(const struct tug_engine *engine) {
    return atomic_load(&engine->outstanding) > 0 ? TUG_CROWDED_NS : TUG_AWAKE_NS;
}

/* Polls for a while after something has moved, for longer if something is out. False: another
 * thread has had the core for long, so none is to spare. */
static bool stay_awake(struct tug_engine *engine, struct beat *beat) {
    const uint64_t begin_ns = tug_trace_begin(TUG_TRACE_OFFLOAD_AWAKE);
    uint64_t now = tug_clock_ns(), moved_ns = beat->moved ? now : 0, beat_ns = now;
    uint64_t looked_ns = 0;
    bool spare;
    tug_gather_want_not(TUG_GATHER_OFFLOAD);
    beat->news = false; /* they are of the last sleep */
    do {
        bool moved = false;
        if (is_left_alone(engine, now, &looked_ns) && tug_baton_take(&engine->ring))
            tug_offload_round(engine, &moved);
        if (now - beat_ns > TUG_TICK_NS) {
            observe(engine, beat);
            do_each_beat(engine, beat);
            beat_ns = now;
        }
        const uint64_t yield_ns = tug_clock_ns();
        sched_yield();
        now = tug_clock_ns();
        spare = now - yield_ns <= TUG_YIELDING_NS;
        if (moved)
            moved_ns = now;
    } while (spare && now - moved_ns < patience_ns(engine) && !atomic_load(&engine->stopping));
    tug_trace_end(TUG_TRACE_OFFLOAD_AWAKE, TUG_TRACE_BY_UNSAID, begin_ns);
    if (now - looked_ns < TUG_TICK_NS) /* callers are believed for a beat again */
        tug_lease_turn(&engine->news, looked_ns + TUG_LOOK_NS, now + TUG_TICK_NS);
    beat->moved = false;
    return spare;
}

/* To the next beat: callers that have looked once are relied on until then, if that is not long. */
static int64_t begin_beat(struct tug_engine *engine, int64_t limit_ns) {
    const int64_t most_ns = tug_sleep_slower(TUG_DOUBLINGS);
    const uint64_t until = tug_clock_ns() + (uint64_t)(limit_ns < most_ns ? limit_ns : most_ns);
    tug_gather_want_not(TUG_GATHER_OFFLOAD);
    tug_lease_turn(&engine->news, TUG_LEASE_FRESH, until);
    return limit_ns;
}

/* After a deep sleep. The lease of a caller that has looked may be as old as that sleep; and if no
 * thread of this process has rung, the news that ended the sleep have waited for that caller's next
 * look in vain. A caller that still looks sets the lease again. */
static void forget_who_looked(struct tug_engine *engine) {
    if (tug_gather_wanted_by(TUG_GATHER_OFFLOAD))
        tug_lease_turn(&engine->news, TUG_LEASE_FRESH, 0);
}

/* News of peers have ended the sleep: they are answered first, and the beat begins after that (its
 * code is not in the caches then, and took 7 us to 12 ahead of the answer). Where the host is
 * polled, too, the beat begins with that. Callers that have the baton have the news. */
static void answer_at_once(struct tug_engine *engine, struct beat *beat) {
    if (beat->news && !tug_engine_attended() && !left_to_callers(engine) &&
        tug_baton_take(&engine->ring)) {
        bool moved;
        tug_offload_round(engine, &moved);
        beat->moved = moved;
    }
}

static enum tug_trace_kind sleep_kind(enum tug_sleep_how how) {
    if (how == TUG_SLEEP_DEEP)
        return TUG_TRACE_OFFLOAD_DEEP;
    return how == TUG_SLEEP_WATCH ? TUG_TRACE_OFFLOAD_WATCH : TUG_TRACE_OFFLOAD_TIMED;
}

static void sleep_as_planned(struct tug_engine *engine, struct beat *beat,
                             const struct tug_sleep_plan *plan,
                             const struct tug_prepared *prepared) {
    const bool deep = plan->how == TUG_SLEEP_DEEP;
    const int64_t limit_ns = deep ? tug_gather_want(&engine->offload, TUG_GATHER_OFFLOAD, -1)
                                  : begin_beat(engine, plan->limit_ns);
    /* seq_cst on both sides: wanted() sees the work of a thread that saw no wish here */
    if (deep && wanted(engine))
        return;
    const bool watch = plan->how == TUG_SLEEP_WATCH || (deep && beat->seen.watched);
    const uint64_t begin_ns = tug_trace_sleep_begin();
    const enum tug_trace_why why = tug_sleeper_sleep(&engine->offload, prepared, watch, limit_ns);
    beat->news = why == TUG_TRACE_BY_NEWS;
    tug_trace_end(sleep_kind(plan->how), why, begin_ns);
    if (deep)
        forget_who_looked(engine);
    answer_at_once(engine, beat);
}

static void sleep_a_beat(struct tug_engine *engine, struct beat *beat) {
    struct tug_observed *seen = &beat->seen;
    if (has_own_core(engine, beat) && !stay_awake(engine, beat))
        beat->crowded_until = tug_clock_ns() + TUG_CROWDED_NS;
    beat->news = false;
    struct tug_prepared prepared = tug_sleeper_prepare(&engine->offload, NULL, false);
    observe(engine, beat);
    seen->steady = seen->served ? seen->steady + 1 : 0;
    if (!settle(engine, beat, &prepared) || atomic_load(&engine->stopping))
        return;
    seen->host_ns = tug_engine_attended() ? beat->host.pace_ns : -1;
    seen->told = seen->watched && tug_host_only_services();
    seen->quiet = tug_sleep_is_quiet(seen) ? seen->quiet + 1 : 0;
    const struct tug_sleep_plan plan = tug_sleep_plan(seen);
    sleep_as_planned(engine, beat, &plan, &prepared);
}

/* May this thread use a CPU that the process may not? Only with TUGBOAT_AFFINITY, if the kernel has
 * not refused it. */
static bool is_bound_apart(void) {
    struct tug_cpus mine;
    if (tug_settings.affinity_mode != TUG_AFFINITY_LIST || !tug_cpus_find(&mine))
        return false;
    for (size_t i = 0; i < 8 * sizeof(mine); i++)
        if (CPU_ISSET_S(i, sizeof(mine), mine.sets) &&
            !CPU_ISSET_S(i, sizeof(cpus_at_load), cpus_at_load.sets))
            return true;
    return false;
}

static void *offload_main(void *argument) {
    struct tug_engine *engine = argument;
    struct beat beat = {.host = TUG_HOST_PROGRESS_INITIAL};
    tug_is_offload = true;
    tug_trace_name_thread("offload thread");
    ask_for_prompt_wakes();
    bound_apart = is_bound_apart();
    tug_membarrier_register(); /* here, where nobody waits for it */
    while (!atomic_load(&engine->stopping)) {
        do_each_beat(engine, &beat);
        sleep_a_beat(engine, &beat);
    }
    return NULL;
}

/* Where the kernel refuses the CPUs (one is gone, or a filter refuses the call) the thread runs
 * where the process does. */
static int create_thread(struct tug_engine *engine, const pthread_attr_t *attr) {
    const int refused = pthread_create(&engine->thread, attr, offload_main, engine);
    if (refused == 0 || refused == EAGAIN)
        return refused;
    const int error = pthread_create(&engine->thread, NULL, offload_main, engine);
    if (error == 0)
        tug_warn_once("the offload thread is not bound to the CPUs that it was to have: %s; set "
                      "TUGBOAT_AFFINITY to CPUs that are there, or to none",
                      strerror(refused));
    return error;
}

int tug_offload_start(struct tug_engine *engine) {
    sigset_t all, old;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    if (tug_settings.affinity_mode == TUG_AFFINITY_LIST)
        pthread_attr_setaffinity_np(&attr, sizeof(cpu_set_t), &tug_settings.affinity_cpus);
    else if (tug_settings.affinity_mode == TUG_AFFINITY_AUTO && tug_cpus_count(&cpus_at_load) > 0)
        pthread_attr_setaffinity_np(&attr, sizeof(cpus_at_load), cpus_at_load.sets);
    tug_signals_of_program(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = create_thread(engine, &attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (error) {
        tug_log(TUG_VERBOSE_WARN,
                "cannot start the offload thread of this process: %s; raise the limit on threads "
                "(ulimit -u, or the container's)",
                strerror(error));
        return TUG_ERR_SYSTEM;
    }
    engine->has_thread = true;
    return 0;
}

void tug_offload_stop(struct tug_engine *engine, int64_t patience_ns) {
    struct timespec until;
    if (!engine->has_thread)
        return;
    atomic_store(&engine->stopping, true);
    tug_sleeper_ring(&engine->offload);
    tug_engine_nudge(engine);
    if (patience_ns < 0) {
        pthread_join(engine->thread, NULL);
    } else {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += patience_ns / 1000000000;
        until.tv_nsec += patience_ns % 1000000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_clockjoin_np(engine->thread, NULL, CLOCK_MONOTONIC, &until);
    }
    engine->has_thread = false;
}
