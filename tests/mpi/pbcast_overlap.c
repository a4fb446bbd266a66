/*
 * pbcast_overlap: does the broadcast go on while the program computes?
 *
 * First every rank starts one and computes, without a call to MPI, until the data are there: they
 * come, on a busy machine too. Then the time of start and wait of 8 MiB is measured; every rank
 * starts, computes for several times as long, and waits: most of the broadcast has to be over by
 * then, so the median wait has to be at most two thirds of the whole. Ranks need a core each for
 * this to mean anything, and a quiet one: where a rank waited for its core, or the computing itself
 * took half as long again as it should have, that says nothing. The data are checked each time.
 */
#include "check.h"
#include <time.h>
#include <unistd.h>

enum { BYTES = 8 << 20, ROUNDS = 15 };

static char *buf;
static MPI_Request request;
static volatile uint64_t sink;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Pure arithmetic, `n` steps of it. */
static void compute(uint64_t n) {
    uint64_t x = sink;
    for (uint64_t i = 0; i < n; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    sink = x;
}

/* One round; returns the time of MPI_Wait, and of start to end in *whole. */
static double round_of(int round, uint64_t steps, double *whole, double *computing) {
    memset(buf, 0x3c, BYTES);
    if (check_rank == 0)
        check_fill(buf, BYTES, 1, (uint64_t)round);
    check_barrier(MPI_COMM_WORLD);
    double start = seconds();
    MUST(MPI_Start(&request));
    double started = seconds();
    compute(steps);
    double wait = seconds();
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    double end = seconds();
    check_same(buf, BYTES, 1, (uint64_t)round, "overlapped", __LINE__);
    *whole = end - start;
    *computing = wait - started;
    return end - wait;
}

/* Nothing but the library's own thread can bring them. */
static void come_while_computing(int round) {
    const volatile char *last = buf + BYTES - 1;
    memset(buf, 0x3c, BYTES);
    if (check_rank == 0)
        check_fill(buf, BYTES, 1, (uint64_t)round);
    static char want[BYTES];
    check_fill(want, BYTES, 1, (uint64_t)round);
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Start(&request));
    do
        compute(10000);
    while (*last != want[BYTES - 1] || memcmp(buf, want, BYTES) != 0);
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    check_same(buf, BYTES, 1, (uint64_t)round, "while computing", __LINE__);
}

/* Seconds for which this process could have run, but had no core. */
static double waited(void) {
    unsigned long long ran, wait = 0;
    FILE *file = fopen("/proc/self/schedstat", "r");
    if (file != NULL && fscanf(file, "%llu %llu", &ran, &wait) != 2)
        wait = 0;
    if (file != NULL)
        fclose(file);
    return 1e-9 * (double)wait;
}

int main(int argc, char **argv) {
    double whole[ROUNDS], waits[ROUNDS], computing[ROUNDS], most[4], unused;
    check_begin(&argc, &argv, "pbcast_overlap");
    buf = malloc(BYTES);
    MUST(MPI_Bcast_init(buf, BYTES, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int i = 0; i < ROUNDS; i++)
        come_while_computing(i);
    double begin = seconds(), waited_before = waited();
    for (int i = 0; i < ROUNDS; i++)
        (void)round_of(i, 0, &whole[i], &unused);
    most[0] = check_median(whole, ROUNDS);
    MUST(MPI_Allreduce(MPI_IN_PLACE, &most[0], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    double before = seconds();
    compute(20000000);
    double per_step = (seconds() - before) / 20000000, target = 5 * most[0] + 0.005;
    for (int i = 0; i < ROUNDS; i++)
        waits[i] = round_of(i, (uint64_t)(target / per_step), &unused, &computing[i]);
    most[1] = check_median(waits, ROUNDS);
    most[2] = check_median(computing, ROUNDS);
    most[3] = (waited() - waited_before) / (seconds() - begin);
    MUST(MPI_Allreduce(MPI_IN_PLACE, most, 4, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    if (check_rank == 0)
        printf("start and wait %.3f ms; after computing for %.3f ms the wait is %.3f ms\n",
               1e3 * most[0], 1e3 * most[2], 1e3 * most[1]);
    MUST(MPI_Request_free(&request));
    free(buf);
    bool crowded = sysconf(_SC_NPROCESSORS_ONLN) < check_nranks;
    bool busy = most[2] > 1.5 * target || most[3] > 0.02;
    if (crowded || busy) {
        if (check_rank == 0)
            printf("the machine is %s: the time says nothing\n", crowded ? "too small" : "busy");
        return check_end();
    }
    CHECK(most[1] < most[0] * 2 / 3, "the wait after computing is as long as without");
    return check_end();
}
