/* Locks that are owed: MPI_Win_lock of a rank on another node sends nothing.
 *
 * The first operations of the epoch wait beside it, and the unlock sends all of it as one call: the
 * target takes the lock in its turn, does the operations in their order, unlocks, and answers with
 * what they fetch. An epoch of one or a few small operations takes one round trip. The call is
 *
 *     | head: the lock, and whether it ends with the unlock | record | record | ...
 *
 * and each record an operation's head, as in its message, and its operands, filled up to 8 bytes.
 * `window` counts the operands' bytes there, and `what` is an enum tug_owed_record; the range of a
 * put or get counts bytes. The answer is one word and what each record fetches, filled up likewise.
 *
 * The lock is taken earlier, with what waits, and then held: by a flush of any kind, also without
 * operations, and by an operation that cannot wait: it is long or does not fit, has a request or a
 * derived datatype, or is wrong (the call then returns the error).
 * An epoch without operations takes and leaves the lock in its unlock.
 *
 * Where cards take locks (remote_card_lock.h) they do so as soon as the lock is needed, for an
 * operation of a card or the unlock. Only an accumulate that no card does is queued, and goes with
 * the lock.
 *
 * Locks are taken in the order in which a thread asks for them, and before it gives another back:
 * each thread owes one at most, and takes it first, of whatever windows of ours. So ranks that lock
 * several targets in the same order never wait in a circle, and what they do there nobody sees half
 * done. All else that a thread waits for while it owes
 * a lock it waits for without holding it.
 *
 * The target holds back no more than one call of each rank that waits for its lock
 * (remote_serve.c).
 *
 * Threads: any. What a target's epoch owes is under a mutex.
 */
#ifndef TUG_RMA_REMOTE_OWED_H
#define TUG_RMA_REMOTE_OWED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rma/remote.h"
#include "rma/window.h"

enum tug_owed_record {
    TUG_OWED_PUT,
    TUG_OWED_GET,
    TUG_OWED_ACCUMULATE,
    TUG_OWED_FETCH,
    TUG_OWED_COMPARE,
};

/* The word that every lock's answer begins with. */
#define TUG_LOCK_GRANTED UINT64_C(1)

/* Bytes with which a record, or what it fetches, is filled up. */
static inline size_t tug_owed_padded(size_t bytes) {
    return (bytes + 7) / 8 * 8;
}

/* Takes a lock, by card or by asking, and waits until it is held. An error class. */
int tug_owed_ask(struct tug_remote *remote, int rank, enum tug_lock_state kind);

/* From now on this thread owes a lock, at a target that has been met. */
void tug_owed_begin(struct tug_remote_state *state, enum tug_lock_state kind);

/* Takes the lock, if it is owed, with what waits. An error class: then it is not held. */
int tug_owed_take(struct tug_remote_state *state);

/* The same for a flush of all targets. What another thread owes, without operations, it leaves: it
 * may have to wait for locks that this thread holds. */
int tug_owed_flush(struct tug_remote_state *state);

/* The unlock. *taken: the lock has been taken before and is still held; the caller unlocks. An
 * error class, of what waited. */
int tug_owed_end(struct tug_remote_state *state, bool *taken);

/* Nobody uses what is kept of the target any more. */
void tug_owed_forget(struct tug_remote_state *state);

extern _Atomic uint32_t tug_owed_locks; /* of this process */

/* Takes the lock that this thread owes, except at that target (NULL: none): before it asks for
 * another, or gives another back. What goes wrong, its unlock says. */
void tug_owed_take_mine(const struct tug_remote_target *but);
static inline void tug_owed_settle(const struct tug_window *window, int but) {
    if (__builtin_expect(atomic_load_explicit(&tug_owed_locks, memory_order_relaxed) > 0, 0))
        tug_owed_take_mine(window->remote != NULL && but >= 0 ? &window->remote->targets[but]
                                                              : NULL);
}

/* Is a lock of the window owed? Perhaps that of the operation's target. */
static inline __attribute__((always_inline)) bool tug_is_owed(const struct tug_rma *o) {
    return __builtin_expect(
        atomic_load_explicit(&o->window->remote->contact_wanted, memory_order_relaxed) &
            TUG_CONTACT_SETTLED,
        0);
}

/* The operation waits. single: MPI_Fetch_and_op or MPI_Compare_and_swap. False: nothing happened,
 * it goes the ordinary way, which takes the lock. */
bool tug_owed_operation(const struct tug_rma *o, enum tug_owed_record what, bool single);

/* The same, if a lock is owed. */
static inline __attribute__((always_inline)) bool
tug_owed_joins(const struct tug_rma *o, enum tug_owed_record what, bool single) {
    return tug_is_owed(o) && tug_owed_operation(o, what, single);
}

#endif
