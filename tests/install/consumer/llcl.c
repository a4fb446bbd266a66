/* Every process adds its number to a word of process 0. */
#include <mpi.h>
#include <stdio.h>
#include <tugboat/llcl.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    tug_context *context;
    tug_registration *memory;
    if (tug_context_create(MPI_COMM_WORLD, TUG_DRIVE_ENGINE, &context) != 0 ||
        tug_mem_allocate(context, 64, &memory) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    const int rank = tug_context_rank(context), size = tug_context_size(context);

    struct tug_key key;
    tug_mem_key(memory, &key);
    MPI_Bcast(&key, sizeof key, MPI_BYTE, 0, MPI_COMM_WORLD);

    struct tug_counter counter = {0};
    const struct tug_fetch_and_op_params add = {
        .dest_raddr = {&key, 0},
        .size_in_bytes = 8,
        .op = TUG_ADD,
        .operand = (uint64_t)rank + 1,
        .on_complete = {tug_counter_add, &counter},
    };
    while (!tug_try_fetch_and_op_async(context, &add))
        tug_progress(context);
    int wrong = tug_counter_wait(context, &counter, 1) != 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        wrong |= *(uint64_t *)tug_mem_address(memory) != (uint64_t)size * (size + 1) / 2;
    tug_context_free(&context);
    MPI_Finalize();
    if (wrong)
        fprintf(stderr, "rank %d: the sum is wrong\n", rank);
    return wrong;
}
