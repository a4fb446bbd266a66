/*
 * handlers_leave: an error handler that does not return, but throws an exception (C++) or jumps
 * (C).
 *
 * The call has been left, and the program goes on: messages, persistent and one-sided operations
 * are right after each, from the same thread and from another. Errors of the library's own and of
 * the host's, of communicators, windows of every flavour, requests, and arrays of requests; of
 * persistent collectives and partitioned messages that are started wrongly, and of partitions that
 * are not there. A start that has failed has started nothing.
 *
 *   handlers_leave             as the program of one thread that it is
 *   handlers_leave windows     at MPI_THREAD_MULTIPLE, errors of windows only: MPICH holds its lock
 *                              while it calls a handler of its own accord
 *   handlers_leave persistent  at MPI_THREAD_MULTIPLE, errors of persistent collectives and
 *                              partitioned messages that are the library's
 *
 * Compiled as C, and as C++ by handlers_leave.cpp.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi4.h"

/* MPICH's MPI_STATUSES_IGNORE is (MPI_Status *)1, which gcc takes for an array of no length. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

#ifdef __cplusplus
struct left {
    int code;
};
#define LEAVE(error)                                                                               \
    throw left {                                                                                   \
        error                                                                                      \
    }
#define LEFT_BY(call)                                                                              \
    try {                                                                                          \
        call;                                                                                      \
    } catch (const left &l) {                                                                      \
        code = l.code;                                                                             \
    }
#else
#include <setjmp.h>
static __thread jmp_buf back;
#define LEAVE(error) longjmp(back, error)
#define LEFT_BY(call)                                                                              \
    code = setjmp(back);                                                                           \
    if (code == 0) {                                                                               \
        call;                                                                                      \
    }
#endif

static int rank, nranks, windows_only, persistent_only;
static double values[8], memory[8];

#define CHECK(right, ...)                                                                          \
    do {                                                                                           \
        if (!(right)) {                                                                            \
            fprintf(stderr, "WRONG rank %d of %d, line %d: ", rank, nranks, __LINE__);             \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

static int class_of(int code) {
    int error_class;
    MPI_Error_class(code, &error_class);
    return error_class;
}

/* The call is left by its handler, with an error of the class. */
#define IS_LEFT(want, call)                                                                        \
    do {                                                                                           \
        volatile int code = 0;                                                                     \
        LEFT_BY(call)                                                                              \
        CHECK(code != 0, "%s: the handler was not called", #call);                                 \
        CHECK(class_of(code) == (want), "%s: class %d, not %d", #call, class_of(code), want);      \
        if (windows_only)                                                                          \
            in_another_thread(win);                                                                \
    } while (0)

static void comm_handler(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    LEAVE(*code);
}

static void win_handler(MPI_Win *win, int *code, ...) {
    (void)win;
    LEAVE(*code);
}

/* ---- what goes on ---- */

static void messages(int round) {
    const int right = (rank + 1) % nranks, left_one = (rank + nranks - 1) % nranks;
    int mine = 1000 * round + rank, got = -1;
    MPI_Request r[2];
    MPI_Irecv(&got, 1, MPI_INT, left_one, 7, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(&mine, 1, MPI_INT, right, 7, MPI_COMM_WORLD, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    CHECK(got == 1000 * round + left_one, "message %d", got);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void puts_right(MPI_Win win, const MPI_Aint *addresses, int round) {
    const int right = (rank + 1) % nranks, left_one = (rank + nranks - 1) % nranks;
    double mine = 1000 * round + rank, got = -1;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win);
    MPI_Put(&mine, 1, MPI_DOUBLE, right, addresses[right], 1, MPI_DOUBLE, win);
    MPI_Win_unlock(right, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    MPI_Get(&got, 1, MPI_DOUBLE, rank, addresses[rank], 1, MPI_DOUBLE, win);
    MPI_Win_unlock(rank, win);
    CHECK(got == 1000 * round + left_one, "put %g", got);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void *flushes(void *argument) {
    MPI_Win win = *(MPI_Win *)argument;
    volatile int code = 0;
    LEFT_BY(MPI_Win_flush(0, win))
    CHECK(class_of(code) == MPI_ERR_RMA_SYNC, "another thread: class %d", class_of(code));
    return NULL;
}

static void in_another_thread(MPI_Win win) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, flushes, &win) == 0, "no thread");
    pthread_join(thread, NULL);
}

/* ---- windows ---- */

enum { ALLOCATED, CREATED, DYNAMIC, NKINDS };

static void open_window(int kind, MPI_Win *win, MPI_Aint *addresses) {
    double *base = memory;
    MPI_Aint mine = 0;
    if (kind == ALLOCATED)
        MPI_Win_allocate(sizeof memory, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &base, win);
    else if (kind == CREATED)
        MPI_Win_create(memory, sizeof memory, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, win);
    else
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, win);
    if (kind == DYNAMIC) {
        MPI_Win_attach(*win, memory, sizeof memory);
        MPI_Get_address(memory, &mine);
    }
    MPI_Allgather(&mine, 1, MPI_AINT, addresses, 1, MPI_AINT, MPI_COMM_WORLD);
}

/* A request whose operation fails after it was begun, waited for in each way. Where the host
 * serves the window it writes to what is not attached. */
static void test_requests(MPI_Win win, MPI_Aint mine) {
    char lane[64] = "";
    int ours = 0, index, flag;
    MPI_Info info;
    MPI_Aint blocks[2] = {0, (MPI_Aint)1 << 40};
    MPI_Datatype apart;
    MPI_Win_get_info(win, &info);
    MPI_Info_get(info, "tugboat_lane", sizeof lane - 1, lane, &ours);
    MPI_Info_free(&info);
    if (!ours || strcmp(lane, "packet") != 0)
        return;
    MPI_Type_create_hindexed_block(2, 1, blocks, MPI_DOUBLE, &apart);
    MPI_Type_commit(&apart);
    for (int way = 0; way < 5; way++) {
        MPI_Request r[70];
        for (int i = 0; i < 70; i++)
            r[i] = MPI_REQUEST_NULL;
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
        volatile int code = 0;
        LEFT_BY(MPI_Rput(values, 2, MPI_DOUBLE, rank, mine, 1, apart, win, &r[69]))
        CHECK(class_of(code) == MPI_ERR_RMA_RANGE && r[69] != MPI_REQUEST_NULL, "rput: class %d",
              class_of(code));
        code = 0;
        if (way == 0) {
            LEFT_BY(MPI_Wait(&r[69], MPI_STATUS_IGNORE))
        } else if (way == 1) {
            LEFT_BY(MPI_Test(&r[69], &flag, MPI_STATUS_IGNORE))
        } else if (way == 2) {
            LEFT_BY(MPI_Waitany(70, r, &index, MPI_STATUS_IGNORE))
        } else if (way == 3) {
            LEFT_BY(MPI_Waitall(70, r, MPI_STATUSES_IGNORE))
        } else {
            int indices[70];
            LEFT_BY(MPI_Waitsome(70, r, &index, indices, MPI_STATUSES_IGNORE))
        }
        CHECK(class_of(code) == (way < 3 ? MPI_ERR_RMA_RANGE : MPI_ERR_IN_STATUS),
              "waited for in way %d: class %d", way, class_of(code));
        CHECK(r[69] == MPI_REQUEST_NULL, "way %d: the request is still there", way);
        MPI_Win_unlock(rank, win);
    }
    MPI_Type_free(&apart);
}

static void test_window(int kind, MPI_Errhandler handler) {
    const int right = (rank + 1) % nranks;
    MPI_Aint *addresses = (MPI_Aint *)calloc((size_t)nranks, sizeof(MPI_Aint));
    MPI_Win win;
    open_window(kind, &win, addresses);
    MPI_Win_set_errhandler(win, handler);
    for (int round = 0; round < 3; round++) {
        IS_LEFT(MPI_ERR_RMA_SYNC,
                MPI_Put(values, 1, MPI_DOUBLE, right, addresses[right], 1, MPI_DOUBLE, win));
        puts_right(win, addresses, 10 * round);
        IS_LEFT(MPI_ERR_RANK, MPI_Put(values, 1, MPI_DOUBLE, -5, 0, 1, MPI_DOUBLE, win));
        IS_LEFT(MPI_ERR_COUNT, MPI_Get(values, -1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, win));
        puts_right(win, addresses, 10 * round + 1);
        IS_LEFT(MPI_ERR_RMA_SYNC, MPI_Win_unlock(right, win));
        IS_LEFT(MPI_ERR_KEYVAL, MPI_Win_delete_attr(win, MPI_KEYVAL_INVALID));
        IS_LEFT(MPI_ERR_OTHER, MPI_Win_call_errhandler(win, MPI_ERR_OTHER));
        puts_right(win, addresses, 10 * round + 2);
        messages(round);
    }
    if (kind == DYNAMIC)
        test_requests(win, addresses[rank]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (kind == DYNAMIC)
        MPI_Win_detach(win, memory);
    MPI_Win_free(&win);
    free(addresses);
}

/* ---- communicators ---- */

static void test_communicators(MPI_Errhandler handler) {
    MPI_Win win = MPI_WIN_NULL;
    double two[2] = {1, 2}, one;
    MPI_Request r, p;
    void *base;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    for (int round = 0; round < 3; round++) {
        IS_LEFT(MPI_ERR_RANK, MPI_Send(two, 1, MPI_DOUBLE, nranks + 5, 0, MPI_COMM_WORLD));
        MPI_Isend(two, 2, MPI_DOUBLE, rank, 3, MPI_COMM_WORLD, &r);
        IS_LEFT(MPI_ERR_TRUNCATE,
                MPI_Recv(&one, 1, MPI_DOUBLE, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        IS_LEFT(MPI_ERR_ROOT, MPI_Bcast(two, 1, MPI_DOUBLE, nranks + 5, MPI_COMM_WORLD));
        IS_LEFT(MPI_ERR_SIZE, MPI_Win_allocate(-1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
        messages(round);
        MPI_Send_init(two, 1, MPI_DOUBLE, rank, 4, MPI_COMM_WORLD, &p);
        MPI_Recv_init(&one, 1, MPI_DOUBLE, rank, 4, MPI_COMM_WORLD, &r);
        for (volatile int i = 0; i < 2; i = i + 1) {
            MPI_Start(&r);
            MPI_Start(&p);
            IS_LEFT(MPI_ERR_TAG, MPI_Send(two, 1, MPI_DOUBLE, rank, -7, MPI_COMM_WORLD));
            MPI_Wait(&p, MPI_STATUS_IGNORE);
            MPI_Wait(&r, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&p);
        MPI_Request_free(&r);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* ---- persistent collectives ---- */

static void run_allreduce(MPI_Request *r, int *mine, const int *sum, int round) {
    *mine = round + rank;
    MPI_Start(r);
    MPI_Wait(r, MPI_STATUS_IGNORE);
    CHECK(*sum == nranks * round + nranks * (nranks - 1) / 2, "round %d: sum %d", round, *sum);
}

static void test_collectives(MPI_Errhandler handler) {
    MPI_Win win = MPI_WIN_NULL;
    int mine = 0, sum = 0, got = 0;
    MPI_Request all, p, r;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &all);
    MPI_Send_init(&mine, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &p);
    for (volatile int round = 0; round < 20; round = round + 1) {
        MPI_Irecv(&got, 1, MPI_INT, rank, 6, MPI_COMM_WORLD, &r);
        MPI_Request with_null[3] = {all, p, MPI_REQUEST_NULL}, with_other[2] = {all, r};
        mine = rank;
        MPI_Start(&all);
        IS_LEFT(MPI_ERR_REQUEST, MPI_Start(&all));
        MPI_Wait(&all, MPI_STATUS_IGNORE);
        run_allreduce(&all, &mine, &sum, round);
        IS_LEFT(MPI_ERR_REQUEST, MPI_Startall(3, with_null));
        run_allreduce(&all, &mine, &sum, round + 1);
        if (!persistent_only)
            IS_LEFT(MPI_ERR_REQUEST, MPI_Startall(2, with_other));
        run_allreduce(&all, &mine, &sum, round + 2);
        MPI_Send(&mine, 1, MPI_INT, rank, 6, MPI_COMM_WORLD);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        messages(round);
    }
    MPI_Request_free(&all);
    MPI_Request_free(&p);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* ---- partitioned messages ---- */

#if MPI_VERSION >= 4
enum { N = 4, APART = 2 };

/* Each call that can be wrong, in the middle of a round. */
static void err_in_round(MPI_Request *request, int sends) {
    MPI_Win win = MPI_WIN_NULL;
    int flag = 0;
    IS_LEFT(MPI_ERR_REQUEST, MPI_Start(request));
    if (sends) {
        int list[2] = {1, N};
        IS_LEFT(MPI_ERR_OTHER, MPI_Pready(N, *request));
        IS_LEFT(MPI_ERR_OTHER, MPI_Pready(-1, *request));
        IS_LEFT(MPI_ERR_OTHER, MPI_Pready_range(2, N, *request));
        IS_LEFT(MPI_ERR_OTHER, MPI_Pready_list(2, list, *request));
    } else {
        IS_LEFT(MPI_ERR_OTHER, MPI_Parrived(*request, N, &flag));
    }
}

static void test_partitioned(MPI_Errhandler handler, MPI_Datatype type, int apart) {
    static double data[2 * 4096];
    const int peer = rank ^ 1, sends = rank % 2 == 0, part = apart ? 1 : 1024;
    MPI_Request request;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    if (sends)
        MPI_Psend_init(data, N, part, type, peer, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else
        MPI_Precv_init(data, N, part, type, peer, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (volatile int round = 0; round < 6; round = round + 1) {
        for (int i = 0; i < N * part; i++)
            data[i * (apart ? APART : 1)] = sends ? 100 * round + i : -1;
        MPI_Start(&request);
        if (!persistent_only || (round > 2 && !apart)) /* the first rounds are the host's */
            err_in_round(&request, sends);
        if (sends)
            MPI_Pready_range(0, N - 1, request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < N * part; i++)
            CHECK(data[i * (apart ? APART : 1)] == 100 * round + i, "round %d: element %d is %g",
                  round, i, data[i * (apart ? APART : 1)]);
        messages(round);
    }
    MPI_Request_free(&request);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Bytes side by side, which the library brings, and others, which it leaves to the host. */
static void test_partitions(MPI_Errhandler handler) {
    MPI_Datatype apart;
    test_partitioned(handler, MPI_DOUBLE, 0);
    MPI_Type_create_resized(MPI_DOUBLE, 0, APART * (MPI_Aint)sizeof(double), &apart);
    MPI_Type_commit(&apart);
    test_partitioned(handler, apart, 1);
    MPI_Type_free(&apart);
}
#endif

int main(int argc, char **argv) {
    MPI_Errhandler of_comm, of_win;
    int provided;
    windows_only = argc > 1 && strcmp(argv[1], "windows") == 0;
    persistent_only = argc > 1 && strcmp(argv[1], "persistent") == 0;
    MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    MPI_Comm_create_errhandler(comm_handler, &of_comm);
    MPI_Win_create_errhandler(win_handler, &of_win);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, of_comm);
    if (argc == 1)
        test_communicators(of_comm);
    if (!windows_only)
        test_collectives(of_comm);
#if MPI_VERSION >= 4
    if (!windows_only && nranks % 2 == 0)
        test_partitions(of_comm);
#endif
    for (int kind = 0; kind < NKINDS && !persistent_only; kind++)
        test_window(kind, of_win);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&of_comm);
    MPI_Errhandler_free(&of_win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        puts("right");
    MPI_Finalize();
    return 0;
}
