/* "My PGAS runtime." A histogram whose bins are spread over all processes, by the low-level layer.
 *
 *     mpiexec -n 2 ./histogram [draws [bins of each process]]
 *     TUGBOAT=off mpiexec -n 2 ./histogram
 *
 * Every process draws numbers and adds one to the bin of each, wherever that is. The additions are
 * started and forgotten; a callback counts those that are done. Nobody waits for a single one, so
 * those to one process travel together. With TUGBOAT=off there is no such layer: then the additions
 * are MPI_Accumulate in a window of the host's, with one flush at the end. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <tugboat/llcl.h>

static uint64_t bins;

static void must(int error, const char *what) {
    if (error == 0)
        return;
    fprintf(stderr, "%s: %s\n", what, tug_strerror(error));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Any good-enough random numbers. */
static uint64_t draw(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Adds one to a bin. */
static void add(tug_context *context, const struct tug_key *keys, uint64_t bin,
                struct tug_counter *counter) {
    const int process = (int)(bin / bins);
    const struct tug_fetch_and_op_params params = {
        .dest_proc = process,
        .dest_raddr = {.key = &keys[process], .offset = bin % bins * sizeof(uint64_t)},
        .size_in_bytes = sizeof(uint64_t),
        .op = TUG_ADD,
        .operand = 1,
        .on_complete = {tug_counter_add, counter},
    };
    while (!tug_try_fetch_and_op_async(context, &params))
        tug_progress(context); /* no room: help until there is */
}

/* What is in these bins, over all processes. */
static uint64_t total(const uint64_t *mine) {
    uint64_t here = 0, all = 0;
    for (uint64_t i = 0; i < bins; i++)
        here += mine[i];
    MPI_Allreduce(&here, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* By the layer. Returns what is in all bins, and in *seconds how long the additions took. */
static uint64_t count(tug_context *context, int rank, int size, int draws, double *seconds) {
    /* memory that others reach, and the keys by which they do */
    tug_registration *memory;
    must(tug_mem_allocate(context, bins * sizeof(uint64_t), &memory), "tug_mem_allocate");
    struct tug_key mine, *keys = malloc((size_t)size * sizeof(*keys));
    if (keys == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    tug_mem_key(memory, &mine);
    MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, keys, sizeof(mine), MPI_BYTE, MPI_COMM_WORLD);

    struct tug_counter counter = {0};
    uint64_t state = (uint64_t)rank + 1;
    const double begin = MPI_Wtime();
    for (int i = 0; i < draws; i++)
        add(context, keys, draw(&state) % ((uint64_t)size * bins), &counter);
    must(tug_counter_wait(context, &counter, (uint64_t)draws), "an addition");
    MPI_Barrier(MPI_COMM_WORLD); /* everybody's additions have been done */
    *seconds = MPI_Wtime() - begin;
    free(keys);
    return total(tug_mem_address(memory));
}

/* The same by the host MPI. */
static uint64_t count_by_mpi(int rank, int size, int draws, double *seconds) {
    const uint64_t one = 1;
    uint64_t *mine, state = (uint64_t)rank + 1;
    MPI_Win win;
    MPI_Win_allocate((MPI_Aint)(bins * sizeof(*mine)), sizeof(*mine), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &mine, &win);
    for (uint64_t i = 0; i < bins; i++)
        mine[i] = 0;
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int i = 0; i < draws; i++) {
        const uint64_t bin = draw(&state) % ((uint64_t)size * bins);
        MPI_Accumulate(&one, 1, MPI_UINT64_T, (int)(bin / bins), (MPI_Aint)(bin % bins), 1,
                       MPI_UINT64_T, MPI_SUM, win);
    }
    MPI_Win_flush_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    *seconds = MPI_Wtime() - begin;
    MPI_Win_unlock_all(win);
    const uint64_t all = total(mine);
    MPI_Win_free(&win);
    return all;
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int draws = argc > 1 ? atoi(argv[1]) : 20000, each = argc > 2 ? atoi(argv[2]) : 64;
    if (draws < 1 || each < 1) {
        fprintf(stderr, "usage: histogram [draws [bins of each process]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    bins = (uint64_t)each;
    double seconds;
    uint64_t all;
    tug_context *context;
    const int error = tug_context_create(MPI_COMM_WORLD, &context);
    if (error == TUG_ERR_STATE) { /* TUGBOAT=off */
        all = count_by_mpi(rank, size, draws, &seconds);
    } else {
        must(error, "tug_context_create");
        all = count(context, rank, size, draws, &seconds);
        must(tug_context_free(&context), "tug_context_free");
    }
    if (rank == 0)
        printf("histogram: %llu numbers in %llu bins by %s, %.3f M/s\n", (unsigned long long)all,
               (unsigned long long)size * bins, error ? "MPI_Accumulate" : "LLCL",
               (double)all / seconds * 1e-6);
    MPI_Finalize();
    return all != (uint64_t)size * (uint64_t)draws;
}
