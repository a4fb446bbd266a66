/* A persistent broadcast by MPIX_Bcast_init: prepared once, started many times, and under way while
 * the program computes. Two buffers take turns: one travels while the other is worked on. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <tugboat/mpix.h>

#define NUMBERS (1 << 18)
#define STEPS 10

static double sum(const double *data) {
    double total = 0;
    for (int i = 0; i < NUMBERS; i++)
        total += data[i];
    return total;
}

static void produce(double *data, int step) {
    for (int i = 0; i < NUMBERS; i++)
        data[i] = step;
}

int main(int argc, char **argv) {
    int rank, wrong = 0;
    double *data[2];
    MPI_Request request[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 2; i++) {
        data[i] = calloc(NUMBERS, sizeof(double));
        if (data[i] == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
        MPIX_Bcast_init(data[i], NUMBERS, MPI_DOUBLE, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                        &request[i]);
    }

    const double begin = MPI_Wtime();
    if (rank == 0)
        produce(data[0], 0);
    MPI_Start(&request[0]);
    for (int step = 0; step < STEPS; step++) {
        const int now = step % 2, next = 1 - now;
        MPI_Wait(&request[now], MPI_STATUS_IGNORE);
        if (step + 1 < STEPS) {
            if (rank == 0)
                produce(data[next], step + 1);
            MPI_Start(&request[next]);
        }
        wrong += sum(data[now]) != (double)step * NUMBERS; /* while the next one travels */
    }
    if (rank == 0)
        printf("%d broadcasts of %zu MiB: %.3f ms each\n", STEPS, NUMBERS * sizeof(double) >> 20,
               (MPI_Wtime() - begin) / STEPS * 1e3);

    for (int i = 0; i < 2; i++) {
        MPI_Request_free(&request[i]);
        free(data[i]);
    }
    MPI_Finalize();
    if (wrong)
        fprintf(stderr, "rank %d: %d of %d broadcasts are wrong\n", rank, wrong, STEPS);
    return wrong != 0;
}
