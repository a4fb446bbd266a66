/* memcpy_sizes.c: how long does one core take to copy a message, by size?
 *
 * The limit that transfers inside a node are held against. Rank 0 copies between two buffers of its
 * own; other ranks only synchronise. The source differs in every iteration, so it comes from the
 * cache the writer left it in, as a message does.
 *
 * Threading: main thread only.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SIZES = 64 };

static const char *size_list = "8,4K,32K,256K,2M,16M";
static double seconds = 0.2;
static long max_iterations = 2000;

struct copy {
    size_t bytes;
    void *from, *to;
    uint64_t seed;
    long errors;
};

static double iterate(void *argument) {
    struct copy *copy = argument;
    bench_sync();
    if (bench.rank != 0)
        return 0;
    bench_pattern_fill(copy->from, copy->bytes, ++copy->seed);
    double begin_us = bench_now_us();
    memcpy(copy->to, copy->from, copy->bytes);
    __asm__ volatile("" : : "r"(copy->to) : "memory");
    double us = bench_now_us() - begin_us;
    if (bench.validate) {
        if (copy->bytes > 0)
            bench_corrupt(copy->to);
        copy->errors += bench_pattern_check(copy->to, copy->bytes, copy->seed, "copied data");
    }
    return us;
}

static void *allocate(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes + 1) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(memory, 0, bytes + 1);
    return memory;
}

static long run_size(long bytes) {
    struct copy copy = {.bytes = (size_t)bytes, .from = allocate((size_t)bytes)};
    copy.to = allocate((size_t)bytes);
    int n;
    double *us = bench_iterate(iterate, &copy, seconds, 0, max_iterations, &n);
    double median_us = bench_median(us, n);
    bench_cell((double)bytes);
    bench_cell(median_us);
    bench_cell(bench_p90(us, n));
    bench_cell((double)bytes / (median_us > 0 ? median_us : 1) * 1e-3);
    bench_cell(n);
    free(us);
    free(copy.from);
    free(copy.to);
    return copy.errors;
}

int main(int argc, char **argv) {
    const struct bench_option options[] = {
        {"sizes", BENCH_TEXT, &size_list, "bytes, with K, M, G"},
        {"seconds", BENCH_REAL, &seconds, "time for each size (at least 5 iterations)"},
        {"max-iterations", BENCH_LONG, &max_iterations, "no more than this for a size"},
    };
    static const struct bench_column columns[] = {
        {"bytes", BENCH_KEY, 0},     {"median_us", BENCH_LOWER, 3}, {"p90_us", BENCH_INFO, 3},
        {"gb_per_s", BENCH_INFO, 2}, {"iterations", BENCH_INFO, 0},
    };
    long sizes[MAX_SIZES], errors = 0;
    bench_start(&argc, &argv, MPI_THREAD_SINGLE,
                "How long does one core take to copy a message, by size?", options,
                sizeof options / sizeof options[0]);
    int nsizes = bench_parse_sizes(size_list, sizes, MAX_SIZES);
    if (nsizes < 1)
        bench_usage_error("--sizes '%s' is not a list of at most %d sizes", size_list, MAX_SIZES);
    if (seconds <= 0 || max_iterations < BENCH_LEAST_ITERATIONS)
        bench_usage_error("--seconds > 0, --max-iterations >= %d", BENCH_LEAST_ITERATIONS);
    bench_header("memcpy by rank 0 from a buffer just written");
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < nsizes; i++)
        errors += run_size(sizes[i]);
    return bench_finish(errors);
}
