/*
 * engine_refused: a rank gets no thread for its engine. No rank waits for another: contexts, ACP
 * and arrays fail on all ranks alike, windows and collectives are the host's, and a partitioned
 * request, of which the others do not hear, is an error.
 */
#define _GNU_SOURCE

#include <acp.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <tugboat/gas.h>
#include <tugboat/llcl.h>
#include <tugboat/mpix.h>

#include "check.h"

static bool refuses; /* all threads, on this rank */

/* In place of the C library's, for the library too. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *d) {
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return refuses ? EAGAIN : real(thread, attr, run, d);
}

static void contexts(void) {
    const struct tug_array_params params = {.size_in_bytes = 4096, .page_bytes = 4096};
    tug_context *context = NULL;
    tug_array *array = NULL;
    int status = tug_context_create(MPI_COMM_WORLD, &context);
    CHECK(status == TUG_ERR_NO_MEMORY, "tug_context_create: %s", tug_strerror(status));
    status = tug_array_create(MPI_COMM_WORLD, &params, &array);
    CHECK(status == TUG_ERR_NO_MEMORY, "tug_array_create: %s", tug_strerror(status));
    CHECK(acp_init(NULL, NULL) != 0, "acp_init has started");
    CHECK(ACP_ERRNO == TUG_ERR_NO_MEMORY, "acp_init: %s", tug_strerror(ACP_ERRNO));
}

static void windows(void) {
    int64_t cell = -1, *memory;
    const int64_t value = check_rank;
    MPI_Win created, allocated;
    const int next = (check_rank + 1) % check_nranks;
    const int before = (check_rank + check_nranks - 1) % check_nranks;
    MUST(MPI_Win_create(&cell, sizeof cell, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &created));
    MUST(MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &allocated));
    MUST(MPI_Win_fence(0, created));
    MUST(MPI_Win_fence(0, allocated));
    MUST(MPI_Put(&value, 1, MPI_INT64_T, next, 0, 1, MPI_INT64_T, created));
    MUST(MPI_Put(&value, 1, MPI_INT64_T, next, 0, 1, MPI_INT64_T, allocated));
    MUST(MPI_Win_fence(0, created));
    MUST(MPI_Win_fence(0, allocated));
    CHECK(cell == before && *memory == before, "put: %lld and %lld", (long long)cell,
          (long long)*memory);
    MUST(MPI_Win_free(&created));
    MUST(MPI_Win_free(&allocated));
}

static void collectives(void) {
    int64_t value = check_rank == 0 ? 4711 : 0;
    MPI_Request request;
    MUST(MPIX_Bcast_init(&value, 1, MPI_INT64_T, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    MUST(MPI_Start(&request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(value == 4711, "the broadcast brought %lld", (long long)value);
    MUST(MPI_Request_free(&request));
    for (int i = 0; i < 100; i++) { /* often enough for a trial */
        int64_t mine = 1, sum;
        MUST(MPI_Allreduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
        CHECK(sum == check_nranks, "a sum of %lld", (long long)sum);
    }
}

/* The others cannot be told of a call that is looked up: it is an error, and they do not wait for
 * what will not come. A call that is linked: part_refused. */
static void partitioned(void) {
    int (*init)(const void *, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info,
                MPI_Request *);
    int64_t value = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    *(void **)&init = dlsym(RTLD_DEFAULT, "MPI_Psend_init");
    if (!refuses || init == NULL || MPI_VERSION < 4)
        return;
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    const int error =
        init(&value, 1, 1, MPI_INT64_T, 0, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    CHECK(error == MPI_ERR_NO_MEM, "MPI_Psend_init: %d", error);
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "engine_refused");
    refuses = check_rank == check_nranks - 1;
    contexts();
    windows();
    collectives();
    partitioned();
    refuses = false;
    return check_end();
}
