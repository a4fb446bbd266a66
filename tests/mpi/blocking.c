/*
 * blocking: calls in which a rank may wait give the same data, statuses and errors whether a window
 * is open or not.
 *
 * Between nodes an open window changes how the library does them: from outside of the host, with
 * their nonblocking twins. All ranks of a communicator must do the same, so the calls are made on
 * communicators that have the window, that have all its ranks or some of them, and that have ranks
 * which know of no window. While some wait, another works on their memory.
 * With the argument "threads" two threads are in MPI, one with the windows, one with the calls.
 */
#include <pthread.h>

#include "win_kinds.h"

#define MOST 4 /* ranks */
#define FEW 3  /* elements from one rank to another */
#define TAG 7
#define LONG_BYTES 200000
#define UNTOUCHED 12345

static pthread_t program_thread;

/* A communicator to make calls on. All ranks enter as often, in whatever communicator. */
struct room {
    MPI_Comm comm;
    int rank, n;
    uint64_t round;
};

static struct room enter(MPI_Comm comm) {
    static uint64_t round;
    struct room room = {.comm = comm, .round = ++round};
    MUST(MPI_Comm_rank(comm, &room.rank));
    MUST(MPI_Comm_size(comm, &room.n));
    return room;
}

static int64_t word(const struct room *room, int writer, int i) {
    return (int64_t)(check_word((uint64_t)writer, room->round, (uint64_t)i) & 0xffff);
}

static void fill(const struct room *room, int64_t *to, int n) {
    for (int i = 0; i < n; i++)
        to[i] = word(room, room->rank, i);
}

/* to[r * FEW + i] has come from rank r's element first + i. */
static void check_blocks(const struct room *room, const int64_t *got, int first, const char *call) {
    for (int r = 0; r < room->n; r++)
        for (int i = 0; i < FEW; i++)
            CHECK(got[r * FEW + i] == word(room, r, first + i), "%s: %d of rank %d", call, i, r);
}

static int64_t sum(const struct room *room, int last, int i) {
    int64_t total = 0;
    for (int r = 0; r <= last; r++)
        total += word(room, r, i);
    return total;
}

/* ---- collectives ---- */

struct layout {
    int counts[MOST], displs[MOST], bytes[MOST];
    MPI_Count counts_c[MOST];
    MPI_Aint displs_c[MOST], bytes_c[MOST];
    MPI_Datatype types[MOST];
};

static struct layout lay_out(void) {
    struct layout l;
    for (int r = 0; r < MOST; r++) {
        l.counts[r] = FEW;
        l.counts_c[r] = FEW;
        l.displs[r] = r * FEW;
        l.displs_c[r] = r * FEW;
        l.bytes[r] = r * FEW * 8;
        l.bytes_c[r] = r * FEW * 8;
        l.types[r] = MPI_INT64_T;
    }
    return l;
}

/* The call with the counts of MPI 3, or of MPI 4. */
#if CHECK_HAS_LARGE_COUNTS
#define LARGE(Name, arguments, arguments_c) MPI_##Name##_c arguments_c
typedef MPI_Count count_c;
#else
#define LARGE(Name, arguments, arguments_c) MPI_##Name arguments
typedef int count_c;
#endif
#define EITHER(large, Name, arguments, arguments_c)                                                \
    do {                                                                                           \
        memset(got, 0x5a, sizeof got);                                                             \
        fill(&room, mine, MOST *FEW);                                                              \
        if (large)                                                                                 \
            MUST(LARGE(Name, arguments, arguments_c));                                             \
        else                                                                                       \
            MUST(MPI_##Name arguments);                                                            \
    } while (0)
#define T MPI_INT64_T

static void rooted(struct room room, bool large, int root) {
    const struct layout l = lay_out();
    int64_t mine[MOST * FEW], got[MOST * FEW];
    EITHER(large, Bcast, (mine, FEW, T, root, room.comm), (mine, FEW, T, root, room.comm));
    for (int i = 0; i < FEW; i++)
        CHECK(mine[i] == word(&room, root, i), "Bcast: %d", i);
    EITHER(large, Gather, (mine, FEW, T, got, FEW, T, root, room.comm),
           (mine, FEW, T, got, FEW, T, root, room.comm));
    if (room.rank == root)
        check_blocks(&room, got, 0, "Gather");
    EITHER(large, Gatherv, (mine, FEW, T, got, l.counts, l.displs, T, root, room.comm),
           (mine, FEW, T, got, l.counts_c, l.displs_c, T, root, room.comm));
    if (room.rank == root)
        check_blocks(&room, got, 0, "Gatherv");
    EITHER(large, Scatter, (mine, FEW, T, got, FEW, T, root, room.comm),
           (mine, FEW, T, got, FEW, T, root, room.comm));
    for (int i = 0; i < FEW; i++)
        CHECK(got[i] == word(&room, root, room.rank * FEW + i), "Scatter: %d", i);
    EITHER(large, Scatterv, (mine, l.counts, l.displs, T, got, FEW, T, root, room.comm),
           (mine, l.counts_c, l.displs_c, T, got, FEW, T, root, room.comm));
    for (int i = 0; i < FEW; i++)
        CHECK(got[i] == word(&room, root, room.rank * FEW + i), "Scatterv: %d", i);
    EITHER(large, Reduce, (mine, got, FEW, T, MPI_SUM, root, room.comm),
           (mine, got, FEW, T, MPI_SUM, root, room.comm));
    for (int i = 0; i < FEW && room.rank == root; i++)
        CHECK(got[i] == sum(&room, room.n - 1, i), "Reduce: %d", i);
}

static void all_to_all(struct room room, bool large) {
    const struct layout l = lay_out();
    int64_t mine[MOST * FEW], got[MOST * FEW];
    MUST(MPI_Barrier(room.comm));
    EITHER(large, Allgather, (mine, FEW, T, got, FEW, T, room.comm),
           (mine, FEW, T, got, FEW, T, room.comm));
    check_blocks(&room, got, 0, "Allgather");
    EITHER(large, Allgatherv, (mine, FEW, T, got, l.counts, l.displs, T, room.comm),
           (mine, FEW, T, got, l.counts_c, l.displs_c, T, room.comm));
    check_blocks(&room, got, 0, "Allgatherv");
    EITHER(large, Alltoall, (mine, FEW, T, got, FEW, T, room.comm),
           (mine, FEW, T, got, FEW, T, room.comm));
    check_blocks(&room, got, room.rank * FEW, "Alltoall");
    EITHER(large, Alltoallv, (mine, l.counts, l.displs, T, got, l.counts, l.displs, T, room.comm),
           (mine, l.counts_c, l.displs_c, T, got, l.counts_c, l.displs_c, T, room.comm));
    check_blocks(&room, got, room.rank * FEW, "Alltoallv");
    EITHER(large, Alltoallw,
           (mine, l.counts, l.bytes, l.types, got, l.counts, l.bytes, l.types, room.comm),
           (mine, l.counts_c, l.bytes_c, l.types, got, l.counts_c, l.bytes_c, l.types, room.comm));
    check_blocks(&room, got, room.rank * FEW, "Alltoallw");
}

static void reductions(struct room room, bool large) {
    const struct layout l = lay_out();
    int64_t mine[MOST * FEW], got[MOST * FEW];
    EITHER(large, Allreduce, (mine, got, FEW, T, MPI_SUM, room.comm),
           (mine, got, FEW, T, MPI_SUM, room.comm));
    for (int i = 0; i < FEW; i++)
        CHECK(got[i] == sum(&room, room.n - 1, i), "Allreduce: %d", i);
    EITHER(large, Allreduce, (MPI_IN_PLACE, mine, FEW, T, MPI_SUM, room.comm),
           (MPI_IN_PLACE, mine, FEW, T, MPI_SUM, room.comm));
    for (int i = 0; i < FEW; i++)
        CHECK(mine[i] == sum(&room, room.n - 1, i), "Allreduce in place: %d", i);
    EITHER(large, Reduce_scatter, (mine, got, l.counts, T, MPI_SUM, room.comm),
           (mine, got, l.counts_c, T, MPI_SUM, room.comm));
    for (int i = 0; i < FEW; i++)
        CHECK(got[i] == sum(&room, room.n - 1, room.rank * FEW + i), "Reduce_scatter: %d", i);
    EITHER(large, Reduce_scatter_block, (mine, got, FEW, T, MPI_SUM, room.comm),
           (mine, got, FEW, T, MPI_SUM, room.comm));
    for (int i = 0; i < FEW; i++)
        CHECK(got[i] == sum(&room, room.n - 1, room.rank * FEW + i), "Reduce_scatter_block: %d", i);
    EITHER(large, Scan, (mine, got, FEW, T, MPI_SUM, room.comm),
           (mine, got, FEW, T, MPI_SUM, room.comm));
    for (int i = 0; i < FEW; i++)
        CHECK(got[i] == sum(&room, room.rank, i), "Scan: %d", i);
    EITHER(large, Exscan, (mine, got, FEW, T, MPI_SUM, room.comm),
           (mine, got, FEW, T, MPI_SUM, room.comm));
    for (int i = 0; i < FEW && room.rank > 0; i++)
        CHECK(got[i] == sum(&room, room.rank - 1, i), "Exscan: %d", i);
}

/* a, b -> 3 a + b: the order of the ranks shows. */
static void in_order(void *in, void *inout, int *n, MPI_Datatype *type) {
    int64_t *a = in, *b = inout;
    (void)type;
    CHECK(pthread_equal(pthread_self(), program_thread), "called by a thread not the program's");
    for (int i = 0; i < *n; i++)
        b[i] = 3 * a[i] + b[i];
}

static void programs_operation(struct room room) {
    int64_t mine[FEW], got[FEW], expected = 0;
    MPI_Op op;
    MUST(MPI_Op_create(in_order, 0, &op));
    fill(&room, mine, FEW);
    MUST(MPI_Allreduce(mine, got, FEW, T, op, room.comm));
    for (int i = 0; i < FEW; i++) {
        expected = word(&room, 0, i);
        for (int r = 1; r < room.n; r++)
            expected = 3 * expected + word(&room, r, i);
        CHECK(got[i] == expected, "%d: %lld, not %lld", i, (long long)got[i], (long long)expected);
    }
    MUST(MPI_Op_free(&op));
}

/* On a ring: first the left neighbour's, then the right one's. */
static void neighbours(struct room room, bool large) {
    const struct layout l = lay_out();
    int64_t mine[MOST * FEW], got[MOST * FEW];
    int periodic = 1;
    MUST(MPI_Cart_create(room.comm, 1, &room.n, &periodic, 0, &room.comm));
    int near[2] = {(room.rank + room.n - 1) % room.n, (room.rank + 1) % room.n};
    EITHER(large, Neighbor_allgather, (mine, FEW, T, got, FEW, T, room.comm),
           (mine, FEW, T, got, FEW, T, room.comm));
    for (int i = 0; i < 2 * FEW; i++)
        CHECK(got[i] == word(&room, near[i / FEW], i % FEW), "Neighbor_allgather: %d", i);
    EITHER(large, Neighbor_allgatherv, (mine, FEW, T, got, l.counts, l.displs, T, room.comm),
           (mine, FEW, T, got, l.counts_c, l.displs_c, T, room.comm));
    for (int i = 0; i < 2 * FEW; i++)
        CHECK(got[i] == word(&room, near[i / FEW], i % FEW), "Neighbor_allgatherv: %d", i);
    if (room.n > 2) { /* with two, which message is which is the host's choice */
        EITHER(large, Neighbor_alltoall, (mine, FEW, T, got, FEW, T, room.comm),
               (mine, FEW, T, got, FEW, T, room.comm));
        for (int i = 0; i < 2 * FEW; i++)
            CHECK(got[i] == word(&room, near[i / FEW], (FEW + i) % (2 * FEW)),
                  "Neighbor_alltoall: %d", i);
        EITHER(large, Neighbor_alltoallv,
               (mine, l.counts, l.displs, T, got, l.counts, l.displs, T, room.comm),
               (mine, l.counts_c, l.displs_c, T, got, l.counts_c, l.displs_c, T, room.comm));
        for (int i = 0; i < 2 * FEW; i++)
            CHECK(got[i] == word(&room, near[i / FEW], (FEW + i) % (2 * FEW)),
                  "Neighbor_alltoallv: %d", i);
        EITHER(
            large, Neighbor_alltoallw,
            (mine, l.counts, l.bytes_c, l.types, got, l.counts, l.bytes_c, l.types, room.comm),
            (mine, l.counts_c, l.bytes_c, l.types, got, l.counts_c, l.bytes_c, l.types, room.comm));
        for (int i = 0; i < 2 * FEW; i++)
            CHECK(got[i] == word(&room, near[i / FEW], (FEW + i) % (2 * FEW)),
                  "Neighbor_alltoallw: %d", i);
    }
    MUST(MPI_Comm_free(&room.comm));
}

static void communicators(struct room room) {
    MPI_Comm made[6];
    MPI_Group group;
    int zero = 0, remain = 1, n;
    MUST(MPI_Comm_dup(room.comm, &made[0]));
    MUST(MPI_Comm_dup_with_info(room.comm, MPI_INFO_NULL, &made[1]));
    MUST(MPI_Comm_group(room.comm, &group));
    MUST(MPI_Comm_create(room.comm, group, &made[2]));
    MUST(MPI_Group_free(&group));
    MUST(MPI_Cart_create(room.comm, 1, &room.n, &zero, 0, &made[3]));
    MUST(MPI_Cart_sub(made[3], &remain, &made[4]));
    MUST(MPI_Comm_split_type(room.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made[5]));
    for (int i = 0; i < 6; i++) {
        MUST(MPI_Comm_size(made[i], &n));
        CHECK(i == 5 ? n <= room.n : n == room.n, "communicator %d has %d ranks", i, n);
        MUST(MPI_Barrier(made[i]));
        MUST(MPI_Comm_free(&made[i]));
        CHECK(made[i] == MPI_COMM_NULL, "Comm_free left %#lx", (unsigned long)made[i]);
    }
}

/* ---- point to point ---- */

static void check_status(const MPI_Status *status, int source, int tag, int bytes) {
    int n, cancelled;
    MUST(MPI_Get_count(status, MPI_BYTE, &n));
    MUST(MPI_Test_cancelled(status, &cancelled));
    CHECK(status->MPI_SOURCE == source && status->MPI_TAG == tag && n == bytes && !cancelled,
          "status: source %d (%d), tag %d (%d), %d bytes (%d), cancelled %d", status->MPI_SOURCE,
          source, status->MPI_TAG, tag, n, bytes, cancelled);
}

typedef int send_call(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int send_call_c(const void *, count_c, MPI_Datatype, int, int, MPI_Comm);

/* How a message is received. */
enum { BY_RECV, BY_RECV_C, BY_ANY, BY_PROBE, BY_MPROBE, BY_MPROBE_C, WAYS_TO_RECEIVE };

static void receive_from(const struct room *room, int how, int left, char *to, int bytes) {
    MPI_Status status = {.MPI_ERROR = UNTOUCHED}, seen = {0};
    MPI_Message message = MPI_MESSAGE_NULL;
    bool any = how == BY_ANY;
    switch (how) {
    case BY_PROBE:
        MUST(MPI_Probe(left, TAG, room->comm, &seen));
        check_status(&seen, left, TAG, bytes);
        break;
    case BY_MPROBE:
    case BY_MPROBE_C:
        MUST(MPI_Mprobe(MPI_ANY_SOURCE, TAG, room->comm, &message, &seen));
        check_status(&seen, left, TAG, bytes);
        if (how == BY_MPROBE)
            MUST(MPI_Mrecv(to, LONG_BYTES, MPI_BYTE, &message, &status));
        else
            MUST(MPI_Mrecv_c(to, LONG_BYTES, MPI_BYTE, &message, &status));
        break;
    default:
        break;
    }
    if (message == MPI_MESSAGE_NULL && how < BY_MPROBE) {
        if (how == BY_RECV_C)
            MUST(MPI_Recv_c(to, LONG_BYTES, MPI_BYTE, left, TAG, room->comm, &status));
        else
            MUST(MPI_Recv(to, LONG_BYTES, MPI_BYTE, any ? MPI_ANY_SOURCE : left,
                          any ? MPI_ANY_TAG : TAG, room->comm, &status));
    }
    check_status(&status, left, TAG, bytes);
    CHECK(status.MPI_ERROR == UNTOUCHED, "MPI_ERROR became %d", status.MPI_ERROR);
    check_same(to, (size_t)bytes, (uint64_t)left, room->round, "message", __LINE__);
}

static void ring(struct room room) {
    static send_call *const calls[] = {MPI_Send, MPI_Ssend};
    static send_call_c *const calls_c[] = {MPI_Send_c, MPI_Ssend_c};
    static char from[LONG_BYTES], to[LONG_BYTES];
    int left = (room.rank + room.n - 1) % room.n, right = (room.rank + 1) % room.n;
    check_fill(from, sizeof from, (uint64_t)room.rank, room.round);
    for (int i = 0; i < 2 * WAYS_TO_RECEIVE && room.n > 1; i++) {
        int bytes = i % 4 == 3 ? LONG_BYTES : 24, call = i % 2;
        if (room.rank % 2)
            receive_from(&room, i % WAYS_TO_RECEIVE, left, to, bytes);
        if (i < WAYS_TO_RECEIVE)
            MUST(calls[call](from, bytes, MPI_BYTE, right, TAG, room.comm));
        else
            MUST(calls_c[call](from, bytes, MPI_BYTE, right, TAG, room.comm));
        if (room.rank % 2 == 0)
            receive_from(&room, i % WAYS_TO_RECEIVE, left, to, bytes);
    }
}

static void swap(struct room room) {
    static char from[LONG_BYTES], to[LONG_BYTES];
    int left = (room.rank + room.n - 1) % room.n, right = (room.rank + 1) % room.n;
    for (int i = 0; i < 8; i++) {
        int bytes = i & 1 ? LONG_BYTES : 24;
        MPI_Status status = {.MPI_ERROR = UNTOUCHED};
        check_fill(from, sizeof from, (uint64_t)room.rank, room.round);
        char *result = i & 2 ? from : to;
        if (i == 0 || i == 1)
            MUST(MPI_Sendrecv(from, bytes, MPI_BYTE, right, TAG, to, LONG_BYTES, MPI_BYTE, left,
                              TAG, room.comm, &status));
        else if (i == 4 || i == 5)
            MUST(MPI_Sendrecv_c(from, bytes, MPI_BYTE, right, TAG, to, LONG_BYTES, MPI_BYTE,
                                MPI_ANY_SOURCE, TAG, room.comm, &status));
        else if (i < 4)
            MUST(MPI_Sendrecv_replace(from, bytes, MPI_BYTE, right, TAG, left, TAG, room.comm,
                                      &status));
        else
            MUST(MPI_Sendrecv_replace_c(from, bytes / 8, T, right, TAG, left, TAG, room.comm,
                                        &status));
        check_same(result, (size_t)bytes, (uint64_t)left, room.round, "swap", __LINE__);
        check_status(&status, left, TAG, bytes);
    }
}

/* A ready send: the receive is posted before the sender is told to go. */
static void ready(struct room room) {
    int64_t x = 0, y[2] = {word(&room, 0, 1), word(&room, 0, 2)};
    MPI_Request request;
    if (room.rank == 1)
        MUST(MPI_Irecv(&x, 1, T, 0, TAG, room.comm, &request));
    MUST(MPI_Barrier(room.comm));
    if (room.rank == 0 && room.n > 1) {
        MUST(MPI_Rsend(&y[0], 1, T, 1, TAG, room.comm));
        MUST(MPI_Recv(&x, 1, T, 1, TAG, room.comm, MPI_STATUS_IGNORE));
        MUST(MPI_Rsend_c(&y[1], 1, T, 1, TAG + 1, room.comm));
    } else if (room.rank == 1) {
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(x == y[0], "Rsend");
        MUST(MPI_Irecv(&x, 1, T, 0, TAG + 1, room.comm, &request));
        MUST(MPI_Send(&x, 1, T, 0, TAG, room.comm));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(x == y[1], "Rsend_c");
    }
}

/* Messages do not overtake one another, however they are sent and received. */
static void order(struct room room) {
    enum { MESSAGES = 12 };
    int64_t x[MESSAGES];
    MPI_Request requests[MESSAGES];
    if (room.rank < 2 && room.n > 1)
        for (int i = 0; i < MESSAGES; i++)
            if (room.rank == 0) {
                x[i] = i;
                requests[i] = MPI_REQUEST_NULL;
                if (i % 3 == 0)
                    MUST(MPI_Isend(&x[i], 1, T, 1, TAG, room.comm, &requests[i]));
                else
                    MUST((i % 3 == 1 ? MPI_Send : MPI_Ssend)(&x[i], 1, T, 1, TAG, room.comm));
            } else if (i % 2) {
                MUST(MPI_Recv(&x[i], 1, T, 0, MPI_ANY_TAG, room.comm, MPI_STATUS_IGNORE));
                requests[i] = MPI_REQUEST_NULL;
            } else {
                MUST(MPI_Irecv(&x[i], 1, T, 0, TAG, room.comm, &requests[i]));
            }
    if (room.rank < 2 && room.n > 1)
        MUST(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MESSAGES && room.rank == 1; i++)
        CHECK(x[i] == i, "message %lld came as number %d", (long long)x[i], i);
}

static void nobody(struct room room) {
    int64_t x = 5, y = 6;
    MPI_Status status;
    MPI_Message message;
    MUST(MPI_Send(&x, 1, T, MPI_PROC_NULL, TAG, room.comm));
    MUST(MPI_Recv(&y, 1, T, MPI_PROC_NULL, TAG, room.comm, &status));
    check_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    MUST(MPI_Probe(MPI_PROC_NULL, TAG, room.comm, &status));
    check_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    MUST(MPI_Mprobe(MPI_PROC_NULL, TAG, room.comm, &message, &status));
    MUST(MPI_Mrecv(&y, 1, T, &message, &status));
    check_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    MUST(MPI_Sendrecv(&x, 1, T, MPI_PROC_NULL, TAG, &y, 1, T, MPI_PROC_NULL, TAG, room.comm,
                      &status));
    check_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    CHECK(y == 6, "nobody sent %lld", (long long)y);
    MUST(MPI_Sendrecv(&x, 1, T, room.rank, TAG, &y, 1, T, room.rank, TAG, room.comm, &status));
    check_status(&status, room.rank, TAG, 8);
    CHECK(y == 5, "to oneself: %lld", (long long)y);
}

/* ---- errors ---- */

static int nerrors;
static MPI_Comm error_comm;

static void count_error(MPI_Comm *comm, int *error, ...) {
    (void)error;
    nerrors++;
    error_comm = *comm;
}

static void expect(const struct room *room, int error, int class, const char *call) {
    int got;
    MUST(MPI_Error_class(error, &got));
    CHECK(got == class, "%s: class %d, not %d", call, got, class);
    CHECK(nerrors == 1 && error_comm == room->comm, "%s: %d errors, the last on %#lx", call,
          nerrors, (unsigned long)error_comm);
    nerrors = 0;
}
#define EXPECT(class, call) expect(&room, (call), (class), #call)

static void errors(struct room room) {
    int64_t x[4] = {0};
    MPI_Errhandler handler;
    int bad = room.n;
    MUST(MPI_Comm_dup(room.comm, &room.comm));
    MUST(MPI_Comm_create_errhandler(count_error, &handler));
    MUST(MPI_Comm_set_errhandler(room.comm, handler));
    EXPECT(MPI_ERR_RANK, MPI_Send(x, 1, T, bad, TAG, room.comm));
    EXPECT(MPI_ERR_RANK, MPI_Recv(x, 1, T, bad, TAG, room.comm, MPI_STATUS_IGNORE));
    EXPECT(MPI_ERR_COUNT, MPI_Recv(x, -1, T, 0, TAG, room.comm, MPI_STATUS_IGNORE));
    EXPECT(MPI_ERR_TYPE, MPI_Recv(x, 1, MPI_DATATYPE_NULL, 0, TAG, room.comm, MPI_STATUS_IGNORE));
    EXPECT(MPI_ERR_TAG, MPI_Send(x, 1, T, 0, -5, room.comm));
    EXPECT(MPI_ERR_TAG, MPI_Probe(0, -5, room.comm, MPI_STATUS_IGNORE));
    EXPECT(MPI_ERR_COUNT,
           MPI_Sendrecv(x, 1, T, 1 % bad, TAG, x + 1, -1, T, 0, TAG, room.comm, MPI_STATUS_IGNORE));
    EXPECT(MPI_ERR_RANK,
           MPI_Sendrecv_replace(x, 1, T, bad, TAG, 0, TAG, room.comm, MPI_STATUS_IGNORE));
    EXPECT(MPI_ERR_ROOT, MPI_Bcast(x, 1, T, bad, room.comm));
    EXPECT(MPI_ERR_OP, MPI_Allreduce(x, x + 2, 1, T, MPI_OP_NULL, room.comm));
    EXPECT(MPI_ERR_COUNT, MPI_Allgather(x, -1, T, x, 1, T, room.comm));
    /* no stray message of the calls above may be here */
    if (room.rank == 0 && room.n > 1) {
        MUST(MPI_Send(x, 4, T, 1, TAG, room.comm));
        MUST(MPI_Send(x, 2, T, 1, TAG, room.comm));
    } else if (room.rank == 1) {
        MPI_Status status;
        EXPECT(MPI_ERR_TRUNCATE, MPI_Recv(x, 1, T, 0, TAG, room.comm, MPI_STATUS_IGNORE));
        MUST(MPI_Recv(x, 2, T, MPI_ANY_SOURCE, MPI_ANY_TAG, room.comm, &status));
        check_status(&status, 0, TAG, 16);
    }
    MUST(MPI_Errhandler_free(&handler));
    MUST(MPI_Comm_free(&room.comm));
}

/* ---- in which communicators, with which windows ---- */

static void between_two(MPI_Comm inter, int side) {
    int64_t x = 10 + side, y = 0;
    int n;
    MPI_Comm merged;
    MUST(MPI_Comm_remote_size(inter, &n));
    MUST(MPI_Barrier(inter));
    MUST(MPI_Allreduce(&x, &y, 1, T, MPI_SUM, inter));
    CHECK(y == n * (10 + !side), "Allreduce with the others: %lld", (long long)y);
    MUST(MPI_Intercomm_merge(inter, side, &merged));
    MUST(MPI_Barrier(merged));
    MUST(MPI_Comm_free(&merged));
}

static void small_calls(MPI_Comm comm) {
    int n;
    MUST(MPI_Comm_size(comm, &n));
    for (int i = 0; i < 2; i++)
        rooted(enter(comm), i, i % n);
    reductions(enter(comm), false);
    ring(enter(comm));
}

static void all_calls(MPI_Comm comm, MPI_Comm half, MPI_Comm inter) {
    for (int large = 0; large < 2; large++) {
        rooted(enter(comm), large, large);
        all_to_all(enter(comm), large);
        reductions(enter(comm), large);
        neighbours(enter(comm), large);
    }
    programs_operation(enter(comm));
    communicators(enter(comm));
    ring(enter(comm));
    swap(enter(comm));
    ready(enter(comm));
    order(enter(comm));
    nobody(enter(comm));
    errors(enter(comm));
    small_calls(half);
    if (inter != MPI_COMM_NULL)
        between_two(inter, check_rank > 0);
}

/* One rank comes late to a call, and meanwhile adds to the memory of those that wait in it. */
static void late(MPI_Comm comm, MPI_Win win, const int64_t *memory) {
    enum { ADDS = 50 };
    struct room room = enter(comm);
    int64_t one = 1, before = memory[0], x = 0;
    int to = (room.rank + 1) % room.n;
    MUST(MPI_Barrier(comm)); /* nobody adds before all have looked */
    MUST(MPI_Win_lock_all(0, win));
    for (int call = 0; call < 4; call++) {
        int worker = call % room.n;
        if (room.rank == worker)
            for (int i = 0; i < ADDS; i++) {
                MUST(MPI_Accumulate(&one, 1, T, to, 0, 1, T, MPI_SUM, win));
                MUST(MPI_Win_flush(to, win));
            }
        if (call == 0)
            MUST(MPI_Barrier(comm));
        else if (call == 1)
            MUST(MPI_Bcast(&x, 1, T, worker, comm));
        else if (room.rank == worker)
            for (int r = 0; r < room.n; r++)
                MUST(MPI_Send(&x, r == worker ? 0 : 1, T, r == worker ? MPI_PROC_NULL : r, TAG,
                              comm));
        else {
            if (call == 3)
                MUST(MPI_Probe(worker, TAG, comm, MPI_STATUS_IGNORE));
            MUST(MPI_Recv(&x, 1, T, worker, TAG, comm, MPI_STATUS_IGNORE));
        }
    }
    MUST(MPI_Win_unlock_all(win));
    MUST(MPI_Barrier(comm));
    int workers = 0;
    for (int call = 0; call < 4; call++)
        workers += (call % room.n + 1) % room.n == room.rank;
    CHECK(memory[0] == before + (int64_t)workers * ADDS, "%lld added",
          (long long)(memory[0] - before));
}

static void one_thread(void) {
    struct kind_win all, some;
    MPI_Comm dup, half, inter = MPI_COMM_NULL;
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    MUST(MPI_Comm_split(MPI_COMM_WORLD, check_rank > 0, -check_rank, &half));
    if (check_nranks > 1)
        MUST(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, check_rank > 0 ? 0 : check_nranks - 1,
                                  TAG, &inter));
    all_calls(MPI_COMM_WORLD, half, inter);
    /* some ranks have a window, and the others know nothing of it */
    CHECK(kind_open(&some, KIND_ALLOCATE, half, 64, 8), "no window");
    all_calls(MPI_COMM_WORLD, half, inter);
    CHECK(kind_open(&all, KIND_ALLOCATE, dup, 64, 8), "no window");
    memset(all.base, 0, 64);
    all_calls(MPI_COMM_WORLD, half, inter);
    all_calls(dup, half, inter);
    late(MPI_COMM_WORLD, all.win, (int64_t *)(void *)all.base);
    /* the window outlives its communicator */
    MUST(MPI_Comm_free(&dup));
    all.comm = MPI_COMM_WORLD;
    late(MPI_COMM_WORLD, all.win, (int64_t *)(void *)all.base);
    kind_close(&all);
    all_calls(MPI_COMM_WORLD, half, inter);
    kind_close(&some);
    small_calls(MPI_COMM_WORLD);
    if (inter != MPI_COMM_NULL)
        MUST(MPI_Comm_free(&inter));
    MUST(MPI_Comm_free(&half));
}

static _Atomic bool windows_made;

static void *make_windows(void *argument) {
    MPI_Comm comm = *(MPI_Comm *)argument;
    struct kind_win w;
    for (int i = 0; i < 10; i++) {
        CHECK(kind_open(&w, i % 2 ? KIND_CREATE : KIND_ALLOCATE, comm, 64, 8), "no window");
        small_calls(comm);
        kind_close(&w);
    }
    windows_made = true;
    return NULL;
}

static void two_threads(void) {
    MPI_Comm comms[2];
    pthread_t thread;
    int64_t made = 0;
    for (int i = 0; i < 2; i++)
        MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    CHECK(pthread_create(&thread, NULL, make_windows, &comms[0]) == 0, "no thread");
    while (made < check_nranks) {
        int64_t mine = windows_made;
        MUST(MPI_Allreduce(&mine, &made, 1, T, MPI_SUM, comms[1]));
    }
    CHECK(pthread_join(thread, NULL) == 0, "join");
    for (int i = 0; i < 2; i++)
        MUST(MPI_Comm_free(&comms[i]));
}

int main(int argc, char **argv) {
    bool threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    program_thread = pthread_self();
    if (threads) {
        check_begin_threads(&argc, &argv, "blocking");
        two_threads();
    } else {
        check_begin(&argc, &argv, "blocking");
        CHECK(check_nranks <= MOST, "for %d ranks at most", MOST);
        one_thread();
    }
    return check_end();
}
