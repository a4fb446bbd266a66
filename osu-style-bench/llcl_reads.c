/* llcl_reads.c: how long does a read take, how long is its thread inside the call that starts it,
 * and how many reads a second are there, by 1, 2, ... 16 threads and by size?
 *
 * The experiments of Endo and Taura (SWoPP 2016, listings 6 and 7), with the ways
 *   engine  all threads share a context, and wait by tug_counter_wait()
 *   queues  a context for each thread, each under a lock of its own; a thread polls for its reads.
 *           With TUGBOAT_PROGRESS=caller no thread of the library takes part
 *   locked  one context under one lock
 *   host    MPI_Get and MPI_Win_flush of the host, on one window
 * A thread starts a read at t0, is back at t1 and has the data at t2: overhead is t1 - t0, latency
 * t2 - t0, and a sample is the median over all reads of all threads, so that a thread without a
 * core does not count. For the rate each thread keeps a number of reads outstanding. Every sample
 * of a way is in an opening of its own, and the ways alternate. The table has means of samples, and
 * half the width of their 95 % confidence intervals (Student).
 *
 * Invariant: each read outstanding has a slot of its own in local memory; the remote memory stays
 * as it is. When validating, all slots are compared after each rate. Threading: workers read and
 * wait; all else is done by the main threads.
 */
#include "llcl_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 16, MAX_NUMBERS = 8, MAX_SIZES = 16, MAX_SAMPLES = 200, KEPT = 4096 };
enum { MOST_OUT = 64, MOST_BYTES_OUT = 1 << 19 }; /* of a thread */
enum way { ENGINE, QUEUES, LOCKED, HOST, WAYS };
enum value { LATENCY, OVERHEAD, RATE, VALUES };

static const char *const way_names[WAYS] = {"engine", "queues", "locked", "host"};
static const char *way_list = "engine,queues,locked,host";
static const char *measure = "both";
static bool alone, many; /* what is measured: one read and a wait; as many as possible */
static const char *thread_list = "1,2,4,8,16";
static const char *size_list = "8,128,1K,8K,64K";
static long nsamples = 8;
static double seconds = 0.005;

static bool chosen[WAYS];
static long threads[MAX_NUMBERS], sizes[MAX_SIZES];
static int nnumbers, nsizes;
static size_t area_bytes; /* a thread's local memory; and all remote memory */
static struct llcl_side sides[MAX_THREADS];
static struct llcl_host host;
static MPI_Win window;
static unsigned char *window_memory, *window_buffer;
static char transport[LLCL_WAY] = "none";

struct worker {
    pthread_t thread;
    enum way way;
    size_t id, bytes;
    bool rate;
    uint64_t reads;
    double begin_us, end_us;
    double latency_us[KEPT], overhead_us[KEPT];
};
static struct worker workers[MAX_THREADS];
static pthread_barrier_t start_line;

/* ---- one read ---- */

static long outstanding(size_t bytes) {
    const long fit = (long)((size_t)MOST_BYTES_OUT / bytes) / 2 * 2;
    return fit < 2 ? 2 : fit > MOST_OUT ? MOST_OUT : fit;
}

static struct llcl_side *side_of(const struct worker *me) {
    return &sides[me->way == QUEUES ? me->id : 0];
}

/* Where the local memory of a side that all threads share has this thread's part. */
static size_t area_of(const struct worker *me) {
    return me->way == QUEUES ? 0 : me->id * area_bytes;
}

static void start_read(const struct worker *me, size_t slot, struct tug_counter *counter) {
    const size_t at = area_of(me) + slot * me->bytes;
    if (me->way == HOST)
        host.get(window_buffer + at, (int)me->bytes, MPI_BYTE, LLCL_TARGET,
                 (MPI_Aint)(slot * me->bytes), (int)me->bytes, MPI_BYTE, window);
    else
        llcl_start(side_of(me), LLCL_READ, at, slot * me->bytes, me->bytes, counter);
}

static void wait_read(const struct worker *me, struct tug_counter *counter, uint64_t n) {
    if (me->way == HOST)
        host.flush(LLCL_TARGET, window);
    else
        llcl_wait(side_of(me), counter, n);
}

/* ---- workers ---- */

static void measure_latency(struct worker *me, double end_us) {
    struct tug_counter counter = {0};
    double done_us = 0;
    for (me->reads = 0; done_us < end_us || me->reads < 2; me->reads++) {
        const double begin_us = bench_now_us();
        start_read(me, 0, &counter);
        const double back_us = bench_now_us();
        wait_read(me, &counter, me->reads + 1);
        done_us = bench_now_us();
        me->overhead_us[me->reads % KEPT] = back_us - begin_us;
        me->latency_us[me->reads % KEPT] = done_us - begin_us;
    }
}

static void measure_rate(struct worker *me, double end_us) {
    struct tug_counter counters[2] = {{0}};
    uint64_t started[2] = {0};
    const size_t half = (size_t)outstanding(me->bytes) / 2;
    for (unsigned turn = 0; turn < 2 || bench_now_us() < end_us; turn++) {
        const size_t i = turn % 2;
        wait_read(me, &counters[i], started[i]);
        for (size_t slot = i * half; slot < (i + 1) * half; slot++)
            start_read(me, slot, &counters[i]);
        started[i] += half;
    }
    for (int i = 0; i < 2; i++)
        wait_read(me, &counters[i], started[i]);
    me->reads = started[0] + started[1];
}

static void *work(void *argument) {
    struct worker *me = argument;
    pthread_barrier_wait(&start_line);
    me->begin_us = bench_now_us();
    if (me->rate)
        measure_rate(me, me->begin_us + seconds * 1e6);
    else
        measure_latency(me, me->begin_us + seconds * 1e6);
    me->end_us = bench_now_us();
    return NULL;
}

static void run_workers(enum way way, long nthreads, size_t bytes, bool rate) {
    pthread_barrier_init(&start_line, NULL, (unsigned)nthreads);
    for (long i = 0; i < nthreads; i++) {
        workers[i].way = way;
        workers[i].id = (size_t)i;
        workers[i].bytes = bytes;
        workers[i].rate = rate;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            llcl_must(TUG_ERR_SYSTEM, "a thread");
    }
    for (long i = 0; i < nthreads; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&start_line);
}

/* ---- one point ---- */

static double median_of_all(long nthreads, size_t offset) {
    static double all[MAX_THREADS * KEPT];
    int n = 0;
    for (long i = 0; i < nthreads; i++) {
        const double *kept = (const double *)((const char *)&workers[i] + offset);
        const uint64_t most = workers[i].reads < KEPT ? workers[i].reads : KEPT;
        memcpy(&all[n], kept, most * sizeof all[0]);
        n += (int)most;
    }
    bench_sort(all, n);
    return bench_median(all, n);
}

static double rate_of_all(long nthreads) {
    double begin_us = 1e300, end_us = 0, reads = 0;
    for (long i = 0; i < nthreads; i++) {
        begin_us = fmin(begin_us, workers[i].begin_us);
        end_us = fmax(end_us, workers[i].end_us);
        reads += (double)workers[i].reads;
    }
    return reads / (end_us - begin_us);
}

static unsigned char *local_memory(const struct worker *worker) {
    unsigned char *memory = worker->way == HOST ? window_buffer : side_of(worker)->buffer;
    return memory + area_of(worker);
}

static long check_slots(long nthreads, size_t bytes) {
    const size_t used = (many ? (size_t)outstanding(bytes) : 1) * bytes;
    long errors = 0;
    for (long i = 0; i < nthreads; i++) {
        unsigned char *memory = local_memory(&workers[i]);
        bench_corrupt(memory);
        errors += bench_pattern_check(memory, used, 0, way_names[workers[i].way]);
        memset(memory, 0, used);
    }
    return errors;
}

/* Origin only. */
static long measure_point(enum way way, long nthreads, size_t bytes, double values[VALUES]) {
    values[LATENCY] = values[OVERHEAD] = values[RATE] = NAN;
    if (alone) {
        run_workers(way, nthreads, bytes, false);
        values[LATENCY] = median_of_all(nthreads, offsetof(struct worker, latency_us));
        values[OVERHEAD] = median_of_all(nthreads, offsetof(struct worker, overhead_us));
    }
    if (many) {
        run_workers(way, nthreads, bytes, true);
        values[RATE] = rate_of_all(nthreads);
    }
    return bench.validate ? check_slots(nthreads, bytes) : 0;
}

/* ---- openings ---- */

static double samples[WAYS][MAX_NUMBERS][MAX_SIZES][VALUES][MAX_SAMPLES];

static long measure_points(enum way way, int sample) {
    double first[VALUES]; /* not counted: threads and connections are new */
    long errors = measure_point(way, threads[nnumbers - 1], (size_t)sizes[0], first);
    for (int i = 0; i < nnumbers; i++)
        for (int j = 0; j < nsizes; j++) {
            double values[VALUES];
            errors += measure_point(way, threads[i], (size_t)sizes[j], values);
            for (int k = 0; k < VALUES; k++)
                samples[way][i][j][k][sample] = values[k];
        }
    return errors;
}

static long most_threads(void) {
    long most = 0;
    for (int i = 0; i < nnumbers; i++)
        most = threads[i] > most ? threads[i] : most;
    return most;
}

static long run_contexts(enum way way, int sample) {
    const long ncontexts = way == QUEUES ? most_threads() : 1;
    long errors = 0;
    for (long i = 0; i < ncontexts; i++) {
        sides[i].locked = way != ENGINE;
        sides[i].remote_bytes = area_bytes;
        sides[i].local_bytes = way == QUEUES ? area_bytes : area_bytes * MAX_THREADS;
        llcl_side_open(&sides[i]);
        bench_pattern_fill(sides[i].memory, area_bytes, 0);
    }
    llcl_side_way(&sides[0], LLCL_READ, 8, transport);
    bench_sync();
    if (bench.rank == LLCL_ORIGIN) {
        errors = measure_points(way, sample);
        llcl_release(&sides[0], 0);
    } else {
        (void)llcl_serve(&sides[0]);
    }
    for (long i = 0; i < ncontexts; i++)
        llcl_side_close(&sides[i]);
    return errors;
}

static long run_host(int sample) {
    long errors = 0;
    host.allocate((MPI_Aint)area_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window_memory, &window);
    window_buffer = calloc(MAX_THREADS, area_bytes);
    if (window_buffer == NULL)
        llcl_must(TUG_ERR_NO_MEMORY, "memory");
    bench_pattern_fill(window_memory, area_bytes, 0);
    host.lock_all(0, window);
    host.sync(window);
    bench_sync();
    if (bench.rank == LLCL_ORIGIN)
        errors = measure_points(HOST, sample);
    bench_sync(); /* the target makes progress in it */
    host.unlock_all(window);
    host.free(&window);
    free(window_buffer);
    return errors;
}

/* ---- rows ---- */

/* Half the width of the 95 % confidence interval of the mean. */
static double half_width(const double values[], int n) {
    static const double student[] = {0,     12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                     2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131};
    const int ntable = sizeof student / sizeof student[0];
    const double mean = bench_mean(values, n);
    double squares = 0;
    if (n < 2)
        return 0;
    for (int i = 0; i < n; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    const double t = n - 1 < ntable ? student[n - 1] : 1.96 + 2.5 / (n - 1);
    return t * sqrt(squares / (n - 1) / n);
}

static void print_rows(enum way way) {
    for (int i = 0; i < nnumbers; i++)
        for (int j = 0; j < nsizes; j++) {
            bench_cell_text(way_names[way]);
            bench_cell_text(transport);
            bench_cell((double)threads[i]);
            bench_cell((double)sizes[j]);
            for (int k = 0; k < VALUES; k++) {
                bench_cell(bench_mean(samples[way][i][j][k], (int)nsamples));
                bench_cell(half_width(samples[way][i][j][k], (int)nsamples));
            }
            bench_cell((double)nsamples);
        }
}

static long run_all(void) {
    static const struct bench_column columns[] = {
        {"way", BENCH_KEY, -1},         {"transport", BENCH_KEY, -1},
        {"threads", BENCH_KEY, 0},      {"bytes", BENCH_KEY, 0},
        {"latency_us", BENCH_LOWER, 3}, {"latency_ci", BENCH_INFO, 3},
        {"overhead_us", BENCH_INFO, 3}, {"overhead_ci", BENCH_INFO, 3},
        {"rate_mops", BENCH_INFO, 4},   {"rate_ci", BENCH_INFO, 4},
        {"samples", BENCH_INFO, 0},
    };
    long errors = 0;
    for (int sample = 0; sample < nsamples; sample++)
        for (int i = 0; i < WAYS; i++) {
            const enum way way = (enum way)((sample + i) % WAYS);
            if (chosen[way])
                errors += way == HOST ? run_host(sample) : run_contexts(way, sample);
        }
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    for (int way = 0; way < WAYS; way++)
        if (chosen[way])
            print_rows((enum way)way);
    return errors;
}

/* ---- options ---- */

static void parse_ways(void) {
    char list[64];
    snprintf(list, sizeof list, "%s", way_list);
    for (char *rest = list, *name; (name = strtok_r(rest, ",", &rest)) != NULL;) {
        int way = 0;
        while (way < WAYS && strcmp(name, way_names[way]) != 0)
            way++;
        if (way == WAYS)
            bench_usage_error("'%s' is not a list of engine, queues, locked, host", way_list);
        chosen[way] = true;
    }
}

static void parse_options(void) {
    parse_ways();
    const bool both = strcmp(measure, "both") == 0;
    alone = both || strcmp(measure, "alone") == 0;
    many = both || strcmp(measure, "many") == 0;
    if (!alone && !many)
        bench_usage_error("--measure '%s' is not both, alone or many", measure);
    nnumbers = bench_parse_sizes(thread_list, threads, MAX_NUMBERS);
    for (int i = 0; i < nnumbers; i++)
        if (threads[i] < 1 || threads[i] > MAX_THREADS)
            nnumbers = -1;
    if (nnumbers < 1)
        bench_usage_error("--threads '%s' is not a list of 1..%d", thread_list, MAX_THREADS);
    nsizes = bench_parse_sizes(size_list, sizes, MAX_SIZES);
    for (int i = 0; i < nsizes; i++) {
        if (sizes[i] < 8 || sizes[i] > 1 << 20)
            bench_usage_error("--sizes 8..1M, not %ld", sizes[i]);
        const size_t bytes = (size_t)outstanding((size_t)sizes[i]) * (size_t)sizes[i];
        area_bytes = bytes > area_bytes ? bytes : area_bytes;
    }
    if (nsizes < 1 || nsamples < 1 || nsamples > MAX_SAMPLES || seconds <= 0)
        bench_usage_error("--sizes a list, --samples 1..%d, --seconds > 0", MAX_SAMPLES);
}

int main(int argc, char **argv) {
    const struct bench_option options[] = {
        {"ways", BENCH_TEXT, &way_list, "of engine, queues, locked, host"},
        {"measure", BENCH_TEXT, &measure, "both, alone (latency, overhead) or many (rate)"},
        {"threads", BENCH_TEXT, &thread_list, "numbers of threads"},
        {"sizes", BENCH_TEXT, &size_list, "bytes of a read"},
        {"samples", BENCH_LONG, &nsamples, "samples for each row"},
        {"seconds", BENCH_REAL, &seconds, "time for a sample of each of the two measurements"},
        LLCL_OPTIONS,
    };
    char what[120];
    llcl_start_program(
        &argc, &argv,
        "How long is a read, how long the call that starts it, and how many a second "
        "are there, by threads and size?",
        options, sizeof options / sizeof options[0]);
    parse_options();
    llcl_find_host(&host);
    snprintf(what, sizeof what, "reads; for the rate at most %d outstanding of each thread",
             MOST_OUT);
    llcl_header(what);
    return bench_finish(run_all());
}
