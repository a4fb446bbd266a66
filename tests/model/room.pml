/* The wait for room in an inbox: src/node/inbox.h, src/transport/shm.c.
 *
 * SENDERS put PACKETS each into a ring of SLOTS, which its owner takes, TAKES at most in a round, and then asks
 * who waits. What the owner has released the senders see later, at any time, or at the latest when the owner
 * passes a fence: head runs ahead of `seen`. The senders' stores are seen at once (theirs are behind fences).
 * A sender that finds the ring full says so, looks again, and sleeps until the owner rings; the owner rests
 * while nothing is in the ring (bell.pml has how both sleep).
 *
 * Property: all packets are taken, and nobody sleeps for ever. Broken variants, to be found wrong: NO_LOOK (a
 * sender does not look again), WAIT_FIRST (the owner sees who it is before it sees the bell prepared: what a store
 * of the one that is no release allows), AWAIT_FIRST (it raises awaited, and then says who it is), SELDOM (a fence each
 * ring and one slot), NO_FENCE, PUT_BACK_LATE (awaited is put back when all have been asked), FORGETS (the owner
 * rings for some, and does not owe the rest), LIMIT (also while the ring is empty, which nobody
 * comes back to).
 */
#ifndef SENDERS
#define SENDERS 3
#endif
#ifndef PACKETS
#define PACKETS 2
#endif
#define SLOTS 2
#define TAKES 1
#ifdef SELDOM
#define FENCED (SLOTS + 1)
#else
#define FENCED (SLOTS / 2)
#endif

byte tail, head, seen; /* slots reserved and filled; taken; seen to be free again */
byte asked;            /* head, behind the last fence */
bit awaited, owes;
bit wait[SENDERS];
bit rung[SENDERS];
byte taken;

#define IS_FULL (tail - seen >= SLOTS)
#define IS_EMPTY (tail == head)

active proctype memory()
{
end:
    do
    :: atomic { seen < head -> seen++ }
    od
}

active [SENDERS] proctype sender()
{
    byte sent;
    byte me = _pid - 1;
    do
    :: sent < PACKETS ->
        if
        :: atomic { !IS_FULL -> tail++; sent++ }
        :: IS_FULL ->
#ifdef WAIT_FIRST
            wait[me] = 1;
            rung[me] = 0; /* prepares */
            awaited = 1;
#else
            rung[me] = 0; /* prepares */
#ifdef AWAIT_FIRST
            awaited = 1;
            wait[me] = 1;
#else
            wait[me] = 1;
            awaited = 1;
#endif
#endif
            if
#ifndef NO_LOOK
            :: atomic { !IS_FULL -> tail++; sent++ }
#endif
            :: IS_FULL -> rung[me]
#ifdef NO_LOOK
            :: !IS_FULL -> rung[me]
#endif
            fi
        fi
    :: else -> break
    od
}

/* Rings for all, or for one. */
inline pay()
{
    atomic { left = 1; i = 0 };
#ifndef LIMIT
    if
    :: IS_EMPTY -> left = SENDERS
    :: else
    fi;
#endif
    do
    :: i < SENDERS && left > 0 ->
        atomic {
            if
            :: wait[next] -> wait[next] = 0; rung[next] = 1; left--
            :: else
            fi;
            next = (next + 1) % SENDERS;
            i++
        }
    :: else -> break
    od;
#ifndef FORGETS
    if
    :: i < SENDERS -> owes = 1
    :: else
    fi
#endif
}

active proctype owner()
{
    byte took, left, i, next;
    do
    :: atomic { tail > head -> took = 0 };
        do
        :: atomic { tail > head && took < TAKES -> head++; took++; taken++ }
        :: atomic { tail == head || took == TAKES -> break }
        od;
#ifndef NO_FENCE
        if
        :: head - asked >= FENCED -> atomic { seen = head; asked = head }
        :: else
        fi;
#endif
        if
        :: awaited || owes ->
#ifndef PUT_BACK_LATE
            awaited = 0;
#endif
            owes = 0;
            pay();
#ifdef PUT_BACK_LATE
            awaited = 0
#endif
        :: else
        fi
    :: taken == SENDERS * PACKETS -> break
    od
}
