/* An ordinary MPI program, which knows nothing of Tugboat: rank 0 puts numbers into the memory of
 * rank 1, which computes meanwhile and calls no MPI.
 *
 *     mpiexec -n 2 ./passive
 *     tugboat run mpiexec -n 2 ./passive
 *
 * On the host MPI alone the puts wait until rank 1 calls MPI again; under Tugboat they do not. */
#include <mpi.h>
#include <stdio.h>

#define PUTS 10
#define COMPUTE_S 0.1

static void compute(double seconds) {
    const double end = MPI_Wtime() + seconds; /* asks the clock, and nothing else */
    while (MPI_Wtime() < end)
        ;
}

int main(int argc, char **argv) {
    int rank, size, wrong = 0;
    double *memory;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(PUTS * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                     &win);
    MPI_Barrier(MPI_COMM_WORLD);

    if (rank == 0 && size > 1) {
        const double begin = MPI_Wtime();
        for (int i = 0; i < PUTS; i++) {
            const double number = 1.5 * i;
            MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
            MPI_Put(&number, 1, MPI_DOUBLE, 1, i, 1, MPI_DOUBLE, win);
            MPI_Win_unlock(1, win);
        }
        printf("%d puts took %.3f ms\n", PUTS, (MPI_Wtime() - begin) * 1e3);
    } else {
        compute(COMPUTE_S);
    }
    MPI_Barrier(MPI_COMM_WORLD);

    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        for (int i = 0; i < PUTS; i++)
            wrong += memory[i] != 1.5 * i;
        MPI_Win_unlock(1, win);
        if (wrong)
            fprintf(stderr, "%d numbers are wrong\n", wrong);
    }
    MPI_Win_free(&win);
    MPI_Finalize();
    return wrong != 0;
}
