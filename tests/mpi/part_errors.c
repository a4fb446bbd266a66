/*
 * part_errors: what partitioned requests say to calls that are wrong, or that come at another time
 * than usual: in the first round, which is the host's also under the library, and after some.
 *
 * "mine" as argument: MPICH 4.0.2 fails in what follows (it crashes over a request that is freed
 * while active, takes MPI_Pready twice and answers wrong later, MPI_Parrived on an inactive request
 * is an error to it), and the library does not. Not tried at all: MPI_PROC_NULL, with which MPICH
 * crashes or hangs, and requests of other kinds, with which it crashes.
 */
#include "check.h"

enum { TAG = 6, N = 4, ROUNDS = 3 };

static int error_class(int error) {
    int class = -1;
    MUST(MPI_Error_class(error, &class));
    return class;
}

#define GIVES(expected, call)                                                                      \
    do {                                                                                           \
        const int gives_class = error_class(call);                                                 \
        CHECK(gives_class == (expected), "%s gave class %d, not %d", #call, gives_class,           \
              (expected));                                                                         \
    } while (0)
#define FAILS(call) CHECK((call) != MPI_SUCCESS, "%s was no error", #call)

static bool sends(void) {
    return check_rank == 0;
}

static int init(int *data, int partitions, int count, MPI_Request *request) {
    return sends() ? MPI_Psend_init(data, partitions, count, MPI_INT, 1, TAG, MPI_COMM_WORLD,
                                    MPI_INFO_NULL, request)
                   : MPI_Precv_init(data, partitions, count, MPI_INT, 0, TAG, MPI_COMM_WORLD,
                                    MPI_INFO_NULL, request);
}

static void start_round(MPI_Request *request, int *data, int round) {
    for (int i = 0; i < N; i++)
        data[i] = sends() ? 10 * round + i : -1;
    MUST(MPI_Start(request));
}

static void end_round(MPI_Request *request, const int *data, int round) {
    check_wait(request);
    for (int i = 0; i < N; i++)
        CHECK(data[i] == 10 * round + i, "partition %d of round %d: %d", i, round, data[i]);
}

static void do_rounds(MPI_Request *request, int *data, int n) {
    for (int round = 0; round < n; round++) {
        start_round(request, data, round);
        if (sends())
            MUST(MPI_Pready_range(0, N - 1, *request));
        end_round(request, data, round);
    }
}

static void make_wrong_ones(void) {
    int data[N], peer = 1 - check_rank;
    MPI_Request request = MPI_REQUEST_NULL;
    GIVES(MPI_ERR_ARG, init(data, -1, 1, &request));
    GIVES(MPI_ERR_COUNT, init(data, 1, -1, &request));
    GIVES(MPI_ERR_BUFFER, init(NULL, 1, 1, &request));
    GIVES(MPI_ERR_ARG, init(data, 1, 1, NULL));
    GIVES(MPI_ERR_TYPE, MPI_Psend_init(data, 1, 1, MPI_DATATYPE_NULL, peer, TAG, MPI_COMM_WORLD,
                                       MPI_INFO_NULL, &request));
    GIVES(MPI_ERR_RANK, MPI_Psend_init(data, 1, 1, MPI_INT, check_nranks, TAG, MPI_COMM_WORLD,
                                       MPI_INFO_NULL, &request));
    GIVES(MPI_ERR_TAG, MPI_Psend_init(data, 1, 1, MPI_INT, peer, MPI_ANY_TAG, MPI_COMM_WORLD,
                                      MPI_INFO_NULL, &request));
    GIVES(MPI_ERR_COMM,
          MPI_Psend_init(data, 1, 1, MPI_INT, peer, TAG, MPI_COMM_NULL, MPI_INFO_NULL, &request));
    GIVES(MPI_ERR_RANK, MPI_Precv_init(data, 1, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD,
                                       MPI_INFO_NULL, &request));
    GIVES(MPI_ERR_TAG, MPI_Precv_init(data, 1, 1, MPI_INT, peer, MPI_ANY_TAG, MPI_COMM_WORLD,
                                      MPI_INFO_NULL, &request));
    FAILS(MPI_Pready(0, MPI_REQUEST_NULL));
}

/* Partitions that there are not; requests of the other side; none is ready for them. */
static void name_wrong_partitions(int before) {
    int data[N], flag, list[2] = {0, N};
    MPI_Request request;
    MUST(init(data, N, 1, &request));
    do_rounds(&request, data, before);
    if (sends()) {
        FAILS(MPI_Pready(0, request)); /* inactive */
        FAILS(MPI_Pready_range(0, N - 1, request));
        FAILS(MPI_Pready_list(1, list, request));
    }
    start_round(&request, data, before);
    FAILS(MPI_Start(&request));
    if (sends()) {
        GIVES(MPI_ERR_OTHER, MPI_Pready(N, request));
        GIVES(MPI_ERR_OTHER, MPI_Pready(-1, request));
        GIVES(MPI_ERR_OTHER, MPI_Pready_range(2, 1, request));
        GIVES(MPI_ERR_OTHER, MPI_Pready_range(N - 1, N, request));
        GIVES(MPI_ERR_OTHER, MPI_Pready_list(2, list, request));
        GIVES(MPI_ERR_ARG, MPI_Pready_list(-1, list, request));
        FAILS(MPI_Parrived(request, 0, &flag));
        MUST(MPI_Pready_list(0, list, request));
        MUST(MPI_Pready_list(1, list, request));
        MUST(MPI_Pready_range(1, N - 1, request));
    } else {
        GIVES(MPI_ERR_OTHER, MPI_Parrived(request, N, &flag));
        GIVES(MPI_ERR_OTHER, MPI_Parrived(request, -1, &flag));
        FAILS(MPI_Pready(0, request));
    }
    FAILS(MPI_Cancel(&request));
    end_round(&request, data, before);
    FAILS(MPI_Cancel(&request));
    MUST(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL, "the handle stays");
}

/* The receiver is told in every round. */
static void differ_in_sum(int partitions) {
    int data[16] = {0};
    MPI_Request request;
    MUST(init(data, sends() ? N : partitions, 1, &request));
    for (int round = 0; round < ROUNDS; round++) {
        MUST(MPI_Start(&request));
        if (sends()) {
            MUST(MPI_Pready_range(0, N - 1, request));
            check_wait(&request);
        } else {
            FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
    }
    MUST(MPI_Request_free(&request));
}

/* ---- where the host fails ---- */

static void name_one_twice(void) {
    int data[N];
    MPI_Request request;
    MUST(init(data, N, 1, &request));
    do_rounds(&request, data, ROUNDS);
    start_round(&request, data, ROUNDS);
    if (sends()) {
        MUST(MPI_Pready(1, request));
        GIVES(MPI_ERR_REQUEST, MPI_Pready(1, request));
        GIVES(MPI_ERR_REQUEST, MPI_Pready_range(0, 2, request));
        MUST(MPI_Pready(0, request));
        MUST(MPI_Pready_range(2, N - 1, request));
    }
    end_round(&request, data, ROUNDS);
    do_rounds(&request, data, ROUNDS);
    MUST(MPI_Request_free(&request));
}

static void ask_inactive(int before) {
    int data[N], flag = 0;
    MPI_Request request;
    MPI_Status status;
    MUST(init(data, N, 1, &request));
    do_rounds(&request, data, before);
    if (!sends())
        MUST(MPI_Parrived(request, 0, &flag));
    CHECK(flag || sends(), "nothing has arrived of an inactive request");
    MUST(MPI_Wait(&request, &status));
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG,
          "status of an inactive request: source %d, tag %d", status.MPI_SOURCE, status.MPI_TAG);
    MUST(MPI_Request_free(&request));
}

/* What was started is sent and received all the same. */
static void free_active(int before, int count) {
    int *data = calloc((size_t)(N * count), sizeof(int)), last = N * count - 1;
    MPI_Request request;
    CHECK(data != NULL, "no memory");
    MUST(init(data, N, count, &request));
    for (int round = 0; round <= before; round++) {
        data[last] = sends() ? round + 1 : 0;
        MUST(MPI_Start(&request));
        if (sends())
            MUST(MPI_Pready_range(0, N - 1, request));
        if (round < before)
            check_wait(&request);
    }
    MUST(MPI_Request_free(&request));
    for (uint64_t looks = 0; !sends() && *(volatile int *)&data[last] != before + 1; looks++) {
        int flag;
        MUST(MPI_Iprobe(0, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        sched_yield();
    }
    check_barrier(MPI_COMM_WORLD);
    free(data);
}

int main(int argc, char **argv) {
    int provided;
    MUST(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    check_note("part_errors");
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MUST(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    if (argc > 1) {
        name_one_twice();
        ask_inactive(0);
        ask_inactive(ROUNDS);
        free_active(1, 1);
        free_active(ROUNDS, 1);
        free_active(ROUNDS, 20000);
    } else {
        make_wrong_ones();
        name_wrong_partitions(0);
        name_wrong_partitions(ROUNDS);
        differ_in_sum(N - 1);
        differ_in_sum(N + 1);
    }
    return check_end();
}
