/* The event count of src/engine/park.h: no lost wake-up.
 *
 * WAITERS threads wait until `cond` counts up to their target, RINGERS make it so, each in its own step,
 * exactly as the code does: a load, a compare-exchange, a system call are one step each, any other
 * thread may run between two of them. The futex is modelled as the kernel has it: comparing the word
 * and going to sleep is one step, waking takes every sleeper of that moment.
 *
 * Property: no state without a successor in which somebody still sleeps (spin's invalid end states).
 * Every broken variant below, chosen by a macro, must be found wrong: LOOK_BEFORE_PREPARE, RING_FIRST,
 * NO_STEP, WAKE_ONE, NO_SECOND_LOOK.
 */
#ifndef WAITERS
#define WAITERS 3
#endif
#ifndef RINGERS
#define RINGERS 3
#endif

#define SLEEPER 1
#define STEP 2

byte word;           /* the bell */
byte cond;           /* what the waiters wait for: how many ringers have come */
bit asleep[WAITERS]; /* in the kernel */

/* tug_bell_ring() */
inline ring()
{
    seen = word;
    do
    :: seen & SLEEPER ->
        atomic {
            if
            :: word == seen ->
#ifdef NO_STEP
                word = seen & ~SLEEPER;
#else
                word = (seen & ~SLEEPER) + STEP;
#endif
                ok = true
            :: else ->
                seen = word;
                ok = false
            fi
        }
        if
        :: ok ->
            d_step { /* FUTEX_WAKE */
                i = 0;
                do
                :: i < WAITERS ->
#ifdef WAKE_ONE
                    if
                    :: asleep[i] -> asleep[i] = 0; break
                    :: else
                    fi;
#else
                    asleep[i] = 0;
#endif
                    i++
                :: else -> break
                od;
                i = 0
            }
            break
        :: else
        fi
    :: else -> break
    od
}

proctype waiter(byte me; byte target)
{
    byte key;
    do
#ifdef LOOK_BEFORE_PREPARE
    :: cond >= target -> break
    :: cond < target ->
        atomic { word = word | SLEEPER; key = word };
#else
    :: true ->
        atomic { word = word | SLEEPER; key = word }; /* tug_bell_prepare() */
#ifndef NO_SECOND_LOOK
        if
        :: cond >= target -> break
        :: cond < target
        fi;
#endif
#endif
        atomic { /* FUTEX_WAIT: compare and sleep */
            if
            :: word == key -> asleep[me] = 1
            :: else
            fi
        };
        !asleep[me];
#ifdef NO_SECOND_LOOK
        if
        :: cond >= target -> break
        :: cond < target
        fi
#endif
    od
}

proctype ringer()
{
    byte seen;
    byte i;
    bool ok;
#ifdef RING_FIRST
    ring();
    cond++
#else
    cond++;
    ring()
#endif
}

init
{
    byte n;
    atomic {
        n = 0;
        do
        :: n < WAITERS -> run waiter(n, (n % RINGERS) + 1); n++
        :: else -> break
        od;
        n = 0;
        do
        :: n < RINGERS -> run ringer(); n++
        :: else -> break
        od
    }
}
