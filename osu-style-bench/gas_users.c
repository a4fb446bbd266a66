/* gas_users.c: what is gained where pages of a global array are moved to their users, by the
 * program (tug_array_own()) or by themselves (TUG_MOVES_AUTOMATIC), against gets and puts alone?
 *
 * Programs, by number:
 *   1  a sweep: each rank reads and writes all words of a block, one after the other, many times
 *   2  a hash table: each rank adds to words drawn at random, 19 of 20 in its block
 *   3  a graph walk: each rank goes from word to word, each of which names the next one, 49 of 50
 *      steps within its block
 * In every phase the blocks go round by one rank. `own` takes the block at the beginning of a
 * phase. Times are of the slowest rank. The ways alternate; the figures are medians.
 *
 * Invariants: with --validate the sums of all words are compared with what was added.
 * Threading: main threads only.
 */
#include "llcl_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tugboat/gas.h>

enum { MAX_SAMPLES = 101, WAYS = 3, PROGRAMS = 3 };
enum way { OWN, GET, AUTOMATIC };

static long nsamples = 5, nphases = 4, npages = 8, page_bytes = 4096, naccesses = 4000;

static tug_array *array;
static size_t block_words, nwords;

static uint64_t draw(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static void add(size_t word) {
    uint64_t value;
    llcl_must(tug_array_get(array, word * 8, &value, 8), "get");
    value++;
    llcl_must(tug_array_put(array, word * 8, &value, 8), "put");
}

/* ---- one phase of each program ---- */

static void sweep(size_t first) {
    for (long i = 0; i < naccesses; i++)
        add(first + (size_t)i % block_words);
}

static void hash(size_t first, uint64_t *seed) {
    for (long i = 0; i < naccesses; i++) {
        const bool near = draw(seed) % 20 != 0;
        const size_t word = near ? first + draw(seed) % block_words : draw(seed) % nwords;
        llcl_must(tug_array_fetch_and_op(array, word * 8, 8, TUG_ADD, 1, NULL), "fetch_and_op");
    }
}

static void walk(size_t first, uint64_t *seed) {
    size_t at = first;
    for (long i = 0; i < naccesses; i++) {
        uint64_t next;
        llcl_must(tug_array_get(array, at * 8, &next, 8), "get");
        at = draw(seed) % 50 != 0 ? first + (next + draw(seed) % 3) % block_words
                                  : draw(seed) % nwords;
    }
}

static void run_phase(int program, size_t first, uint64_t *seed) {
    if (program == 1)
        sweep(first);
    else if (program == 2)
        hash(first, seed);
    else
        walk(first, seed);
}

/* ---- one sample ---- */

static long check(int program) {
    uint64_t value, sum = 0;
    const uint64_t added = program == 3 ? 0 : (uint64_t)(bench.nranks * nphases * naccesses);
    if (!bench.validate)
        return 0;
    if (bench.rank == 0)
        for (size_t i = 0; i < nwords; i++) {
            llcl_must(tug_array_get(array, i * 8, &value, 8), "get");
            sum += program == 3 ? value - i * 7 : value;
        }
    bench_corrupt((unsigned char *)&sum);
    return bench.rank == 0 && sum != added;
}

/* Microseconds of the slowest rank. */
static double run_sample(int program, enum way way, long *errors) {
    const struct tug_array_params params = {.size_in_bytes = nwords * 8,
                                            .page_bytes = (size_t)page_bytes,
                                            .pages_most = (size_t)(npages * bench.nranks),
                                            .moves = way == AUTOMATIC ? TUG_MOVES_AUTOMATIC
                                                                      : TUG_MOVES_BY_CALL};
    uint64_t seed = (uint64_t)bench.rank + 1;
    llcl_must(tug_array_create(MPI_COMM_WORLD, &params, &array), "tug_array_create");
    if (program == 3) /* each its own block */
        for (uint64_t i = bench.rank * block_words, end = i + block_words; i < end; i++)
            llcl_must(tug_array_put(array, i * 8, &(uint64_t){i * 7}, 8), "put");
    bench_sync();
    const double begin_us = bench_now_us();
    for (long phase = 0; phase < nphases; phase++) {
        const size_t first = (size_t)((bench.rank + phase) % bench.nranks) * block_words;
        if (way == OWN)
            llcl_must(tug_array_own(array, first * 8, block_words * 8), "own");
        run_phase(program, first, &seed);
        bench_sync(); /* a block has one user in a sweep */
    }
    double mine = bench_now_us() - begin_us, most;
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    *errors += check(program);
    bench_sync();
    llcl_must(tug_array_free(&array), "tug_array_free");
    return most;
}

/* ---- rows ---- */

static long run_row(int program) {
    static double us[WAYS][MAX_SAMPLES], to_best[MAX_SAMPLES];
    long errors = 0;
    for (int i = 0; i < nsamples; i++) {
        for (int j = 0; j < WAYS; j++)
            us[(i + j) % WAYS][i] = run_sample(program, (enum way)((i + j) % WAYS), &errors);
        to_best[i] = us[AUTOMATIC][i] / (us[OWN][i] < us[GET][i] ? us[OWN][i] : us[GET][i]);
    }
    double *columns[] = {us[OWN], us[GET], us[AUTOMATIC], to_best};
    bench_cell((double)program);
    bench_cell_medians(columns, sizeof columns / sizeof columns[0], (int)nsamples);
    return errors;
}

int main(int argc, char **argv) {
    static const struct bench_column columns[] = {{"program", BENCH_KEY, 0},
                                                  {"own_us", BENCH_INFO, 0},
                                                  {"get_us", BENCH_INFO, 0},
                                                  {"automatic_us", BENCH_INFO, 0},
                                                  {"automatic/best", BENCH_INFO, 3}};
    const struct bench_option options[] = {
        {"samples", BENCH_LONG, &nsamples, "rounds of samples for each row"},
        {"phases", BENCH_LONG, &nphases, "times that the blocks go round by one"},
        {"pages", BENCH_LONG, &npages, "pages of a block"},
        {"page-bytes", BENCH_LONG, &page_bytes, "bytes of a page, a multiple of 8"},
        {"accesses", BENCH_LONG, &naccesses, "accesses of a rank in a phase"},
    };
    long errors = 0;
    bench_start(&argc, &argv, MPI_THREAD_MULTIPLE,
                "What is gained where pages are moved to their users?", options,
                sizeof options / sizeof options[0]);
    if (nsamples < 1 || nsamples > MAX_SAMPLES || nphases < 1 || npages < 1 || page_bytes < 64 ||
        page_bytes % 8 != 0 || naccesses < 1)
        bench_usage_error("--samples 1..%d, --page-bytes a multiple of 8, others > 0", MAX_SAMPLES);
    block_words = (size_t)(npages * page_bytes) / 8;
    nwords = block_words * (size_t)bench.nranks;
    bench_header("pages moved by own, not at all, by themselves: sweep, hash table, graph walk");
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    for (int program = 1; program <= PROGRAMS; program++)
        errors += run_row(program);
    return bench_finish(errors);
}
