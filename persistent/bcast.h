/* Persistent broadcast: init compiles a schedule for this rank, start hands it to the engine.
 *
 * Inside a node the node's first holder of the data (the root, or the node's leader) publishes
 * segments into a ring in shared memory; the other local ranks collect them, overlapped. Between
 * nodes the segments are relayed along a chain of nodes (bucket relay; Morie et al., section 4) by
 * the host's two-sided calls on the team's private communicator; a segment is passed on and
 * published as soon as it has arrived.
 */
#ifndef TUG_PERSISTENT_BCAST_H
#define TUG_PERSISTENT_BCAST_H

#include <mpi.h>

#include "persistent/request.h"

/* Collective over comm, after the host has accepted the same arguments. On success *request is
 * registered and inactive, on all ranks. Otherwise, on all ranks alike, a TUG_ERR_* and nothing is
 * left behind: TUG_ERR_UNSUPPORTED (an inter-communicator), TUG_ERR_NO_MEMORY, TUG_ERR_MPI. */
int tug_bcast_create(void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                     struct tug_request **request);

#endif
