/*
 * stopped.h: rank 0 stops all other processes of its node (SIGSTOP) and works with their memory:
 * what needs one of them does not end. Include <sys/uio.h> with _GNU_SOURCE.
 */
#ifndef TUG_TESTS_MPI_STOPPED_H
#define TUG_TESTS_MPI_STOPPED_H

#include "check.h"
#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

enum { STOPPED_RANKS = 8, STOPPED_SECONDS = 20 };

static pid_t stopped_pids[STOPPED_RANKS];  /* 0: on another node than rank 0 */
static volatile sig_atomic_t stopped_late; /* something took longer: the others go on */

static void stopped_send_all(int sig) {
    for (int r = 1; r < check_nranks; r++)
        if (stopped_pids[r] != 0)
            (void)kill(stopped_pids[r], sig);
}

static void stopped_give_up(int sig) {
    (void)sig;
    stopped_late = 1;
    stopped_send_all(SIGCONT);
}

static bool stopped_is(pid_t pid) {
    char name[64], state = '?';
    snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(name, "r");
    CHECK(file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1, "no %s", name);
    fclose(file);
    return state == 'T';
}

/* Collective, once, first. */
static void stopped_meet(void) {
    int mine = (int)getpid(), first = check_rank;
    MPI_Comm node;
    CHECK(check_nranks <= STOPPED_RANKS, "too many ranks");
    MUST(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    MUST(MPI_Bcast(&first, 1, MPI_INT, 0, node));
    MUST(MPI_Comm_free(&node));
    mine = first == 0 ? mine : 0;
    MUST(MPI_Allgather(&mine, 1, MPI_INT, stopped_pids, 1, MPI_INT, MPI_COMM_WORLD));
}

/* May rank 0 reach the others' memory? Collective. */
static bool stopped_reachable(void) {
    uint64_t word = 0, addresses[STOPPED_RANKS], address = (uint64_t)(uintptr_t)&word;
    int all = 1;
    MUST(MPI_Allgather(&address, 1, MPI_UINT64_T, addresses, 1, MPI_UINT64_T, MPI_COMM_WORLD));
    for (int r = 1; check_rank == 0 && r < check_nranks; r++) {
        if (stopped_pids[r] == 0)
            continue;
        const struct iovec here = {&word, sizeof word};
        const struct iovec there = {(void *)(uintptr_t)addresses[r], sizeof word};
        all &= process_vm_readv(stopped_pids[r], &here, 1, &there, 1, 0) > 0;
    }
    MUST(MPI_Bcast(&all, 1, MPI_INT, 0, MPI_COMM_WORLD));
    return all;
}

/* By rank 0: until stopped_end(), or for STOPPED_SECONDS. */
static void stopped_begin(void) {
    (void)signal(SIGALRM, stopped_give_up);
    (void)alarm(STOPPED_SECONDS);
    stopped_send_all(SIGSTOP);
    for (int r = 1; r < check_nranks; r++)
        while (stopped_pids[r] != 0 && !stopped_is(stopped_pids[r]))
            usleep(100);
}

static void stopped_end(void) {
    (void)alarm(0);
    stopped_send_all(SIGCONT);
}

#endif
