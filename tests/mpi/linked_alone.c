/* A program that calls nothing of MPI but what Tugboat stands in front of, linked with --as-needed:
 * the linker leaves the MPI library out, and Tugboat has to find it. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int provided = -1;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return 1;
    if (provided != MPI_THREAD_FUNNELED)
        return 1;
    printf("right\n");
    fflush(stdout);
    return MPI_Finalize() != MPI_SUCCESS;
}
