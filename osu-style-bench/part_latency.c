/* part_latency.c: how long does a partitioned message take, by threads, partitions and size?
 *
 * Two ranks send a message to and fro: MPI_Start of both requests, MPI_Pready of every partition by
 * the threads in turn, MPI_Wait. The table shows half the time of a round trip. An iteration is of
 * several round trips, and its time is the longer one of the two ranks'. Partitions that are made
 * ready while the message's first are on their way, and threads that do not wait for one another,
 * make the difference between MPIs.
 *
 * Invariants: with --validate the data differ in every round trip, and are checked.
 * Threading: the team's threads call MPI_Pready alone.
 */
#include "part_bench.h"

#include <stdlib.h>

enum { SENT, RECEIVED, TAG = 3 };

static long trips = 20;

struct run {
    const struct part_cell *cell;
    size_t bytes;
    void *data[2];
    MPI_Request requests[2];
    uint64_t seed;
    long errors;
};

static void send_now(struct run *run) {
    if (bench.validate)
        bench_pattern_fill(run->data[SENT], run->bytes, run->seed * 2 + (uint64_t)bench.rank);
    MPI_Start(&run->requests[SENT]);
    part_make_ready(&run->requests[SENT], 1, run->cell->partitions);
    MPI_Wait(&run->requests[SENT], MPI_STATUS_IGNORE);
}

static void receive_now(struct run *run) {
    MPI_Start(&run->requests[RECEIVED]);
    MPI_Wait(&run->requests[RECEIVED], MPI_STATUS_IGNORE);
    if (!bench.validate)
        return;
    bench_corrupt(run->data[RECEIVED]);
    run->errors += bench_pattern_check(run->data[RECEIVED], run->bytes,
                                       run->seed * 2 + (uint64_t)!bench.rank, "partitions");
}

/* Returns this rank's microseconds for half a round trip. */
static double iterate(void *argument) {
    struct run *run = argument;
    bench_sync();
    const double begin_us = bench_now_us();
    for (long i = 0; i < trips; i++) {
        run->seed++;
        if (bench.rank == 0)
            send_now(run);
        receive_now(run);
        if (bench.rank == 1)
            send_now(run);
    }
    return (bench_now_us() - begin_us) / (double)(2 * trips);
}

static long run_cell(const struct part_cell *cell) {
    struct run run = {.cell = cell, .bytes = (size_t)cell->partitions * cell->bytes};
    int n;
    for (int i = 0; i < 2; i++)
        run.data[i] = part_memory(run.bytes + 8);
    bench_pattern_fill(run.data[SENT], run.bytes, 1);
    MPI_Psend_init(run.data[SENT], cell->partitions, (MPI_Count)cell->bytes, MPI_BYTE, !bench.rank,
                   TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &run.requests[SENT]);
    MPI_Precv_init(run.data[RECEIVED], cell->partitions, (MPI_Count)cell->bytes, MPI_BYTE,
                   !bench.rank, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &run.requests[RECEIVED]);
    double *us = bench_iterate(iterate, &run, part_seconds, 0, 20000, &n);
    part_print(cell);
    bench_cell(bench_median(us, n));
    bench_cell(bench_p90(us, n));
    bench_cell(us[0]);
    bench_cell(n);
    free(us);
    for (int i = 0; i < 2; i++) {
        MPI_Request_free(&run.requests[i]);
        free(run.data[i]);
    }
    return run.errors;
}

int main(int argc, char **argv) {
    static const struct bench_column columns[] = {
        PART_COLUMNS,
        {"median_us", BENCH_LOWER, 2},
        {"p90_us", BENCH_INFO, 2},
        {"min_us", BENCH_INFO, 2},
        {"samples", BENCH_INFO, 0},
    };
    part_start(&argc, &argv, "How long does a partitioned message take?",
               (struct bench_option){"trips", BENCH_LONG, &trips, "round trips of an iteration"});
    if (trips < 1)
        bench_usage_error("--trips is at least 1");
    bench_header("partitioned messages to and fro: half the time of a round trip");
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    return bench_finish(part_for_each(run_cell));
}
