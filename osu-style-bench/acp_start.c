/* acp_start: how long does ACP take to begin, and how long do the first and the second put to a
 * rank take?
 *
 * The key of a rank's starter memory is known from the beginning, or read by the first operation on
 * it if there are more ranks than TUGBOAT_ACP_KEYS. ACP begins and ends again and again in one job,
 * so connections are there from the warm round on. `init` is the longest acp_init() of all ranks.
 * Then rank 0 puts 8 bytes into the starter memory of each other rank, one after the other, waiting
 * for each, and once more; `first` and `second` are means over the ranks, and samples' medians. The
 * others sleep in acp_sync(). When validating, each rank looks for what was put last.
 */
#include "bench.h"

#include <acp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tugboat/llcl.h>

enum { MAX_SAMPLES = 101, ROUNDS = 2 };

static long nsamples = 15;

static uint64_t content(long sample, int rank) {
    return (uint64_t)sample * 1000 + (uint64_t)rank + 1;
}

static void must(int status, const char *what) {
    if (status != 0)
        bench_usage_error("%s: %s", what, tug_strerror(ACP_ERRNO));
}

/* Microseconds of an acp_init(), the longest of all ranks. */
static double begin(void) {
    double us, longest;
    bench_sync();
    us = bench_now_us();
    must(acp_init(NULL, NULL), "acp_init");
    us = bench_now_us() - us;
    MPI_Allreduce(&us, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return longest;
}

/* Microseconds of a put to each other rank. */
static double put_to_all(uint64_t *own, acp_ga_t own_ga, long sample) {
    const double start = bench_now_us();
    for (int rank = 1; rank < bench.nranks; rank++) {
        *own = content(sample, rank);
        acp_complete(acp_copy(acp_query_starter_ga(rank), own_ga, sizeof *own, ACP_HANDLE_NULL));
    }
    return (bench_now_us() - start) / (bench.nranks - 1);
}

/* Wrong words. us: of acp_init, and of each round. */
static long run_sample(long sample, double us[1 + ROUNDS]) {
    uint64_t *own, *starter;
    us[0] = begin();
    starter = acp_query_address(acp_query_starter_ga(bench.rank));
    own = starter + 1;
    acp_sync();
    if (bench.rank == 0)
        for (int round = 0; round < ROUNDS; round++)
            us[1 + round] = put_to_all(own, acp_query_starter_ga(0) + sizeof *own, sample);
    acp_sync();
    bench_corrupt(starter);
    const bool wrong = bench.validate && bench.rank > 0 && *starter != content(sample, bench.rank);
    must(acp_finalize(), "acp_finalize");
    return wrong;
}

int main(int argc, char **argv) {
    const struct bench_option options[] = {{"samples", BENCH_LONG, &nsamples, "samples"}};
    static const struct bench_column columns[] = {
        {"exchange", BENCH_KEY, -1},  {"ranks", BENCH_KEY, 0},       {"init_us", BENCH_LOWER, 1},
        {"first_us", BENCH_LOWER, 2}, {"second_us", BENCH_LOWER, 2}, {"samples", BENCH_INFO, 0},
    };
    static double us[1 + ROUNDS][MAX_SAMPLES];
    const char *keys = getenv("TUGBOAT_ACP_KEYS");
    long errors = 0;
    bench_start(&argc, &argv, MPI_THREAD_MULTIPLE,
                "How long do ACP's beginning and the first put take?", options,
                sizeof options / sizeof options[0]);
    if (nsamples < 1 || nsamples > MAX_SAMPLES || bench.nranks < 2)
        bench_usage_error("two ranks or more, --samples 1..%d", MAX_SAMPLES);
    bench_header("acp_init, and the first and the second put to each rank");
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    for (long i = -1; i < nsamples; i++) { /* -1: connections are made */
        double now[1 + ROUNDS] = {0};
        errors += run_sample(i, now);
        for (int k = 0; i >= 0 && k < 1 + ROUNDS; k++)
            us[k][i] = now[k];
    }
    bench_cell_text(keys != NULL && atoi(keys) < bench.nranks ? "off" : "on");
    bench_cell((double)bench.nranks);
    bench_cell_medians((double *[]){us[0], us[1], us[2]}, 1 + ROUNDS, (int)nsamples);
    bench_cell((double)nsamples);
    return bench_finish(errors);
}
