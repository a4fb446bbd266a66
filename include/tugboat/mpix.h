/* MPI extensions of Tugboat: persistent collectives under their MPIX_ names.
 *
 * Include this header after mpi.h. Link with -ltugboat before MPI, or start the program with
 * `tugboat run`. `tugboat run` also serves MPI_Bcast_init in programs that do not use this header.
 */
#ifndef TUGBOAT_MPIX_H
#define TUGBOAT_MPIX_H

#include <mpi.h>

#include "tugboat/tugboat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Declares MPIX_Name, which programs call, and PMPIX_Name, the same function for profiling tools.
 */
#define TUG_MPIX(Name, parameters)                                                                 \
    TUG_API int MPIX_##Name parameters;                                                            \
    TUG_API int PMPIX_##Name parameters;

/* Prepares a broadcast of count elements of datatype from buffer on root to buffer on all other
 * ranks of comm. The broadcast can be started any number of times. Arguments, errors and rules are
 * those of MPI_Bcast_init (MPI 4.0, section 6.13.2).
 *
 * The call is collective over comm. It may synchronise and allocate. MPI_Start does neither: it
 * hands the prepared schedule to the engine. The engine needs no CPU of the program between start
 * and completion. Every MPI call for requests accepts the request, together with requests of the
 * host MPI and in any order. The program may free datatype after the call. The buffer belongs to
 * the operation from start to completion. Several requests of one communicator may be active at
 * once, if all ranks start them in the same order.
 *
 * Inside a node, segments are pipelined through shared memory. Between nodes, segments are relayed
 * along a chain (the bucket relay of Morie et al.). The host's own persistent broadcast is used on
 * all ranks for inter-communicators, for communicators that Tugboat cannot serve (for example
 * because there is no shared memory), and with TUGBOAT=off.
 *
 * Errors: MPI_ERR_COMM, MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_BUFFER, MPI_ERR_ROOT, MPI_ERR_ARG, and
 * the host's errors at completion. They are reported through comm's error handler. */
TUG_MPIX(Bcast_init, (void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm,
                      MPI_Info info, MPI_Request *request))

/* As MPIX_Bcast_init, with a large count. */
TUG_MPIX(Bcast_init_c, (void *buffer, MPI_Count count, MPI_Datatype datatype, int root,
                        MPI_Comm comm, MPI_Info info, MPI_Request *request))

/* The other persistent collectives. Arguments, errors and rules are those of the MPI functions of
 * the same name in MPI 4.0, section 6.13. The text on MPIX_Bcast_init holds for them, too.
 *
 * Reductions may use operations of the program (MPI_Op_create). If the program asked for
 * MPI_THREAD_MULTIPLE, a thread of Tugboat runs these operations while the program computes. If it
 * did not, the request is the host's. For reductions of datatypes with gaps, the request is always
 * the host's. */
TUG_MPIX(Allgather_init,
         (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
          MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Allgather_init_c, (const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                            void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                            MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Allgatherv_init, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                           const int recvcounts[], const int displs[], MPI_Datatype recvtype,
                           MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Allgatherv_init_c,
         (const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
          const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype,
          MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Allreduce_init, (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                          MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Allreduce_init_c,
         (const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
          MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Alltoall_init,
         (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
          MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Alltoall_init_c, (const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                           void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                           MPI_Info info, MPI_Request *request))
TUG_MPIX(Alltoallv_init,
         (const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
          void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
          MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Alltoallv_init_c,
         (const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
          MPI_Datatype sendtype, void *recvbuf, const MPI_Count recvcounts[],
          const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
          MPI_Request *request))
TUG_MPIX(Alltoallw_init, (const void *sendbuf, const int sendcounts[], const int sdispls[],
                          const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
                          const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                          MPI_Info info, MPI_Request *request))
TUG_MPIX(Alltoallw_init_c,
         (const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
          const MPI_Datatype sendtypes[], void *recvbuf, const MPI_Count recvcounts[],
          const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info info,
          MPI_Request *request))
TUG_MPIX(Barrier_init, (MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Exscan_init, (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                       MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Exscan_init_c, (const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype,
                         MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Gather_init,
         (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
          MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Gather_init_c, (const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                         void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                         MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Gatherv_init, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                        const int recvcounts[], const int displs[], MPI_Datatype recvtype, int root,
                        MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Gatherv_init_c,
         (const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
          const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype, int root,
          MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Neighbor_allgather_init,
         (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
          MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Neighbor_allgather_init_c,
         (const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
          MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
          MPI_Request *request))
TUG_MPIX(Neighbor_allgatherv_init,
         (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
          const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
          MPI_Info info, MPI_Request *request))
TUG_MPIX(Neighbor_allgatherv_init_c,
         (const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
          const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype,
          MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Neighbor_alltoall_init,
         (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
          MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Neighbor_alltoall_init_c, (const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                    void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                    MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Neighbor_alltoallv_init,
         (const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
          void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
          MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Neighbor_alltoallv_init_c,
         (const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
          MPI_Datatype sendtype, void *recvbuf, const MPI_Count recvcounts[],
          const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
          MPI_Request *request))
TUG_MPIX(Neighbor_alltoallw_init,
         (const void *sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
          const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
          const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info info,
          MPI_Request *request))
TUG_MPIX(Neighbor_alltoallw_init_c,
         (const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
          const MPI_Datatype sendtypes[], void *recvbuf, const MPI_Count recvcounts[],
          const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info info,
          MPI_Request *request))
TUG_MPIX(Reduce_init, (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                       MPI_Op op, int root, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Reduce_init_c, (const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype,
                         MPI_Op op, int root, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Reduce_scatter_block_init,
         (const void *sendbuf, void *recvbuf, int recvcount, MPI_Datatype datatype, MPI_Op op,
          MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Reduce_scatter_block_init_c,
         (const void *sendbuf, void *recvbuf, MPI_Count recvcount, MPI_Datatype datatype, MPI_Op op,
          MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Reduce_scatter_init,
         (const void *sendbuf, void *recvbuf, const int recvcounts[], MPI_Datatype datatype,
          MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Reduce_scatter_init_c,
         (const void *sendbuf, void *recvbuf, const MPI_Count recvcounts[], MPI_Datatype datatype,
          MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Scan_init, (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                     MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Scan_init_c, (const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype,
                       MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Scatter_init,
         (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
          MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Scatter_init_c, (const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                          void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                          MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Scatterv_init, (const void *sendbuf, const int sendcounts[], const int displs[],
                         MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
                         int root, MPI_Comm comm, MPI_Info info, MPI_Request *request))
TUG_MPIX(Scatterv_init_c,
         (const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint displs[],
          MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
          int root, MPI_Comm comm, MPI_Info info, MPI_Request *request))

/* Returns true if the request is complete. The request may be Tugboat's or the host's. As with
 * MPI_Request_get_status, the call does not change the request. MPICH has a function of this name
 * from version 4.1 on; Tugboat's also works with older versions. Any thread may call it. It does
 * not block. */
TUG_MPIX(Request_is_complete, (MPI_Request request))

#undef TUG_MPIX

#ifdef __cplusplus
}
#endif

#endif
