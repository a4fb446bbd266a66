/* The engine: does the communication on the program's behalf.
 *
 * Requesters hand over commands; the holder of the baton executes them (executor) and advances the
 * outstanding jobs (completer). When nobody drives, the requester itself takes the baton: low load
 * bypasses the ring. The offload thread drives what is left over: work that outlasts a call, and
 * the host MPI's progress while a window is open. A thread that must wait helps, then sleeps.
 *
 * The engine knows no MPI. What needs MPI comes in as callbacks: a command's execute, a job's
 * advance, and host_poll. One engine a process; started with the first window, persistent request
 * or context, stopped at finalize.
 *
 * Words: a *command* is executed once and does not block. A *job* is outstanding work that is
 * advanced until it is complete: a started persistent collective, for one.
 */
#ifndef TUG_ENGINE_ENGINE_H
#define TUG_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/park.h"
#include "engine/ring.h"

/* One piece of outstanding work. The caller owns the memory until completed() has been called. */
struct tug_job {
    /* Moves the job on as far as it goes without waiting. Returns true if anything moved; sets
     * *done. Called by the holder of the baton only. */
    bool (*advance)(struct tug_job *job, bool *done);
    /* Called once, by the holder, after advance set done and the job was let go. May enter
     * and commit, which never block; may not launch, call, drain or wait: it would wait for itself.
     * Must publish completion by a seq_cst store that the waiters' done() reads. */
    void (*completed)(struct tug_job *job);
    struct tug_bell *bell; /* rung (shared) by peers when the job can move; NULL: must be polled */
    /* the engine's own */
    struct tug_job *next;
};

/* Something that is looked after in every round, as long as it is there: the transports of an LLCL
 * context, which have peers to answer even when nothing of ours is out. All functions are
 * called by the holder of the baton only; they may enter and commit, as completed() may. */
struct tug_service {
    /* Gets on as far as it goes without waiting. Returns true if anything moved. more_comes: the
     * holder is about to begin more: what is not full had better wait for that. */
    bool (*poll)(struct tug_service *service, bool more_comes);
    /* The commands of a batch have been executed: what they began goes. */
    void (*flush)(struct tug_service *service);
    /* True while something of ours is out: then somebody drives until it is not. */
    bool (*busy)(struct tug_service *service);
    /* The caller has prepared the bell to sleep on it: see to it that news ring it, and return
     * true; it polls once more before it sleeps. False: news do not ring, so the service is polled
     * at intervals. */
    bool (*arm)(struct tug_service *service);
    struct tug_bell *bell; /* &tug_engine_own_bell: the descriptor is all that tells of news; NULL:
                              there are none from outside */
    bool bell_shared;
    int descriptor; /* readable while there are news, once armed; -1: none */
    bool seldom;    /* set by arm(): something may come besides that does not ring, seldom */
    bool attended;  /* arm() is false: the offload thread has to look in while nobody drives (where
                       there is no such thread, the engine sets it) */
    /* the engine's own */
    bool with_jobs; /* tug_engine_serve_with_jobs() */
    /* tug_engine_serve_inside() */
    bool (*poll_inside)(struct tug_service *service, bool *left);
    bool helped; /* counted in tug_helped_services */
    bool was_busy;
    bool watched; /* the lookouts have the descriptor */
    bool lost;    /* a lookout that had the descriptor is lost, which has been counted */
    struct tug_service *next;
};

/* The bell of services that nobody rings: who drives sleeps on a bell of its own. */
extern struct tug_bell tug_engine_own_bell;

struct tug_engine_config {
    void (*host_poll)(void); /* progresses the host MPI a little; any thread */
};

/* ---- with MPI (life.c) ---- */

/* Starts the engine, with the host MPI to progress, if it does not run yet. False: MPI does not run
 * at the level for it, or it does not start (said once): calls pass through. Any thread. */
bool tug_engine_bring_up(void);

/* Stops it, before MPI ends. */
void tug_engine_bring_down(void);

/* Progresses the host a little. The engine has been brought up. Any thread. */
void tug_engine_poll_host(void);

/* The host is about to have functions of the program's to call (reductions that do not block): from
 * now on the engine does not get it on by itself, unless the program has asked for
 * MPI_THREAD_MULTIPLE. */
void tug_engine_keep_functions(void);

/* ---- without ---- */

/* Starts the engine as the settings say (and the offload thread unless TUGBOAT_PROGRESS=caller).
 * 0, TUG_ERR_NO_MEMORY or TUG_ERR_SYSTEM. Not thread safe against stop; idempotent. */
int tug_engine_start(const struct tug_engine_config *config);

/* Executes what is queued, stops the offload thread, frees everything. Jobs still out are dropped
 * without completed(). No other thread may be in a call. */
void tug_engine_stop(void);

/* For exit() without MPI_Finalize: stops the offload thread, waiting for it only a little, since it
 * may be held up inside the host. Nothing is freed. */
void tug_engine_abandon(void);

bool tug_engine_running(void);

/* Call in the child of a fork: the offload thread is not there; the engine counts as stopped. */
void tug_engine_forked(void);

/* From now on a thread that waits and looks for news says there, for peers to read, until when
 * (CLOCK_MONOTONIC, ns): some microseconds ahead, again and again, and 0 when it sleeps. So it is
 * no matter if it is stopped. Memory that stays until the process ends. Any thread. */
void tug_engine_show_looking(_Atomic uint64_t *until);

/* This thread is in and out of the library, and does not wait there: says to peers, now and then,
 * that it is back soon. True: it has, and looks now. Any thread. */
bool tug_engine_come_again(void);

/* ---- commands ---- */

/* One step into the engine. BATON: the caller executes its operation itself, then calls
 * tug_engine_leave(). TICKET: it fills ticket->cell and calls tug_engine_commit(). FULL: nothing
 * happened; try again later, or tug_engine_help() first. Never waits, allocates or locks. */
enum tug_entry tug_engine_enter(struct tug_ticket *ticket);

/* Takes the baton if nobody drives, and no cell of the ring. Then as after TUG_ENTRY_BATON. */
bool tug_engine_enter_idle(void);

/* As tug_engine_enter(), for callers that may wait: helps while the ring is full. Never FULL. */
enum tug_entry tug_engine_enter_helping(struct tug_ticket *ticket);

void tug_engine_commit(const struct tug_ticket *ticket);

/* Ends what TUG_ENTRY_BATON began: executes what others queued meanwhile (a bounded batch, the rest
 * is offered to the next), then puts the baton down. */
void tug_engine_leave(void);

/* A packet is about to go by a descriptor that the engine sleeps at. The answer may be there before
 * the caller looks for it, as where the peer's thread gets this very core from it: until the baton
 * is put down it wakes nobody. An offload thread that is woken in vain takes that core, too (36 us
 * of the 280 that a put and a flush to a rank on the same core took). Holder of the baton only. */
void tug_engine_before_send(void);

/* Runs function(argument) in order with the commands, by whoever drives, and returns when it is
 * done; at once where the engine does not run. The function may not block. */
void tug_engine_call(void (*function)(void *), void *argument);

/* Returns when every command whose enter happened before this call has been executed. Helps, then
 * sleeps. */
void tug_engine_drain(void);

/* Drives one round if nobody does; else gives the core away once. For retry loops on FULL. */
void tug_engine_help(void);

/* ---- jobs ---- */

/* Hands a job over; it is advanced at once when the baton is free. Order with the caller's earlier
 * commands and launches is kept. Any number may be out. Helps and retries while the ring is full.
 */
void tug_engine_launch(struct tug_job *job);

/* True while the holder of the baton advances a job: what that starts needs no command. Set to
 * false, and then to what it was, around looks, which call functions of others: tug_engine_look()
 * does so. */
bool tug_engine_in_job(void);
bool tug_engine_set_in_job(bool is);

/* Returns when done(argument) is true. Drives when nobody does, else pauses, yields and parks.
 * done() is called often, by this thread only, and reads (seq_cst) what completed() published.
 * nap_ns < 0: only the engine makes it true. nap_ns >= 0: it may also become true outside the
 * engine; no sleep is longer than this. */
void tug_engine_wait(bool (*done)(void *), void *argument, int64_t nap_ns);

/* A done() for a wait during which the host gets on, too, on which what is waited for may depend:
 * other ranks may come to where they let this one go on only when a message has been received that
 * this rank has posted a receive for. A wait of a few microseconds has no time for the host, nor
 * for the clock. Begun with done and argument. */
struct tug_vigil {
    bool (*done)(void *);
    void *argument;
    unsigned looks;
    uint64_t host_ns; /* the host was looked at last; 0: the wait has just begun */
};
bool tug_vigil_is_over(void *vigil);

/* As tug_engine_wait(), for a done() that other threads may call too, as often as they like, until
 * this has returned; it may do no more than look. A thread that is parked is then woken when done()
 * is true, and not whenever anything has moved. */
void tug_engine_wait_public(bool (*done)(void *), void *argument, int64_t nap_ns);

/* For a caller that waits for what the engine does not know of, in its own way: one round of
 * driving, and others as long as wants(argument) says so. Meanwhile peers are served at once.
 * False: somebody else drives, or is to. wants() may not block nor give the core away for long. */
bool tug_engine_drive_while(bool (*wants)(void *), void *argument);

/* One look for such a caller, if nobody drives: peers are served. What it has started may wait for
 * more. */
void tug_engine_look_by(void);

/* True inside a round of driving, for what is called there: others wait for the baton that this
 * thread holds, and it had better not give its core away. */
bool tug_engine_driving(void);

/* Is there anything for a driver to do, or to look after? */
bool tug_engine_has_work(void);

/* One look for a caller that polls (MPI_Test): one round of driving if nobody drives. */
void tug_engine_poll(void);

/* Are there any services? */
bool tug_engine_serves(void);

/* For a call that would have waited, and need not: where there is no offload thread it looks all
 * the same, so that a program whose calls always end at once answers its peers. */
void tug_engine_pass(void);

/* No job will use the bell again: returns when no thread can be about to ring it, so that its
 * memory may go. */
void tug_engine_forget_bell(struct tug_bell *bell);

/* ---- services ---- */

/* The service is polled in every round from now on / never again. Not in callbacks. */
void tug_engine_serve(struct tug_service *service);
void tug_engine_unserve(struct tug_service *service);

/* From now on a service that is served is looked after only while a job is out, or something of its
 * own: nobody waits for its answers otherwise. Not in callbacks. */
void tug_engine_serve_with_jobs(struct tug_service *service);

/* From now on a service that is served is also looked after from inside the host (inside.c), where
 * the host makes that possible, by poll: the same as its poll, for a thread that may hold locks of
 * the host's. It calls nothing of the host's, nor anything of the program's; what would have to is
 * *left to the offload thread. Not any more after tug_engine_serve_outside() (holder only). */
void tug_engine_serve_inside(struct tug_service *service,
                             bool (*poll)(struct tug_service *service, bool *left));
void tug_engine_serve_outside(struct tug_service *service);

/* Polls every service, for a holder that has handed over many operations and waited for none: its
 * peers are answered, and it needs no offload thread yet. more_comes: it is about to hand over
 * more. What it has handed over may then wait for the rest; if none follows, the offload thread's
 * next beat sends it. Holder of the baton only, not in callbacks. */
void tug_engine_look(bool more_comes);

/* Looks at the service's busy(), which may have changed. Holder of the baton only; the engine does
 * it itself after every round. */
void tug_engine_service_changed(struct tug_service *service);

/* ---- attendance ---- */

/* +1 / -1: something needs the host MPI's progress without the program's help (an open window).
 * While the count is positive the offload thread polls the host; not in the first moment, see
 * below. */
void tug_engine_attend(int change);

/* No polls in the next moment: ranks that are about to leave the creation of a window together
 * count on staying together, and a poll can cost one of them its core. */
void tug_engine_keep_quiet(void);

extern _Atomic uint32_t tug_attendance;

/* True if there is something to attend to: then the calls below are worth their while. */
static inline bool tug_engine_attended(void) {
    return atomic_load_explicit(&tug_attendance, memory_order_relaxed) > 0;
}

/* Services that are attended: only polls can get them on (nothing tells us of their news, or there
 * is no offload thread to be told). */
extern _Atomic uint32_t tug_attended_services;

/* Those, and the ones whose news come at a descriptor and which are not looked after from inside
 * the host: to be woken for it costs the offload thread dearly where a program thread keeps the
 * core while it waits in the host. While there are any, such threads had better look after them
 * too. One more is counted where there is no offload thread. */
extern _Atomic uint32_t tug_helped_services;

static inline bool tug_engine_wants_help(void) {
    return atomic_load_explicit(&tug_helped_services, memory_order_relaxed) > 0;
}

/* Around a call in which the program waits inside the host, which then makes progress by itself:
 * the offload thread keeps out of its way. Any thread; they nest. */
void tug_engine_host_begin(void);
void tug_engine_host_end(void);

/* Before a short call of the host by a program of one thread in MPI. Not by two threads at once. */
void tug_engine_host_called(void);

/* From now on the engine's own thread does not get the host on: the host may call functions of a
 * program that has not asked for MPI_THREAD_MULTIPLE and expects them on its own thread. Except
 * while that thread has been inside one call of the host for long (tug_engine_host_begin), and so
 * answers nobody. Waiting threads drive from then on, with TUGBOAT_PROGRESS=thread too: no other
 * thread progresses jobs that need the host. Permanent. Returns when the engine's thread has left
 * the host. */
void tug_engine_reserve_host(void);

/* A look from inside the host (inside.c), by a thread that waits there. True if something moved. */
bool tug_engine_look_inside(void);

/* The thread has looked so for long, and comes out of the host: who relied on it is told. */
extern _Thread_local bool tug_engine_looked_inside;
void tug_engine_leave_inside(void);

/* Around every call that gets the host on and that the engine's own thread may make. False: it is
 * not to be made, and there is nothing to leave. */
bool tug_engine_enter_host(void);
void tug_engine_leave_host(void);

/* The calling thread is the engine's own, which drives while the program does something else. */
bool tug_engine_is_own_thread(void);

#endif
