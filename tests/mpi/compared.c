/*
 * Programs for `tugboat compare`: what it finds is known before. See compare.sh.
 *
 * better: rank 0 puts into a rank that computes, and has work of its own to do after that.
 * same: nothing that Tugboat takes. worse: it is slow where the library is preloaded.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORK_S 0.3

static void compute(double seconds) {
    const double end = MPI_Wtime() + seconds;
    while (MPI_Wtime() < end)
        ;
}

static void better(int rank) {
    double number = 1.5, *memory;
    MPI_Win win;
    MPI_Win_allocate(sizeof number, sizeof number, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        MPI_Put(&number, 1, MPI_DOUBLE, 1, 0, 1, MPI_DOUBLE, win);
        MPI_Win_unlock(1, win);
        usleep((useconds_t)(WORK_S * 1e6)); /* asleep, for machines with one core */
    } else {
        compute(WORK_S);
    }
    MPI_Win_free(&win);
}

int main(int argc, char **argv) {
    int rank;
    const char *what = argc > 1 ? argv[1] : "", *preload = getenv("LD_PRELOAD");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(what, "better") == 0)
        better(rank);
    else
        usleep(strcmp(what, "worse") == 0 && preload != NULL && preload[0] != '\0' ? 500000
                                                                                   : 50000);
    if (rank == 0)
        printf("did %s\n", what);
    MPI_Finalize();
    return 0;
}
