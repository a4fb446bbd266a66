/* Generations of operations in the packet lane (src/rma/remote.h): how a flush waits for operations that end in any order
 * while other threads start more.
 *
 * THREADS threads each start an operation and flush, TURNS times; the network ends what is under way
 * in any order. Counting is two steps: a thread reads which generation is open, and counts itself in it later.
 *
 * Property: after its flush a thread's operation has ended (the assertion), and nobody waits for ever
 * (spin's invalid end states). Broken variants, to be found wrong: COUNT (a flush waits until as many
 * have ended as had started, in one generation), NO_CLOSED (it does not wait for the closed generation before
 * it flips), TWO_FLIPS (two flips by others are enough: who flips first may have looked before the flush
 * began), STARTED_FIRST (it reads how many have started before how many have ended).
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
byte started[2], ended[2];
byte out[THREADS]; /* generation + 1 of the operation under way, 0: none */
byte through;

/* has_ended(): the closed or closing generation is empty, or somebody has flipped since */
inline drain(generation, at)
{
    do
    :: true ->
#ifdef STARTED_FIRST
        many = started[generation];
        few = ended[generation];
#else
        few = ended[generation];
        many = started[generation];
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
    byte turn, seen, first, generation, few, many;
    bool mine;
    do
    :: turn < TURNS ->
        seen = flips;
        generation = seen % 2;
#ifdef COUNT
        generation = 0;
#endif
        started[generation]++;
        out[me] = generation + 1;
#ifdef COUNT
        many = started[0];
        (ended[0] >= many);
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
            drain((seen + 1) % 2, seen);
#endif
            if
            :: flips != seen -> goto again
            :: else
            fi;
            few = ended[seen % 2];
            many = started[seen % 2];
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
            :: mine -> drain(seen % 2, seen + 1); break
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
    byte i, generation;
end:
    do
    :: atomic { i < THREADS && out[i] > 0 -> generation = out[i] - 1; out[i] = 0 }
        ended[generation]++
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
