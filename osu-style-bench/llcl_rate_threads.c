/* llcl_rate_threads.c: how many 8-byte operations a second, when 1, 2, ... 16 threads start them?
 *
 * Threads of the origin share one context and start operations on the target's memory, each with
 * slots and counters of its own and a bounded number outstanding: its slots are two halves, and
 * before it uses a half again it waits for that half's operations. Where a try says that there is
 * no room it helps. Runs without and with a lock around all calls (locked) alternate, and so do the
 * numbers of threads: of_one, a rate as a part of the first number's, is a median over rounds.
 *
 * Invariant: an operation uses a slot only when the one before there is complete, for no order is
 * promised; so what slots hold at the end is known. A sample is timed from the first thread's first
 * operation to the last thread's last completion.
 * Threading: workers start operations and wait; all else is done by the main threads.
 */
#include "llcl_bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 64, MAX_NUMBERS = 16, MAX_SAMPLES = 1000, MAX_SLOTS = 4096, WORD = 8 };

struct job {
    struct llcl_side *side;
    enum llcl_op op;
    int nthreads;
    long noperations; /* of each thread; whole halves */
    uint64_t sample;
    char way[LLCL_WAY];
    long errors;
};

struct worker {
    pthread_t thread;
    const struct job *job;
    size_t id;
    double begin_us, end_us;
};

static const char *thread_list = "1,2,4,8,16";
static const char *op_list = "read,write,am";
static long nslots = 128;
static long nsamples = 7;
static double seconds = 0.03;

static struct llcl_side sides[2]; /* engine, locked */
static struct worker workers[MAX_THREADS];
static pthread_barrier_t start_line;

/* ---- workers ---- */

static uint64_t first_value(uint64_t sample, size_t thread) {
    return sample << 48 | (uint64_t)thread << 40;
}

/* One half of the slots. */
static void start_half(const struct worker *me, struct tug_counter *counter, size_t slot,
                       uint64_t number) {
    const struct job *job = me->job;
    struct llcl_side *side = job->side;
    uint64_t *words = (uint64_t *)side->buffer;
    for (long i = 0; i < nslots / 2; i++, slot++) {
        if (job->op != LLCL_READ)
            words[slot] = number++;
        llcl_start(side, job->op, slot * WORD, slot * WORD, WORD, counter);
    }
}

static void *work(void *argument) {
    struct worker *me = argument;
    const struct job *job = me->job;
    struct tug_counter counters[2] = {{0}};
    uint64_t started[2] = {0}, number = first_value(job->sample, me->id);
    pthread_barrier_wait(&start_line);
    me->begin_us = bench_now_us();
    for (long done = 0, half = 0; done < job->noperations; done += nslots / 2, half ^= 1) {
        llcl_wait(job->side, &counters[half], started[half]);
        start_half(me, &counters[half], me->id * (size_t)nslots + (size_t)(half * nslots / 2),
                   number + (uint64_t)done);
        started[half] += (uint64_t)(nslots / 2);
    }
    for (int half = 0; half < 2; half++)
        llcl_wait(job->side, &counters[half], started[half]);
    me->end_us = bench_now_us();
    return NULL;
}

/* Returns the microseconds from the first start to the last end. */
static double run_workers(const struct job *job) {
    double begin_us = 1e300, end_us = 0;
    pthread_barrier_init(&start_line, NULL, (unsigned)job->nthreads);
    for (int i = 0; i < job->nthreads; i++) {
        workers[i].id = (size_t)i;
        workers[i].job = job;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fprintf(stderr, "%s: cannot start thread %d\n", bench.name, i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    for (int i = 0; i < job->nthreads; i++) {
        pthread_join(workers[i].thread, NULL);
        begin_us = workers[i].begin_us < begin_us ? workers[i].begin_us : begin_us;
        end_us = workers[i].end_us > end_us ? workers[i].end_us : end_us;
    }
    pthread_barrier_destroy(&start_line);
    return end_us - begin_us;
}

/* ---- validation ---- */

/* Slots hold the last value that a sample gave them, or count. */
static long check_written(const struct job *job) {
    const uint64_t *words = (const uint64_t *)job->side->memory;
    long used = job->noperations < nslots ? job->noperations : nslots;
    for (size_t thread = 0; thread < (size_t)job->nthreads; thread++)
        for (long slot = 0; slot < used; slot++) {
            long last = job->noperations - 1 - (job->noperations - 1 - slot) % nslots;
            uint64_t expected = job->op == LLCL_FETCH
                                    ? (uint64_t)(last / nslots + 1)
                                    : first_value(job->sample, thread) + (uint64_t)last;
            uint64_t found = words[thread * (size_t)nslots + (size_t)slot];
            if (found == expected)
                continue;
            fprintf(stderr, "%s: thread %zu, slot %ld is %llx, not %llx\n", bench.name, thread,
                    slot, (unsigned long long)found, (unsigned long long)expected);
            return 1;
        }
    return 0;
}

static long check_messages(const struct job *job) {
    const struct llcl_sink *sink = &job->side->sink;
    uint64_t n = (uint64_t)job->noperations, sum = 0;
    for (size_t thread = 0; thread < (size_t)job->nthreads; thread++)
        sum += n * first_value(job->sample, thread) + n * (n - 1) / 2;
    if (sink->messages == n * (uint64_t)job->nthreads && sink->first_words == sum)
        return 0;
    fprintf(stderr, "%s: %llu messages have come, not %llu, or with other words\n", bench.name,
            (unsigned long long)sink->messages, (unsigned long long)n * (uint64_t)job->nthreads);
    return 1;
}

static void check(struct job *job) {
    struct llcl_side *side = job->side;
    long used = job->noperations < nslots ? job->noperations : nslots;
    if (bench.rank == LLCL_ORIGIN && job->op == LLCL_READ) {
        bench_corrupt(side->buffer);
        for (size_t thread = 0; thread < (size_t)job->nthreads; thread++)
            job->errors += bench_pattern_check(side->buffer + thread * (size_t)nslots * WORD,
                                               (size_t)used * WORD,
                                               first_value(job->sample, thread), "data read");
    }
    if (bench.rank != LLCL_TARGET)
        return;
    bench_corrupt(job->op == LLCL_AM ? (void *)&side->sink.first_words : (void *)side->memory);
    if (job->op == LLCL_WRITE || job->op == LLCL_FETCH)
        job->errors += check_written(job);
    else if (job->op == LLCL_AM)
        job->errors += check_messages(job);
}

/* ---- samples ---- */

static void prepare(struct job *job) {
    size_t bytes = (size_t)job->nthreads * (size_t)nslots * WORD;
    job->sample++;
    job->side->sink = (struct llcl_sink){0};
    if (bench.rank == LLCL_ORIGIN)
        memset(job->side->buffer, 0, bytes);
    else if (job->op != LLCL_READ)
        memset(job->side->memory, 0, bytes);
    else
        for (size_t thread = 0; thread < (size_t)job->nthreads; thread++)
            bench_pattern_fill(job->side->memory + thread * (size_t)nslots * WORD,
                               (size_t)nslots * WORD, first_value(job->sample, thread));
    bench_sync();
}

/* Returns its microseconds on rank 0. */
static double measure(struct job *job) {
    double us = 0;
    prepare(job);
    if (bench.rank == LLCL_ORIGIN) {
        us = run_workers(job);
        llcl_release(job->side, (uint64_t)job->noperations);
    } else {
        job->noperations = (long)llcl_serve(job->side);
    }
    if (bench.validate)
        check(job);
    return us;
}

static long whole_halves(double noperations) {
    long half = nslots / 2, nhalves = (long)(noperations / (double)half);
    return (nhalves < 2 ? 2 : nhalves) * half;
}

/* The threads meet in a first, short run that is not counted. */
static double run_sample(struct job *job) {
    long noperations = job->noperations;
    llcl_side_open(job->side);
    job->noperations = whole_halves(0);
    measure(job);
    job->noperations = noperations;
    double us = measure(job);
    llcl_side_way(job->side, job->op, WORD, job->way);
    llcl_side_close(job->side);
    return us;
}

/* Grows until a run is long enough to be judged by; every second trial counts. */
static void choose_noperations(struct job *job) {
    job->noperations = whole_halves(0);
    for (;;) {
        double next[2] = {0};
        double us = run_sample(job), again_us = run_sample(job);
        us = again_us < us ? again_us : us;
        next[1] = us >= seconds * 1e5;
        next[0] = (next[1] != 0 ? seconds * 1e6 / us : 4.0) * (double)job->noperations;
        MPI_Bcast(next, 2, MPI_DOUBLE, LLCL_ORIGIN, MPI_COMM_WORLD);
        job->noperations = whole_halves(next[0]);
        if (next[1] != 0)
            return;
    }
}

/* ---- rows ---- */

struct row {
    struct job jobs[2];
    double mops[2][MAX_SAMPLES], ratio[MAX_SAMPLES], of_one[MAX_SAMPLES];
};

static void print_row(struct row *row) {
    double *columns[] = {row->mops[0], row->mops[1], row->ratio, row->of_one};
    bench_cell_text(llcl_op_names[row->jobs[0].op]);
    bench_cell_text(row->jobs[0].way);
    bench_cell(row->jobs[0].nthreads);
    bench_cell_medians(columns, 4, (int)nsamples);
    bench_cell((double)nsamples);
    bench_cell((double)row->jobs[0].noperations);
}

static long run_op(enum llcl_op op, const long threads[], int nnumbers) {
    static struct row rows[MAX_NUMBERS];
    long errors = 0;
    for (int i = 0; i < nnumbers; i++)
        for (int side = 0; side < 2; side++) {
            rows[i].jobs[side] =
                (struct job){.side = &sides[side], .op = op, .nthreads = (int)threads[i]};
            choose_noperations(&rows[i].jobs[side]);
        }
    for (int sample = 0; sample < nsamples; sample++)
        for (int i = 0; i < nnumbers; i++) {
            struct row *row = &rows[i];
            for (int j = 0; j < 2; j++) {
                int side = (sample + j) % 2;
                double us = run_sample(&row->jobs[side]);
                row->mops[side][sample] =
                    (double)row->jobs[side].noperations * row->jobs[side].nthreads / us;
            }
            row->ratio[sample] = row->mops[0][sample] / row->mops[1][sample];
            row->of_one[sample] = row->mops[0][sample] / rows[0].mops[0][sample];
        }
    for (int i = 0; i < nnumbers; i++) {
        print_row(&rows[i]);
        errors += rows[i].jobs[0].errors + rows[i].jobs[1].errors;
    }
    return errors;
}

static long run_all(const enum llcl_op ops[], int nops, const long threads[], int nnumbers) {
    static const struct bench_column columns[] = {
        {"op", BENCH_KEY, -1},
        {"way", BENCH_KEY, -1},
        {"threads", BENCH_KEY, 0},
        {"engine_mops", BENCH_HIGHER, 4},
        {"locked_mops", BENCH_INFO, 4},
        {"ratio", BENCH_INFO, 3},
        {"of_one", BENCH_INFO, 3},
        {"samples", BENCH_INFO, 0},
        {"ops_per_thread", BENCH_INFO, 0},
    };
    long errors = 0;
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < nops; i++)
        errors += run_op(ops[i], threads, nnumbers);
    return errors;
}

int main(int argc, char **argv) {
    const struct bench_option options[] = {
        {"threads", BENCH_TEXT, &thread_list, "numbers of threads; of_one refers to the first"},
        {"ops", BENCH_TEXT, &op_list, "operations"},
        {"outstanding", BENCH_LONG, &nslots, "operations outstanding at most, of each thread"},
        {"samples", BENCH_LONG, &nsamples, "samples for each row"},
        {"seconds", BENCH_REAL, &seconds, "time for a sample"},
        LLCL_OPTIONS,
    };
    long threads[MAX_NUMBERS];
    enum llcl_op ops[LLCL_OPS];
    char what[120];
    llcl_start_program(
        &argc, &argv,
        "How many 8-byte operations a second, by several threads, and with one lock around "
        "all calls (locked_mops)?",
        options, sizeof options / sizeof options[0]);
    if (nslots < 2 || nslots > MAX_SLOTS || nslots % 2 != 0 || nsamples < 1 ||
        nsamples > MAX_SAMPLES || seconds <= 0)
        bench_usage_error("--outstanding 2..%d and even, --samples 1..%d, --seconds > 0", MAX_SLOTS,
                          MAX_SAMPLES);
    int nnumbers = bench_parse_sizes(thread_list, threads, MAX_NUMBERS);
    for (int i = 0; i < nnumbers; i++)
        if (threads[i] < 1 || threads[i] > MAX_THREADS)
            nnumbers = -1;
    if (nnumbers < 1)
        bench_usage_error("--threads '%s' is not a list of 1..%d", thread_list, MAX_THREADS);
    int nops = llcl_parse_ops(op_list, ops);
    size_t bytes = (size_t)nslots * WORD * MAX_THREADS;
    llcl_sides_set(sides, bytes, bytes);
    snprintf(what, sizeof what, "8 bytes, %ld outstanding of each thread", nslots);
    llcl_header(what);
    long errors = run_all(ops, nops, threads, nnumbers);
    return bench_finish(errors);
}
