/* Blocking collectives that repeat (TUGBOAT_COLLECTIVES): after some calls with the same root and
 * size (and operation) on a communicator a schedule is kept for them, and the tuner (model/tuner.h)
 * finds out which is faster in this program, the schedule or the host's own algorithm: the two take
 * turns, the faster one stays, and from time to time they are tried again.
 *
 * That waits until it is worth it: to make a team takes a millisecond, and a schedule about as
 * much. Nor is the host as fast as it will be before: each message up to some KiB writes to a new
 * piece of its shared memory, until it has been through all of them (MPICH 4.0.2, 4 KiB, 2 ranks:
 * the first 64 broadcasts 6 to 7 us each, later ones 0.4).
 *
 * MPI orders the collective calls on a communicator, and what they are told apart by is the same on
 * all its ranks: so is all that is kept, without a word between them. Only at the end of a round
 * they agree on what was measured. Under MPI's rules for collectives.
 *
 *     calls on a communicator:  256, or 8 of 2 MiB in all          the host's, and nothing is kept
 *     calls of a kind:          256, or 4 of 2 MiB in all          the host's
 *                               the tuner's first round            the host's, ours, in turn
 *                               a broadcast's way is found         ours
 *                               the others                         of the faster one
 *
 * With TUGBOAT_COLLECTIVES=on 8 and 4 calls of any size are enough.
 */
#ifndef TUG_PERSISTENT_REPEAT_H
#define TUG_PERSISTENT_REPEAT_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "host/reduction.h"
#include "model/tuner.h"
#include "persistent/collective.h"

#define TUG_REPEATS_KEPT 32   /* of a communicator that are tuned: more are the host's */
#define TUG_REPEATS_YOUNG 8   /* calls on a communicator before anything is kept for it */
#define TUG_REPEATS_BEFORE 4  /* calls of a kind before it is tried */
#define TUG_REPEATS_WORTH 256 /* what both must come to, a call counted once, and more by size */
#define TUG_REPEATS_COUNTS_AS_ONE 8192 /* bytes */
#define TUG_REPEATS_REPLACED 256       /* kinds that have given way to newer ones before none do */

#define TUG_REPEATS_UNSETTLED 400 /* runs of a broadcast that finds its way, at most */

/* One of MPI_Barrier, Bcast, Reduce, Allreduce, Allgather and Alltoall as it was called. Fields as
 * in struct tug_collective. */
struct tug_repeat_side {
    const void *buffer;
    MPI_Count count;
    MPI_Datatype type;
};

struct tug_repeat_call {
    enum tug_collective_kind kind;
    struct tug_repeat_side send, receive;
    MPI_Op op;
    int root;
    MPI_Comm comm;
};

/* Calls so far, and what they come to. */
struct tug_repeat_count {
    unsigned calls, worth;
};

/* What calls are told apart by. */
struct tug_repeat_key {
    enum tug_collective_kind kind;
    int root;
    uint64_t bytes;          /* of the message, or of a block; 0: unused */
    tug_reduction reduction; /* of the operation and type; NULL: does not reduce */
};

/* What is kept for them. */
struct tug_repeat {
    struct tug_repeat_key key;
    enum { TUG_REPEAT_COUNTED, TUG_REPEAT_TUNED, TUG_REPEAT_HOSTS } state;
    struct tug_repeat_count before; /* COUNTED */
    struct tug_team *team;          /* while it is used */
    /* TUNED */
    struct tug_request *request;
    uint64_t rest;      /* calls to come before the next round, once the tuner has settled */
    unsigned taken;     /* 1 + the way of the last round; 0: none yet */
    unsigned unsettled; /* runs of a broadcast that has not found its way */
    struct tug_tuner tuner;
    struct {
        void *memory; /* for data that do not lie as plain bytes, or are needed twice */
        size_t bytes;
    } aside[2];
};

struct tug_repeats {
    struct tug_repeat kept[TUG_REPEATS_KEPT];
    unsigned next; /* to be replaced, if it is only counted */
    unsigned replaced;
};

/* What is to be known when the call is over. */
struct tug_repeat_turn {
    int error;
    struct tug_repeat *timed; /* NULL: nothing */
    uint64_t begin_ns;        /* 0: it does not count how long it takes */
};

/* True if the call has been done here, with its result in turn->error, of which the caller is to
 * tell the communicator's handler; false if it is the host's,
 * which also reports wrong arguments: then tug_repeat_end() is to be called behind it if
 * turn->timed is set. The same on all ranks of the communicator. */
bool tug_repeat_begin(const struct tug_repeat_call *call, struct tug_repeat_turn *turn);
void tug_repeat_end(const struct tug_repeat_turn *turn);

/* Lets go of all that is kept. Local. */
void tug_repeats_drop(struct tug_repeats *repeats);

#endif
