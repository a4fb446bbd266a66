/* Waits (src/engine/waiters.h): which of the list are woken, while the baton goes from hand to hand.
 *
 * PARKED threads and FIBRES (user-level threads) wait, each TURNS times, for something that a remote makes
 * ready and that whoever holds the baton then makes true: a driver in a round, after which it looks, or a
 * poster that takes the baton for an operation of its own, polls, and puts it down. A driver that finds
 * nothing sleeps until something is ready. The offload thread polls for fibres. Reads and writes of shared
 * memory are steps; a sleep may end for no reason. The list is a set here: its order is not modelled.
 * SINGLY: more wait than there are cores, so that one is woken at a time, and a driver that has moved
 * something may put it off.
 *
 * Properties:
 *  - no lost wake-up: the only end state is that where all have returned;
 *  - one thread has the list at a time;
 *  - no thread touches a wait that is over: its memory is a stack;
 *  - a wait is woken once;
 *  - the counts end at zero.
 *
 * LEAVES: a thread that leaves the list while another has it asks to be taken out. Without, it waits, which
 * makes for fewer states. LATE: nothing becomes ready for the others before the first has returned, so that no wake meant for
 * them hides that its own was lost. Broken variants, to be found wrong: NO_LOOK (a thread does not look
 * again after the push), COUNT_LATE (it is counted after that look), NO_PASS_ON, NO_TELL, NO_HEIR,
 * LEAVE_AT_ONCE (a thread leaves the list without having it), LEAVE_SILENTLY (it asks for no look), NO_AGAIN (the thread that looks does not go
 * round again), READ_LATE (it takes the looks that were asked for after its round), WAKE_FIRST (it looks
 * before it makes things true), STEP_LATE (it reads a wait that it has woken), FORGET (what was put off).
 */
#ifndef PARKED
#define PARKED 2
#endif
#ifndef FIBRES
#define FIBRES 0
#endif
#ifndef POSTERS
#define POSTERS 1
#endif
#ifndef TURNS
#define TURNS 1
#endif

#define WAITS (PARKED + FIBRES)
#define THREADS (WAITS + POSTERS)
#define BIT(n) (1 << (n))

/* bits of `turn`, as in the code */
#define SUSPENDED 1
#define ONE 2
#define ALL 4
#define HEIR 8
#define LEAVING 16
#define BUSY 32
#ifdef SINGLY
#define HOW ONE
#else
#define HOW ALL
#endif

bit held;             /* the baton */
byte ready;           /* bits: the holder can make it true */
byte done;            /* bits: it is */
byte out;             /* parked */
byte suspended;
byte coming;
byte counted;         /* bits: as coming, when it was woken */
byte leaving;         /* bits */
byte turn;
byte pushed;          /* bits */
byte list;            /* bits; of the thread that has set BUSY */
bit rung[WAITS];      /* the bell since the prepare; a fibre's wake */
byte stands;          /* ghost, bits: the wait's memory is there */
bit within;           /* ghost: a thread has the list */
byte returned;
bit first_back;
bit untold;           /* some may be left asleep; the holder's */

#define LOCALS byte i, how; bool got, more, rest, held_back

inline touch(n)
{
    assert(stands & BIT(n))
}

inline take_in()
{
    atomic { list = list | pushed; pushed = 0; assert((list & stands) == list) }
}

inline wake(n)
{
    atomic { touch(n); list = list & (255 - BIT(n)) };
    if
    :: n < PARKED -> out--
    :: else -> suspended--
    fi;
    atomic { touch(n); assert(!rung[n]); rung[n] = 1 };
#ifdef STEP_LATE
    touch(n)
#endif
}

inline call(n)
{
    atomic { touch(n); counted = counted | BIT(n); coming++ };
    wake(n)
}

/* rest: others may be left asleep */
inline look_round()
{
    rest = false;
    take_in();
    i = 0;
    do
    :: i < WAITS && !(list & BIT(i)) -> i++
    :: i < PARKED && (list & BIT(i)) ->
        if
        :: (how & LEAVING) && (leaving & BIT(i)) -> wake(i)
        :: else ->
            held_back = (how & ONE) && !(how & ALL) && coming > 0;
            rest = rest || held_back;
            if
            :: (how & (ONE | ALL)) && !held_back && (done & BIT(i)) -> call(i)
            :: else
            fi
        fi;
        atomic { held_back = false; i++ }
    :: i >= PARKED && i < WAITS && (list & BIT(i)) ->
        if
        :: (how & SUSPENDED) && (done & BIT(i)) -> wake(i)
        :: else
        fi;
        i++
    :: i == WAITS -> break
    od;
#ifndef NO_HEIR
    if
    :: (how & HEIR) && coming == 0 && (list & (BIT(PARKED) - 1)) ->
        i = 0;
        do
        :: list & BIT(i) -> call(i); break
        :: else -> i++
        od
    :: else
    fi;
#endif
    i = 0
}

/* look_on(); the caller has set BUSY */
inline look_on()
{
    atomic { assert(!within); within = 1 };
    rest = false;
    do
    :: atomic { how = turn & (255 - BUSY); turn = BUSY };
        if
        :: how != 0 -> look_round()
        :: else
        fi;
#ifdef READ_LATE
        turn = BUSY;
#endif
        atomic {
            how = 0;
            if
#ifdef NO_AGAIN
            :: true -> turn = 0; within = 0; break
#else
            :: turn == BUSY -> turn = 0; within = 0; break
            :: else
#endif
            fi
        }
    od
}

/* tug_waiters_look() */
inline look(wanted)
{
    atomic { got = (turn & BUSY) == 0; turn = turn | BUSY | (wanted) };
    if
    :: got -> got = false; look_on()
    :: else -> rest = true
    fi
}

/* Something has moved. */
inline stir()
{
    if
    :: suspended > 0 -> look(SUSPENDED); rest = false
    :: else
    fi
}

inline look_if_any(wanted)
{
    if
    :: out > 0 -> look(wanted)
    :: else -> rest = false
    fi
}

inline take() /* got */
{
    atomic { got = !held; held = 1 }
}

inline leave()
{
    held = 0;
    look_if_any(HOW | HEIR);
    rest = false
}

/* What is ready comes true. more: something did. */
inline poll()
{
    atomic { more = (ready != 0); done = done | ready; ready = 0 }
}

inline tell()
{
    look_if_any(HOW);
    atomic { untold = rest; rest = false }
}

inline drive()
{
    do
    :: done & BIT(me) -> leave(); through = true; break
    :: else ->
#ifdef WAKE_FIRST
        if
        :: ready != 0 -> look_if_any(HOW); poll()
        :: else -> more = false
        fi;
#else
        poll();
        if
        :: more -> stir()
        :: else
        fi;
        untold = untold || more;
        if
        :: untold -> tell()
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
            :: !untold && ((done & BIT(me)) || ready != 0) /* asleep on the bell */
            :: untold ->
#ifdef FORGET
                untold = false
#else
                look_if_any(ALL);
                atomic { untold = rest; rest = false }
#endif
            fi
        fi
    od
}

inline count()
{
    if
    :: me < PARKED -> out++
    :: else -> suspended++
    fi
}

inline push()
{
#ifndef COUNT_LATE
    count();
#endif
    atomic { pushed = pushed | BIT(me) }
}

/* tug_waiters_unpark() */
inline unpark()
{
    if
    :: rung[me]
#ifdef LEAVE_AT_ONCE
    :: !rung[me] -> atomic { pushed = pushed & (255 - BIT(me)); list = list & (255 - BIT(me)) }; out--
#else
    :: !rung[me] ->
        atomic {
#ifndef LEAVES
            turn == 0 || rung[me];
#endif
            got = (turn == 0);
            if
            :: got -> turn = BUSY
            :: else
            fi
        };
        if
        :: got ->
            got = false;
            if
            :: !rung[me] ->
                take_in();
                atomic { assert(list & BIT(me)); list = list & (255 - BIT(me)) };
                out--
            :: else
            fi;
            look_on()
        :: else ->
#ifdef LEAVES
            atomic { leaving = leaving | BIT(me) };
#ifndef LEAVE_SILENTLY
            look(LEAVING);
#endif
            rung[me]
#else
            skip
#endif
        fi;
        rest = false
#endif
    fi;
    if
    :: atomic { counted & BIT(me) -> coming--; counted = counted & (255 - BIT(me)) }
    :: else
    fi;
    atomic { leaving = leaving & (255 - BIT(me)); rung[me] = 0 }
}

inline park()
{
    stands = stands | BIT(me);
    push();
    if
    :: held ->
        if
#ifndef NO_LOOK
        :: done & BIT(me)
        :: !(done & BIT(me)) ->
#else
        :: true ->
#endif
#ifdef COUNT_LATE
            count();
#endif
            if
            :: skip -> rung[me]
            :: skip /* a spurious wake */
            fi
        fi
    :: else
    fi;
    unpark();
    atomic { stands = stands & (255 - BIT(me)); relied_on = true }
}

proctype thread(byte me)
{
    LOCALS;
    byte n;
    bool relied_on, through;
    do
    :: n < TURNS ->
        atomic { done = done & (255 - BIT(me)); run remote(me) };
        do
        :: done & BIT(me) -> break
        :: else ->
            take();
            if
            :: got ->
                got = false;
#ifndef NO_TELL
                tell();
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
        :: !through && relied_on && !held -> look_if_any(HOW | HEIR); rest = false
        :: else
        fi;
#endif
        atomic { through = false; relied_on = false; n++ }
    :: else -> break
    od;
    atomic { returned++; first_back = first_back || me == 0 }
}

proctype fibre(byte me)
{
    LOCALS;
    byte n;
    do
    :: n < TURNS ->
        atomic { done = done & (255 - BIT(me)); run remote(me) };
        do
        :: done & BIT(me) -> break
        :: else ->
            atomic { rung[me] = 0; stands = stands | BIT(me) };
            push();
#ifndef NO_LOOK
            if
            :: done & BIT(me) -> look(SUSPENDED); rest = false
            :: else
            fi;
#endif
#ifdef COUNT_LATE
            count();
#endif
            atomic { rung[me] -> stands = stands & (255 - BIT(me)) }
        od;
        n++
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
    which < WAITS - 1 || returned == WAITS - 1; /* what the last waits for comes from the others */
#endif
    ready = ready | BIT(which)
}

proctype poster()
{
    LOCALS;
    take();
    if
    :: got -> atomic { got = false; poll(); more = false }; stir(); leave()
    :: else
    fi;
    returned++
}

/* Polls what no thread waits for. */
proctype offload()
{
    LOCALS;
end_idle:
    do
    :: atomic { (ready & (BIT(WAITS) - BIT(PARKED))) && !held -> held = 1; poll(); more = false };
        stir();
        leave()
    od
}

init
{
    byte n;
    atomic {
        do
        :: n < PARKED -> run thread(n); n++
        :: n >= PARKED && n < WAITS -> run fibre(n); n++
        :: n >= WAITS && n < THREADS -> run poster(); n++
        :: else -> break
        od;
        if
        :: FIBRES > 0 -> run offload()
        :: else
        fi
    };
    timeout;
    assert(returned == THREADS && coming == 0 && out == 0 && suspended == 0 && turn == 0 && !list && !pushed)
}
