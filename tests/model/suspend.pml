/* Waits without a thread (src/engine/suspend.h): who waits, and who has made progress.
 *
 * FIBRES wait, each TURNS times. Each wait's condition is made true by a holder, who then looks if it
 * sees that anybody waits. Holders and fibres look at the list; only one does so at a time, the others
 * leave their look to it. A wake is a token that the block takes, before or after.
 *
 * Properties:
 *  - no lost wake-up: the only end state is that where all have returned;
 *  - one looks at a time;
 *  - nobody touches a wait that is over: its memory is the fibre's stack;
 *  - a wait is woken once.
 *
 * Broken variants, to be found wrong: NO_LOOK (who waits does not look again after the push), COUNT_LATE (it is
 * counted after the look), TRUE_LATE (the holder looks before it makes it true), NO_AGAIN (the one who
 * looks does not go round again), READ_LATE (it reads the count after its round), STEP_LATE (it reads the
 * next of a wait that it has woken).
 */
#ifndef FIBRES
#define FIBRES 2
#endif
#ifndef TURNS
#define TURNS 1
#endif

#define NONE 255

byte out;
byte pushed = NONE;     /* first of the waits pushed */
byte list = NONE;       /* of the one who looks */
byte next[FIBRES];
byte looks;
bit truth[FIBRES];
bit stands[FIBRES];     /* ghost: the wait's memory is there */
byte token[FIBRES];     /* wakes not yet taken */
byte within;            /* ghost: threads in a round */
byte returned;

#define LOCALS byte seen, at, before, after; bool mine

inline touch(n)
{
    assert(stands[n])
}

/* The next of `before`, or the head. */
inline set_link(value)
{
    if
    :: before == NONE -> list = value
    :: else -> touch(before); next[before] = value
    fi
}

inline look_once()
{
    within++;
    assert(within == 1);
    /* what was pushed goes to the end of the list */
    atomic {
        before = NONE;
        at = list;
        do
        :: at != NONE -> touch(at); before = at; at = next[at]
        :: else -> break
        od;
        set_link(pushed);
        pushed = NONE;
        before = NONE;
        at = list
    };
    do
    :: at != NONE ->
        touch(at);
        if
        :: truth[at] ->
#ifdef STEP_LATE
            out--;
            token[at]++;
            touch(at);
            after = next[at];
            set_link(after);
            at = after
#else
            after = next[at];
            set_link(after);
            out--;
            atomic { token[at]++; assert(token[at] == 1) };
            at = after
#endif
        :: else -> before = at; at = next[at]
        fi
    :: else -> break
    od;
    within--
}

inline look()
{
    atomic { mine = (looks == 0); looks++ };
    if
    :: mine ->
        do
        :: seen = looks;
            look_once();
#ifdef READ_LATE
            seen = looks;
#endif
            atomic {
#ifdef NO_AGAIN
                looks = 0; break
#else
                if
                :: looks == seen -> looks = 0; break
                :: else
                fi
#endif
            }
        od
    :: else
    fi;
    atomic { mine = false; seen = 0; at = 0; before = 0; after = 0 }
}

proctype holder(byte which)
{
    LOCALS;
#ifdef TRUE_LATE
    if
    :: out > 0 -> look()
    :: else
    fi;
    truth[which] = 1
#else
    truth[which] = 1;
    if
    :: out > 0 -> look()
    :: else
    fi
#endif
}

proctype fibre(byte me)
{
    LOCALS;
    byte turn, head;
    do
    :: turn < TURNS ->
        atomic { truth[me] = 0; run holder(me) };
        do
        :: truth[me] -> break
        :: else ->
            stands[me] = 1;
#ifndef COUNT_LATE
            out++;
#endif
            do
            :: head = pushed;
                next[me] = head;
                atomic {
                    if
                    :: pushed == head -> pushed = me; break
                    :: else
                    fi
                }
            od;
            head = 0;
#ifndef NO_LOOK
            if
            :: truth[me] -> look()
            :: else
            fi;
#endif
#ifdef COUNT_LATE
            out++;
#endif
            atomic { token[me] > 0 -> token[me]--; stands[me] = 0 }
        od;
        turn++
    :: else -> break
    od;
    returned++
}

init
{
    byte n;
    atomic {
        do
        :: n < FIBRES -> run fibre(n); n++
        :: else -> break
        od
    };
    timeout;
    assert(returned == FIBRES && out == 0 && pushed == NONE && list == NONE && looks == 0)
}
