/*
 * own_functions: reductions by functions of the program, persistent and nonblocking, beside an open
 * window.
 *
 * A program that has not asked for MPI_THREAD_MULTIPLE sees them on its own thread alone, although
 * it computes between start and wait; and they are handed the datatype that the call was.
 *
 *     own_functions [multiple]
 */
#include <pthread.h>
#include <time.h>

#include "check.h"

enum { N = 8, ROUNDS = 6, COMPUTE_MS = 30 };

static pthread_t mine;
static bool anywhere; /* the program has asked for MPI_THREAD_MULTIPLE */
static MPI_Datatype expected;
static _Atomic int calls, astray, mistyped;

/* Elements are pairs: sum and product. */
static void combine(void *from, void *to, int *n, MPI_Datatype *type) {
    int64_t *a = from, *b = to;
    calls++;
    astray += !anywhere && !pthread_equal(pthread_self(), mine);
    mistyped += *type != expected;
    for (int i = 0; i < *n; i++) {
        b[2 * i] += a[2 * i];
        b[2 * i + 1] *= a[2 * i + 1];
    }
}

static void compute(void) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 <
             COMPUTE_MS);
}

static int64_t in[2 * N], out[2 * N];

static void fill(int round) {
    for (int i = 0; i < N; i++) {
        in[2 * i] = 100 * round + 10 * check_rank + i;
        in[2 * i + 1] = 1 + (check_rank + round + i) % 3;
        out[2 * i] = out[2 * i + 1] = -1;
    }
}

static void compare(const char *what, int round) {
    for (int i = 0; i < N; i++) {
        int64_t sum = 0, product = 1;
        for (int r = 0; r < check_nranks; r++) {
            sum += 100 * round + 10 * r + i;
            product *= 1 + (r + round + i) % 3;
        }
        CHECK(out[2 * i] == sum && out[2 * i + 1] == product, "%s, round %d, element %d", what,
              round, i);
    }
    CHECK(astray == 0, "%s, round %d: %d of %d calls on another thread", what, round, astray,
          calls);
    CHECK(mistyped == 0, "%s, round %d: %d of %d calls with another type", what, round, mistyped,
          calls);
}

static void run_persistent(MPI_Op op, MPI_Datatype type) {
    MPI_Request request;
    MUST(MPI_Allreduce_init(in, out, N, type, op, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < ROUNDS; round++) {
        fill(round);
        MUST(MPI_Start(&request));
        compute();
        check_wait(&request);
        compare("Allreduce_init", round);
    }
    MUST(MPI_Request_free(&request));
}

static void run_nonblocking(MPI_Op op, MPI_Datatype type) {
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request request;
        fill(round);
        MUST(MPI_Iallreduce(in, out, N, type, op, MPI_COMM_WORLD, &request));
        compute();
        check_wait(&request);
        compare("Iallreduce", round);
    }
}

int main(int argc, char **argv) {
    MPI_Win win;
    MPI_Op op;
    static int64_t memory[N];
    anywhere = argc > 1 && strcmp(argv[1], "multiple") == 0;
    mine = pthread_self();
    if (anywhere)
        check_begin_threads(&argc, &argv, "own_functions");
    else
        check_begin(&argc, &argv, "own_functions");
    MUST(MPI_Type_contiguous(2, MPI_INT64_T, &expected));
    MUST(MPI_Type_commit(&expected));
    MUST(MPI_Op_create(combine, 1, &op));
    run_persistent(op, expected); /* nothing else is open */
    MUST(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    run_nonblocking(op, expected);
    run_persistent(op, expected);
    MUST(MPI_Win_free(&win));
    int mine_called = calls, called = 0;
    MUST(MPI_Allreduce(&mine_called, &called, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(check_nranks == 1 || called > 0, "the function was never called");
    MUST(MPI_Op_free(&op));
    MUST(MPI_Type_free(&expected));
    check_end();
    return 0;
}
