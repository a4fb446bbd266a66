/*
 * rma_sync_loop: does an operation arrive at a rank that waits for it by MPI_Win_sync alone?
 *
 * Rank 0 reads its own memory in a loop and calls nothing but MPI_Win_sync. The other ranks put
 * into it, and add to it, under passive epochs of their own. MPI asks for progress of these
 * operations without a call of the target that makes progress.
 */
#include "check.h"

enum { ROUNDS = 20, LIMIT_S = 20 };

static void wait_for(MPI_Win win, volatile int64_t *word, int64_t wanted) {
    const double begin = MPI_Wtime();
    while (*word != wanted) {
        MUST(MPI_Win_sync(win));
        CHECK(MPI_Wtime() - begin < LIMIT_S, "%d s, and the word is %lld, %lld wanted", LIMIT_S,
              (long long)*word, (long long)wanted);
    }
}

static void change(MPI_Win win, int round) {
    const int64_t value = round, one = 1;
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    if (check_rank == 1)
        MUST(MPI_Put(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win));
    MUST(MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, MPI_SUM, win));
    MUST(MPI_Win_unlock(0, win));
}

int main(int argc, char **argv) {
    static int64_t words[2];
    MPI_Win win;
    check_begin(&argc, &argv, "rma_sync_loop");
    MUST(MPI_Win_create(words, sizeof words, sizeof words[0], MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    for (int round = 1; round <= ROUNDS; round++) {
        MUST(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank == 0) {
            MUST(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
            wait_for(win, &words[0], round);
            wait_for(win, &words[1], (int64_t)round * (check_nranks - 1));
            MUST(MPI_Win_unlock(0, win));
        } else {
            change(win, round);
        }
    }
    MUST(MPI_Win_free(&win));
    return check_end();
}
