/* The plugin of levels.c and mpmd.c: makes a window, uses it, and says in which lane it was, "none"
 * if in none of Tugboat's; and runs a persistent broadcast. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi4.h"

void use_window(char *lane);

static void broadcast(int rank) {
    long sent = 0;
    MPI_Request request;
    MPI_Bcast_init(&sent, 1, MPI_LONG, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < 3; i++) {
        sent = rank == 0 ? 7 + i : 0;
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (sent != 7 + i) {
            fprintf(stderr, "WRONG rank %d: what was broadcast is not there\n", rank);
            exit(1);
        }
    }
    MPI_Request_free(&request);
}

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
    broadcast(rank);
}
