#include <stdlib.h>

#include "host/host.h"
#include "persistent/collective_private.h"
#include "tugboat/tugboat.h"

/* Both lists with room for so many. */
static int make_lists(struct tug_neighbours *neighbours, int nin, int nout) {
    neighbours->nin = nin;
    neighbours->nout = nout;
    neighbours->in = malloc(((size_t)nin + 1) * sizeof(int));
    neighbours->out = malloc(((size_t)nout + 1) * sizeof(int));
    return neighbours->in != NULL && neighbours->out != NULL ? 0 : TUG_ERR_NO_MEMORY;
}

static int check(int host_error) {
    return host_error == MPI_SUCCESS ? 0 : TUG_ERR_MPI;
}

static int get_cartesian(MPI_Comm comm, struct tug_neighbours *neighbours) {
    int dimensions = 0;
    int error = check(tug_host.Cartdim_get(comm, &dimensions));
    if (!error)
        error = make_lists(neighbours, 2 * dimensions, 2 * dimensions);
    for (int d = 0; d < dimensions && !error; d++) {
        int *pair = &neighbours->in[2 * (size_t)d];
        error = check(tug_host.Cart_shift(comm, d, 1, &pair[0], &pair[1]));
        neighbours->out[2 * (size_t)d] = pair[0];
        neighbours->out[2 * (size_t)d + 1] = pair[1];
    }
    neighbours->paired = true;
    return error;
}

static int get_graph(MPI_Comm comm, struct tug_neighbours *neighbours) {
    int n = 0, rank = 0;
    tug_host.Comm_rank(comm, &rank);
    int error = check(tug_host.Graph_neighbors_count(comm, rank, &n));
    if (!error)
        error = make_lists(neighbours, n, n);
    if (!error)
        error = check(tug_host.Graph_neighbors(comm, rank, n, neighbours->in));
    for (int i = 0; i < n && !error; i++)
        neighbours->out[i] = neighbours->in[i];
    return error;
}

static int get_distributed(MPI_Comm comm, struct tug_neighbours *neighbours) {
    int nin = 0, nout = 0, weighted = 0;
    int error = check(tug_host.Dist_graph_neighbors_count(comm, &nin, &nout, &weighted));
    if (!error)
        error = make_lists(neighbours, nin, nout);
    int *weights = malloc(((size_t)nin + (size_t)nout + 1) * sizeof(int));
    if (!error && weights == NULL)
        error = TUG_ERR_NO_MEMORY;
    if (!error)
        error = check(tug_host.Dist_graph_neighbors(comm, nin, neighbours->in, weights, nout,
                                                    neighbours->out, weights + nin));
    free(weights);
    return error;
}

int tug_neighbours_get(MPI_Comm comm, struct tug_neighbours *neighbours) {
    int topology = MPI_UNDEFINED;
    tug_host.Topo_test(comm, &topology);
    switch (topology) {
    case MPI_CART:
        return get_cartesian(comm, neighbours);
    case MPI_GRAPH:
        return get_graph(comm, neighbours);
    case MPI_DIST_GRAPH:
        return get_distributed(comm, neighbours);
    default:
        return TUG_ERR_UNSUPPORTED;
    }
}
