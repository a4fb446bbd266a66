/* truly_passive.c: how long does a one-sided operation take while its target computes?
 *
 * Rank 1 owns a window and computes for a while without one MPI call; rank 0 meanwhile locks,
 * operates and unlocks, and measures each of these epochs. One-sided communication that needs no
 * help of the target's program takes microseconds; where the target must enter MPI first, the
 * first epoch waits the computation out. Each kind of operation has compute periods of its own.
 * The last column tells what the service costs the target: how long its computation took, which
 * alone takes --compute-ms.
 *
 * Invariants: the computation is a fixed number of steps without any call; operations of one
 * period go to different slots of the window, so that all of them can be checked when the period
 * is over.
 * Threading: MPI by the main thread only; --busy-origin adds a thread to rank 0 that only
 * computes.
 */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ORIGIN = 0, TARGET = 1, BIG = 1 << 20, MAX_SAMPLES = 10000 };

enum op_kind { OP_PUT, OP_GET, OP_ACCUMULATE, OP_FETCH_AND_OP };

static const struct op {
    const char *name;
    enum op_kind kind;
    int bytes;
} ops[] = {
    {"put", OP_PUT, 8},
    {"get", OP_GET, 8},
    {"accumulate", OP_ACCUMULATE, 8},
    {"fetch_and_op", OP_FETCH_AND_OP, 8},
    {"put", OP_PUT, BIG},
    {"accumulate", OP_ACCUMULATE, BIG},
};
enum { NOPS = sizeof ops / sizeof ops[0] };

static long compute_ms = 200;
static long nperiods = 1;
static long nepochs = 3; /* per period */
static bool busy_origin;
static const char *flavour = "allocate";

static MPI_Win window;
static char *window_memory; /* this rank's part */
static char *origin_data;   /* one slot for each epoch of a period */

static double samples[MAX_SAMPLES];
static double compute_times_ms[MAX_SAMPLES];

/* ---- the origin's side of an epoch ---- */

static char *origin_slot(int epoch) {
    return origin_data + (size_t)epoch * BIG;
}

/* The seed tells origin and target, without a message, what the data of an epoch are. */
static uint64_t epoch_seed(int op, int period, int epoch) {
    return (uint64_t)(((op * 4096) + period) * 64 + epoch) + 17;
}

/* What the window holds before the period: the same words the pattern gives for another seed. */
static uint64_t window_seed(int op, int period, int epoch) {
    return epoch_seed(op, period, epoch) ^ 0x5555000000ull;
}

static void issue(const struct op *op, int epoch) {
    char *data = origin_slot(epoch);
    MPI_Aint place = (MPI_Aint)epoch * BIG;
    int nwords = op->bytes / 8;
    switch (op->kind) {
    case OP_PUT:
        MPI_Put(data, nwords, MPI_UINT64_T, TARGET, place, nwords, MPI_UINT64_T, window);
        break;
    case OP_GET:
        MPI_Get(data, nwords, MPI_UINT64_T, TARGET, place, nwords, MPI_UINT64_T, window);
        break;
    case OP_ACCUMULATE:
        MPI_Accumulate(data, nwords, MPI_UINT64_T, TARGET, place, nwords, MPI_UINT64_T, MPI_SUM,
                       window);
        break;
    case OP_FETCH_AND_OP:
        /* the operand lies behind the result, in the same slot */
        MPI_Fetch_and_op(data + 8, data, MPI_UINT64_T, TARGET, place, MPI_SUM, window);
        break;
    }
}

static double timed_epoch(const struct op *op, int epoch) {
    double begin_us = bench_now_us();
    MPI_Win_lock(MPI_LOCK_SHARED, TARGET, 0, window);
    issue(op, epoch);
    MPI_Win_unlock(TARGET, window);
    return bench_now_us() - begin_us;
}

static void prepare_origin(int op, int period) {
    for (int epoch = 0; epoch < nepochs; epoch++) {
        uint64_t seed = epoch_seed(op, period, epoch);
        if (ops[op].kind == OP_GET) {
            memset(origin_slot(epoch), 0, (size_t)ops[op].bytes);
        } else if (ops[op].kind == OP_FETCH_AND_OP) {
            memset(origin_slot(epoch), 0, 8);
            bench_pattern_fill(origin_slot(epoch) + 8, 8, seed);
        } else {
            bench_pattern_fill(origin_slot(epoch), (size_t)ops[op].bytes, seed);
        }
    }
}

/* Gets and fetches bring what the window held. */
static long check_origin(int op, int period) {
    long errors = 0;
    if (ops[op].kind != OP_GET && ops[op].kind != OP_FETCH_AND_OP)
        return 0;
    for (int epoch = 0; epoch < nepochs; epoch++)
        errors += bench_pattern_check(origin_slot(epoch), (size_t)ops[op].bytes,
                                      window_seed(op, period, epoch), ops[op].name);
    return errors;
}

/* ---- the target's side of a period ---- */

static void prepare_target(int op, int period) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, TARGET, 0, window);
    for (int epoch = 0; epoch < nepochs; epoch++)
        bench_pattern_fill(window_memory + (size_t)epoch * BIG, (size_t)ops[op].bytes,
                           window_seed(op, period, epoch));
    MPI_Win_unlock(TARGET, window);
}

static long check_slot(int op, int period, int epoch) {
    const char *slot = window_memory + (size_t)epoch * BIG;
    uint64_t before = window_seed(op, period, epoch), seed = epoch_seed(op, period, epoch);
    if (ops[op].kind == OP_PUT)
        return bench_pattern_check(slot, (size_t)ops[op].bytes, seed, ops[op].name);
    if (ops[op].kind == OP_GET)
        return bench_pattern_check(slot, (size_t)ops[op].bytes, before, "window after get");
    long errors = 0;
    for (int i = 0; i < ops[op].bytes / 8; i++) {
        uint64_t found, expected = bench_pattern_word(before, (uint64_t)i) +
                                   bench_pattern_word(seed, (uint64_t)i);
        memcpy(&found, slot + 8 * (size_t)i, 8);
        if (found != expected && errors++ == 0)
            fprintf(stderr, "%s: %s, epoch %d: word %d is %016llx, not %016llx\n", bench.name,
                    ops[op].name, epoch, i, (unsigned long long)found,
                    (unsigned long long)expected);
    }
    return errors;
}

static long check_target(int op, int period) {
    long errors = 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, TARGET, 0, window);
    bench_corrupt(window_memory);
    for (int epoch = 0; epoch < nepochs; epoch++)
        errors += check_slot(op, period, epoch);
    MPI_Win_unlock(TARGET, window);
    return errors;
}

/* ---- periods ---- */

/* The origin has nothing to do until the target is back; it sleeps so as not to disturb the
 * computation whose duration is reported. */
static void sleep_until_us(double end_us) {
    double left_us = end_us - bench_now_us();
    if (left_us <= 0)
        return;
    struct timespec pause = {.tv_sec = (time_t)(left_us / 1e6)};
    pause.tv_nsec = (long)((left_us - (double)pause.tv_sec * 1e6) * 1e3);
    nanosleep(&pause, NULL);
}

/* One compute period with its epochs. Rank 0 stores latencies from samples[first] on. */
static long run_period(int op, int period, double compute_us, int first, double *took_ms) {
    long errors = 0;
    if (bench.rank == TARGET)
        prepare_target(op, period);
    else if (bench.rank == ORIGIN)
        prepare_origin(op, period);
    bench_sync();
    double begin_us = bench_now_us();
    if (bench.rank == TARGET) {
        bench_compute(compute_us);
    } else if (bench.rank == ORIGIN) {
        for (int epoch = 0; epoch < nepochs; epoch++)
            samples[first + epoch] = timed_epoch(&ops[op], epoch);
        sleep_until_us(begin_us + compute_us);
    }
    *took_ms = (bench_now_us() - begin_us) * 1e-3;
    bench_sync();
    if (bench.validate && bench.rank == TARGET)
        errors = check_target(op, period);
    else if (bench.validate && bench.rank == ORIGIN)
        errors = check_origin(op, period);
    bench_sync();
    return errors;
}

static void report(int op) {
    int n = (int)(nperiods * nepochs), nwaited = 0;
    double compute_sum_ms = 0, mean_us = bench_mean(samples, n);
    MPI_Bcast(compute_times_ms, (int)nperiods, MPI_DOUBLE, TARGET, MPI_COMM_WORLD);
    for (int i = 0; i < nperiods; i++)
        compute_sum_ms += compute_times_ms[i];
    for (int i = 0; i < n; i++) /* an epoch as long as half the computation has waited for it */
        nwaited += samples[i] > 500.0 * (double)compute_ms;
    bench_sort(samples, n);
    bench_cell_text(ops[op].name);
    bench_cell(ops[op].bytes);
    bench_cell(mean_us);
    bench_cell(bench_median(samples, n));
    bench_cell(bench_p90(samples, n));
    bench_cell(samples[n - 1]);
    bench_cell(n);
    bench_cell(nwaited);
    bench_cell(compute_sum_ms / (double)nperiods);
}

static long run_all(void) {
    static const struct bench_column columns[] = {
        {"op", BENCH_KEY, -1},        {"bytes", BENCH_KEY, 0},   {"mean_us", BENCH_LOWER, 2},
        {"median_us", BENCH_INFO, 2}, {"p90_us", BENCH_INFO, 2}, {"max_us", BENCH_INFO, 2},
        {"samples", BENCH_INFO, 0},   {"waited", BENCH_INFO, 0}, {"compute_ms", BENCH_INFO, 1},
    };
    long errors = 0;
    double took_ms;
    for (int op = 0; op < NOPS; op++) /* connections, registrations, first touch */
        errors += run_period(op, 4095, 5e3, 0, &took_ms);
    bench_table_begin(columns, sizeof columns / sizeof columns[0]);
    for (int op = 0; op < NOPS; op++) {
        for (int period = 0; period < nperiods; period++)
            errors += run_period(op, period, 1e3 * (double)compute_ms, (int)(period * nepochs),
                                 &compute_times_ms[period]);
        report(op);
    }
    return errors;
}

static atomic_bool stop_computing;

static void *compute_for_ever(void *unused) {
    (void)unused;
    while (!atomic_load_explicit(&stop_computing, memory_order_relaxed))
        bench_compute(1000);
    return NULL;
}

int main(int argc, char **argv) {
    const struct bench_option options[] = {
        {"compute-ms", BENCH_LONG, &compute_ms, "the target computes this long"},
        {"periods", BENCH_LONG, &nperiods, "compute periods for each kind of operation"},
        {"epochs", BENCH_LONG, &nepochs, "lock-operate-unlock epochs in a period"},
        {"busy-origin", BENCH_FLAG, &busy_origin, "a second thread computes on the origin"},
        {"window", BENCH_TEXT, &flavour, "how the window is made: allocate or create"},
    };
    char what[160];
    pthread_t thread;
    bench_start(&argc, &argv, MPI_THREAD_FUNNELED,
                "How long does a one-sided operation take while its target computes?", options,
                sizeof options / sizeof options[0]);
    if (bench.nranks != 2)
        bench_usage_error("2 ranks are needed, not %d", bench.nranks);
    if (compute_ms < 1 || nperiods < 1 || nperiods > 4000 || nepochs < 1 || nepochs > 64 ||
        nperiods * nepochs > MAX_SAMPLES)
        bench_usage_error(
            "--compute-ms >= 1, --periods 1..4000, --epochs 1..64, at most %d samples",
            MAX_SAMPLES);
    if (!bench_window_has_name(flavour))
        bench_usage_error("--window is allocate or create, not '%s'", flavour);
    origin_data = calloc((size_t)nepochs, BIG);
    if (origin_data == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    struct bench_window opened = bench_window_open(flavour, (size_t)nepochs * BIG, 1);
    window = opened.win;
    window_memory = opened.memory;
    bench_calibrate();
    snprintf(what, sizeof what, "rank 0: lock-operate-unlock; rank 1 computes %ld ms without MPI%s",
             compute_ms, busy_origin ? "; a second thread computes on rank 0" : "");
    bench_header(what);
    bool computing = busy_origin && bench.rank == ORIGIN &&
                     pthread_create(&thread, NULL, compute_for_ever, NULL) == 0;
    long errors = run_all();
    if (computing) {
        atomic_store_explicit(&stop_computing, true, memory_order_relaxed);
        pthread_join(thread, NULL);
    }
    bench_window_close(&opened);
    free(origin_data);
    return bench_finish(errors);
}
