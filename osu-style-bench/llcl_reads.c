/* llcl_reads.c: how long does a read take, how long is its thread inside the call that starts it,
 * how many are there a second, and what does a loop that computes meanwhile lose, by threads and
 * size?
 *
 * The experiments of Endo and Taura (SWoPP'16, Listings 6 and 7), in three ways:
 *   wait  a thread starts a read and waits for it in the library, which it drives meanwhile
 *   flag  a thread starts a read and makes no other call: the callback, on the library's thread,
 *         sets what it looks at. With TUGBOAT_PROGRESS=thread that is the paper's own program
 *   host  MPI_Get and MPI_Win_flush of the host, on one window of memory of the same kind
 * TUGBOAT_PROGRESS decides which thread drives, and TUGBOAT=off keeps the library out of the host's
 * calls, so that each way is best measured by runs of its own, by turns. A thread starts a read at
 * t0, is back at t1 and has the data at t2: overhead is t1 - t0, latency t2 - t0, and a sample is
 * the median over all reads of all threads, so that a thread without a core does not count. For the
 * rate each thread keeps a number of reads outstanding. The loop has one thread: it starts a read,
 * computes for as long as a read takes, and waits for the rest. `taken` is by how many percent the
 * computing alone is faster without the read, `lost` the percent of the whole turn that are no
 * computing, by medians over turns. Every sample of a way is in an opening of its own, and the ways
 * alternate. The table has medians of samples, the lowest and the highest.
 *
 * Invariant: each read outstanding has a slot of its own in local memory; the remote memory stays
 * as it is. When validating, all slots are compared after each rate. Threading: workers read and
 * wait; all else is done by the main threads.
 */
#include "llcl_bench.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_THREADS = 16,
    MAX_NUMBERS = 8,
    MAX_SIZES = 16,
    MAX_SAMPLES = 200,
    KEPT = 4096,
    BLOCK = 16
};
enum { MOST_OUT = 64, MOST_BYTES_OUT = 1 << 19 }; /* of a thread */
enum way { WAIT, FLAG, HOST, WAYS };
enum value { LATENCY, OVERHEAD, RATE, TAKEN, LOST, VALUES };

static const char *const way_names[WAYS] = {"wait", "flag", "host"};
static const char *const value_names[VALUES] = {"latency", "overhead", "rate", "taken", "lost"};
static const char *way_list = "wait,host";
static const char *measure = "all";
static const char *compared = "latency";
static bool alone, many, loop; /* what is measured: one read and a wait; many; one and computing */
static const char *thread_list = "1,2,4,8,16";
static const char *size_list = "8,128,1K,8K,64K";
static long nsamples = 8;
static double seconds = 0.005;

static bool chosen[WAYS];
static long threads[MAX_NUMBERS], sizes[MAX_SIZES];
static int nnumbers, nsizes;
static size_t area_bytes; /* a thread's local memory; and all remote memory */
static struct llcl_side side;
static struct llcl_host host;
static MPI_Win window;
static unsigned char *window_memory, *window_buffer;
static char transport[LLCL_WAY] = "none";

/* Reads that have completed, of those that wait, and of those that look at a flag. */
struct reads_done {
    struct tug_counter counter;
    atomic_ulong flag;
};

struct worker {
    pthread_t thread;
    void (*measure)(struct worker *me, double end_us);
    enum way way;
    bool yields; /* while it looks at a flag: there are more threads than cores */
    size_t id, bytes;
    uint64_t reads;
    double begin_us, end_us;
    double latency_us[KEPT], overhead_us[KEPT];
    double compute_us, taken, lost;
};
static struct worker workers[MAX_THREADS];
static pthread_barrier_t start_line;

/* ---- one read ---- */

static long outstanding(size_t bytes) {
    const long fit = (long)((size_t)MOST_BYTES_OUT / bytes) / 2 * 2;
    return fit < 2 ? 2 : fit > MOST_OUT ? MOST_OUT : fit;
}

/* Release: pairs with the acquire in wait_read(), behind which the data are looked at. */
static void raise_flag(void *flag, int status) {
    llcl_must(status, "a read");
    atomic_fetch_add_explicit((atomic_ulong *)flag, 1, memory_order_release);
}

static void look_again(const struct worker *me) {
    if (me->yields)
        sched_yield();
}

static void start_read(const struct worker *me, size_t slot, struct reads_done *done) {
    const size_t from = slot * me->bytes, to = me->id * area_bytes + from;
    const struct tug_read_params params = {.src_proc = LLCL_TARGET,
                                           .src_raddr = {&side.key, from},
                                           .dest_laddr = {side.local, to},
                                           .size_in_bytes = me->bytes,
                                           .on_complete = {raise_flag, &done->flag}};
    if (me->way == HOST)
        host.get(window_buffer + to, (int)me->bytes, MPI_BYTE, LLCL_TARGET, (MPI_Aint)from,
                 (int)me->bytes, MPI_BYTE, window);
    else if (me->way == WAIT)
        llcl_start(&side, LLCL_READ, to, from, me->bytes, &done->counter);
    else
        while (!tug_try_read_async(side.context, &params))
            look_again(me);
}

static void wait_read(const struct worker *me, struct reads_done *done, uint64_t n) {
    if (me->way == HOST)
        host.flush(LLCL_TARGET, window);
    else if (me->way == WAIT)
        llcl_wait(&side, &done->counter, n);
    else
        while (atomic_load_explicit(&done->flag, memory_order_acquire) < n)
            look_again(me);
}

/* ---- workers ---- */

static void measure_latency(struct worker *me, double end_us) {
    struct reads_done done = {0};
    double done_us = 0;
    for (me->reads = 0; done_us < end_us || me->reads < 2; me->reads++) {
        const double begin_us = bench_now_us();
        start_read(me, 0, &done);
        const double back_us = bench_now_us();
        wait_read(me, &done, me->reads + 1);
        done_us = bench_now_us();
        me->overhead_us[me->reads % KEPT] = back_us - begin_us;
        me->latency_us[me->reads % KEPT] = done_us - begin_us;
    }
}

static void measure_rate(struct worker *me, double end_us) {
    struct reads_done done[2] = {0};
    uint64_t started[2] = {0};
    const size_t half = (size_t)outstanding(me->bytes) / 2;
    for (unsigned turn = 0; turn < 2 || bench_now_us() < end_us; turn++) {
        const size_t i = turn % 2;
        wait_read(me, &done[i], started[i]);
        for (size_t slot = i * half; slot < (i + 1) * half; slot++)
            start_read(me, slot, &done[i]);
        started[i] += half;
    }
    for (int i = 0; i < 2; i++)
        wait_read(me, &done[i], started[i]);
    me->reads = started[0] + started[1];
}

static double median_of(double times_us[], uint64_t n) {
    const int kept = n < KEPT ? (int)n : KEPT;
    bench_sort(times_us, kept);
    return bench_median(times_us, kept);
}

/* Half of the time computes alone. A thread that sleeps meanwhile is woken once for many turns. */
static void measure_loop(struct worker *me, double end_us) {
    static double free_us[KEPT], computing_us[KEPT], turn_us[KEPT];
    struct reads_done done = {0};
    double now_us = bench_now_us();
    const double half_us = (now_us + end_us) / 2;
    uint64_t nfree = 0;
    for (double begin_us = now_us; now_us < half_us || nfree < 2; begin_us = now_us) {
        bench_compute(me->compute_us);
        now_us = bench_now_us();
        free_us[nfree++ % KEPT] = now_us - begin_us;
    }
    me->reads = 0;
    for (double begin_us = now_us; now_us < end_us || me->reads < 2; begin_us = now_us) {
        const uint64_t at = me->reads++ % KEPT;
        start_read(me, 0, &done);
        const double back_us = bench_now_us();
        bench_compute(me->compute_us);
        computing_us[at] = bench_now_us() - back_us;
        wait_read(me, &done, me->reads);
        now_us = bench_now_us();
        turn_us[at] = now_us - begin_us;
    }
    const double alone_us = median_of(free_us, nfree);
    me->taken = 100 * (1 - alone_us / median_of(computing_us, me->reads));
    me->lost = 100 * (1 - alone_us / median_of(turn_us, me->reads));
}

static void *work(void *argument) {
    struct worker *me = argument;
    pthread_barrier_wait(&start_line);
    me->begin_us = bench_now_us();
    me->measure(me, me->begin_us + seconds * 1e6);
    me->end_us = bench_now_us();
    return NULL;
}

static long ncores(void) {
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

static void run_workers(enum way way, long nthreads, size_t bytes,
                        void (*how)(struct worker *me, double end_us)) {
    pthread_barrier_init(&start_line, NULL, (unsigned)nthreads);
    for (long i = 0; i < nthreads; i++) {
        workers[i].measure = how;
        workers[i].way = way;
        workers[i].yields = nthreads > 1 && nthreads >= ncores();
        workers[i].id = (size_t)i;
        workers[i].bytes = bytes;
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
    unsigned char *memory = worker->way == HOST ? window_buffer : side.buffer;
    return memory + worker->id * area_bytes;
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
    for (int k = 0; k < VALUES; k++)
        values[k] = NAN;
    if (alone || loop) {
        run_workers(way, nthreads, bytes, measure_latency);
        values[LATENCY] = median_of_all(nthreads, offsetof(struct worker, latency_us));
        values[OVERHEAD] = median_of_all(nthreads, offsetof(struct worker, overhead_us));
    }
    if (many) {
        run_workers(way, nthreads, bytes, measure_rate);
        values[RATE] = rate_of_all(nthreads);
    }
    if (loop && nthreads == 1) {
        workers[0].compute_us = values[LATENCY];
        run_workers(way, nthreads, bytes, measure_loop);
        values[TAKEN] = workers[0].taken;
        values[LOST] = workers[0].lost;
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

static long run_context(enum way way, int sample) {
    long errors = 0;
    side.remote_bytes = area_bytes;
    side.local_bytes = area_bytes * MAX_THREADS;
    llcl_side_open(&side);
    bench_pattern_fill(side.memory, area_bytes, 0);
    llcl_side_way(&side, LLCL_READ, 8, transport);
    bench_sync();
    if (bench.rank == LLCL_ORIGIN) {
        errors = measure_points(way, sample);
        llcl_release(&side, 0);
    } else {
        (void)llcl_serve(&side);
    }
    llcl_side_close(&side);
    return errors;
}

static long run_host(int sample) {
    const bool is_private = strcmp(llcl_options.memory, "private") == 0;
    long errors = 0;
    window_buffer = calloc(MAX_THREADS, area_bytes);
    window_memory = is_private ? malloc(area_bytes) : NULL;
    if (window_buffer == NULL || (is_private && window_memory == NULL))
        llcl_must(TUG_ERR_NO_MEMORY, "memory");
    if (is_private)
        host.create(window_memory, (MPI_Aint)area_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    else
        host.allocate((MPI_Aint)area_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window_memory,
                      &window);
    bench_pattern_fill(window_memory, area_bytes, 0);
    host.lock_all(0, window);
    host.sync(window);
    bench_sync();
    if (bench.rank == LLCL_ORIGIN)
        errors = measure_points(HOST, sample);
    bench_sync(); /* the target makes progress in it */
    host.unlock_all(window);
    host.free(&window);
    if (is_private)
        free(window_memory);
    free(window_buffer);
    return errors;
}

/* ---- rows ---- */

static void print_rows(enum way way) {
    for (int i = 0; i < nnumbers; i++)
        for (int j = 0; j < nsizes; j++) {
            bench_cell_text(way_names[way]);
            bench_cell_text(transport);
            bench_cell((double)threads[i]);
            bench_cell((double)sizes[j]);
            for (int k = 0; k < VALUES; k++) {
                double *sorted = samples[way][i][j][k];
                bench_sort(sorted, (int)nsamples);
                bench_cell(bench_median(sorted, (int)nsamples));
                bench_cell(sorted[0]);
                bench_cell(sorted[nsamples - 1]);
            }
            bench_cell((double)nsamples);
        }
}

/* By --value one column is what `versus` compares. The way is no key where there is one alone, so
 * that runs of several ways have the same rows. */
static void begin_table(void) {
    static struct bench_column columns[] = {
        {"way", BENCH_KEY, -1},          {"transport", BENCH_INFO, -1},
        {"threads", BENCH_KEY, 0},       {"bytes", BENCH_KEY, 0},
        {"latency_us", BENCH_INFO, 3},   {"latency_low", BENCH_INFO, 3},
        {"latency_high", BENCH_INFO, 3}, {"overhead_us", BENCH_INFO, 3},
        {"overhead_low", BENCH_INFO, 3}, {"overhead_high", BENCH_INFO, 3},
        {"rate_mops", BENCH_INFO, 4},    {"rate_low", BENCH_INFO, 4},
        {"rate_high", BENCH_INFO, 4},    {"taken_percent", BENCH_INFO, 2},
        {"taken_low", BENCH_INFO, 2},    {"taken_high", BENCH_INFO, 2},
        {"lost_percent", BENCH_INFO, 2}, {"lost_low", BENCH_INFO, 2},
        {"lost_high", BENCH_INFO, 2},    {"samples", BENCH_INFO, 0},
    };
    const int ncolumns = sizeof columns / sizeof columns[0];
    int nways = 0;
    for (int way = 0; way < WAYS; way++)
        nways += chosen[way];
    if (nways == 1)
        columns[0].role = BENCH_INFO;
    for (int i = 0; i < VALUES; i++)
        if (strcmp(compared, value_names[i]) == 0)
            columns[4 + 3 * i].role = i == RATE ? BENCH_HIGHER : BENCH_LOWER;
    bench_table_begin(columns, ncolumns);
}

static long run_all(void) {
    long errors = 0;
    for (int sample = 0; sample < nsamples; sample++)
        for (int i = 0; i < WAYS; i++) {
            const enum way way = (enum way)((sample + i) % WAYS);
            if (chosen[way])
                errors += way == HOST ? run_host(sample) : run_context(way, sample);
        }
    begin_table();
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
            bench_usage_error("'%s' is not a list of wait, flag, host", way_list);
        chosen[way] = true;
    }
}

static void parse_options(void) {
    parse_ways();
    const bool all = strcmp(measure, "all") == 0;
    bool known = false;
    alone = all || strcmp(measure, "alone") == 0;
    many = all || strcmp(measure, "many") == 0;
    loop = all || strcmp(measure, "loop") == 0;
    if (!alone && !many && !loop)
        bench_usage_error("--measure '%s' is not all, alone, many or loop", measure);
    for (int i = 0; i < VALUES; i++)
        known = known || strcmp(compared, value_names[i]) == 0;
    if (!known)
        bench_usage_error("--value '%s' is not latency, overhead, rate, taken or lost", compared);
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
        {"ways", BENCH_TEXT, &way_list, "of wait, flag, host"},
        {"measure", BENCH_TEXT, &measure, "all, alone (latency, overhead), many (rate) or loop"},
        {"value", BENCH_TEXT, &compared, "what versus compares: latency, overhead, rate, ..."},
        {"threads", BENCH_TEXT, &thread_list, "numbers of threads"},
        {"sizes", BENCH_TEXT, &size_list, "bytes of a read"},
        {"samples", BENCH_LONG, &nsamples, "samples for each row"},
        {"seconds", BENCH_REAL, &seconds, "time for a sample of each measurement"},
        LLCL_OPTIONS,
    };
    char what[120];
    llcl_start_program(
        &argc, &argv,
        "How long is a read, how long the call that starts it, how many a second are there, and "
        "what does a loop that computes meanwhile lose?",
        options, sizeof options / sizeof options[0]);
    parse_options();
    llcl_find_host(&host);
    bench_calibrate();
    snprintf(what, sizeof what, "reads; for the rate at most %d outstanding of each thread",
             MOST_OUT);
    llcl_header(what);
    return bench_finish(run_all());
}
