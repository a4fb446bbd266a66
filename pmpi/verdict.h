/* What the verdict (base/verdict.h) needs of a run: the time that calls take, and what the host MPI
 * would have taken for them.
 *
 * Threading: a call is timed by the thread that makes it; the rest is of MPI_Init and MPI_Finalize.
 */
#ifndef TUG_PMPI_VERDICT_H
#define TUG_PMPI_VERDICT_H

#include <mpi.h>

#include <stdint.h>

#include "base/verdict.h"

/* A timed call. One in another is part of it. */
struct tug_timed {
    uint64_t begin_ns; /* 0: not timed */
    uint64_t weight;   /* the number of calls that it stands for */
};

/* Of one-sided operations, of which a program may make millions, a thread's first 1024 are timed
 * and then one of 64. */
struct tug_timed tug_timed_begin(enum tug_time class);
void tug_timed_end(enum tug_time class, struct tug_timed timed);

/* Has every call timed from now on (pmpi/entry.c). Before other threads call MPI. */
void tug_entries_time(void);

/* MPI has been initialised, and the verdict is wanted. */
void tug_verdict_begin(void);

/* The engine is about to end. */
void tug_verdict_note_engine(void);

/* Gathers what all ranks have to say, and prints it on rank 0. Collective over the communicator;
 * MPI_COMM_NULL: what this process has to say. */
void tug_verdict_end(MPI_Comm comm);

#endif
