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

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* As a share of the time that the sleep took, which is longer where others want the cores. */
static double used_while_asleep(unsigned ms) {
    double processor = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
    usleep(ms * 1000);
    processor = seconds(CLOCK_PROCESS_CPUTIME_ID) - processor;
    return processor / (seconds(CLOCK_MONOTONIC) - wall);
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
    printf("rank %d: %.2f %% of a processor asleep with a window open, %.2f %% without\n",
           check_rank, 1e2 * open, 1e2 * closed);
    CHECK(open < 0.5, "a window open: %.1f %% of a processor", 1e2 * open);
    CHECK(closed < 0.05, "nothing open: %.1f %% of a processor", 1e2 * closed);
    return check_end();
}
