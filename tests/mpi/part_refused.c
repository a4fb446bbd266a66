/*
 * part_refused: the library gets no thread for the engine of one rank, from MPI_Init on. No rank
 * waits for a partitioned message of the others: all of them are the host's.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "check.h"

enum { PARTITIONS = 4, COUNT = 500, ROUNDS = 4, TAG = 7 };

/* The last rank, as the launcher says: MPI has not started when the first threads do. */
static bool is_refused(void) {
    const char *rank = getenv("PMI_RANK"), *nranks = getenv("PMI_SIZE");
    return rank != NULL && nranks != NULL && atoi(rank) == atoi(nranks) - 1;
}

/* Refused where the library calls, and not where the host does. In place of the C library's. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *d) {
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    Dl_info caller;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    const bool library = dladdr(__builtin_return_address(0), &caller) != 0 &&
                         strstr(caller.dli_fname, "libtugboat") != NULL;
    return library && is_refused() ? EAGAIN : real(thread, attr, run, d);
}

static int64_t value(int from, int round, int i) {
    return (int64_t)from << 40 | (int64_t)round << 20 | i;
}

static void check_round(const int64_t *came, int from, int round) {
    int wrong = 0;
    for (int i = 0; i < PARTITIONS * COUNT; i++)
        wrong += came[i] != value(from, round, i);
    CHECK(wrong == 0, "round %d from %d: %d of %d are wrong", round, from, wrong,
          PARTITIONS * COUNT);
}

int main(int argc, char **argv) {
    static int64_t goes[PARTITIONS * COUNT], came[PARTITIONS * COUNT];
    check_begin(&argc, &argv, "part_refused");
    const int next = (check_rank + 1) % check_nranks;
    const int before = (check_rank + check_nranks - 1) % check_nranks;
    MPI_Request requests[2];
    MUST(MPI_Psend_init(goes, PARTITIONS, COUNT, MPI_INT64_T, next, TAG, MPI_COMM_WORLD,
                        MPI_INFO_NULL, &requests[0]));
    MUST(MPI_Precv_init(came, PARTITIONS, COUNT, MPI_INT64_T, before, TAG, MPI_COMM_WORLD,
                        MPI_INFO_NULL, &requests[1]));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PARTITIONS * COUNT; i++)
            goes[i] = value(check_rank, round, i);
        MUST(MPI_Startall(2, requests));
        for (int i = 0; i < PARTITIONS; i++)
            MUST(MPI_Pready(i, requests[0]));
        MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        check_round(came, before, round);
    }
    for (int i = 0; i < 2; i++)
        MUST(MPI_Request_free(&requests[i]));
    return check_end();
}
