/* What the files of the engine share: its one state, and the steps of the holder of the baton.
 *
 *   engine.c         start, stop, and the callers' side: enter, call, drain, launch, wait
 *   life.c           MPI brings the engine up and down
 *   gather.c         small operations that threads write down, and their waking
 *   completer.c      the driver: runs commands, advances jobs, sleeps
 *   waiters.c          what threads wait for while another drives, and how each is woken
 *   services.c       polls services in every round
 *   offload.c        the thread that drives when no other does
 *   plan.c           how that thread sleeps, and for how long
 *   lease.h          how callers tell it that they look themselves
 *   host_progress.c  when it polls the host MPI
 *   event_wait.c     where it and the driver sleep until news come from outside the process
 *   deferred.c       work that a caller leaves to the holder of the baton
 */
#ifndef TUG_ENGINE_PRIVATE_H
#define TUG_ENGINE_PRIVATE_H

#include <pthread.h>

#include "base/stats.h"
#include "base/trace.h"
#include "engine/baton.h"
#include "engine/engine.h"
#include "engine/event_wait.h"
#include "engine/host_progress.h"
#include "engine/lease.h"
#include "engine/gather.h"
#include "engine/plan.h"
#include "engine/service.h"
#include "engine/waiters.h"

struct tug_engine {
    struct tug_ring ring;

    struct tug_sleeper driver; /* where the holder of the baton sleeps */

    struct tug_job *first __attribute__((aligned(TUG_CACHE_LINE))); /* jobs out; holder only */
    struct tug_job **last;        /* where the next one is appended; holder only */
    unsigned nactive;             /* jobs that are out; holder only */
    unsigned nbusy;               /* services that have something out; holder only */
    struct tug_service *services; /* all services; holder only */
    bool untold;                  /* waiters may sleep whose condition is true; holder only */
    unsigned rounds;              /* rounds since a look whether `untold` holds; holder only */
    unsigned dear;              /* waits to come in which the holder does not yield; holder only */
    unsigned told;              /* times that the offload thread was left asleep; holder only */
    _Atomic uint32_t nservices; /* that are looked after now */
    _Atomic uint32_t outstanding; /* nactive + nbusy, for the others */

    /* what every thread reads when it puts the baton down, in one line */
    _Atomic bool passed __attribute__((aligned(TUG_CACHE_LINE))); /* a caller has put the baton down
                                                                     since the last beat */
    bool muted;                 /* tug_services_mute(); holder only */
    _Atomic bool asked;         /* the offload thread sleeps until the baton is put down */
    struct tug_waiters waiters; /* its first word */

    /* threads in tug_engine_wait(), asleep or not */
    _Atomic uint32_t waiting __attribute__((aligned(TUG_CACHE_LINE)));
    struct tug_lease news;                 /* callers advance the jobs and poll the services */
    _Atomic uint32_t looks;                /* looks of callers that poll */
    _Atomic uint64_t *_Atomic looks_until; /* lease for peers: tug_engine_show_looking() */
    uint64_t said_ns;                      /* when that was said; holder only */
    bool seldom;                           /* of services that were armed last; holder only */
    bool left; /* since the last poll from outside one from inside the host has left something to
                  it; holder only */
    uint64_t left_ns; /* when the offload thread was last woken for that; holder only */
    _Atomic bool moved_by_offload; /* it did the last round that moved anything; for the trace */
    _Atomic uint64_t quiet_until;  /* no beat for the host before this (CLOCK_MONOTONIC, ns) */
    _Atomic uint64_t in_host; /* low half: threads waiting in the host; high half: calls so far */

    struct tug_sleeper offload __attribute__((aligned(TUG_CACHE_LINE))); /* the thread's */
    _Atomic bool stopping;
    bool has_thread;
    unsigned cores;         /* cores that this process may use */
    _Atomic bool may_drive; /* requesters take the baton: not with TUGBOAT_PROGRESS=thread, unless
                               only they may be in the host (tug_host_reserved) */
    pthread_t thread;

    void (*poll_host)(void); /* progresses the host MPI a little; any thread */
};

extern struct tug_engine tug_engine;
extern _Atomic bool tug_host_reserved;    /* tug_engine_reserve_host() was called */
extern _Thread_local bool tug_is_offload; /* this is the offload thread */

/* relaxed: there is nothing but this number behind the pointer */
static inline void tug_engine_looks_until(const struct tug_engine *engine, uint64_t until) {
    atomic_store_explicit(atomic_load_explicit(&engine->looks_until, memory_order_relaxed), until,
                          memory_order_relaxed);
}

/* Starts the engine as the settings say (and the offload thread unless TUGBOAT_PROGRESS=caller).
 * 0, TUG_ERR_NO_MEMORY or TUG_ERR_SYSTEM. Not thread safe against stop; idempotent. */
int tug_engine_start(void (*poll_host)(void));

/* Executes what is queued, stops the offload thread, frees everything. Jobs still out are dropped
 * without completed(). No other thread may be in a call. */
void tug_engine_stop(void);

/* For exit() without MPI_Finalize: stops the offload thread, waiting for it only a little, since it
 * may be held up inside the host. Nothing is freed. */
void tug_engine_abandon(void);

/* Call in the child of a fork: the offload thread is not there; the engine counts as stopped. */
void tug_engine_forked(void);

/* From now on the engine's own thread does not get the host on: the host may call functions of a
 * program that has not asked for MPI_THREAD_MULTIPLE and expects them on its own thread. Except
 * while that thread has been inside one call of the host for long (tug_engine_host_begin), and so
 * answers nobody. Waiting threads drive from then on, with TUGBOAT_PROGRESS=thread too: no other
 * thread progresses jobs that need the host. Permanent. Returns when the engine's thread has left
 * the host. */
void tug_engine_reserve_host(void);

/* ---- the holder's steps ---- */

/* Executes up to limit commands. Returns how many. */
unsigned tug_executor_run(struct tug_engine *engine, unsigned limit);

/* Takes a job over; advances it once. */
void tug_completer_admit(struct tug_engine *engine, struct tug_job *job);

/* Advances every job once. True if anything moved. */
bool tug_completer_run(struct tug_engine *engine);

/* Publishes how much is out. */
static inline void tug_completer_count(struct tug_engine *engine) {
    atomic_store(&engine->outstanding, engine->nactive + engine->nbusy);
}

/* A service has come, has gone or is looked after in another way; the first job is out, or the last
 * is over: counts anew the services that threads which wait or poll have to poll. Holder only. */
void tug_services_count(struct tug_engine *engine);

/* The end of a batch, for every service. */
void tug_services_flush(struct tug_engine *engine);

/* Polls every service once, see tug_service.poll. True if anything moved. */
bool tug_services_poll(struct tug_engine *engine, bool more_comes);

/* Polls one of them, which can be from inside the host. */
bool tug_services_poll_inside(struct tug_engine *engine, struct tug_service *service);

/* Is every service that is looked after now polled from inside the host, too? */
bool tug_services_all_inside(const struct tug_engine *engine);

/* Whether news at descriptors end the offload thread's sleep. Holder only. */
void tug_services_mute(struct tug_engine *engine, bool mute);

/* The baton is about to be put down: news at descriptors wake the offload thread again, also those
 * that have come meanwhile. Holder only. */
static inline void tug_engine_unmute(struct tug_engine *engine) {
    if (__builtin_expect(engine->muted, 0))
        tug_services_mute(engine, false);
}

/* Arms every service. True if all of them ring that sleeper. */
bool tug_services_arm(struct tug_engine *engine, const struct tug_sleeper *sleeper);

/* The one bell that every job and service rings, or NULL if some jobs have none or they differ.
 * *shared: by other processes, as those of jobs are. */
struct tug_bell *tug_engine_bell(const struct tug_engine *engine, bool *shared);

/* Makes the news of all services and jobs wake the sleeper, which has prepared its own bell: there,
 * or at the bell that they all have. Prepares before it arms: an armed service may ring at once,
 * and a ring at a bell that is not prepared wakes no thread. False: they cannot, and the sleeper is
 * at its own bell as before. Holder only; the caller looks once more after this. */
bool tug_sleeper_watch(struct tug_engine *engine, struct tug_sleeper *sleeper,
                       struct tug_prepared *prepared);

/* One round: commands, then jobs and services; wakes threads whose condition has come true. */
bool tug_driver_round(struct tug_engine *engine);

/* Sleeps until a job's bell rings, a command is queued, or limit_ns (< 0: none) is over. Looks at
 * everything once more before. True if that look moved something, or a command is on its way. */
bool tug_driver_sleep(struct tug_engine *engine, bool (*done)(void *), void *argument,
                      int64_t limit_ns);

/* ---- waking ---- */

/* More threads wait than there are cores. Any thread. */
static inline bool tug_engine_oversubscribed(const struct tug_engine *engine) {
    return atomic_load_explicit(&engine->waiting, memory_order_relaxed) > engine->cores;
}

/* How parked threads are looked at: singly if more threads wait than there are cores, and they may
 * drive. */
static inline unsigned tug_engine_how(const struct tug_engine *engine) {
    return engine->may_drive && tug_engine_oversubscribed(engine) ? TUG_LOOK_SINGLY : TUG_LOOK_ALL;
}

/* Wakes the threads whose condition has come true; remembers if some were left asleep. Holder only.
 */
void tug_engine_tell(struct tug_engine *engine);

/* Something has moved: looks at suspended waits. */
static inline void tug_engine_stir(struct tug_engine *engine, bool moved) {
    if (moved && tug_waiters_suspended(&engine->waiters))
        (void)tug_waiters_look(&engine->waiters, TUG_LOOK_SUSPENDED);
}

/* The baton was put down, or offered: rings the offload thread if it has asked, looks at parked
 * threads, and wakes one to take the baton. */
void tug_engine_left(struct tug_engine *engine);

/* The offload thread is in its deep sleep, and every answer to an outstanding operation ends that
 * sleep: the thread need not be woken, neither now nor when this thread goes to compute. Packets
 * that gather are sent for that. TUG_LEFT_ASLEEP times in a row only: a caller with much to do is
 * better off with a thread that looks. Holder only, which puts the baton down next. */
bool tug_engine_is_told(struct tug_engine *engine);

/* The baton was put down after a look; told: what tug_engine_is_told() said just before. */
void tug_engine_after_look(struct tug_engine *engine, bool told);

/* A waiting thread looks once more, and tells peers so now and then. Returns the time
 * (CLOCK_MONOTONIC, ns) if it has told them, else 0. */
uint64_t tug_engine_keep_looking(struct tug_engine *engine);

/* Puts the baton down with work left, which the offload thread may do. */
void tug_engine_offer(struct tug_engine *engine);

/* This thread may go to compute: the offload thread no longer relies on callers. */
void tug_engine_say_gone(struct tug_engine *engine);

/* Does the kernel wake the offload thread for packets to the services? */
static inline bool tug_engine_hears(const struct tug_engine *engine) {
    return atomic_load_explicit(&engine->offload.lookout.ours, memory_order_relaxed) > 0 &&
           atomic_load_explicit(&engine->nservices, memory_order_relaxed) > 0;
}

static inline void tug_engine_count_wakes(enum tug_stat stat, enum tug_trace_kind kind,
                                          uint64_t n) {
    tug_stat_add(stat, n);
    tug_trace_count(kind, n);
}

static inline void tug_engine_ring_driver(struct tug_engine *engine) {
    if (tug_sleeper_ring(&engine->driver))
        tug_engine_count_wakes(TUG_STAT_WAKES, TUG_TRACE_WAITER_WAKES, 1);
}

/* Has a holder that sleeps, or has decided to, come round again and look at the engine's state:
 * queues an empty command, which a holder does not sleep over. Never waits. */
void tug_engine_nudge(struct tug_engine *engine);

static inline void tug_engine_ring_offload(struct tug_engine *engine) {
    tug_gather_want_not(TUG_GATHER_OFFLOAD); /* it looks again, and says so again */
    if (engine->has_thread && tug_sleeper_ring(&engine->offload))
        tug_engine_count_wakes(TUG_STAT_OFFLOAD_WAKES, TUG_TRACE_OFFLOAD_WAKES, 1);
}

/* ---- the thread ---- */

/* The offload thread has taken the baton to look once round; puts it down again. */
void tug_offload_round(struct tug_engine *engine, bool *moved);

/* ---- progress of the host (host_progress.c) ---- */

/* What the offload thread knows of it. */
struct tug_host_progress {
    uint64_t calls;       /* calls of the host by the program that waited, up to the last beat */
    uint64_t empty_ns;    /* time of a poll that finds nothing */
    int64_t pace_ns;      /* time to the next beat */
    uint64_t quick_until; /* CLOCK_MONOTONIC, ns */
    unsigned called;      /* beats in a row in which the program was in the host or called it */
};
#define TUG_HOST_PROGRESS_INITIAL                                                                  \
    { .empty_ns = 2 * TUG_COLD_NS, .pace_ns = TUG_TICK_NS }

/* Is the host polled for services alone? */
bool tug_host_only_services(void);

/* One beat of polling the host, if anything is attended; sets the pace. served: callers poll the
 * services. */
void tug_host_beat(struct tug_engine *engine, struct tug_host_progress *progress, bool served);

int tug_offload_start(struct tug_engine *engine);
/* Asks the thread to end and waits for it, at most patience_ns (< 0: as long as it takes). */
void tug_offload_stop(struct tug_engine *engine, int64_t patience_ns);

#endif
