/* window_epochs.c: how long does an epoch of one-sided operations take, by flavour of the window,
 * synchronisation, operation and load?
 *
 * Rank 0 works on rank 1's memory. In a fence and in post-start-complete-wait both take part in
 * each epoch; otherwise rank 1 waits in MPI_Recv, or computes (--compute-ms) without a call of MPI,
 * a period at a time, and then waits there. Such periods are what a host that needs its target is
 * bounded by. With --pause-ms rank 0 computes so long before each single epoch. With --both rank 1
 * does the same to rank 0's memory meanwhile, as in programs whose ranks are all alike.
 * The figure is the median of an epoch's times where one thread works on a target that waits, and
 * otherwise the mean of those that began while the target computed, for there a few wait for all.
 * Data are checked after each cell; the column `wrong` has the number of wrong words.
 *
 * Invariants: all ranks choose the same cells in the same order; a window lives as long as the
 * cells of its flavour; epochs are counted at the origin, which tells the target. Threading:
 * --threads of the origin run epochs, on one window, but for locks each on its own.
 */
#include "window_epochs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DONE_TAG = 1, MOST_LOADS = 16, STACK_BYTES = 4 << 20 };

static const char *flavour_list = "allocate,shared,create,create_stack,create_alloc_mem,dynamic";
static const char *sync_list = "fence,pscw,lock,flush,flush_local,request";
static const char *op_list = "put,get,accumulate,fetch_and_op,compare_and_swap";
static const char *load_list = "1x8,16x8,1x4K,1x256K";
static double seconds = 0.03, compute_ms, pause_ms;
static long nthreads = 1, least_periods = 2;
static bool lifetimes, both;

static struct load loads[MOST_LOADS];
static int nloads;
static struct bench_window windows[MOST_THREADS];
static struct worker *workers;

/* ---- choices ---- */

static bool is_in(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* How many words a list has, so that one that is no name shows. */
static int count_words(const char *list) {
    int n = 1;
    for (; *list != '\0'; list++)
        n += *list == ',';
    return n;
}

static bool read_load(const char *text, struct load *load) {
    char size[24], *end = NULL;
    long count = strtol(text, &end, 10);
    if (end == text || *end != 'x' || count < 1 || count > MOST_OPERATIONS)
        return false;
    snprintf(size, sizeof size, "%.*s", (int)strcspn(end + 1, ","), end + 1);
    load->count = (int)count;
    return bench_parse_sizes(size, &load->bytes, 1) == 1 && load->bytes >= 8 &&
           load->bytes % 8 == 0 &&
           (size_t)(count * load->bytes) <= (lifetimes ? STACK_BYTES : SLOT_BYTES);
}

static void read_loads(void) {
    for (const char *at = load_list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (nloads == MOST_LOADS || !read_load(at, &loads[nloads++]))
            bench_usage_error("--loads '%s': up to %d of COUNTxBYTES such as 16x8 or 1x4K",
                              load_list, MOST_LOADS);
    }
}

static void check_lists(void) {
    int nflavours = 0, nsyncs = 0, nops = 0;
    for (int i = 0; bench_window_names[i] != NULL; i++)
        nflavours += is_in(flavour_list, bench_window_names[i]);
    for (int i = 0; i < NSYNCHRONISATIONS; i++)
        nsyncs += is_in(sync_list, synchronisations[i].name);
    for (int i = 0; i < NOPERATIONS; i++)
        nops += is_in(op_list, operations[i].name);
    if (nflavours != count_words(flavour_list))
        bench_usage_error("--flavours '%s': not all are names of flavours", flavour_list);
    if (nsyncs != count_words(sync_list))
        bench_usage_error("--syncs '%s': not all are names of synchronisations", sync_list);
    if (nops != count_words(op_list))
        bench_usage_error("--ops '%s': not all are names of operations", op_list);
}

static void check_options(void) {
    if (bench.nranks != 2)
        bench_usage_error("2 ranks are needed, not %d", bench.nranks);
    if (nthreads < 1 || nthreads > MOST_THREADS || !(seconds > 0) || compute_ms < 0 ||
        pause_ms < 0 || least_periods < 1)
        bench_usage_error("--threads 1..%d, --seconds > 0, --compute-ms and --pause-ms >= 0, "
                          "--periods >= 1",
                          MOST_THREADS);
    check_lists();
    read_loads();
}

/* ---- epochs ---- */

static void compute_until(double end_us) {
    while (bench_now_us() < end_us)
        bench_compute(20);
}

static void keep_sample(struct worker *worker, double us) {
    if (worker->nsamples < MOST_SAMPLES)
        worker->samples[worker->nsamples++] = us;
}

/* Runs epochs until it is time; short ones are timed together, as the clock takes some 25 ns. */
static void *run_epochs(void *argument) {
    const double short_us = 2;
    struct worker *worker = argument;
    double end_us = bench_now_us();
    for (int group = 1;;) {
        double start_us = end_us;
        for (int i = 0; i < group; i++)
            worker->sync->epoch(worker);
        end_us = bench_now_us();
        keep_sample(worker, (end_us - start_us) / group);
        worker->ntimed += group;
        if (end_us >= worker->until_us)
            break;
        if (end_us - start_us < short_us && group < 64)
            group *= 2;
    }
    worker->elapsed_us += end_us - worker->from_us;
    return NULL;
}

/* All threads' time counts from here on, also that of one which waits for a core at first. */
static void run_workers(double until_us) {
    pthread_t threads[MOST_THREADS];
    const double from_us = bench_now_us();
    for (int t = 0; t < nthreads; t++) {
        workers[t].from_us = from_us;
        workers[t].until_us = until_us;
    }
    for (int t = 1; t < nthreads; t++)
        if (pthread_create(&threads[t], NULL, run_epochs, &workers[t]) != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
    run_epochs(&workers[0]);
    for (int t = 1; t < nthreads; t++)
        pthread_join(threads[t], NULL);
}

static void forget_times(void) {
    for (int t = 0; t < nthreads; t++) {
        workers[t].nsamples = 0;
        workers[t].ntimed = 0;
        workers[t].elapsed_us = 0;
    }
}

/* One period: the target computes, or waits at once, or works too; the origin works meanwhile. */
static void run_period(double compute_us, double pause_us, double work_us) {
    bench_sync();
    double begin_us = bench_now_us();
    if (bench.rank == TARGET) {
        compute_until(begin_us + compute_us);
        if (both)
            run_workers(begin_us + work_us);
        MPI_Recv(NULL, 0, MPI_BYTE, ORIGIN, DONE_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    compute_until(begin_us + pause_us);
    run_workers(begin_us + work_us);
    MPI_Send(NULL, 0, MPI_BYTE, TARGET, DONE_TAG, MPI_COMM_WORLD);
}

static void measure_passive(void) {
    const double underway_us = 200; /* so that the target surely computes */
    double compute_us = compute_ms * 1e3, pause_us = pause_ms * 1e3;
    long nperiods = compute_ms > 0 || pause_ms > 0 ? least_periods : 1;
    run_period(0, 0, 1e6 * seconds / 8); /* connections, first touch */
    forget_times();
    for (long i = 0; i < nperiods; i++) {
        if (pause_ms > 0)
            run_period(compute_ms > 0 ? pause_us + compute_us : 0, pause_us, 0);
        else if (compute_ms > 0)
            run_period(compute_us, underway_us, compute_us);
        else
            run_period(0, 0, 1e6 * seconds);
    }
}

static double run_active(long nepochs, long group) {
    struct worker *worker = &workers[0];
    double begin_us = bench_now_us(), end_us = begin_us;
    for (long i = 0; i < nepochs; i += group) {
        double start_us = end_us;
        for (int k = 0; k < group; k++)
            if (bench.rank == TARGET)
                worker->sync->target_epoch(worker);
            else
                worker->sync->epoch(worker);
        end_us = bench_now_us();
        keep_sample(worker, (end_us - start_us) / (double)group);
    }
    return end_us - begin_us;
}

static void measure_active(void) {
    enum { NWARM = 8, MOST_IN_GROUP = 32 };
    run_active(NWARM, 1);
    double us = run_active(NWARM, 1) / NWARM;
    MPI_Bcast(&us, 1, MPI_DOUBLE, ORIGIN, MPI_COMM_WORLD);
    long group = us > 2 ? 1 : us > 2.0 / MOST_IN_GROUP ? (long)(2 / us) : MOST_IN_GROUP;
    long ngroups = (long)(1e6 * seconds / us / (double)group) + 3;
    forget_times();
    run_active(group * (ngroups < MOST_SAMPLES ? ngroups : MOST_SAMPLES), group);
}

/* ---- cells ---- */

static double mean_us(void) {
    double sum_us = 0, nepochs = 0;
    for (int t = 0; t < nthreads; t++) {
        sum_us += workers[t].elapsed_us;
        nepochs += (double)workers[t].ntimed;
    }
    return sum_us / nepochs;
}

static void print_cell(const char *flavour, const struct load *load, long nwrong) {
    struct worker *worker = &workers[0];
    char text[40];
    bool is_mean = !worker->sync->active && pause_ms <= 0 && (compute_ms > 0 || nthreads > 1);
    bench_sort(worker->samples, worker->nsamples);
    snprintf(text, sizeof text, load->bytes < 1024 ? "%dx%ld" : "%dx%ldK", load->count,
             load->bytes < 1024 ? load->bytes : load->bytes / 1024);
    bench_cell_text(flavour);
    bench_cell_text(worker->sync->name);
    bench_cell_text(worker->operation->name);
    bench_cell_text(text);
    bench_cell(is_mean ? mean_us() : bench_median(worker->samples, worker->nsamples));
    bench_cell((double)nwrong);
    bench_cell(bench_p90(worker->samples, worker->nsamples));
    bench_cell(bench_mean(worker->samples, worker->nsamples));
    bench_cell((double)worker->nepochs);
}

/* Where the workers work: on one window, but for locks, of which a process has one a window. */
static void place_workers(const struct synchronisation *sync, const struct operation *operation,
                          const struct load *load) {
    bool own = strcmp(sync->name, "lock") == 0;
    for (int t = 0; t < nthreads; t++) {
        struct worker *worker = &workers[t];
        struct bench_window *window = &windows[own ? t : 0];
        size_t offset = own ? 0 : (size_t)t * SLOT_BYTES;
        worker->sync = sync;
        worker->operation = operation;
        worker->load = *load;
        worker->win = window->win;
        worker->there = (char *)window->memory + offset;
        worker->works = both || bench.rank == ORIGIN;
        worker->peer = bench.rank == ORIGIN ? TARGET : ORIGIN;
        worker->at = window->at[worker->peer] + (MPI_Aint)offset;
        worker_prepare(worker);
    }
    bench_sync();
}

static long check_workers(void) {
    long nwrong = 0, all = 0;
    for (int t = 0; t < nthreads; t++) {
        MPI_Bcast(&workers[t].nepochs, 1, MPI_INT64_T, ORIGIN, MPI_COMM_WORLD);
        nwrong += worker_check(&workers[t]);
    }
    MPI_Allreduce(&nwrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static long run_cell(const char *flavour, const struct synchronisation *sync,
                     const struct operation *operation, const struct load *load) {
    place_workers(sync, operation, load);
    cell_begin(&workers[0]);
    if (sync->active)
        measure_active();
    else
        measure_passive();
    cell_end(&workers[0]);
    long nwrong = check_workers();
    print_cell(flavour, load, nwrong);
    return nwrong;
}

static long run_cells(const char *flavour) {
    long nwrong = 0;
    for (int s = 0; s < NSYNCHRONISATIONS; s++)
        for (int o = 0; o < NOPERATIONS; o++)
            for (int l = 0; l < nloads; l++) {
                const struct synchronisation *sync = &synchronisations[s];
                bool active_too = nthreads == 1 && compute_ms <= 0 && pause_ms <= 0 && !both;
                if (is_in(sync_list, sync->name) && is_in(op_list, operations[o].name) &&
                    is_possible(sync, &operations[o], &loads[l]) && (active_too || !sync->active))
                    nwrong += run_cell(flavour, sync, &operations[o], &loads[l]);
            }
    return nwrong;
}

static long run_flavour(const char *flavour, char *stack) {
    windows[0] = bench_window_open_any(flavour, stack, (size_t)nthreads * SLOT_BYTES, 1);
    for (int t = 1; t < nthreads; t++) {
        stack += (size_t)(t == 1 ? nthreads : 1) * SLOT_BYTES;
        windows[t] = bench_window_open_any(flavour, stack, SLOT_BYTES, 1);
    }
    long nwrong = run_cells(flavour);
    for (int t = 0; t < nthreads; t++)
        bench_window_close(&windows[t]);
    return nwrong;
}

/* ---- made and freed ---- */

static double remake(void *window) {
    bench_sync();
    double begin_us = bench_now_us();
    bench_window_remake(window, 1);
    return bench_now_us() - begin_us;
}

static void run_lifetimes(const char *flavour, char *stack) {
    for (int l = 0; l < nloads; l++) {
        int n;
        windows[0] = bench_window_open_any(flavour, stack, (size_t)loads[l].bytes, 1);
        double *slowest = bench_iterate(remake, &windows[0], seconds, 0, MOST_SAMPLES, &n);
        bench_cell_text(flavour);
        bench_cell((double)loads[l].bytes);
        bench_cell(bench_median(slowest, n));
        bench_cell(bench_p90(slowest, n));
        bench_cell(n);
        free(slowest);
        bench_window_close(&windows[0]);
    }
}

/* ---- main ---- */

static void begin_table(void) {
    static const struct bench_column epochs[] = {
        {"flavour", BENCH_KEY, -1}, {"sync", BENCH_KEY, -1},      {"op", BENCH_KEY, -1},
        {"load", BENCH_KEY, -1},    {"epoch_us", BENCH_LOWER, 4}, {"wrong", BENCH_WRONG, 0},
        {"p90_us", BENCH_INFO, 3},  {"mean_us", BENCH_INFO, 3},   {"epochs", BENCH_INFO, 0},
    };
    static const struct bench_column lives[] = {
        {"flavour", BENCH_KEY, -1}, {"bytes", BENCH_KEY, 0},    {"life_us", BENCH_LOWER, 2},
        {"p90_us", BENCH_INFO, 2},  {"windows", BENCH_INFO, 0},
    };
    if (lifetimes)
        bench_table_begin(lives, sizeof lives / sizeof lives[0]);
    else
        bench_table_begin(epochs, sizeof epochs / sizeof epochs[0]);
}

static long run_all(void) {
    char stack[STACK_BYTES + 64];
    long nwrong = 0;
    for (int i = 0; bench_window_names[i] != NULL; i++) {
        if (!is_in(flavour_list, bench_window_names[i]))
            continue;
        if (lifetimes)
            run_lifetimes(bench_window_names[i], stack);
        else
            nwrong += run_flavour(bench_window_names[i], stack);
    }
    return nwrong;
}

/* Before MPI is there nothing is known but the arguments. */
static int level_for(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--threads") == 0 && strcmp(argv[i + 1], "1") != 0)
            return MPI_THREAD_MULTIPLE;
    return MPI_THREAD_SINGLE;
}

int main(int argc, char **argv) {
    const struct bench_option options[] = {
        {"flavours", BENCH_TEXT, &flavour_list, "of the windows"},
        {"syncs", BENCH_TEXT, &sync_list, "synchronisations"},
        {"ops", BENCH_TEXT, &op_list, "operations"},
        {"loads", BENCH_TEXT, &load_list, "operations in an epoch, and bytes of each"},
        {"threads", BENCH_LONG, &nthreads, "of the origin; more than 1: no fence, no pscw"},
        {"compute-ms", BENCH_REAL, &compute_ms, "the target computes so long; no fence, no pscw"},
        {"pause-ms", BENCH_REAL, &pause_ms, "single epochs, the origin computes so long before"},
        {"both", BENCH_FLAG, &both, "the target runs such epochs, too; no fence, no pscw"},
        {"periods", BENCH_LONG, &least_periods, "how often, with either of those"},
        {"seconds", BENCH_REAL, &seconds, "time for a cell without them"},
        {"lifetimes", BENCH_FLAG, &lifetimes, "windows of the loads' bytes made and freed instead"},
    };
    char what[160];
    bench_start(&argc, &argv, level_for(argc, argv),
                "How long does an epoch take, by flavour, synchronisation, operation and load?",
                options, sizeof options / sizeof options[0]);
    check_options();
    workers = calloc((size_t)nthreads, sizeof *workers);
    for (int t = 0; t < nthreads; t++)
        if (workers == NULL || (workers[t].data = aligned_alloc(64, SLOT_BYTES)) == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
        else
            memset(workers[t].data, 0, SLOT_BYTES);
    snprintf(what, sizeof what, "%ld threads; the target %s %g ms; pause of %g ms", nthreads,
             both             ? "works, too,"
             : compute_ms > 0 ? "computes"
                              : "waits,",
             compute_ms, pause_ms);
    bench_header(what);
    synchronisations_start();
    begin_table();
    long nwrong = run_all();
    synchronisations_end();
    for (int t = 0; t < nthreads; t++)
        free(workers[t].data);
    free(workers);
    return bench_finish(bench.validate ? nwrong : 0);
}
