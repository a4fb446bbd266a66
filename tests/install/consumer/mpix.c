/* A persistent broadcast, three times. */
#include <mpi.h>
#include <stdio.h>
#include <tugboat/mpix.h>

int main(int argc, char **argv) {
    int rank, value = 0, wrong = 0;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPIX_Bcast_init(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int round = 1; round <= 3; round++) {
        value = rank == 0 ? round : -1;
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        wrong += value != round;
    }
    MPI_Request_free(&request);
    MPI_Finalize();
    if (wrong)
        fprintf(stderr, "rank %d: %d of 3 broadcasts wrong\n", rank, wrong);
    return wrong != 0;
}
