/*
 * counting_tool: a PMPI tool as users have them, for the tests of the library next to one.
 *
 * It wraps a handful of calls, counts those the program makes, and prints the counts of rank 0 at
 * MPI_Finalize as "tool: Put 12 Win_flush 3 ...". It neither knows nor is known by anything else
 * that may be preloaded. Threads: counters are atomic.
 */
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>

#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5 /* an extension, by another name */
#include <mpi-ext.h>
#define MPI_Bcast_init MPIX_Bcast_init
#define PMPI_Bcast_init PMPIX_Bcast_init
#endif

#define WRAP(NAME, PARAMETERS, ARGUMENTS)                                                          \
    static atomic_long count_##NAME;                                                               \
    int MPI_##NAME PARAMETERS {                                                                    \
        atomic_fetch_add(&count_##NAME, 1);                                                        \
        return PMPI_##NAME ARGUMENTS;                                                              \
    }

WRAP(Put,
     (const void *origin, int n, MPI_Datatype type, int target, MPI_Aint disp, int m,
      MPI_Datatype there, MPI_Win win),
     (origin, n, type, target, disp, m, there, win))
WRAP(Win_flush, (int rank, MPI_Win win), (rank, win))
WRAP(Win_fence, (int assert, MPI_Win win), (assert, win))
WRAP(Fetch_and_op,
     (const void *origin, void *result, MPI_Datatype type, int target, MPI_Aint disp, MPI_Op op,
      MPI_Win win),
     (origin, result, type, target, disp, op, win))
WRAP(Bcast_init,
     (void *buffer, int n, MPI_Datatype type, int root, MPI_Comm comm, MPI_Info info,
      MPI_Request *request),
     (buffer, n, type, root, comm, info, request))
WRAP(Start, (MPI_Request * request), (request))
WRAP(Wait, (MPI_Request * request, MPI_Status *status), (request, status))
WRAP(Waitall, (int n, MPI_Request requests[], MPI_Status statuses[]), (n, requests, statuses))
WRAP(Send, (const void *buffer, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm),
     (buffer, n, type, to, tag, comm))

int MPI_Finalize(void) {
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        printf("tool: Put %ld Win_flush %ld Win_fence %ld Fetch_and_op %ld Bcast_init %ld Start "
               "%ld Wait %ld Waitall %ld Send %ld\n",
               count_Put, count_Win_flush, count_Win_fence, count_Fetch_and_op, count_Bcast_init,
               count_Start, count_Wait, count_Waitall, count_Send);
        fflush(stdout);
    }
    return PMPI_Finalize();
}
