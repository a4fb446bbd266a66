/*
 * The verdict: sums, sentences, two ways to print them and one to read them. See verdict.h.
 */
#include "base/verdict.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tugboat/tugboat.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *const time_names[] = {
#define TIME_NAME(NAME, words) words,
    TUG_TIME_CLASSES(TIME_NAME)};

struct call_class {
    const char *name;
    enum tug_stat taken, passed;
};
static const struct call_class classes[] = {
#define CLASS_ROW(NAME, name) {name, TUG_STAT_##NAME##_TAKEN, TUG_STAT_##NAME##_PASSED},
    TUG_STAT_CLASSES(CLASS_ROW)};

/* ---- over the ranks ---- */

struct spread {
    uint64_t least, median, most;
    double sum;
};

static int compare(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Of the word at `offset` (bytes) in every rank's record. */
static struct spread spread_of(const struct tug_verdict_rank ranks[], int nranks, size_t offset) {
    struct spread spread = {0};
    uint64_t *values = malloc((size_t)nranks * sizeof(*values));
    if (values == NULL)
        return spread;
    for (int i = 0; i < nranks; i++) {
        values[i] = *(const uint64_t *)((const char *)&ranks[i] + offset);
        spread.sum += (double)values[i];
    }
    qsort(values, (size_t)nranks, sizeof(*values), compare);
    spread.least = values[0];
    spread.median = values[nranks / 2];
    spread.most = values[nranks - 1];
    free(values);
    return spread;
}

#define SPREAD(member) spread_of(ranks, nranks, offsetof(struct tug_verdict_rank, member))
#define SPREAD_AT(array, index)                                                                    \
    spread_of(ranks, nranks,                                                                       \
              offsetof(struct tug_verdict_rank, array) + (size_t)(index) * sizeof(uint64_t))

static double sum_of(const struct tug_verdict_rank ranks[], int nranks, enum tug_stat stat) {
    return SPREAD_AT(stats, stat).sum;
}

static double over(double value, double by) {
    return by > 0 ? value / by : 0;
}

/* ---- the judgement ---- */

/* What was lost or won, in seconds of a rank (means): positive is won. */
struct balance {
    double elapsed_s;
    double rma_s, rma_host_s;   /* one-sided calls, and the host's time for them */
    double runs_s, runs_host_s; /* in calls of persistent collectives */
    double engine_s;            /* CPU of the offload thread */
    bool any;                   /* there was something to take */
};

static struct balance balance_of(const struct tug_verdict_rank ranks[], int nranks) {
    const double seconds = 1e-9 / nranks;
    struct balance b = {
        .elapsed_s = SPREAD(elapsed_ns).sum * seconds,
        .rma_s =
            (SPREAD_AT(time_ns, TUG_TIME_ONE_SIDED).sum + SPREAD_AT(time_ns, TUG_TIME_SYNC).sum) *
            seconds,
        .rma_host_s = SPREAD(host_rma_ns).sum * seconds,
        .runs_s = SPREAD(call_ns).sum * seconds,
        .engine_s = SPREAD(engine_cpu_ns).sum * seconds,
    };
    b.runs_host_s = b.runs_s;
    if (SPREAD(twin_runs).sum > 0)
        b.runs_host_s *= over(SPREAD(twin_host_ns).sum, SPREAD(twin_own_ns).sum);
    if (b.rma_host_s == 0)
        b.rma_host_s = b.rma_s;
    for (size_t i = 0; i < COUNT_OF(classes); i++)
        b.any = b.any || sum_of(ranks, nranks, classes[i].taken) > 0;
    return b;
}

/* Which setting to change, as the balance has it. */
static const char *advice(const struct balance *b) {
    if (b->rma_s - b->rma_host_s > b->runs_s - b->runs_host_s && b->rma_s > b->rma_host_s)
        return "try TUGBOAT_RMA=native, or TUGBOAT=off";
    if (b->runs_s > b->runs_host_s)
        return "try tugboat calibrate with TUGBOAT_TUNING, or TUGBOAT=off";
    return "try TUGBOAT=off";
}

void tug_verdict_judge(const struct tug_verdict_rank ranks[], int nranks,
                       struct tug_verdict *verdict) {
    const struct balance b = balance_of(ranks, nranks);
    verdict->saved_s = b.rma_host_s - b.rma_s + b.runs_host_s - b.runs_s;
    verdict->saved_share =
        over(verdict->saved_s, b.elapsed_s + (verdict->saved_s > 0 ? verdict->saved_s : 0));
    verdict->outcome = verdict->saved_share > TUG_VERDICT_LEAST_SHARE ? TUG_VERDICT_HELPED
                       : verdict->saved_share < -TUG_VERDICT_LEAST_SHARE
                           ? TUG_VERDICT_HURT
                           : TUG_VERDICT_NO_DIFFERENCE;
    const int percent = (int)(100 * verdict->saved_share + (verdict->saved_share < 0 ? -0.5 : 0.5));
    if (verdict->outcome == TUG_VERDICT_HELPED)
        snprintf(verdict->words, sizeof(verdict->words),
                 "helped: the host MPI would have needed at least %.2g s more, %d %% of the run; "
                 "leave the settings as they are",
                 verdict->saved_s, percent);
    else if (verdict->outcome == TUG_VERDICT_HURT)
        snprintf(verdict->words, sizeof(verdict->words),
                 "hurt: %.2g s were lost, %d %% of the run; %s", -verdict->saved_s, -percent,
                 advice(&b));
    else if (!b.any)
        snprintf(verdict->words, sizeof(verdict->words),
                 "made no difference: the program makes no call that it takes; leave it away");
    else
        snprintf(verdict->words, sizeof(verdict->words),
                 "made no difference: less than %g %% of the run either way; no setting to change",
                 100 * TUG_VERDICT_LEAST_SHARE);
}

/* ---- printing ---- */

static void print_seconds(FILE *out, const char *name, struct spread s, const char *help) {
    fprintf(out, "  %-28s %10.4f %10.4f %10.4f  %s\n", name, (double)s.least * 1e-9,
            (double)s.median * 1e-9, (double)s.most * 1e-9, help);
}

static void print_calls(FILE *out, const struct tug_verdict_rank ranks[], int nranks) {
    fprintf(out, "  %-28s %10s %10s %10s  %s\n", "calls taken", "least", "median", "most",
            "passed on, all ranks");
    for (size_t i = 0; i < COUNT_OF(classes); i++) {
        const struct spread taken = SPREAD_AT(stats, classes[i].taken);
        const double passed = sum_of(ranks, nranks, classes[i].passed);
        if (taken.sum + passed > 0)
            fprintf(out, "  %-28s %10" PRIu64 " %10" PRIu64 " %10" PRIu64 "  %.0f\n",
                    classes[i].name, taken.least, taken.median, taken.most, passed);
    }
}

static void print_times(FILE *out, const struct tug_verdict_rank ranks[], int nranks) {
    fprintf(out, "  %-28s %10s %10s %10s\n", "seconds of a rank", "least", "median", "most");
    print_seconds(out, "the whole run", SPREAD(elapsed_ns), "");
    for (int i = 0; i < TUG_TIME_COUNT; i++)
        if (SPREAD_AT(time_ns, i).sum > 0)
            print_seconds(out, time_names[i], SPREAD_AT(time_ns, i), "");
    print_seconds(out, "CPU of the engine's thread", SPREAD(engine_cpu_ns), "");
    if (SPREAD(host_rma_ns).sum > 0)
        print_seconds(out, "one-sided, by the host MPI", SPREAD(host_rma_ns),
                      "at least: between ranks that do nothing else");
}

static void print_count(FILE *out, const char *name, struct spread s) {
    fprintf(out, "  %-28s %10" PRIu64 " %10" PRIu64 " %10" PRIu64 "\n", name, s.least, s.median,
            s.most);
}

static void print_counts(FILE *out, const struct tug_verdict_rank ranks[], int nranks) {
    fprintf(out, "  %-28s %10s %10s %10s\n", "counts of a rank", "least", "median", "most");
    print_count(out, "sleeps", SPREAD_AT(stats, TUG_STAT_PARKS));
    print_count(out, "wakes", SPREAD_AT(stats, TUG_STAT_WAKES));
    print_count(out, "wakes of the engine's thread", SPREAD_AT(stats, TUG_STAT_OFFLOAD_WAKES));
    print_count(out, "polite waits for the host", SPREAD_AT(stats, TUG_STAT_OUTSIDE_WAITS));
    print_count(out, "packets", SPREAD_AT(stats, TUG_STAT_PACKETS));
    print_count(out, "operations in packets", SPREAD_AT(stats, TUG_STAT_OPERATIONS));
    print_count(out, "flushes combined", SPREAD_AT(stats, TUG_STAT_FLUSHES_COMBINED));
}

static void print_engine(FILE *out, const struct tug_verdict_rank ranks[], int nranks) {
    const double packets = sum_of(ranks, nranks, TUG_STAT_PACKETS);
    const double predicted = sum_of(ranks, nranks, TUG_STAT_MODEL_PREDICTED);
    const double measured = sum_of(ranks, nranks, TUG_STAT_MODEL_MEASURED);
    const struct spread runs = SPREAD(run_ns), calls = SPREAD(call_ns), twins = SPREAD(twin_runs);
    fprintf(out,
            "  windows, all ranks: %.0f direct (ranks of one node map each other), %.0f packet "
            "(several nodes, or memory of the program's), %.0f native (asked for, or not all "
            "ranks could)\n",
            sum_of(ranks, nranks, TUG_STAT_DIRECT_WINDOWS),
            sum_of(ranks, nranks, TUG_STAT_PACKET_WINDOWS),
            sum_of(ranks, nranks, TUG_STAT_NATIVE_WINDOWS));
    if (packets > 0)
        fprintf(out, "  operations in a packet: %.1f\n",
                (sum_of(ranks, nranks, TUG_STAT_OPERATIONS)) / packets);
    if (runs.sum > 0)
        fprintf(out,
                "  persistent collectives: %.0f %% of their time beside the program's own work\n",
                calls.sum < runs.sum ? 100 * (1 - calls.sum / runs.sum) : 0);
    if (twins.sum > 0)
        fprintf(out, "  the host MPI needs %.3g times as long for these (%.0f starts compared)\n",
                over(SPREAD(twin_host_ns).sum, SPREAD(twin_own_ns).sum), twins.sum);
    if (predicted > 0 && measured > 0)
        fprintf(out, "  broadcasts took %.2g times what the model predicted\n",
                measured / predicted);
}

void tug_verdict_print(FILE *out, const struct tug_verdict_rank ranks[], int nranks) {
    struct tug_verdict verdict;
    tug_verdict_judge(ranks, nranks, &verdict);
    fprintf(out, "tugboat %s verdict, %d rank%s\n", tug_version(), nranks, nranks == 1 ? "" : "s");
    print_calls(out, ranks, nranks);
    print_times(out, ranks, nranks);
    print_counts(out, ranks, nranks);
    print_engine(out, ranks, nranks);
    fprintf(out, "  Tugboat %s.\n", verdict.words);
    fflush(out);
}

static void json_spread(FILE *out, const char *name, struct spread s, const char *end) {
    fprintf(out,
            "    \"%s\": {\"least\": %" PRIu64 ", \"median\": %" PRIu64 ", \"most\": %" PRIu64
            ", \"sum\": %.0f}%s\n",
            name, s.least, s.median, s.most, s.sum, end);
}

void tug_verdict_print_json(FILE *out, const struct tug_verdict_rank ranks[], int nranks) {
    static const char *const outcomes[] = {"helped", "no difference", "hurt"};
    static const struct {
        const char *name;
        size_t offset;
    } times[] = {
#define MEMBER(member) {#member, offsetof(struct tug_verdict_rank, member)}
        MEMBER(elapsed_ns),  MEMBER(engine_cpu_ns), MEMBER(host_rma_ns), MEMBER(twin_runs),
        MEMBER(twin_own_ns), MEMBER(twin_host_ns),  MEMBER(run_ns),      MEMBER(call_ns),
    };
    struct tug_verdict verdict;
    tug_verdict_judge(ranks, nranks, &verdict);
    fprintf(out, "{\n  \"tugboat\": \"%s\",\n  \"ranks\": %d,\n  \"outcome\": \"%s\",\n",
            tug_version(), nranks, outcomes[verdict.outcome]);
    fprintf(out, "  \"saved_s\": %g,\n  \"saved_share\": %g,\n  \"words\": \"%s\",\n",
            verdict.saved_s, verdict.saved_share, verdict.words);
    fprintf(out, "  \"counters\": {\n");
    for (int i = 0; i < TUG_STAT_COUNT; i++)
        json_spread(out, tug_stat_name((enum tug_stat)i), SPREAD_AT(stats, i),
                    i + 1 < TUG_STAT_COUNT ? "," : "");
    fprintf(out, "  },\n  \"calls_ns\": {\n");
    for (int i = 0; i < TUG_TIME_COUNT; i++)
        json_spread(out, time_names[i], SPREAD_AT(time_ns, i), i + 1 < TUG_TIME_COUNT ? "," : "");
    fprintf(out, "  },\n  \"times\": {\n");
    for (size_t i = 0; i < COUNT_OF(times); i++)
        json_spread(out, times[i].name, spread_of(ranks, nranks, times[i].offset),
                    i + 1 < COUNT_OF(times) ? "," : "");
    fprintf(out, "  }\n}\n");
    fflush(out);
}

/* ---- reading ---- */

/* The figures behind a name that begins a line of ours: how many of the four there are. */
static int find_row(const char *block, const char *name, double figures[4]) {
    char begin[40];
    snprintf(begin, sizeof(begin), "  %-28s ", name);
    const char *at = strstr(block, begin);
    memset(figures, 0, 4 * sizeof(*figures));
    return at == NULL ? 0
                      : sscanf(at + strlen(begin), "%lf %lf %lf %lf", &figures[0], &figures[1],
                               &figures[2], &figures[3]);
}

static double median_in(const char *block, const char *name) {
    double figures[4];
    (void)find_row(block, name, figures);
    return figures[1];
}

/* The last header: what the program prints before it does not matter. */
static const char *find_block(const char *text, int *ranks) {
    static const char header[] = " verdict, ";
    const char *block = NULL;
    for (const char *at = text; (at = strstr(at, header)) != NULL; at += strlen(header))
        if (sscanf(at + strlen(header), "%d rank", ranks) == 1 && *ranks > 0)
            block = at;
    return block;
}

static bool read_words(const char *block, char words[], size_t words_bytes) {
    static const char begin[] = "  Tugboat ";
    const char *at = strstr(block, begin);
    if (at == NULL)
        return false;
    at += strlen(begin);
    size_t length = strcspn(at, "\n");
    length -= length > 0 && at[length - 1] == '.';
    snprintf(words, words_bytes, "%.*s", (int)length, at);
    return true;
}

double tug_verdict_waiting_s(const struct tug_verdict_report *report) {
    return report->time_s[TUG_TIME_SYNC] + report->time_s[TUG_TIME_REQUEST] +
           report->time_s[TUG_TIME_BLOCKING];
}

bool tug_verdict_read(const char *text, struct tug_verdict_report *report) {
    double figures[4];
    int ranks = 0;
    const char *block = find_block(text, &ranks);
    *report = (struct tug_verdict_report){.ranks = ranks};
    if (block == NULL || !read_words(block, report->words, sizeof(report->words)) ||
        find_row(block, "the whole run", figures) < 3)
        return false;
    report->elapsed_s = figures[1];
    for (int i = 0; i < TUG_TIME_COUNT; i++)
        report->time_s[i] = median_in(block, time_names[i]);
    report->engine_cpu_s = median_in(block, "CPU of the engine's thread");
    report->sleeps = median_in(block, "sleeps");
    report->outside_waits = median_in(block, "polite waits for the host");
    report->engine_called_for = median_in(block, "window") + median_in(block, "persistent") > 0;
    (void)find_row(block, "collective", figures);
    report->collectives = figures[1];
    report->collectives_passed = figures[3];
    return true;
}
