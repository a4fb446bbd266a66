/* Leases (src/engine/lease.h, plan.h): who looks for news while callers come and go, and how the offload
 * thread sleeps meanwhile.
 *
 * A PEER sends messages; one that comes while the services are armed rings the bell. A CALLER waits WAITS
 * times for a message: it takes the baton, holds the lease, looks, and sleeps on the bell when it finds
 * nothing; in the end it computes and calls nobody. POLLS: it also looks in once, which makes the lease
 * fresh. LEAVES: at last it ends the lease and rings the offload thread. The offload thread observes the
 * lease: while it runs it dates what is fresh and sleeps for a time, after which a lease that was dated has
 * ended; otherwise it takes the baton, arms, looks once, and sleeps without a limit. A timer goes off only
 * where something is left to do, so that a sleep for ever is an end of the search.
 *
 * Properties: nobody ends with a message unread, and the offload thread leaves no message to a caller who
 * has gone for more than two beats. Broken variants, to be found wrong: DEEP (it sleeps without a limit on
 * a lease that runs), UNDATED (what is fresh runs for ever), KEPT (a wait that is over holds the lease on),
 * ARM_FIRST with STALE (it arms before it prepares, and what its look consumes does not count).
 */
#ifndef WAITS
#define WAITS 2
#endif
#ifndef MESSAGES
#define MESSAGES 3
#endif

#define ENDED 0
#define DATED 1
#define FRESH 2
#define HELD 3
#define RUNS (lease != ENDED)

#define CALLER 0
#define OFFLOAD 1

byte lease;
bit baton;
byte sent, read;
bit hello, greeted;   /* a connection, which is no message yet */
bit armed;            /* the next news ring the bell, which both sleep on */
bit s, rung[2], asleep[2];
bit own;              /* it sleeps on a bell of its own, which no news ring */
bit poked;            /* the caller that leaves has rung that bell */
bit gone;             /* the caller computes */
byte relied;          /* beats in which news were left to a caller who had gone */

#define NEWS (sent > read || hello)

/* bell.pml has the steps; whoever sleeps there wakes */
inline ring()
{
    atomic {
        if
        :: s -> s = 0; rung[CALLER] = 1; rung[OFFLOAD] = 1; asleep[CALLER] = 0;
            asleep[OFFLOAD] = asleep[OFFLOAD] && own
        :: else
        fi
    }
}

inline prepare(who)
{
    atomic { s = 1; rung[who] = 0 }
}

inline fall_asleep(who)
{
    atomic {
        if
        :: !rung[who] -> asleep[who] = 1
        :: else
        fi
    }
}

/* A message behind a greeting is read by the look after the one that takes the greeting. */
inline look()
{
    atomic {
        moved = 0;
        if
        :: hello ->
            hello = 0;
            greeted = 1;
#ifndef STALE
            moved = 1
#endif
        :: else ->
            if
            :: greeted && sent > read -> read++; moved = 1
            :: else
            fi
        fi
    }
}

/* tug_sleeper_watch() */
inline watch(who)
{
#ifdef ARM_FIRST
    armed = 1;
    prepare(who);
#else
    prepare(who);
    armed = 1;
#endif
    look()
}

/* The kernel rings what is armed, once, when there is something to read. */
active proctype kernel()
{
end:
    do
    :: atomic { armed && (hello || (greeted && sent > read)) -> armed = 0 };
        ring()
    od
}

active proctype peer()
{
    hello = 1;
    do
    :: sent < MESSAGES -> sent++
    :: else -> break
    od
}

/* tug_engine_ring_offload() */
inline poke()
{
    atomic { poked = 1; asleep[OFFLOAD] = 0 }
}

active proctype caller()
{
    byte n;
    bit moved;
    do
    :: n < WAITS ->
        atomic { !baton -> baton = 1 };
        lease = HELD;
        do
        :: read > n -> break
        :: else ->
            watch(CALLER);
            if
            :: moved || read > n
            :: else -> fall_asleep(CALLER); !asleep[CALLER]; look()
            fi
        od;
#ifndef KEPT
        lease = FRESH;
#endif
        baton = 0;
        n++
    :: else -> break
    od;
#ifdef POLLS
    atomic { !baton -> baton = 1 };
    look();
    lease = FRESH;
    baton = 0;
#endif
    gone = 1;
#ifdef LEAVES
    lease = ENDED;
    poke()
#endif
}

/* A timer: only where it matters. */
#define DUE (NEWS && !baton)

/* A beat begins: asleep on its own bell it is woken by this process only. */
inline sleep_for_a_time()
{
    atomic {
        if
        :: !poked -> asleep[OFFLOAD] = 1; own = 1
        :: else
        fi
    };
end_timed:
    if
    :: !asleep[OFFLOAD]
#ifndef DEEP
    :: atomic {
            asleep[OFFLOAD] && DUE ->
            asleep[OFFLOAD] = 0;
            lease = (lease == DATED -> ENDED : lease);
            relied = (gone -> relied + 1 : 0);
            assert(relied <= 2)
        }
#endif
    fi
}

active proctype offload()
{
    bit moved;
    do
    :: own = 0;
        poked = 0; /* prepares */
        if
        :: RUNS ->
#ifndef UNDATED
            atomic {
                if
                :: lease == FRESH -> lease = DATED
                :: else
                fi
            };
#endif
            sleep_for_a_time()
        :: !RUNS ->
            if
            :: atomic { !baton -> baton = 1 };
                watch(OFFLOAD);
                baton = 0;
                if
                :: moved
                :: else ->
                    atomic {
                        if
                        :: !rung[OFFLOAD] && !poked -> asleep[OFFLOAD] = 1
                        :: else
                        fi
                    };
end_deep:
                    !asleep[OFFLOAD]
                fi;
                relied = 0
            :: baton -> sleep_for_a_time() /* its holder is asked to look */
            fi
        fi
    od
}

init
{
end:
    timeout;
    assert(read == MESSAGES)
}
