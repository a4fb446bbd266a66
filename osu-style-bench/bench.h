/* bench.h: what the benchmarks of this folder share.
 *
 * A benchmark here is an ordinary MPI program: it knows nothing of the library it may run under,
 * so the same binary measures the host MPI and, under `tugboat run`, the tug. This file gives it
 * options, a header that says what was measured, a table (readable or CSV), a clock, a compute
 * loop, order statistics, data patterns, and a synchronisation that does not spin.
 *
 * Invariant: nothing in here is called between a benchmark's two clock readings except
 * bench_compute().
 * Threading: everything is called by the thread that called bench_start(), except bench_now_us(),
 * bench_compute(), bench_pattern_fill() and bench_pattern_check(), which any thread may call.
 */
#ifndef OSU_STYLE_BENCH_H
#define OSU_STYLE_BENCH_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bench_kind { BENCH_FLAG, BENCH_LONG, BENCH_REAL, BENCH_TEXT };

/* One option of a benchmark; `value` points to a bool, long, double or const char *. */
struct bench_option {
    const char *name;
    enum bench_kind kind;
    void *value;
    const char *help;
};

/* What every benchmark knows after bench_start(). */
struct bench {
    const char *name; /* of the program, from argv[0] */
    int rank;
    int nranks;
    int provided; /* thread level */
    bool csv;
    bool validate;
    bool corrupt;  /* damage one word before the first check: the run must then fail */
    MPI_Comm sync; /* for bench_sync() alone */
};
extern struct bench bench;

/* Initialises MPI at `level` and reads the command line: the options given plus --csv, --validate,
 * --corrupt and --help. --help prints and ends the program with 0, a bad option with 2. Collective.
 */
void bench_start(int *argc, char ***argv, int level, const char *about,
                 const struct bench_option options[], int noptions);

/* Ends the program with 2 and a message from rank 0. Collective: every rank must see the mistake.
 */
_Noreturn void bench_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints the header: one "# " line for each fact about the run, and `what` last. */
void bench_header(const char *what);

/* Sums `errors` over all ranks, says so when validating, finalises MPI. Returns the exit status. */
int bench_finish(long errors);

/* Reads "8,4K,2M" into sizes[]; returns how many, or -1. Suffixes K, M, G are binary. */
int bench_parse_sizes(const char *text, long sizes[], int max);

double bench_now_us(void);

/* Every rank waits for every rank by zero-byte messages, MPI_Test and sched_yield: a rank that
 * waits here gives its core away, so that more ranks than cores do not spend their time slices in a
 * spinning barrier. */
void bench_sync(void);

/* The same, and on one node with a core for each rank they all return in the same tenth of a
 * microsecond, by the clock: who leaves bench_sync() first depends on the MPI, and a collective of
 * a few cache lines takes no longer than the ranks are apart then. */
void bench_sync_together(void);

/* A window of so many bytes on every rank of MPI_COMM_WORLD, by the name of its flavour:
 *     allocate          MPI_Win_allocate
 *     shared            MPI_Win_allocate_shared, where all ranks are on one node
 *     create            MPI_Win_create over memory of malloc
 *     create_stack      MPI_Win_create over the caller's stack
 *     create_alloc_mem  MPI_Win_create over memory of MPI_Alloc_mem
 *     dynamic           MPI_Win_create_dynamic, and memory of malloc attached to it */
struct bench_window {
    MPI_Win win;
    void *memory; /* this rank's */
    size_t bytes;
    const struct bench_flavour *flavour;
    MPI_Aint *at; /* for each rank: the displacement of its memory's first byte */
};

/* The names above, NULL at the end. */
extern const char *const bench_window_names[];

/* A window with zeroed memory. `stack`: so many bytes for create_stack, with 64 bytes to spare.
 * bench_window_open() knows those flavours that bench_window_has_name() does: allocate and create.
 * Collective. */
struct bench_window bench_window_open_any(const char *name, void *stack, size_t bytes,
                                          int disp_unit);
struct bench_window bench_window_open(const char *name, size_t bytes, int disp_unit);
bool bench_window_has_name(const char *name);
void bench_window_close(struct bench_window *window);

/* Frees the MPI window alone and makes another over the same memory, which is what programs with
 * short-lived windows do. Collective. */
void bench_window_remake(struct bench_window *window, int disp_unit);

/* Finds this machine's speed for bench_compute(). Collective, so that all cores are busy meanwhile.
 */
void bench_calibrate(void);

/* Computes for about `us` microseconds of CPU time: a fixed number of steps, no call of any kind.
 * The wall-clock time it takes grows when the core is shared. */
void bench_compute(double us);

/* Fills `bytes` bytes with a pattern in which every 64-bit word depends on `seed` and its place. */
void bench_pattern_fill(void *data, size_t bytes, uint64_t seed);

/* Returns the number of wrong words, and reports the first of them on stderr with `what`. */
long bench_pattern_check(const void *data, size_t bytes, uint64_t seed, const char *what);

/* The pattern's word at `index`. */
uint64_t bench_pattern_word(uint64_t seed, uint64_t index);

/* Flips a bit of data[0] once in the life of the process when --corrupt was given. */
void bench_corrupt(void *data);

/* Runs iterate(argument), which returns this rank's microseconds, a few times to get warm, `warm`
 * times more if that fits `seconds`, and then as often as fits `seconds`, everything around it
 * included: at least BENCH_LEAST_ITERATIONS times, at most `most`, the same on all ranks. Returns
 * the longest of all ranks' times of each iteration, sorted, on rank 0; the caller frees them.
 * Collective. */
#define BENCH_LEAST_ITERATIONS 5
double *bench_iterate(double (*iterate)(void *argument), void *argument, double seconds, long warm,
                      long most, int *niterations);

/* The same n times, from the very first on. */
double *bench_repeat(double (*iterate)(void *argument), void *argument, int n);

/* Order statistics; bench_sort() first. */
void bench_sort(double samples[], int n);
double bench_median(const double sorted[], int n);
double bench_p90(const double sorted[], int n);
double bench_mean(const double samples[], int n);

/* What a column is to a program that compares two runs: rows are matched by their keys, and one
 * column is compared; one may count wrong words. The CSV header says so: "key:op", "lower:mean_us",
 * "higher:mops", "wrong:words", "samples".
 */
enum bench_role { BENCH_KEY, BENCH_LOWER, BENCH_HIGHER, BENCH_WRONG, BENCH_INFO };

struct bench_column {
    const char *name;
    enum bench_role role;
    int decimals; /* for numbers; < 0 for text */
};

/* Prints the column names; the cells that follow go from left to right, row by row. Rank 0 only. */
void bench_table_begin(const struct bench_column columns[], int ncolumns);
void bench_cell(double value);
void bench_cell_text(const char *text);
/* A cell for each of n columns: the median of its samples, which are sorted. */
void bench_cell_medians(double *const samples[], size_t n, int nsamples);

#endif
