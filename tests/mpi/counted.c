/*
 * counted: a program that makes known numbers of calls, for a tool to count.
 *
 * 40 puts, 8 flushes, 3 fences, 5 fetch_and_ops, 2 persistent broadcasts started 6 times each, of
 * which 4 are completed by MPI_Wait and 2 by MPI_Waitall of both, 7 sends. The data are checked.
 */
#include "win_kinds.h"

int main(int argc, char **argv) {
    struct kind_win w;
    MPI_Request r[2];
    int64_t bufs[2][100], x[40], one = 1, was;
    check_begin(&argc, &argv, "counted");
    int right = (check_rank + 1) % check_nranks, left = (check_rank + check_nranks - 1);
    CHECK(kind_open(&w, KIND_ALLOCATE, MPI_COMM_WORLD, 1024, 8), "no window");
    MUST(MPI_Win_fence(0, w.win));
    MUST(MPI_Win_fence(0, w.win));
    MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    MUST(MPI_Win_lock_all(0, w.win));
    for (int64_t i = 0; i < 40; i++) {
        x[i] = 1000 * check_rank + i;
        MUST(MPI_Put(&x[i], 1, MPI_INT64_T, right, i, 1, MPI_INT64_T, w.win));
        if (i % 5 == 4)
            MUST(MPI_Win_flush(right, w.win));
    }
    for (int i = 0; i < 5; i++)
        MUST(MPI_Fetch_and_op(&one, &was, MPI_INT64_T, right, 50, MPI_SUM, w.win));
    MUST(MPI_Win_unlock_all(w.win));
    check_barrier(MPI_COMM_WORLD);
    int64_t *window = (int64_t *)(void *)w.base;
    for (int i = 0; i < 40; i++)
        CHECK(window[i] == 1000 * (left % check_nranks) + i, "[%d]", i);
    CHECK(window[50] == 5, "the counter is %lld", (long long)window[50]);
    for (int i = 0; i < 2; i++)
        MUST(MPI_Bcast_init(bufs[i], 100, MPI_INT64_T, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &r[i]));
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 2; i++) {
            memset(bufs[i], 0x3c, sizeof bufs[i]);
            if (check_rank == 0)
                check_fill(bufs[i], sizeof bufs[i], (uint64_t)i, (uint64_t)round);
            MUST(MPI_Start(&r[i]));
        }
        if (round < 2)
            MUST(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
        else
            for (int i = 0; i < 2; i++)
                MUST(MPI_Wait(&r[i], MPI_STATUS_IGNORE));
        for (int i = 0; i < 2; i++)
            check_same(bufs[i], sizeof bufs[i], (uint64_t)i, (uint64_t)round, "bcast", __LINE__);
    }
    for (int i = 0; i < 2; i++)
        MUST(MPI_Request_free(&r[i]));
    for (int i = 0; i < 7; i++) {
        MPI_Request request;
        MUST(MPI_Irecv(&was, 1, MPI_INT64_T, left % check_nranks, 1, MPI_COMM_WORLD, &request));
        MUST(MPI_Send(x, 1, MPI_INT64_T, right, 1, MPI_COMM_WORLD));
        int done = 0;
        while (!done)
            MUST(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    }
    kind_close(&w);
    return check_end();
}
