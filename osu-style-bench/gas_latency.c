/* gas_latency.c: how long does one get of a global array take, by size: where the page's place is
 * remembered, and where it has to be found first? What does a plain read of the low-level
 * layer take?
 *
 * One thread of rank 0 gets from pages of rank 1, again and again. It remembers the place of one
 * page of others: gets of the same page find it, gets of the next one each time do not. Copies are
 * those of the read cache. With --window so many gets are under way together, of as many pages, and
 * a time is for each. Samples of the four alternate; the ratios are medians over the rounds.
 * The array, and the context of the plain reads, are open for their own samples only: an engine
 * that watches over two has less time for each.
 *
 * Invariants: what a sample has got last is compared with the pattern when validating.
 * Threading: main threads only.
 */
#include "llcl_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tugboat/gas.h>

enum { MAX_SIZES = 16, MAX_SAMPLES = 1000, PAGES_LEAST = 64, WAYS = 4, MAX_WINDOW = 64 };
enum way { PLAIN, REMEMBERED, ASKED, COPY };

static const char *size_list = "8,64,512,4K";
static long nsamples = 31, window = 1;
static double seconds = 0.002;

static size_t page_bytes, npages; /* half of them rank 1's */
static tug_array *array;          /* one side */
static tug_context *context;      /* the other */
static tug_registration *memory, *local;
static struct tug_key key;
static unsigned char *buffer;
static uint64_t turn; /* of the pages that are asked for */

/* ---- one sample ---- */

/* Pages of rank 1 whose home is rank 1. */
static size_t index_of(uint64_t i) {
    return (npages / 2 + 1 + 2 * (i % (npages / 4))) * page_bytes;
}

static void get_together(enum way way, size_t bytes) {
    struct tug_counter counter = {0};
    const struct tug_callback count = {tug_counter_add, &counter};
    for (long k = 0; k < window; k++) {
        unsigned char *to = buffer + (size_t)k * page_bytes;
        const size_t from = index_of(way == ASKED ? ++turn : (uint64_t)k);
        const struct tug_read_params read = {.src_proc = 1,
                                             .src_raddr = {&key, from},
                                             .dest_laddr = {local, (size_t)k * page_bytes},
                                             .size_in_bytes = bytes,
                                             .on_complete = count};
        if (way == COPY)
            llcl_must(tug_array_get_copy(array, from, to, bytes), "get_copy");
        else if (way == PLAIN)
            while (!tug_try_read_async(context, &read))
                tug_progress(context);
        else
            while (!tug_try_array_get_async(array, from, to, bytes, count))
                tug_array_progress(array);
    }
    while (way != COPY && tug_counter_value(&counter) < (uint64_t)window)
        way == PLAIN ? tug_progress(context) : tug_array_progress(array);
    llcl_must(counter.status, "get");
}

static void get_once(enum way way, size_t bytes) {
    struct tug_counter counter = {0};
    if (window > 1) {
        get_together(way, bytes);
        return;
    }
    const struct tug_read_params read = {.src_proc = 1,
                                         .src_raddr = {&key, index_of(0)},
                                         .dest_laddr = {local, 0},
                                         .size_in_bytes = bytes,
                                         .on_complete = {tug_counter_add, &counter}};
    switch (way) {
    case PLAIN:
        while (!tug_try_read_async(context, &read))
            tug_progress(context);
        llcl_must(tug_counter_wait(context, &counter, 1), "read");
        break;
    case COPY:
        llcl_must(tug_array_get_copy(array, index_of(0), buffer, bytes), "get_copy");
        break;
    default:
        llcl_must(tug_array_get(array, index_of(way == ASKED ? ++turn : 0), buffer, bytes), "get");
    }
}

/* Returns nanoseconds for one, at rank 0. */
static double time_sample(enum way way, size_t bytes, uint64_t n) {
    get_once(way, bytes); /* warm */
    double begin_us = bench_now_us();
    for (uint64_t i = 0; i < n; i++)
        get_once(way, bytes);
    return (bench_now_us() - begin_us) * 1e3 / (double)n / (double)window;
}

static long check(enum way way, size_t bytes) {
    static const char *const names[WAYS] = {"read", "get", "get after asking", "copy"};
    if (!bench.validate)
        return 0;
    const uint64_t last = (uint64_t)window - 1;
    unsigned char *came = buffer + last * page_bytes;
    bench_corrupt(came);
    return bench_pattern_check(came, bytes, index_of(way == ASKED ? turn : last), names[way]);
}

/* ---- the two sides ---- */

static const uint64_t yes = 1;

static size_t end_index(void) { /* where rank 0 says that it is done */
    return npages / 2 * page_bytes;
}

static void open_array(void) {
    const struct tug_array_params params = {.size_in_bytes = npages * page_bytes,
                                            .page_bytes = page_bytes,
                                            .pages_most = npages / 2,
                                            .places = (size_t)window,
                                            .copies_most = 4 * (size_t)window};
    llcl_must(tug_array_create(MPI_COMM_WORLD, &params, &array), "tug_array_create");
    for (uint64_t i = 0; bench.rank == 1 && i < npages / 4; i++) {
        bench_pattern_fill(buffer, page_bytes, index_of(i));
        llcl_must(tug_array_put(array, index_of(i), buffer, page_bytes), "put");
    }
}

static void open_plain(void) {
    llcl_must(tug_context_create(MPI_COMM_WORLD, &context), "tug_context_create");
    llcl_must(tug_mem_allocate(context, npages * page_bytes, &memory), "tug_mem_allocate");
    llcl_must(tug_mem_register(context, buffer, (size_t)window * page_bytes, &local),
              "tug_mem_register");
    tug_mem_key(memory, &key);
    MPI_Bcast(&key, sizeof key, MPI_BYTE, 1, MPI_COMM_WORLD);
    for (uint64_t i = 0; i < (uint64_t)window; i++)
        bench_pattern_fill((unsigned char *)tug_mem_address(memory) + index_of(i), page_bytes,
                           index_of(i));
}

/* Rank 1 looks after its engine until rank 0 is done. */
static void serve(enum way way) {
    uint64_t done = 0;
    while (done == 0) {
        if (way == PLAIN) {
            tug_progress(context);
            done = *(_Atomic uint64_t *)((char *)tug_mem_address(memory) + end_index());
        } else {
            tug_array_progress(array);
            llcl_must(tug_array_get(array, end_index(), &done, 8), "get");
        }
    }
}

static void release(enum way way) {
    struct tug_counter counter = {0};
    if (way != PLAIN) {
        llcl_must(tug_array_put(array, end_index(), &yes, 8), "put");
        return;
    }
    memcpy(buffer, &yes, 8);
    const struct tug_write_params write = {.dest_proc = 1,
                                           .dest_raddr = {&key, end_index()},
                                           .src_laddr = {local, 0},
                                           .size_in_bytes = 8,
                                           .on_complete = {tug_counter_add, &counter}};
    while (!tug_try_write_async(context, &write))
        tug_progress(context);
    llcl_must(tug_counter_wait(context, &counter, 1), "write");
}

static double run_sample(enum way way, size_t bytes, uint64_t n, long *errors) {
    double ns = 0;
    if (way == PLAIN)
        open_plain();
    else
        open_array();
    bench_sync();
    if (bench.rank == 0) {
        ns = time_sample(way, bytes, n);
        *errors += check(way, bytes);
        release(way);
    } else {
        serve(way);
    }
    bench_sync();
    if (way == PLAIN)
        llcl_must(tug_context_free(&context), "tug_context_free");
    else
        llcl_must(tug_array_free(&array), "tug_array_free");
    return ns;
}

/* How many make a sample; rank 0 decides. */
static uint64_t choose(enum way way, size_t bytes, long *errors) {
    for (uint64_t next[2] = {16, 0};;) {
        double us =
            run_sample(way, bytes, next[0], errors) * 1e-3 * (double)(next[0] * (uint64_t)window);
        next[1] = us > seconds * 1e5;
        next[0] = next[1] ? 16 + (uint64_t)(seconds * 1e6 / us * (double)next[0]) : 8 * next[0];
        MPI_Bcast(next, 2, MPI_UINT64_T, 0, MPI_COMM_WORLD);
        if (next[1])
            return next[0];
    }
}

/* ---- rows ---- */

static long run_row(size_t bytes) {
    static double ns[WAYS][MAX_SAMPLES], to_plain[MAX_SAMPLES], to_asked[MAX_SAMPLES];
    uint64_t n[WAYS];
    long errors = 0;
    for (int way = 0; way < WAYS; way++)
        n[way] = choose((enum way)way, bytes, &errors);
    for (int i = 0; i < nsamples; i++) {
        for (int j = 0; j < WAYS; j++) {
            int way = (i + j) % WAYS;
            ns[way][i] = run_sample((enum way)way, bytes, n[way], &errors);
        }
        to_plain[i] = ns[REMEMBERED][i] / ns[PLAIN][i];
        to_asked[i] = ns[ASKED][i] / ns[REMEMBERED][i];
    }
    double *columns[] = {ns[PLAIN], ns[REMEMBERED], ns[ASKED], ns[COPY], to_plain, to_asked};
    bench_cell((double)bytes);
    bench_cell_medians(columns, sizeof columns / sizeof columns[0], (int)nsamples);
    return errors;
}

/* ---- the whole ---- */

int main(int argc, char **argv) {
    static const struct bench_column columns[] = {
        {"bytes", BENCH_KEY, 0},      {"plain_ns", BENCH_INFO, 1}, {"get_ns", BENCH_LOWER, 1},
        {"asking_ns", BENCH_INFO, 1}, {"copy_ns", BENCH_INFO, 1},  {"get/plain", BENCH_INFO, 3},
        {"asking/get", BENCH_INFO, 1}};
    const struct bench_option options[] = {
        {"sizes", BENCH_TEXT, &size_list, "bytes of a get"},
        {"samples", BENCH_LONG, &nsamples, "rounds of samples for each row"},
        {"window", BENCH_LONG, &window, "gets under way together"},
        {"seconds", BENCH_REAL, &seconds, "time for a sample"},
    };
    long sizes[MAX_SIZES], errors = 0;
    bench_start(&argc, &argv, MPI_THREAD_MULTIPLE, "How long does a get of a global array take?",
                options, sizeof options / sizeof options[0]);
    int nsizes = bench_parse_sizes(size_list, sizes, MAX_SIZES);
    if (bench.nranks != 2 || nsizes < 1 || nsamples < 1 || nsamples > MAX_SAMPLES || window < 1 ||
        window > MAX_WINDOW || seconds <= 0)
        bench_usage_error("2 ranks; --sizes a list, --samples 1..%d, --window 1..%d, --seconds > 0",
                          MAX_SAMPLES, MAX_WINDOW);
    npages = window * 8 > PAGES_LEAST ? (size_t)window * 8 : PAGES_LEAST;
    page_bytes = 4096;
    for (int i = 0; i < nsizes; i++)
        while ((long)page_bytes < sizes[i])
            page_bytes *= 2;
    buffer = malloc((size_t)window * page_bytes);
    bench_header("get of a global array: remembered, asked for, copied; and a plain read");
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < nsizes; i++)
        errors += run_row((size_t)sizes[i]);
    free(buffer);
    return bench_finish(errors);
}
