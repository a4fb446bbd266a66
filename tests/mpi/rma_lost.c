/*
 * rma_lost: who waits for the post of a rank that is lost is told so.
 *
 * While rank 0 puts, rank 1 becomes another program; the launcher, which would end the job, sees
 * that only when that program ends some seconds later. The puts fail. Then rank 0 posts and starts
 * an epoch with rank 1, whose post never comes, and MPI_Win_start gives an error. The exit status
 * says nothing; "right" has been printed.
 */
#include <unistd.h>

#include "check.h"

int main(int argc, char **argv) {
    int64_t memory[8] = {0};
    MPI_Win win;
    MPI_Group world, other;
    check_begin(&argc, &argv, "rma_lost");
    CHECK(check_nranks == 2, "it is for 2 ranks");
    MUST(
        MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    MUST(MPI_Comm_group(MPI_COMM_WORLD, &world));
    MUST(MPI_Group_incl(world, 1, (int[]){1}, &other));
    MUST(MPI_Win_fence(0, win));
    if (check_rank == 1) {
        usleep(200000);
        execlp("sleep", "sleep", "3", (char *)NULL);
        CHECK(false, "no program named sleep");
    }
    const int64_t one = 1;
    int error = MPI_SUCCESS;
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win));
    for (int n = 0; error == MPI_SUCCESS; n++) {
        MUST(MPI_Put(&one, 1, MPI_INT64_T, 1, n % 8, 1, MPI_INT64_T, win));
        if (n % 64 == 63)
            error = MPI_Win_flush(1, win);
    }
    (void)MPI_Win_unlock(1, win);
    (void)MPI_Win_post(other, 0, win);
    error = MPI_Win_start(other, 0, win);
    CHECK(error != MPI_SUCCESS, "the epoch of one who is lost has begun");
    printf("right\n");
    fflush(stdout);
    usleep(200000); /* the launcher passes on what it has read before it ends the job */
    MPI_Abort(MPI_COMM_WORLD, 1);
}
