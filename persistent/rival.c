#include "persistent/rival.h"

#include <stdlib.h>

#include "base/settings.h"
#include "host/host.h"
#include "host/reduction.h"
#include "node/team.h"

static bool is_signed(MPI_Datatype type) {
    return type == MPI_INT || type == MPI_LONG || type == MPI_LONG_LONG || type == MPI_SHORT ||
           type == MPI_INT32_T || type == MPI_INT64_T || type == MPI_INTEGER;
}

/* Two numbers have one order only. (MPICH 4.0.2 compares integers without sign as if they had one.)
 */
bool tug_rival_has_one_result(MPI_Op op, MPI_Datatype type, int nranks) {
    if (op == MPI_MAX || op == MPI_MIN)
        return is_signed(type);
    if (op == MPI_SUM && (type == MPI_FLOAT || type == MPI_DOUBLE))
        return nranks == 2;
    return (op == MPI_SUM || op == MPI_PROD || op == MPI_BAND || op == MPI_BOR || op == MPI_BXOR) &&
           tug_reduction_compares(type) && tug_reduction_find(op, type) != NULL;
}

#ifndef OPEN_MPI

/* Kinds whose requests of the host do what they should from the second start on.
 *
 * MPICH 4.0.2: Gather, Scatter and Allgather bring what the first start has sent, Reduce_scatter
 * aborts in place, Neighbor_alltoallw brings wrong data or nothing, Neighbor_alltoall and
 * Neighbor_alltoallv may mix up the blocks of a neighbour that is one twice. 4.2.1 has the first
 * two of these too. */
static bool is_kind_right(enum tug_collective_kind kind) {
    switch (kind) {
    case TUG_COLLECTIVE_BARRIER:
    case TUG_COLLECTIVE_BCAST:
    case TUG_COLLECTIVE_REDUCE:
    case TUG_COLLECTIVE_ALLREDUCE:
    case TUG_COLLECTIVE_SCAN:
    case TUG_COLLECTIVE_EXSCAN:
    case TUG_COLLECTIVE_REDUCE_SCATTER_BLOCK:
    case TUG_COLLECTIVE_ALLGATHERV:
    case TUG_COLLECTIVE_GATHERV:
    case TUG_COLLECTIVE_SCATTERV:
    case TUG_COLLECTIVE_ALLTOALL:
    case TUG_COLLECTIVE_ALLTOALLV:
    case TUG_COLLECTIVE_ALLTOALLW:
    case TUG_COLLECTIVE_NEIGHBOR_ALLGATHER:
    case TUG_COLLECTIVE_NEIGHBOR_ALLGATHERV:
    case TUG_COLLECTIVE_NEIGHBOR_ALLTOALL:
    case TUG_COLLECTIVE_NEIGHBOR_ALLTOALLV:
        return true;
    default:
        return false;
    }
}

static bool reduces(enum tug_collective_kind kind) {
    return kind >= TUG_COLLECTIVE_REDUCE && kind <= TUG_COLLECTIVE_REDUCE_SCATTER;
}

struct numbered {
    int rank, number;
};

static int compare(const void *left, const void *right) {
    const struct numbered *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* No rank is twice in the list, or, by_axis, only at both sides of an axis of a grid. */
static bool are_distinct(const int ranks[], int n, bool by_axis) {
    struct numbered *sorted = malloc(((size_t)n + 1) * sizeof(*sorted));
    if (sorted == NULL)
        return false;
    for (int i = 0; i < n; i++)
        sorted[i] = (struct numbered){ranks[i], i};
    qsort(sorted, (size_t)n, sizeof(*sorted), compare);
    bool distinct = true;
    for (int i = 1; i < n; i++) {
        const bool same = sorted[i].rank == sorted[i - 1].rank && sorted[i].rank != MPI_PROC_NULL;
        const bool one_axis = sorted[i].number / 2 == sorted[i - 1].number / 2;
        distinct &= !same || (by_axis && one_axis);
    }
    free(sorted);
    return distinct;
}

/* What is sent to a rank twice arrives in the other order: on the sides of an axis that is right,
 * in Neighbor_alltoall. */
static bool is_right_for_neighbours(const struct tug_collective *call) {
    struct tug_neighbours neighbours = {0};
    bool right = tug_neighbours_get(call->comm, &neighbours) == 0;
    const bool by_axis = neighbours.paired && call->kind == TUG_COLLECTIVE_NEIGHBOR_ALLTOALL;
    right = right && are_distinct(neighbours.in, neighbours.nin, by_axis) &&
            are_distinct(neighbours.out, neighbours.nout, by_axis);
    free(neighbours.in);
    free(neighbours.out);
    return right;
}

/* MPICH 4.0.2 cuts long blocks of an Allgatherv by the extent of the type, as each rank describes
 * it: pieces of ranks that describe it differently do not meet (wrong data, errors, a hang). With
 * elements of a power of two, and nothing between them, all cut at the same bytes. */
#define CUT_BYTES 32768
static bool is_cut_alike(MPI_Datatype type) {
    MPI_Count lb, extent, size;
    return tug_host.Type_size_c(type, &size) == MPI_SUCCESS &&
           tug_host.Type_get_extent_c(type, &lb, &extent) == MPI_SUCCESS && extent == size &&
           size > 0 && size <= CUT_BYTES && (size & (size - 1)) == 0;
}

static bool is_in_place(const struct tug_collective *call) {
    return call->send.buffer == MPI_IN_PLACE || call->receive.buffer == MPI_IN_PLACE;
}

/* MPICH 4.0.2 copies what an Alltoallw in place sends when the request is made: every start sends
 * that. In place only reductions are the host's. */
static bool is_right(const struct tug_collective *call) {
    if (!is_kind_right(call->kind) || (is_in_place(call) && !reduces(call->kind)))
        return false;
    switch (call->kind) {
    case TUG_COLLECTIVE_ALLGATHERV:
        return is_cut_alike(call->receive.type);
    case TUG_COLLECTIVE_NEIGHBOR_ALLTOALL:
    case TUG_COLLECTIVE_NEIGHBOR_ALLTOALLV:
        return is_right_for_neighbours(call);
    default:
        return true;
    }
}

static bool choice_is_fixed(void) {
    return tug_settings.pipelines != TUG_PIPELINES_AUTO || tug_settings.phases != TUG_PHASES_AUTO ||
           tug_settings.segment_bytes != 0;
}

bool tug_rival_may_run(const struct tug_collective *call, const struct tug_team *team) {
    if (!is_right(call))
        return false;
    if (team->oversubscribed || team->nranks < 2)
        return false;
    if (call->kind == TUG_COLLECTIVE_BCAST && choice_is_fixed())
        return false;
    return !reduces(call->kind) ||
           tug_rival_has_one_result(call->op, call->receive.type, team->nranks);
}

#else

/* Its persistent collectives crash and hang. */
bool tug_rival_may_run(const struct tug_collective *call, const struct tug_team *team) {
    (void)call;
    (void)team;
    return false;
}

#endif
