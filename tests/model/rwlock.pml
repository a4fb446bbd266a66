/* The reader-writer lock of src/node/locks.c with its bell: who is in, in which order, and no lost
 * wake-up.
 *
 * READERS and WRITERS threads lock and unlock TURNS times each. Every access to shared memory and every
 * futex call of the code is one step; the bell is that of bell.pml. Budgets of pauses and yields are nil
 * and sleeps have no timer, so that a wait which nobody ends is an invalid end state. Tickets are bytes
 * and start below their wrap. With MEET a reader stays in until the next in the queue is no reader, or is
 * in too: readers hold the lock together. SERVERS threads ask for tickets to write with and sleep
 * nowhere: they watch the lock and wait until they are told.
 *
 * Properties:
 *  - a writer is alone;
 *  - a writer's ticket is the number of those who were let in before it: nobody overtakes one or is
 *    overtaken by one;
 *  - no lost wake-up: the only end state is that in which all have returned and the counters agree.
 *
 * Macros BROKEN_* switch on variants that must be found wrong; CMakeLists.txt lists them.
 */
#ifndef READERS
#define READERS 2
#endif
#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef SERVERS
#define SERVERS 0
#endif
#ifndef TURNS
#define TURNS 1
#endif

#define THREADS (READERS + WRITERS + SERVERS)
#define FIRST 254 /* ticket */
#define PLACE(ticket) ((ticket + 256 - FIRST) & 255)

#define SLEEPER 1
#define STEP 2

byte next = FIRST;
byte readers = FIRST;
byte writers = FIRST;
byte word;           /* the bell */
bit asleep[THREADS]; /* in the kernel */
bit watched;
bit told; /* the server has a message */

/* Ghosts. */
byte let_in, readers_in, writers_in;
bit queued_reader[THREADS * TURNS + 1]; /* by place, until it is let in */

/* tug_bell_ring(); its compare-exchange loop succeeds only where what it decided on still holds */
inline ring()
{
    atomic {
        sleepers = word & SLEEPER;
        if
        :: sleepers -> word = (word & ~SLEEPER) + STEP
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

/* who has moved the lock: a look, then a message */
inline tell()
{
#ifndef BROKEN_TELL
    if
    :: watched -> told = 1
    :: else
    fi
#else
    skip
#endif
}

#ifdef BROKEN_COMPARE
#define MY_TURN(counter) (counter >= ticket)
#else
#define MY_TURN(counter) (counter == ticket)
#endif

/* wait_for_turn() */
inline take_turn(counter)
{
    do
    :: MY_TURN(counter) -> break
    :: else ->
        atomic { word = word | SLEEPER; key = word }; /* tug_bell_prepare() */
#ifndef BROKEN_LOOK
        if
        :: MY_TURN(counter) -> break
        :: else
        fi;
#endif
        atomic { /* FUTEX_WAIT: compare and sleep */
            if
            :: word == key -> asleep[me] = 1
            :: else
            fi
        };
        !asleep[me]
    od;
    key = 0
}

proctype reader(byte me)
{
    byte ticket, key, i, turn;
    bool sleepers;
    do
    :: turn < TURNS ->
        atomic { ticket = next; next++; queued_reader[PLACE(ticket)] = 1 };
        take_turn(readers);
        atomic { queued_reader[PLACE(ticket)] = 0; let_in++; readers_in++; assert(writers_in == 0) };
        readers++;
#ifndef BROKEN_ADMIT
        ring();
        tell();
#endif
#ifdef MEET
        !queued_reader[PLACE(ticket) + 1];
#endif
#ifdef BROKEN_ORDER
        ring();
        atomic { readers_in--; writers++ };
#else
        atomic { readers_in--; writers++ };
        ring();
#endif
        tell();
        turn++
    :: else -> break
    od
}

proctype writer(byte me)
{
    byte ticket, key, i, turn;
    bool sleepers;
    do
    :: turn < TURNS ->
        atomic { ticket = next; next++ };
#ifdef BROKEN_TURN
        take_turn(readers);
#else
        take_turn(writers);
#endif
        atomic {
            assert(PLACE(ticket) == let_in);
            let_in++;
            writers_in++;
            assert(writers_in == 1 && readers_in == 0)
        };
        atomic { writers_in--; readers++ };
        writers++;
#ifndef BROKEN_RING
        ring();
#endif
        tell();
        turn++
    :: else -> break
    od
}

/* tug_rwlock_ask(), and grant() in remote_serve.c */
proctype server(byte me)
{
    byte ticket, i, turn;
    bool sleepers;
    do
    :: turn < TURNS ->
        atomic { ticket = next; next++ };
        if
        :: MY_TURN(writers)
        :: else ->
#ifdef BROKEN_WATCH
            if
            :: MY_TURN(writers)
            :: else ->
                watched = 1;
                atomic { told -> told = 0 }
            fi;
#endif
            watched = 1;
            do
            :: MY_TURN(writers) -> break
            :: else -> atomic { told -> told = 0 }
            od;
            watched = 0
        fi;
        atomic {
            assert(PLACE(ticket) == let_in);
            let_in++;
            writers_in++;
            assert(writers_in == 1 && readers_in == 0)
        };
        atomic { writers_in--; readers++ };
        writers++;
        ring();
        turn++
    :: else -> break
    od
}

init
{
    byte n;
    atomic {
        do
        :: n < READERS -> run reader(n); n++
        :: n >= READERS && n < READERS + WRITERS -> run writer(n); n++
        :: n >= READERS + WRITERS && n < THREADS -> run server(n); n++
        :: else -> break
        od
    };
    _nr_pr == 1;
    assert(let_in == THREADS * TURNS && readers == next && writers == next && PLACE(next) == let_in)
}
