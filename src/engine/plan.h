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

/* The offload thread's beat. With a window of the native lane open an idle process takes 8 % of a
 * core (mpi_idle, TUGBOAT_RMA=native), and a computing target answers in 0.2 ms to 0.5
 * (truly_passive). Whoever waited longer than a beat says when it leaves. */
#define TUG_TICK_NS 200000

/* What no bell or descriptor tells of is looked at again after so long. The offload thread looks on
 * for so long when it has answered a peer while something is attended, for half as long otherwise.
 * A computing target of the native lane answers in 177 us, with 50 us instead in 208
 * (truly_passive, TUGBOAT_RMA=native). Peers believe a quarter of that long of one who waits that
 * it looks, which may have been stopped meanwhile (not told from its neighbours). A wait in which
 * the host gets on, too, looks at it after each half of that.
 *
 * One who goes in and out of the library is believed for a tenth to be back, and looks and says so
 * again when a quarter of that is over. Two calls of cross-memory attach, the other way to its
 * memory, take as long. Two ranks that put 4 KiB into each other's memory and flush locally take
 * 0.5 to 0.6 us so; 1.9 with a look at every eighth call, believed for half as long: they came to
 * attach, and stayed with it. Who has believed one that computes waits for its offload thread. */
#define TUG_GLANCE_NS 40000

/* A few. So many beats in a row without anything to do come before a sleep without a limit (with
 * fifty a computing core lost 5 %). In so many callers have come back to the jobs that they left
 * before such jobs no longer make for short beats (persistent alltoalls of 1 MiB, 2 ranks: 131 us
 * if they always do, 107 so and without the thread). So often at most is the beat doubled while the
 * lookout announces what comes, or while nothing has come for long; once less while callers look
 * themselves (an idle process with packets by MPI takes 7 to 10 ms of a second, 110 to 170 without:
 * mpi.llcl_idle). */
#define TUG_FEW 3

/* A poll of the host that finds nothing takes so much longer when the caches have gone cold. A poll
 * that takes longer than that has had an effect. Without it half a core was burned over TCP. */
#define TUG_COLD_NS 500

/* Times in a row after which something counts as what usually happens:
 *   - a caller that polls has looked so often: it is expected to look on, and tells when it leaves,
 *     unless it has done so within a beat (6 000 messages received by MPI_Test over TCP woke the
 *     offload thread 60 to 600 times, 1 700 if it always tells; 18 000 messages 6 000 to 8 000
 *     times if it always tells, 25 000 to 38 000 with 1 in place of 32);
 *   - the lookout has woken the offload thread so often and a caller had taken the news already: it
 *     sleeps without the lookout for a while (the same by MPI_Recv with a native window: 350 polls
 *     of the host, up to 3 900 without);
 *   - polls for attended services have found nothing so often: they become rarer (an idle process
 *     with packets by MPI takes 6.6 ms of a second, 43 if they do not, mpi.llcl_idle; 2 with 1, but
 *     then peers wait);
 *   - something has moved in so many rounds, and threads that wait have not been woken: they are
 *     (8-byte writes by shm, 16 threads on 2 cores: 17 M/s with 64, 9.3 if they are woken at once);
 *   - one who waits has looked half so often: it reads the clock, for the host and for its peers,
 *     who are told until when it looks (an epoch of one put takes the same with 8, 16, 32 and 64);
 *   - who waits inside the host finds nothing more after it has found something, for about a
 *     microsecond: it looks at the host again (with 24 and with 1, one node, lower quartiles: a
 *     put and flush of 8 bytes 0.59 and 0.62 us, of 4 KiB 0.87 and 1.08, a get 0.69 and 0.89; 24
 *     and 32 are not told apart);
 *   - commands have kept a driver awake so often: it yields. Not told from its neighbours;
 *   - so many beats have passed: what wakes nobody and comes seldom is looked for, such as the
 *     host's messages by which verbs connects, when all peers are connected. Not tuned: what they
 *     mend then has taken seconds to fail. */
#define TUG_HABIT 32

/* A driver that sockets wake yields for so long before it sleeps. Linux may give the core back to
 * it again and again, while the thread that is to answer waits for that core; only a sleep lets
 * that one have it. lock-put-unlock over TCP, both cores busy: 0.3 ms in the mean, 0.7 to 1.3
 * without, 9 to 16 with twice as long (truly_passive --busy-origin). */
#define TUG_YIELDING_NS 100000

/* After a yield that has taken longer, so many waits at sockets do not yield. Such a yield costs 3
 * ms to 4: at 50 us a wait, one part in a hundred. lock-put-unlock over TCP beside a thread that
 * computes: 19 us in the mean, 55 if the driver yields again and again. */
#define TUG_DEAR_WAITS 8192

/* Commands that a thread executes for others before it offers the baton, and half the notes of its
 * own before it looks for answers: 8-byte writes over TCP had 8.5 M/s with a look every 128
 * notes, 10.5 to 12 with one every 512 (and fewer acknowledgements). So often at most, in a row,
 * one who waits inside the host looks for peers (not tuned: what it waits for may have come). */
#define TUG_BATCH 256

/* The host is not polled for so long after it has got more to attend to: a static coarray program
 * lost an update in 20 of 500 runs without this, in none of 2 800 with it. Polls of the host one
 * after the other go on for so long at most. */
#define TUG_SETTLE_NS 1000000

/* A thread that has been in one call of the host for so long may wait for an answer of ours. Not
 * tuned: without it such a program hangs (mpi.own_functions). Nor does exit() wait longer for the
 * offload thread, which may be held up there. */
#define TUG_STUCK_NS 200000000

/* Where a core is to spare for the offload thread, it stays awake for so long after it has found
 * something. A wake takes 5 us to 60 on the machines seen so far; Listing 6 of Endo and Taura posts
 * again within one. Not told from its neighbours. */
#define TUG_AWAKE_NS 50000

/* Meanwhile it leaves to callers what they look after, if they have looked so lately: a look takes
 * 100 ns. */
#define TUG_LOOK_NS 500

/* A yield of that thread has taken longer than TUG_YIELDING_NS: another thread computes on its
 * core, and none is to spare for so long. If something is out and nothing has moved for so long,
 * the thread sleeps until news wake it. Not tuned. */
#define TUG_CROWDED_NS 10000000

/* A waiter on a crowded node pauses and yields so often before it sleeps. A broadcast of 8 bytes to
 * four ranks on two cores took 2.7 us so, 20 with 200 pauses and no yields, 100 with 2 000 pauses.
 */
#define TUG_OVERSUBSCRIBED_PAUSES 20
#define TUG_YIELDS 1000

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
    bool stays;      /* a caller that looks for news says when it goes */
    bool called;     /* callers get the host on: that lease runs */
    unsigned steady; /* beats in a row that were served */
    bool offered;    /* the baton was put down while commands were left */
    bool held;       /* the baton is in somebody's hands */
    bool out;        /* jobs, operations or notes are outstanding */
    bool jobs;       /* jobs are outstanding: more is than services could have */
    bool services;   /* there are peers to answer */
    bool watched;    /* news of all that is out, and of peers, end a sleep without a limit */
    int64_t host_ns; /* to the next poll of the host; < 0: none is due */
    bool told;      /* that is for services' sake alone, and news of these end a sleep, too, but for
                       what comes seldom */
    bool suspended; /* waits without a thread stand there: what nobody tells of may end them */
    unsigned still; /* beats in a row in which nothing of what is out has moved */
    unsigned quiet; /* beats in a row with nothing to do */
};

/* Is a core to spare for the offload thread? ranks_to_core: that share the process's cores, 0: not
 * known; given: the user has given it one. */
bool tug_core_is_spare(double ranks_to_core, bool given);

struct tug_sleep_plan tug_sleep_plan(const struct tug_observed *seen);

/* The beat, doubled so often, or as often as it may be. */
int64_t tug_sleep_slower(unsigned doublings);

/* How long it sleeps at most, where it would sleep limit_ns (< 0: without a limit). told: whatever
 * it looks after wakes it; seldom: but for what comes seldom. */
int64_t tug_wait_limit(bool told, bool seldom, int64_t limit_ns);

/* Is there nothing that the thread would have to come back for by itself? */
bool tug_sleep_is_quiet(const struct tug_observed *seen);

#endif
