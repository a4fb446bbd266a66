/* coll_init_sizes.c: how long do the other persistent collectives take, by kind and size?
 *
 * For each kind and size: init once, then start and wait repeatedly. An iteration's time is the
 * longest of all ranks' times from before start to after wait; the table shows the median. The size
 * is that of one block: what a rank contributes to allgather, sends to each rank in alltoall and to
 * each neighbour, gets from reduce_scatter_block, and the whole vector of a reduction. Neighbours
 * are those on a ring of all ranks. Sums of doubles, which are whole numbers here, so that
 * --validate may compare exactly; it looks at the last iteration's.
 * MPICH 4.0.2 fails it: gathers, scatters and, where the number of ranks is a power of two,
 * allgathers of less than some 256 KiB in all bring what the first start has sent, whatever the
 * buffers hold by then.
 *
 * Invariants: the data differ in every iteration; iterations are separated by
 * bench_sync_together(), outside of the clock readings; all ranks run the same number of them,
 * chosen to fill a time budget. Threading: main thread only.
 */
#include "bench.h"
#include "persistent.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIZES = 32, MOST_RANKS = 1024, SIDES = 2 };

static const char *size_list = "8,4K,64K,1M";
static const char *kind_list = "barrier,reduce,allreduce,allgather,alltoall,reduce_scatter_block";
static double seconds = 0.3;
static long max_iterations = 2000, warm, first;
static bool blocking;
static MPI_Comm ring;

struct run {
    size_t words; /* of a block */
    size_t in_words;
    double *in, *out;
    void (*call)(struct run *run);
    double step; /* iterations so far: added to every word that goes in */
    int counts[MOST_RANKS], places[MOST_RANKS]; /* of the blocks, in words */
    int byte_places[MOST_RANKS];
    MPI_Aint side_places[SIDES]; /* in bytes */
    MPI_Datatype types[MOST_RANKS];
    MPI_Request request;
};

#define W (int)run->words, MPI_DOUBLE
#define END MPI_COMM_WORLD, MPI_INFO_NULL, &run->request
#define RING_END ring, MPI_INFO_NULL, &run->request

/* A broadcast goes out of rank 0's `in` into the others' `out`. */
static double *bcast_buffer(struct run *run) {
    return bench.rank == 0 ? run->in : run->out;
}

static void barrier_init(struct run *run) {
    MPI_Barrier_init(END);
}
static void bcast_init(struct run *run) {
    MPI_Bcast_init(bcast_buffer(run), W, 0, END);
}
static void gather_init(struct run *run) {
    MPI_Gather_init(run->in, W, run->out, W, 0, END);
}
static void scatter_init(struct run *run) {
    MPI_Scatter_init(run->in, W, run->out, W, 0, END);
}
static void scan_init(struct run *run) {
    MPI_Scan_init(run->in, run->out, W, MPI_SUM, END);
}
static void exscan_init(struct run *run) {
    MPI_Exscan_init(run->in, run->out, W, MPI_SUM, END);
}
static void reduce_init(struct run *run) {
    MPI_Reduce_init(run->in, run->out, W, MPI_SUM, 0, END);
}
static void allreduce_init(struct run *run) {
    MPI_Allreduce_init(run->in, run->out, W, MPI_SUM, END);
}
static void allgather_init(struct run *run) {
    MPI_Allgather_init(run->in, W, run->out, W, END);
}
static void gatherv_init(struct run *run) {
    MPI_Gatherv_init(run->in, W, run->out, run->counts, run->places, MPI_DOUBLE, 0, END);
}
static void scatterv_init(struct run *run) {
    MPI_Scatterv_init(run->in, run->counts, run->places, MPI_DOUBLE, run->out, W, 0, END);
}
static void allgatherv_init(struct run *run) {
    MPI_Allgatherv_init(run->in, W, run->out, run->counts, run->places, MPI_DOUBLE, END);
}
static void alltoallv_init(struct run *run) {
    MPI_Alltoallv_init(run->in, run->counts, run->places, MPI_DOUBLE, run->out, run->counts,
                       run->places, MPI_DOUBLE, END);
}
static void alltoallw_init(struct run *run) {
    MPI_Alltoallw_init(run->in, run->counts, run->byte_places, run->types, run->out, run->counts,
                       run->byte_places, run->types, END);
}
static void neighbor_allgather_init(struct run *run) {
    MPI_Neighbor_allgather_init(run->in, W, run->out, W, RING_END);
}
static void neighbor_allgatherv_init(struct run *run) {
    MPI_Neighbor_allgatherv_init(run->in, W, run->out, run->counts, run->places, MPI_DOUBLE,
                                 RING_END);
}
static void neighbor_alltoall_init(struct run *run) {
    MPI_Neighbor_alltoall_init(run->in, W, run->out, W, RING_END);
}
static void neighbor_alltoallv_init(struct run *run) {
    MPI_Neighbor_alltoallv_init(run->in, run->counts, run->places, MPI_DOUBLE, run->out,
                                run->counts, run->places, MPI_DOUBLE, RING_END);
}
static void neighbor_alltoallw_init(struct run *run) {
    MPI_Neighbor_alltoallw_init(run->in, run->counts, run->side_places, run->types, run->out,
                                run->counts, run->side_places, run->types, RING_END);
}
static void reduce_scatter_init(struct run *run) {
    MPI_Reduce_scatter_init(run->in, run->out, run->counts, MPI_DOUBLE, MPI_SUM, END);
}
static void alltoall_init(struct run *run) {
    MPI_Alltoall_init(run->in, W, run->out, W, END);
}
static void reduce_scatter_block_init(struct run *run) {
    MPI_Reduce_scatter_block_init(run->in, run->out, W, MPI_SUM, END);
}

/* The same without a request. */
#define WORLD MPI_COMM_WORLD
static void barrier_call(struct run *run) {
    (void)run;
    MPI_Barrier(WORLD);
}
static void bcast_call(struct run *run) {
    MPI_Bcast(bcast_buffer(run), W, 0, WORLD);
}
static void reduce_call(struct run *run) {
    MPI_Reduce(run->in, run->out, W, MPI_SUM, 0, WORLD);
}
static void allreduce_call(struct run *run) {
    MPI_Allreduce(run->in, run->out, W, MPI_SUM, WORLD);
}
static void allgather_call(struct run *run) {
    MPI_Allgather(run->in, W, run->out, W, WORLD);
}
static void alltoall_call(struct run *run) {
    MPI_Alltoall(run->in, W, run->out, W, WORLD);
}
static void reduce_scatter_block_call(struct run *run) {
    MPI_Reduce_scatter_block(run->in, run->out, W, MPI_SUM, WORLD);
}

static double word_of(const struct run *run, size_t rank, size_t i) {
    return (double)rank + (double)i + run->step;
}

/* What must come out. */
static double reduced_at(const struct run *run, size_t i) {
    return (double)bench.nranks * ((double)(bench.nranks - 1) / 2 + word_of(run, 0, i));
}
static double gathered_at(const struct run *run, size_t i) {
    return word_of(run, i / run->words, i % run->words);
}
static double exchanged_at(const struct run *run, size_t i) {
    return word_of(run, i / run->words, (size_t)bench.rank * run->words + i % run->words);
}
static double scattered_at(const struct run *run, size_t i) {
    return reduced_at(run, (size_t)bench.rank * run->words + i);
}

static double broadcast_at(const struct run *run, size_t i) {
    return word_of(run, 0, i);
}
static double given_at(const struct run *run, size_t i) {
    return word_of(run, 0, (size_t)bench.rank * run->words + i);
}
/* The sum over so many ranks from the first on. */
static double sum_of(const struct run *run, int nranks, size_t i) {
    return (double)nranks * ((double)(nranks - 1) / 2 + word_of(run, 0, i));
}
static double scanned_at(const struct run *run, size_t i) {
    return sum_of(run, bench.rank + 1, i);
}
static double before_at(const struct run *run, size_t i) {
    return sum_of(run, bench.rank, i);
}

/* What is on the left comes first, and what the left sends to its right. */
static size_t side_of(const struct run *run, size_t i) {
    size_t nranks = (size_t)bench.nranks;
    return ((size_t)bench.rank + (i < run->words ? nranks - 1 : 1)) % nranks;
}
static double beside_at(const struct run *run, size_t i) {
    return word_of(run, side_of(run, i), i % run->words);
}
static double swapped_at(const struct run *run, size_t i) {
    return word_of(run, side_of(run, i), (i + run->words) % (SIDES * run->words));
}

/* Which ranks have something to check. */
enum who { ALL, ROOT, OTHERS };

/* How many blocks a buffer has: one, one for each rank, or one for each neighbour. */
enum blocks { ONE, RANKS, BESIDE };

static const struct kind {
    const char *name;
    void (*init)(struct run *run);
    double (*expected)(const struct run *run, size_t i);
    enum blocks in, out;
    enum who who;
    void (*call)(struct run *run); /* blocking, or NULL: not measured */
} kinds[] = {
    {"barrier", barrier_init, NULL, ONE, ONE, ALL, barrier_call},
    {"reduce", reduce_init, reduced_at, ONE, ONE, ROOT, reduce_call},
    {"allreduce", allreduce_init, reduced_at, ONE, ONE, ALL, allreduce_call},
    {"allgather", allgather_init, gathered_at, ONE, RANKS, ALL, allgather_call},
    {"alltoall", alltoall_init, exchanged_at, RANKS, RANKS, ALL, alltoall_call},
    {"reduce_scatter_block", reduce_scatter_block_init, scattered_at, RANKS, ONE, ALL,
     reduce_scatter_block_call},
    {"bcast", bcast_init, broadcast_at, ONE, ONE, OTHERS, bcast_call},
    {"gather", gather_init, gathered_at, ONE, RANKS, ROOT, NULL},
    {"scatter", scatter_init, given_at, RANKS, ONE, ALL, NULL},
    {"scan", scan_init, scanned_at, ONE, ONE, ALL, NULL},
    {"exscan", exscan_init, before_at, ONE, ONE, OTHERS, NULL},
    {"gatherv", gatherv_init, gathered_at, ONE, RANKS, ROOT, NULL},
    {"scatterv", scatterv_init, given_at, RANKS, ONE, ALL, NULL},
    {"allgatherv", allgatherv_init, gathered_at, ONE, RANKS, ALL, NULL},
    {"alltoallv", alltoallv_init, exchanged_at, RANKS, RANKS, ALL, NULL},
    {"reduce_scatter", reduce_scatter_init, scattered_at, RANKS, ONE, ALL, NULL},
    {"alltoallw", alltoallw_init, exchanged_at, RANKS, RANKS, ALL, NULL},
    {"neighbor_allgather", neighbor_allgather_init, beside_at, ONE, BESIDE, ALL, NULL},
    {"neighbor_allgatherv", neighbor_allgatherv_init, beside_at, ONE, BESIDE, ALL, NULL},
    {"neighbor_alltoall", neighbor_alltoall_init, swapped_at, BESIDE, BESIDE, ALL, NULL},
    {"neighbor_alltoallv", neighbor_alltoallv_init, swapped_at, BESIDE, BESIDE, ALL, NULL},
    {"neighbor_alltoallw", neighbor_alltoallw_init, swapped_at, BESIDE, BESIDE, ALL, NULL},
};
enum { NKINDS = sizeof kinds / sizeof kinds[0] };

static double iterate(void *argument) {
    struct run *run = argument;
    run->step++;
    for (size_t i = 0; i < run->in_words; i++)
        run->in[i] = word_of(run, (size_t)bench.rank, i);
    bench_sync_together();
    double begin_us = bench_now_us();
    if (blocking) {
        run->call(run);
    } else {
        MPI_Start(&run->request);
        MPI_Wait(&run->request, MPI_STATUS_IGNORE);
    }
    return bench_now_us() - begin_us;
}

static long check(const struct kind *kind, const struct run *run, size_t out_words) {
    long errors = 0;
    if (kind->expected == NULL || (kind->who == ROOT && bench.rank != 0) ||
        (kind->who == OTHERS && bench.rank == 0))
        return 0;
    bench_corrupt(run->out);
    for (size_t i = 0; i < out_words; i++)
        errors += run->out[i] != kind->expected(run, i);
    if (errors > 0 && bench.validate)
        fprintf(stderr, "rank %d, %s of %zu bytes: %ld words are wrong\n", bench.rank, kind->name,
                run->words * sizeof(double), errors);
    return errors;
}

static size_t nblocks(enum blocks blocks) {
    return blocks == ONE ? 1 : blocks == RANKS ? (size_t)bench.nranks : SIDES;
}

static void place_blocks(struct run *run) {
    for (int i = 0; i < bench.nranks || i < SIDES; i++) {
        run->counts[i] = (int)run->words;
        run->places[i] = i * (int)run->words;
        run->byte_places[i] = run->places[i] * (int)sizeof(double);
        run->types[i] = MPI_DOUBLE;
    }
    for (int i = 0; i < SIDES; i++)
        run->side_places[i] = run->byte_places[i];
}

/* A row of the table. Frees the samples. */
static void show(const struct kind *kind, long bytes, const char *starts, double *slowest, int n) {
    bench_cell_text(kind->name);
    bench_cell((double)bytes);
    if (first > 0)
        bench_cell_text(starts);
    bench_cell(bench_median(slowest, n));
    bench_cell(bench_p90(slowest, n));
    bench_cell(n);
    free(slowest);
}

/* Closes the row. */
static long show_errors(long errors) {
    long all = 0;
    MPI_Reduce(&errors, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    bench_cell((double)all);
    return errors;
}

static long run_one(const struct kind *kind, long bytes) {
    struct run run = {.words = (size_t)bytes / sizeof(double), .call = kind->call};
    run.in_words = run.words * nblocks(kind->in);
    size_t out_words = run.words * nblocks(kind->out);
    run.in = malloc((run.in_words + 1) * sizeof(double));
    run.out = calloc(out_words + 1, sizeof(double));
    if (run.in == NULL || run.out == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    place_blocks(&run);
    if (!blocking)
        kind->init(&run);
    int n;
    long errors = 0;
    if (first > 0) {
        show(kind, bytes, "first", bench_repeat(iterate, &run, (int)first), (int)first);
        errors += show_errors(check(kind, &run, out_words));
    }
    double *slowest = bench_iterate(iterate, &run, seconds, warm, max_iterations, &n);
    show(kind, bytes, "later", slowest, n);
    errors += show_errors(check(kind, &run, out_words));
    if (!blocking)
        MPI_Request_free(&run.request);
    free(run.in);
    free(run.out);
    return errors;
}

static bool is_named(const struct kind *kind) {
    const char *name = kind->name;
    if (blocking && kind->call == NULL)
        return false;
    size_t length = strlen(name);
    for (const char *at = kind_list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

static int count_named(void) {
    int n = 0;
    for (int k = 0; k < NKINDS; k++)
        n += is_named(&kinds[k]);
    return n;
}

int main(int argc, char **argv) {
    const struct bench_option options[] = {
        {"sizes", BENCH_TEXT, &size_list, "bytes of a block, multiples of 8, with K, M"},
        {"kinds", BENCH_TEXT, &kind_list,
         "some of these, or of bcast, gather(v), scatter(v), allgatherv, alltoallv, alltoallw, "
         "reduce_scatter, scan, exscan, neighbor_allgather(v), neighbor_alltoall(v, w)"},
        {"blocking", BENCH_FLAG, &blocking, "the kinds of the default list as blocking calls"},
        {"warm", BENCH_LONG, &warm, "so many starts before, if they fit --seconds"},
        {"first", BENCH_LONG, &first, "so many first starts in a row of their own"},
        {"seconds", BENCH_REAL, &seconds, "time for each kind and size (at least 5 iterations)"},
        {"max-iterations", BENCH_LONG, &max_iterations, "no more than this for a kind and size"},
    };
    struct bench_column columns[] = {
        {"kind", BENCH_KEY, 0},    {"bytes", BENCH_KEY, 0},       {"median_us", BENCH_LOWER, 3},
        {"p90_us", BENCH_INFO, 2}, {"iterations", BENCH_INFO, 0}, {"wrong", BENCH_WRONG, 0},
        {"", BENCH_INFO, 0},
    };
    enum { NCOLUMNS = sizeof columns / sizeof columns[0] - 1, STARTS = 2 };
    long sizes[MAX_SIZES];
    bench_start(&argc, &argv, MPI_THREAD_SINGLE,
                "How long do persistent collectives take, by kind and size?", options,
                sizeof options / sizeof options[0]);
    int nsizes = bench_parse_sizes(size_list, sizes, MAX_SIZES);
    for (int i = 0; i < nsizes; i++)
        if (sizes[i] > INT_MAX / (bench.nranks > SIDES ? bench.nranks : SIDES) ||
            sizes[i] % (long)sizeof(double) != 0)
            nsizes = -1;
    if (nsizes < 1 || count_named() == 0)
        bench_usage_error(
            "--sizes '%s': multiples of 8, less than 2G for all ranks; --kinds '%s': of the list",
            size_list, kind_list);
    if (bench.nranks > MOST_RANKS)
        bench_usage_error("%d ranks at most", MOST_RANKS);
    if (seconds <= 0 || warm < 0 || first < 0 || first > INT_MAX ||
        max_iterations < BENCH_LEAST_ITERATIONS)
        bench_usage_error("--seconds > 0, --max-iterations >= %d", BENCH_LEAST_ITERATIONS);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &bench.nranks, &(int){1}, 0, &ring);
    bench_header("persistent collectives; maximum over ranks");
    if (first > 0) {
        memmove(&columns[STARTS + 1], &columns[STARTS], (NCOLUMNS - STARTS) * sizeof columns[0]);
        columns[STARTS] = (struct bench_column){"starts", BENCH_KEY, 0};
    }
    bench_table_begin(columns, NCOLUMNS + (first > 0));
    long errors = 0;
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; is_named(&kinds[k]) && i < (kinds[k].expected == NULL ? 1 : nsizes); i++)
            errors += run_one(&kinds[k], kinds[k].expected == NULL ? 0 : sizes[i]);
    MPI_Comm_free(&ring);
    return bench_finish(bench.validate ? errors : 0);
}
