/*
 * partitioned: MPI 4's partitioned communication from every even rank to the odd one behind it.
 *
 * Data are checked every round. Not tried, since MPICH 4.0.2 fails there: MPI_Psend_init to
 * MPI_PROC_NULL (it crashes), MPI_Parrived on an inactive request (an error).
 */
#include <pthread.h>

#include "check.h"

enum { TAG = 5, ROUNDS = 12, THREADS_MOST = 8 };

struct job {
    MPI_Request request;
    int from, to, step;
};

static void *make_ready(void *argument) {
    const struct job *job = argument;
    for (int i = job->from; i < job->to; i += job->step)
        MUST(MPI_Pready(i, job->request));
    return NULL;
}

/* In several threads, each with every n-th partition. */
static void make_all_ready(MPI_Request request, int partitions, int nthreads) {
    pthread_t threads[THREADS_MOST];
    struct job jobs[THREADS_MOST];
    for (int t = 0; t < nthreads; t++) {
        jobs[t] = (struct job){request, t, partitions, nthreads};
        if (t > 0)
            CHECK(pthread_create(&threads[t], NULL, make_ready, &jobs[t]) == 0, "no thread");
    }
    (void)make_ready(&jobs[0]);
    for (int t = 1; t < nthreads; t++)
        CHECK(pthread_join(threads[t], NULL) == 0, "no join");
}

static bool sends(void) {
    return check_rank % 2 == 0;
}

static int peer(void) {
    return check_rank ^ 1;
}

static void init(void *data, int partitions, MPI_Count count, MPI_Datatype type, int tag,
                 MPI_Request *request) {
    if (sends())
        MUST(MPI_Psend_init(data, partitions, count, type, peer(), tag, MPI_COMM_WORLD,
                            MPI_INFO_NULL, request));
    else
        MUST(MPI_Precv_init(data, partitions, count, type, peer(), tag, MPI_COMM_WORLD,
                            MPI_INFO_NULL, request));
}

static void wait_for_status(MPI_Request *request, size_t bytes) {
    MPI_Status status;
    int done = 0, count;
    while (!done) {
        MUST(MPI_Test(request, &done, &status));
        sched_yield();
    }
    if (sends())
        return;
    MUST(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK(status.MPI_SOURCE == peer() && status.MPI_TAG == TAG && count == (int)bytes,
          "status: source %d, tag %d, %d bytes", status.MPI_SOURCE, status.MPI_TAG, count);
}

/* So many partitions of so many bytes on either side, the same in sum. */
static void rounds(int mine, int count, int nthreads) {
    const size_t bytes = (size_t)mine * (size_t)count;
    unsigned char *data = check_memory(bytes + 1);
    MPI_Request request;
    init(data, mine, count, MPI_BYTE, TAG, &request);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        if (sends())
            check_fill(data, bytes, (uint64_t)check_rank, round);
        else
            memset(data, 0xee, bytes);
        MUST(MPI_Start(&request));
        if (sends())
            make_all_ready(request, mine, nthreads);
        wait_for_status(&request, bytes);
        if (!sends())
            check_same(data, bytes, (uint64_t)peer(), round, "rounds", __LINE__);
    }
    MUST(MPI_Request_free(&request));
    check_memory_free(data);
}

/* A range, a list and a single one; every partition is seen to arrive. */
static void see_arrivals(void) {
    enum { N = 8, COUNT = 2500 };
    static int data[N * COUNT];
    const size_t bytes = sizeof(data);
    MPI_Request request;
    init(data, sends() ? N : N / 2, sends() ? COUNT : 2 * COUNT, MPI_INT, TAG, &request);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        if (sends())
            check_fill(data, bytes, (uint64_t)check_rank, round);
        MUST(MPI_Start(&request));
        if (sends()) {
            int list[3] = {7, 1, 0};
            MUST(MPI_Pready_list(3, list, request));
            MUST(MPI_Pready_range(2, 5, request));
            MUST(MPI_Pready(6, request));
        }
        for (int i = 0, flag = 0; i < N / 2 && !sends(); i += flag) {
            MUST(MPI_Parrived(request, i, &flag));
            if (!flag)
                sched_yield();
        }
        if (!sends())
            check_same(data, bytes, (uint64_t)peer(), round, "arrivals", __LINE__);
        wait_for_status(&request, bytes);
    }
    MUST(MPI_Request_free(&request));
}

/* Requests of one tag match in the order of their calls, beside messages of that tag. */
static void keep_order(void) {
    enum { N = 4 };
    int values[N][2], message;
    MPI_Request requests[N + 1];
    for (int i = 0; i < N; i++)
        init(values[i], 2, 1, MPI_INT, TAG, &requests[i]);
    for (int round = 0; round < ROUNDS; round++) {
        message = sends() ? 1000 + round : -1;
        for (int i = 0; i < N; i++)
            values[i][0] = values[i][1] = sends() ? 10 * round + i : -1;
        if (sends())
            MUST(MPI_Isend(&message, 1, MPI_INT, peer(), TAG, MPI_COMM_WORLD, &requests[N]));
        else
            MUST(
                MPI_Irecv(&message, 1, MPI_INT, peer(), MPI_ANY_TAG, MPI_COMM_WORLD, &requests[N]));
        MUST(MPI_Startall(N, requests));
        for (int i = N - 1; i >= 0 && sends(); i--)
            MUST(MPI_Pready_range(0, 1, requests[i]));
        MUST(MPI_Waitall(N + 1, requests, MPI_STATUSES_IGNORE));
        CHECK(message == 1000 + round, "message %d in round %d", message, round);
        for (int i = 0; i < N; i++)
            CHECK(values[i][0] == 10 * round + i && values[i][1] == 10 * round + i,
                  "request %d, round %d: %d, %d", i, round, values[i][0], values[i][1]);
    }
    for (int i = 0; i < N; i++)
        MUST(MPI_Request_free(&requests[i]));
}

/* Columns of a matrix, received as plain numbers. */
static void send_columns(void) {
    enum { N = 6 };
    int data[N][N];
    MPI_Datatype column, columns;
    MPI_Request request;
    MUST(MPI_Type_vector(N, 1, N, MPI_INT, &column));
    MUST(MPI_Type_create_resized(column, 0, sizeof(int), &columns));
    MUST(MPI_Type_commit(&columns));
    if (sends())
        init(data, N, 1, columns, TAG, &request);
    else
        init(data, N, N, MPI_INT, TAG, &request);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N * N; i++)
            data[i / N][i % N] = sends() ? 100 * round + i : -1;
        MUST(MPI_Start(&request));
        if (sends())
            MUST(MPI_Pready_range(0, N - 1, request));
        wait_for_status(&request, sizeof(data));
        for (int i = 0; i < N * N && !sends(); i++)
            CHECK(data[i % N][i / N] == 100 * round + i, "number %d in round %d: %d", i, round,
                  data[i % N][i / N]);
    }
    MUST(MPI_Request_free(&request));
    MUST(MPI_Type_free(&column));
    MUST(MPI_Type_free(&columns));
}

/* One is freed that was never started; the next one of the tag is not taken for it. */
static void start_second(void) {
    int value = 0;
    MPI_Request request;
    init(&value, 1, 1, MPI_INT, TAG, &request);
    MUST(MPI_Request_free(&request));
    init(&value, 1, 1, MPI_INT, TAG, &request);
    value = sends() ? 3 : 0;
    MUST(MPI_Start(&request));
    if (sends())
        MUST(MPI_Pready(0, request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(value == 3, "after one that was freed: %d", value);
    MUST(MPI_Request_free(&request));
}

/* A rank's messages to itself. */
static void send_to_self(void) {
    int from[2], to[2] = {-1, -1};
    MPI_Request requests[2];
    MUST(MPI_Psend_init(from, 2, 1, MPI_INT, check_rank, TAG, MPI_COMM_WORLD, MPI_INFO_NULL,
                        &requests[0]));
    MUST(MPI_Precv_init(to, 1, 2, MPI_INT, check_rank, TAG, MPI_COMM_WORLD, MPI_INFO_NULL,
                        &requests[1]));
    for (int round = 0; round < ROUNDS; round++) {
        from[0] = round;
        from[1] = -round;
        MUST(MPI_Startall(2, requests));
        MUST(MPI_Pready_range(0, 1, requests[0]));
        MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK(to[0] == round && to[1] == -round, "to itself: %d, %d", to[0], to[1]);
    }
    MUST(MPI_Request_free(&requests[0]));
    MUST(MPI_Request_free(&requests[1]));
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "partitioned");
    if (check_rank < check_nranks / 2 * 2) {
        rounds(8, 64, 1);
        rounds(64, 4096, 8);
        rounds(sends() ? 12 : 8, sends() ? 3000 : 4500, 3);
        rounds(sends() ? 1 : 64, sends() ? 64 * 5000 : 5000, 1);
        rounds(16, 65536, 4);
        rounds(sends() ? 3000 : 1000, sends() ? 16 : 48, 3);
        rounds(4, 0, 1);
        see_arrivals();
        keep_order();
        send_columns();
        start_second();
        send_to_self();
    }
    return check_end();
}
