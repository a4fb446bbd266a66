/* The sleep plan: whether a thread of the engine looks, or sleeps, how and for how long. Pure
 * functions of what was observed: no clock, no atomics, no system calls (unit.engine.plan has their
 * tables).
 *
 * The offload thread observes once a beat and does what tug_sleep_plan() says. Callers that wait
 * ask tug_wait_plan() after each look that has found nothing.
 */
#ifndef TUG_ENGINE_PLAN_H
#define TUG_ENGINE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define TUG_TICK_NS 200000   /* the offload thread's beat */
#define TUG_SLOWER_AT_MOST 2 /* doublings of it while callers serve themselves */
#define TUG_GLANCE_NS 50000  /* to look again whether callers are still at it */
#define TUG_TICKS_TO_DEEP 3  /* quiet beats, each a disturbance, before it sleeps untimed */

#define TUG_YIELDING_NS 100000 /* of yields before a driver sleeps whom sockets wake */
#define TUG_DEAR_WAITS 8192    /* without a yield after one that took longer than that */

enum tug_sleep_how {
    TUG_SLEEP_POLL,  /* not at all: it takes the baton and drives */
    TUG_SLEEP_WATCH, /* until news come, where they can be watched, or it is rung */
    TUG_SLEEP_TIMED, /* until it is rung; news are others' */
    TUG_SLEEP_DEEP,  /* as WATCH, without a limit */
};

struct tug_sleep_plan {
    enum tug_sleep_how how;
    int64_t limit_ns; /* < 0: none */
};

/* What the offload thread has seen in this beat. */
struct tug_observed {
    bool looked;     /* it has driven in this beat, or was not to */
    bool served;     /* callers look for news: that lease runs */
    bool called;     /* callers get the host on: that lease runs */
    unsigned steady; /* beats in a row that were served */
    bool offered;    /* the baton was put down with work left */
    bool held;       /* the baton is in somebody's hands */
    bool out;        /* jobs, operations or notes are */
    bool jobs;       /* ... more than the services' */
    bool services;   /* there are peers to answer */
    bool watched;    /* news of all of them end a sleep without a limit */
    bool vain;       /* what the lookout sees has long been others' */
    int64_t host_ns; /* to the next poll of the host; < 0: none is due */
    unsigned quiet;  /* beats in a row with nothing to do */
};

struct tug_sleep_plan tug_sleep_plan(const struct tug_observed *seen);

/* What a driver that waits has seen; its look has found nothing. */
struct tug_waited {
    bool pauses;         /* its budget of pauses is not used up */
    bool yields;         /* its budget of yields is not */
    bool sockets;        /* it is woken by sockets, where it sleeps */
    bool dear;           /* a yield has lately given the core to one who computes */
    int64_t yielding_ns; /* since its first yield */
};

enum tug_wait_how { TUG_WAIT_PAUSE, TUG_WAIT_YIELD, TUG_WAIT_SLEEP };

/* Where sockets wake the driver, yielding is worth its while only as long as nobody computes on
 * this core: who does keeps it until the next tick of the clock. Nor for long: by its fairness
 * Linux may give the core back again and again (6.x), while the one who is to answer waits for it;
 * only a sleep lets that one have it. */
enum tug_wait_how tug_wait_plan(const struct tug_waited *seen);

/* Has a yield that took so long given the core to one who computes? */
bool tug_wait_is_dear(int64_t yield_ns);

/* How long it sleeps at most, where it would sleep limit_ns (< 0: without a limit). told: whatever
 * it looks after wakes it. */
int64_t tug_wait_limit(bool told, int64_t limit_ns);

/* Is there nothing that the thread would have to come back for by itself? */
bool tug_sleep_is_quiet(const struct tug_observed *seen);

#endif
