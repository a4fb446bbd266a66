/*
 * types_c: operations and a persistent broadcast with datatypes made by the calls with large
 * counts; and an operation with a type whose last field is there no times and would lie behind the
 * end of the window.
 *
 * The error handlers are MPI's own: whoever asks the host about such a type in the wrong way ends
 * the job.
 */
#include "check.h"

enum { N = 64, HALF = N / 2 };

static int *base;
static MPI_Win win;
static int target, source;

static int value(int rank, int i) {
    return 1000 * (rank + 1) + i;
}

static void clear(void) {
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win));
    for (int i = 0; i < N; i++)
        base[i] = -i;
    MUST(MPI_Win_unlock(check_rank, win));
    check_barrier(MPI_COMM_WORLD);
}

/* The even elements are what the source has put, times so much; the odd ones are untouched. */
static void check_window(int factor, int from) {
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    for (int i = 0; i < N; i++) {
        bool put = i >= from && (from > 0 || i % 2 == 0);
        int wanted = put ? factor * value(source, from > 0 ? i - from : i / 2) : -i;
        CHECK(base[i] == wanted, "element %d: %d, not %d", i, base[i], wanted);
    }
    MUST(MPI_Win_unlock(check_rank, win));
    check_barrier(MPI_COMM_WORLD);
}

static void every_other(const int *mine) {
    MPI_Datatype type, twice;
    int got[HALF] = {0};
    MUST(MPI_Type_vector_c(HALF / 2, 1, 2, MPI_INT, &type));
    MUST(MPI_Type_create_hvector_c(2, 1, N / 2 * (MPI_Count)sizeof(int), type, &twice));
    MUST(MPI_Type_commit(&twice));
    clear();
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
    MUST(MPI_Put(mine, HALF, MPI_INT, target, 0, 1, twice, win));
    MUST(MPI_Win_flush(target, win));
    MUST(MPI_Accumulate(mine, HALF, MPI_INT, target, 0, 1, twice, MPI_SUM, win));
    MUST(MPI_Win_flush(target, win));
    MUST(MPI_Get(got, HALF, MPI_INT, target, 0, 1, twice, win));
    MUST(MPI_Win_unlock(target, win));
    for (int i = 0; i < HALF; i++)
        CHECK(got[i] == 2 * mine[i], "got %d, not %d", got[i], 2 * mine[i]);
    check_window(2, 0);
    MUST(MPI_Type_free(&type));
    MUST(MPI_Type_free(&twice));
}

static void absent_field(const int *mine) {
    const int lengths[] = {2, 0};
    const MPI_Aint offsets[] = {0, 4096};
    const MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE};
    MPI_Datatype type;
    MUST(MPI_Type_create_struct(2, lengths, offsets, types, &type));
    MUST(MPI_Type_commit(&type));
    clear();
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
    MUST(MPI_Put(mine, 2, MPI_INT, target, N - 2, 1, type, win));
    MUST(MPI_Win_unlock(target, win));
    check_window(1, N - 2);
    MUST(MPI_Type_free(&type));
}

static void broadcast(MPI_Count stride) {
    MPI_Datatype type;
    MPI_Request request;
    int values[N];
    if (stride == 1)
        MUST(MPI_Type_contiguous_c(HALF, MPI_INT, &type));
    else
        MUST(MPI_Type_vector_c(HALF, 1, stride, MPI_INT, &type));
    MUST(MPI_Type_commit(&type));
    MUST(MPI_Bcast_init(values, 1, type, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++)
            values[i] = value(check_rank, i + round);
        MUST(MPI_Start(&request));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int i = 0; i < N; i++) {
            bool sent = i < HALF * stride && i % stride == 0;
            int wanted = value(sent ? 0 : check_rank, i + round);
            CHECK(values[i] == wanted, "element %d: %d, not %d", i, values[i], wanted);
        }
    }
    MUST(MPI_Request_free(&request));
    MUST(MPI_Type_free(&type));
}

int main(int argc, char **argv) {
    int mine[HALF];
    check_begin(&argc, &argv, "types_c");
    target = (check_rank + 1) % check_nranks;
    source = (check_rank + check_nranks - 1) % check_nranks;
    for (int i = 0; i < HALF; i++)
        mine[i] = value(check_rank, i);
    MUST(
        MPI_Win_allocate(N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    every_other(mine);
    absent_field(mine);
    broadcast(1);
    broadcast(2);
    MUST(MPI_Win_free(&win));
    return check_end();
}
