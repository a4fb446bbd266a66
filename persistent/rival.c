#include "persistent/rival.h"

#include "base/settings.h"
#include "host/reduction.h"
#include "node/team.h"
#include "request/twin.h"

/* MPICH 4.0.2: Gather, Scatter and Allgather bring what the first start has sent, Reduce_scatter
 * aborts in place, neighbours on a grid with a side of one or two are mixed up. 4.2.1 has the first
 * two of these too. Open MPI 4.1 has been tried for the first four only. */
bool tug_rival_is_right(enum tug_collective_kind kind) {
    switch (kind) {
    case TUG_COLLECTIVE_BARRIER:
    case TUG_COLLECTIVE_BCAST:
    case TUG_COLLECTIVE_REDUCE:
    case TUG_COLLECTIVE_ALLREDUCE:
        return true;
#ifndef OPEN_MPI
    case TUG_COLLECTIVE_SCAN:
    case TUG_COLLECTIVE_EXSCAN:
    case TUG_COLLECTIVE_REDUCE_SCATTER_BLOCK:
    case TUG_COLLECTIVE_ALLGATHERV:
    case TUG_COLLECTIVE_GATHERV:
    case TUG_COLLECTIVE_SCATTERV:
    case TUG_COLLECTIVE_ALLTOALL:
    case TUG_COLLECTIVE_ALLTOALLV:
    case TUG_COLLECTIVE_ALLTOALLW:
        return true;
#endif
    default:
        return false;
    }
}

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

static bool reduces(enum tug_collective_kind kind) {
    return kind >= TUG_COLLECTIVE_REDUCE && kind <= TUG_COLLECTIVE_REDUCE_SCATTER;
}

static bool choice_is_fixed(void) {
    return tug_settings.pipelines != TUG_PIPELINES_AUTO || tug_settings.phases != TUG_PHASES_AUTO ||
           tug_settings.segment_bytes != 0;
}

bool tug_rival_may_run(const struct tug_collective *call, const struct tug_team *team) {
    if (tug_twin_on || team->oversubscribed || team->nranks < 2 || !tug_rival_is_right(call->kind))
        return false;
    if (call->kind == TUG_COLLECTIVE_BCAST && choice_is_fixed())
        return false;
    return !reduces(call->kind) ||
           tug_rival_has_one_result(call->op, call->receive.type, team->nranks);
}

#else

/* Its persistent collectives crash and hang. */
bool tug_rival_may_run(const struct tug_collective *call, const struct tug_team *team) {
    (void)call, (void)team;
    return false;
}

#endif
