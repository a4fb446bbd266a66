/*
 * `tugboat compare`: runs a program without and with the library, in turns, and says what changed.
 *
 * Without the library is on the host MPI alone: LD_PRELOAD does not name it, and TUGBOAT=off stops
 * one that is linked. Who goes first changes from pair to pair, so what the machine does meanwhile
 * meets both. Counting costs time: one more run with the library has TUGBOAT_STATS=1, and is not
 * timed. All runs write to files, for equal conditions; what the first one wrote is shown.
 */
#include "cmd/compare.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings.h"
#include "cmd/cmd.h"

#define RUNS_DEFAULT 3
#define SHOWN_OF_FAILURES 4000  /* bytes of each stream */
#define READ_FOR_COUNTERS 65536 /* bytes, from the end */

static const char *const side_names[TUG_NSIDES] = {"without", "with"};

struct options {
    int runs;
    const char *json, *output;
};

/* What the runs share. */
struct compare {
    struct options options;
    struct tug_comparison report;
    char *preloads[TUG_NSIDES]; /* LD_PRELOAD; "": none */
    char *switched;             /* TUGBOAT, as the user has it; NULL: not set */
    struct tug_run_files files;
    off_t input_begin;
    int done; /* runs */
};

/* ---- options ---- */

static bool parse_runs(const char *text, int *runs) {
    const char *end = text;
    uint64_t number;
    if (!tug_take_number(&end, TUG_COMPARE_RUNS_MOST, &number) || *end != '\0' ||
        number < TUG_COMPARE_RUNS_LEAST) {
        tug_cmd_say("compare -n %s: it must be a number of runs, %d to %d", text,
                    TUG_COMPARE_RUNS_LEAST, TUG_COMPARE_RUNS_MOST);
        return false;
    }
    *runs = (int)number;
    return true;
}

/* 0, or the exit status; *first is then where the command begins. */
static int parse(struct options *options, int argc, char **argv, int *first) {
    static const struct option longs[] = {{"json", required_argument, NULL, 'j'},
                                          {"output", required_argument, NULL, 'o'},
                                          {NULL, 0, NULL, 0}};
    int option;
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "+:n:", longs, NULL)) != -1) {
        if (option == '?')
            return tug_cmd_no_option("compare", argv[optind - 1]);
        if (option == ':')
            return tug_cmd_no_value("compare", argv[optind - 1]);
        if (option == 'n' && !parse_runs(optarg, &options->runs))
            return TUG_EXIT_USAGE;
        if (option == 'j')
            options->json = optarg;
        if (option == 'o')
            options->output = optarg;
    }
    *first = optind;
    if (optind < argc)
        return 0;
    tug_cmd_say("compare needs a command, for example: tugboat compare mpiexec -n 4 ./app");
    return TUG_EXIT_USAGE;
}

/* ---- the two sides ---- */

static int fail(const char *what) {
    tug_cmd_say("compare: %s: %s", what, strerror(errno));
    return TUG_EXIT_FAILED;
}

/* LD_PRELOAD's words but this library, whatever version and folder. */
static char *without_library(const char *list) {
    char *kept = calloc(1, strlen(list) + 1);
    for (const char *at = list; kept != NULL && *at != '\0';) {
        const size_t span = strcspn(at, ": \t\n");
        const char *name = memrchr(at, '/', span);
        name = name != NULL ? name + 1 : at;
        if (span > 0 && !tug_library_is_ours(name))
            sprintf(kept + strlen(kept), "%s%.*s", kept[0] != '\0' ? ":" : "", (int)span, at);
        at += span;
        at += strspn(at, ": \t\n");
    }
    return kept;
}

/* Settings that cannot be, or leave nothing to compare, are told before anything runs. */
static int prepare_sides(struct compare *compare) {
    const char *already = getenv("LD_PRELOAD"), *switched = getenv("TUGBOAT");
    if (tug_cmd_load_settings() != 0)
        return TUG_EXIT_USAGE;
    if (!tug_settings.enabled) {
        tug_cmd_say("compare: TUGBOAT=off is in the environment, so both sides would be the host "
                    "MPI alone: take it out");
        return TUG_EXIT_USAGE;
    }
    compare->preloads[TUG_WITHOUT] = without_library(already != NULL ? already : "");
    compare->switched = switched != NULL ? strdup(switched) : NULL;
    int argc = 0;
    while (compare->report.argv[argc] != NULL)
        argc++;
    const int status = tug_library_enter(argc, compare->report.argv);
    if (status != 0)
        return status == TUG_LIBRARY_NONE ? TUG_EXIT_FAILED : status;
    compare->preloads[TUG_WITH] = strdup(getenv("LD_PRELOAD"));
    if (compare->preloads[TUG_WITHOUT] == NULL || compare->preloads[TUG_WITH] == NULL)
        return fail("no memory");
    return 0;
}

/* The environment of the next run. False: there is no memory for it. */
static bool set_side(const struct compare *compare, enum tug_compare_side side, bool counts) {
    const char *preload = compare->preloads[side];
    const char *switched = side == TUG_WITHOUT ? "off" : compare->switched;
    const int error =
        (preload[0] != '\0' ? setenv("LD_PRELOAD", preload, 1) : unsetenv("LD_PRELOAD")) |
        (switched != NULL ? setenv("TUGBOAT", switched, 1) : unsetenv("TUGBOAT")) |
        (counts ? setenv("TUGBOAT_STATS", "1", 1) : unsetenv("TUGBOAT_STATS"));
    return error == 0;
}

/* ---- input and output ---- */

/* Every run reads a file from where it stands; what can be read once only, no run reads. */
static bool open_input(struct compare *compare) {
    struct stat input;
    if (fstat(STDIN_FILENO, &input) == 0 && S_ISREG(input.st_mode)) {
        compare->files.in = STDIN_FILENO;
        compare->input_begin = lseek(STDIN_FILENO, 0, SEEK_CUR);
        return true;
    }
    compare->files.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return compare->files.in >= 0;
}

/* A file of the user's folder, or one without a name. */
static int open_output(const struct compare *compare, enum tug_compare_side side, int number,
                       const char *suffix) {
    char path[PATH_MAX];
    const int flags = O_RDWR | O_CLOEXEC | O_APPEND;
    if (compare->options.output != NULL) {
        snprintf(path, sizeof path, "%s/%s-%d.%s", compare->options.output, side_names[side],
                 number, suffix);
        return open(path, flags | O_CREAT | O_TRUNC, 0666);
    }
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/tugboat-XXXXXX", folder != NULL ? folder : P_tmpdir);
    const int file = mkostemp(path, O_CLOEXEC | O_APPEND);
    if (file >= 0)
        unlink(path);
    return file;
}

static bool open_outputs(struct compare *compare, enum tug_compare_side side, int number) {
    compare->files.out = open_output(compare, side, number, "out");
    compare->files.err = open_output(compare, side, number, "err");
    return compare->files.out >= 0 && compare->files.err >= 0;
}

static void close_outputs(struct compare *compare) {
    if (compare->files.out >= 0)
        close(compare->files.out);
    if (compare->files.err >= 0)
        close(compare->files.err);
}

/* The end of a file, or all of it (most_bytes negative). */
static void copy(int file, FILE *to, off_t most_bytes) {
    char text[8192];
    const off_t size = lseek(file, 0, SEEK_END);
    off_t at = most_bytes >= 0 && size > most_bytes ? size - most_bytes : 0;
    for (ssize_t got; (got = pread(file, text, sizeof text, at)) > 0; at += got)
        fwrite(text, 1, (size_t)got, to);
    fflush(to);
}

/* Takes the last block of counters (base/stats.h): its lines are columns, and end with one that is
 * none. */
static void read_counters(struct compare *compare) {
    char *text = calloc(1, READ_FOR_COUNTERS + 1), *block = NULL;
    const off_t size = lseek(compare->files.err, 0, SEEK_END);
    const off_t at = size > READ_FOR_COUNTERS ? size - READ_FOR_COUNTERS : 0;
    if (text != NULL && pread(compare->files.err, text, READ_FOR_COUNTERS, at) > 0)
        for (char *next = text; (next = strstr(next, " statistics, ")) != NULL; next++)
            block = next;
    if (block != NULL && (block = strchr(block, '\n')) != NULL) {
        char *end = ++block;
        for (char *gap; (gap = strstr(end, "  ")) != NULL && gap < strchrnul(end, '\n');) {
            end = strchrnul(end, '\n');
            end += *end == '\n';
        }
        compare->report.counters = strndup(block, (size_t)(end - block));
    }
    free(text);
}

/* ---- runs ---- */

static void tell_run(const struct compare *compare, enum tug_compare_side side, bool counts,
                     const char *how) {
    fprintf(stderr, "# run %d of %d, %s Tugboat%s: %s\n", compare->done,
            2 * compare->options.runs + 1, side_names[side],
            counts ? ", which counts what it took" : "", how);
}

/* Notes that a run failed, and shows the end of what it wrote unless it is shown already. */
static void note_failure(struct compare *compare, enum tug_compare_side side,
                         const struct tug_run *run, bool shown) {
    char *how = compare->report.failure[side];
    compare->report.failed[side] = true;
    if (WIFSIGNALED(run->status))
        snprintf(how, sizeof compare->report.failure[side], "run %d is killed by signal %d (%s)",
                 compare->done, WTERMSIG(run->status), strsignal(WTERMSIG(run->status)));
    else
        snprintf(how, sizeof compare->report.failure[side], "run %d ends with exit status %d",
                 compare->done, WEXITSTATUS(run->status));
    if (shown)
        return;
    fflush(stdout);
    copy(compare->files.out, stderr, SHOWN_OF_FAILURES);
    copy(compare->files.err, stderr, SHOWN_OF_FAILURES);
}

/* Takes in what a run has brought. 0, or the exit status that ends it all. */
static int judge_run(struct compare *compare, enum tug_compare_side side, bool counts,
                     const struct tug_run *run) {
    char how[64];
    if (run->exec_error != 0)
        return tug_cmd_cannot_run(compare->report.argv[0], run->exec_error);
    if (compare->done == 1) {
        copy(compare->files.out, stdout, -1);
        copy(compare->files.err, stderr, -1);
    }
    if (run->signal != 0) {
        tug_cmd_say("compare: broken off by a signal (%s) in run %d of %d, %s Tugboat; the "
                    "program has been ended",
                    strsignal(run->signal), compare->done, 2 * compare->options.runs + 1,
                    side_names[side]);
        return 128 + run->signal;
    }
    snprintf(how, sizeof how, "%.4g s, CPU %.4g s", run->wall_s, run->cpu_s);
    const char *failing = compare->done == 1 ? "it fails" : "it fails; the end of what it wrote:";
    tell_run(compare, side, counts, run->status == 0 ? how : failing);
    if (run->status != 0)
        note_failure(compare, side, run, compare->done == 1);
    else if (counts)
        read_counters(compare);
    return 0;
}

/* `number` counts the side's runs; a failure is in the report. */
static int do_run(struct compare *compare, enum tug_compare_side side, int number, bool counts) {
    struct tug_run run;
    int status = 0;
    compare->done++;
    if (!open_outputs(compare, side, number))
        status = fail("cannot open a file for the program's output");
    else if (!set_side(compare, side, counts))
        status = fail("cannot set the environment");
    else if (compare->files.in == STDIN_FILENO &&
             lseek(STDIN_FILENO, compare->input_begin, SEEK_SET) < 0)
        status = fail("cannot go back in the input");
    else if (tug_run(compare->report.argv, &compare->files, &run) != 0)
        status = fail("cannot start a process");
    else
        status = judge_run(compare, side, counts, &run);
    close_outputs(compare);
    if (status != 0 || counts)
        return status;
    compare->report.wall_s[side][number - 1] = run.wall_s;
    compare->report.cpu_s[side][number - 1] = run.cpu_s;
    return 0;
}

static bool any_failed(const struct compare *compare) {
    return compare->report.failed[TUG_WITHOUT] || compare->report.failed[TUG_WITH];
}

/* All runs, or until one fails: then the other side has had a run as well. */
static int do_runs(struct compare *compare) {
    for (int pair = 0; pair < compare->options.runs && !any_failed(compare); pair++) {
        for (int turn = 0; turn < TUG_NSIDES; turn++) {
            const enum tug_compare_side side = (pair + turn) % 2 == 0 ? TUG_WITHOUT : TUG_WITH;
            const int status = do_run(compare, side, pair + 1, false);
            if (status != 0)
                return status;
        }
    }
    return any_failed(compare) ? 0 : do_run(compare, TUG_WITH, compare->options.runs + 1, true);
}

/* ---- the end ---- */

/* Of a copy: the values stay in the order of the runs. */
static struct tug_interval interval_of(const double values[], int n) {
    struct tug_interval interval = {0};
    double *ordered = malloc((size_t)n * sizeof *ordered);
    if (ordered != NULL) {
        memcpy(ordered, values, (size_t)n * sizeof *ordered);
        interval = tug_interval_of(ordered, n);
    }
    free(ordered);
    return interval;
}

static void judge(struct compare *compare) {
    struct tug_comparison *report = &compare->report;
    for (int side = 0; side < TUG_NSIDES; side++) {
        report->wall.sides[side] = interval_of(report->wall_s[side], report->runs);
        report->cpu.sides[side] = interval_of(report->cpu_s[side], report->runs);
        report->busy[side] = report->cpu.sides[side].median / report->wall.sides[side].median;
    }
    tug_change_judge(&report->wall);
    tug_change_judge(&report->cpu);
}

static int write_reports(const struct compare *compare, FILE *json) {
    tug_compare_print(stdout, &compare->report);
    fflush(stdout);
    if (json != NULL) {
        tug_compare_print_json(json, &compare->report);
        if (fflush(json) != 0)
            return fail(compare->options.json);
    }
    return 0;
}

static int exit_status(const struct tug_comparison *report) {
    static const int statuses[] = {0, TUG_EXIT_SAME, TUG_EXIT_WORSE};
    if (report->failed[TUG_WITHOUT])
        return TUG_EXIT_FAILS_WITHOUT;
    return report->failed[TUG_WITH] ? TUG_EXIT_FAILS_WITH : statuses[report->wall.outcome];
}

static int compare_all(struct compare *compare, FILE *json) {
    struct tug_comparison *report = &compare->report;
    for (int side = 0; side < TUG_NSIDES; side++) {
        report->wall_s[side] = calloc((size_t)compare->options.runs, sizeof(double));
        report->cpu_s[side] = calloc((size_t)compare->options.runs, sizeof(double));
        if (report->wall_s[side] == NULL || report->cpu_s[side] == NULL)
            return fail("no memory");
    }
    if (!open_input(compare) || tug_run_prepare() != 0)
        return fail("cannot prepare the runs");
    int status = do_runs(compare);
    if (status != 0)
        return status;
    if (!any_failed(compare))
        judge(compare);
    status = write_reports(compare, json);
    return status != 0 ? status : exit_status(report);
}

/* What would be in vain after hours of runs is found out before. */
static int compare_into_files(struct compare *compare) {
    const struct options *options = &compare->options;
    FILE *json = NULL;
    if (options->output != NULL && mkdir(options->output, 0777) != 0 && errno != EEXIST)
        return fail(options->output);
    if (options->json != NULL && (json = fopen(options->json, "we")) == NULL)
        return fail(options->json);
    const int status = compare_all(compare, json);
    if (json != NULL)
        fclose(json);
    return status;
}

int tug_cmd_compare(int argc, char **argv) {
    struct compare compare = {.options.runs = RUNS_DEFAULT};
    int first = 0;
    /* getopt_long() takes the first for the command's name */
    char **arguments = argv - 1;
    int status = parse(&compare.options, argc + 1, arguments, &first);
    compare.report.argv = arguments + first;
    if (status == 0)
        status = prepare_sides(&compare);
    compare.report.runs = compare.options.runs;
    if (status == 0)
        status = compare_into_files(&compare);
    for (int side = 0; side < TUG_NSIDES; side++) {
        free(compare.report.wall_s[side]);
        free(compare.report.cpu_s[side]);
        free(compare.preloads[side]);
    }
    free(compare.switched);
    free(compare.report.counters);
    return status;
}
