/* acp_rate: how many 8-byte copies of ACP a second, and as many after millions as at first?
 *
 * Rank 0 issues copies without waiting, to rank 1 (put) or, with three ranks, from rank 1 to rank 2
 * (third), a few rows of memory in turn, and completes all of them: a short run of --few and a long
 * one of --many, each by an ACP of its own that has just begun; short ones are repeated until they
 * have taken a while. The others wait in acp_sync(). Both rates are of the same invocation; ratio
 * is long over short.
 */
#include "acp_bench.h"
#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 512, BYTES = 8 * ROWS, MAX_SAMPLES = 31, WARM = 1000 };

static long few = 10000, many = 10000000, nsamples = 3, repeat = 20;
static struct acp_bench acp = {.memory = "starter"};

static void issue(bool third, long commands) {
    acp_ga_t from = third ? acp.targets[1] : acp.own_ga, to = acp.targets[third ? 2 : 1];
    for (long i = 0; i < commands; i++)
        acp_copy(to + 8 * (size_t)(i % ROWS), from + 8 * (size_t)(i % ROWS), 8, ACP_HANDLE_NULL);
    acp_complete(ACP_HANDLE_ALL);
}

/* Million commands a second, on rank 0. */
static double run(bool third, long commands, uint64_t seed, long *errors) {
    double us = 0;
    acp_bench_open(&acp);
    if (bench.rank == (third ? 1 : 0))
        bench_pattern_fill(third ? acp.target : acp.own, BYTES, seed);
    acp_sync();
    if (bench.rank == 0) {
        issue(third, WARM);
        double start = bench_now_us();
        issue(third, commands);
        us = bench_now_us() - start;
    }
    acp_sync();
    if (bench.validate && bench.rank == (third ? 2 : 1)) {
        bench_corrupt(acp.target);
        *errors += bench_pattern_check(acp.target, BYTES, seed, third ? "third" : "put");
    }
    acp_bench_close();
    return (double)commands / us;
}

static long run_row(bool third) {
    double short_rate[MAX_SAMPLES], long_rate[MAX_SAMPLES], ratio[MAX_SAMPLES], each[100];
    double *columns[] = {short_rate, long_rate, ratio};
    long errors = 0;
    for (long i = 0; i < nsamples; i++) {
        uint64_t seed = (uint64_t)i * 1000 + 1;
        for (long k = 0; k < repeat; k++)
            each[k] = run(third, few, seed + (uint64_t)k, &errors);
        bench_sort(each, (int)repeat);
        short_rate[i] = bench_median(each, (int)repeat);
        long_rate[i] = run(third, many, seed + 999, &errors);
        ratio[i] = long_rate[i] / short_rate[i];
    }
    bench_cell_text(third ? "third" : "put");
    bench_cell_medians(columns, 3, (int)nsamples);
    bench_cell((double)nsamples);
    return errors;
}

int main(int argc, char **argv) {
    const struct bench_option options[] = {
        {"few", BENCH_LONG, &few, "commands of a short run"},
        {"many", BENCH_LONG, &many, "commands of a long run"},
        {"repeat", BENCH_LONG, &repeat, "short runs for each long one"},
        {"samples", BENCH_LONG, &nsamples, "long runs for each row"},
        {"memory", BENCH_TEXT, &acp.memory, ACP_BENCH_MEMORY},
    };
    static const struct bench_column columns[] = {
        {"op", BENCH_KEY, -1},    {"few_mops", BENCH_INFO, 2}, {"many_mops", BENCH_HIGHER, 2},
        {"ratio", BENCH_INFO, 3}, {"samples", BENCH_INFO, 0},
    };
    long errors = 0;
    bench_start(&argc, &argv, MPI_THREAD_MULTIPLE,
                "How many copies of ACP a second, at first and after millions?", options,
                sizeof options / sizeof options[0]);
    if (few < ROWS || many < ROWS || repeat < 1 || repeat > 100 || nsamples < 1 ||
        nsamples > MAX_SAMPLES || bench.nranks < 2 || bench.nranks > ACP_BENCH_RANKS)
        bench_usage_error("two ranks or more, --few and --many >= %d, --repeat 1..100, "
                          "--samples 1..%d",
                          ROWS, MAX_SAMPLES);
    acp_bench_begin(&acp, BYTES);
    bench_header("rate of 8-byte copies");
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    errors += run_row(false);
    if (bench.nranks > 2)
        errors += run_row(true);
    return bench_finish(errors);
}
