/* Locks that cards take (src/rma/remote_card_lock.h): origins lock by atomics on a word at the owner, and ask the
 * owner's engine by message where they do not get the lock so.
 *
 * WRITERS lock one of two locks exclusively, READERS one shared. GROUPERS lock both as MPI_Win_lock_all does, their own
 * one first, and keep both until they have both. With MEET they begin when all others have called their unlock, whose
 * atomics may be late, and wait for each other while they hold both.
 *
 * The owner's lock of tickets grants in order of arrival; that is rwlock.pml's matter, so it is a queue and two counters
 * here. Messages arrive in some order, an origin's own ones in theirs. An atomic of the owner happens at some time, and
 * its end is handled later: messages may come before, between and after.
 *
 * Properties:
 *  - a writer is alone;
 *  - nobody waits for ever: the only end state is that in which all have returned, and the cards have the locks.
 *
 * Macros BROKEN_* switch on variants that must be found wrong; CMakeLists.txt lists them.
 */
#ifndef WRITERS
#define WRITERS 1
#endif
#ifndef READERS
#define READERS 1
#endif
#ifndef GROUPERS
#define GROUPERS 0
#endif
#ifndef SPREAD
#define SPREAD 1 /* locks that writers and readers lock */
#endif
#define LOCKS 2
#define ORIGINS (WRITERS + READERS + GROUPERS)

mtype = { LOCK, UNLOCK, MOVED };
mtype = { CARDS, RECALLED, SHARED, OWNER, RETURNING };
mtype = { NOTHING, COMPARE, ADD, GIVE };
#define EXCL 0
#define SHAR 1
#define GROUP 2

/* The words. */
byte count[LOCKS];
bool exclusive[LOCKS], queued[LOCKS];

typedef inbox { chan messages = [2 * ORIGINS + 2] of { mtype, byte, byte } }; /* what, whose, kind */
inbox to[LOCKS];
bool granted[ORIGINS * LOCKS];

/* Ghosts. */
byte readers_in[LOCKS], writers_in[LOCKS];
byte unlocking, met, returned;

#define enter_shared(l) atomic { readers_in[l]++; assert(writers_in[l] == 0) }
#define enter_alone(l)  atomic { writers_in[l]++; assert(writers_in[l] == 1 && readers_in[l] == 0) }

/* Asks the owner. */
inline ask(l, me, kind)
{
    to[l].messages ! LOCK, me, kind;
    granted[me * LOCKS + l];
    granted[me * LOCKS + l] = false;
    by_card = false
}

inline lock_exclusive(l, me)
{
    atomic {
        by_card = (count[l] == 0 && !exclusive[l] && !queued[l]);
        exclusive[l] = exclusive[l] || by_card
    };
    if
    :: by_card
    :: else -> ask(l, me, EXCL)
    fi
}

/* closed: is QUEUED in the way? */
inline lock_shared(l, me, kind, closed)
{
    atomic {
        by_card = !exclusive[l] && !(closed && queued[l]);
        count[l]++
    };
    if
    :: by_card
    :: else ->
        leave_shared(l, me);
        ask(l, me, kind)
    fi
}

inline leave_shared(l, me)
{
    atomic {
        count[l]--;
        tells = (queued[l] && !exclusive[l] && count[l] == 0)
    };
    if
    :: tells -> to[l].messages ! MOVED, me, SHAR
    :: else
    fi
}

inline unlock(l, me, kind)
{
    if
    :: !by_card -> to[l].messages ! UNLOCK, me, kind
    :: by_card && kind == EXCL ->
        atomic {
            exclusive[l] = false;
#ifdef BROKEN_TELL
            tells = (queued[l] && count[l] == 0)
#else
            tells = queued[l]
#endif
        };
        if
        :: tells -> to[l].messages ! MOVED, me, EXCL
        :: else
        fi
    :: else -> leave_shared(l, me)
    fi
}

proctype writer(byte me; byte l)
{
    bool by_card, tells;
    lock_exclusive(l, me);
    enter_alone(l);
    atomic { writers_in[l]--; unlocking++ };
    unlock(l, me, EXCL);
    returned++
}

proctype reader(byte me; byte l)
{
    bool by_card, tells;
    lock_shared(l, me, SHAR, true);
    enter_shared(l);
    atomic { readers_in[l]--; unlocking++ };
    unlock(l, me, SHAR);
    returned++
}

proctype grouper(byte me; byte own)
{
    bool by_card, tells, own_by_card;
#ifdef MEET
    unlocking == WRITERS + READERS;
#endif
    lock_shared(own, me, GROUP, true);
    own_by_card = by_card;
    enter_shared(own);
#ifdef BROKEN_JOIN
    lock_shared(1 - own, me, SHAR, true);
#else
    lock_shared(1 - own, me, GROUP, false);
#endif
    enter_shared(1 - own);
#ifdef MEET
    met++;
    met == GROUPERS;
#endif
    readers_in[1 - own]--;
#ifdef BROKEN_JOIN
    unlock(1 - own, me, SHAR);
#else
    unlock(1 - own, me, GROUP);
#endif
    readers_in[own]--;
    by_card = own_by_card;
    unlock(own, me, GROUP);
    returned++
}

#define take_back() again = false; atomic_kind = COMPARE; expected = is_queued

proctype owner(byte l)
{
    chan waiting = [ORIGINS] of { byte, byte };
    mtype state = CARDS, atomic_kind = NOTHING;
    bool is_queued, again, expected, ended, found_exclusive, found_free, alone;
    byte shared, group, me, kind;
    mtype what;
end:
    do
    /* a message */
    :: to[l].messages ? what, me, kind ->
        if
        :: what == LOCK && kind == GROUP && me != WRITERS + READERS + l && group > 0 ->
            atomic { shared++; group++; granted[me * LOCKS + l] = true }
        :: what == LOCK && !(kind == GROUP && me != WRITERS + READERS + l && group > 0) ->
            waiting ! me, kind
        :: what == UNLOCK ->
            if
            :: kind == EXCL -> alone = false
            :: kind == SHAR -> shared--
            :: kind == GROUP -> shared--; group--
            fi
        :: what == MOVED && (state == RECALLED || state == SHARED) ->
            again = true;
            if
            :: atomic_kind == NOTHING -> take_back()
            :: else
            fi
        :: what == MOVED && !(state == RECALLED || state == SHARED)
        fi;
        goto grant
    /* the atomic happens */
    :: atomic_kind != NOTHING && !ended ->
        atomic {
            found_exclusive = exclusive[l];
            found_free = (count[l] == 0 && !exclusive[l] && queued[l] == expected);
            if
            :: atomic_kind == COMPARE && found_free -> exclusive[l] = true; queued[l] = true
            :: atomic_kind == COMPARE && !found_free
            :: atomic_kind == ADD -> found_free = (count[l] == 0 && !exclusive[l]); queued[l] = true
            :: atomic_kind == GIVE -> exclusive[l] = false; queued[l] = false
            fi;
            ended = true
        }
    /* its end */
    :: ended ->
        ended = false;
        if
        :: atomic_kind == GIVE -> state = CARDS; is_queued = false; atomic_kind = NOTHING
        :: atomic_kind == COMPARE && found_free -> state = OWNER; atomic_kind = NOTHING
        :: atomic_kind == COMPARE && !found_free && !is_queued -> atomic_kind = ADD
        :: else ->
            is_queued = true;
#ifndef BROKEN_SHARE
            if
            :: state == RECALLED && !found_exclusive -> state = SHARED
            :: else
            fi;
#endif
            if
#ifdef BROKEN_AGAIN
            :: atomic_kind == ADD && found_free -> take_back()
#else
            :: again || (atomic_kind == ADD && found_free) -> take_back()
#endif
            :: else -> atomic_kind = NOTHING
            fi
        fi;
        goto grant
    od;
grant: /* tug_remote_grant() */
    atomic {
        do
        :: (state == SHARED || state == OWNER) && !alone && nempty(waiting) ->
            waiting ? <me, kind>;
            if
            :: kind == EXCL && (state == SHARED || shared > 0) -> break
            :: kind == EXCL && state == OWNER && shared == 0 -> alone = true
            :: kind == SHAR -> shared++
            :: kind == GROUP -> shared++; group++
            fi;
            waiting ? me, kind;
            granted[me * LOCKS + l] = true
        :: else -> break
        od;
        if
        :: nempty(waiting) && state == CARDS -> state = RECALLED; take_back()
        :: empty(waiting) && state == OWNER && shared == 0 && !alone -> state = RETURNING; atomic_kind = GIVE
        :: else
        fi
    };
    goto end
}

init
{
    byte i;
    atomic {
        do
        :: i < LOCKS -> run owner(i); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < WRITERS -> run writer(i, i % SPREAD); i++
        :: i >= WRITERS && i < WRITERS + READERS -> run reader(i, i % SPREAD); i++
        :: i >= WRITERS + READERS && i < ORIGINS -> run grouper(i, (i - WRITERS - READERS) % LOCKS); i++
        :: else -> break
        od
    };
    returned == ORIGINS;
    timeout;
    assert(count[0] == 0 && !exclusive[0] && !queued[0]);
    assert(count[1] == 0 && !exclusive[1] && !queued[1])
}
