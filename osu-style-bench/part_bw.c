/* part_bw.c: how many bytes a second do partitioned messages carry, by threads, partitions and
 * size?
 *
 * Rank 0 starts a window of messages, the threads make all partitions of all of them ready, and all
 * are waited for; rank 1 receives them, and sends an answer of one byte behind the window.
 * The time of an iteration is rank 0's, the answer included.
 *
 * Invariants: with --validate the data differ in every window, and are checked.
 * Threading: the team's threads call MPI_Pready alone.
 */
#include "part_bench.h"

#include <stdlib.h>

enum { TAG = 3, ANSWER = 4, MAX_WINDOW = 256 };

static MPI_Status statuses[MAX_WINDOW];

static long window = 16;

struct run {
    const struct part_cell *cell;
    size_t bytes; /* of a message */
    unsigned char *data;
    MPI_Request requests[MAX_WINDOW];
    uint64_t seed;
    long errors;
};

static void send_window(struct run *run) {
    if (bench.validate)
        for (long i = 0; i < window; i++)
            bench_pattern_fill(run->data + (size_t)i * run->bytes, run->bytes,
                               run->seed * MAX_WINDOW + (uint64_t)i);
    MPI_Startall((int)window, run->requests);
    part_make_ready(run->requests, (int)window, run->cell->partitions);
    MPI_Waitall((int)window, run->requests, statuses);
    MPI_Recv(NULL, 0, MPI_BYTE, 1, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void receive_window(struct run *run) {
    MPI_Startall((int)window, run->requests);
    MPI_Waitall((int)window, run->requests, statuses);
    MPI_Send(NULL, 0, MPI_BYTE, 0, ANSWER, MPI_COMM_WORLD);
    if (!bench.validate)
        return;
    bench_corrupt(run->data);
    for (long i = 0; i < window; i++)
        run->errors += bench_pattern_check(run->data + (size_t)i * run->bytes, run->bytes,
                                           run->seed * MAX_WINDOW + (uint64_t)i, "partitions");
}

/* Returns the microseconds of a window. */
static double iterate(void *argument) {
    struct run *run = argument;
    run->seed++;
    bench_sync();
    const double begin_us = bench_now_us();
    if (bench.rank == 0)
        send_window(run);
    else
        receive_window(run);
    return bench.rank == 0 ? bench_now_us() - begin_us : 0;
}

static void open_requests(struct run *run) {
    for (long i = 0; i < window; i++) {
        unsigned char *data = run->data + (size_t)i * run->bytes;
        if (bench.rank == 0)
            MPI_Psend_init(data, run->cell->partitions, (MPI_Count)run->cell->bytes, MPI_BYTE, 1,
                           TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &run->requests[i]);
        else
            MPI_Precv_init(data, run->cell->partitions, (MPI_Count)run->cell->bytes, MPI_BYTE, 0,
                           TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &run->requests[i]);
    }
}

static long run_cell(const struct part_cell *cell) {
    struct run run = {.cell = cell, .bytes = (size_t)cell->partitions * cell->bytes};
    int n;
    run.data = part_memory((size_t)window * run.bytes + 8);
    bench_pattern_fill(run.data, (size_t)window * run.bytes, 1);
    open_requests(&run);
    double *us = bench_iterate(iterate, &run, part_seconds, 0, 20000, &n);
    const double median_us = bench_median(us, n);
    part_print(cell);
    bench_cell((double)window * (double)run.bytes / (median_us > 0 ? median_us : 1));
    bench_cell(median_us / (double)window);
    bench_cell(n);
    free(us);
    for (long i = 0; i < window; i++)
        MPI_Request_free(&run.requests[i]);
    free(run.data);
    return run.errors;
}

int main(int argc, char **argv) {
    static const struct bench_column columns[] = {
        PART_COLUMNS,
        {"MB_per_s", BENCH_HIGHER, 1},
        {"us_per_message", BENCH_INFO, 2},
        {"samples", BENCH_INFO, 0},
    };
    part_start(&argc, &argv, "How many bytes a second do partitioned messages carry?",
               (struct bench_option){"window", BENCH_LONG, &window, "messages under way"});
    if (window < 1 || window > MAX_WINDOW)
        bench_usage_error("--window is 1..%d", MAX_WINDOW);
    bench_header("windows of partitioned messages from rank 0 to rank 1");
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    return bench_finish(part_for_each(run_cell));
}
