/*
 * idle: a process that has used the library and now does something else costs no processor time.
 *
 * After a window and a broadcast have come and gone, ranks sleep; the processor time the process
 * uses meanwhile is bounded. With an open window the library may wake up now and then to serve
 * other ranks, with nothing open it may not: the two bounds differ.
 */
#define _GNU_SOURCE
#include "check.h"
#include <time.h>
#include <unistd.h>

static double used_while_asleep(unsigned ms) {
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep(ms * 1000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    return (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
}

int main(int argc, char **argv) {
    MPI_Win win;
    MPI_Request request;
    int64_t *base, x = 3;
    static char buf[50000];
    check_begin(&argc, &argv, "idle");
    MUST(MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    MUST(MPI_Bcast_init(buf, sizeof buf, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int i = 0; i < 3; i++) {
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        MUST(MPI_Accumulate(&x, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, win));
        MUST(MPI_Win_unlock(0, win));
        MUST(MPI_Start(&request));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    check_barrier(MPI_COMM_WORLD);
    double open = used_while_asleep(400);
    MUST(MPI_Win_free(&win));
    MUST(MPI_Request_free(&request));
    check_barrier(MPI_COMM_WORLD);
    usleep(50000);
    double closed = used_while_asleep(400);
    printf("rank %d: %.1f ms of processor time in 400 ms asleep with a window open, %.1f without\n",
           check_rank, 1e3 * open, 1e3 * closed);
    CHECK(open < 0.2, "a window open: %.1f ms of 400", 1e3 * open);
    CHECK(closed < 0.02, "nothing open: %.1f ms of 400", 1e3 * closed);
    return check_end();
}
