/* The low-level layer: a histogram whose bins are spread over all processes.
 *
 * Every process draws numbers and adds one to the bin of each, wherever that is. The additions are
 * started and forgotten; a counter knows when all have been done. Nobody waits for a single one, so
 * those to one process travel together. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <tugboat/llcl.h>

#define BINS 64 /* of each process */
#define DRAWS 20000

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
    const int process = (int)(bin / BINS);
    const struct tug_fetch_and_op_params params = {
        .dest_proc = process,
        .dest_raddr = {.key = &keys[process], .offset = bin % BINS * sizeof(uint64_t)},
        .size_in_bytes = sizeof(uint64_t),
        .op = TUG_ADD,
        .operand = 1,
        .on_complete = {tug_counter_add, counter},
    };
    while (!tug_try_fetch_and_op_async(context, &params))
        tug_progress(context); /* no room: help until there is */
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    tug_context *context;
    tug_registration *memory;
    must(tug_context_create(MPI_COMM_WORLD, &context), "tug_context_create");
    const int rank = tug_context_rank(context), size = tug_context_size(context);

    /* memory that others reach, and the keys by which they do */
    must(tug_mem_allocate(context, BINS * sizeof(uint64_t), &memory), "tug_mem_allocate");
    struct tug_key mine, *keys = malloc((size_t)size * sizeof(*keys));
    if (keys == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    tug_mem_key(memory, &mine);
    MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, keys, sizeof(mine), MPI_BYTE, MPI_COMM_WORLD);

    struct tug_counter counter = {0};
    uint64_t state = (uint64_t)rank + 1;
    for (int i = 0; i < DRAWS; i++)
        add(context, keys, draw(&state) % ((uint64_t)size * BINS), &counter);
    must(tug_counter_wait(context, &counter, DRAWS), "an addition");
    MPI_Barrier(MPI_COMM_WORLD); /* everybody's additions have been done */

    const uint64_t *bins = tug_mem_address(memory);
    uint64_t here = 0, all = 0;
    for (int i = 0; i < BINS; i++)
        here += bins[i];
    MPI_Allreduce(&here, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%llu numbers in %d bins\n", (unsigned long long)all, size * BINS);

    free(keys);
    must(tug_context_free(&context), "tug_context_free");
    MPI_Finalize();
    return all != (uint64_t)size * DRAWS;
}
