/*
 * pcoll_kill: a rank is killed while persistent collectives are under way; for llcl_kill.sh, which
 * sees how the job ends and what is left of it.
 *
 * All ranks start and complete broadcasts, reductions and exchanges, short and long, all at once,
 * without pause. After a while the last rank kills itself by SIGKILL from a second thread; what the
 * others wait for never comes then.
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <tugboat/mpix.h>
#include <unistd.h>

enum { LONGEST = 100000, KINDS = 4, SIZES = 2, NREQ = KINDS * SIZES };

static const int sizes[SIZES] = {8, LONGEST};

static void *strike(void *unused) {
    (void)unused;
    usleep(300000);
    kill(getpid(), SIGKILL);
    return NULL;
}

static char *block(void) {
    char *memory = calloc((size_t)check_nranks, LONGEST);
    CHECK(memory != NULL, "no memory");
    return memory;
}

int main(int argc, char **argv) {
    MPI_Request r[NREQ];
    MPI_Comm c = MPI_COMM_WORLD;
    MPI_Info none = MPI_INFO_NULL;
    pthread_t thread;
    check_begin_threads(&argc, &argv, "pcoll_kill");
    for (int s = 0; s < SIZES; s++) {
        MPI_Request *at = r + (ptrdiff_t)s * KINDS;
        int n = sizes[s];
        MUST(MPIX_Bcast_init(block(), n, MPI_BYTE, 0, c, none, &at[0]));
        MUST(MPIX_Allreduce_init(block(), block(), n, MPI_BYTE, MPI_BXOR, c, none, &at[1]));
        MUST(MPIX_Alltoall_init(block(), n, MPI_BYTE, block(), n, MPI_BYTE, c, none, &at[2]));
        MUST(MPIX_Reduce_scatter_block_init(block(), block(), n, MPI_BYTE, MPI_BXOR, c, none,
                                            &at[3]));
    }
    check_barrier(c);
    printf("rank %d begins\n", check_rank);
    fflush(stdout);
    if (check_rank == check_nranks - 1)
        CHECK(pthread_create(&thread, NULL, strike, NULL) == 0, "no thread");
    for (;;) {
        MUST(MPI_Startall(NREQ, r));
        MUST(MPI_Waitall(NREQ, r, MPI_STATUSES_IGNORE));
    }
}
