/* put_rate_threads.c: how many 8-byte puts a second, when 1, 2, 4, ... threads share the process?
 *
 * Threads of rank 0 put 8 bytes at a time into rank 1's window and flush after every --batch puts,
 * under MPI_THREAD_MULTIPLE. With --op fetch_and_op or accumulate they all add to one counter of
 * rank 1 instead.
 *
 * Invariants: every put carries another value and each thread has slots of its own, which it goes
 * through in turn; so the window's final content is known exactly. It is checked twice: by rank 1
 * in its own memory and by rank 0 through MPI_Get. A sample is timed from the first thread's first
 * put to the last thread's last flush; what threads do before and after is not in it.
 * Threading: workers issue and flush; everything else is done by the main threads between samples.
 */
#include "bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ORIGIN = 0, TARGET = 1, MAX_THREADS = 64, MAX_SAMPLES = 1000 };
enum { MIN_SLOTS = 4096, MAX_BATCH = 16384 }; /* per thread */

struct worker {
    pthread_t thread;
    int id;
    long noperations;
    uint64_t first_value;
    uint64_t values[MAX_BATCH]; /* origin data of the puts that are not flushed */
    uint64_t results[MAX_BATCH];
    double begin_us, end_us;
    long errors;
};

static const char *thread_list = "1,2,4";
static const char *op_name = "put";
static const char *flavour = "allocate";
static const char *target_wait = "polite";
static long batch = 64;
static long nsamples = 5;
static double seconds = 0.1;

static const char *const op_names[] = {"put", "fetch_and_op", "accumulate"};
static enum { OP_PUT, OP_FETCH, OP_ACCUMULATE, NOPS } op;
static struct worker *workers;
static pthread_barrier_t start_line;
static MPI_Win window;
static uint64_t *window_memory;
static long nslots; /* per thread: no two puts of a batch go to one */

/* ---- workers ---- */

static uint64_t sample_value(int sample, int thread) {
    return ((uint64_t)(sample + 1) << 48) | ((uint64_t)thread << 40);
}

static void put_all(struct worker *me) {
    const MPI_Aint slots = (MPI_Aint)me->id * nslots;
    for (long done = 0; done < me->noperations; done += batch) {
        for (long i = 0; i < batch; i++) {
            me->values[i] = me->first_value + (uint64_t)(done + i);
            MPI_Put(&me->values[i], 1, MPI_UINT64_T, TARGET, slots + (done + i) % nslots, 1,
                    MPI_UINT64_T, window);
        }
        MPI_Win_flush(TARGET, window);
    }
}

/* Operations of one thread on one place stay in order: what it fetches grows. */
static void check_growth(struct worker *me, uint64_t *last, long done) {
    for (long i = 0; i < batch; i++) {
        bool first = done + i == 0;
        if (!first && me->results[i] <= *last && me->errors++ == 0)
            fprintf(stderr, "%s: thread %d fetched %llu after %llu\n", bench.name, me->id,
                    (unsigned long long)me->results[i], (unsigned long long)*last);
        *last = me->results[i];
    }
}

static void fetch_all(struct worker *me) {
    uint64_t last = 0;
    me->values[0] = 1;
    for (long done = 0; done < me->noperations; done += batch) {
        for (long i = 0; i < batch; i++)
            MPI_Fetch_and_op(&me->values[0], &me->results[i], MPI_UINT64_T, TARGET, 0, MPI_SUM,
                             window);
        MPI_Win_flush(TARGET, window);
        if (bench.validate)
            check_growth(me, &last, done);
    }
}

static void add_all(struct worker *me) {
    me->values[0] = 1;
    for (long done = 0; done < me->noperations; done += batch) {
        for (long i = 0; i < batch; i++)
            MPI_Accumulate(&me->values[0], 1, MPI_UINT64_T, TARGET, 0, 1, MPI_UINT64_T, MPI_SUM,
                           window);
        MPI_Win_flush(TARGET, window);
    }
}

static void *work(void *argument) {
    static void (*const run_op[NOPS])(struct worker *) = {put_all, fetch_all, add_all};
    struct worker *me = argument;
    pthread_barrier_wait(&start_line);
    me->begin_us = bench_now_us();
    run_op[op](me);
    me->end_us = bench_now_us();
    return NULL;
}

/* Runs the workers once and returns the microseconds from the first start to the last end. */
static double run_workers(int nthreads, long noperations, int sample, long *errors) {
    double begin_us = 1e300, end_us = 0;
    pthread_barrier_init(&start_line, NULL, (unsigned)nthreads);
    for (int i = 0; i < nthreads; i++) {
        workers[i].id = i;
        workers[i].noperations = noperations;
        workers[i].first_value = sample_value(sample, i);
        workers[i].errors = 0;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fprintf(stderr, "%s: cannot start thread %d\n", bench.name, i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    for (int i = 0; i < nthreads; i++) {
        pthread_join(workers[i].thread, NULL);
        begin_us = workers[i].begin_us < begin_us ? workers[i].begin_us : begin_us;
        end_us = workers[i].end_us > end_us ? workers[i].end_us : end_us;
        *errors += workers[i].errors;
    }
    pthread_barrier_destroy(&start_line);
    return end_us - begin_us;
}

/* ---- validation ---- */

/* Compares with what the sample's puts leave behind, slot by slot. */
static long check_puts(const uint64_t *memory, int nthreads, long noperations, int sample,
                       const char *where) {
    long errors = 0;
    long used = noperations < nslots ? noperations : nslots;
    for (int thread = 0; thread < nthreads; thread++) {
        for (long slot = 0; slot < used; slot++) {
            long last = noperations - 1 - (noperations - 1 - slot) % nslots;
            uint64_t expected = sample_value(sample, thread) + (uint64_t)last;
            uint64_t found = memory[(long)thread * nslots + slot];
            if (found != expected && errors++ == 0)
                fprintf(stderr, "%s: %s: thread %d, slot %ld is %llx, not %llx\n", bench.name,
                        where, thread, slot, (unsigned long long)found,
                        (unsigned long long)expected);
        }
    }
    return errors;
}

static long check_counter(uint64_t found, uint64_t expected, const char *where) {
    if (found == expected)
        return 0;
    fprintf(stderr, "%s: %s: the counter is %llu, not %llu\n", bench.name, where,
            (unsigned long long)found, (unsigned long long)expected);
    return 1;
}

static long check_sample(int nthreads, long noperations, int sample) {
    size_t nwords = op == OP_PUT ? (size_t)nthreads * (size_t)nslots : 1;
    uint64_t *copy = window_memory;
    const char *where = "the target's memory";
    long errors;
    if (bench.rank == ORIGIN) {
        copy = malloc(nwords * sizeof *copy);
        if (copy == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
        where = "read back by MPI_Get";
        MPI_Get(copy, (int)nwords, MPI_UINT64_T, TARGET, 0, (int)nwords, MPI_UINT64_T, window);
        MPI_Win_flush(TARGET, window);
    } else {
        MPI_Win_sync(window);
        bench_corrupt(window_memory);
    }
    if (op == OP_PUT)
        errors = check_puts(copy, nthreads, noperations, sample, where);
    else
        errors = check_counter(copy[0], (uint64_t)nthreads * (uint64_t)noperations, where);
    if (bench.rank == ORIGIN)
        free(copy);
    return errors;
}

/* ---- samples ---- */

/* Leaves its core to the origin's threads: looks once a millisecond. */
static void wait_asleep(void) {
    const struct timespec pause = {.tv_nsec = 1000000};
    MPI_Request request;
    int met = 0;
    MPI_Ibarrier(bench.sync, &request);
    for (MPI_Test(&request, &met, MPI_STATUS_IGNORE); !met;
         MPI_Test(&request, &met, MPI_STATUS_IGNORE))
        nanosleep(&pause, NULL);
}

static void wait_for_origin(void) {
    if (strcmp(target_wait, "barrier") == 0)
        MPI_Barrier(bench.sync);
    else if (strcmp(target_wait, "asleep") == 0)
        wait_asleep();
    else
        bench_sync();
}

static void clear_window(void) {
    if (bench.rank == TARGET) {
        MPI_Win_sync(window);
        memset(window_memory, 0, sizeof *window_memory * MAX_THREADS * (size_t)nslots);
        MPI_Win_sync(window);
    }
    bench_sync();
}

/* One sample; returns its microseconds on rank 0. */
static double run_sample(int nthreads, long noperations, int sample, long *errors) {
    double us = 0;
    clear_window();
    if (bench.rank == ORIGIN)
        us = run_workers(nthreads, noperations, sample, errors);
    wait_for_origin();
    if (bench.validate) {
        *errors += check_sample(nthreads, noperations, sample);
        bench_sync();
    }
    return us;
}

static long round_to_batches(double noperations) {
    long nbatches = (long)(noperations / (double)batch);
    return (nbatches < 1 ? 1 : nbatches) * batch;
}

/* Grows until a run is long enough to be judged by, then fits the best speed seen to --seconds: a
 * trial may have lost its core for a while. Both ranks must know the number. */
static long choose_noperations(int nthreads, long *errors) {
    double trial[2] = {256, 0}; /* operations, enough */
    double best_us = 1e300;     /* per operation of one thread */
    for (int i = 0; trial[1] == 0; i++) {
        long n = round_to_batches(trial[0]);
        double us = run_sample(nthreads, n, i, errors);
        if (bench.rank == ORIGIN && i > 0 && us / (double)n < best_us) /* the first one warms up */
            best_us = us / (double)n;
        trial[1] = i > 0 && us >= seconds * 1e5;
        trial[0] = trial[1] != 0 ? seconds * 1e6 / best_us : 2.0 * (double)n;
        MPI_Bcast(trial, 2, MPI_DOUBLE, ORIGIN, MPI_COMM_WORLD);
    }
    return round_to_batches(trial[0] < 256 ? 256 : trial[0]);
}

static long run_threads(int nthreads) {
    double ns[MAX_SAMPLES];
    long errors = 0;
    long noperations = choose_noperations(nthreads, &errors);
    for (int i = 0; i < nsamples; i++)
        ns[i] = run_sample(nthreads, noperations, i + 2, &errors) * 1e3 /
                ((double)noperations * nthreads);
    bench_sort(ns, (int)nsamples);
    double median_ns = bench_median(ns, (int)nsamples);
    bench_cell_text(op_name);
    bench_cell(nthreads);
    bench_cell(1e3 / median_ns);
    bench_cell(median_ns);
    bench_cell(bench_p90(ns, (int)nsamples));
    bench_cell((double)nsamples);
    bench_cell((double)noperations);
    return errors;
}

static void check_options(void) {
    if (bench.nranks != 2)
        bench_usage_error("2 ranks are needed, not %d", bench.nranks);
    for (op = OP_PUT; op < NOPS && strcmp(op_name, op_names[op]) != 0;)
        op++;
    if (op == NOPS)
        bench_usage_error("--op is put, fetch_and_op or accumulate, not '%s'", op_name);
    if (!bench_window_has_name(flavour))
        bench_usage_error("--window is allocate or create, not '%s'", flavour);
    if (strcmp(target_wait, "polite") != 0 && strcmp(target_wait, "barrier") != 0 &&
        strcmp(target_wait, "asleep") != 0)
        bench_usage_error("--target is polite, barrier or asleep, not '%s'", target_wait);
    if (batch < 1 || batch > MAX_BATCH || nsamples < 1 || nsamples > MAX_SAMPLES || seconds <= 0)
        bench_usage_error("--batch 1..%d, --samples 1..%d, --seconds > 0", MAX_BATCH, MAX_SAMPLES);
    nslots = batch > MIN_SLOTS ? batch : MIN_SLOTS;
}

static long run_all(const long threads[], int nthreads) {
    static const struct bench_column columns[] = {
        {"op", BENCH_KEY, -1},
        {"threads", BENCH_KEY, 0},
        {"mops", BENCH_HIGHER, 4},
        {"ns_per_op", BENCH_INFO, 1},
        {"p90_ns", BENCH_INFO, 1},
        {"samples", BENCH_INFO, 0},
        {"ops_per_thread", BENCH_INFO, 0},
    };
    long errors = 0;
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < nthreads; i++)
        errors += run_threads((int)threads[i]);
    return errors;
}

int main(int argc, char **argv) {
    const struct bench_option options[] = {
        {"threads", BENCH_TEXT, &thread_list, "numbers of threads"},
        {"op", BENCH_TEXT, &op_name, "put, fetch_and_op or accumulate"},
        {"window", BENCH_TEXT, &flavour, "how the window is made: allocate or create"},
        {"batch", BENCH_LONG, &batch, "operations between flushes"},
        {"samples", BENCH_LONG, &nsamples, "samples for each number of threads"},
        {"seconds", BENCH_REAL, &seconds, "time for a sample"},
        {"target", BENCH_TEXT, &target_wait,
         "rank 1 waits: polite (test and yield), barrier or asleep"},
    };
    long threads[MAX_THREADS];
    char what[160];
    bench_start(&argc, &argv, MPI_THREAD_MULTIPLE,
                "How many 8-byte puts a second, when several threads put?", options,
                sizeof options / sizeof options[0]);
    check_options();
    int nthreads = bench_parse_sizes(thread_list, threads, MAX_THREADS);
    for (int i = 0; i < nthreads; i++)
        if (threads[i] < 1 || threads[i] > MAX_THREADS)
            nthreads = -1;
    if (nthreads < 1)
        bench_usage_error("--threads '%s' is not a list of 1..%d", thread_list, MAX_THREADS);
    workers = calloc(MAX_THREADS, sizeof *workers);
    if (workers == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    struct bench_window opened = bench_window_open(
        flavour, sizeof *window_memory * MAX_THREADS * (size_t)nslots, sizeof *window_memory);
    window = opened.win;
    window_memory = opened.memory;
    MPI_Win_lock_all(0, window);
    snprintf(what, sizeof what, "rank 0: %s of 8 bytes, a flush for every %ld; rank 1 waits: %s",
             op_name, batch, target_wait);
    bench_header(what);
    long errors = run_all(threads, nthreads);
    MPI_Win_unlock_all(window);
    bench_window_close(&opened);
    free(workers);
    return bench_finish(errors);
}
