/* Persistent collectives: from MPI's arguments to a schedule that runs.
 *
 * Init works out what every block of data is (areas), has a schedule compiled and takes a channel;
 * start hands it to the engine. A broadcast has several schedules, of which its runs find the
 * fastest (candidates.h); data of a broadcast that is not contiguous is staged; where the root's
 * memory can be lent (node/lent.h) its node copies straight out of it. Reductions and Allgather use
 * the node's channels and need data that is plain bytes. What MPI has to describe, and all that is
 * not the same for all ranks, travels as blocks between ranks (collective_blocks.c).
 */
#ifndef TUG_PERSISTENT_COLLECTIVE_H
#define TUG_PERSISTENT_COLLECTIVE_H

#include <mpi.h>
#include <stdbool.h>

#include "request/request.h"

enum tug_collective_kind {
    TUG_COLLECTIVE_BARRIER,
    TUG_COLLECTIVE_BCAST,
    TUG_COLLECTIVE_REDUCE,
    TUG_COLLECTIVE_ALLREDUCE,
    TUG_COLLECTIVE_SCAN,
    TUG_COLLECTIVE_EXSCAN,
    TUG_COLLECTIVE_REDUCE_SCATTER_BLOCK,
    TUG_COLLECTIVE_REDUCE_SCATTER,
    TUG_COLLECTIVE_ALLGATHER,
    TUG_COLLECTIVE_ALLGATHERV,
    TUG_COLLECTIVE_GATHER,
    TUG_COLLECTIVE_GATHERV,
    TUG_COLLECTIVE_SCATTER,
    TUG_COLLECTIVE_SCATTERV,
    TUG_COLLECTIVE_ALLTOALL,
    TUG_COLLECTIVE_ALLTOALLV,
    TUG_COLLECTIVE_ALLTOALLW,
    TUG_COLLECTIVE_NEIGHBOR_ALLGATHER,
    TUG_COLLECTIVE_NEIGHBOR_ALLGATHERV,
    TUG_COLLECTIVE_NEIGHBOR_ALLTOALL,
    TUG_COLLECTIVE_NEIGHBOR_ALLTOALLV,
    TUG_COLLECTIVE_NEIGHBOR_ALLTOALLW,
};

/* A list of the program's: int, or what the large-count calls take. */
struct tug_list {
    const void *items; /* NULL: no list */
    bool large;
};

static inline MPI_Count tug_list_at(const struct tug_list *list, uint32_t i) {
    return list->large ? ((const MPI_Count *)list->items)[i] : ((const int *)list->items)[i];
}

#define TUG_LIST(array)                                                                            \
    { (array), sizeof(*(array)) > sizeof(int) }

/* One side of a collective as the program describes it. */
struct tug_side {
    const void *buffer; /* MPI_IN_PLACE among others */
    MPI_Count count;    /* of every block, without a list */
    MPI_Datatype type;
    struct tug_list counts;
    struct tug_list displs; /* in elements; in bytes if there are types; none: block after block */
    const MPI_Datatype *types; /* or NULL: type */
};

/* Where the i-th block begins, in bytes behind the buffer. */
MPI_Count tug_side_place(const struct tug_side *side, uint32_t i);

struct tug_collective {
    enum tug_collective_kind kind;
    struct tug_side send, receive; /* reductions: receive, and send.buffer; a broadcast: receive */
    MPI_Op op;
    int root;
    MPI_Comm comm;
    bool runs_user_code; /* the engine may call the program's operations on any thread */
    bool rebinds; /* each run is on buffers of its own (tug_collective_rebind()): a barrier, or of
                     plain bytes a broadcast, allgather or alltoall, or a reduction that is ours */
};

/* Collective over the communicator, after the host has accepted the same arguments: *host is its
 * request, which remains the caller's on failure; NULL: it was not asked for one. On success it is
 * freed, or kept for as long as the operation has to live, and *request is registered and inactive,
 * on all ranks. Otherwise, on all ranks alike, a TUG_ERR_* and nothing is left behind:
 * TUG_ERR_UNSUPPORTED, TUG_ERR_INVALID (a rank's part cannot be done), TUG_ERR_NO_MEMORY,
 * TUG_ERR_MPI. */
int tug_collective_create(const struct tug_collective *call, MPI_Request *host,
                          struct tug_request **request);

/* Where the next run of one that rebinds sends from and receives into (a broadcast: the second). In
 * place they are the same. An inactive request's; before every run. */
void tug_collective_rebind(struct tug_request *request, const void *input, void *output);

/* Nothing is tried in the next run by which it could differ from others. The same on all ranks. */
bool tug_collective_is_settled(const struct tug_request *request);

/* For people. */
const char *tug_collective_name(enum tug_collective_kind kind);

/* The neighbours of this rank: allocated lists, in the order of the blocks. MPI_PROC_NULL stands
 * where a Cartesian topology ends. */
struct tug_neighbours {
    int *in, *out;
    int nin, nout;
    bool paired; /* Cartesian: see tug_neighbours_facing() */
};

/* 0, TUG_ERR_NO_MEMORY, TUG_ERR_MPI, or TUG_ERR_UNSUPPORTED: there is no topology. The lists are
 * the caller's to free, whatever comes back. */
int tug_neighbours_get(MPI_Comm comm, struct tug_neighbours *neighbours);

/* The block that receives what a neighbour sends as its i-th block to this rank: what is sent
 * downwards along an axis arrives from above. It matters where both neighbours on an axis are the
 * same rank. */
static inline int tug_neighbours_facing(const struct tug_neighbours *neighbours, int i) {
    return neighbours->paired ? i ^ 1 : i;
}

#endif
