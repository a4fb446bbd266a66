/* The requesters' side of the engine, and its start and stop. */
#include "engine/engine.h"

#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/settings.h"
#include "engine/private.h"
#include "tugboat/tugboat.h"

static _Atomic uint64_t unshown; /* served until, before a page of node memory shows it */
struct tug_engine tug_engine = {.looks_until = &unshown};
_Atomic uint32_t tug_attendance;
static _Atomic bool running;

bool tug_engine_running(void) {
    return running;
}

static void close_lookouts(struct tug_engine *engine) {
    tug_lookout_close(&engine->driver.lookout);
    tug_lookout_close(&engine->offload.lookout);
}

int tug_engine_start(void (*poll_host)(void)) {
    struct tug_engine *engine = &tug_engine;
    if (running)
        return 0;
    int error = tug_ring_init(&engine->ring, tug_settings.ring_size);
    if (error)
        return error;
    engine->poll_host = poll_host;
    engine->first = NULL;
    engine->last = &engine->first;
    engine->nactive = 0;
    engine->nbusy = 0;
    engine->services = NULL;
    engine->dear = 0;
    atomic_store(&engine->nservices, 0);
    atomic_store(&tug_attended_services, 0);
    /* without an offload thread it is the program's calls that get everything on */
    atomic_store(&tug_helped_services, tug_settings.progress == TUG_PROGRESS_CALLER);
    engine->may_drive = tug_settings.progress != TUG_PROGRESS_THREAD || tug_host_reserved;
    atomic_store(&engine->outstanding, 0);
    atomic_store(&engine->waiting, 0);
    tug_gathered_begin_anew();
    engine->cores = tug_cores_find().count;
    atomic_store(&tug_attendance, 0);
    atomic_store(&engine->stopping, false);
    tug_lease_set(&engine->news, 0);
    engine->has_thread = false;
    tug_lookout_open(&engine->driver.lookout);
    tug_lookout_open(&engine->offload.lookout);
    if (tug_settings.progress != TUG_PROGRESS_CALLER) {
        error = tug_offload_start(engine);
        if (error) {
            close_lookouts(engine);
            tug_ring_fini(&engine->ring);
            return error;
        }
    } else {
        tug_membarrier_register();
    }
    running = true;
    return 0;
}

void tug_engine_stop(void) {
    struct tug_engine *engine = &tug_engine;
    if (!running)
        return;
    tug_engine_start_gathered(tug_gathering_now()->waits);
    tug_engine_drain();
    tug_offload_stop(engine, -1);
    running = false;
    close_lookouts(engine);
    tug_ring_fini(&engine->ring);
}

void tug_engine_abandon(void) {
    if (running)
        tug_offload_stop(&tug_engine, TUG_STUCK_NS);
    running = false;
}

void tug_engine_show_looking(_Atomic uint64_t *until) {
    atomic_store_explicit(&tug_engine.looks_until, until, memory_order_relaxed);
}

void tug_engine_forked(void) {
    tug_engine_show_looking(&unshown);
    memset((void *)&tug_engine.waiters, 0, sizeof(tug_engine.waiters)); /* of other threads */
    running = false;
}

/* ---- entering and leaving ---- */

enum tug_entry tug_engine_enter(struct tug_ticket *ticket) {
    enum tug_entry entry = tug_ring_enter(&tug_engine.ring, tug_engine.may_drive, ticket);
    if (entry == TUG_ENTRY_BATON && __builtin_expect(!tug_gathered_start_ahead(), 0)) {
        (void)tug_services_poll(&tug_engine, false); /* room comes with answers */
        tug_engine_leave();
        return TUG_ENTRY_FULL;
    }
    if (entry == TUG_ENTRY_TICKET)
        tug_gathered_come_behind(ticket->position);
    return entry;
}

void tug_engine_commit(const struct tug_ticket *ticket) {
    tug_ring_commit(ticket);
    if (__builtin_expect(ticket->owes_ring, 0)) {
        tug_engine_ring_driver(&tug_engine);
        if (!tug_engine.may_drive)
            tug_engine_ring_offload(&tug_engine);
    }
}

void tug_engine_left(struct tug_engine *engine) {
    if (__builtin_expect(atomic_load(&engine->asked), 0) && atomic_exchange(&engine->asked, false))
        tug_engine_ring_offload(engine);
    /* where the offload thread alone drives, its round has looked */
    if (tug_waiters_parked(&engine->waiters) && engine->may_drive)
        (void)tug_waiters_look(&engine->waiters, tug_engine_how(engine) | TUG_LOOK_HEIR);
}

void tug_engine_offer(struct tug_engine *engine) {
    tug_engine_unmute(engine);
    tug_baton_offer(&engine->ring);
    tug_engine_ring_offload(engine);
    tug_engine_left(engine);
}

void tug_engine_look(bool more_comes) {
    const bool in_job = tug_engine_set_in_job(false);
    (void)tug_services_poll(&tug_engine, more_comes);
    (void)tug_engine_set_in_job(in_job);
    tug_lease_set(&tug_engine.news, TUG_LEASE_FRESH);
}

/* Would news at descriptors wake the offload thread now? relaxed: if this is out of date it is
 * woken once in vain. */
static bool sleeps_at_descriptors(const struct tug_engine *engine) {
    return atomic_load_explicit(&engine->offload.out, memory_order_relaxed);
}

void tug_engine_before_send(void) {
    struct tug_engine *engine = &tug_engine;
    if (__builtin_expect(sleeps_at_descriptors(engine), 0) && !engine->muted)
        tug_services_mute(engine, true);
}

static bool leave_told(struct tug_engine *engine) {
    if (__builtin_expect(!tug_gather_wanted_by(TUG_GATHER_OFFLOAD), 1) || engine->nactive > 0 ||
        engine->nbusy == 0 || engine->told >= TUG_LEFT_ASLEEP)
        return false;
    engine->told++;
    tug_services_flush(engine); /* packets that gather would wait for a thread that looks */
    /* packets that came before it was armed do not ring: the poll finds them */
    return tug_services_arm(engine, &engine->offload) && !tug_services_poll(engine, false) &&
           engine->nactive == 0;
}

bool tug_engine_is_told(struct tug_engine *engine) {
    const bool told = leave_told(engine);
    tug_engine_unmute(engine);
    return told;
}

void tug_engine_after_look(struct tug_engine *engine, bool told) {
    atomic_store_explicit(&engine->passed, true, memory_order_relaxed);
    tug_engine_left(engine);
    /* seq_cst, after outstanding was stored: pairs with the offload thread's look before deep sleep
     */
    if (!told && atomic_load(&engine->outstanding) > 0 && tug_gather_wanted_by(TUG_GATHER_OFFLOAD))
        tug_engine_ring_offload(engine);
}

/* Executes what came meanwhile; a command whose producer was preempted in mid-fill is waited for
 * with the core given away, then left to the offload thread. */
static void leave_with_work(struct tug_engine *engine) {
    struct tug_backoff backoff = {0};
    unsigned left = TUG_BATCH;
    bool told;
    do {
        unsigned executed = tug_executor_run(engine, left);
        left -= executed;
        if (executed > 0)
            tug_services_flush(engine);
        else if (tug_gathered_waits())
            (void)tug_services_poll(engine, false); /* they find no room before answers come */
        bool stuck = executed == 0 && !tug_backoff_step(&backoff);
        if ((left == 0 || stuck) && engine->has_thread) {
            tug_engine_offer(engine);
            return;
        }
        if (left == 0)
            left = TUG_BATCH;
        if (stuck)
            sched_yield();
        told = tug_engine_is_told(engine);
    } while (!tug_baton_leave(&engine->ring));
    tug_engine_after_look(engine, told);
}

void tug_engine_leave(void) {
    struct tug_engine *engine = &tug_engine;
    const bool told = tug_engine_is_told(engine);
    if (__builtin_expect(tug_baton_leave(&engine->ring), 1))
        tug_engine_after_look(engine, told);
    else
        leave_with_work(engine);
}

/* Drives one round if nobody does. A caller that polls is relied on to look on if it has looked a
 * few times: one look alone may be followed by computing. */
static bool take_a_turn(struct tug_engine *engine) {
    if (!engine->may_drive || !tug_baton_take(&engine->ring)) /* also one that is offered */
        return false;
    /* relaxed: two threads at once may count one look */
    const uint32_t looks = atomic_load_explicit(&engine->looks, memory_order_relaxed) + 1;
    atomic_store_explicit(&engine->looks, looks, memory_order_relaxed);
    (void)tug_driver_round(engine);
    if (looks % TUG_POLLS == 0)
        tug_lease_set(&engine->news, TUG_LEASE_FRESH);
    tug_engine_leave();
    return true;
}

bool tug_engine_has_work(void) {
    struct tug_engine *engine = &tug_engine;
    return atomic_load_explicit(&engine->outstanding, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&engine->nservices, memory_order_relaxed) > 0 ||
           tug_ring_tail(&engine->ring) != atomic_load(&engine->ring.head);
}

void tug_engine_poll(void) {
    static _Thread_local unsigned vain;
    if (!tug_engine_has_work() || take_a_turn(&tug_engine))
        vain = 0;
    else if (++vain % TUG_VAIN_POLLS == 0 && !tug_engine_driving())
        sched_yield(); /* the holder of the baton may want this core */
}

enum tug_entry tug_engine_enter_helping(struct tug_ticket *ticket) {
    enum tug_entry entry;
    while ((entry = tug_engine_enter(ticket)) == TUG_ENTRY_FULL) {
        tug_stat_add(TUG_STAT_HELPS, 1);
        tug_engine_poll();
    }
    return entry;
}

bool tug_engine_serves(void) {
    return atomic_load_explicit(&tug_engine.nservices, memory_order_relaxed) > 0;
}

void tug_engine_say_gone(struct tug_engine *engine) {
    tug_lease_end(&engine->news);
    tug_engine_ring_offload(engine);
}

void tug_engine_pass(void) {
    if (!tug_engine.has_thread)
        tug_engine_poll();
}

/* ---- waiting ---- */

/* What a thread waits for. */
struct wait {
    bool (*done)(void *);
    void *argument;
    int64_t nap_ns;
    unsigned how; /* TUG_WAIT_* */
    unsigned looks;
    uint64_t host_ns; /* the host was polled last; 0: the wait has just begun */
};

/* Polls the host now and then. Asleep the thread looks seldom: looks do not tell the time. */
static bool polls_host(struct wait *wait) {
    if (wait->looks++ < TUG_LOOKS_TO_CLOCK)
        return false;
    const uint64_t now_ns = tug_clock_ns();
    if (wait->host_ns == 0)
        wait->host_ns = now_ns;
    if (now_ns - wait->host_ns < TUG_VIGIL_NS)
        return false;
    wait->host_ns = now_ns;
    tug_engine_poll_host();
    return true;
}

static bool is_over(void *pointer) {
    struct wait *wait = pointer;
    return wait->done(wait->argument) ||
           ((wait->how & TUG_WAIT_HOST) && polls_host(wait) && wait->done(wait->argument));
}

/* Sleeps at a prepared bell while another thread drives, or while only the offload thread may: that
 * one wakes parked threads after each round in which something has moved. False: the nap is over.
 */
static bool sleep_on(struct tug_engine *engine, struct wait *wait, struct tug_bell *bell,
                     uint32_t key) {
    bool owes;
    if (!tug_baton_rouse(&engine->ring, &owes)) {
        if (engine->may_drive)
            return true;
        if (atomic_load(&engine->outstanding) > 0)
            tug_engine_ring_offload(engine);
    }
    if (owes)
        tug_engine_ring_driver(engine);
    if (wait->done(wait->argument)) /* the host is not called here: its handlers may jump out */
        return true;
    tug_stat_add(TUG_STAT_PARKS, 1);
    /* many naps disturb no more than one */
    int64_t nappers = atomic_load_explicit(&engine->waiting, memory_order_relaxed);
    const uint64_t begin_ns = tug_trace_sleep_begin();
    tug_bell_wait(bell, key, wait->nap_ns * nappers, false);
    const bool rung = atomic_load_explicit(&bell->word, memory_order_relaxed) != key;
    tug_trace_end(TUG_TRACE_PARK, rung ? TUG_TRACE_BY_RUNG : TUG_TRACE_BY_LIMIT, begin_ns);
    return rung;
}

/* False: nothing has happened. */
static bool park(struct tug_engine *engine, struct wait *wait) {
    struct tug_parked parked;
    const uint32_t key = tug_waiters_park(
        &engine->waiters, &parked, wait->how & TUG_WAIT_PUBLIC ? wait->done : NULL, wait->argument);
    const bool woken = sleep_on(engine, wait, &parked.bell, key);
    tug_waiters_unpark(&engine->waiters, &parked, key);
    return woken;
}

/* A thread that has parked returns without the baton. Others may have been left asleep because it
 * was coming: the holder wakes them or, if there is none, this thread does. */
static void pass_on(struct tug_engine *engine) {
    if (engine->may_drive && !tug_baton_is_held(&engine->ring))
        tug_engine_left(engine);
}

static uint64_t say_looking(struct tug_engine *engine) {
    const uint64_t now = tug_clock_ns();
    engine->said_ns = now;
    tug_engine_looks_until(engine, now + TUG_BELIEVED_NS);
    return now;
}

/* A look at sockets takes longer than to read the clock. */
uint64_t tug_engine_keep_looking(struct tug_engine *engine) {
    static _Thread_local unsigned looks;
    const bool is_due =
        ++looks % TUG_LOOKS_TO_CLOCK == 0 || tug_lookout_useful(&engine->driver.lookout);
    return is_due ? say_looking(engine) : 0;
}

/* From here on this thread, the holder, polls until its wait is over, and says so to the offload
 * thread and to peers. An offload thread that sleeps at descriptors already does not read that, and
 * the awaited packet would wake it, too, at this thread's expense (a put and a flush over TCP after
 * a pause: 100 us, 80 without). If more waits follow, the offload thread is woken once, and then
 * sleeps without descriptors. */
static void begin_looking(struct tug_engine *engine) {
    const uint64_t said_ns = engine->said_ns;
    tug_lease_set(&engine->news, TUG_LEASE_HELD);
    if (say_looking(engine) - said_ns > TUG_TICK_NS)
        tug_engine_before_send();
}

/* The wait is over. Mostly another follows: two ranks that put into each other's memory, and wait
 * for that, find each other looking. */
static void end_looking(struct tug_engine *engine) {
    tug_engine_looks_until(engine, engine->said_ns + TUG_BACK_NS);
    tug_lease_set(&engine->news, TUG_LEASE_FRESH);
    tug_engine_unmute(engine);
}

/* False: the driver is to sleep. At sockets it yields for TUG_YIELDING_NS at most, and not for a
 * while after a yield that has given the core to a thread that computes. */
static bool look_again(struct tug_engine *engine, struct tug_backoff *backoff) {
    if (!tug_backoff_yields(backoff) || !tug_lookout_useful(&engine->driver.lookout))
        return tug_backoff_step(backoff);
    const uint64_t now = tug_clock_ns();
    if (backoff->yields == 0)
        backoff->yielding_ns = now;
    if (engine->dear > 0 || now - backoff->yielding_ns > TUG_YIELDING_NS) {
        engine->dear -= engine->dear > 0;
        return false;
    }
    (void)tug_backoff_step(backoff);
    if (tug_clock_ns() - now > TUG_YIELDING_NS)
        engine->dear = TUG_DEAR_WAITS;
    return true;
}

/* Drives until done. Meanwhile the offload thread leaves the news to this thread. */
static void drive(struct tug_engine *engine, struct wait *wait) {
    struct tug_backoff backoff = {0};
    begin_looking(engine);
    while (!is_over(wait)) {
        (void)tug_engine_keep_looking(engine);
        if (tug_driver_round(engine) || (!look_again(engine, &backoff) &&
                                         tug_driver_sleep(engine, is_over, wait, wait->nap_ns)))
            tug_backoff_reset(&backoff);
    }
    end_looking(engine);
}

/* The end of a wait that this thread did not find itself: the thread that moved something last,
 * which is a guess if several do. */
static enum tug_trace_why ended_by(const struct tug_engine *engine, bool slept) {
    if (atomic_load_explicit(&engine->moved_by_offload, memory_order_relaxed))
        return slept ? TUG_TRACE_BY_OFFLOAD_WAKE : TUG_TRACE_BY_OFFLOAD_LOOK;
    return slept ? TUG_TRACE_BY_OTHER_WAKE : TUG_TRACE_BY_OTHER_LOOK;
}

/* More threads wait than there are cores, and they wait for sockets: threads that are about to
 * start an operation do so first, and one packet carries all of these. A thread that keeps the core
 * instead sends a packet for each of its own operations, until its time slice ends. False: this is
 * no such wait. */
static bool let_others_start(const struct tug_engine *engine) {
    if (!engine->may_drive || !tug_engine_oversubscribed(engine) ||
        !tug_lookout_useful(&engine->driver.lookout))
        return false;
    sched_yield();
    return true;
}

/* A waiting thread that does not drive has little to do awake. If there is a core for each waiting
 * thread, it pauses and yields for as long as a driver would, for to wake it costs more. Otherwise
 * its core is wanted, perhaps by the driver, which a woken thread has preempted: a thread that lets
 * the driver go on a few times need not be woken, and does not preempt it next time. */
static bool should_park(struct tug_engine *engine, struct tug_backoff *backoff, unsigned *left) {
    if (!tug_engine_oversubscribed(engine))
        return !tug_backoff_step(backoff);
    if (*left == 0)
        return true;
    (*left)--;
    return !let_others_start(engine);
}

static enum tug_trace_why wait_awhile(struct tug_engine *engine, struct wait *wait) {
    struct tug_backoff backoff = {0};
    bool relied_on = false, woken = false;
    unsigned left = TUG_TURNS; /* times to let others go on before it parks */
    (void)let_others_start(engine);
    while (!is_over(wait)) {
        if (engine->may_drive && tug_baton_take(&engine->ring)) {
            tug_stat_add(TUG_STAT_HELPS, 1);
            tug_engine_tell(engine);
            drive(engine, wait);
            tug_engine_leave();
            return TUG_TRACE_BY_OWN_LOOK;
        }
        woken = false;
        if (should_park(engine, &backoff, &left)) {
            relied_on = true;
            woken = park(engine, wait);
            left = TUG_TURNS;
            if (woken)
                tug_backoff_reset(&backoff);
        }
    }
    if (relied_on)
        pass_on(engine);
    return ended_by(engine, woken);
}

/* The last thread that waits, if it has waited long, tells the offload thread that no caller polls
 * any more. One that leaves others waiting does not: they poll, and the offload thread would take
 * their core and the baton. After a short wait the offload thread finds out at its next beat. */
void tug_engine_wait(bool (*done)(void *), void *argument, int64_t nap_ns, unsigned how) {
    struct tug_engine *engine = &tug_engine;
    struct wait wait = {.done = done, .argument = argument, .nap_ns = nap_ns, .how = how};
    if (done(argument)) {
        tug_engine_pass();
        return;
    }
    uint64_t start = tug_engine_hears(engine) ? tug_clock_ns() : 0;
    atomic_fetch_add_explicit(&engine->waiting, 1, memory_order_relaxed);
    const uint64_t begin_ns = tug_trace_begin(TUG_TRACE_WAIT);
    const enum tug_trace_why why = wait_awhile(engine, &wait);
    tug_trace_end(TUG_TRACE_WAIT, why, begin_ns);
    const uint32_t waited = atomic_fetch_sub_explicit(&engine->waiting, 1, memory_order_relaxed);
    if (start != 0 && waited == 1 && tug_engine_hears(engine) &&
        tug_clock_ns() - start > TUG_TICK_NS)
        tug_engine_say_gone(engine);
}

bool tug_engine_drive_while(bool (*wants)(void *), void *argument) {
    struct tug_engine *engine = &tug_engine;
    if (!tug_engine_enter_idle())
        return false;
    tug_engine_tell(engine);
    begin_looking(engine);
    do {
        (void)tug_engine_keep_looking(engine);
        (void)tug_driver_round(engine);
    } while (wants(argument));
    end_looking(engine);
    tug_engine_leave();
    return true;
}

void tug_engine_come_again(bool (*news)(const void *), const void *argument) {
    struct tug_engine *engine = &tug_engine;
    if (!engine->may_drive)
        return;
    const uint64_t now = tug_clock_ns();
    const _Atomic uint64_t *shown =
        atomic_load_explicit(&engine->looks_until, memory_order_relaxed);
    const uint64_t until = atomic_load_explicit(shown, memory_order_relaxed);
    if ((int64_t)(until - now) > TUG_BACK_NS - TUG_BACK_NS / 4)
        return;
    tug_engine_looks_until(engine, now + TUG_BACK_NS);
    if (news(argument))
        tug_engine_poll();
}

void tug_engine_suspend(struct tug_waiter *wait) {
    struct tug_engine *engine = &tug_engine;
    const bool first = !tug_engine_has_suspended();
    bool (*const done)(void *) = wait->done;
    void *const argument = wait->argument;
    tug_waiters_add(&engine->waiters, wait); /* from here on *wait may be woken */
    tug_engine_stir(engine, done(argument));
    if (first)
        tug_engine_nudge(engine); /* the driver may sleep without a limit */
    /* seq_cst, after the count: pairs with the thread's look at it before its deep sleep */
    if (tug_gather_wanted_by(TUG_GATHER_OFFLOAD) || !tug_lease_runs(&engine->news, tug_clock_ns()))
        tug_engine_say_gone(engine);
}

void tug_engine_comes_back(void) {
    tug_engine_poll();
    tug_lease_set(&tug_engine.news, TUG_LEASE_FRESH);
}

bool tug_engine_has_suspended(void) {
    return tug_waiters_suspended(&tug_engine.waiters);
}

static bool drained_to(void *argument) {
    const uint64_t *position = argument;
    return atomic_load(&tug_engine.ring.head) >= *position;
}

void tug_engine_drain(void) {
    uint64_t position = tug_ring_tail(&tug_engine.ring);
    if (!drained_to(&position))
        tug_engine_wait(drained_to, &position, -1, TUG_WAIT_PUBLIC);
}

/* ---- calls and jobs through the ring ---- */

/* The payload of a tug_engine_call() that had to queue. */
struct call {
    void (*function)(void *);
    void *argument;
    _Atomic bool *done;
};

static void execute_call(struct tug_command *command) {
    struct call *call = (struct call *)command->payload.bytes;
    call->function(call->argument);
    atomic_store(call->done, true); /* the caller's frame may be gone after this */
}

static bool flag_is_set(void *argument) {
    return atomic_load((_Atomic bool *)argument);
}

void tug_engine_call(void (*function)(void *), void *argument) {
    struct tug_ticket ticket;
    if (!tug_engine_running()) {
        function(argument);
        return;
    }
    if (tug_engine_enter_helping(&ticket) == TUG_ENTRY_BATON) {
        function(argument);
        tug_engine_leave();
        return;
    }
    _Atomic bool done = false;
    ticket.cell->execute = execute_call;
    *(struct call *)ticket.cell->payload.bytes = (struct call){function, argument, &done};
    tug_engine_commit(&ticket);
    tug_engine_wait(flag_is_set, &done, -1, TUG_WAIT_PUBLIC);
}

static void execute_launch(struct tug_command *command) {
    tug_completer_admit(&tug_engine, command->payload.pointers[0]);
}

void tug_engine_launch(struct tug_job *job) {
    struct tug_ticket ticket;
    if (tug_engine_enter_helping(&ticket) == TUG_ENTRY_BATON) {
        tug_completer_admit(&tug_engine, job);
        tug_engine_leave();
        return;
    }
    ticket.cell->execute = execute_launch;
    ticket.cell->payload.pointers[0] = job;
    tug_engine_commit(&ticket);
}

static void no_operation(struct tug_command *command) {
    (void)command;
}

void tug_engine_nudge(struct tug_engine *engine) {
    struct tug_ticket ticket;
    uint64_t state = atomic_load(&engine->ring.state);
    /* a free baton has no holder to nudge; a full ring keeps its holder awake */
    if (!(state & TUG_BATON_HELD) ||
        tug_ring_enter(&engine->ring, false, &ticket) != TUG_ENTRY_TICKET)
        return;
    ticket.cell->execute = no_operation;
    tug_engine_commit(&ticket);
    tug_engine_ring_offload(engine);
}
