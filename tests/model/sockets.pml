/* How a thread sleeps until sockets have news (tug_driver_sleep() in src/engine/completer.c, with the
 * watcher of src/transport/watcher.c).
 *
 * PEERS peers connect and say hello. The watcher, a thread of the library, rings the bell when the sockets
 * are readable, once for each time that it was armed. The driver prepares the bell, arms, looks once and
 * sleeps without a limit; a look takes connections, and by a later one what has come by those. DEAF: there
 * is no watcher; then the driver knows that nothing will ring, and sleeps for a time.
 *
 * Property: the only end is that where every hello was heard (spin's invalid end states). Either mend is
 * enough by itself: to prepare before it arms, and to count whatever was consumed as moved. Broken
 * variants, to be found wrong: ARM_FIRST with NOT_MOVED (accepted connections do not count) or NO_LOOK,
 * DEAF with BELIEVES (it does not check that it will be woken).
 */
#ifndef PEERS
#define PEERS 2
#endif

bit s;          /* the bell: somebody sleeps, or is about to */
bit rung;       /* since it was prepared */
bit asleep;
bit armed;
byte waiting;   /* connections that were not accepted */
byte accepted;
byte said;      /* hellos, by whoever has connected; readable when accepted */
byte heard;

#define READABLE (waiting > 0 || (said > heard && accepted > heard))

proctype peer()
{
    waiting++;
    said++
}

/* bell.pml has the steps */
inline ring()
{
    atomic {
        if
        :: s -> s = 0; rung = 1; asleep = 0
        :: else
        fi
    }
}

#ifndef DEAF
active proctype watcher()
{
end:
    do
    :: atomic { armed && READABLE -> armed = 0 }; ring()
    od
}
#endif

inline prepare()
{
    atomic { s = 1; rung = 0 }
}

/* One look: what was accepted now is read by the next. */
inline look()
{
    atomic {
        moved = 0;
        if
        :: said > heard && accepted > heard -> heard++; moved = 1
        :: else
        fi;
        if
        :: waiting > 0 ->
            waiting--;
            accepted++;
#ifndef NOT_MOVED
            moved = 1
#endif
        :: else
        fi
    }
}

active proctype driver()
{
    bit moved, timed;
    do
    :: heard == PEERS -> break
    :: else ->
#ifdef ARM_FIRST
        armed = 1;
        prepare();
#else
        prepare();
        armed = 1;
#endif
#if defined(DEAF) && !defined(BELIEVES)
        timed = 1;
#endif
#ifndef NO_LOOK
        look();
#endif
        if
        :: moved
        :: else ->
            atomic {
                if
                :: !rung -> asleep = 1
                :: else
                fi
            };
            if
            :: !asleep
            :: timed -> asleep = 0
            fi;
            look()
        fi
    od
}

init
{
    byte n;
    atomic {
        do
        :: n < PEERS -> run peer(); n++
        :: else -> break
        od
    }
}
