/* The sleep plan: whether a thread of the engine looks, or sleeps, how and for how long. Pure
 * functions of what was observed: no clock, no atomics, no system calls (unit.engine.plan has their
 * tables).
 *
 * The offload thread observes once a beat and does what tug_sleep_plan() says.
 */
#ifndef TUG_ENGINE_PLAN_H
#define TUG_ENGINE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

/* ---- the engine's constants: these, and no others ----
 *
 * Each with the measurement that set it or that watches it, on 2 cores. Where none has told it from
 * its neighbours, it says so. */

/* -- beats of the offload thread -- */

/* The beat. An idle process with a window of the native lane takes 8 % of a core (mpi_idle,
 * TUGBOAT_RMA=native), and its computing target answers in 0.2 ms to 0.5 (truly_passive). A thread
 * that has waited for longer says when it leaves. */
#define TUG_TICK_NS 200000

/* The beat is doubled so often at most, and once less while there are peers to answer and callers
 * look. An idle process with packets by MPI takes 7 to 10 ms of a second so, 110 to 170 without
 * (mpi.llcl_idle). */
#define TUG_DOUBLINGS 3

/* The beat for operations and host calls whose end no bell or descriptor shows. A computing target
 * of the native lane answers in 177 us, with 50 us in place of 40 in 208. */
#define TUG_GLANCE_NS 40000

/* So many beats without anything to do come before a sleep without a limit. With fifty a computing
 * core lost 5 %. */
#define TUG_QUIET_BEATS 3

/* Rare messages that end no sleep are looked for so often, such as the host's messages by which
 * verbs connects, when all peers are connected. Not tuned: a fault that they mend has taken
 * seconds. */
#define TUG_SELDOM_NS 6400000

/* So many times in a row a caller leaves the offload thread in its deep sleep, whose descriptors
 * show the answer. Without any such time epochs after a pause over TCP take 1.9 times as long; a
 * caller that goes on is better off with a thread that looks. */
#define TUG_LEFT_ASLEEP 3

/* -- what callers and peers rely on -- */

/* A caller that polls is relied on to look on after so many polls: 18 000 messages received by
 * MPI_Test over TCP wake the offload thread 6 000 to 8 000 times, 25 000 to 38 000 with 1. */
#define TUG_POLLS 32

/* A caller that polls and finds the baton held so often gives its core away. Not told from its
 * neighbours. */
#define TUG_VAIN_POLLS 32

/* A thread that waits reads the clock after so many looks, to tell its peers until when it looks.
 * An epoch of one put takes the same with 4, 8, 16 and 32. */
#define TUG_LOOKS_TO_CLOCK 16

/* Peers believe for so long that a thread which waits looks; it may have been stopped meanwhile.
 * Not told from its neighbours. */
#define TUG_BELIEVED_NS 10000

/* Peers believe for so long that a thread which goes in and out of the library comes back; it says
 * so again after a quarter of that. Two calls of cross-memory attach, the other way to its memory,
 * take as long. Two ranks that put 4 KiB into each other's memory and flush locally take 0.5 to 0.6
 * us so; 1.9 if they say so at every eighth call and are believed for half as long. */
#define TUG_BACK_NS 4000

/* In a wait that the host's progress may have to end, polls of the host are so far apart. Not told
 * from its neighbours. */
#define TUG_VIGIL_NS 20000

/* Rounds in a row that move something before threads that wait are woken, where they are more than
 * the cores: 8-byte writes by shm, 16 threads on 2 cores, 17 M/s with 64, 9.3 with 1. */
#define TUG_PUT_OFF_ROUNDS 32

/* Where threads that wait are more than the cores, one of them lets the others go on so often
 * before it parks: with 1, epochs of 4 threads on a node take up to 4.7 times as long. */
#define TUG_TURNS 3

/* -- the host -- */

/* A poll of the host that finds nothing takes so much longer when the caches have gone cold. A poll
 * that takes longer than that has had an effect. Without it half a core was burned over TCP. */
#define TUG_COLD_NS 500

/* While the program calls the host, the offload thread polls the host in one of so many beats. Not
 * tuned: without it a program that waits for a peer's put by MPI_Win_sync alone hangs. */
#define TUG_CALLED_BEATS 3

/* The host is not polled for so long after it has got more to attend to: a static coarray program
 * lost an update in 20 of 500 runs without this, in none of 2 800 with it. */
#define TUG_SETTLE_NS 1000000

/* Polls of the host one after the other, each with an effect, go on for so long at most, and for so
 * long after them polls come every TUG_GLANCE_NS. Without the second the native lane's target
 * answers in 420 us in place of 300 (truly_passive). */
#define TUG_QUICK_NS 1000000

/* The program is expected to go on calling the host after so many beats in which it has. With one
 * pace for all of them, a target that computes between its calls answers 1.2 times as late over TCP
 * (truly_passive --busy-origin). */
#define TUG_STEADY_BEATS 32

/* The call of a thread that has been inside the host for so long may depend on an answer of this
 * process, so the offload thread enters the host even where that is the program's alone. Not tuned:
 * without it such a program hangs (mpi.own_functions). exit() waits for the offload thread for so
 * long at most. */
#define TUG_STUCK_NS 200000000

/* A thread that waits inside the host and has found a packet looks on until it has found nothing so
 * often, about a microsecond (with 24 and with 1, one node, lower quartiles: a put and flush of 8
 * bytes 0.59 and 0.62 us, of 4 KiB 0.87 and 1.08, a get 0.69 and 0.89; 24 and 32 are not told
 * apart). */
#define TUG_INSIDE_VAIN 32

/* It looks on so often at most: what it waits for may have come to the host. Not tuned. */
#define TUG_INSIDE_LOOKS 256

/* -- a driver, and others that wait -- */

/* A driver that sockets wake yields for so long before it sleeps. Linux may give the core back to
 * it again and again, while the thread that is to answer waits for that core; only a sleep lets
 * that one have it. lock-put-unlock over TCP, both cores busy: 0.3 ms in the mean, 0.7 to 1.3
 * without, 9 to 16 with twice as long (truly_passive --busy-origin). */
#define TUG_YIELDING_NS 100000

/* After a yield that has taken longer, so many waits at sockets do not yield. Such a yield costs 3
 * ms to 4: at 50 us a wait, one part in a hundred. lock-put-unlock over TCP beside a thread that
 * computes: 19 us in the mean, 55 if the driver yields again and again. */
#define TUG_DEAR_WAITS 8192

/* A waiter on a crowded node pauses and yields so often before it sleeps. A broadcast of 8 bytes to
 * four ranks on two cores took 2.7 us so, 20 with 200 pauses and no yields, 100 with 2 000 pauses.
 */
#define TUG_OVERSUBSCRIBED_PAUSES 20
#define TUG_YIELDS 1000

/* Commands that a thread executes for others before it offers the baton. Not tuned. */
#define TUG_BATCH 256

/* -- an offload thread with a core to spare -- */

/* Where a core is to spare for the offload thread, it stays awake for so long after it has found
 * something. A wake takes 5 us to 60 on the machines seen so far; Listing 6 of Endo and Taura posts
 * again within one. Not told from its neighbours. */
#define TUG_AWAKE_NS 50000

/* While awake, the thread does not poll if a caller has polled so lately: a poll takes 100 ns. */
#define TUG_LOOK_NS 500

/* A yield of that thread has taken longer than TUG_YIELDING_NS: another thread computes on its
 * core, and none is to spare for so long. If something is out and nothing has moved for so long,
 * the thread sleeps until news wake it. Not tuned. */
#define TUG_CROWDED_NS 10000000

/* ---- */

enum tug_sleep_how {
    TUG_SLEEP_WATCH, /* until news come, where they can be watched, or it is rung */
    TUG_SLEEP_TIMED, /* until it is rung by this process: callers look for news */
    TUG_SLEEP_DEEP,  /* as WATCH, without a limit */
};

struct tug_sleep_plan {
    enum tug_sleep_how how;
    int64_t limit_ns; /* < 0: none */
};

/* What the offload thread has seen in this beat. */
struct tug_observed {
    bool served;     /* callers look for news: that lease runs */
    bool called;     /* callers have had the baton since the last beat, or called the host */
    unsigned steady; /* beats in a row that were served */
    bool offered;    /* the baton was put down while commands were left */
    bool held;       /* a thread has the baton */
    bool out;        /* jobs or operations are outstanding, or gathered */
    bool services;   /* there are peers to answer */
    bool watched;    /* news of all that is out, and of peers, end a sleep without a limit */
    int64_t host_ns; /* to the next poll of the host; < 0: none is due */
    bool told; /* the host is polled for services alone, and their packets end the sleep, but for
                  a few rare messages */
    bool suspended; /* user-level threads wait: an event that rings no bell may wake them */
    unsigned still; /* beats in a row in which nothing of what is out has moved */
    unsigned quiet; /* beats in a row with nothing to do */
};

/* Is a core to spare for the offload thread? ranks_to_core: ranks for each core of this process, 0:
 * not known; given: the user has given the thread a core. */
bool tug_core_is_spare(double ranks_to_core, bool given);

struct tug_sleep_plan tug_sleep_plan(const struct tug_observed *seen);

/* The beat, doubled so often, or as often as it may be. */
int64_t tug_sleep_slower(unsigned doublings);

/* How long a driver sleeps at most, where it would sleep limit_ns (< 0: without a limit). told:
 * every event wakes it; seldom: but for a few rare messages. */
int64_t tug_wait_limit(bool told, bool seldom, int64_t limit_ns);

/* Is there nothing that the thread would have to come back for by itself? */
bool tug_sleep_is_quiet(const struct tug_observed *seen);

#endif
