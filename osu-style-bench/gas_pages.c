/* gas_pages.c: how long does a get of a whole page of a global array take, by page size, where the
 * page's place is remembered and where it is found anew each time? How long does it take to own
 * the page?
 *
 * Rank 0 reads. The home of all pages is rank 1. Their owner is, by case:
 *   distinct      rank 2, so that reader, home and owner are three processes
 *   owner=home    rank 1
 *   owner=reader  rank 0, which never forgets its own pages
 * Both ways read eight pages in turn; only the number of places that are remembered differs: 64
 * or 1. Memory for own pages that is not used remembers places too, so a process can own two more
 * than it owns at first. After each own the page goes back to its owner, which is not timed. The
 * ways alternate; the figures are medians over the rounds.
 *
 * Invariants: with --validate a page that came by get, and one that was owned, have their pattern.
 * Threading: main threads only.
 */
#include "llcl_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tugboat/gas.h>

enum { MAX_SIZES = 16, MAX_SAMPLES = 101, SHARE = 8, CASES = 3, BATCH = 32 };
enum way { REMEMBERED, ASKED, WAYS };
enum { READER, HOME, OTHER };

static const struct {
    const char *name;
    int owner;
} cases[CASES] = {{"distinct", OTHER}, {"owner=home", HOME}, {"owner=reader", READER}};

static const char *size_list = "64,512,4K,32K,256K";
static long nsamples = 7, nowns = 20;
static double seconds = 0.005;

static size_t page_bytes;
static tug_array *array;
static unsigned char *buffer;

static int home_of(size_t page, int nranks, void *home_context) {
    (void)page, (void)nranks, (void)home_context;
    return HOME;
}

/* By TUG_PLACE_BLOCK the owner has a share of consecutive pages. */
static size_t page_of(int owner, uint64_t turn) {
    return (size_t)owner * SHARE + turn % SHARE;
}

static size_t index_of(int owner, uint64_t turn) {
    return page_of(owner, turn) * page_bytes;
}

/* The others leave their cores to the reader and to the library's threads. */
static void wait_asleep(void) {
    const struct timespec pause = {0, 200000};
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done)
        nanosleep(&pause, NULL);
}

/* ---- one sample ---- */

struct times {
    double get_ns, own_us;
};

static void fill_pages(int owner) {
    for (uint64_t i = 0; i < SHARE; i++) {
        bench_pattern_fill(buffer, page_bytes, index_of(owner, i));
        llcl_must(tug_array_put(array, index_of(owner, i), buffer, page_bytes), "put");
    }
}

static long check(size_t index, const char *what) {
    if (!bench.validate)
        return 0;
    bench_corrupt(buffer);
    return bench_pattern_check(buffer, page_bytes, index, what);
}

static double time_gets(int owner, long *errors) {
    uint64_t n = 0;
    double us = 0;
    for (uint64_t i = 0; i < SHARE; i++) /* warm */
        llcl_must(tug_array_get(array, index_of(owner, i), buffer, page_bytes), "get");
    const double begin_us = bench_now_us();
    while (us < seconds * 1e6) {
        for (int i = 0; i < BATCH; i++)
            llcl_must(tug_array_get(array, index_of(owner, n++), buffer, page_bytes), "get");
        us = bench_now_us() - begin_us;
    }
    *errors += check(index_of(owner, n - 1), "get");
    return us * 1e3 / (double)n;
}

/* The median. The page is the reader's at the end. */
static double time_owns(int owner, long *errors) {
    const size_t index = index_of(owner, 0);
    double us[MAX_SAMPLES];
    for (long i = 0; i < nowns; i++) {
        llcl_must(tug_array_move(array, page_of(owner, 0), owner), "move");
        const double begin_us = bench_now_us();
        llcl_must(tug_array_own(array, index, page_bytes), "own");
        us[i] = bench_now_us() - begin_us;
    }
    llcl_must(tug_array_get(array, index, buffer, page_bytes), "get");
    *errors += check(index, "own");
    bench_sort(us, (int)nowns);
    return bench_median(us, (int)nowns);
}

static struct times run_sample(int owner, enum way way, long *errors) {
    const struct tug_array_params params = {.size_in_bytes =
                                                SHARE * (size_t)bench.nranks * page_bytes,
                                            .page_bytes = page_bytes,
                                            .pages_most = SHARE + 2,
                                            .places = way == REMEMBERED ? 64 : 1,
                                            .home = home_of,
                                            .moves = TUG_MOVES_BY_CALL};
    struct times times = {0};
    llcl_must(tug_array_create(MPI_COMM_WORLD, &params, &array), "tug_array_create");
    if (bench.rank == READER) {
        fill_pages(owner);
        times.get_ns = time_gets(owner, errors);
        if (way == REMEMBERED)
            times.own_us = time_owns(owner, errors);
    }
    wait_asleep();
    llcl_must(tug_array_free(&array), "tug_array_free");
    return times;
}

/* ---- rows ---- */

static long run_row(int which) {
    static double get_ns[MAX_SAMPLES], asking_ns[MAX_SAMPLES], own_us[MAX_SAMPLES],
        ratio[MAX_SAMPLES];
    const int owner = cases[which].owner;
    long errors = 0;
    for (int i = 0; i < nsamples; i++) {
        struct times times[WAYS];
        for (int j = 0; j < WAYS; j++)
            times[(i + j) % WAYS] = run_sample(owner, (enum way)((i + j) % WAYS), &errors);
        get_ns[i] = times[REMEMBERED].get_ns;
        asking_ns[i] = times[ASKED].get_ns;
        own_us[i] = times[REMEMBERED].own_us;
        ratio[i] = asking_ns[i] / get_ns[i];
    }
    double *columns[] = {get_ns, asking_ns, ratio, own_us};
    bench_cell_text(cases[which].name);
    bench_cell((double)page_bytes);
    bench_cell_medians(columns, sizeof columns / sizeof columns[0], (int)nsamples);
    return errors;
}

int main(int argc, char **argv) {
    static const struct bench_column columns[] = {
        {"case", BENCH_KEY, -1},      {"bytes", BENCH_KEY, 0},       {"get_ns", BENCH_LOWER, 1},
        {"asking_ns", BENCH_INFO, 1}, {"asking/get", BENCH_INFO, 2}, {"own_us", BENCH_INFO, 2}};
    const struct bench_option options[] = {
        {"sizes", BENCH_TEXT, &size_list, "bytes of a page, multiples of 8 from 64 on"},
        {"samples", BENCH_LONG, &nsamples, "rounds of samples for each row"},
        {"owns", BENCH_LONG, &nowns, "calls of own in a sample"},
        {"seconds", BENCH_REAL, &seconds, "time for the gets of a sample"},
    };
    long sizes[MAX_SIZES], errors = 0;
    bench_start(&argc, &argv, MPI_THREAD_MULTIPLE,
                "What do get and own of a page take, by page size and its owner?", options,
                sizeof options / sizeof options[0]);
    int nsizes = bench_parse_sizes(size_list, sizes, MAX_SIZES);
    bool good = bench.nranks == 3 && nsizes >= 1 && nsamples >= 1 && nsamples <= MAX_SAMPLES &&
                nowns >= 1 && nowns <= MAX_SAMPLES && seconds > 0;
    for (int i = 0; good && i < nsizes; i++)
        good = sizes[i] >= 64 && sizes[i] % 8 == 0;
    if (!good)
        bench_usage_error(
            "3 ranks; --sizes a list, multiples of 8 from 64 on; --samples and --owns "
            "1..%d, --seconds > 0",
            MAX_SAMPLES);
    bench_header("get and own of a page of rank 2, 1, 0, whose home is rank 1, by rank 0");
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    for (int which = 0; which < CASES; which++)
        for (int i = 0; i < nsizes; i++) {
            page_bytes = (size_t)sizes[i];
            buffer = malloc(page_bytes);
            errors += run_row(which);
            free(buffer);
        }
    return bench_finish(errors);
}
