/* Makes the host's empty messages take as long as on a torus of 3 x 2 nodes, a rank each: 5 ms
 * a link. Preloaded behind the library, which finds the host's calls from here on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <string.h>
#include <time.h>

/* Two on an axis of three are a link apart. The last rank is the first node. */
static int links(int a, int b) {
    a = 5 - a;
    b = 5 - b;
    return (a % 3 != b % 3) + (a / 3 != b / 3);
}

int PMPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request *request) {
    static int (*next)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    int rank, size;
    if (next == NULL) {
        void *found = dlsym(RTLD_NEXT, "PMPI_Isend");
        memcpy(&next, &found, sizeof(next));
    }
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    if (count == 0 && size == 6 && to >= 0)
        (void)nanosleep(&(struct timespec){0, 5000000L * links(rank, to)}, NULL);
    return next(data, count, type, to, tag, comm, request);
}
