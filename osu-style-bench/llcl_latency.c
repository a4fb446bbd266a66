/* llcl_latency.c: how long does one operation of the low-level layer take, by size, and what does
 * the engine add to it?
 *
 * One thread of the origin starts an operation and waits for it, again and again: as LLCL is meant
 * to be used, and with all calls under one lock and polling waits (locked). Samples of the two
 * alternate; added_ns and ratio are medians over the pairs.
 *
 * Invariants: every operation of a sample carries another first word and every sample another
 * pattern, so what must be in the target's memory, in the origin's or in the messages is known;
 * fetch_and_ops must return 0, 1, 2, ... .
 * Threading: main threads only.
 */
#include "llcl_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIZES = 32, MAX_SAMPLES = 1000, MIN_OPERATIONS = 4 };

static const char *size_list = "8,64,512,4K,32K,256K,1M";
static const char *op_list = "read,write,fetch_and_op,am";
static long nsamples = 51;
static double seconds = 0.002;

static struct llcl_side sides[2]; /* engine, locked */

struct job {
    struct llcl_side *side;
    enum llcl_op op;
    size_t bytes;
    uint64_t noperations;
    uint64_t seed;
    char way[LLCL_WAY];
    long errors;
};

/* ---- one sample ---- */

static void check_word(struct job *job, uint64_t found, uint64_t expected, const char *what) {
    if (found == expected)
        return;
    if (job->errors++ == 0)
        fprintf(stderr, "%s: rank %d: %s, %s: %llu, not %llu\n", bench.name, bench.rank,
                llcl_op_names[job->op], what, (unsigned long long)found,
                (unsigned long long)expected);
}

/* Returns nanoseconds for one operation. */
static double operate(struct job *job) {
    struct llcl_side *side = job->side;
    struct tug_counter counter = {0};
    uint64_t *first_word = (uint64_t *)side->buffer;
    bool numbered = job->bytes >= 8 && (job->op == LLCL_WRITE || job->op == LLCL_AM);
    bool check_result = bench.validate && job->op == LLCL_FETCH && job->bytes == 8;
    double begin_us = bench_now_us();
    for (uint64_t i = 0; i < job->noperations; i++) {
        if (numbered)
            *first_word = i;
        llcl_start(side, job->op, 0, 0, job->bytes, &counter);
        llcl_wait(side, &counter, i + 1);
        if (check_result)
            check_word(job, *first_word, i, "the old value");
    }
    return (bench_now_us() - begin_us) * 1e3 / (double)job->noperations;
}

/* The pattern, but for a first word that numbers the operations. */
static void check_pattern(struct job *job, unsigned char *data, const char *what) {
    if (job->op == LLCL_WRITE && job->bytes >= 8) {
        uint64_t word, first = bench_pattern_word(job->seed, 0);
        memcpy(&word, data, 8);
        check_word(job, word, job->noperations - 1, "the number of the last");
        memcpy(data, &first, 8);
    }
    job->errors += bench_pattern_check(data, job->bytes, job->seed, what);
}

static void check_messages(struct job *job) {
    const struct llcl_sink *sink = &job->side->sink;
    uint64_t n = job->noperations, numbers = n * (n - 1) / 2, last = numbers;
    if (job->bytes < 8)
        numbers = last = 0;
    else if (job->bytes > 8) {
        bench_pattern_fill(job->side->buffer, job->bytes, job->seed);
        memcpy(&last, job->side->buffer + job->bytes - 8, 8);
        last *= n;
    }
    check_word(job, sink->messages, n, "messages");
    check_word(job, sink->first_words, numbers, "sum of their numbers");
    if (job->bytes % 8 == 0)
        check_word(job, sink->last_words, last, "sum of their last words");
}

static void prepare(struct job *job) {
    struct llcl_side *side = job->side;
    job->seed++;
    side->sink = (struct llcl_sink){0};
    if (bench.rank == LLCL_ORIGIN && job->op == LLCL_READ)
        memset(side->buffer, 0, job->bytes);
    else if (bench.rank == LLCL_ORIGIN)
        bench_pattern_fill(side->buffer, job->bytes, job->seed);
    else if (job->op == LLCL_READ)
        bench_pattern_fill(side->memory, job->bytes, job->seed);
    else
        memset(side->memory, 0, job->bytes);
    bench_sync();
}

static void check(struct job *job) {
    struct llcl_side *side = job->side;
    if (bench.rank == LLCL_ORIGIN && job->op == LLCL_READ && job->bytes > 0) {
        bench_corrupt(side->buffer);
        check_pattern(job, side->buffer, "data read");
    }
    if (bench.rank != LLCL_TARGET)
        return;
    bench_corrupt(job->op == LLCL_AM ? (void *)&side->sink.first_words : (void *)side->memory);
    if (job->op == LLCL_WRITE)
        check_pattern(job, side->memory, "data written");
    else if (job->op == LLCL_FETCH && job->bytes == 8)
        check_word(job, *(uint64_t *)side->memory, job->noperations, "the target's integer");
    else if (job->op == LLCL_AM)
        check_messages(job);
}

/* Returns nanoseconds for one operation, at the origin. */
static double measure(struct job *job) {
    double ns = 0;
    prepare(job);
    if (bench.rank == LLCL_ORIGIN) {
        ns = operate(job);
        llcl_release(job->side, job->noperations);
    } else {
        job->noperations = llcl_serve(job->side);
    }
    bench_sync();
    if (bench.validate)
        check(job);
    return ns;
}

static double run_sample(struct job *job) {
    uint64_t noperations = job->noperations;
    llcl_side_open(job->side);
    job->noperations = MIN_OPERATIONS;
    measure(job);
    job->noperations = noperations;
    double ns = measure(job);
    llcl_side_way(job->side, job->op, job->bytes, job->way);
    llcl_side_close(job->side);
    return ns;
}

/* ---- rows ---- */

/* Grows until a sample can be judged by. Both sides get the same number, the smaller one. */
static uint64_t choose_noperations(struct job *job) {
    job->noperations = MIN_OPERATIONS;
    for (;;) {
        uint64_t next[2] = {0};
        double us = run_sample(job) * 1e-3 * (double)job->noperations;
        if (bench.rank == LLCL_ORIGIN) {
            next[1] = us >= seconds * 1e5;
            double fit = next[1] != 0 ? seconds * 1e6 / us * (double)job->noperations
                                      : 4.0 * (double)job->noperations;
            next[0] = fit < MIN_OPERATIONS ? MIN_OPERATIONS : (uint64_t)fit;
        }
        MPI_Bcast(next, 2, MPI_UINT64_T, LLCL_ORIGIN, MPI_COMM_WORLD);
        job->noperations = next[0];
        if (next[1] != 0)
            return next[0];
    }
}

static long run_row(enum llcl_op op, size_t bytes) {
    double ns[2][MAX_SAMPLES], added[MAX_SAMPLES], ratio[MAX_SAMPLES];
    struct job jobs[2];
    uint64_t noperations = UINT64_MAX;
    for (int side = 0; side < 2; side++) {
        jobs[side] = (struct job){.side = &sides[side], .op = op, .bytes = bytes};
        uint64_t n = choose_noperations(&jobs[side]);
        noperations = n < noperations ? n : noperations;
    }
    for (int i = 0; i < nsamples; i++) {
        for (int j = 0; j < 2; j++) {
            int side = (i + j) % 2;
            jobs[side].noperations = noperations;
            ns[side][i] = run_sample(&jobs[side]);
        }
        added[i] = ns[0][i] - ns[1][i];
        ratio[i] = ns[0][i] / ns[1][i];
    }
    double *columns[] = {ns[0], ns[1], added, ratio};
    bench_cell_text(llcl_op_names[op]);
    bench_cell_text(jobs[0].way);
    bench_cell((double)bytes);
    bench_cell_medians(columns, 4, (int)nsamples);
    bench_cell((double)nsamples);
    bench_cell((double)noperations);
    return jobs[0].errors + jobs[1].errors;
}

static long run_all(const enum llcl_op ops[], int nops, const long sizes[], int nsizes) {
    static const struct bench_column columns[] = {
        {"op", BENCH_KEY, -1},         {"way", BENCH_KEY, -1},       {"bytes", BENCH_KEY, 0},
        {"engine_ns", BENCH_LOWER, 1}, {"locked_ns", BENCH_INFO, 1}, {"added_ns", BENCH_INFO, 1},
        {"ratio", BENCH_INFO, 3},      {"samples", BENCH_INFO, 0},   {"ops", BENCH_INFO, 0},
    };
    long errors = 0;
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < nops; i++)
        for (int j = 0; j < nsizes; j++)
            if (llcl_op_has_size(ops[i], (size_t)sizes[j]))
                errors += run_row(ops[i], (size_t)sizes[j]);
    return errors;
}

int main(int argc, char **argv) {
    const struct bench_option options[] = {
        {"sizes", BENCH_TEXT, &size_list, "bytes of an operation"},
        {"ops", BENCH_TEXT, &op_list, "operations"},
        {"samples", BENCH_LONG, &nsamples, "pairs of samples for each row"},
        {"seconds", BENCH_REAL, &seconds, "time for a sample"},
        LLCL_OPTIONS,
    };
    long sizes[MAX_SIZES], largest = 8;
    enum llcl_op ops[LLCL_OPS];
    llcl_options.target_wait = "poll";
    llcl_start_program(
        &argc, &argv,
        "How long does one operation take, and how much longer than with one lock around "
        "all calls and waits that poll (locked_ns)?",
        options, sizeof options / sizeof options[0]);
    if (nsamples < 1 || nsamples > MAX_SAMPLES || seconds <= 0)
        bench_usage_error("--samples 1..%d, --seconds > 0", MAX_SAMPLES);
    int nops = llcl_parse_ops(op_list, ops);
    int nsizes = bench_parse_sizes(size_list, sizes, MAX_SIZES);
    if (nsizes < 1)
        bench_usage_error("--sizes '%s' is not a list of sizes", size_list);
    for (int i = 0; i < nsizes; i++)
        largest = sizes[i] > largest ? sizes[i] : largest;
    llcl_sides_set(sides, (size_t)largest, (size_t)largest);
    llcl_header("latency of one operation at a time");
    long errors = run_all(ops, nops, sizes, nsizes);
    return bench_finish(errors);
}
