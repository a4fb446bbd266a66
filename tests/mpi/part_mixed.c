/*
 * part_mixed: partitioned requests in arrays with others, by every call that completes requests;
 * threads that make partitions ready beside threads that ask for them; senders that are far ahead;
 * communicators that are freed before; requests that are left at MPI_Finalize. Ranks in pairs.
 *
 * "mine" as argument: by MPI_Testall too, which fails over partitioned requests in MPICH 4.0.2; and
 * a partition arrives before others are ready, which it does not have. "apart": not between groups.
 * MPICH 4.0.2 alone hangs there if one process has made communicators that the other has not
 * (MPI_Comm_dup of MPI_COMM_SELF), as processes do that take part apart.
 */
#include <pthread.h>

#include "check.h"

enum { TAG = 7, N = 4, ROUNDS = 40, KINDS = 7, THREADS = 3 };

static bool sends(void) {
    return check_rank % 2 == 0;
}

static int peer(void) {
    return check_rank ^ 1;
}

static void init(void *data, int partitions, int count, MPI_Comm comm, MPI_Request *request) {
    if (sends())
        MUST(MPI_Psend_init(data, partitions, count, MPI_INT, peer(), TAG, comm, MPI_INFO_NULL,
                            request));
    else
        MUST(MPI_Precv_init(data, partitions, count, MPI_INT, peer(), TAG, comm, MPI_INFO_NULL,
                            request));
}

/* ---- arrays ---- */

static void by_waitsome(int n, MPI_Request requests[], bool test) {
    int indices[8], count, left = n;
    while (left > 0) {
        if (test)
            MUST(MPI_Testsome(n, requests, &count, indices, MPI_STATUSES_IGNORE));
        else
            MUST(MPI_Waitsome(n, requests, &count, indices, MPI_STATUSES_IGNORE));
        CHECK(count != MPI_UNDEFINED, "none is active, and %d are to come", left);
        left -= count;
        sched_yield();
    }
}

static void by_waitany(int n, MPI_Request requests[], bool test) {
    int index, flag;
    for (int left = n; left > 0; left -= flag) {
        flag = 1;
        if (test)
            MUST(MPI_Testany(n, requests, &index, &flag, MPI_STATUS_IGNORE));
        else
            MUST(MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE));
        CHECK(!flag || index != MPI_UNDEFINED, "none is active, and %d are to come", left);
        sched_yield();
    }
}

static void by_looks(int n, MPI_Request requests[]) {
    for (int i = 0, flag = 0; i < n; i += flag) {
        MUST(MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE));
        sched_yield();
    }
    MUST(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
}

static void complete(int how, int n, MPI_Request requests[]) {
    int flag = 0;
    if (how == 0)
        MUST(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    else if (how == 1)
        by_waitsome(n, requests, false);
    else if (how == 2)
        by_waitsome(n, requests, true);
    else if (how == 3)
        by_waitany(n, requests, false);
    else if (how == 4)
        by_waitany(n, requests, true);
    else if (how == 5)
        by_looks(n, requests);
    while (how == 6 && !flag) {
        MUST(MPI_Testall(n, requests, &flag, MPI_STATUSES_IGNORE));
        sched_yield();
    }
}

/* Two partitioned ones, one of them of another kind, and two ordinary ones of the same tag. `gaps`:
 * with data that the host brings. */
static void mix(int how, bool gaps) {
    enum { LONG = 5000 };
    static int large[N * LONG];
    int small[2 * N], values[2];
    MPI_Datatype type = MPI_INT;
    MPI_Request requests[4];
    if (gaps)
        MUST(MPI_Type_vector(2, 1, N, MPI_INT, &type));
    else
        MUST(MPI_Type_contiguous(2, MPI_INT, &type));
    MUST(MPI_Type_commit(&type));
    init(large, sends() ? N : 2 * N, sends() ? LONG : LONG / 2, MPI_COMM_WORLD, &requests[0]);
    for (int i = 0; i < 2; i++)
        if (sends())
            MUST(MPI_Send_init(&values[i], 1, MPI_INT, peer(), TAG, MPI_COMM_WORLD,
                               &requests[1 + 2 * i]));
        else
            MUST(MPI_Recv_init(&values[i], 1, MPI_INT, peer(), TAG, MPI_COMM_WORLD,
                               &requests[1 + 2 * i]));
    if (sends())
        MUST(MPI_Psend_init(small, 1, 1, type, peer(), TAG, MPI_COMM_WORLD, MPI_INFO_NULL,
                            &requests[2]));
    else
        MUST(MPI_Precv_init(small, 1, 1, type, peer(), TAG, MPI_COMM_WORLD, MPI_INFO_NULL,
                            &requests[2]));
    const int second = gaps ? N : 1;
    for (int round = 0; round < ROUNDS; round++) {
        large[0] = large[N * LONG - 1] = values[0] = sends() ? round : -1;
        small[0] = small[second] = values[1] = sends() ? round + 1000 : -1;
        MUST(MPI_Startall(4, requests));
        if (sends()) {
            MUST(MPI_Pready(0, requests[2]));
            MUST(MPI_Pready_range(1, N - 1, requests[0]));
            MUST(MPI_Pready(0, requests[0]));
        }
        complete(how, 4, requests);
        CHECK(large[0] == round && large[N * LONG - 1] == round && values[0] == round &&
                  values[1] == round + 1000 && small[0] == round + 1000 &&
                  small[second] == round + 1000,
              "way %d, round %d: %d, %d, %d, %d, %d, %d", how, round, large[0], large[N * LONG - 1],
              values[0], values[1], small[0], small[second]);
    }
    for (int i = 0; i < 4; i++)
        MUST(MPI_Request_free(&requests[i]));
    MUST(MPI_Type_free(&type));
}

/* ---- threads ---- */

struct share {
    MPI_Request request;
    int thread, count, partitions, *data;
};

/* Sender: every third partition, filled just before. Receiver: each thread asks for all. */
static void *do_share(void *argument) {
    const struct share *share = argument;
    for (int i = sends() ? share->thread : 0; i < share->partitions; i += sends() ? THREADS : 1) {
        int *data = share->data + (size_t)i * (size_t)share->count;
        if (sends()) {
            for (int k = 0; k < share->count; k++)
                data[k] = i + 1;
            MUST(MPI_Pready(i, share->request));
            continue;
        }
        for (int flag = 0; !flag;) {
            MUST(MPI_Parrived(share->request, i, &flag));
            if (!flag)
                sched_yield();
        }
        for (int k = 0; k < share->count; k++)
            CHECK(data[k] == i + 1, "partition %d has arrived with %d", i, data[k]);
    }
    return NULL;
}

static void share_among_threads(int partitions, int count) {
    const size_t bytes = (size_t)partitions * (size_t)count * sizeof(int);
    struct share shares[THREADS];
    pthread_t threads[THREADS];
    MPI_Request request;
    int *data = malloc(bytes);
    CHECK(data != NULL, "no memory");
    init(data, partitions, count, MPI_COMM_WORLD, &request);
    for (int round = 0; round < ROUNDS; round++) {
        memset(data, 0, bytes);
        MUST(MPI_Start(&request));
        for (int t = 0; t < THREADS; t++) {
            shares[t] = (struct share){request, t, count, partitions, data};
            CHECK(pthread_create(&threads[t], NULL, do_share, &shares[t]) == 0, "no thread");
        }
        for (int t = 0; t < THREADS; t++)
            CHECK(pthread_join(threads[t], NULL) == 0, "no join");
        check_wait(&request);
    }
    MUST(MPI_Request_free(&request));
    free(data);
}

/* A partition arrives before others are ready, from the fourth round on. */
static void see_first_arrive(void) {
    enum { LONG = 5000 };
    static int data[N * LONG];
    MPI_Request request;
    init(data, N, LONG, MPI_COMM_WORLD, &request);
    for (int round = 0; round < 12; round++) {
        const bool apart = round > 2;
        int answer = 0, flag = 0;
        data[LONG - 1] = data[N * LONG - 1] = sends() ? round : -1;
        MUST(MPI_Start(&request));
        if (sends())
            MUST(MPI_Pready_range(0, apart ? 0 : N - 1, request));
        if (apart && sends()) {
            MUST(MPI_Recv(&answer, 1, MPI_INT, peer(), TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            data[N * LONG - 1] = answer;
            MUST(MPI_Pready_range(1, N - 1, request));
        }
        while (apart && !sends() && !flag) {
            MUST(MPI_Parrived(request, 0, &flag));
            sched_yield();
        }
        if (apart && !sends()) {
            CHECK(data[LONG - 1] == round, "first of round %d: %d", round, data[LONG - 1]);
            answer = round + 1;
            MUST(MPI_Send(&answer, 1, MPI_INT, peer(), TAG, MPI_COMM_WORLD));
        }
        check_wait(&request);
        CHECK(data[N * LONG - 1] == round + apart, "last of round %d: %d", round,
              data[N * LONG - 1]);
        check_barrier(MPI_COMM_WORLD);
    }
    MUST(MPI_Request_free(&request));
}

/* ---- life ---- */

/* The sender goes on while it can, and away; the receiver comes late. */
static void run_ahead(int count) {
    int *data = calloc((size_t)(N * count), sizeof(int)), flag;
    MPI_Request request, barrier;
    CHECK(data != NULL, "no memory");
    init(data, N, count, MPI_COMM_WORLD, &request);
    for (int round = 0; round < ROUNDS; round++) {
        if (!sends() && round == 4) /* long enough for the sender to come to its last */
            for (int i = 0; i < 200; i++) {
                MUST(MPI_Iprobe(peer(), TAG + 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
                sched_yield();
            }
        for (int i = 0; i < N * count; i++)
            data[i] = sends() ? round * N + i : -1;
        MUST(MPI_Start(&request));
        if (sends())
            MUST(MPI_Pready_range(0, N - 1, request));
        check_wait(&request);
        for (int i = 0; i < N * count; i++)
            CHECK(data[i] == round * N + i, "round %d, number %d: %d", round, i, data[i]);
    }
    MUST(MPI_Request_free(&request));
    memset(data, 0, (size_t)(N * count) * sizeof(int)); /* no part of it is still to be sent */
    MUST(MPI_Ibarrier(MPI_COMM_WORLD, &barrier));
    check_wait(&barrier);
    free(data);
}

/* On a communicator that is gone; then some that are left, used and unused. */
static void leave_some(void) {
    static int data[2][N];
    MPI_Comm comm;
    MPI_Request requests[2];
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int i = 0; i < 2; i++)
        init(data[i], N, 1, comm, &requests[i]);
    MUST(MPI_Comm_free(&comm));
    for (int round = 0; round < ROUNDS; round++) {
        data[0][N - 1] = sends() ? round : -1;
        MUST(MPI_Start(&requests[0]));
        if (sends())
            MUST(MPI_Pready_range(0, N - 1, requests[0]));
        check_wait(&requests[0]);
        CHECK(data[0][N - 1] == round, "round %d: %d", round, data[0][N - 1]);
    }
}

/* Even ranks to odd ones, as two groups. */
static void cross_groups(void) {
    int data[N];
    MPI_Comm local, inter;
    MPI_Request request;
    MUST(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &local));
    MUST(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 1 - check_rank % 2, TAG, &inter));
    if (sends())
        MUST(MPI_Psend_init(data, N, 1, MPI_INT, check_rank / 2, TAG, inter, MPI_INFO_NULL,
                            &request));
    else
        MUST(MPI_Precv_init(data, N, 1, MPI_INT, check_rank / 2, TAG, inter, MPI_INFO_NULL,
                            &request));
    for (int round = 0; round < ROUNDS; round++) {
        data[0] = sends() ? round : -1;
        MUST(MPI_Start(&request));
        if (sends())
            MUST(MPI_Pready_range(0, N - 1, request));
        check_wait(&request);
        CHECK(data[0] == round, "round %d between groups: %d", round, data[0]);
    }
    MUST(MPI_Request_free(&request));
    MUST(MPI_Comm_free(&inter));
    MUST(MPI_Comm_free(&local));
}

static bool is(int argc, char **argv, const char *word) {
    return argc > 1 && strcmp(argv[1], word) == 0;
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "part_mixed");
    for (int how = 0; how < KINDS - !is(argc, argv, "mine"); how++) {
        mix(how, false);
        mix(how, true);
    }
    share_among_threads(12, 10);
    share_among_threads(12, 2000);
    if (is(argc, argv, "mine"))
        see_first_arrive();
    run_ahead(1);
    run_ahead(2000);
    run_ahead(5000);
    if (!is(argc, argv, "apart"))
        cross_groups();
    leave_some();
    return check_end();
}
