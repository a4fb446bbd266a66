/*
 * work.h: a little of everything that the library takes, on a communicator: a window of each lane
 * and persistent collectives, data checked.
 */
#ifndef TUG_TESTS_MPI_WORK_H
#define TUG_TESTS_MPI_WORK_H

#include "check.h"

enum { WORK_WORDS = 1000 };

/* Whether the library takes what it can: it is preloaded, and not off. */
__attribute__((unused)) static bool work_is_taken(void) {
    const char *preload = getenv("LD_PRELOAD"), *setting = getenv("TUGBOAT");
    return preload != NULL && strstr(preload, "tugboat") != NULL &&
           (setting == NULL || strcmp(setting, "off") != 0);
}

/* The window's lane is one of the library's. */
__attribute__((unused)) static bool work_has_lane(MPI_Win win) {
    MPI_Info info;
    char lane[MPI_MAX_INFO_VAL + 1];
    int flag = 0;
    MUST(MPI_Win_get_info(win, &info));
    MUST(MPI_Info_get(info, "tugboat_lane", MPI_MAX_INFO_VAL, lane, &flag));
    MUST(MPI_Info_free(&info));
    return flag;
}

/* Everybody puts to the right, and sees what the left has put. */
static void work_put(MPI_Win win, const uint64_t *memory, MPI_Comm comm, uint64_t round) {
    uint64_t out[WORK_WORDS];
    int rank, nranks;
    MUST(MPI_Comm_rank(comm, &rank));
    MUST(MPI_Comm_size(comm, &nranks));
    check_fill(out, sizeof out, (uint64_t)rank, round);
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Put(out, WORK_WORDS, MPI_UINT64_T, (rank + 1) % nranks, 0, WORK_WORDS, MPI_UINT64_T,
                 win));
    MUST(MPI_Win_fence(0, win));
    check_same(memory, sizeof out, (uint64_t)((rank + nranks - 1) % nranks), round, "put",
               __LINE__);
}

/* Starts the broadcast of WORK_WORDS from rank 0 that the request is, and sees that it comes. */
static void work_broadcast(MPI_Request *request, uint64_t *words, MPI_Comm comm, uint64_t round) {
    int rank;
    MUST(MPI_Comm_rank(comm, &rank));
    memset(words, 0x3c, WORK_WORDS * sizeof *words);
    if (rank == 0)
        check_fill(words, WORK_WORDS * sizeof *words, 50, round);
    MUST(MPI_Start(request));
    MUST(MPI_Wait(request, MPI_STATUS_IGNORE));
    check_same(words, WORK_WORDS * sizeof *words, 50, round, "broadcast", __LINE__);
}

__attribute__((unused)) static void work_on(MPI_Comm comm) {
    static _Alignas(64) uint64_t given[WORK_WORDS];
    MPI_Win win;
    MPI_Request request;
    uint64_t *base, words[WORK_WORDS];
    MUST(MPI_Win_allocate(WORK_WORDS * 8, 8, MPI_INFO_NULL, comm, &base, &win));
    work_put(win, base, comm, 1);
    MUST(MPI_Win_free(&win));
    MUST(MPI_Win_create(given, sizeof given, 8, MPI_INFO_NULL, comm, &win));
    work_put(win, given, comm, 2);
    MUST(MPI_Win_free(&win));
    MUST(MPI_Bcast_init(words, WORK_WORDS, MPI_UINT64_T, 0, comm, MPI_INFO_NULL, &request));
    for (uint64_t round = 0; round < 3; round++)
        work_broadcast(&request, words, comm, round);
    MUST(MPI_Request_free(&request));
}

#endif
