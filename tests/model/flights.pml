/* Flights of the packet lane (src/rma/remote.h): how a flush waits for operations that end in any order
 * while other threads start more.
 *
 * THREADS threads each start an operation and flush, TURNS times; the network ends what is under way
 * in any order. Boarding is two steps: a thread reads which flight is open, and boards it later.
 *
 * Property: after its flush a thread's operation has ended (the assertion), and nobody waits for ever
 * (spin's invalid end states). Broken variants, to be found wrong: COUNT (a flush waits until as many
 * have landed as had boarded, in one flight), NO_CLOSED (it does not wait for the closed flight before
 * it flips), TWO_FLIPS (two flips by others are enough: who flips first may have looked before the flush
 * began), BOARDED_FIRST (it reads how many have boarded before how many have landed).
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef TURNS
#define TURNS 2
#endif
#ifdef TWO_FLIPS
#define ENOUGH 2
#else
#define ENOUGH 3
#endif

byte flips;
byte boarded[2], landed[2];
byte out[THREADS]; /* flight + 1 of the operation under way, 0: none */
byte through;

/* has_landed(): the closed or closing flight is empty, or somebody has flipped since */
inline land(flight, at)
{
    do
    :: true ->
#ifdef BOARDED_FIRST
        many = boarded[flight];
        few = landed[flight];
#else
        few = landed[flight];
        many = boarded[flight];
#endif
        if
        :: few >= many -> break
        :: else
        fi;
        if
        :: flips != at -> break
        :: else
        fi
    od
}

proctype thread(byte me)
{
    byte turn, seen, first, flight, few, many;
    bool mine;
    do
    :: turn < TURNS ->
        seen = flips;
        flight = seen % 2;
#ifdef COUNT
        flight = 0;
#endif
        boarded[flight]++;
        out[me] = flight + 1;
#ifdef COUNT
        many = boarded[0];
        (landed[0] >= many);
#else
        first = flips;
        do
        :: true ->
            seen = flips;
            if
            :: seen - first >= ENOUGH -> break
            :: else
            fi;
#ifndef NO_CLOSED
            land((seen + 1) % 2, seen);
#endif
            if
            :: flips != seen -> goto again
            :: else
            fi;
            few = landed[seen % 2];
            many = boarded[seen % 2];
            if
            :: few >= many -> break
            :: else
            fi;
            atomic {
                mine = (flips == seen);
                if
                :: mine -> flips++
                :: else
                fi
            }
            if
            :: mine -> land(seen % 2, seen + 1); break
            :: else
            fi;
again:      skip
        od;
#endif
        assert(out[me] == 0);
        turn++
    :: else -> break
    od;
    through++
}

active proctype network()
{
    byte i, flight;
end:
    do
    :: atomic { i < THREADS && out[i] > 0 -> flight = out[i] - 1; out[i] = 0 }
        landed[flight]++
    :: i = 0
    :: i < THREADS - 1 -> i++
    :: through == THREADS -> break
    od
}

init
{
    byte i;
    atomic {
        do
        :: i < THREADS -> run thread(i); i++
        :: else -> break
        od
    }
}
