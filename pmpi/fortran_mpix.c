/* The MPIX_ names in Fortran: MPIX_ALLREDUCE_INIT(SENDBUF, ..., REQUEST, IERROR) and its like, in
 * the manglings of common compilers.
 *
 * Types of mpi_f08 have the representation of an integer, so the same entries serve them; IERROR
 * may be absent (a null pointer). Lists are read before the call returns.
 */
#include <dlfcn.h>
#include <stddef.h>

#include "host/host.h"
#include "tugboat/mpix.h"

/* MPI_BOTTOM and MPI_IN_PLACE are addresses of common blocks in Fortran. The classic bindings keep
 * each in a variable, those of mpi_f08 take a variable's own. */
static void *translate(void *buffer) {
    static const struct {
        const char *classic, *f08;
        void *value;
    } special[] = {{"MPIR_F_MPI_BOTTOM", "MPIR_F08_MPI_BOTTOM", MPI_BOTTOM},
                   {"MPIR_F_MPI_IN_PLACE", "MPIR_F08_MPI_IN_PLACE", MPI_IN_PLACE}};
    for (int i = 0; i < 2; i++) {
        void **classic = dlsym(RTLD_DEFAULT, special[i].classic);
        void *f08 = dlsym(RTLD_DEFAULT, special[i].f08);
        if ((classic != NULL && buffer == *classic) || (f08 != NULL && buffer == f08))
            return special[i].value;
    }
    return buffer;
}

typedef const MPI_Fint integer;

/* One call: its Fortran name, its name, Fortran's parameters, their names, and C's arguments. */
#define ENTRY(lower, Name, parameters, arguments, in_c)                                            \
    typedef void lower##_init parameters;                                                          \
    TUG_API lower##_init mpix_##lower##_init_, mpix_##lower##_init__, pmpix_##lower##_init_,       \
        pmpix_##lower##_init__;                                                                    \
    void pmpix_##lower##_init_ parameters {                                                        \
        int error = PMPIX_##Name##_init in_c;                                                      \
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
#define LAST_IN_C *comm, *info, request

ENTRY(bcast, Bcast, (void *buffer, integer *count, integer *datatype, integer *root, LAST),
      (buffer, count, datatype, root, comm, info, request, ierror),
      (translate(buffer), *count, *datatype, *root, LAST_IN_C))
ENTRY(barrier, Barrier, (LAST), (comm, info, request, ierror), (LAST_IN_C))
ENTRY(allreduce, Allreduce,
      (void *sendbuf, void *recvbuf, integer *count, integer *datatype, integer *op, LAST),
      (sendbuf, recvbuf, count, datatype, op, comm, info, request, ierror),
      (translate(sendbuf), translate(recvbuf), *count, *datatype, *op, LAST_IN_C))
ENTRY(reduce, Reduce,
      (void *sendbuf, void *recvbuf, integer *count, integer *datatype, integer *op, integer *root,
       LAST),
      (sendbuf, recvbuf, count, datatype, op, root, comm, info, request, ierror),
      (translate(sendbuf), translate(recvbuf), *count, *datatype, *op, *root, LAST_IN_C))
ENTRY(scan, Scan,
      (void *sendbuf, void *recvbuf, integer *count, integer *datatype, integer *op, LAST),
      (sendbuf, recvbuf, count, datatype, op, comm, info, request, ierror),
      (translate(sendbuf), translate(recvbuf), *count, *datatype, *op, LAST_IN_C))
ENTRY(exscan, Exscan,
      (void *sendbuf, void *recvbuf, integer *count, integer *datatype, integer *op, LAST),
      (sendbuf, recvbuf, count, datatype, op, comm, info, request, ierror),
      (translate(sendbuf), translate(recvbuf), *count, *datatype, *op, LAST_IN_C))
ENTRY(reduce_scatter_block, Reduce_scatter_block,
      (void *sendbuf, void *recvbuf, integer *recvcount, integer *datatype, integer *op, LAST),
      (sendbuf, recvbuf, recvcount, datatype, op, comm, info, request, ierror),
      (translate(sendbuf), translate(recvbuf), *recvcount, *datatype, *op, LAST_IN_C))
ENTRY(reduce_scatter, Reduce_scatter,
      (void *sendbuf, void *recvbuf, integer *recvcounts, integer *datatype, integer *op, LAST),
      (sendbuf, recvbuf, recvcounts, datatype, op, comm, info, request, ierror),
      (translate(sendbuf), translate(recvbuf), recvcounts, *datatype, *op, LAST_IN_C))
ENTRY(allgather, Allgather,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcount,
       integer *recvtype, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, info, request, ierror),
      (translate(sendbuf), *sendcount, *sendtype, translate(recvbuf), *recvcount, *recvtype,
       LAST_IN_C))
ENTRY(allgatherv, Allgatherv,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcounts,
       integer *displs, integer *recvtype, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, info, request,
       ierror),
      (translate(sendbuf), *sendcount, *sendtype, translate(recvbuf), recvcounts, displs, *recvtype,
       LAST_IN_C))
ENTRY(gather, Gather,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcount,
       integer *recvtype, integer *root, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, info, request,
       ierror),
      (translate(sendbuf), *sendcount, *sendtype, translate(recvbuf), *recvcount, *recvtype, *root,
       LAST_IN_C))
ENTRY(gatherv, Gatherv,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcounts,
       integer *displs, integer *recvtype, integer *root, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm, info,
       request, ierror),
      (translate(sendbuf), *sendcount, *sendtype, translate(recvbuf), recvcounts, displs, *recvtype,
       *root, LAST_IN_C))
ENTRY(scatter, Scatter,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcount,
       integer *recvtype, integer *root, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, info, request,
       ierror),
      (translate(sendbuf), *sendcount, *sendtype, translate(recvbuf), *recvcount, *recvtype, *root,
       LAST_IN_C))
ENTRY(scatterv, Scatterv,
      (void *sendbuf, integer *sendcounts, integer *displs, integer *sendtype, void *recvbuf,
       integer *recvcount, integer *recvtype, integer *root, LAST),
      (sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm, info,
       request, ierror),
      (translate(sendbuf), sendcounts, displs, *sendtype, translate(recvbuf), *recvcount, *recvtype,
       *root, LAST_IN_C))
ENTRY(alltoall, Alltoall,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcount,
       integer *recvtype, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, info, request, ierror),
      (translate(sendbuf), *sendcount, *sendtype, translate(recvbuf), *recvcount, *recvtype,
       LAST_IN_C))
ENTRY(alltoallv, Alltoallv,
      (void *sendbuf, integer *sendcounts, integer *sdispls, integer *sendtype, void *recvbuf,
       integer *recvcounts, integer *rdispls, integer *recvtype, LAST),
      (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm, info,
       request, ierror),
      (translate(sendbuf), sendcounts, sdispls, *sendtype, translate(recvbuf), recvcounts, rdispls,
       *recvtype, LAST_IN_C))
ENTRY(alltoallw, Alltoallw,
      (void *sendbuf, integer *sendcounts, integer *sdispls, integer *sendtypes, void *recvbuf,
       integer *recvcounts, integer *rdispls, integer *recvtypes, LAST),
      (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm, info,
       request, ierror),
      (translate(sendbuf), sendcounts, sdispls, sendtypes, translate(recvbuf), recvcounts, rdispls,
       recvtypes, LAST_IN_C))
ENTRY(neighbor_allgather, Neighbor_allgather,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcount,
       integer *recvtype, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, info, request, ierror),
      (translate(sendbuf), *sendcount, *sendtype, translate(recvbuf), *recvcount, *recvtype,
       LAST_IN_C))
ENTRY(neighbor_allgatherv, Neighbor_allgatherv,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcounts,
       integer *displs, integer *recvtype, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, info, request,
       ierror),
      (translate(sendbuf), *sendcount, *sendtype, translate(recvbuf), recvcounts, displs, *recvtype,
       LAST_IN_C))
ENTRY(neighbor_alltoall, Neighbor_alltoall,
      (void *sendbuf, integer *sendcount, integer *sendtype, void *recvbuf, integer *recvcount,
       integer *recvtype, LAST),
      (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, info, request, ierror),
      (translate(sendbuf), *sendcount, *sendtype, translate(recvbuf), *recvcount, *recvtype,
       LAST_IN_C))
ENTRY(neighbor_alltoallv, Neighbor_alltoallv,
      (void *sendbuf, integer *sendcounts, integer *sdispls, integer *sendtype, void *recvbuf,
       integer *recvcounts, integer *rdispls, integer *recvtype, LAST),
      (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm, info,
       request, ierror),
      (translate(sendbuf), sendcounts, sdispls, *sendtype, translate(recvbuf), recvcounts, rdispls,
       *recvtype, LAST_IN_C))
ENTRY(neighbor_alltoallw, Neighbor_alltoallw,
      (void *sendbuf, integer *sendcounts, const MPI_Aint *sdispls, integer *sendtypes,
       void *recvbuf, integer *recvcounts, const MPI_Aint *rdispls, integer *recvtypes, LAST),
      (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm, info,
       request, ierror),
      (translate(sendbuf), sendcounts, sdispls, sendtypes, translate(recvbuf), recvcounts, rdispls,
       recvtypes, LAST_IN_C))
