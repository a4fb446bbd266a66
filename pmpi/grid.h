/* Exchanges with the neighbours on a Cartesian grid on which a rank meets another, or itself, on
 * both sides of an axis: a period of one or two.
 *
 * What goes to one side arrives from the other side of the same axis. MPICH 4.0.2 to 4.2.1 takes
 * what comes from one rank in another order than that (MPI_Neighbor_alltoall where several axes
 * have a period of one, the others always); Open MPI 4.1 does in the nonblocking form. On such a
 * grid MPICH is given one MPI_Ialltoallw, in which all that goes to a rank is one message; the
 * blocking calls of Open MPI are not put into their nonblocking form. May go when no host that is
 * supported does so. Any thread.
 */
#ifndef TUG_PMPI_GRID_H
#define TUG_PMPI_GRID_H

#include <mpi.h>
#include <stdbool.h>

#include "persistent/collective.h"

/* Are two ranks of a grid neighbours twice? Local; false for what is no communicator. */
bool tug_grid_meets_twice(MPI_Comm comm);

/* Starts the exchange, on such a grid; *error is what the host said. False: it cannot be described
 * as it is, and is the host's to report. Collective. */
bool tug_grid_exchange(const struct tug_collective *call, MPI_Request *request, int *error);

#endif
