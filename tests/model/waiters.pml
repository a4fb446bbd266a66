/* Waiters (src/engine/waiters.h): who of the parked is woken, while the baton goes from hand to hand.
 *
 * WAITERS threads wait, each TURNS times, for something that a remote makes ready and that whoever holds
 * the baton then makes true: a driver in a round, after which it wakes those it is true for, or a POSTER
 * who takes the baton for an operation of its own, polls, and puts it down. A driver that finds nothing
 * sleeps until something is ready. Reads and writes of shared memory are steps; a sleep may end for no
 * reason. Each waiter has a slot of its own. SINGLY: more wait than there
 * are cores, so that one is woken at a time, and a driver that has moved something may put it off.
 *
 * Properties:
 *  - no lost wake-up: the only end state is that where all have returned;
 *  - nobody reads the condition of a thread that has returned;
 *  - the count of those who are coming ends at zero.
 *
 * LATE: nothing becomes ready for the others before the first has returned, so that no wake meant for
 * them hides that its own was lost. Broken variants, to be found wrong: NO_LOOK, NO_PASS_ON,
 * NO_TAKE_OVER, NO_HEIR, RISE_AT_ONCE, WAKE_FIRST, FORGET (what was put off).
 */
#ifndef WAITERS
#define WAITERS 2
#endif
#ifndef POSTERS
#define POSTERS 1
#endif
#ifndef TURNS
#define TURNS 1
#endif

#define HELD 1
#define WAIT 2
#define THREADS (WAITERS + POSTERS)
#define BIT(n) (1 << (n))
#define ANY_READY (ready != 0)

byte state;           /* HELD, WAIT */
byte ready;           /* bits: the holder can make it true */
byte done;            /* bits: it is */
byte parked;          /* bits */
byte coming;
byte looking;
bit bell[WAITERS];    /* S */
bit asleep[WAITERS];  /* in the kernel */
bit woken[WAITERS];   /* the bell was rung since the prepare */
byte waits;           /* bits: in a wait, its condition may be read */
byte returned;
bit first_back;
bit untold;           /* some may be left asleep; the holder's */
bit driving;          /* ghost */

#define LOCALS byte i, who, mine, n; bool got, owes, more, singly, rest

/* look(): who = the bits of those who have what they wait for */
inline look()
{
    looking++;
    mine = parked;
    atomic { assert((mine & waits) == mine); who = done & mine; mine = 0 };
    looking--
}

inline count_bits(bits)
{
    n = ((bits) & 1) + (((bits) >> 1) & 1) + (((bits) >> 2) & 1)
}

/* ring(): wakes the slots in who; mine = those it was the first for. A bell is one step here, bell.pml
 * has them all. */
inline ring()
{
    atomic { count_bits(who); coming = coming + n };
    atomic {
        mine = parked & who;
        parked = parked & (255 - who);
        count_bits(who & (255 - mine));
        who = 0
    };
    atomic { coming = coming - n; n = 0 };
    d_step {
        i = 0;
        do
        :: i < WAITERS ->
            if
            :: (mine & BIT(i)) && bell[i] -> bell[i] = 0; woken[i] = 1; asleep[i] = 0
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0
    }
}

/* rest: others may be left asleep */
inline wake()
{
    rest = false;
    if
    :: parked != 0 ->
        if
        :: singly && coming != 0 -> rest = true
        :: else ->
            look();
            if
            :: singly && (who & (who - 1)) != 0 ->
                rest = true;
                if
                :: who = who & (255 - (who - 1))
                :: who = who & (who - 1)
                fi
            :: else
            fi;
            if
            :: who != 0 -> ring(); mine = 0
            :: else
            fi
        fi
    :: else
    fi;
    singly = false
}

inline choose()
{
#ifdef SINGLY
    singly = true
#else
    skip
#endif
}

/* tug_waiters_call() */
inline call()
{
    choose();
    wake();
    rest = false;
#ifndef NO_HEIR
    do
    :: atomic { parked != 0 -> who = parked & (255 - (parked - 1)) };
        who = who & (255 - (who - 1));
        if
        :: coming == 0 ->
            ring();
            if
            :: mine != 0 -> mine = 0; break
            :: else
            fi
        :: else -> who = 0; break
        fi
    :: parked == 0 -> break
    od
#endif
}

inline take() /* got */
{
    atomic {
        if
        :: !(state & HELD) -> state = state | HELD; assert(!driving); driving = 1; got = true
        :: else -> got = false
        fi
    }
}

inline leave()
{
    atomic { owes = (state & WAIT) != 0; state = 0; driving = 0 };
    if
    :: owes -> owes = false; call()
    :: else
    fi
}

/* What is ready comes true. more: something did. */
inline poll()
{
    atomic { more = (ready != 0); done = done | ready; ready = 0 }
}

inline await() /* got: somebody has it, and will see us */
{
    atomic {
        if
        :: state & HELD -> state = state | WAIT; got = true
        :: else -> got = false
        fi
    }
}

inline drive()
{
    do
    :: done & BIT(me) -> leave(); through = true; break
    :: else ->
#ifdef WAKE_FIRST
        if
        :: ready != 0 -> wake(); poll()
        :: else -> more = false
        fi;
#else
        poll();
        untold = untold || more;
        if
        :: untold -> choose(); wake(); untold = rest; rest = false
#ifdef SINGLY
        :: more /* put off */
#endif
        :: else
        fi;
#endif
        if
        :: more -> more = false
        :: else ->
            if
            :: !untold && ((done & BIT(me)) || ANY_READY) /* asleep on the bell */
            :: untold ->
#ifdef FORGET
                untold = false
#else
                wake(); untold = rest; rest = false
#endif
            fi
        fi
    od
}

inline park()
{
    atomic { bell[me] = 1; woken[me] = 0 };
    parked = parked | BIT(me);
    await();
    if
    :: got ->
        got = false;
        if
#ifndef NO_LOOK
        :: done & BIT(me)
        :: !(done & BIT(me)) ->
#else
        :: true ->
#endif
            if
            :: atomic {
                    if
                    :: !woken[me] -> asleep[me] = 1
                    :: else
                    fi
                };
                !asleep[me]
            :: skip /* a spurious wake */
            fi
        fi
    :: else
    fi;
    /* tug_waiters_rise() */
    atomic { owes = !(parked & BIT(me)); parked = parked & (255 - BIT(me)) };
#ifndef RISE_AT_ONCE
    looking == 0;
#endif
    if
    :: owes -> coming--
    :: else
    fi;
    owes = false;
    relied_on = true
}

proctype waiter(byte me)
{
    LOCALS;
    byte turn;
    bool relied_on, through;
    do
    :: turn < TURNS ->
        atomic { done = done & (255 - BIT(me)); waits = waits | BIT(me) };
        run remote(me);
        do
        :: done & BIT(me) -> break
        :: else ->
            take();
            if
            :: got ->
                got = false;
#ifndef NO_TAKE_OVER
                if
                :: !(state & WAIT) && parked != 0 ->
                    state = state | WAIT;
                    choose();
                    wake();
                    untold = rest;
                    rest = false
                :: else
                fi;
#endif
                drive();
                if
                :: through -> break
                :: else
                fi
            :: else -> park()
            fi
        od;
#ifndef NO_PASS_ON
        if
        :: !through && relied_on && parked != 0 ->
            await();
            if
            :: got -> got = false
            :: else -> call()
            fi
        :: else
        fi;
#endif
        atomic {
            waits = waits & (255 - BIT(me));
            through = false;
            relied_on = false;
            turn++
        }
    :: else -> break
    od;
    atomic { returned++; first_back = first_back || me == 0 }
}

proctype remote(byte which)
{
#ifdef LATE
    which == 0 || first_back;
#endif
#ifdef LAST
    which < WAITERS - 1 || returned == WAITERS - 1; /* what the last waits for comes from the others */
#endif
    ready = ready | BIT(which)
}

proctype poster()
{
    LOCALS;
    take();
    if
    :: got -> atomic { got = false; poll(); more = false }; leave()
    :: else
    fi;
    returned++
}

init
{
    byte n;
    atomic {
        do
        :: n < WAITERS -> run waiter(n); n++
        :: n >= WAITERS && n < THREADS -> run poster(); n++
        :: else -> break
        od
    };
    timeout;
    assert(returned == THREADS && coming == 0 && parked == 0)
}
