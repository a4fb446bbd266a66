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

/* One call: its Fortran name, its name, Fortran's parameters, and C's arguments. All four Fortran
 * names are one function. */
#define ENTRY(lower, Name, parameters, in_c)                                                       \
    typedef void lower##_init parameters;                                                          \
    TUG_API lower##_init pmpix_##lower##_init_;                                                    \
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
    TUG_API __attribute__((alias("pmpix_" #lower "_init_"))) lower##_init mpix_##lower##_init_,    \
        mpix_##lower##_init__, pmpix_##lower##_init__;

/* Parameters that calls share, each with what C is given of them. */
#define LAST integer *comm, integer *info, MPI_Fint *request, MPI_Fint *ierror
#define LAST_IN_C COMM(comm), INFO(info), &made
#define REDUCED(count) void *sendbuf, void *recvbuf, integer *count, integer *datatype, integer *op
#define REDUCED_IN_C(count) translate(sendbuf), translate(recvbuf), count, TYPE(datatype), OP(op)
#define SENT void *sendbuf, integer *sendcount, integer *sendtype
#define SENT_IN_C translate(sendbuf), *sendcount, TYPE(sendtype)
#define SENT_V void *sendbuf, integer *sendcounts, integer *sdispls, integer *sendtype
#define SENT_V_IN_C translate(sendbuf), sendcounts, sdispls, TYPE(sendtype)
#define RECEIVED void *recvbuf, integer *recvcount, integer *recvtype
#define RECEIVED_IN_C translate(recvbuf), *recvcount, TYPE(recvtype)
#define RECEIVED_V void *recvbuf, integer *recvcounts, integer *rdispls, integer *recvtype
#define RECEIVED_V_IN_C translate(recvbuf), recvcounts, rdispls, TYPE(recvtype)
#define EACH(place)                                                                                \
    void *sendbuf, integer *sendcounts, place *sdispls, integer *sendtypes, void *recvbuf,         \
        integer *recvcounts, place *rdispls, integer *recvtypes
#define EACH_IN_C(kind)                                                                            \
    translate(sendbuf), sendcounts, sdispls, TYPES(0, kind, sendtypes), translate(recvbuf),        \
        recvcounts, rdispls, TYPES(1, kind, recvtypes)

/* clang-format off */
ENTRY(bcast, Bcast, (void *buffer, integer *count, integer *datatype, integer *root, LAST),
      (translate(buffer), *count, TYPE(datatype), *root, LAST_IN_C))
ENTRY(barrier, Barrier, (LAST), (LAST_IN_C))
ENTRY(allreduce, Allreduce, (REDUCED(count), LAST), (REDUCED_IN_C(*count), LAST_IN_C))
ENTRY(reduce, Reduce, (REDUCED(count), integer *root, LAST), (REDUCED_IN_C(*count), *root, LAST_IN_C))
ENTRY(scan, Scan, (REDUCED(count), LAST), (REDUCED_IN_C(*count), LAST_IN_C))
ENTRY(exscan, Exscan, (REDUCED(count), LAST), (REDUCED_IN_C(*count), LAST_IN_C))
ENTRY(reduce_scatter_block, Reduce_scatter_block, (REDUCED(count), LAST), (REDUCED_IN_C(*count), LAST_IN_C))
ENTRY(reduce_scatter, Reduce_scatter, (REDUCED(counts), LAST), (REDUCED_IN_C(counts), LAST_IN_C))
ENTRY(allgather, Allgather, (SENT, RECEIVED, LAST), (SENT_IN_C, RECEIVED_IN_C, LAST_IN_C))
ENTRY(allgatherv, Allgatherv, (SENT, RECEIVED_V, LAST), (SENT_IN_C, RECEIVED_V_IN_C, LAST_IN_C))
ENTRY(gather, Gather, (SENT, RECEIVED, integer *root, LAST), (SENT_IN_C, RECEIVED_IN_C, *root, LAST_IN_C))
ENTRY(gatherv, Gatherv, (SENT, RECEIVED_V, integer *root, LAST), (SENT_IN_C, RECEIVED_V_IN_C, *root, LAST_IN_C))
ENTRY(scatter, Scatter, (SENT, RECEIVED, integer *root, LAST), (SENT_IN_C, RECEIVED_IN_C, *root, LAST_IN_C))
ENTRY(scatterv, Scatterv, (SENT_V, RECEIVED, integer *root, LAST), (SENT_V_IN_C, RECEIVED_IN_C, *root, LAST_IN_C))
ENTRY(alltoall, Alltoall, (SENT, RECEIVED, LAST), (SENT_IN_C, RECEIVED_IN_C, LAST_IN_C))
ENTRY(alltoallv, Alltoallv, (SENT_V, RECEIVED_V, LAST), (SENT_V_IN_C, RECEIVED_V_IN_C, LAST_IN_C))
ENTRY(alltoallw, Alltoallw, (EACH(integer), LAST), (EACH_IN_C(ranks_of), LAST_IN_C))
ENTRY(neighbor_allgather, Neighbor_allgather, (SENT, RECEIVED, LAST), (SENT_IN_C, RECEIVED_IN_C, LAST_IN_C))
ENTRY(neighbor_allgatherv, Neighbor_allgatherv, (SENT, RECEIVED_V, LAST), (SENT_IN_C, RECEIVED_V_IN_C, LAST_IN_C))
ENTRY(neighbor_alltoall, Neighbor_alltoall, (SENT, RECEIVED, LAST), (SENT_IN_C, RECEIVED_IN_C, LAST_IN_C))
ENTRY(neighbor_alltoallv, Neighbor_alltoallv, (SENT_V, RECEIVED_V, LAST), (SENT_V_IN_C, RECEIVED_V_IN_C, LAST_IN_C))
ENTRY(neighbor_alltoallw, Neighbor_alltoallw, (EACH(const MPI_Aint), LAST), (EACH_IN_C(neighbours_of), LAST_IN_C))
/* clang-format on */
