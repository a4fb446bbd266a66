/*
 * closed: a program that closes descriptors which it has not opened, and opens files of its own at
 * the same numbers, as one that becomes a daemon may. What the library has open is at high numbers,
 * where the host has nothing. The files stay empty and open, and everything goes on.
 *
 * closed [early]: when there is a window of this process alone, so that what needs sockets opens
 * them after that.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = 4096, FILES_MOST = 64 };

static int taken[FILES_MOST], ntaken;

static int empty_file(void) {
    char name[] = "/tmp/tugboat-closed-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0 && unlink(name) == 0, "no file");
    return file;
}

static void take_numbers(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "no limit");
    const int all = limit.rlim_cur < 4096 ? (int)limit.rlim_cur : 4096;
    const int file = empty_file();
    for (int i = all / 4 * 3; i < all && ntaken < FILES_MOST; i++) {
        if (fcntl(i, F_GETFD) < 0)
            continue;
        CHECK(dup2(file, i) == i, "no descriptor %d", i);
        taken[ntaken++] = i;
    }
    close(file);
}

static void expect_untouched(void) {
    struct stat status;
    for (int i = 0; i < ntaken; i++) {
        CHECK(fstat(taken[i], &status) == 0, "descriptor %d was closed", taken[i]);
        CHECK(status.st_size == 0, "descriptor %d: %ld bytes were written", taken[i],
              (long)status.st_size);
        CHECK(lseek(taken[i], 0, SEEK_CUR) == 0, "descriptor %d was read", taken[i]);
    }
}

/* Everybody adds to its neighbour, and sees what was added; a broadcast; some of it after a while
 * in which everything has gone to sleep. */
static void work(MPI_Win win, int64_t *base, int64_t *buffer, MPI_Request *bcast, int64_t round) {
    const int next = (check_rank + 1) % check_nranks;
    const int64_t one = 1;
    for (int i = 0; i < 10; i++) {
        if (i % 5 == 4)
            usleep(20000);
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win));
        MUST(MPI_Accumulate(&one, 1, MPI_INT64_T, next, (MPI_Aint)i, 1, MPI_INT64_T, MPI_SUM, win));
        MUST(MPI_Win_unlock(next, win));
        if (check_rank == 0)
            for (int j = 0; j < WORDS; j++)
                buffer[j] = round * 100 + i + j;
        MUST(MPI_Start(bcast));
        MUST(MPI_Wait(bcast, MPI_STATUS_IGNORE));
        CHECK(buffer[WORDS - 1] == round * 100 + i + WORDS - 1, "round %d: %ld", i,
              (long)buffer[WORDS - 1]);
    }
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    for (int i = 0; i < 10; i++)
        CHECK(base[i] == round + 1, "word %d is %ld", i, (long)base[i]);
    MUST(MPI_Win_unlock(check_rank, win));
    check_barrier(MPI_COMM_WORLD);
}

static void windows(bool take) {
    int64_t *base, *buffer;
    MPI_Win win;
    MPI_Request bcast;
    MUST(MPI_Win_allocate(WORDS * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    MUST(MPI_Alloc_mem(WORDS * 8 * 4, MPI_INFO_NULL, &buffer));
    memset(base, 0, WORDS * 8);
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Bcast_init(buffer, WORDS, MPI_INT64_T, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &bcast));
    for (int64_t round = 0; round < 4; round++) {
        if (take && round == 1)
            take_numbers();
        work(win, base, buffer, &bcast, round);
    }
    MUST(MPI_Request_free(&bcast));
    MUST(MPI_Free_mem(buffer));
    MUST(MPI_Win_free(&win));
    expect_untouched();
}

int main(int argc, char **argv) {
    const bool early = argc > 1 && strcmp(argv[1], "early") == 0;
    int64_t *base;
    MPI_Win win;
    check_begin(&argc, &argv, "closed");
    if (early) {
        MUST(MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win));
        take_numbers();
    }
    windows(!early);
    windows(false);
    if (early)
        MUST(MPI_Win_free(&win));
    if (check_rank == 0)
        printf("%d descriptors taken\n", ntaken);
    int status = check_end();
    expect_untouched();
    return status;
}
