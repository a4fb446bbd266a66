/*
 * late_window: who waits for others to make a window gives its core away, also where there are
 * cores enough: other programs may be on them.
 *
 *     late_window [yields]
 *
 * One rank comes late to the creation of a window. With the argument the others give their core
 * away many times before it comes, in the first creation, which makes all that windows stand on,
 * and in later ones; the calls of sched_yield() that the program's own thread makes are counted.
 * The host alone need not.
 */
#define _GNU_SOURCE /* syscall */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define LATE_NS 100000000
#define COUNTED_NS (LATE_NS / 2)
#define YIELDS_LEAST 5 /* a turn of another program's may take milliseconds */

enum { N = 64 };

static _Thread_local uint64_t yields;
static _Atomic int64_t counted_until; /* 0: not at all */

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* In place of the C library's, for all that is loaded. */
int sched_yield(void) {
    if (counted_until != 0)
        yields += now_ns() < counted_until;
    return (int)syscall(SYS_sched_yield);
}

static int64_t memory[N];

static void make(bool allocates, int64_t **base, MPI_Win *win) {
    *base = memory;
    if (allocates)
        MUST(MPI_Win_allocate(sizeof memory, 8, MPI_INFO_NULL, MPI_COMM_WORLD, (void *)base, win));
    else
        MUST(MPI_Win_create(memory, sizeof memory, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win));
}

static void use(int64_t *base, MPI_Win win) {
    int64_t mine = (int64_t)(check_word((uint64_t)check_rank, 0, 0) >> 1);
    int left = (check_rank + check_nranks - 1) % check_nranks;
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Put(&mine, 1, MPI_INT64_T, (check_rank + 1) % check_nranks, 3, 1, MPI_INT64_T, win));
    MUST(MPI_Win_fence(0, win));
    CHECK(base[3] == (int64_t)(check_word((uint64_t)left, 0, 0) >> 1), "put %lld",
          (long long)base[3]);
}

/* Do all who wait give their cores away often enough? */
static bool come_late(int late, bool allocates) {
    const struct timespec sleep = {0, LATE_NS};
    MPI_Win win;
    int64_t *base;
    check_barrier(MPI_COMM_WORLD);
    if (check_rank == late)
        (void)nanosleep(&sleep, NULL);
    yields = 0;
    counted_until = now_ns() + COUNTED_NS;
    make(allocates, &base, &win);
    counted_until = 0;
    use(base, win);
    MUST(MPI_Win_free(&win));
    int enough = check_rank == late || yields >= YIELDS_LEAST;
    MUST(MPI_Allreduce(MPI_IN_PLACE, &enough, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
    return enough;
}

int main(int argc, char **argv) {
    bool must_yield = argc > 1 && strcmp(argv[1], "yields") == 0;
    check_begin(&argc, &argv, "late_window");
    for (int i = 0; i < 4; i++) {
        int tries = 1; /* while another program has the core that is given away, it is so once */
        while (!come_late((i + 1) % check_nranks, i >= 2) && must_yield && tries++ < 3)
            ;
        CHECK(tries <= 3, "%s: the core was given away %llu times, and too seldom on some rank",
              i >= 2 ? "allocate" : "create", (unsigned long long)yields);
    }
    return check_end();
}
