/* A persistent broadcast by MPIX_Bcast_init: prepared once, started many times, and under way while
 * the program computes. Two buffers take turns: one travels while the other is worked on.
 *
 *     mpiexec -n 2 ./bcast_init [KiB [steps]]
 *
 * bcast_loop.c is the same loop with MPI_Bcast. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <tugboat/mpix.h>

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
    double *data[2];
    MPI_Request request[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int kib = argc > 1 ? atoi(argv[1]) : 2048, steps = argc > 2 ? atoi(argv[2]) : 200;
    if (kib < 1 || kib > 1 << 20 || steps < 1) {
        fprintf(stderr, "usage: bcast_init [KiB [steps]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    numbers = (size_t)kib * 1024 / sizeof(double);
    for (int i = 0; i < 2; i++) {
        data[i] = calloc(numbers, sizeof(double));
        if (data[i] == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
        MPIX_Bcast_init(data[i], (int)numbers, MPI_DOUBLE, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                        &request[i]);
    }

    double inside = 0; /* seconds in MPI */
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    if (rank == 0)
        produce(data[0], 0);
    MPI_Start(&request[0]);
    for (int step = 0; step < steps; step++) {
        const int now = step % 2, next = 1 - now;
        double enter = MPI_Wtime();
        MPI_Wait(&request[now], MPI_STATUS_IGNORE);
        inside += MPI_Wtime() - enter;
        if (step + 1 < steps) {
            if (rank == 0)
                produce(data[next], step + 1);
            enter = MPI_Wtime();
            MPI_Start(&request[next]);
            inside += MPI_Wtime() - enter;
        }
        wrong += sum(data[now]) != (double)step * (double)numbers; /* while the next one travels */
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double took = MPI_Wtime() - begin;
    if (rank == 0)
        printf("bcast_init: %d KiB, %.1f us a step, %.1f us of it in MPI on rank 0\n", kib,
               took / steps * 1e6, inside / steps * 1e6);

    for (int i = 0; i < 2; i++) {
        MPI_Request_free(&request[i]);
        free(data[i]);
    }
    MPI_Finalize();
    if (wrong)
        fprintf(stderr, "rank %d: %d of %d broadcasts are wrong\n", rank, wrong, steps);
    return wrong != 0;
}
