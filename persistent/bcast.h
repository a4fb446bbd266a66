/* Persistent broadcast: init compiles schedules for this rank, start hands one to the engine.
 *
 * How the message goes from node to node and from rank to rank inside of them is the model's choice
 * (model/choose.h), and after some twenty runs that of what was measured (model/tuner.h): schedules
 * of all candidates are compiled by init (schedule/bcast.h) and run by interpreters. Data that is
 * not contiguous is staged. Where the root's memory can be lent (lent.h) its node copies straight
 * out of it.
 */
#ifndef TUG_PERSISTENT_BCAST_H
#define TUG_PERSISTENT_BCAST_H

#include <mpi.h>

#include "node/team.h"
#include "request/request.h"

/* Collective over comm, after the host has accepted the same arguments; rebinds: it will be told to
 * use other buffers, by tug_bcast_rebind(), on all ranks or none. On success *request is
 * registered and inactive, on all ranks. Otherwise, on all ranks alike, a TUG_ERR_* and nothing is
 * left behind: TUG_ERR_UNSUPPORTED (an inter-communicator), TUG_ERR_NO_MEMORY, TUG_ERR_MPI. */
int tug_bcast_create(void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                     bool rebinds, struct tug_request **request);

/* The next run is on another buffer, with a message of the same size. An inactive request's. 0 or
 * an error class of MPI. */
int tug_bcast_rebind(struct tug_request *request, void *buffer, MPI_Count count,
                     MPI_Datatype datatype);

/* Bytes in a segment of a collective that goes through channels, unless TUGBOAT_SEGMENT says. Where
 * ranks take turns on the cores a segment costs everybody a turn: few and long ones. Otherwise:
 * segments long enough to hide the hand-over of one (a cache miss or two), short enough that the
 * ring stays in the second-level cache and a message has several. */
size_t tug_segment_for(const struct tug_team *team, size_t bytes);

#endif
