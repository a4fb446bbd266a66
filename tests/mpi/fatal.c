/*
 * fatal: the last rank makes a mistake that ends the job, while the others compute.
 *
 * They never come to MPI again, so it is for the launcher to end them: tests/hosts/fatal.sh says
 * whether it has. Argument: window (a put beyond the target's memory) or request (a partition that
 * there is not is said to be ready), both under MPI_ERRORS_ARE_FATAL; told: all ranks make it, just
 * after each has written a line (tests/mpi/fatal_told.sh looks for the lines and the reason).
 */
#include <unistd.h>

#include "check.h"

#define COMPUTE_S 60 /* longer than the test waits */

static void put_too_far(bool all) {
    int *memory, value = 1;
    MPI_Win win;
    MUST(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    MUST(MPI_Win_fence(0, win));
    if (all) {
        printf("rank %d has come\n", check_rank);
        fflush(stdout);
        check_barrier(MPI_COMM_WORLD);
    }
    if (all || check_rank == check_nranks - 1)
        (void)MPI_Put(&value, 1, MPI_INT, check_rank, 1 << 20, 1, MPI_INT, win);
}

/* In the second round, which is not the host's any more. */
static void ready_too_far(void) {
#if MPI_VERSION >= 4
    static char data[2];
    MPI_Request request;
    if (check_rank < check_nranks - 2)
        return;
    const bool sends = check_rank == check_nranks - 1;
    MUST(sends ? MPI_Psend_init(data, 2, 1, MPI_CHAR, check_nranks - 2, 0, MPI_COMM_WORLD,
                                MPI_INFO_NULL, &request)
               : MPI_Precv_init(data, 2, 1, MPI_CHAR, check_nranks - 1, 0, MPI_COMM_WORLD,
                                MPI_INFO_NULL, &request));
    for (int round = 0; round < 4; round++) {
        MUST(MPI_Start(&request));
        if (sends && round == 3)
            (void)MPI_Pready(2, request);
        if (sends)
            MUST(MPI_Pready_range(0, 1, request));
        if (!sends && round == 3)
            return;
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
#else
    CHECK(false, "no partitioned messages here");
#endif
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "fatal");
    if (argc > 1 && strcmp(argv[1], "request") == 0)
        ready_too_far();
    else
        put_too_far(argc > 1 && strcmp(argv[1], "told") == 0);
    CHECK(check_rank < check_nranks - 1, "the job goes on");
    sleep(COMPUTE_S);
    return 0;
}
