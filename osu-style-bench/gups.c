/* gups.c: how many updates a second of random words of a table that is spread over the ranks?
 *
 * RandomAccess in plain MPI-3 RMA: every rank draws a sequence of 64-bit numbers and combines each
 * with the word of the table whose index its low bits are, by MPI_Accumulate with MPI_BXOR, in one
 * long MPI_Win_lock_all epoch with a flush for every --batch updates. The table lies in a window of
 * MPI_Win_allocate or of MPI_Win_create. Updates of a rank's own part go through MPI as well.
 *
 * Invariants: the ranks' parts of the sequence of HPCC's RandomAccess do not overlap. A pass that
 * is done twice restores the table, so passes come in pairs, each of which is a sample; between the
 * two the exclusive or of the whole table is known, after them every word is. No update may be
 * lost. A sample ends when the last rank's last flush has returned; who is ready before waits
 * politely. Threading: main threads only.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SAMPLES = 1000, MAX_BATCH = 1 << 16 };
enum { MIN_TABLE_BITS = 4, MAX_TABLE_BITS = 34, WORD = 8 };

static const char *window_list = "allocate,create";
static long table_bits = 20;
static long batch = 1024;
static long nsamples = 6;
static double seconds = 0.05;

static MPI_Win window;
static uint64_t *table; /* this rank's part */
static uint64_t nwords; /* of the whole table, a power of two */
static int part_bits;   /* of a rank's part */
static uint64_t *drawn; /* origin data of the updates that are not flushed */

/* ---- the sequence ---- */

#define POLYNOMIAL UINT64_C(7)
#define PERIOD INT64_C(1317624576693539401)

static uint64_t next(uint64_t x) {
    return x << 1 ^ ((int64_t)x < 0 ? POLYNOMIAL : 0);
}

/* The n-th number of the sequence: squares the step that makes one from the other, as matrices over
 * bits. */
static uint64_t number_at(int64_t n) {
    uint64_t square[64], step = 1, x = 2;
    int bit = 62;
    n %= PERIOD;
    if (n == 0)
        return 1;
    for (int i = 0; i < 64; i++) {
        square[i] = step;
        step = next(next(step));
    }
    while (bit >= 0 && !(n >> bit & 1))
        bit--;
    while (bit > 0) {
        uint64_t sum = 0;
        for (int i = 0; i < 64; i++)
            if (x >> i & 1)
                sum ^= square[i];
        x = sum;
        bit--;
        if (n >> bit & 1)
            x = next(x);
    }
    return x;
}

/* ---- a pass ---- */

/* This rank's updates; returns the exclusive or of what they have combined. */
static uint64_t update(long nupdates) {
    const uint64_t low = nwords - 1, low_part = ((uint64_t)1 << part_bits) - 1;
    uint64_t x = number_at((int64_t)bench.rank * nupdates), sum = 0;
    for (long done = 0; done < nupdates; done += batch) {
        for (long i = 0; i < batch; i++) {
            x = next(x);
            sum ^= x;
            drawn[i] = x;
            MPI_Accumulate(&drawn[i], 1, MPI_UINT64_T, (int)((x & low) >> part_bits),
                           (MPI_Aint)(x & low_part), 1, MPI_UINT64_T, MPI_BXOR, window);
        }
        MPI_Win_flush_all(window);
    }
    return sum;
}

/* All ranks' updates; returns the slowest rank's microseconds. */
static double run_pass(long nupdates, uint64_t *sum) {
    double us, slowest_us;
    bench_sync();
    us = bench_now_us();
    *sum = update(nupdates);
    us = bench_now_us() - us;
    bench_sync(); /* here others' updates are served, whoever they wait for */
    MPI_Allreduce(&us, &slowest_us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest_us;
}

/* ---- validation ---- */

static uint64_t part_words(void) {
    return (uint64_t)1 << part_bits;
}

static uint64_t first_content(uint64_t i) {
    return ((uint64_t)bench.rank << part_bits) + i;
}

/* After the first pass of a pair: all updates together are in the table. */
static long check_sum(uint64_t updated) {
    uint64_t mine = updated, all;
    MPI_Win_sync(window);
    bench_corrupt(table);
    for (uint64_t i = 0; i < part_words(); i++)
        mine ^= table[i] ^ first_content(i);
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
    if (all != 0 && bench.rank == 0)
        fprintf(stderr, "%s: updates are missing or came twice: the sum is off by %llx\n",
                bench.name, (unsigned long long)all);
    return all != 0 && bench.rank == 0;
}

/* After the second: the table is as it was. */
static long check_table(void) {
    long errors = 0;
    MPI_Win_sync(window);
    for (uint64_t i = 0; i < part_words(); i++)
        if (table[i] != first_content(i) && errors++ == 0)
            fprintf(stderr, "%s: rank %d: word %llu is %llx after all updates were made twice\n",
                    bench.name, bench.rank, (unsigned long long)i, (unsigned long long)table[i]);
    return errors;
}

/* Two passes, two samples. */
static long run_pair(long nupdates, double us[2]) {
    uint64_t sum;
    long errors = 0;
    for (int i = 0; i < 2; i++) {
        us[i] = run_pass(nupdates, &sum);
        if (bench.validate)
            errors += i == 0 ? check_sum(sum) : check_table();
    }
    bench_sync(); /* nobody updates what another still looks at */
    return errors;
}

/* ---- samples ---- */

static long round_to_batches(double nupdates) {
    long nbatches = (long)(nupdates / (double)batch);
    return (nbatches < 1 ? 1 : nbatches) * batch;
}

/* Grows until a pass is long enough to be judged by; the same on all ranks. */
static long choose_nupdates(long *errors) {
    double n = 256, us[2] = {0, 0};
    while (us[1] < seconds * 1e5) {
        n *= 4;
        *errors += run_pair(round_to_batches(n), us);
    }
    return round_to_batches((double)round_to_batches(n) * seconds * 1e6 / us[1]);
}

static struct bench_window open_table(const char *flavour) {
    struct bench_window opened = bench_window_open(flavour, (size_t)(part_words() * WORD), WORD);
    window = opened.win;
    table = opened.memory;
    MPI_Win_lock_all(0, window);
    for (uint64_t i = 0; i < part_words(); i++)
        table[i] = first_content(i);
    MPI_Win_sync(window);
    bench_sync();
    return opened;
}

static long run_window(const char *kind) {
    double us[MAX_SAMPLES + 1];
    long errors = 0;
    struct bench_window opened = open_table(kind);
    long nupdates = choose_nupdates(&errors);
    for (long i = 0; i < nsamples; i += 2)
        errors += run_pair(nupdates, &us[i]);
    MPI_Win_unlock_all(window);
    bench_window_close(&opened);
    bench_sort(us, (int)nsamples);
    if (bench.rank != 0)
        return errors;
    double all = (double)nupdates * bench.nranks, median_us = bench_median(us, (int)nsamples);
    bench_cell_text(kind);
    bench_cell(bench.nranks);
    bench_cell((double)batch);
    bench_cell(all / median_us);
    bench_cell(all / median_us / 1e3);
    bench_cell(all / bench_p90(us, (int)nsamples));
    bench_cell((double)nsamples);
    bench_cell((double)nupdates);
    return errors;
}

/* ---- the program ---- */

static void check_options(void) {
    if (bench.nranks & (bench.nranks - 1))
        bench_usage_error("the number of ranks is a power of two, not %d", bench.nranks);
    if (strcmp(window_list, "allocate") != 0 && strcmp(window_list, "create") != 0 &&
        strcmp(window_list, "allocate,create") != 0)
        bench_usage_error("--window is allocate, create, or allocate,create, not '%s'",
                          window_list);
    if (batch < 1 || batch > MAX_BATCH || nsamples < 2 || nsamples > MAX_SAMPLES || nsamples % 2 ||
        seconds <= 0)
        bench_usage_error("--batch 1..%d, --samples even, 2..%d, --seconds > 0", MAX_BATCH,
                          MAX_SAMPLES);
    for (part_bits = (int)table_bits; (1L << (table_bits - part_bits)) < bench.nranks;)
        part_bits--;
    if (table_bits < MIN_TABLE_BITS || table_bits > MAX_TABLE_BITS || part_bits < 1)
        bench_usage_error("--table-bits %d..%d, and two words for each rank at least",
                          MIN_TABLE_BITS, MAX_TABLE_BITS);
    nwords = (uint64_t)1 << table_bits;
}

int main(int argc, char **argv) {
    static const struct bench_option options[] = {
        {"window", BENCH_TEXT, &window_list, "where the table lies: allocate,create"},
        {"table-bits", BENCH_LONG, &table_bits, "logarithm of the table's 8-byte words"},
        {"batch", BENCH_LONG, &batch, "updates between two flushes"},
        {"samples", BENCH_LONG, &nsamples, "samples per row; a row shows their median"},
        {"seconds", BENCH_REAL, &seconds, "length of a sample"},
    };
    static const struct bench_column columns[] = {
        {"window", BENCH_KEY, -1},  {"ranks", BENCH_KEY, 0},
        {"batch", BENCH_KEY, 0},    {"mups", BENCH_HIGHER, 4},
        {"gups", BENCH_INFO, 6},    {"p90_mups", BENCH_INFO, 4},
        {"samples", BENCH_INFO, 0}, {"updates_per_rank", BENCH_INFO, 0},
    };
    char what[160];
    long errors = 0;
    bench_start(&argc, &argv, MPI_THREAD_SINGLE,
                "Counts updates of random words of a table that is spread over the ranks.", options,
                sizeof options / sizeof options[0]);
    check_options();
    drawn = malloc(sizeof *drawn * (size_t)batch);
    if (drawn == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    snprintf(what, sizeof what,
             "MPI_Accumulate, MPI_BXOR, 2^%ld words in all, a flush for every %ld updates",
             table_bits, batch);
    bench_header(what);
    if (bench.rank == 0)
        bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    if (strncmp(window_list, "allocate", 8) == 0)
        errors += run_window("allocate");
    if (strstr(window_list, "create") != NULL)
        errors += run_window("create");
    free(drawn);
    return bench_finish(errors);
}
