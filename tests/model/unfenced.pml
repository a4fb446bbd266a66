/* A bell that is rung without a fence (src/engine/event_wait.h): who hears of a change that is still in its
 * writer's store buffer.
 *
 * A WRITER makes CHANGES changes, each by a plain store, which stays in its store buffer for a while, and then
 * looks at the bell, by a load that may be ahead of it. Only if it sees S it rings, which drains the buffer.
 * Two sleepers of a process stand at the bell, look, and sleep. The first sleep of a stand is timed. A sleeper
 * that stands there still when the time is over makes a fence for the writer (membarrier), which makes all
 * its stores visible, looks again, and sleeps without a limit. A stand lasts as long as the word is as it was.
 * A sleeper may walk away for good, as the thread that drives does when its own wait is over; the other, the
 * offload thread, stays.
 *
 * TIME: the kernel refuses the fence. When the time is over, every store that was made before the stand
 * began has become visible by itself.
 *
 * Property: in the end every change has been seen, with no further call by the writer. Broken variants, to be
 * found wrong: UNBOUNDED (no sleep is timed), ONCE (a stand does not end when the bell is rung), NO_FENCE (there
 * is no fence, and stores take as long as they like), FENCE_LATE (the fence comes behind the look).
 */
#ifndef CHANGES
#define CHANGES 3
#endif

byte visible, seen;
byte buffered;      /* stores on their way */
byte before[2];     /* of them, those made before the sleeper's stand began */
bit s;              /* the bell's word: S, */
byte count;         /* and how often it was rung */
byte key[2];        /* the word's count as the stand began */
bit stands[2];      /* it has stood there before */
bit timed[2];       /* since the stand began a timed sleep has run its time, */
bit settled[2];     /* and the writer's stores from before are visible */
bit asleep[2];

inline drain()
{
    visible = visible + buffered;
    buffered = 0;
    before[0] = 0;
    before[1] = 0
}

active proctype store_buffer()
{
end:
    do
    :: atomic {
            buffered > 0 ->
            buffered--;
            visible++;
            before[0] = (before[0] > 0 -> before[0] - 1 : 0);
            before[1] = (before[1] > 0 -> before[1] - 1 : 0)
        }
    od
}

inline prepare(who)
{
    atomic { /* a fetch_or */
        s = 1;
        if
#ifdef ONCE
        :: stands[who]
#else
        :: stands[who] && key[who] == count
#endif
        :: else -> before[who] = buffered; timed[who] = 0; settled[who] = 0
        fi;
        stands[who] = 1;
        key[who] = count
    }
}

/* tug_stand_fence() */
inline fence(who)
{
#ifndef NO_FENCE
    atomic {
        if
        :: timed[who] && !settled[who] -> drain(); settled[who] = 1
        :: else
        fi
    }
#else
    settled[who] = timed[who]
#endif
}

inline sleep(who)
{
    atomic { /* the kernel's look at the word */
        if
        :: s && key[who] == count -> asleep[who] = 1
        :: else
        fi
    };
end_asleep:
    if
    :: !asleep[who]
#ifndef UNBOUNDED
#ifdef TIME
    :: atomic { asleep[who] && !settled[who] && before[who] == 0 -> asleep[who] = 0; settled[who] = 1 }
#else
    :: atomic { asleep[who] && !settled[who] -> asleep[who] = 0; timed[who] = 1 }
#endif
#endif
    fi
}

active [2] proctype sleeper()
{
    bit moved;
    byte who = _pid - 1; /* the store buffer is process 0 */
    do
    :: prepare(who);
#ifndef FENCE_LATE
       fence(who);
#endif
       atomic { moved = (seen != visible); seen = visible };
#ifdef FENCE_LATE
       fence(who);
#endif
       if
       :: moved
       :: else ->
            sleep(who)
       fi
    :: who == 0 -> break
    od
}

active proctype writer()
{
    byte n;
    do
    :: n < CHANGES ->
        buffered++;
        n++;
        if
        :: s -> atomic { drain(); if :: s -> s = 0; count++; asleep[0] = 0; asleep[1] = 0 :: else fi }
        :: !s
        fi
    :: else -> break
    od
}

init
{
end:
    timeout;
    assert(seen == CHANGES)
}
