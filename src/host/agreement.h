/* Agreement: what the ranks of a communicator find out together before they go on alike.
 *
 * Waits for the host from outside (polite.h). Collective over the communicator, in the order in
 * which the program's calls bring all ranks here; any thread that may make such a call.
 */
#ifndef TUG_HOST_AGREEMENT_H
#define TUG_HOST_AGREEMENT_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* Each of the n words becomes what they come to over all ranks: the largest (MPI_MAX), or all bits
 * that any has set (MPI_BOR). A word w that has to be alike goes with ~w beside it: alike it is if
 * that is still so. (MPICH 4.0.2 compares words without sign as if they had one.) An MPI error
 * class. */
int tug_agree(MPI_Comm comm, MPI_Op how, int64_t words[], int n);

/* True if this is true at every rank of the communicator, and MPI could tell. */
bool tug_all_agree(MPI_Comm comm, bool mine);

/* Has the host n communicators more? Asked where a thing of ours takes one: MPICH has ids for 2 048
 * in a process, and its MPI_Win_allocate_shared (4.0.2) ends in an assertion without. Collective,
 * the same answer on all ranks; comm's handler returns. */
bool tug_host_has_comms(MPI_Comm comm, int n);

#endif
