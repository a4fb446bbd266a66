/* bcast_init_sizes.c: how long does a persistent broadcast take, by size?
 *
 * For each size: MPI_Bcast_init once, then start and wait repeatedly. An iteration's time is the
 * longest of all ranks' times from before start to after wait; the table shows the median over
 * iterations. --memory says where buffers come from; with `bare` nothing is broadcast: the ranks
 * copy out of the root's memory, a window that all have mapped, which is what a broadcast on one
 * node can come near to. With --overlap the ranks compute between start and wait. Each iteration
 * then has three parts, the broadcast alone, the computation alone and both, and the table shows
 * how much of the broadcast the computation has hidden: 1 - (both - computation) / broadcast, as in
 * OSU's benchmarks, but of three that follow one another, and the median of all: what the machine
 * does to a computation from one second to the next is more than a broadcast.
 *
 * Invariants: the root's data differ in every iteration; iterations are separated by bench_sync(),
 * outside the clock readings; all ranks run the same number of iterations, chosen to fill a time
 * budget.
 * Threading: main thread only.
 */
#include "bench.h"
#include "persistent.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIZES = 64 };

typedef int bcast_init_function(void *, int, MPI_Datatype, int, MPI_Comm, MPI_Info, MPI_Request *);

static const char *size_list = "8,4K,32K,256K,2M,16M";
static double seconds = 0.5;
static long max_iterations = 2000;
static long root;
static double overlap_us;
static bool mpix;

static const char *const memories[] = {"malloc", "alloc_mem", "window", "bare"};
enum memory { MALLOC, ALLOC_MEM, WINDOW, BARE, MEMORIES };

static const char *memory_name = "malloc";
static enum memory memory;

static bcast_init_function *bcast_init = MPI_Bcast_init;

/* What an iteration has between its two clock readings. */
enum { COMMUNICATE = 1, COMPUTE = 2 };

/* Parts of an iteration with --overlap. */
enum { ALONE, COMPUTATION, BOTH, PARTS };

struct run {
    size_t bytes;
    void *buffer;
    MPI_Win win;       /* it lies in */
    const void *roots; /* BARE: the root's buffer, as mapped here */
    MPI_Request request;
    uint64_t seed; /* of the last iteration's data */
    long errors;
    double *parts[PARTS]; /* this rank's times, all iterations' */
    int nparts, room;
};

/* Returns this rank's microseconds. */
static double perform(struct run *run, int what) {
    run->seed++;
    if (bench.rank == root && (what & COMMUNICATE))
        bench_pattern_fill(run->buffer, run->bytes, run->seed);
    bench_sync();
    double begin_us = bench_now_us();
    if (what & COMMUNICATE && memory != BARE)
        MPI_Start(&run->request);
    else if (what & COMMUNICATE && bench.rank != root)
        memcpy(run->buffer, run->roots, run->bytes);
    if (what & COMPUTE)
        bench_compute(overlap_us);
    if (what & COMMUNICATE && memory != BARE)
        MPI_Wait(&run->request, MPI_STATUS_IGNORE);
    double us = bench_now_us() - begin_us;
    if (bench.validate && (what & COMMUNICATE)) {
        if (bench.rank != root && run->bytes > 0)
            bench_corrupt(run->buffer);
        run->errors += bench_pattern_check(run->buffer, run->bytes, run->seed, "broadcast data");
    }
    return us;
}

static double iterate(void *argument) {
    return perform(argument, COMMUNICATE);
}

static void make_room(struct run *run) {
    run->room = 2 * run->room + 64;
    for (int p = 0; p < PARTS; p++) {
        run->parts[p] = realloc(run->parts[p], (size_t)run->room * sizeof *run->parts[p]);
        if (run->parts[p] == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static double iterate_parts(void *argument) {
    static const int what[PARTS] = {COMMUNICATE, COMPUTE, COMMUNICATE | COMPUTE};
    struct run *run = argument;
    if (run->nparts == run->room)
        make_room(run);
    for (int p = 0; p < PARTS; p++)
        run->parts[p][run->nparts] = perform(run, what[p]);
    return run->parts[BOTH][run->nparts++];
}

/* The last n iterations' longest times of all ranks, on rank 0. */
static double *longest(struct run *run, int part, int n) {
    double *times = run->parts[part] + run->nparts - n;
    MPI_Reduce(bench.rank == 0 ? MPI_IN_PLACE : times, times, n, MPI_DOUBLE, MPI_MAX, 0,
               MPI_COMM_WORLD);
    return times;
}

static void print_overlap(struct run *run, int n) {
    double *us[PARTS];
    for (int p = 0; p < PARTS; p++)
        us[p] = longest(run, p, n);
    for (int i = 0; i < n; i++)
        us[BOTH][i] -= us[COMPUTATION][i];
    for (int p = 0; p < PARTS; p++)
        bench_sort(us[p], n);
    double alone_us = bench_median(us[ALONE], n), exposed_us = bench_median(us[BOTH], n);
    double hidden = 100.0 * (1.0 - exposed_us / (alone_us > 0 ? alone_us : 1));
    bench_cell(alone_us);
    bench_cell(bench_median(us[COMPUTATION], n));
    bench_cell(hidden < 0 ? 0 : hidden > 100 ? 100 : hidden);
    for (int p = 0; p < PARTS; p++)
        free(run->parts[p]);
}

static void print_row(struct run *run) {
    int n;
    double *us = bench_iterate(overlap_us > 0 ? iterate_parts : iterate, run, seconds, 0,
                               max_iterations, &n);
    double median_us = bench_median(us, n);
    bench_cell((double)run->bytes);
    bench_cell(median_us);
    bench_cell(bench_p90(us, n));
    bench_cell(us[0]);
    if (overlap_us > 0)
        print_overlap(run, n);
    else
        bench_cell((double)run->bytes / (median_us > 0 ? median_us : 1) * 1e-3);
    bench_cell(n);
    free(us);
}

static void allocate(struct run *run) {
    MPI_Aint bytes = (MPI_Aint)run->bytes + 1;
    int error = MPI_SUCCESS, unit;
    if (memory == MALLOC)
        error = posix_memalign(&run->buffer, 4096, (size_t)bytes);
    else if (memory == ALLOC_MEM)
        error = MPI_Alloc_mem(bytes, MPI_INFO_NULL, &run->buffer);
    else if (memory == WINDOW)
        error = MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &run->buffer, &run->win);
    else
        error = MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &run->buffer,
                                        &run->win);
    if (error != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (memory == BARE)
        MPI_Win_shared_query(run->win, (int)root, &bytes, &unit, (void *)&run->roots);
    memset(run->buffer, 0, run->bytes + 1);
}

static void release(struct run *run) {
    if (memory == MALLOC)
        free(run->buffer);
    else if (memory == ALLOC_MEM)
        MPI_Free_mem(run->buffer);
    else
        MPI_Win_free(&run->win);
}

static long run_size(long bytes) {
    struct run run = {.bytes = (size_t)bytes, .seed = (uint64_t)bytes};
    allocate(&run);
    if (memory != BARE)
        bcast_init(run.buffer, (int)bytes, MPI_BYTE, (int)root, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &run.request);
    print_row(&run);
    if (memory != BARE)
        MPI_Request_free(&run.request);
    release(&run);
    return run.errors;
}

static long run_all(const long sizes[], int nsizes) {
    static const struct bench_column plain[] = {
        {"bytes", BENCH_KEY, 0},   {"median_us", BENCH_LOWER, 2}, {"p90_us", BENCH_INFO, 2},
        {"min_us", BENCH_INFO, 2}, {"gb_per_s", BENCH_INFO, 2},   {"iterations", BENCH_INFO, 0},
    };
    static const struct bench_column overlapped[] = {
        {"bytes", BENCH_KEY, 0},       {"median_us", BENCH_LOWER, 2}, {"p90_us", BENCH_INFO, 2},
        {"min_us", BENCH_INFO, 2},     {"comm_us", BENCH_INFO, 2},    {"compute_us", BENCH_INFO, 2},
        {"hidden_pct", BENCH_INFO, 1}, {"iterations", BENCH_INFO, 0},
    };
    long errors = 0;
    if (overlap_us > 0)
        bench_table_begin(overlapped, sizeof overlapped / sizeof overlapped[0]);
    else
        bench_table_begin(plain, sizeof plain / sizeof plain[0]);
    for (int i = 0; i < nsizes; i++)
        errors += run_size(sizes[i]);
    return errors;
}

static void choose_memory(void) {
    while (memory < MEMORIES && strcmp(memory_name, memories[memory]) != 0)
        memory++;
    if (memory == MEMORIES)
        bench_usage_error("--memory '%s' is none of malloc, alloc_mem, window, bare", memory_name);
}

/* The extension is looked for in the running program: this binary must also run without it. */
static const char *choose_function(void) {
    if (!mpix)
        return "MPI_Bcast_init";
    void *found = dlsym(RTLD_DEFAULT, "MPIX_Bcast_init");
    if (found == NULL)
        return "MPI_Bcast_init (MPIX_Bcast_init is not there)";
    memcpy(&bcast_init, &found, sizeof found);
    return "MPIX_Bcast_init";
}

int main(int argc, char **argv) {
    const struct bench_option options[] = {
        {"sizes", BENCH_TEXT, &size_list, "bytes, with K, M, G"},
        {"seconds", BENCH_REAL, &seconds, "time for each size (at least 5 iterations)"},
        {"max-iterations", BENCH_LONG, &max_iterations, "no more than this for a size"},
        {"root", BENCH_LONG, &root, "the root's rank"},
        {"overlap", BENCH_REAL, &overlap_us, "microseconds of computing between start and wait"},
        {"memory", BENCH_TEXT, &memory_name,
         "of the buffers: malloc, alloc_mem, window; bare: a memcpy instead of the broadcast"},
        {"mpix", BENCH_FLAG, &mpix, "use MPIX_Bcast_init where it is there"},
    };
    long sizes[MAX_SIZES];
    char what[160];
    bench_start(&argc, &argv, MPI_THREAD_SINGLE,
                "How long does a persistent broadcast take, by size?", options,
                sizeof options / sizeof options[0]);
    int nsizes = bench_parse_sizes(size_list, sizes, MAX_SIZES);
    for (int i = 0; i < nsizes; i++)
        if (sizes[i] > INT_MAX)
            nsizes = -1;
    if (nsizes < 1)
        bench_usage_error("--sizes '%s' is not a list of at most %d sizes below 2G", size_list,
                          MAX_SIZES);
    if (root < 0 || root >= bench.nranks || seconds <= 0 || overlap_us < 0 ||
        max_iterations < BENCH_LEAST_ITERATIONS)
        bench_usage_error("--root 0..%d, --seconds > 0, --overlap >= 0, --max-iterations >= %d",
                          bench.nranks - 1, BENCH_LEAST_ITERATIONS);
    choose_memory();
    const char *function = memory == BARE ? "memcpy out of mapped memory" : choose_function();
    if (overlap_us > 0)
        bench_calibrate();
    snprintf(what, sizeof what, "%s, root %ld, buffers %s; maximum over ranks%s", function, root,
             memory_name, overlap_us > 0 ? "; computing between start and wait" : "");
    bench_header(what);
    return bench_finish(run_all(sizes, nsizes));
}
