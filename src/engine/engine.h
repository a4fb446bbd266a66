/* The engine: does the communication on the program's behalf.
 *
 * Requesters hand over commands; the holder of the baton executes them (executor) and advances the
 * outstanding jobs (completer). When nobody drives, the requester itself takes the baton: low load
 * bypasses the ring. The offload thread drives what is left over: work that outlasts a call, and
 * the host MPI's progress while a window is open. A thread that must wait helps, then sleeps.
 *
 * This is the contract of callers. That of transports is in service.h, that of threads that call
 * the host MPI in host_progress.h. What needs MPI comes in as callbacks: a command's execute, a
 * job's advance, and host_poll. One engine a process; started with the first window, persistent
 * request or context, stopped at finalize.
 *
 * Words: a *command* is executed once and does not block. A *job* is outstanding work that
 * the holder of the baton advances until it is complete: a started persistent collective, for one.
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

/* ---- its life (life.c) ---- */

/* Starts the engine, with the host MPI to progress, if it does not run yet. False: MPI does not run
 * at the level for it, or it does not start (said once): calls pass through. Any thread. */
bool tug_engine_bring_up(void);

/* Stops it, before MPI ends. */
void tug_engine_bring_down(void);

bool tug_engine_running(void);

/* ---- commands ---- */

/* One step into the engine. BATON: the caller executes its operation itself, then calls
 * tug_engine_leave(). TICKET: it fills ticket->cell and calls tug_engine_commit(). FULL: nothing
 * happened; try again later, or tug_engine_poll() first. Never waits, allocates or locks. */
enum tug_entry tug_engine_enter(struct tug_ticket *ticket);

/* As tug_engine_enter(), for callers that may wait: helps while the ring is full. Never FULL. */
enum tug_entry tug_engine_enter_helping(struct tug_ticket *ticket);

void tug_engine_commit(const struct tug_ticket *ticket);

/* Ends what TUG_ENTRY_BATON began: executes what others queued meanwhile (a bounded batch, the rest
 * is offered to the next), then puts the baton down. */
void tug_engine_leave(void);

/* Runs function(argument) in order with the commands, on the thread that drives, and returns when
 * it is done; at once where the engine does not run. The function may not block. */
void tug_engine_call(void (*function)(void *), void *argument);

/* Returns when every command whose enter happened before this call has been executed. Helps, then
 * sleeps. */
void tug_engine_drain(void);

/* ---- jobs ---- */

/* Hands a job over; it is advanced at once when the baton is free. Order with the caller's earlier
 * commands and launches is kept. Any number may be out. Helps and retries while the ring is full.
 */
void tug_engine_launch(struct tug_job *job);

/* What done() of a wait is like. */
enum tug_wait_how {
    /* Other threads may call it too, as often as they like, until the wait has returned; it does no
     * more than look. A parked thread is then woken when it is true, and not whenever anything has
     * moved. */
    TUG_WAIT_PUBLIC = 1,
    /* It may depend on a message of the host's, for which this rank has posted a receive: the
     * waiting thread polls the host, too, after some microseconds. */
    TUG_WAIT_HOST = 2,
};

/* Returns when done(argument) is true. Drives when nobody does, else pauses, yields and parks.
 * done() is called often, by this thread only unless it is public, and reads (seq_cst) what
 * completed() published. nap_ns < 0: only the engine makes it true. nap_ns >= 0: it may also become
 * true outside the engine; no sleep is longer than this. how: TUG_WAIT_*. If it is true already the
 * thread looks all the same where there is no offload thread, so that a program whose calls always
 * end at once answers its peers. */
void tug_engine_wait(bool (*done)(void *), void *argument, int64_t nap_ns, unsigned how);

/* For a caller that waits for a condition outside the engine. It drives one round, and more while
 * wants(argument) is true, so that peers are served meanwhile. False: another thread has the baton.
 * wants() may not block nor give the core away for long. */
bool tug_engine_drive_while(bool (*wants)(void *), void *argument);

/* True inside a round of driving, for what is called there: others wait for the baton that this
 * thread holds, and it had better not give its core away. */
bool tug_engine_driving(void);

/* Is there anything for a driver to do, or to look after? */
bool tug_engine_has_work(void);

/* One look for a caller that polls (MPI_Test) or tries again (FULL): one round of driving if nobody
 * drives. A thread that finds another driving again and again gives its core away. */
void tug_engine_poll(void);

/* For a thread that calls the library often without waiting. It promises peers to be back in
 * TUG_BACK_NS; when it renews that promise it also polls, if news(argument) is true. */
void tug_engine_come_again(bool (*news)(const void *), const void *argument);

/* One poll if there is no offload thread: for a call whose condition is true at once. */
void tug_engine_pass(void);

/* No job will use the bell again: returns when no thread can be about to ring it, so that its
 * memory may go. */
void tug_engine_forget_bell(struct tug_bell *bell);

#endif
