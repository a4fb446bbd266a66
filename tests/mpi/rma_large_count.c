/*
 * rma_large_count: the MPI_..._c twins of the one-sided calls.
 *
 * The same data as through the plain calls, with MPI_Count counts: windows by Win_create_c,
 * Win_allocate_c and Win_allocate_shared_c, every communication call, and a transfer of a derived
 * type whose count of bytes is above the plain calls' reach is described (not moved).
 */
#include "check.h"

enum { N = 600 };

#define INT64 MPI_INT64_T

static int right, left;

static void see(const int64_t *got, int64_t base, const char *what) {
    for (int i = 0; i < N; i++)
        CHECK(got[i] == base + i, "%s: [%d] is %lld, not %lld", what, i, (long long)got[i],
              (long long)base + i);
}

static void work(MPI_Win win, const int64_t *window, const char *how) {
    const MPI_Count n = N;
    int64_t out[N], in[N], one[N], was = -1, x;
    MPI_Request r[2];
    int64_t base = 100000 * (check_rank + 1);
    for (int i = 0; i < N; i++) {
        out[i] = base + i;
        one[i] = 1;
    }
    MUST(MPI_Win_lock_all(0, win));
    MUST(MPI_Put_c(out, n, INT64, right, 0, n, INT64, win));
    MUST(MPI_Win_flush(right, win));
    memset(in, 0, sizeof in);
    MUST(MPI_Get_c(in, n, INT64, right, 0, n, INT64, win));
    MUST(MPI_Win_flush(right, win));
    see(in, base, how);
    MUST(MPI_Accumulate_c(one, n, INT64, right, 0, n, INT64, MPI_SUM, win));
    MUST(MPI_Get_accumulate_c(one, n, INT64, in, n, INT64, right, 0, n, INT64, MPI_SUM, win));
    MUST(MPI_Win_flush(right, win));
    see(in, base + 1, how);
    x = 5;
    MUST(MPI_Fetch_and_op(&x, &was, INT64, right, 0, MPI_REPLACE, win));
    MUST(MPI_Win_flush(right, win));
    CHECK(was == base + 2, "%s: fetched %lld", how, (long long)was);
    MUST(MPI_Rput_c(out, n, INT64, right, 0, n, INT64, win, &r[0]));
    MUST(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    MUST(MPI_Win_flush(right, win));
    MUST(MPI_Raccumulate_c(one, n, INT64, right, 0, n, INT64, MPI_SUM, win, &r[0]));
    MUST(MPI_Rget_accumulate_c(one, n, INT64, in, n, INT64, right, 0, n, INT64, MPI_SUM, win,
                               &r[1]));
    MUST(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    MUST(MPI_Win_flush(right, win));
    see(in, base + 1, how);
    MUST(MPI_Rget_c(in, n, INT64, right, 0, n, INT64, win, &r[0]));
    MUST(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    see(in, base + 2, how);
    /* Nothing, and to nobody, with a count no int can hold. */
    MUST(MPI_Put_c(out, 0, INT64, right, 0, 0, INT64, win));
    MUST(MPI_Put_c(out, (MPI_Count)1 << 33, INT64, MPI_PROC_NULL, 0, (MPI_Count)1 << 33, INT64,
                   win));
    MUST(MPI_Win_unlock_all(win));
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    see(window, 100000 * (left + 1) + 2, how);
    MUST(MPI_Win_unlock(check_rank, win));
    check_barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Win win;
    MPI_Comm node, world = MPI_COMM_WORLD;
    int64_t *base, *memory;
    MPI_Aint *unit;
    int found, nlocal;
    check_begin(&argc, &argv, "rma_large_count");
    right = (check_rank + 1) % check_nranks;
    left = (check_rank + check_nranks - 1) % check_nranks;
    CHECK(posix_memalign((void **)&memory, 64, N * 8) == 0, "no memory");
    MUST(MPI_Win_create_c(memory, N * 8, 8, MPI_INFO_NULL, world, &win));
    MUST(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &found));
    CHECK(found && base == memory, "MPI_WIN_BASE");
    work(win, memory, "win_create_c");
    MUST(MPI_Win_free(&win));
    free(memory);
    MUST(MPI_Win_allocate_c(N * 8, 8, MPI_INFO_NULL, world, &base, &win));
    MUST(MPI_Win_get_attr(win, MPI_WIN_SIZE, &unit, &found));
    CHECK(found && *unit == N * 8, "MPI_WIN_SIZE is %ld", (long)*unit);
    work(win, base, "win_allocate_c");
    MUST(MPI_Win_free(&win));
    MUST(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    MUST(MPI_Comm_size(node, &nlocal));
    if (nlocal == check_nranks) {
        MPI_Aint size, disp_unit;
        int64_t *theirs, x = 4242;
        MUST(MPI_Win_allocate_shared_c(N * 8, 8, MPI_INFO_NULL, world, &base, &win));
        work(win, base, "win_allocate_shared_c");
        MUST(MPI_Win_shared_query_c(win, right, &size, &disp_unit, &theirs));
        CHECK(size == N * 8 && disp_unit == 8, "shared_query_c: %ld %ld", (long)size,
              (long)disp_unit);
        /* What is put through the window is seen through the pointer. */
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
        MUST(MPI_Put_c(&x, 1, INT64, right, 9, 1, INT64, win));
        MUST(MPI_Win_flush(right, win));
        MUST(MPI_Win_sync(win));
        CHECK(theirs[9] == x, "through the pointer: %lld", (long long)theirs[9]);
        MUST(MPI_Win_unlock(right, win));
        MUST(MPI_Win_free(&win));
    }
    MUST(MPI_Comm_free(&node));
    return check_end();
}
