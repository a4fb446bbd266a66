/*
 * mpi4.h: what test programs use of MPI 4, on a host that is MPI 3.1 (Open MPI 4.1) or has a part
 * of MPI 4 (Open MPI 5.0).
 *
 * Persistent collectives have names of their own in the first. The large-count calls are in
 * neither: a test that makes both makes the same call twice, where the counts are single values;
 * lists are the test's to see to (CHECK_HAS_LARGE_COUNTS).
 */
#ifndef TUG_TESTS_MPI_MPI4_H
#define TUG_TESTS_MPI_MPI4_H

#include <mpi.h>

#define CHECK_HAS_LARGE_COUNTS (MPI_VERSION >= 4)

/* Also persistent collectives under their names in MPI 4. */
#if MPI_VERSION >= 4 || (defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5)
#define CHECK_HAS_SESSIONS 1
#else
#define CHECK_HAS_SESSIONS 0
#endif

#if !CHECK_HAS_SESSIONS

#include <mpi-ext.h>

#define MPI_Allgather_init MPIX_Allgather_init
#define MPI_Allgatherv_init MPIX_Allgatherv_init
#define MPI_Allreduce_init MPIX_Allreduce_init
#define MPI_Alltoall_init MPIX_Alltoall_init
#define MPI_Alltoallv_init MPIX_Alltoallv_init
#define MPI_Alltoallw_init MPIX_Alltoallw_init
#define MPI_Barrier_init MPIX_Barrier_init
#define MPI_Bcast_init MPIX_Bcast_init
#define MPI_Exscan_init MPIX_Exscan_init
#define MPI_Gather_init MPIX_Gather_init
#define MPI_Gatherv_init MPIX_Gatherv_init
#define MPI_Neighbor_allgather_init MPIX_Neighbor_allgather_init
#define MPI_Neighbor_allgatherv_init MPIX_Neighbor_allgatherv_init
#define MPI_Neighbor_alltoall_init MPIX_Neighbor_alltoall_init
#define MPI_Neighbor_alltoallv_init MPIX_Neighbor_alltoallv_init
#define MPI_Neighbor_alltoallw_init MPIX_Neighbor_alltoallw_init
#define MPI_Reduce_init MPIX_Reduce_init
#define MPI_Reduce_scatter_init MPIX_Reduce_scatter_init
#define MPI_Reduce_scatter_block_init MPIX_Reduce_scatter_block_init
#define MPI_Scan_init MPIX_Scan_init
#define MPI_Scatter_init MPIX_Scatter_init
#define MPI_Scatterv_init MPIX_Scatterv_init

/* `length` has the buffer's, with the end. */
__attribute__((unused)) static int MPI_Info_get_string(MPI_Info info, const char *key, int *length,
                                                       char *value, int *flag) {
    return MPI_Info_get(info, key, *length - 1, value, flag);
}

#endif

#if !CHECK_HAS_LARGE_COUNTS

#define MPI_Allgather_init_c MPI_Allgather_init
#define MPI_Allgatherv_init_c MPI_Allgatherv_init
#define MPI_Allreduce_init_c MPI_Allreduce_init
#define MPI_Alltoall_init_c MPI_Alltoall_init
#define MPI_Alltoallv_init_c MPI_Alltoallv_init
#define MPI_Alltoallw_init_c MPI_Alltoallw_init
#define MPI_Bcast_init_c MPI_Bcast_init
#define MPI_Exscan_init_c MPI_Exscan_init
#define MPI_Gather_init_c MPI_Gather_init
#define MPI_Gatherv_init_c MPI_Gatherv_init
#define MPI_Neighbor_allgather_init_c MPI_Neighbor_allgather_init
#define MPI_Neighbor_allgatherv_init_c MPI_Neighbor_allgatherv_init
#define MPI_Neighbor_alltoall_init_c MPI_Neighbor_alltoall_init
#define MPI_Neighbor_alltoallv_init_c MPI_Neighbor_alltoallv_init
#define MPI_Neighbor_alltoallw_init_c MPI_Neighbor_alltoallw_init
#define MPI_Reduce_init_c MPI_Reduce_init
#define MPI_Reduce_scatter_init_c MPI_Reduce_scatter_init
#define MPI_Reduce_scatter_block_init_c MPI_Reduce_scatter_block_init
#define MPI_Scan_init_c MPI_Scan_init
#define MPI_Scatter_init_c MPI_Scatter_init
#define MPI_Scatterv_init_c MPI_Scatterv_init

#define MPI_Bcast_c MPI_Bcast
#define MPI_Get_c MPI_Get
#define MPI_Mrecv_c MPI_Mrecv
#define MPI_Put_c MPI_Put
#define MPI_Recv_c MPI_Recv
#define MPI_Rsend_c MPI_Rsend
#define MPI_Send_c MPI_Send
#define MPI_Sendrecv_c MPI_Sendrecv
#define MPI_Sendrecv_replace_c MPI_Sendrecv_replace
#define MPI_Ssend_c MPI_Ssend

#endif

#endif
