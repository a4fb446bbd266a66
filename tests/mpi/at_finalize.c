/*
 * at_finalize: what programs do in the delete callbacks of attributes of MPI_COMM_SELF, which
 * MPI_Finalize calls before anything else of MPI ends: windows are used and freed that were made
 * before, persistent requests are started and freed, others are made. Attributes that were set
 * later are deleted earlier.
 */
#include "work.h"

static uint64_t words[WORK_WORDS], *allocated;
static _Alignas(64) uint64_t given[WORK_WORDS];
static MPI_Request request;
static MPI_Win windows[2];
static MPI_Comm comm;
static int ndeleted;

/* The last one: MPI is still all there. */
static int delete_first(MPI_Comm self, int key, void *attribute, void *state) {
    (void)self, (void)key, (void)attribute, (void)state;
    int finalized = 1;
    CHECK(ndeleted++ == 1, "deleted as number %d", ndeleted);
    MUST(MPI_Finalized(&finalized));
    CHECK(!finalized, "MPI has ended");
    work_put(windows[0], allocated, MPI_COMM_WORLD, 11);
    work_put(windows[1], given, comm, 12);
    MUST(MPI_Win_free(&windows[0]));
    MUST(MPI_Win_free(&windows[1]));
    work_on(comm);
    work_on(MPI_COMM_WORLD);
    MUST(MPI_Comm_free(&comm));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    return MPI_SUCCESS;
}

static int delete_second(MPI_Comm self, int key, void *attribute, void *state) {
    (void)self, (void)key, (void)attribute, (void)state;
    CHECK(ndeleted++ == 0, "deleted as number %d", ndeleted);
    for (uint64_t round = 0; round < 3; round++)
        work_broadcast(&request, words, comm, round);
    MUST(MPI_Request_free(&request));
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    int first, second;
    check_begin(&argc, &argv, "at_finalize");
    MUST(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_first, &first, NULL));
    MUST(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_second, &second, NULL));
    MUST(MPI_Comm_set_attr(MPI_COMM_SELF, first, NULL));
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MUST(MPI_Win_allocate(sizeof given, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &allocated, &windows[0]));
    MUST(MPI_Win_create(given, sizeof given, 8, MPI_INFO_NULL, comm, &windows[1]));
    MUST(MPI_Bcast_init(words, WORK_WORDS, MPI_UINT64_T, 0, comm, MPI_INFO_NULL, &request));
    MUST(MPI_Comm_set_attr(MPI_COMM_SELF, second, NULL));
    MUST(MPI_Comm_free_keyval(&second)); /* the attribute stays */
    work_put(windows[0], allocated, MPI_COMM_WORLD, 1);
    work_put(windows[1], given, comm, 2);
    work_broadcast(&request, words, comm, 9);
    int rc = check_end();
    return ndeleted == 2 ? rc : 1;
}
