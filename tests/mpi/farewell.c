/*
 * farewell: processes that come to the end of MPI at different times.
 *
 *   farewell messages   nothing but a barrier before
 *   farewell window     a window, with fetch_and_op on all ranks
 *   farewell session    sessions only, no MPI_COMM_WORLD
 *   farewell late       only the last rank is late
 *
 * Over TCP the host MPI alone hangs in most of these (more than two ranks): who is late closes
 * connections to those who wait for all at the process manager.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "check.h"

#define TURN_NS 150000000L
#define ROUNDS 25

static void sleep_turns(int turns) {
    for (int i = 0; i < turns; i++)
        nanosleep(&(struct timespec){0, TURN_NS}, NULL);
}

static void use_window(void) {
    MPI_Win win;
    long *word, one = 1, was, sum = 0;
    /* the host of Debian 12 wants a multiple of 16 bytes */
    MUST(MPI_Win_allocate(2 * sizeof *word, sizeof *word, MPI_INFO_NULL, MPI_COMM_WORLD, &word,
                          &win));
    *word = 0;
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock_all(0, win));
    for (int i = 0; i < ROUNDS * check_nranks; i++) {
        MUST(MPI_Fetch_and_op(&one, &was, MPI_LONG, i % check_nranks, 0, MPI_SUM, win));
        MUST(MPI_Win_flush(i % check_nranks, win));
    }
    MUST(MPI_Win_unlock_all(win));
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    sum = *word;
    MUST(MPI_Win_unlock(check_rank, win));
    CHECK(sum == (long)ROUNDS * check_nranks, "%ld additions arrived", sum);
    MUST(MPI_Win_free(&win));
}

static int in_session(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MUST(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    MUST(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    MUST(MPI_Comm_create_from_group(group, "farewell", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm));
    MUST(MPI_Group_free(&group));
    MUST(MPI_Comm_rank(comm, &check_rank));
    MUST(MPI_Comm_size(comm, &check_nranks));
    check_barrier(comm);
    MUST(MPI_Comm_free(&comm));
    if (check_rank == 0)
        printf("right\n");
    fflush(stdout);
    sleep_turns(check_rank);
    MUST(MPI_Session_finalize(&session));
    return 0;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "messages";
    if (strcmp(how, "session") == 0)
        return in_session();
    check_begin(&argc, &argv, "farewell");
    if (strcmp(how, "window") == 0)
        use_window();
    check_barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        printf("right\n");
    fflush(stdout);
    if (strcmp(how, "late") == 0)
        sleep_turns(check_rank == check_nranks - 1 ? 2 : 0);
    else
        sleep_turns(check_rank);
    MUST(MPI_Finalize());
    return 0;
}
