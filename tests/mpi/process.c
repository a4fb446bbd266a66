/*
 * process: an MPI program as a process: fork, system, abort, exits of all kinds, a mask of one
 * core.
 *
 * The first argument is the case; process.sh runs it on the host alone and under the tug and
 * compares how the job ends. In every case a window with operations and a persistent broadcast
 * exist at that moment, so the library's threads do too. In the cases "..._busy" four threads put
 * without pause meanwhile, so queues are as full as they get.
 */
#define _GNU_SOURCE /* sched_setaffinity */
#include "win_kinds.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 4000, BYTES = 100000 };

static struct kind_win w;
static MPI_Request bcast;
static char bcast_buf[BYTES];

static void make(void) {
    CHECK(kind_open(&w, KIND_ALLOCATE, MPI_COMM_WORLD, WORDS * 8, 8), "no window");
    MUST(MPI_Bcast_init(bcast_buf, BYTES, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &bcast));
    MUST(MPI_Win_lock_all(0, w.win));
}

/* Puts that nothing has completed yet. */
static void queue(uint64_t round) {
    static uint64_t out[WORDS];
    int right = (check_rank + 1) % check_nranks;
    check_fill(out, sizeof out, (uint64_t)check_rank, round);
    for (int i = 0; i < WORDS; i++)
        MUST(MPI_Put(&out[i], 1, MPI_UINT64_T, right, i, 1, MPI_UINT64_T, w.win));
}

static void work(uint64_t round) {
    int left = (check_rank + check_nranks - 1) % check_nranks;
    queue(round);
    MUST(MPI_Win_flush_all(w.win));
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_sync(w.win));
    check_same(w.base, WORDS * 8, (uint64_t)left, round, "put", __LINE__);
    memset(bcast_buf, 0x3c, BYTES);
    if (check_rank == 0)
        check_fill(bcast_buf, BYTES, 60, round);
    MUST(MPI_Start(&bcast));
    MUST(MPI_Wait(&bcast, MPI_STATUS_IGNORE));
    check_same(bcast_buf, BYTES, 60, round, "broadcast", __LINE__);
    check_barrier(MPI_COMM_WORLD);
}

static int leave(void) {
    MUST(MPI_Win_unlock_all(w.win));
    MUST(MPI_Request_free(&bcast));
    kind_close(&w);
    return check_end();
}

/* Children that call no MPI: one ends through exit and its handlers, one execs. */
static void fork_children(void) {
    for (uint64_t round = 0; round < 3; round++) {
        int status;
        queue(round);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            if (round == 1)
                execl("/bin/true", "true", (char *)NULL);
            exit(round == 2 ? 9 : 0);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child, "no child");
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == (round == 2 ? 9 : 0),
              "the child's status is 0x%x", status);
        CHECK(system("true") == 0, "system(true)");
        MUST(MPI_Win_flush_all(w.win));
        work(10 + round);
    }
}

static void *put_without_pause(void *arg) {
    static const uint64_t word = 5;
    (void)arg;
    for (int i = 0;; i++) {
        MPI_Put(&word, 1, MPI_UINT64_T, (check_rank + 1) % check_nranks, i % WORDS, 1, MPI_UINT64_T,
                w.win);
        if (i % 1000 == 999)
            MPI_Win_flush_all(w.win);
    }
    return NULL;
}

static void keep_busy(void) {
    pthread_t thread;
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&thread, NULL, put_without_pause, NULL) == 0, "no thread");
    usleep(100000);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "fork";
    if (strcmp(what, "onecore") == 0) {
        cpu_set_t first;
        CPU_ZERO(&first);
        CPU_SET(0, &first);
        if (sched_setaffinity(0, sizeof first, &first) != 0) {
            printf("skipped: no affinity to the first core\n");
            return CHECK_SKIP;
        }
        execl(argv[0], argv[0], "work", (char *)NULL);
        return 1;
    }
    bool busy = strstr(what, "_busy") != NULL;
    if (busy)
        check_begin_threads(&argc, &argv, "process");
    else
        check_begin(&argc, &argv, "process");
    make();
    work(1);
    if (busy)
        keep_busy();
    if (strcmp(what, "abort_busy") == 0) {
        MPI_Abort(MPI_COMM_WORLD, 5);
    } else if (strcmp(what, "exit_busy") == 0) {
        exit(3);
    } else if (strcmp(what, "fork_busy") == 0) {
        int status;
        pid_t child = fork();
        if (child == 0)
            exit(6);
        CHECK(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 6,
              "the child of a busy process");
        CHECK(system("true") == 0, "system(true)");
        MPI_Abort(MPI_COMM_WORLD, 7);
    } else if (strcmp(what, "fork") == 0) {
        fork_children();
    } else if (strcmp(what, "abort") == 0) {
        queue(2);
        MPI_Abort(MPI_COMM_WORLD, 5);
    } else if (strcmp(what, "exit") == 0) {
        queue(2);
        exit(3);
    } else if (strcmp(what, "quick_exit") == 0) {
        queue(2);
        _exit(4);
    } else if (strcmp(what, "unfinished") == 0) {
        /* Ends with a status of 0 and without MPI_Finalize. */
        printf("right\n");
        fflush(stdout);
        return 0;
    } else if (strcmp(what, "crash") == 0) {
        queue(2);
        raise(11);
    } else if (strcmp(what, "work") == 0) {
        for (uint64_t round = 2; round < 12; round++)
            work(round);
    } else {
        CHECK(false, "no case is called %s", what);
    }
    return leave();
}
