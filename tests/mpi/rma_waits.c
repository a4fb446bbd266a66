/*
 * rma_waits: MPI_Wait, Waitany, Waitsome and Waitall tell an error once and fill statuses as the
 * host does, whether a window is open or not.
 *
 * Between nodes an open window changes how the library waits for the host's requests: from outside,
 * by looks. A look that reported an error would leave it to be reported again. Messages go from
 * each rank to itself; the error is a receive that is too short. Through which handler it comes is
 * the host's choice.
 */
#include "win_kinds.h"

#define TAG 7
#define MANY 70
#define T MPI_INT64_T

static int nerrors;

static void count_error(MPI_Comm *comm, int *error, ...) {
    (void)comm;
    (void)error;
    nerrors++;
}

/* A receive that is too short for its message, which is under way. */
static MPI_Request too_short(int64_t *to, MPI_Request *send) {
    static const int64_t two[2];
    MPI_Request receive;
    MUST(MPI_Isend(two, 2, T, 0, TAG, MPI_COMM_SELF, send));
    MUST(MPI_Irecv(to, 1, T, 0, TAG, MPI_COMM_SELF, &receive));
    return receive;
}

static int class_of(int error) {
    int class;
    MUST(MPI_Error_class(error, &class));
    return class;
}

enum way { WAIT, WAITANY, WAITSOME, WAITALL, NWAYS };
static const char *const names[NWAYS] = {"MPI_Wait", "MPI_Waitany", "MPI_Waitsome", "MPI_Waitall"};

static int wait_by(enum way way, MPI_Request requests[2], MPI_Status statuses[2]) {
    int which = -1, n = 0, indices[2], error;
    switch (way) {
    case WAIT:
        return MPI_Wait(&requests[1], &statuses[1]);
    case WAITANY:
        error = MPI_Waitany(2, requests, &which, &statuses[1]);
        break;
    case WAITSOME:
        error = MPI_Waitsome(2, requests, &n, indices, statuses);
        CHECK(n == 1 && indices[0] == 1, "%d requests, the first is %d", n, indices[0]);
        statuses[1] = statuses[0];
        break;
    default:
        error = MPI_Waitall(2, requests, statuses);
    }
    return error;
}

/* The short receive, behind another request that is fine, or none. */
static void fail_one(enum way way, MPI_Request other) {
    MPI_Request requests[2] = {other}, send;
    MPI_Status statuses[2];
    int64_t x;
    const int wanted = way < WAITSOME ? MPI_ERR_TRUNCATE : MPI_ERR_IN_STATUS;
    requests[1] = too_short(&x, &send);
    nerrors = 0;
    statuses[0].MPI_ERROR = MPI_SUCCESS; /* the host leaves that of no request alone */
    int error = wait_by(way, requests, statuses);
    CHECK(class_of(error) == wanted, "%s: class %d, not %d", names[way], class_of(error), wanted);
    CHECK(nerrors == 1, "%s: %d errors are reported", names[way], nerrors);
    CHECK(wanted != MPI_ERR_IN_STATUS || class_of(statuses[1].MPI_ERROR) == MPI_ERR_TRUNCATE,
          "%s: class %d in the status", names[way], class_of(statuses[1].MPI_ERROR));
    CHECK(way != WAITALL || statuses[0].MPI_ERROR == MPI_SUCCESS, "the other has not failed");
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL,
          "%s: the requests are gone", names[way]);
    MUST(MPI_Wait(&send, MPI_STATUS_IGNORE));
}

/* Sends first, then nothing, then receives. */
static void wait_for_many(void) {
    MPI_Request requests[2 * MANY + 1];
    MPI_Status statuses[2 * MANY + 1];
    int64_t from[MANY], to[MANY];
    int count;
    memset(statuses, 0x5a, sizeof(statuses));
    requests[MANY] = MPI_REQUEST_NULL;
    for (int i = 0; i < MANY; i++) {
        from[i] = check_rank * MANY + i;
        MUST(MPI_Isend(&from[i], 1, T, 0, i, MPI_COMM_SELF, &requests[i]));
        MUST(MPI_Irecv(&to[i], 1, T, 0, i, MPI_COMM_SELF, &requests[MANY + 1 + i]));
    }
    MUST(MPI_Waitall(2 * MANY + 1, requests, statuses));
    for (int i = 0; i < MANY; i++) {
        const MPI_Status *status = &statuses[MANY + 1 + i];
        MUST(MPI_Get_count(status, T, &count));
        CHECK(requests[i] == MPI_REQUEST_NULL && requests[MANY + 1 + i] == MPI_REQUEST_NULL,
              "requests %d are gone", i);
        CHECK(status->MPI_SOURCE == 0 && status->MPI_TAG == i && count == 1,
              "status %d: source %d, tag %d, %d words", i, status->MPI_SOURCE, status->MPI_TAG,
              count);
        CHECK(to[i] == from[i], "message %d brings %lld", i, (long long)to[i]);
    }
    MUST(MPI_Get_count(&statuses[MANY], T, &count));
    CHECK(count == 0 && statuses[MANY].MPI_TAG == MPI_ANY_TAG &&
              statuses[MANY].MPI_SOURCE == MPI_ANY_SOURCE,
          "the status of nothing is empty");
}

static void all_waits(void) {
    MPI_Errhandler handler;
    MUST(MPI_Comm_create_errhandler(count_error, &handler));
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    MUST(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    for (enum way way = WAIT; way < NWAYS; way++)
        fail_one(way, MPI_REQUEST_NULL);
    wait_for_many();
    MUST(MPI_Errhandler_free(&handler));
}

int main(int argc, char **argv) {
    struct kind_win w;
    MPI_Request put;
    check_begin(&argc, &argv, "rma_waits");
    all_waits();
    CHECK(kind_open(&w, KIND_CREATE, MPI_COMM_WORLD, 64, 8), "no window");
    all_waits();
    int64_t word = check_rank;
    MUST(MPI_Win_lock_all(0, w.win));
    MUST(MPI_Rput(&word, 1, T, (w.rank + 1) % w.nranks, 0, 1, T, w.win, &put));
    fail_one(WAITALL, put);
    MUST(MPI_Win_unlock_all(w.win));
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    kind_close(&w);
    return check_end();
}
