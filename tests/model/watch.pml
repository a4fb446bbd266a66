/* How the offload thread watches (src/engine/offload.c): while nobody drives it sleeps on the bell that
 * peers ring, and is woken by this process's own threads wherever it sleeps.
 *
 * PEERS processes put news into the inbox and ring its bell (SERVICE). LOCALS threads of this process
 * put work out and ring whatever bell the thread has said it sleeps on. A caller takes the baton for a
 * while: then the thread sleeps on its OWN bell, with a timer. At the end the SERVICES that have the one
 * bell are taken out and its memory goes: nobody of this process may touch the bell after that.
 *
 * TELLS: a local thread leaves an operation behind, OUT until a peer's answer has come, which is news. If the
 * thread wishes to be rung it sleeps where that answer rings: it is told, and need not be rung
 * (tug_engine_is_told). For a job, of which nothing tells, it is rung.
 *
 * Property: no state without a successor in which news or work are left (spin's invalid end states), and
 * the assertions on `gone`. Broken variants, to be found wrong: CHOOSE_LATE, NO_ROUND, NO_LOOK,
 * NO_BATON, FORGET_AT_ONCE, NO_RING, FORGET_SHARED (the bell of a service that goes, while another has
 * it), WISH_FIRST (a local thread looks at the wish, and then puts its work out), with TELLS: JOB (a job counts
 * as told).
 */
#ifndef PEERS
#define PEERS 2
#endif
#ifndef LOCALS
#define LOCALS 1
#endif

#ifndef SERVICES
#define SERVICES 1
#endif

#define SLEEPER 1
#define STEP 2
#define OWN 0
#define SERVICE 1
#define NOWHERE 2

byte word[2];
byte asleep = NOWHERE; /* the bell on which the thread is in the kernel */
byte asleep_on = OWN;  /* tug_sleeper */
byte ringing;
bit baton;
bit wish;              /* of the thread, to be rung for what it would look after */
byte services = SERVICES;
bit gone;
byte news, work; /* not yet looked after */
bit asked, out;  /* an operation has gone to the peers; it is not answered */
byte peers_done, locals_done;

/* tug_bell_ring(): by a peer it always finds memory, its own mapping */
inline ring(bell, ours)
{
    assert(!(ours && bell == SERVICE && gone));
    seen = word[bell];
    do
    :: seen & SLEEPER ->
        atomic {
            if
            :: word[bell] == seen -> word[bell] = (seen & ~SLEEPER) + STEP; ok = true
            :: else -> seen = word[bell]; ok = false
            fi
        }
        if
        :: ok ->
            atomic {
                if
                :: asleep == bell -> asleep = NOWHERE
                :: else
                fi
            }
            break
        :: else
        fi
    :: else -> break
    od
}

/* tug_sleeper_ring() */
inline ring_thread()
{
    ringing++;
    where = asleep_on;
    ring(where, true);
    ringing--
}

inline prepare(which)
{
    assert(!(which == SERVICE && gone));
    atomic { word[which] = word[which] | SLEEPER; key = word[which] }
}

active proctype thread()
{
    byte key, bell;
    bit moved, timed;
again:
    bell = OWN;
    moved = 0;
    timed = 0;
    asleep_on = OWN;
    prepare(OWN);
    if
    :: services > 0 ->
        if
#ifdef NO_BATON
        :: true ->
#else
        :: atomic { !baton -> baton = 1 } ->
#endif
            if
            :: services > 0 ->
                bell = SERVICE;
#ifdef CHOOSE_LATE
                prepare(SERVICE);
#else
                asleep_on = SERVICE;
                prepare(SERVICE);
#endif
            :: else
            fi;
#ifndef NO_ROUND
            atomic {
                if
                :: news > 0 -> news = 0; out = 0; moved = 1
                :: else
                fi
            };
#endif
#ifndef NO_BATON
            baton = 0
#endif
        :: baton -> timed = 1
        fi
    :: else
    fi;
    if
    :: moved -> goto again
    :: else
    fi;
    wish = 1;
#ifndef NO_LOOK
    if
    :: work > 0 -> work = 0; goto again
    :: out -> goto again /* it drives */
    :: else
    fi;
#endif
#ifdef CHOOSE_LATE
    asleep_on = bell;
#endif
    atomic { /* FUTEX_WAIT; memory that is gone is an error code */
        if
        :: !(bell == SERVICE && gone) && word[bell] == key -> asleep = bell
        :: else
        fi
    };
end_idle: /* with nothing left to do it may sleep for ever */
    if
    :: asleep == NOWHERE
    :: timed -> asleep = NOWHERE
    fi;
    work = 0;
    goto again
}

proctype peer()
{
    byte seen;
    bool ok;
#if defined(TELLS) && !defined(JOB)
    asked;
#endif
    news++;
    ring(SERVICE, false);
    peers_done++
}

proctype worker()
{
    byte seen, where;
    bool ok;
    bit wished, told;
#ifdef WISH_FIRST
    wished = wish;
#endif
#ifdef TELLS
    atomic { !baton -> baton = 1 };
#ifdef JOB
    work++;
#else
    out = 1;
    asked = 1;
#endif
    told = wish && news == 0; /* its poll after it has armed */
    baton = 0;
#else
    work++;
#endif
#ifndef WISH_FIRST
    wished = wish;
#endif
    if
    :: wished && !told -> wish = 0; ring_thread()
    :: else -> skip /* it looks before it sleeps */
    fi;
    locals_done++
}

/* A thread that drives for a while; what comes meanwhile it looks after. */
active proctype caller()
{
    if
    :: atomic { !baton -> baton = 1 } ->
        atomic { news = 0; out = 0 };
        baton = 0
    :: skip
    fi
}

/* tug_engine_unserve(), when the peers have ended */
active proctype ender()
{
    byte seen, where;
    bool ok, last;
    atomic { peers_done == PEERS && news == 0 };
    do
    :: services == 0 -> break
    :: else ->
        atomic { !baton -> baton = 1 };
        services--;
        last = (services == 0);
        baton = 0;
#ifndef NO_RING
        ring_thread();
#endif
#ifdef FORGET_SHARED
        last = true;
#endif
        atomic {
            if
            :: last && asleep_on == SERVICE -> asleep_on = OWN
            :: else
            fi
        }
    od;
#ifndef FORGET_AT_ONCE
    ringing == 0;
#endif
    gone = 1;
    atomic { locals_done == LOCALS && work == 0 };
    /* the thread must not sleep for ever where nobody can wake it any more */
    assert(asleep != SERVICE)
}

init
{
    byte n;
    atomic {
        n = 0;
        do
        :: n < PEERS -> run peer(); n++
        :: else -> break
        od;
        n = 0;
        do
        :: n < LOCALS -> run worker(); n++
        :: else -> break
        od
    }
}
