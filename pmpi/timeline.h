/* The timeline's file (base/trace.h), which is written when MPI ends. */
#ifndef TUG_PMPI_TIMELINE_H
#define TUG_PMPI_TIMELINE_H

#include <mpi.h>

/* Ends the trace, and writes the events of all ranks of the communicator to the file of
 * TUGBOAT_TRACE, at its rank 0, which holds one rank's text at a time. Nothing, if there is no
 * trace. Collective; the engine is down. MPI_COMM_NULL: the ranks do not trace alike, and this
 * process writes a file of its own, whose name has its process number before ".json". */
void tug_timeline_write(MPI_Comm comm);

#endif
