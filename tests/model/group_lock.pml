/* Groups on the reader-writer lock of src/node/locks.c: readers who lock two locks, one after the other,
 * in either order, among writers who lock one.
 *
 * GROUPERS readers lock both locks, the first in their turn and the second ahead of waiting writers where
 * the group has it; they keep both until they have both. WRITERS writers lock one each. Locks hand out
 * tickets; that tickets do what they promise is the matter of rwlock.pml, so a wait for one's turn is one
 * step here.
 *
 * Properties:
 *  - a writer is alone;
 *  - nobody waits for ever: the only end state is that in which all have returned.
 *
 * Macros BROKEN_* switch on variants that must be found wrong; CMakeLists.txt lists them.
 */
#ifndef GROUPERS
#define GROUPERS 2
#endif
#ifndef WRITERS
#define WRITERS 2
#endif
#define LOCKS 2

byte next[LOCKS], readers[LOCKS], writers[LOCKS];
byte group[LOCKS];

/* Ghosts. */
byte readers_in[LOCKS], writers_in[LOCKS];

/* tug_rwlock_lock_shared(), tug_rwlock_found() */
inline found(l)
{
    atomic { ticket = next[l]; next[l]++ };
    readers[l] == ticket;
    readers[l]++;
    atomic { n = group[l]; group[l]++ };
#ifndef BROKEN_FOUND
    if
    :: n > 0 -> writers[l]++
    :: else
    fi
#endif
}

/* tug_rwlock_join(), else found() */
inline lock(l)
{
    n = group[l];
    do
    :: n == 0 -> found(l); break
    :: n > 0 ->
#ifdef BROKEN_COMPARE
        group[l] = n + 1;
        break
#else
        atomic {
            if
            :: group[l] == n -> group[l]++; break
            :: else -> n = group[l]
            fi
        }
#endif
    od
}

/* tug_rwlock_quit() */
inline quit(l)
{
    readers_in[l]--;
    atomic { group[l]--; n = group[l] };
#ifdef BROKEN_QUIT
    writers[l]++
#else
    if
    :: n == 0 -> writers[l]++
    :: else
    fi
#endif
}

proctype grouper(byte first)
{
    byte ticket, n;
    found(first);
    readers_in[first]++;
    assert(writers_in[first] == 0);
#ifdef BROKEN_JOIN
    found(1 - first);
#else
    lock(1 - first);
#endif
    readers_in[1 - first]++;
    assert(writers_in[1 - first] == 0);
    quit(first);
    quit(1 - first)
}

proctype writer(byte l)
{
    byte ticket;
    atomic { ticket = next[l]; next[l]++ };
    writers[l] == ticket;
    atomic { writers_in[l]++; assert(writers_in[l] == 1 && readers_in[l] == 0) };
    writers_in[l]--;
    readers[l]++;
    writers[l]++
}

init
{
    byte i;
    atomic {
        do
        :: i < GROUPERS -> run grouper(i % LOCKS); i++
        :: i >= GROUPERS && i < GROUPERS + WRITERS -> run writer(i % LOCKS); i++
        :: else -> break
        od
    };
    _nr_pr == 1;
    assert(group[0] == 0 && group[1] == 0 && readers[0] == next[0] && writers[0] == next[0] &&
           readers[1] == next[1] && writers[1] == next[1])
}
