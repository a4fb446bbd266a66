/* The ring and the baton (src/engine/ring.h, baton.h) and the waits of the engine built on them.
 *
 * PRODUCERS threads hand over COMMANDS commands each, then drain; WAITERS threads launch a job each and
 * wait for it; the offload thread drives what is left over; one remote ringer per job makes the job
 * ready to move and rings the bell on which the holder sleeps. Every access to shared memory and every
 * futex call of the code is one step (what only the holder or only one thread sees goes with it). A
 * compare-exchange loop that looks at nothing but its word is one step too: it succeeds only where what
 * it decided on still holds. A thread that would spin blocks until what it looks at has changed, and
 * budgets of pauses and yields are nil, so that a wait which nobody ends is an invalid end state. The
 * offload thread's timer helps with nothing but jobs that nobody drives, as it is meant to.
 *
 * Properties:
 *  - never two drivers (the ghost `driving`, changed in the same step as the state word);
 *  - a baton put down free implies that every position handed out has been executed;
 *  - every command is executed once, in order for each producer, whoever executes it;
 *  - no lost wake-up: the only end states are those where all threads have returned, everything is
 *    executed, every job is done, the baton is free and the offload thread sleeps.
 *
 * Macros BROKEN_* switch on variants that must be found wrong; CMakeLists.txt lists them.
 */
#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef COMMANDS
#define COMMANDS 1
#endif
#ifndef WAITERS
#define WAITERS 1
#endif
#ifndef CELLS
#define CELLS 2 /* the size of the ring, a power of two */
#endif
#ifndef BATCH
#define BATCH 1
#endif
#ifdef THREAD_ONLY /* TUGBOAT_PROGRESS=thread: requesters never take the baton */
#define MAY_DRIVE false
#else
#define MAY_DRIVE true
#endif

#define HELD 1
#define OFFER 2
#define SLEEP 4
#define ONE 8
#define TAIL(word) ((word) >> 3)
#define FREE(word) (!((word) & HELD))
#define FOR_GRABS(word) (FREE(word) || ((word) & OFFER))

#define THREADS (PRODUCERS + WAITERS + 1)
#define OFFLOAD (PRODUCERS + WAITERS)
#define BELL_WAITERS 0
#define BELL_NAP 1
#define BELL_OFFLOAD 2

#define JOB_NONE 0
#define JOB_OUT 1
#define JOB_DONE 2

byte state; /* tail and flags */
byte head;
byte seq[CELLS];
byte owner[CELLS]; /* the command's bytes: whose, and which of his */
byte number[CELLS];
bit bell[3];          /* S; the count is not kept: a key is good until the next ring */
byte key[THREADS];    /* 0, or 1 + the bell whose word still is what prepare() returned */
byte asleep[THREADS]; /* 0, or 1 + the bell on which the thread is in the kernel */
byte job[WAITERS + 1];
bit ready[WAITERS + 1]; /* the job can move */
byte outstanding;
bit wish;               /* of the offload thread, to be rung for what it would look after */
bit asked;              /* it sleeps until the baton is put down */

/* ghosts */
bit driving;
byte executed[PRODUCERS + WAITERS];
byte returned; /* producers */

#define LOCALS                                                                                         \
    byte st, i, left, cell;                                                                       \
    bool owes, got, more, relied_on

#define NOW_DRIVING assert(!driving); driving = 1
#define COMMITTED (seq[head % CELLS] == head + 1)

inline prepare(b)
{
    atomic { bell[b] = 1; key[me] = b + 1 }
}

/* Goes to sleep; the caller then waits for asleep[me] to end. */
inline futex_wait(b)
{
    atomic {
        if
        :: key[me] == b + 1 -> asleep[me] = b + 1
        :: else
        fi;
        key[me] = 0
    }
}

inline ring(b)
{
    if
    :: d_step {
            bell[b] ->
            bell[b] = 0;
            do
            :: i < THREADS ->
                if
                :: key[i] == b + 1 -> key[i] = 0
                :: else
                fi;
                i++
            :: else -> break
            od;
            i = 0
        };
        d_step { /* FUTEX_WAKE, everybody */
            do
            :: i < THREADS ->
                if
                :: asleep[i] == b + 1 -> asleep[i] = 0
                :: else
                fi;
                i++
            :: else -> break
            od;
            i = 0
        }
    :: else
    fi
}

/* ---- baton.h ---- */

inline baton_take() /* got */
{
#ifdef BROKEN_TAKE
    /* a load and a store instead of a compare-exchange */
    atomic { got = FOR_GRABS(state) };
    if
    :: got -> atomic { state = (state | HELD) & (255 - OFFER); NOW_DRIVING }
    :: else
    fi
#else
    atomic {
        if
        :: FOR_GRABS(state) ->
            state = (state | HELD) & (255 - OFFER);
            NOW_DRIVING;
            got = true
        :: else -> got = false
        fi
    }
#endif
}

inline baton_leave() /* got */
{
    atomic {
        if
#ifdef BROKEN_LEAVE
        :: true -> /* does not look at the tail */
#else
        :: TAIL(state) == head ->
#endif
            state = TAIL(state) * ONE;
            driving = 0;
            got = true
#ifndef BROKEN_LEAVE
        :: else -> got = false
#endif
        fi
    }
}

inline baton_sleep() /* got */
{
    atomic {
        if
#ifndef BROKEN_SLEEP
        :: TAIL(state) != head -> got = false
#endif
        :: else -> state = state | SLEEP; got = true
        fi
    }
}

inline baton_rouse() /* got, owes: the holder sleeps */
{
    atomic {
        owes = false;
        if
        :: FOR_GRABS(state) -> got = false
        :: else ->
            owes = (state & SLEEP) != 0;
            state = state & (255 - SLEEP);
            got = true
        fi
    }
}

/* ---- the holder's steps: executor.c, completer.c ---- */

/* What a command does; those of the waiters launch their job. */
inline execute(who, which)
{
    assert(driving);
    assert(executed[who] == which);
    executed[who]++;
    if
    :: who >= PRODUCERS ->
        job[who - PRODUCERS] = JOB_OUT;
        outstanding++
    :: else
    fi
}

/* Executes up to `left` commands. */
inline executor_run()
{
    do
    :: atomic {
            left > 0 && COMMITTED ->
            cell = head % CELLS;
#ifdef BROKEN_CONSUME
            seq[cell] = head + CELLS /* gives the cell back before it is executed */
        };
        atomic { execute(owner[cell], number[cell]) };
#else
            execute(owner[cell], number[cell])
        };
        seq[cell] = head + CELLS;
#endif
#ifdef BROKEN_PUBLISH
        ring(BELL_WAITERS); /* looks for waiters before the result can be seen */
        head++;
        atomic { left--; cell = 0; more = true }
#else
        atomic { head++; left--; cell = 0; more = true }
#endif
    :: else -> break
    od
}

inline completer_run()
{
    cell = 0;
    do
    :: atomic {
            cell < WAITERS ->
            if
            :: job[cell] == JOB_OUT && ready[cell] -> outstanding--; st = true
            :: else
            fi
        };
        atomic {
            if
            :: st -> job[cell] = JOB_DONE; more = true; st = 0
            :: else
            fi;
            cell++
        }
    :: atomic { cell == WAITERS -> cell = 0; break }
    od
}

inline driver_round() /* more: something moved */
{
    atomic { more = false; left = BATCH };
    executor_run();
    left = 0;
    completer_run();
#ifndef BROKEN_PUBLISH
    if
    :: more -> ring(BELL_WAITERS)
    :: else
    fi
#endif
}

/* Sleeps until it is rung; blocks instead while a producer fills its cell, where the code spins. The
 * caller has just done a round, and comes back for another; so the round after the prepare is here. */
inline driver_sleep(condition)
{
    prepare(BELL_NAP);
#ifdef BROKEN_NAP
    more = false; /* no look at the jobs after the prepare */
#else
    driver_round();
#endif
    if
    :: more || condition
    :: else ->
        baton_sleep();
        if
        :: got ->
            futex_wait(BELL_NAP);
            asleep[me] == 0;
            state = state & (255 - SLEEP) /* tug_baton_awake() */
        :: else ->
            TAIL(state) == head || COMMITTED
        fi
    fi;
    atomic { key[me] = 0; more = false; got = false }
}

inline ring_driver()
{
    if
#ifndef BROKEN_OWES
    :: owes -> owes = false; ring(BELL_NAP)
#endif
    :: else -> owes = false
    fi
}

/* tug_engine_ring_offload() */
inline ring_offload()
{
    wish = 0;
    ring(BELL_OFFLOAD)
}

/* tug_engine_left() */
inline engine_left()
{
    if
#ifndef BROKEN_ASK
    :: asked -> asked = 0; ring_offload()
#endif
    :: else
    fi;
#ifndef BROKEN_LEFT
    ring(BELL_WAITERS)
#endif
}

/* ---- the requesters' side: engine.c ---- */

inline offer()
{
    atomic { state = state | OFFER; driving = 0 };
#ifndef BROKEN_OFFER
    ring_offload();
#endif
    engine_left()
}

inline engine_leave()
{
    left = BATCH;
    do
    :: baton_leave();
        if
        :: got ->
            engine_left();
            if
            :: outstanding > 0 && wish -> ring_offload()
            :: else
            fi;
            break
        :: else ->
            executor_run();
            if
            :: left == 0 -> offer(); break
            :: left > 0 && TAIL(state) != head && !COMMITTED -> offer(); break
            :: left > 0 && (TAIL(state) == head || COMMITTED)
            fi
        fi
    od;
    atomic { got = false; left = 0; more = false }
}

/* Enters until it has the baton or a cell, then executes or commits. */
inline submit(who, which)
{
    do
    :: st = state;
        if
        :: FREE(st) && MAY_DRIVE ->
            atomic {
                if
                :: state == st -> state = st | HELD; NOW_DRIVING; got = true; execute(who, which)
                :: else -> got = false
                fi;
                st = 0
            };
            if
            :: got -> engine_leave(); break
            :: else
            fi
        :: else ->
            cell = seq[TAIL(st) % CELLS];
            if
            :: cell == TAIL(st) ->
                atomic {
                    if
                    :: state == st ->
                        owes = (st & SLEEP) || FREE(st);
                        state = (FREE(st) -> st | HELD | OFFER : st & (255 - SLEEP)) + ONE;
                        got = true
                    :: else -> got = false
                    fi;
                    st = 0
                };
                if
                :: got ->
#ifdef BROKEN_COMMIT
                    seq[cell % CELLS] = cell + 1; /* before the cell is filled */
                    atomic { owner[cell % CELLS] = who; number[cell % CELLS] = which };
#else
                    atomic {
                        owner[cell % CELLS] = who;
                        number[cell % CELLS] = which;
                        seq[cell % CELLS] = cell + 1
                    };
#endif
                    atomic { cell = 0; got = false };
                    if
                    :: owes ->
                        ring_driver();
                        if
                        :: MAY_DRIVE
                        :: else -> ring_offload()
                        fi
                    :: else
                    fi;
                    break
                :: else
                fi
            :: cell > TAIL(st) && cell <= TAIL(st) + CELLS -> skip /* out of date: looks again */
            :: else -> /* full: helps, or comes again when something has changed */
                if
                :: MAY_DRIVE -> baton_take()
                :: else -> got = false
                fi;
                if
                :: got ->
                    atomic { st = 0; cell = 0 };
                    driver_round();
                    engine_leave()
                :: else ->
                    seq[TAIL(st) % CELLS] != cell || (MAY_DRIVE && FOR_GRABS(state))
                fi
            fi;
            atomic { st = 0; cell = 0 }
        fi
    od;
    atomic { got = false; st = 0 }
}

/* One bell stands for all parked threads; the list of their waits is in waiters.pml. */

inline pass_on()
{
    if
    :: relied_on && MAY_DRIVE && FOR_GRABS(state) -> engine_left()
    :: else
    fi;
    relied_on = false
}

/* tug_engine_wait(): drives if nobody does, else parks. */
inline wait_until(condition)
{
    do
    :: condition -> pass_on(); break
    :: else ->
        if
        :: MAY_DRIVE -> baton_take()
        :: else -> got = false
        fi;
        if
        :: got ->
            got = false;
            ring(BELL_WAITERS); /* tug_engine_tell() */
            do
            :: condition -> more = false; relied_on = false; engine_leave(); break
            :: else ->
                driver_round();
                if
                :: more
                :: !more -> driver_sleep(condition)
                fi
            od
        :: else ->
            prepare(BELL_WAITERS);
            baton_rouse();
            if
            :: got ->
                got = false;
                ring_driver();
                if
#ifndef BROKEN_LOOK
                :: condition
#endif
                :: else ->
                    futex_wait(BELL_WAITERS);
                    asleep[me] == 0
                fi
            :: else ->
                if
                :: MAY_DRIVE
                :: else ->
                    ring_offload();
                    (condition) || !FOR_GRABS(state) /* goes on spinning */
                fi
            fi;
            atomic { key[me] = 0; relied_on = true }
        fi
    od
}

proctype producer(byte me)
{
    LOCALS;
    byte n;
    do
    :: n < COMMANDS -> submit(me, n); n++
    :: else -> break
    od;
    n = TAIL(state);
    wait_until(head >= n);
    assert(executed[me] == COMMANDS);
    returned++
}

proctype waiter(byte me)
{
    LOCALS;
    submit(me, 0);
#ifdef FLAG /* the job's end sets a flag, and the thread looks at nothing else */
    job[me - PRODUCERS] == JOB_DONE
#else
    wait_until(job[me - PRODUCERS] == JOB_DONE)
#endif
}

proctype remote(byte which)
{
    byte i;
#ifdef LATE
    returned == PRODUCERS; /* whoever was not woken before is not woken by this by accident */
#endif
    ready[which] = 1;
    ring(BELL_NAP)
}

/* ---- offload.c ---- */

proctype offload(byte me)
{
    LOCALS;
    do
    :: if
        :: (state & OFFER) || outstanding > 0 -> baton_take()
        :: else -> got = false
        fi;
        if
        :: got ->
            do
            :: driver_round();
                baton_leave();
                if
                :: got -> engine_left(); break
                :: else -> COMMITTED
                fi
            od;
            atomic { more = false; got = false }
        :: else
        fi;
        prepare(BELL_OFFLOAD);
        if
        :: state & OFFER -> key[me] = 0
        :: else ->
            if
#ifdef FLAG
            :: !FOR_GRABS(state) -> /* take_or_ask() */
                asked = 1;
                wish = 0;
                baton_rouse();
                if
                :: got ->
                    got = false;
                    ring_driver();
                    futex_wait(BELL_OFFLOAD);
end_asked:
                    asleep[me] == 0 /* no timer is needed for what that one leaves */
                :: else -> key[me] = 0 /* it is free: looks again */
                fi
#endif
            :: wish = 0;
                futex_wait(BELL_OFFLOAD); /* with the timer */
end_timed:
                asleep[me] == 0 || (outstanding > 0 && FREE(state));
                asleep[me] = 0
            :: wish = 1; /* tug_gather_want(), and it stays until somebody rings */
                if
                :: outstanding > 0 || (state & OFFER) -> key[me] = 0
                :: else ->
                    futex_wait(BELL_OFFLOAD);
end_deep:
                    asleep[me] == 0
                fi
            fi
        fi
    od
}

init
{
    byte n;
    d_step {
        do
        :: n < CELLS -> seq[n] = n; n++
        :: else -> break
        od;
        n = 0
    };
    atomic {
        do
        :: n < PRODUCERS -> run producer(n); n++
        :: n >= PRODUCERS && n < PRODUCERS + WAITERS ->
            run waiter(n);
            run remote(n - PRODUCERS);
            n++
        :: else -> break
        od;
        run offload(OFFLOAD);
        n = 0
    };
    /* nobody can move, or all sleep for good: is everything done? */
    timeout;
    assert(state == head * ONE && !driving);
    do
    :: n < WAITERS -> assert(job[n] == JOB_DONE); n++
    :: else -> break
    od
}
