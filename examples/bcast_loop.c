/* "My broadcast in a loop." Rank 0 has new numbers in each step, all ranks need them and compute
 * with them. An ordinary MPI program: MPI_Bcast, with the same buffer and size each time.
 *
 *     mpiexec -n 2 ./bcast_loop [KiB [steps]]
 *     TUGBOAT_COLLECTIVES=on tugboat run mpiexec -n 2 ./bcast_loop
 *
 * bcast_init.c is the same loop with a persistent broadcast, which travels while ranks compute. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static size_t numbers;

static double sum(const double *data) {
    double total = 0;
    for (size_t i = 0; i < numbers; i++)
        total += data[i];
    return total;
}

static void produce(double *data, int step) {
    for (size_t i = 0; i < numbers; i++)
        data[i] = step;
}

int main(int argc, char **argv) {
    int rank, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int kib = argc > 1 ? atoi(argv[1]) : 2048, steps = argc > 2 ? atoi(argv[2]) : 200;
    if (kib < 1 || kib > 1 << 20 || steps < 1) {
        fprintf(stderr, "usage: bcast_loop [KiB [steps]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    numbers = (size_t)kib * 1024 / sizeof(double);
    double *data = calloc(numbers, sizeof(*data));
    if (data == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);

    double inside = 0; /* seconds in MPI */
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        if (rank == 0)
            produce(data, step);
        const double enter = MPI_Wtime();
        MPI_Bcast(data, (int)numbers, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        inside += MPI_Wtime() - enter;
        wrong += sum(data) != (double)step * (double)numbers;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double took = MPI_Wtime() - begin;
    if (rank == 0)
        printf("bcast_loop: %d KiB, %.1f us a step, %.1f us of it in MPI on rank 0\n", kib,
               took / steps * 1e6, inside / steps * 1e6);

    free(data);
    MPI_Finalize();
    if (wrong)
        fprintf(stderr, "rank %d: %d of %d broadcasts are wrong\n", rank, wrong, steps);
    return wrong != 0;
}
