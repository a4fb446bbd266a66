/* llcl_aggregation.c: how many 8-byte writes a second to another node, packed together by the
 * library, and how many MPI_Puts of the host?
 *
 *     MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self mpiexec -n 2 llcl_aggregation
 *
 * One thread of the origin goes over the words of a table at the target, in scattered or sequential
 * order, one tug_try_write_async() each, all with one counter; where there is no room it helps.
 * The time ends when all writes are complete. Then the same words by the host's MPI_Put, with a
 * flush for every --batch. The two alternate; the context is there only for its own samples, so
 * that the host has its processes for itself. TUGBOAT_AGGREGATE=off shows what packing is worth;
 * `versus` compares the two.
 *
 * Invariants: no word is written twice before all are complete, for no order is promised; every
 * pass writes other values. The target's table is checked after each sample.
 * Threading: main threads only.
 */
#include "llcl_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SAMPLES = 1000, MIN_TABLE_BITS = 10, MAX_TABLE_BITS = 26, WORD = 8 };

static const char *order = "scattered";
static long table_bits = 18;
static long npasses = 16;
static long nputs = 32768;
static long batch = 64;
static long nsamples = 7;

static size_t nwords; /* of the table, a power of two */
static bool scattered;
static struct llcl_side side;
static struct llcl_host host;
static MPI_Win window;
static uint64_t *window_memory;
static uint64_t *window_source;
static uint64_t seed; /* of the last pass; the same on both ranks */

/* ---- what is written where ---- */

/* A permutation of the table's words that jumps about. */
static inline size_t place(size_t i) {
    if (!scattered)
        return i;
    i ^= i >> (table_bits / 2);
    return i * 0x9e3779b1u & (nwords - 1);
}

static inline uint64_t value(uint64_t pass, size_t i) {
    return pass << 32 | i;
}

static long check_table(uint64_t *table, size_t used, uint64_t pass, const char *what) {
    bench_corrupt(&table[place(0)]);
    for (size_t i = 0; i < used; i++) {
        uint64_t found = table[place(i)];
        if (found == value(pass, i))
            continue;
        fprintf(stderr, "%s: %s: word %zu is %llx, not %llx\n", bench.name, what, place(i),
                (unsigned long long)found, (unsigned long long)value(pass, i));
        return 1;
    }
    return 0;
}

/* ---- writes ---- */

static void write_pass(struct tug_counter *counter, uint64_t pass) {
    uint64_t *source = (uint64_t *)side.buffer;
    for (size_t i = 0; i < nwords; i++) {
        source[i] = value(pass, i);
        struct tug_write_params params = {.dest_proc = LLCL_TARGET,
                                          .dest_raddr = {&side.key, place(i) * WORD},
                                          .src_laddr = {side.local, i * WORD},
                                          .size_in_bytes = WORD,
                                          .on_complete = {tug_counter_add, counter}};
        while (!tug_try_write_async(side.context, &params))
            tug_progress(side.context);
    }
}

/* Returns nanoseconds for one write, at the origin. */
static double write_sample(long passes, long *errors) {
    double us = 0;
    bench_sync();
    if (bench.rank == LLCL_ORIGIN) {
        struct tug_counter counter = {0};
        double begin_us = bench_now_us();
        for (long pass = 1; pass <= passes; pass++) {
            write_pass(&counter, seed + (uint64_t)pass);
            llcl_wait(&side, &counter, (uint64_t)pass * nwords);
        }
        us = bench_now_us() - begin_us;
        llcl_release(&side, 0);
    } else {
        llcl_serve(&side);
    }
    seed += (uint64_t)passes;
    if (bench.validate && bench.rank == LLCL_TARGET)
        *errors += check_table((uint64_t *)side.memory, nwords, seed, "writes");
    return us * 1e3 / ((double)passes * (double)nwords);
}

/* A context of its own for each sample, the first pass through it not timed. */
static double run_writes(char way[LLCL_WAY], long *errors) {
    llcl_side_open(&side);
    write_sample(1, errors);
    double ns = write_sample(npasses, errors);
    llcl_side_way(&side, LLCL_WRITE, WORD, way);
    llcl_side_close(&side);
    return ns;
}

/* ---- the host ---- */

static void put_batch(size_t first) {
    for (size_t i = first; i < first + (size_t)batch; i++) {
        window_source[i] = value(seed, i);
        host.put(&window_source[i], 1, MPI_UINT64_T, LLCL_TARGET, (MPI_Aint)place(i), 1,
                 MPI_UINT64_T, window);
    }
    host.flush(LLCL_TARGET, window);
}

static double run_puts(long *errors) {
    double us = 0;
    seed++;
    bench_sync();
    if (bench.rank == LLCL_ORIGIN) {
        double begin_us = bench_now_us();
        for (size_t i = 0; i < (size_t)nputs; i += (size_t)batch)
            put_batch(i);
        us = bench_now_us() - begin_us;
    }
    bench_sync();
    if (bench.validate && bench.rank == LLCL_TARGET) {
        host.sync(window);
        *errors += check_table(window_memory, (size_t)nputs, seed, "puts");
    }
    return us * 1e3 / (double)nputs;
}

static void open_window(void) {
    host.allocate((MPI_Aint)(nwords * WORD), WORD, MPI_INFO_NULL, MPI_COMM_WORLD, &window_memory,
                  &window);
    memset(window_memory, 0, nwords * WORD);
    host.lock_all(0, window);
    window_source = calloc(nwords, WORD);
    if (window_source == NULL)
        llcl_must(TUG_ERR_NO_MEMORY, "memory");
}

static void close_window(void) {
    host.unlock_all(window);
    host.free(&window);
    free(window_source);
}

/* ---- rows ---- */

static long run_all(void) {
    static const struct bench_column columns[] = {
        {"way", BENCH_KEY, -1},       {"bytes", BENCH_KEY, 0},    {"write_mops", BENCH_HIGHER, 3},
        {"write_ns", BENCH_INFO, 1},  {"p90_ns", BENCH_INFO, 1},  {"put_mops", BENCH_INFO, 4},
        {"times_put", BENCH_INFO, 1}, {"samples", BENCH_INFO, 0}, {"writes", BENCH_INFO, 0},
        {"puts", BENCH_INFO, 0},
    };
    static double write_ns[MAX_SAMPLES], put_ns[MAX_SAMPLES], times[MAX_SAMPLES];
    char way[LLCL_WAY] = "";
    long errors = 0;
    run_puts(&errors); /* warms up */
    for (int i = 0; i < nsamples; i++) {
        if (i % 2 == 0)
            write_ns[i] = run_writes(way, &errors);
        put_ns[i] = run_puts(&errors);
        if (i % 2 != 0)
            write_ns[i] = run_writes(way, &errors);
        times[i] = put_ns[i] / write_ns[i];
    }
    bench_sort(write_ns, (int)nsamples);
    bench_sort(put_ns, (int)nsamples);
    bench_sort(times, (int)nsamples);
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    bench_cell_text(way);
    bench_cell(WORD);
    bench_cell(1e3 / bench_median(write_ns, (int)nsamples));
    bench_cell(bench_median(write_ns, (int)nsamples));
    bench_cell(bench_p90(write_ns, (int)nsamples));
    bench_cell(1e3 / bench_median(put_ns, (int)nsamples));
    bench_cell(bench_median(times, (int)nsamples));
    bench_cell((double)nsamples);
    bench_cell((double)npasses * (double)nwords);
    bench_cell((double)nputs);
    return errors;
}

static void check_options(void) {
    if (strcmp(order, "scattered") != 0 && strcmp(order, "sequential") != 0)
        bench_usage_error("--order is scattered or sequential, not '%s'", order);
    if (table_bits < MIN_TABLE_BITS || table_bits > MAX_TABLE_BITS)
        bench_usage_error("--table-bits %d..%d", MIN_TABLE_BITS, MAX_TABLE_BITS);
    scattered = strcmp(order, "scattered") == 0;
    nwords = (size_t)1 << table_bits;
    if (npasses < 1 || nsamples < 1 || nsamples > MAX_SAMPLES || batch < 1 || nputs < batch ||
        nputs % batch != 0 || nputs > (long)nwords)
        bench_usage_error("--passes > 0, --samples 1..%d, --puts a multiple of --batch, within the "
                          "table",
                          MAX_SAMPLES);
}

int main(int argc, char **argv) {
    const struct bench_option options[] = {
        {"order", BENCH_TEXT, &order, "scattered or sequential"},
        {"table-bits", BENCH_LONG, &table_bits, "2^N words in the target's table"},
        {"passes", BENCH_LONG, &npasses, "passes over the table in a sample"},
        {"puts", BENCH_LONG, &nputs, "of the host in a sample"},
        {"batch", BENCH_LONG, &batch, "puts of the host between flushes"},
        {"samples", BENCH_LONG, &nsamples, "samples of each"},
        LLCL_OPTIONS,
    };
    char what[160];
    llcl_start_program(&argc, &argv, "How many 8-byte writes a second, and how many MPI_Puts?",
                       options, sizeof options / sizeof options[0]);
    check_options();
    snprintf(what, sizeof what,
             "writes of 8 bytes, %s over %zu words; MPI_Put with a flush for "
             "every %ld",
             order, nwords, batch);
    side = (struct llcl_side){.remote_bytes = nwords * WORD, .local_bytes = nwords * WORD};
    llcl_find_host(&host);
    open_window();
    llcl_header(what);
    long errors = run_all();
    close_window();
    return bench_finish(errors);
}
