/* Locks of windows by the network cards.
 *
 * Where every rank of a window has a node of its own, and the cards of all have atomics and reach
 * their own memory, each rank has a lock word for the window, in memory that its card knows
 * (dynamic windows are left out). Origins lock and unlock by atomics on that word, and the owner's
 * processor takes no part. No processor touches the word while the window lives: only cards do, the
 * owner's own among them. So locks stay with the cards when accumulates are given up
 * (remote_card.h).
 *
 *     63 ... 34   33       32          31 ... 0
 *     unused      QUEUED   EXCLUSIVE   holders of a shared lock
 *
 *     exclusive          CAS 0 -> EXCLUSIVE; held if the word was 0
 *     shared             ADD 1; held if neither QUEUED nor EXCLUSIVE was set
 *     MPI_Win_lock_all   ADD 1; held if EXCLUSIVE was not set. Its first lock, which is the rank's
 *                        own: as shared (why: tug_rwlock_join())
 *     unlock             ADD -EXCLUSIVE or -1, when all else of the epoch has ended
 *
 * There is one try. A shared lock that is not held takes its 1 back. Then the rank asks the owner's
 * engine by message (TUG_CALL_LOCK), as it does if the card does not reach the owner. An
 * unlock is asynchronous; the next flush of that target reports its error.
 *
 * The owner's ticket lock (node/locks.h, remote_serve.c) decides, in order of arrival. The cards
 * together count as one holder of it. They hold it exclusively as long
 * as nobody asks by message, and those who lock by card share it among themselves. When somebody
 * waits by message, the owner takes the lock back from the cards:
 *
 *     CARDS       the cards hold the lock, exclusively
 *     RECALLED    somebody waits. CAS 0 -> QUEUED | EXCLUSIVE; if the word was not 0, ADD QUEUED,
 *                 after which only MPI_Win_lock_all gets it by card
 *     SHARED      QUEUED is set, and EXCLUSIVE is not: the cards hold the lock shared, beside those
 *                 who have asked for a shared lock
 *     OWNER       the CAS, or a later one from QUEUED, has succeeded: the cards hold nothing
 *     RETURNING   nobody holds it or waits: it is the cards' again. ADD -(QUEUED | EXCLUSIVE), and
 *                 then CARDS
 *     FAILED      an atomic of the owner's has failed: all lock messages that wait, and later ones,
 *                 are answered with an error
 *
 * An atomic that leaves the word at QUEUED alone is followed by a TUG_MESSAGE_MOVED to the owner,
 * and so is an exclusive unlock that finds QUEUED. The owner then tries its CAS again. A failed
 * attempt at a shared lock can make this CAS fail; when the 1 is taken back, another message is
 * sent.
 *
 * So a shared request waits only if an exclusive lock is held or queued, and MPI programs may rely
 * on that; nobody is overtaken but by MPI_Win_lock_all; and nobody tries without end. Two of
 * MPI_Win_lock_all never wait for each other behind writers: who waits for a target has found
 * EXCLUSIVE there, so that no such epoch held it, by card or by message, and all that hold it later
 * have come later (node/locks.c). Checked by tests/model/card_lock.pml.
 *
 * Errors: a lock whose atomic fails is an error of the call that takes it; nobody knows whether it
 * is held. A failed unlock is one of the next flush.
 *
 * Threads: tug_card_lock() and tug_card_unlock() any; all else the holder of the baton.
 */
#ifndef TUG_RMA_REMOTE_CARD_LOCK_H
#define TUG_RMA_REMOTE_CARD_LOCK_H

#include <stdbool.h>

#include "rma/remote.h"

/* Makes the lock words of a domain whose cards have atomics, if every rank's card reaches its own.
 * Collective; the same on all ranks. */
void tug_card_locks_open(struct tug_domain *domain);
void tug_card_locks_close(struct tug_domain *domain);

/* Decides whether the window's locks are the cards', and gives them this rank's. Before any message
 * comes. The same on all ranks. */
void tug_card_locks_begin(struct tug_remote *remote);

/* The window ends, and nobody locks any more: returns when the owner's atomics have ended. */
void tug_card_locks_end(struct tug_remote *remote);

/* Tries to take the lock of a target that has been met, and waits for the answer. *held: by card.
 * An error class; without one, and not held, the caller asks the owner. */
int tug_card_lock(struct tug_remote *remote, int rank, enum tug_lock_state kind, bool *held);

/* Is this rank's lock of the target held by card? */
static inline bool tug_card_holds(const struct tug_remote_state *state) {
    return state->card_holds != TUG_LOCK_NONE;
}

/* Starts the unlock of what is held by card. After a flush of the target. */
void tug_card_unlock(struct tug_remote *remote, struct tug_remote_state *state);

/* ---- at the owner ---- */

/* Somebody has a ticket and waits: the cards are to give the lock back, which leads to
 * tug_remote_grant(). */
void tug_card_recall(struct tug_remote *remote);

/* TUG_MESSAGE_MOVED has come. */
void tug_card_moved(struct tug_remote *remote);

/* Nobody waits by message: the cards take the lock again, if nobody holds it. */
void tug_card_return(struct tug_remote *remote);

#endif
