/* "My halo exchange waits." A grid is dealt out to the ranks by rows, in a ring. Each step a rank
 * puts its first and its last row into the memory of its neighbours, says so by a counter, and
 * computes what needs no neighbour's row meanwhile. One rank after the other has more to do.
 *
 *     mpiexec -n 2 ./halo [rows [columns [steps [extra ms]]]]
 *     tugboat run mpiexec -n 2 ./halo
 *
 * On the host MPI alone a put to a rank that computes is over when that rank calls MPI again: the
 * ranks wait for one another. Every cell becomes the sum of itself and the cells above and below,
 * so that the sum over all cells is tripled in each step: that is checked. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTERS 2 /* at the window's start: rows that came from above, and from below */

static int rank, size, rows, columns, steps;
static double extra_s;
static uint64_t *counters; /* the window: the counters, then two halo rows for even steps and two */
static uint32_t *halos;    /* for odd ones: nobody is two steps ahead of a neighbour */
static MPI_Win win;

/* The work that is not dealt out evenly: it asks the clock, and nothing else. */
static void compute(double seconds) {
    const double end = MPI_Wtime() + seconds;
    while (MPI_Wtime() < end)
        ;
}

/* Puts a row beside the rows of a neighbour, and counts it there when it has arrived. */
static void send_row(const uint32_t *row, int neighbour, int side, int step) {
    const uint64_t one = 1;
    const MPI_Aint at = COUNTERS * sizeof(uint64_t) +
                        (MPI_Aint)(step % 2 * 2 + side) * columns * (MPI_Aint)sizeof(*row);
    MPI_Put(row, columns, MPI_UINT32_T, neighbour, at, columns, MPI_UINT32_T, win);
    MPI_Win_flush(neighbour, win);
    MPI_Accumulate(&one, 1, MPI_UINT64_T, neighbour, side * (MPI_Aint)sizeof(one), 1, MPI_UINT64_T,
                   MPI_SUM, win);
    MPI_Win_flush(neighbour, win);
}

/* Waits until the rows of this step have come from both sides. */
static void await_rows(int step) {
    for (int side = 0; side < COUNTERS; side++)
        for (uint64_t came = 0; came < (uint64_t)step + 1;) {
            MPI_Fetch_and_op(NULL, &came, MPI_UINT64_T, rank, side * (MPI_Aint)sizeof(came),
                             MPI_NO_OP, win);
            MPI_Win_flush(rank, win);
        }
    MPI_Win_sync(win);
}

static void add_rows(uint32_t *to, const uint32_t *above, const uint32_t *here,
                     const uint32_t *below) {
    for (int i = 0; i < columns; i++)
        to[i] = above[i] + here[i] + below[i];
}

/* One step from `old` to `new`. Returns the seconds that went into the exchange. */
static double step_once(const uint32_t *old, uint32_t *new, int step) {
    const size_t width = (size_t)columns, last = ((size_t)rows - 1) * width;
    const uint32_t *halo = halos + (size_t)(step % 2 * 2) * width;
    const double begin = MPI_Wtime();
    send_row(old, (rank + size - 1) % size, 1, step); /* it is below the rows of who is above */
    send_row(old + last, (rank + 1) % size, 0, step);
    const double sent = MPI_Wtime();
    for (size_t at = width; at < last; at += width)
        add_rows(new + at, old + at - width, old + at, old + at + width);
    if (step % size == rank)
        compute(extra_s);
    const double computed = MPI_Wtime();
    await_rows(step);
    const double end = MPI_Wtime();
    add_rows(new, halo, old, old + width);
    add_rows(new + last, old + last - width, old + last, halo + width);
    return sent - begin + (end - computed);
}

/* Over all ranks. */
static uint32_t sum_of(const uint32_t *cells) {
    uint32_t here = 0, all;
    for (size_t i = 0; i < (size_t)rows * (size_t)columns; i++)
        here += cells[i];
    MPI_Allreduce(&here, &all, 1, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rows = argc > 1 ? atoi(argv[1]) : 64;
    columns = argc > 2 ? atoi(argv[2]) : 16384;
    steps = argc > 3 ? atoi(argv[3]) : 100;
    extra_s = (argc > 4 ? atof(argv[4]) : 4) * 1e-3;
    if (rows < 2 || columns < 1 || steps < 1 || !(extra_s >= 0)) {
        fprintf(stderr, "usage: halo [rows, 2 at least [columns [steps [extra ms]]]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const size_t cells = (size_t)rows * (size_t)columns;
    const size_t bytes = COUNTERS * sizeof(uint64_t) + 4 * (size_t)columns * sizeof(uint32_t);
    uint32_t *old = malloc(cells * sizeof(*old)), *new = malloc(cells * sizeof(*new));
    if (old == NULL || new == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &counters, &win);
    memset(counters, 0, bytes);
    halos = (uint32_t *)(counters + COUNTERS);
    for (size_t i = 0; i < cells; i++)
        old[i] = (uint32_t)(i * 7 + (size_t)rank);
    uint32_t expected = sum_of(old);
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);

    double waited = 0, longest;
    const double begin = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        waited += step_once(old, new, step);
        uint32_t *const swapped = old;
        old = new;
        new = swapped;
        expected *= 3;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double took = MPI_Wtime() - begin;
    MPI_Win_unlock_all(win);
    MPI_Reduce(&waited, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    const int wrong = sum_of(old) != expected;
    if (rank == 0)
        printf("halo: %.3f ms a step, %.3f ms of it in the exchange\n", took / steps * 1e3,
               longest / steps * 1e3);
    if (rank == 0 && wrong)
        fprintf(stderr, "the sum over all cells is wrong\n");
    MPI_Win_free(&win);
    free(old);
    free(new);
    MPI_Finalize();
    return wrong;
}
