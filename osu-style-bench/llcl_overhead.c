/* llcl_overhead.c: how long is a thread inside tug_try_*_async() itself?
 *
 * The time that the caller cannot compute in (t1 - t0 of Endo and Taura, SWoPP'16): bursts of
 * operations that fit, and completions waited for outside of the timing. The first call of a burst
 * is timed by itself (`first`): it may wake a thread that sleeps, or send the packet that the
 * others do not wait for; the calls behind it are timed together. One thread, without and with a
 * lock around all calls (locked), alternately; the table shows medians and a 90th percentile over
 * all bursts.
 *
 * A burst ends early when a try says that there is no room; `refused` counts such bursts, and only
 * the operations before count. The loop around the call and the filling in of its parameters are
 * in the figure.
 * Invariant: no two operations of a burst touch the same memory; every burst writes other values.
 * Threading: main threads only.
 */
#include "llcl_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BURSTS = 1000000, MAX_BURST = 4096, NWARM = 10, WORD = 8 };

static const char *op_list = "read,write,fetch_and_op,am";
static long burst = 64;
static long nsamples = 11;
static long nbursts = 500;

static struct llcl_side sides[2]; /* engine, locked */

struct job {
    struct llcl_side *side;
    enum llcl_op op;
    uint64_t started; /* operations of the last burst */
    uint64_t refused; /* bursts */
    uint64_t bursts;  /* so far */
    uint64_t before;  /* before this side was opened */
    uint64_t messages, first_words;
    double *first_ns; /* for the first call of each burst */
    double *ns;       /* for one of the calls behind it */
    int n;
    char way[LLCL_WAY];
    long errors;
};

/* ---- bursts ---- */

/* What the i-th operation of a burst writes, or reads. */
static uint64_t value(const struct job *job, long i) {
    return bench_pattern_word(job->bursts, (uint64_t)i);
}

static void fill(const struct job *job, void *memory) {
    for (long i = 0; i < burst; i++)
        ((uint64_t *)memory)[i] = value(job, i);
}

static void run_burst(struct job *job) {
    struct llcl_side *side = job->side;
    struct tug_counter counter = {0};
    size_t at = WORD, end = (size_t)burst * WORD;
    double begin_us = bench_now_us();
    bool room = llcl_try(side, job->op, 0, 0, WORD, &counter);
    double first_us = bench_now_us();
    while (room && at < end && llcl_try(side, job->op, at, at, WORD, &counter))
        at += WORD;
    double end_us = bench_now_us();
    job->started = room ? at / WORD : 0;
    if (job->started > 1) {
        job->first_ns[job->n] = (first_us - begin_us) * 1e3;
        job->ns[job->n++] = (end_us - first_us) * 1e3 / (double)(job->started - 1);
    }
    job->refused += !room || at < end;
    llcl_wait(side, &counter, job->started);
}

static long check_words(const struct job *job, const unsigned char *memory, const char *what) {
    const uint64_t *words = (const uint64_t *)memory;
    for (uint64_t i = 0; i < job->started; i++) {
        uint64_t expected =
            job->op == LLCL_FETCH ? job->bursts - job->before - 1 : value(job, (long)i);
        if (words[i] == expected)
            continue;
        fprintf(stderr, "%s: rank %d: %s, %s: word %llu is %llx, not %llx\n", bench.name,
                bench.rank, llcl_op_names[job->op], what, (unsigned long long)i,
                (unsigned long long)words[i], (unsigned long long)expected);
        return 1;
    }
    return 0;
}

/* ---- samples ---- */

/* nbursts bursts, and some before them to warm up; reads read what the target has put there before
 * the first of them. */
static void run_bursts(struct job *job) {
    int n = job->n;
    job->messages = job->first_words = 0;
    if (job->op == LLCL_READ)
        job->bursts++;
    for (long i = -NWARM; i < nbursts; i++) {
        if (i == 0)
            job->n = n;
        if (job->op != LLCL_READ)
            job->bursts++;
        if (job->op == LLCL_WRITE || job->op == LLCL_AM)
            fill(job, job->side->buffer);
        run_burst(job);
        job->messages += job->started;
        for (uint64_t j = 0; job->op == LLCL_AM && j < job->started; j++)
            job->first_words += value(job, (long)j);
        if (bench.validate && job->op == LLCL_FETCH && job->refused == 0)
            job->errors += check_words(job, job->side->buffer, "old values");
    }
}

static long check_target(struct job *job) {
    struct llcl_side *side = job->side;
    bench_corrupt(job->op == LLCL_AM ? (void *)&side->sink.first_words : (void *)side->memory);
    if (job->op == LLCL_WRITE)
        return check_words(job, side->memory, "data written");
    if (job->op != LLCL_AM ||
        (side->sink.messages == job->messages && side->sink.first_words == job->first_words))
        return 0;
    fprintf(stderr, "%s: %llu messages have come, not %llu, or with other words\n", bench.name,
            (unsigned long long)side->sink.messages, (unsigned long long)job->messages);
    return 1;
}

/* The target needs what the origin knows of the last burst to check it. */
static void run_sample(struct job *job) {
    struct llcl_side *side = job->side;
    llcl_side_open(side);
    job->before = job->bursts;
    if (bench.rank == LLCL_TARGET && job->op == LLCL_READ) {
        job->bursts++;
        fill(job, side->memory);
    }
    bench_sync();
    if (bench.rank == LLCL_ORIGIN) {
        run_bursts(job);
        llcl_release(side, job->started);
        uint64_t facts[] = {job->bursts, job->messages, job->first_words};
        MPI_Send(facts, 3, MPI_UINT64_T, LLCL_TARGET, 0, MPI_COMM_WORLD);
        if (bench.validate && job->op == LLCL_READ) {
            bench_corrupt(side->buffer);
            job->errors += check_words(job, side->buffer, "data read");
        }
    } else {
        uint64_t facts[3];
        job->started = llcl_serve(side);
        MPI_Recv(facts, 3, MPI_UINT64_T, LLCL_ORIGIN, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        job->bursts = facts[0];
        job->messages = facts[1];
        job->first_words = facts[2];
        if (bench.validate)
            job->errors += check_target(job);
    }
    llcl_side_way(side, job->op, WORD, job->way);
    llcl_side_close(side);
}

/* ---- rows ---- */

static void print_row(const struct job jobs[2]) {
    bench_cell_text(llcl_op_names[jobs[0].op]);
    bench_cell_text(jobs[0].way);
    for (int side = 0; side < 2; side++) {
        const struct job *job = &jobs[side];
        bench_sort(job->ns, job->n);
        bench_sort(job->first_ns, job->n);
        bench_cell(job->n > 0 ? bench_median(job->ns, job->n) : 0);
        bench_cell(job->n > 0 ? bench_p90(job->ns, job->n) : 0);
        bench_cell(job->n > 0 ? bench_median(job->first_ns, job->n) : 0);
    }
    bench_cell((double)jobs[0].refused);
    bench_cell((double)jobs[1].refused);
    bench_cell((double)nsamples * (double)nbursts);
}

static long run_row(enum llcl_op op) {
    struct job jobs[2];
    for (int side = 0; side < 2; side++) {
        jobs[side] = (struct job){.side = &sides[side], .op = op};
        jobs[side].ns = calloc((size_t)(nsamples * nbursts + NWARM), sizeof(double));
        jobs[side].first_ns = calloc((size_t)(nsamples * nbursts + NWARM), sizeof(double));
        if (jobs[side].ns == NULL || jobs[side].first_ns == NULL)
            llcl_must(TUG_ERR_NO_MEMORY, "memory");
    }
    for (int i = 0; i < nsamples; i++)
        for (int j = 0; j < 2; j++)
            run_sample(&jobs[(i + j) % 2]);
    print_row(jobs);
    for (int side = 0; side < 2; side++) {
        free(jobs[side].ns);
        free(jobs[side].first_ns);
    }
    return jobs[0].errors + jobs[1].errors;
}

static long run_all(const enum llcl_op ops[], int nops) {
    static const struct bench_column columns[] = {
        {"op", BENCH_KEY, -1},         {"way", BENCH_KEY, -1},
        {"engine_ns", BENCH_LOWER, 1}, {"p90_ns", BENCH_INFO, 1},
        {"first_ns", BENCH_INFO, 0},   {"locked_ns", BENCH_INFO, 1},
        {"locked_p90", BENCH_INFO, 1}, {"locked_first", BENCH_INFO, 0},
        {"refused", BENCH_INFO, 0},    {"locked_refused", BENCH_INFO, 0},
        {"bursts", BENCH_INFO, 0},
    };
    long errors = 0;
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < nops; i++)
        errors += run_row(ops[i]);
    return errors;
}

int main(int argc, char **argv) {
    const struct bench_option options[] = {
        {"ops", BENCH_TEXT, &op_list, "operations"},
        {"burst", BENCH_LONG, &burst, "operations in a burst"},
        {"bursts", BENCH_LONG, &nbursts, "bursts in a sample"},
        {"samples", BENCH_LONG, &nsamples, "samples for each row"},
        LLCL_OPTIONS,
    };
    enum llcl_op ops[LLCL_OPS];
    char what[120];
    llcl_start_program(
        &argc, &argv,
        "How long is a thread inside tug_try_*_async() itself, and with one lock around all "
        "calls (locked_ns)?",
        options, sizeof options / sizeof options[0]);
    if (burst < 2 || burst > MAX_BURST || nbursts < 1 || nsamples < 1 ||
        nbursts > MAX_BURSTS / nsamples)
        bench_usage_error("--burst 2..%d, --bursts and --samples > 0, their product at most %d",
                          MAX_BURST, MAX_BURSTS);
    int nops = llcl_parse_ops(op_list, ops);
    llcl_sides_set(sides, (size_t)burst * WORD, (size_t)burst * WORD);
    snprintf(what, sizeof what, "time inside the call, %ld operations of 8 bytes in a burst",
             burst);
    llcl_header(what);
    long errors = run_all(ops, nops);
    return bench_finish(errors);
}
