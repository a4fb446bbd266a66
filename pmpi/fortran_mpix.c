/* The MPIX_ names in Fortran: MPIX_ALLREDUCE_INIT(SENDBUF, ..., REQUEST, IERROR) and its like, in
 * the manglings of common compilers.
 *
 * Types of mpi_f08 have the representation of an integer, so the same entries serve them; IERROR
 * may be absent (a null pointer). Lists are read before the call returns.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "host/host.h"
#include "persistent/collective.h"
#include "tugboat/mpix.h"

/* MPI_BOTTOM and MPI_IN_PLACE are addresses of common blocks in Fortran. MPICH's classic bindings
 * keep each in a variable, those of mpi_f08 take a variable's own; Open MPI's all take the block.
 */
static void *translate(void *buffer) {
    static const struct {
        const char *classic, *own;
        void *value;
    } special[] = {
#ifndef OPEN_MPI
        {"MPIR_F_MPI_BOTTOM", "MPIR_F08_MPI_BOTTOM", MPI_BOTTOM},
        {"MPIR_F_MPI_IN_PLACE", "MPIR_F08_MPI_IN_PLACE", MPI_IN_PLACE},
#else
        {NULL, "mpi_fortran_bottom_", MPI_BOTTOM},
        {NULL, "mpi_fortran_in_place_", MPI_IN_PLACE},
#endif
    };
    for (int i = 0; i < 2; i++) {
        void **classic =
            special[i].classic == NULL ? NULL : dlsym(RTLD_DEFAULT, special[i].classic);
        void *own = dlsym(RTLD_DEFAULT, special[i].own);
        if ((classic != NULL && buffer == *classic) || (own != NULL && buffer == own))
            return special[i].value;
    }
    return buffer;
}

/* ---- handles: Fortran's are integers ---- */

/* Lists of datatypes that a call needs in C; freed when it is over. */
struct type_lists {
    MPI_Datatype *made[2];
};

#ifndef OPEN_MPI
#define TYPE(fortran) (*(fortran))
#define OP(fortran) (*(fortran))
#define COMM(fortran) (*(fortran))
#define INFO(fortran) (*(fortran))
#define REQUEST_TO_F(request) (request)
#define TYPES(i, kind, fortran) (fortran)
#else
#define TYPE(fortran) tug_host.Type_f2c(*(fortran))
#define OP(fortran) tug_host.Op_f2c(*(fortran))
#define COMM(fortran) tug_host.Comm_f2c(*(fortran))
#define INFO(fortran) tug_host.Info_f2c(*(fortran))
#define REQUEST_TO_F(request) tug_host.Request_c2f(request)
#define TYPES(i, kind, fortran)                                                                    \
    (lists.made[i] = types_in_c(fortran, kind(tug_host.Comm_f2c(*comm), (i) == 0)))

/* With how many a rank exchanges; in a list of what it receives (or sends). */
static int ranks_of(MPI_Comm comm, bool sent) {
    int inter = 0, n = 0;
    (void)sent;
    tug_host.Comm_test_inter(comm, &inter);
    if (!inter) {
        tug_host.Comm_size(comm, &n);
    } else {
        MPI_Group remote;
        if (tug_host.Comm_remote_group(comm, &remote) == MPI_SUCCESS) {
            tug_host.Group_size(remote, &n);
            tug_host.Group_free(&remote);
        }
    }
    return n;
}

static int neighbours_of(MPI_Comm comm, bool sent) {
    struct tug_neighbours neighbours = {0};
    int error = tug_neighbours_get(comm, &neighbours);
    free(neighbours.in);
    free(neighbours.out);
    return error ? 0 : sent ? neighbours.nout : neighbours.nin;
}

/* NULL without memory: the call then fails. */
static MPI_Datatype *types_in_c(const MPI_Fint *fortran, int n) {
    MPI_Datatype *types = malloc(((size_t)n + 1) * sizeof(MPI_Datatype));
    for (int i = 0; i < n && types != NULL; i++)
        types[i] = tug_host.Type_f2c(fortran[i]);
    return types;
}
#endif

typedef const MPI_Fint integer;

/* One call: its Fortran name, its name, Fortran's parameters, their names, and C's arguments. */
#define ENTRY(lower, Name, parameters, arguments, in_c)                                            \
    typedef void lower##_init parameters;                                                          \
    TUG_API lower##_init mpix_##lower##_init_, mpix_##lower##_init__, pmpix_##lower##_init_,       \
        pmpix_##lower##_init__;                                                                    \
    void pmpix_##lower##_init_ parameters {                                                        \
        struct type_lists lists = {{NULL, NULL}};                                                  \
        MPI_Request made;                                                                          \
        int error = MPI_ERR_OTHER; /* of another host, whose handles differ */                     \
        if (tug_host_family() == TUG_FAMILY_BUILT_FOR)                                             \
            error = PMPIX_##Name##_init in_c;                                                      \
        if (error == MPI_SUCCESS)                                                                  \
            *request = REQUEST_TO_F(made);                                                         \
        free(lists.made[0]);                                                                       \
        free(lists.made[1]);                                                                       \
        if (ierror != NULL)                                                                        \
            *ierror = error;                                                                       \
    }                                                                                              \
    void mpix_##lower##_init_ parameters {                                                         \
        pmpix_##lower##_init_ arguments;                                                           \
    }                                                                                              \
    void mpix_##lower##_init__ parameters {                                                        \
        pmpix_##lower##_init_ arguments;                                                           \
    }                                                                                              \
    void pmpix_##lower##_init__ parameters {                                                       \
        pmpix_##lower##_init_ arguments;                                                           \
    }

#define LAST integer *comm, integer *info, MPI_Fint *request, MPI_Fint *ierror
#define LAST_IN_C COMM(comm), INFO(info), &made

ENTRY(bcast, Bcast, (void *buffer, integer *count, integer *datatype, integer *root, LAST),
      (buffer, count, datatype, root, comm, info, request, ierror),
      (translate(buffer), *count, TYPE(datatype), *root, LAST_IN_C))
ENTRY(barrier, Barrier, (LAST), (comm, info, request, ierror), (LAST_IN_C))
ENTRY(allreduce, Allreduce,
      (void *sendbuf, void *recvbuf, integer *count, integer *datatype, integer *op, LAST),
      (sendbuf, recvbuf, count, datatype, op, comm, info, request, ierror),
      (translate(sendbuf), translate(recvbuf), *count, TYPE(datatype), OP(op), LAST_IN_C))
ENTRY(reduce, Reduce,
      (void *sendbuf, void *recvbuf, integer *count, integer *datatype, integer *op, integer *root,
       LAST),
      (sendbuf, recvbuf, count, datatype, op, root, comm, info, request, ierror),
      (translate(sendbuf), translate(recvbuf), *count, TYPE(datatype), OP(op), *root, LAST_IN_C))
ENTRY(scan, Scan,
      (void *sendbuf, void *recvbuf, integer *count, integer *datatype, integer *op, LAST),
      (sendbuf, recvbuf, count, datatype, op, comm, info, request, ierror),
      (translate(sendbuf), translate(recvbuf), *count, TYPE(datatype), OP(op), LAST_IN_C))
ENTRY(exscan, Exscan,
      (void *sendbuf, void *recvbuf, integer *count, integer *datatype, integer *op, LAST),
      (sendbuf, recvbuf, count, datatype, op, comm, info, request, ierror),
      (translate(sendbuf), translate(recvbuf), *count, TYPE(datatype), OP(op), LAST_IN_C))
ENTRY(reduce_scatter_block, Reduce_scatter_block,
      (void *sendbuf, void *recvbuf, integer *recvcount, integer *datatype, integer *op, LAST),
      (sendbuf, recvbuf, recvcount, datatype, op, comm, info, request, ierror),
      (translate(sendbuf), translate(recvbuf), *recvcount, TYPE(datatype), OP(op), LAST_IN_C))
ENTRY(reduce_scatter, Reduce_scatter,
      (void *sendbuf, void *recvbuf, integer *recvcounts, integer *datatype, integer *op, LAST),
      (sendbuf, recvbuf, recvcounts, datatype, op, comm, info, request, ierror),
      (translate(sendbuf), translate(recvbuf), recvcounts, TYPE(datatype), OP(op), LAST_IN_C))
ENTRY(allgather, Allgather,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcount,
       integer *recvtype, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, info, request, ierror),
      (translate(sendbuf), *sendcount, TYPE(sendtype), translate(recvbuf), *recvcount,
       TYPE(recvtype), LAST_IN_C))
ENTRY(allgatherv, Allgatherv,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcounts,
       integer *displs, integer *recvtype, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, info, request,
       ierror),
      (translate(sendbuf), *sendcount, TYPE(sendtype), translate(recvbuf), recvcounts, displs,
       TYPE(recvtype), LAST_IN_C))
ENTRY(gather, Gather,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcount,
       integer *recvtype, integer *root, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, info, request,
       ierror),
      (translate(sendbuf), *sendcount, TYPE(sendtype), translate(recvbuf), *recvcount,
       TYPE(recvtype), *root, LAST_IN_C))
ENTRY(gatherv, Gatherv,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcounts,
       integer *displs, integer *recvtype, integer *root, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm, info,
       request, ierror),
      (translate(sendbuf), *sendcount, TYPE(sendtype), translate(recvbuf), recvcounts, displs,
       TYPE(recvtype), *root, LAST_IN_C))
ENTRY(scatter, Scatter,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcount,
       integer *recvtype, integer *root, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, info, request,
       ierror),
      (translate(sendbuf), *sendcount, TYPE(sendtype), translate(recvbuf), *recvcount,
       TYPE(recvtype), *root, LAST_IN_C))
ENTRY(scatterv, Scatterv,
      (void *sendbuf, integer *sendcounts, integer *displs, integer *sendtype, void *recvbuf,
       integer *recvcount, integer *recvtype, integer *root, LAST),
      (sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm, info,
       request, ierror),
      (translate(sendbuf), sendcounts, displs, TYPE(sendtype), translate(recvbuf), *recvcount,
       TYPE(recvtype), *root, LAST_IN_C))
ENTRY(alltoall, Alltoall,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcount,
       integer *recvtype, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, info, request, ierror),
      (translate(sendbuf), *sendcount, TYPE(sendtype), translate(recvbuf), *recvcount,
       TYPE(recvtype), LAST_IN_C))
ENTRY(alltoallv, Alltoallv,
      (void *sendbuf, integer *sendcounts, integer *sdispls, integer *sendtype, void *recvbuf,
       integer *recvcounts, integer *rdispls, integer *recvtype, LAST),
      (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm, info,
       request, ierror),
      (translate(sendbuf), sendcounts, sdispls, TYPE(sendtype), translate(recvbuf), recvcounts,
       rdispls, TYPE(recvtype), LAST_IN_C))
ENTRY(alltoallw, Alltoallw,
      (void *sendbuf, integer *sendcounts, integer *sdispls, integer *sendtypes, void *recvbuf,
       integer *recvcounts, integer *rdispls, integer *recvtypes, LAST),
      (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm, info,
       request, ierror),
      (translate(sendbuf), sendcounts, sdispls, TYPES(0, ranks_of, sendtypes), translate(recvbuf),
       recvcounts, rdispls, TYPES(1, ranks_of, recvtypes), LAST_IN_C))
ENTRY(neighbor_allgather, Neighbor_allgather,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcount,
       integer *recvtype, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, info, request, ierror),
      (translate(sendbuf), *sendcount, TYPE(sendtype), translate(recvbuf), *recvcount,
       TYPE(recvtype), LAST_IN_C))
ENTRY(neighbor_allgatherv, Neighbor_allgatherv,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcounts,
       integer *displs, integer *recvtype, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, info, request,
       ierror),
      (translate(sendbuf), *sendcount, TYPE(sendtype), translate(recvbuf), recvcounts, displs,
       TYPE(recvtype), LAST_IN_C))
ENTRY(neighbor_alltoall, Neighbor_alltoall,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcount,
       integer *recvtype, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, info, request, ierror),
      (translate(sendbuf), *sendcount, TYPE(sendtype), translate(recvbuf), *recvcount,
       TYPE(recvtype), LAST_IN_C))
ENTRY(neighbor_alltoallv, Neighbor_alltoallv,
      (void *sendbuf, integer *sendcounts, integer *sdispls, integer *sendtype, void *recvbuf,
       integer *recvcounts, integer *rdispls, integer *recvtype, LAST),
      (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm, info,
       request, ierror),
      (translate(sendbuf), sendcounts, sdispls, TYPE(sendtype), translate(recvbuf), recvcounts,
       rdispls, TYPE(recvtype), LAST_IN_C))
ENTRY(neighbor_alltoallw, Neighbor_alltoallw,
      (void *sendbuf, integer *sendcounts, const MPI_Aint *sdispls, integer *sendtypes,
       void *recvbuf, integer *recvcounts, const MPI_Aint *rdispls, integer *recvtypes, LAST),
      (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm, info,
       request, ierror),
      (translate(sendbuf), sendcounts, sdispls, TYPES(0, neighbours_of, sendtypes),
       translate(recvbuf), recvcounts, rdispls, TYPES(1, neighbours_of, recvtypes), LAST_IN_C))
