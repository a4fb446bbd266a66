/* The lock of all locks of a set (src/node/locks.c): those who want all, at once or one by one, and
 * those who want one exclusively.
 *
 * ALLERS threads lock all locks and WRITERS lock any one exclusively, TURNS times each. The locks of the
 * set are as they promise to be (rwlock.pml): taken in one step when they are free. Every access to the
 * word and every futex call of the code is one step; the bell is that of bell.pml.
 *
 * Properties:
 *  - who has one lock exclusively has it alone;
 *  - no lost wake-up: the only end state is that in which all have returned.
 *
 * Macros BROKEN_* switch on variants that must be found wrong; CMakeLists.txt lists them.
 */
#ifndef ALLERS
#define ALLERS 2
#endif
#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef TURNS
#define TURNS 2
#endif

#define LOCKS 2
#define THREADS (ALLERS + WRITERS)

#define CLOSED 1
#define HOLDER 2
#define SLEEPER 1
#define STEP 2

byte word;           /* of the lock of all */
byte bell;
bit asleep[THREADS]; /* in the kernel */
byte shared_by[LOCKS];
bit exclusive[LOCKS];

/* Ghosts. */
byte all_in;
bit in[LOCKS];

/* tug_bell_ring() */
inline ring()
{
    atomic {
        sleepers = bell & SLEEPER;
        if
        :: sleepers -> bell = (bell & ~SLEEPER) + STEP
        :: else
        fi
    };
    if
    :: sleepers ->
        d_step { /* FUTEX_WAKE */
            i = 0;
            do
            :: i < THREADS -> asleep[i] = 0; i++
            :: else -> break
            od;
            i = 0;
            sleepers = false
        }
    :: else
    fi
}

/* What who has all locks may count on, from now until it lets go. */
inline enter_all()
{
    all_in++;
    assert(!in[0] && !in[1])
}

proctype aller(byte me)
{
    byte i, turn, old;
    bool sleepers, at_once;
    do
    :: turn < TURNS ->
        atomic { /* tug_all_lock_try(): the compare-exchange that succeeds */
            at_once = !(word & CLOSED);
            if
            :: at_once -> word = word + HOLDER; enter_all()
            :: else
            fi
        };
        if
        :: at_once -> skip
        :: else ->
#ifdef BROKEN_EARLY
            word = word & ~CLOSED;
#endif
            atomic { !exclusive[0] -> shared_by[0]++ };
            atomic { !exclusive[1] -> shared_by[1]++; enter_all() };
#ifndef BROKEN_EARLY
            word = word & ~CLOSED
#endif
        fi;
        if
        :: at_once ->
            atomic { all_in--; old = word; word = word - HOLDER };
            if
#ifdef BROKEN_RING
            :: false -> skip
#else
            :: old == (HOLDER | CLOSED) -> ring()
#endif
            :: else
            fi
        :: else ->
            atomic { all_in--; shared_by[0]-- };
            shared_by[1]--
        fi;
        at_once = false;
        old = 0;
        turn++
    :: else -> break
    od
}

#define LEFT (word == CLOSED)

proctype writer(byte me)
{
    byte which, key, i, turn;
    do
    :: turn < TURNS ->
        if
        :: which = 0
        :: which = 1
        fi;
        atomic { !exclusive[which] && shared_by[which] == 0 -> exclusive[which] = 1 };
        /* tug_all_lock_close() */
        if
#ifdef BROKEN_CLOSED
        :: word & CLOSED -> goto left
#else
        :: LEFT -> goto left
#endif
        :: else
        fi;
        word = word | CLOSED;
        do
#ifdef BROKEN_WAIT
        :: break
#endif
        :: LEFT -> break
        :: else ->
            atomic { bell = bell | SLEEPER; key = bell }; /* tug_bell_prepare() */
#ifndef BROKEN_LOOK
            if
            :: LEFT -> break
            :: else
            fi;
#endif
            atomic { /* FUTEX_WAIT: compare and sleep */
                if
                :: bell == key -> asleep[me] = 1
                :: else
                fi
            };
            !asleep[me]
        od;
left:
        atomic { key = 0; in[which] = 1; assert(all_in == 0) };
        atomic { in[which] = 0; exclusive[which] = 0 };
        which = 0;
        turn++
    :: else -> break
    od
}

init
{
    byte n;
    atomic {
        do
        :: n < ALLERS -> run aller(n); n++
        :: n >= ALLERS && n < THREADS -> run writer(n); n++
        :: else -> break
        od
    };
    _nr_pr == 1;
    assert(all_in == 0 && word <= CLOSED)
}
