/* bench.c: start and end of a benchmark, its options and its header; clock, synchronisation,
 * compute loop, patterns and order statistics (see bench.h).
 *
 * Invariants: options are read after MPI_Init, so that one rank speaks for all; every rank sees
 * the same command line and takes the same decisions. The compute loop is a chain of dependent
 * integer steps: it touches no memory and no compiler can shorten it.
 * Threading: as bench.h says; nsteps_per_us is written by bench_calibrate() alone.
 */
#include "bench.h"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if __has_include("bench_commit.h")
#include "bench_commit.h" /* written by the build */
#else
#define BENCH_COMMIT "unknown"
#endif

struct bench bench = {.sync = MPI_COMM_NULL};

static double nsteps_per_us = 500.0;

/* ---- end ---- */

static int exit_status;

static void leave(int signal) {
    (void)signal;
    _exit(exit_status);
}

/* Over TCP the host MPI alone may never come out of MPI_Finalize (src/host/farewell.h). By then all
 * has been measured, checked and printed. Where the library is in the process and not off, it ends.
 */
static int finalize(int status) {
    enum { AT_MOST_SECONDS = 3 };
    const char *setting = getenv("TUGBOAT");
    const bool is_off = setting != NULL && strcmp(setting, "off") == 0;
    exit_status = status;
    if (is_off || dlsym(RTLD_DEFAULT, "tug_version") == NULL) {
        signal(SIGALRM, leave);
        alarm(AT_MOST_SECONDS);
    }
    MPI_Finalize();
    alarm(0);
    return status;
}

/* ---- options ---- */

static const struct bench_option common_options[] = {
    {"csv", BENCH_FLAG, &bench.csv, "print comma-separated rows"},
    {"validate", BENCH_FLAG, &bench.validate, "check all data; wrong data: exit status 1"},
    {"corrupt", BENCH_FLAG, &bench.corrupt, "damage one word before the check (tests --validate)"},
};
enum { NCOMMON = sizeof common_options / sizeof common_options[0] };

static void print_option(const struct bench_option *option) {
    static const char *const argument[] = {"", " N", " X", " TEXT"};
    char left[40];
    snprintf(left, sizeof left, "--%s%s", option->name, argument[option->kind]);
    printf("  %-20s %s", left, option->help);
    if (option->kind == BENCH_LONG)
        printf(" (%ld)", *(long *)option->value);
    else if (option->kind == BENCH_REAL)
        printf(" (%g)", *(double *)option->value);
    else if (option->kind == BENCH_TEXT)
        printf(" (%s)", *(const char **)option->value);
    printf("\n");
}

static _Noreturn void print_help(const char *about, const struct bench_option options[],
                                 int noptions) {
    if (bench.rank == 0) {
        printf("usage: mpiexec -n N %s [options]\n%s\n\n", bench.name, about);
        for (int i = 0; i < noptions; i++)
            print_option(&options[i]);
        for (int i = 0; i < NCOMMON; i++)
            print_option(&common_options[i]);
        printf("  %-20s %s\n", "--help", "this text");
    }
    MPI_Finalize();
    exit(0);
}

_Noreturn void bench_usage_error(const char *format, ...) {
    if (bench.rank == 0) {
        va_list args;
        va_start(args, format);
        fprintf(stderr, "%s: ", bench.name);
        vfprintf(stderr, format, args);
        fprintf(stderr, " (--help lists the options)\n");
        va_end(args);
    }
    exit(finalize(2));
}

static const struct bench_option *find_option(const char *name, const struct bench_option options[],
                                              int noptions) {
    for (int i = 0; i < noptions; i++)
        if (strcmp(name, options[i].name) == 0)
            return &options[i];
    return NULL;
}

static bool set_option(const struct bench_option *option, const char *text) {
    char *end = NULL;
    switch (option->kind) {
    case BENCH_FLAG:
        *(bool *)option->value = true;
        return true;
    case BENCH_LONG:
        *(long *)option->value = strtol(text, &end, 10);
        return end != text && *end == '\0';
    case BENCH_REAL:
        *(double *)option->value = strtod(text, &end);
        return end != text && *end == '\0';
    case BENCH_TEXT:
        *(const char **)option->value = text;
        return true;
    }
    return false;
}

static void read_options(int argc, char **argv, const char *about,
                         const struct bench_option options[], int noptions) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            print_help(about, options, noptions);
        if (strncmp(argv[i], "--", 2) != 0)
            bench_usage_error("unexpected argument '%s'", argv[i]);
        const struct bench_option *option = find_option(argv[i] + 2, options, noptions);
        if (option == NULL)
            option = find_option(argv[i] + 2, common_options, NCOMMON);
        if (option == NULL)
            bench_usage_error("unknown option '%s'", argv[i]);
        const char *text = NULL;
        if (option->kind != BENCH_FLAG) {
            if (++i == argc)
                bench_usage_error("option --%s needs a value", option->name);
            text = argv[i];
        }
        if (!set_option(option, text))
            bench_usage_error("option --%s: '%s' is not a number", option->name, text);
    }
}

int bench_parse_sizes(const char *text, long sizes[], int max) {
    int n = 0;
    while (n < max) {
        char *end = NULL;
        long value = strtol(text, &end, 10);
        if (end == text || value < 0)
            return -1;
        int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
        if (shift != 0)
            end++;
        if (value > (INT64_MAX >> shift))
            return -1;
        sizes[n++] = value << shift;
        if (*end == '\0')
            return n;
        if (*end != ',')
            return -1;
        text = end + 1;
    }
    return -1;
}

/* ---- start, header, end ---- */

void bench_start(int *argc, char ***argv, int level, const char *about,
                 const struct bench_option options[], int noptions) {
    const char *slash = strrchr((*argv)[0], '/');
    bench.name = slash != NULL ? slash + 1 : (*argv)[0];
    MPI_Init_thread(argc, argv, level, &bench.provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench.nranks);
    read_options(*argc, *argv, about, options, noptions);
    if (bench.provided < level)
        bench_usage_error("the MPI library gives thread level %d, %d is needed", bench.provided,
                          level);
    MPI_Comm_dup(MPI_COMM_WORLD, &bench.sync);
}

/* The tug is recognised as any program could: by a symbol of its public header. */
static void print_tug(void) {
    const char *(*version)(void) = NULL;
    const char *setting = getenv("TUGBOAT");
    void *found = dlsym(RTLD_DEFAULT, "tug_version");
    if (found == NULL) {
        printf("# tugboat: not loaded\n");
        return;
    }
    memcpy(&version, &found, sizeof found);
    printf("# tugboat: %s%s%s\n", version(), setting != NULL ? ", TUGBOAT=" : "",
           setting != NULL ? setting : "");
}

void bench_header(const char *what) {
    if (bench.rank != 0)
        return;
    char version[MPI_MAX_LIBRARY_VERSION_STRING], host[256] = "?", date[40];
    int length = 0;
    MPI_Get_library_version(version, &length);
    for (int i = 0; i < length; i++)
        if (version[i] == '\t')
            version[i] = ' ';
    version[strcspn(version, "\n")] = '\0';
    gethostname(host, sizeof host - 1);
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    printf("# %s, commit %s\n# MPI: %s\n", bench.name, BENCH_COMMIT, version);
    print_tug();
    printf("# %d ranks, %ld cores, host %s, %s\n# %s\n", bench.nranks,
           sysconf(_SC_NPROCESSORS_ONLN), host, date, what);
    fflush(stdout);
}

int bench_finish(long errors) {
    long total = 0;
    MPI_Allreduce(&errors, &total, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (bench.rank == 0 && bench.validate) {
        if (total == 0)
            printf("# validation: all data right\n");
        else
            printf("# validation: FAILED, %ld words wrong\n", total);
    }
    fflush(stdout);
    MPI_Comm_free(&bench.sync);
    return finalize(total == 0 ? 0 : 1);
}

/* ---- clock, synchronisation, compute ---- */

double bench_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void wait_politely(MPI_Request *request) {
    int done = 0;
    for (;;) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done)
            return;
        sched_yield();
    }
}

void bench_sync(void) {
    /* dissemination: after the round with distance d a rank has heard of 2d ranks */
    for (int distance = 1; distance < bench.nranks; distance *= 2) {
        MPI_Request in, out;
        int from = (bench.rank - distance + bench.nranks) % bench.nranks;
        int to = (bench.rank + distance) % bench.nranks;
        MPI_Irecv(NULL, 0, MPI_BYTE, from, 0, bench.sync, &in);
        MPI_Isend(NULL, 0, MPI_BYTE, to, 0, bench.sync, &out);
        wait_politely(&out);
        wait_politely(&in);
    }
}

/* True if all ranks read one clock, and each has a core to wait on. */
static bool may_meet(void) {
    char mine[MPI_MAX_PROCESSOR_NAME] = "", first[MPI_MAX_PROCESSOR_NAME];
    int length, same, all;
    MPI_Get_processor_name(mine, &length);
    memcpy(first, mine, sizeof first);
    MPI_Bcast(first, sizeof first, MPI_CHAR, 0, bench.sync);
    same = memcmp(first, mine, sizeof first) == 0 && bench.nranks <= sysconf(_SC_NPROCESSORS_ONLN);
    MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_MIN, bench.sync);
    return all;
}

void bench_sync_together(void) {
    static int meets = -1;
    const double slot_us = 10;
    if (meets < 0)
        meets = may_meet();
    bench_sync();
    const double at_us = (double)((long)(bench_now_us() / slot_us) + 2) * slot_us;
    while (meets && bench_now_us() < at_us)
        ;
}

static uint64_t compute_steps(uint64_t nsteps) {
    uint64_t x = 88172645463325252ull;
    for (uint64_t i = 0; i < nsteps; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

void bench_compute(double us) {
    if (compute_steps((uint64_t)(us * nsteps_per_us)) == 0)
        abort(); /* never: these steps do not reach 0; the test keeps the loop */
}

void bench_calibrate(void) {
    const uint64_t nsteps = 2000000;
    double best_us = 1e30;
    bench_sync();
    for (int i = 0; i < 5; i++) {
        double begin_us = bench_now_us();
        if (compute_steps(nsteps) == 0)
            abort();
        double us = bench_now_us() - begin_us;
        best_us = us < best_us ? us : best_us;
    }
    nsteps_per_us = (double)nsteps / best_us;
    bench_sync();
}

/* ---- patterns ---- */

uint64_t bench_pattern_word(uint64_t seed, uint64_t index) {
    return (seed + 1) * 0x9e3779b97f4a7c15ull + index * 0x100000001b3ull;
}

void bench_pattern_fill(void *data, size_t bytes, uint64_t seed) {
    char *to = data;
    size_t nwords = bytes / 8;
    for (size_t i = 0; i < nwords; i++) {
        uint64_t word = bench_pattern_word(seed, i);
        memcpy(to + 8 * i, &word, 8);
    }
    uint64_t last = bench_pattern_word(seed, nwords);
    memcpy(to + 8 * nwords, &last, bytes % 8);
}

long bench_pattern_check(const void *data, size_t bytes, uint64_t seed, const char *what) {
    const char *from = data;
    long nwrong = 0;
    for (size_t i = 0; i * 8 < bytes; i++) {
        size_t n = bytes - 8 * i < 8 ? bytes - 8 * i : 8;
        uint64_t expected = bench_pattern_word(seed, i);
        if (memcmp(from + 8 * i, &expected, n) == 0)
            continue;
        uint64_t found = 0;
        memcpy(&found, from + 8 * i, n);
        if (nwrong++ == 0)
            fprintf(stderr, "%s: rank %d: %s: word %zu of %zu bytes is %016llx, not %016llx\n",
                    bench.name, bench.rank, what, i, bytes, (unsigned long long)found,
                    (unsigned long long)expected);
    }
    return nwrong;
}

void bench_corrupt(void *data) {
    static bool done;
    if (!bench.corrupt || done)
        return;
    done = true;
    *(unsigned char *)data ^= 1;
}

/* ---- order statistics ---- */

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How many iterations fit `seconds` if all take as long as these. */
static int fitting_iterations(double begin_us, int n, double seconds, long most) {
    double us = (bench_now_us() - begin_us) / n, slowest_us;
    MPI_Allreduce(&us, &slowest_us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    double fit = seconds * 1e6 / (slowest_us > 0.1 ? slowest_us : 0.1);
    if (fit < BENCH_LEAST_ITERATIONS)
        return BENCH_LEAST_ITERATIONS;
    return fit > (double)most ? (int)most : (int)fit;
}

/* Gets warm; then how many iterations fit. */
static int warm_up(double (*iterate)(void *argument), void *argument, double seconds, long warm,
                   long most) {
    enum { NCOLD = 3, NTIMED = 2 };
    double begin_us = 0;
    for (int i = 0; i < NCOLD + NTIMED; i++) {
        if (i == NCOLD)
            begin_us = bench_now_us();
        iterate(argument);
    }
    int fit = fitting_iterations(begin_us, NTIMED, seconds, most);
    int more = fit < warm ? fit : (int)warm;
    if (more <= BENCH_LEAST_ITERATIONS)
        return fit;
    begin_us = bench_now_us();
    for (int i = 0; i < more; i++)
        iterate(argument);
    return fitting_iterations(begin_us, more, seconds, most);
}

double *bench_iterate(double (*iterate)(void *argument), void *argument, double seconds, long warm,
                      long most, int *niterations) {
    *niterations = warm_up(iterate, argument, seconds, warm, most);
    return bench_repeat(iterate, argument, *niterations);
}

double *bench_repeat(double (*iterate)(void *argument), void *argument, int n) {
    double *mine = malloc((size_t)n * sizeof *mine), *slowest = calloc((size_t)n, sizeof *slowest);
    if (mine == NULL || slowest == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < n; i++)
        mine[i] = iterate(argument);
    MPI_Reduce(mine, slowest, n, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    free(mine);
    bench_sort(slowest, n);
    return slowest;
}

void bench_sort(double samples[], int n) {
    qsort(samples, (size_t)n, sizeof samples[0], compare_doubles);
}

double bench_median(const double sorted[], int n) {
    return n % 2 != 0 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double bench_p90(const double sorted[], int n) {
    return sorted[(9 * n + 9) / 10 - 1];
}

double bench_mean(const double samples[], int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += samples[i];
    return sum / n;
}
