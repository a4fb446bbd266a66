/* The plugin of levels.c: makes a window, uses it, and says in which lane it was, "none" if in none
 * of Tugboat's. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void use_window(char *lane);

void use_window(char *lane) {
    int rank, nranks, flag = 0;
    long *base, mine;
    MPI_Win win;
    MPI_Info info;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_fence(0, win);
    mine = 100 + rank;
    MPI_Put(&mine, 1, MPI_LONG, (rank + 1) % nranks, 2, 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    if (base[2] != 100 + (rank + nranks - 1) % nranks) {
        fprintf(stderr, "WRONG rank %d: what was put is not there\n", rank);
        exit(1);
    }
    MPI_Win_get_info(win, &info);
    MPI_Info_get(info, "tugboat_lane", MPI_MAX_INFO_VAL, lane, &flag);
    if (!flag)
        strcpy(lane, "none");
    MPI_Info_free(&info);
    MPI_Win_free(&win);
}
