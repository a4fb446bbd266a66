/* How long a short message takes between nodes: the host's, between the first ranks of each. */
#ifndef TUG_NODE_PINGS_H
#define TUG_NODE_PINGS_H

#include <mpi.h>
#include <stdint.h>

#include "schedule/places.h"

/* times: [nnodes * nnodes], filled above the diagonal: microseconds there and back, the least of
 * some; 0: it could not be measured. The same on all ranks. Every pair takes some round trips, as
 * many pairs at a time as there can be: with 64 nodes about 20 ms. Collective over all ranks of the
 * places, on a communicator on which nothing else is under way. */
void tug_pings_measure(MPI_Comm comm, uint32_t rank, const struct tug_places *places, float *times);

#endif
