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
#include "persistent/team.h"

/* Collective over comm, after the host has accepted the same arguments. On success *request is
 * registered and inactive, on all ranks. Otherwise, on all ranks alike, a TUG_ERR_* and nothing is
 * left behind: TUG_ERR_UNSUPPORTED (an inter-communicator), TUG_ERR_NO_MEMORY, TUG_ERR_MPI. */
int tug_bcast_create(void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                     struct tug_request **request);

/* Bytes in a segment of a collective that goes through channels, unless TUGBOAT_SEGMENT says. Where
 * ranks take turns on the cores, a longer ring saves more turns than the cache saves time.
 * Otherwise: segments long enough to hide the hand-over of one (a cache miss or two), short enough
 * that the ring stays in the second-level cache and a message has several. */
size_t tug_segment_for(const struct tug_team *team, size_t bytes);

#endif
