/*
 * pcoll_far: persistent collectives between nodes.
 *
 * Requests of growing and shrinking lengths follow one another on the same channel, with several
 * outstanding, data that have gaps at one end, and roots in turn. A rank that passes a broadcast on
 * waits for a message of the host's, or computes, between start and wait: the others get the
 * broadcast all the same. Under the library what goes between nodes is its own operations, which
 * its counters tell ("counted": they must). "brief": each request starts twice only.
 *
 *     pcoll_far [counted | brief]
 */
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { LONGEST = 300000, STARTS = 5, REQUESTS = 4, ROUNDS = 6 };

static const int lengths[] = {1, 40000, 2, 0, 9, 511, 513, 4095, LONGEST, 4096, 5000, 1};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

static int32_t *memory[REQUESTS];
static MPI_Datatype gaps; /* one integer in the place of two */

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int32_t value(int round, int request, int i) {
    return (int32_t)(check_word((uint64_t)request, (uint64_t)round, (uint64_t)i) >> 33);
}

/* ---- lengths ---- */

/* Ranks of odd number have gaps in every other round. */
static int stride_of(int round) {
    return (round + check_rank) % 2 + 1;
}

static void fill(int round, int request, int n, int stride, bool root) {
    for (int i = 0; i < n; i++) {
        memory[request][i * stride] = root ? value(round, request, i) : -1;
        if (stride == 2)
            memory[request][i * stride + 1] = -2;
    }
    memory[request][n * stride] = -3;
}

static void look(int round, int request, int n, int stride) {
    for (int i = 0; i < n; i++) {
        CHECK(memory[request][i * stride] == value(round, request, i),
              "round %d, request %d of %d, integer %d", round, request, n, i);
        CHECK(stride == 1 || memory[request][i * stride + 1] == -2,
              "round %d, request %d of %d, gap behind %d", round, request, n, i);
    }
    CHECK(memory[request][n * stride] == -3, "round %d, request %d of %d, its end", round, request,
          n);
}

static void lengths_change(int starts) {
    MPI_Request requests[REQUESTS];
    int counts[REQUESTS], roots[REQUESTS];
    for (int round = 0; round < LENGTHS; round++) {
        const int stride = stride_of(round);
        for (int r = 0; r < REQUESTS; r++) {
            counts[r] = lengths[(round * 5 + r) % LENGTHS];
            roots[r] = (round + r) % check_nranks;
            MUST(MPI_Bcast_init(memory[r], counts[r], stride == 2 ? gaps : MPI_INT32_T, roots[r],
                                MPI_COMM_WORLD, MPI_INFO_NULL, &requests[r]));
        }
        for (int start = 0; start < starts; start++) {
            for (int r = 0; r < REQUESTS; r++)
                fill(start, r, counts[r], stride, check_rank == roots[r]);
            if ((start + check_rank) % 3 == 0)
                usleep(300);
            MUST(MPI_Startall(REQUESTS, requests));
            MUST(MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE));
            for (int r = 0; r < REQUESTS; r++)
                look(start, r, counts[r], stride);
        }
        for (int r = 0; r < REQUESTS; r++)
            MUST(MPI_Request_free(&requests[r]));
    }
}

/* ---- in the middle ---- */

/* The last rank has the broadcast, and says so. */
static void tell(int round) {
    if (check_rank == check_nranks - 1 && check_rank > 1)
        MUST(MPI_Send(&round, 1, MPI_INT, 1, round, MPI_COMM_WORLD));
}

/* Rank 1 waits for a message of the last rank's, which comes when that has the broadcast. */
static void waits_elsewhere(int n) {
    MPI_Request request;
    int told = -1;
    MUST(MPI_Bcast_init(memory[0], n, MPI_INT32_T, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < ROUNDS; round++) {
        fill(round, 0, n, 1, check_rank == 0);
        MUST(MPI_Start(&request));
        if (check_rank == 1 && check_nranks > 2)
            MUST(MPI_Recv(&told, 1, MPI_INT, check_nranks - 1, round, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        look(round, 0, n, 1);
        tell(round);
    }
    MUST(MPI_Request_free(&request));
}

/* Rank 1 computes and calls nothing; the others do not wait for that. */
static void computes(int n) {
    const double long_s = 1.0;
    int quick = 0;
    MPI_Request request;
    MUST(MPI_Bcast_init(memory[0], n, MPI_INT32_T, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < ROUNDS; round++) {
        fill(round, 0, n, 1, check_rank == 0);
        MUST(MPI_Barrier(MPI_COMM_WORLD));
        const double begin = now_s();
        MUST(MPI_Start(&request));
        while (check_rank == 1 && round == ROUNDS - 1 && now_s() - begin < long_s)
            ;
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        quick = now_s() - begin < long_s / 2;
        look(round, 0, n, 1);
    }
    CHECK(check_rank == 1 || quick, "a broadcast of %d integers waited for one who computes", n);
    MUST(MPI_Request_free(&request));
}

/* ---- counters ---- */

static MPI_T_pvar_session session;

static MPI_T_pvar_handle open_counter(const char *name) {
    MPI_T_pvar_handle handle;
    int index, count, provided;
    MUST(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    MUST(MPI_T_pvar_session_create(&session));
    MUST(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index));
    MUST(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    return handle;
}

/* Doubles are added in another order by the host: it is not tried. Doubling sends once a step. */
static void counted(void) {
    enum { RUNS = 100 };
    uint64_t before, after;
    double mine = check_rank + 1, sum = 0;
    MPI_Request request;
    MPI_T_pvar_handle operations = open_counter("tugboat_operations");
    MUST(MPI_Allreduce_init(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                            &request));
    MUST(MPI_T_pvar_read(session, operations, &before));
    for (int run = 0; run < RUNS; run++) {
        MUST(MPI_Start(&request));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(sum == check_nranks * (check_nranks + 1) / 2.0, "run %d: %g", run, sum);
    }
    MUST(MPI_T_pvar_read(session, operations, &after));
    CHECK(after - before >= RUNS, "%d runs were %llu operations of the library's own", RUNS,
          (unsigned long long)(after - before));
    MUST(MPI_Request_free(&request));
    MUST(MPI_T_pvar_handle_free(session, &operations));
    MUST(MPI_T_pvar_session_free(&session));
    MUST(MPI_T_finalize());
}

int main(int argc, char **argv) {
    MPI_Datatype one;
    check_begin(&argc, &argv, "pcoll_far");
    for (int r = 0; r < REQUESTS; r++)
        memory[r] = malloc((2 * LONGEST + 2) * sizeof(int32_t));
    MUST(MPI_Type_create_resized(MPI_INT32_T, 0, 8, &one));
    MUST(MPI_Type_contiguous(1, one, &gaps));
    MUST(MPI_Type_commit(&gaps));
    lengths_change(argc > 1 && strcmp(argv[1], "brief") == 0 ? 2 : STARTS);
    for (int i = 0; i < LENGTHS; i += 4)
        waits_elsewhere(lengths[i]);
    if (argc > 1 && strcmp(argv[1], "counted") == 0) {
        computes(1);
        computes(LONGEST);
        counted();
    }
    MUST(MPI_Type_free(&one));
    MUST(MPI_Type_free(&gaps));
    for (int r = 0; r < REQUESTS; r++)
        free(memory[r]);
    check_end();
    return 0;
}
