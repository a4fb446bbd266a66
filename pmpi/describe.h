/* From the arguments of a collective call, by their names, to a description of it: DESCRIBE_KIND
 * are initialisers of a struct tug_collective. */
#ifndef TUG_PMPI_DESCRIBE_H
#define TUG_PMPI_DESCRIBE_H

#include "persistent/collective.h"

#define SIDE(address, number, of)                                                                  \
    { .buffer = (address), .count = (number), .type = (of) }
#define SIDE_V(address, numbers, offsets, of)                                                      \
    { .buffer = (address), .type = (of), .counts = TUG_LIST(numbers), .displs = TUG_LIST(offsets) }
#define SIDE_W(address, numbers, offsets, of)                                                      \
    { .buffer = (address), .types = (of), .counts = TUG_LIST(numbers), .displs = TUG_LIST(offsets) }
#define REDUCTION(number)                                                                          \
    .send = {.buffer = sendbuf}, .receive = SIDE(recvbuf, number, datatype), .op = op
#define SEND SIDE(sendbuf, sendcount, sendtype)
#define RECEIVE SIDE(recvbuf, recvcount, recvtype)

#define DESCRIBE_BARRIER .root = 0
#define DESCRIBE_BCAST .receive = SIDE(buffer, count, datatype), .root = root
#define DESCRIBE_REDUCE REDUCTION(count), .root = root
#define DESCRIBE_ALLREDUCE REDUCTION(count)
#define DESCRIBE_SCAN REDUCTION(count)
#define DESCRIBE_EXSCAN REDUCTION(count)
#define DESCRIBE_REDUCE_SCATTER_BLOCK REDUCTION(recvcount)
#define DESCRIBE_REDUCE_SCATTER REDUCTION(0), .receive.counts = TUG_LIST(recvcounts)
#define DESCRIBE_ALLGATHER .send = SEND, .receive = RECEIVE
#define DESCRIBE_ALLGATHERV .send = SEND, .receive = SIDE_V(recvbuf, recvcounts, displs, recvtype)
#define DESCRIBE_GATHER DESCRIBE_ALLGATHER, .root = root
#define DESCRIBE_GATHERV DESCRIBE_ALLGATHERV, .root = root
#define DESCRIBE_SCATTER DESCRIBE_ALLGATHER, .root = root
#define DESCRIBE_SCATTERV                                                                          \
    .send = SIDE_V(sendbuf, sendcounts, displs, sendtype), .receive = RECEIVE, .root = root
#define DESCRIBE_ALLTOALL DESCRIBE_ALLGATHER
#define DESCRIBE_ALLTOALLV                                                                         \
    .send = SIDE_V(sendbuf, sendcounts, sdispls, sendtype),                                        \
    .receive = SIDE_V(recvbuf, recvcounts, rdispls, recvtype)
#define DESCRIBE_ALLTOALLW                                                                         \
    .send = SIDE_W(sendbuf, sendcounts, sdispls, sendtypes),                                       \
    .receive = SIDE_W(recvbuf, recvcounts, rdispls, recvtypes)
#define DESCRIBE_NEIGHBOR_ALLGATHER DESCRIBE_ALLGATHER
#define DESCRIBE_NEIGHBOR_ALLGATHERV DESCRIBE_ALLGATHERV
#define DESCRIBE_NEIGHBOR_ALLTOALL DESCRIBE_ALLTOALL
#define DESCRIBE_NEIGHBOR_ALLTOALLV DESCRIBE_ALLTOALLV
#define DESCRIBE_NEIGHBOR_ALLTOALLW DESCRIBE_ALLTOALLW

#endif
