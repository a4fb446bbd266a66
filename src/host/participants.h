/* Participants: which processes of a communicator take part, and may make windows and persistent
 * requests together.
 *
 * A process takes part if the settings allow it and its host runs at MPI_THREAD_MULTIPLE. Others
 * run at their own level, since nothing in them called for the engine when MPI started, or are told
 * TUGBOAT=off: one program of a job of several, or ranks that open late what calls for it. What a
 * process that takes part does with one that does not stays the host's, on all of them alike.
 *
 * The ranks of MPI_COMM_WORLD tell one another in MPI_Init (world.h). From then on everybody knows
 * about communicators within the world. Those of processes of several worlds, or of processes that
 * have opened sessions only, find out when the first window or persistent request on them is made,
 * which all of them make together; that much is done by those that do not take part too.
 *
 * Any thread.
 */
#ifndef TUG_HOST_PARTICIPANTS_H
#define TUG_HOST_PARTICIPANTS_H

#include <mpi.h>
#include <stdbool.h>

/* Do all processes of the communicator take part? The same answer on all of them. To be asked by
 * all before they make something together that is ours where they do; collective the first time on
 * a communicator that reaches beyond the world. False for what is plainly no communicator, and for
 * inter-communicators. */
bool tug_all_take_part(MPI_Comm comm);

/* Is it known that all processes of the communicator take part? Local, so that one process may ask
 * by itself: false if that has not been found out yet. */
bool tug_all_known_to_take_part(MPI_Comm comm);

/* The same of a communicator within the world, and false for others: the same answer on all of its
 * processes, at any time. Local. */
bool tug_all_of_world_take_part(MPI_Comm comm);

/* The world's ranks have agreed: everybody takes part, or nobody, or some do. Collective over
 * MPI_COMM_WORLD, in MPI_Init; the same arguments on all ranks. */
void tug_participants_settle(bool somebody, bool everybody);

/* Those of the world that take part, this process among them. */
MPI_Comm tug_participants_world(void);

/* end_world: the world ends, but MPI may go on in sessions; finalize: MPI ends. */
void tug_participants_end_world(void);
void tug_participants_finalize(void);

#endif
