/* MPI extensions of Tugboat: persistent collectives under their MPIX_ names.
 *
 * #include after mpi.h and link -ltugboat ahead of MPI (or run under `tugboat run`, which also
 * gives MPI_Bcast_init of programs that know nothing of Tugboat the same treatment).
 */
#ifndef TUGBOAT_MPIX_H
#define TUGBOAT_MPIX_H

#include <mpi.h>

#include "tugboat/tugboat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Prepares a broadcast of count elements of datatype from buffer on root to buffer on all other
 * ranks of comm, for any number of starts. Arguments, errors and rules are those of MPI_Bcast_init
 * (MPI 4.0, section 6.13.2).
 *
 * Collective over comm; may synchronise and allocate. MPI_Start does neither: it hands the prepared
 * schedule to the engine, which needs no CPU of the program between start and completion. The
 * request may be given to every MPI call for requests, among requests of the host MPI, in any
 * order. datatype may be freed after the call; buffer belongs to the operation from start to
 * completion. Several requests of one communicator may be in flight, started in the same order on
 * all ranks.
 *
 * Inside a node segments are pipelined through shared memory; between nodes they are relayed along
 * a chain (the bucket relay of Morie et al.). Inter-communicators, communicators that Tugboat
 * cannot serve (no shared memory to be had, say), and runs with TUGBOAT=off get the host's own
 * persistent broadcast, on all ranks alike.
 *
 * Errors: MPI_ERR_COMM, MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_BUFFER, MPI_ERR_ROOT, MPI_ERR_ARG, and
 * those of the host at completion, through comm's error handler. */
TUG_API int MPIX_Bcast_init(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm,
                            MPI_Info info, MPI_Request *request);
TUG_API int PMPIX_Bcast_init(void *buffer, int count, MPI_Datatype datatype, int root,
                             MPI_Comm comm, MPI_Info info, MPI_Request *request);

/* The same with a large count. */
TUG_API int MPIX_Bcast_init_c(void *buffer, MPI_Count count, MPI_Datatype datatype, int root,
                              MPI_Comm comm, MPI_Info info, MPI_Request *request);
TUG_API int PMPIX_Bcast_init_c(void *buffer, MPI_Count count, MPI_Datatype datatype, int root,
                               MPI_Comm comm, MPI_Info info, MPI_Request *request);

#ifdef __cplusplus
}
#endif

#endif
