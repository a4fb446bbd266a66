#include "pmpi/grid.h"

#include <stdlib.h>

#include "base/settings.h"
#include "host/wait_group.h"
#include "host/handles.h"
#include "host/host.h"
#include "pmpi/blocking.h"
#include "pmpi/describe.h"
#include "pmpi/shim.h"

bool tug_grid_meets_twice(MPI_Comm comm) {
    int topology, axes, before, behind;
    if (!tug_settings.enabled || !tug_comm_is_one(comm) ||
        tug_host.Topo_test(comm, &topology) != MPI_SUCCESS || topology != MPI_CART ||
        tug_host.Cartdim_get(comm, &axes) != MPI_SUCCESS)
        return false;
    for (int axis = 0; axis < axes; axis++)
        if (tug_host.Cart_shift(comm, axis, 1, &before, &behind) == MPI_SUCCESS &&
            before == behind && before != MPI_PROC_NULL)
            return true;
    return false;
}

#ifndef OPEN_MPI

/* One direction of the MPI_Ialltoallw: a type for each rank, of all blocks to or from it. */
struct direction {
    const struct tug_side *side;
    const int *ranks;                        /* the neighbours, by block */
    const struct tug_neighbours *neighbours; /* of the receiving one; else NULL */
    int nblocks;
    int *counts; /* [nranks] 1 where there is a type */
    MPI_Datatype *types;
};

/* For the parts of one type, [nblocks] each. */
struct parts {
    MPI_Count *counts, *displs;
    MPI_Datatype *types;
};

/* The blocks of `rank`, in the order in which they go, as one type. */
static bool merge(const struct direction *d, int rank, const struct parts *parts) {
    int n = 0;
    for (int i = 0; i < d->nblocks; i++) {
        const int block = d->neighbours != NULL ? tug_neighbours_facing(d->neighbours, i) : i;
        const struct tug_side *side = d->side;
        if (d->ranks[block] != rank)
            continue;
        parts->types[n] = side->types != NULL ? side->types[block] : side->type;
        parts->counts[n] =
            side->counts.items != NULL ? tug_list_at(&side->counts, (uint32_t)block) : side->count;
        if (parts->counts[n] < 0 || !tug_type_is_one(parts->types[n]))
            return false;
        parts->displs[n++] = tug_side_place(side, (uint32_t)block);
    }
    if (tug_host.Type_create_struct_c(n, parts->counts, parts->displs, parts->types,
                                      &d->types[rank]) != MPI_SUCCESS)
        return false;
    d->counts[rank] = 1;
    return tug_host.Type_commit(&d->types[rank]) == MPI_SUCCESS;
}

static bool merge_all(const struct direction *d, const struct parts *parts) {
    bool good = true;
    for (int i = 0; i < d->nblocks && good; i++)
        if (d->ranks[i] != MPI_PROC_NULL && d->counts[d->ranks[i]] == 0)
            good = merge(d, d->ranks[i], parts);
    return good;
}

/* The lists go when the call returns: MPICH has read them by then, and holds the types. */
static bool exchange(const struct tug_collective *call, const struct tug_neighbours *neighbours,
                     MPI_Request *request, int *error) {
    int nranks = 0;
    tug_host.Comm_size(call->comm, &nranks);
    const size_t ranks = (size_t)nranks, blocks = (size_t)neighbours->nin + 1;
    int *lists = calloc(3 * ranks, sizeof(*lists)); /* counts of both, and displacements */
    MPI_Datatype *types = malloc((2 * ranks + blocks) * sizeof(*types));
    MPI_Count *numbers = malloc(2 * blocks * sizeof(*numbers));
    bool good = lists != NULL && types != NULL && numbers != NULL;
    if (good) {
        const struct parts parts = {numbers, numbers + blocks, types + 2 * ranks};
        const struct direction out = {&call->send,      neighbours->out, NULL,
                                      neighbours->nout, lists,           types};
        const struct direction in = {&call->receive,  neighbours->in, neighbours,
                                     neighbours->nin, lists + ranks,  types + ranks};
        for (size_t r = 0; r < 2 * ranks; r++)
            types[r] = MPI_BYTE;
        good = merge_all(&out, &parts) && merge_all(&in, &parts);
        if (good)
            *error = tug_host.Ialltoallw(call->send.buffer, out.counts, lists + 2 * ranks,
                                         out.types, (void *)call->receive.buffer, in.counts,
                                         lists + 2 * ranks, in.types, call->comm, request);
        for (size_t r = 0; r < 2 * ranks; r++)
            if (lists[r] > 0)
                tug_host.Type_free(&types[r]);
    }
    free(lists);
    free(types);
    free(numbers);
    return good;
}

bool tug_grid_exchange(const struct tug_collective *call, MPI_Request *request, int *error) {
    struct tug_neighbours neighbours = {0};
    bool good = tug_neighbours_get(call->comm, &neighbours) == 0 &&
                exchange(call, &neighbours, request, error);
    free(neighbours.in);
    free(neighbours.out);
    return good;
}

static int finish(MPI_Request *request, int error) {
    if (error != MPI_SUCCESS)
        return error;
    if (tug_waits_outside())
        return tug_blocking_wait(request, MPI_STATUS_IGNORE);
    return TUG_INSIDE_HOST(tug_host.Wait(request, MPI_STATUS_IGNORE));
}

#define DESCRIBED(KIND)                                                                            \
    const struct tug_collective call = {                                                           \
        .kind = TUG_COLLECTIVE_NEIGHBOR_##KIND, DESCRIBE_NEIGHBOR_##KIND, .comm = comm}

/* On such a grid from the call itself. */
#define ON_GRID(KIND)                                                                              \
    if (TUG_UNLIKELY(tug_grid_meets_twice(comm))) {                                                \
        MPI_Request request;                                                                       \
        int error;                                                                                 \
        DESCRIBED(KIND);                                                                           \
        if (tug_grid_exchange(&call, &request, &error))                                            \
            return finish(&request, error);                                                        \
    } else

#define TUG_CALL_NEIGHBOUR_BEGIN(KIND, Name, parameters, arguments)                                \
    int tug_shim_##Name parameters {                                                               \
        int error;                                                                                 \
        DESCRIBED(KIND);                                                                           \
        if (TUG_UNLIKELY(tug_grid_meets_twice(comm)) && request != NULL &&                         \
            tug_grid_exchange(&call, request, &error))                                             \
            return error;                                                                          \
        return tug_host.Name arguments;                                                            \
    }

#else

/* The host's blocking call, which is right, does not wait long. */
#define ON_GRID(KIND)                                                                              \
    if (tug_wait_group_has(comm) && tug_grid_meets_twice(comm))                                    \
        tug_blocking_meet(comm);                                                                   \
    else

#define TUG_CALL_NEIGHBOUR_BEGIN(KIND, Name, parameters, arguments)                                \
    int tug_shim_##Name parameters {                                                               \
        return tug_host.Name arguments;                                                            \
    }

#endif

#define TUG_CALL_NEIGHBOUR(KIND, Name, Twin, parameters, arguments)                                \
    int tug_shim_##Name parameters {                                                               \
        ON_GRID(KIND) if (tug_wait_group_has(comm)) {                                              \
            return TUG_TWIN(Twin, arguments);                                                      \
        }                                                                                          \
        return TUG_INSIDE_HOST(tug_host.Name arguments);                                           \
    }
#include "host/calls.def"
