/*
 * What the figures of `tugboat compare` mean. See compare.h.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/compare.h"

/* ---- an interval for the median ---- */

static int order(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* How many values may be left away at either end, so that the median is still between the rest in
 * 95 of 100 cases: it is not if less than so many fall on one side of it, each with a chance of one
 * half. */
static int trimmed(int n) {
    double chance = ldexp(1, -n), outside = 2 * chance;
    int k = 0;
    while (k < n / 2 && outside + 2 * chance * (n - k) / (k + 1) <= 0.05) {
        chance *= (double)(n - k) / (k + 1);
        outside += 2 * chance;
        k++;
    }
    return k;
}

struct tug_interval tug_interval_of(double values[], int n) {
    qsort(values, (size_t)n, sizeof *values, order);
    const int k = trimmed(n);
    return (struct tug_interval){.median = (values[(n - 1) / 2] + values[n / 2]) / 2,
                                 .low = values[k],
                                 .high = values[n - 1 - k]};
}

static double share(double with, double without) {
    return without > 0 ? with / without - 1 : 0;
}

void tug_change_judge(struct tug_change *change) {
    const struct tug_interval *without = &change->sides[TUG_WITHOUT];
    const struct tug_interval *with = &change->sides[TUG_WITH];
    change->share = share(with->median, without->median);
    change->low = share(with->low, without->high);
    change->high = share(with->high, without->low);
    if (fabs(change->share) < TUG_VERDICT_LEAST_SHARE ||
        (with->low <= without->high && without->low <= with->high))
        change->outcome = TUG_SAME;
    else
        change->outcome = change->share < 0 ? TUG_LESS : TUG_MORE;
}

/* ---- settings ---- */

#define WAITS_MUCH 0.1   /* share of the run: less is not worth a setting */
#define ENGINE_MUCH 0.05 /* of the run, in the offload thread */
#define MANY_CALLS 200   /* of a rank: what TUGBOAT_COLLECTIVES needs to decide */
#define LITTLE_IDLE 0.2  /* cores */
#define NEARLY_ALL 0.9   /* of the cores */

/* One row of the table below: true if the figures speak for it, with the reason. */
typedef bool speaks(const struct tug_circumstances *c, char *why, size_t why_bytes);

static double waiting(const struct tug_circumstances *c) {
    return c->report->elapsed_s > 0 ? tug_verdict_waiting_s(c->report) / c->report->elapsed_s : 0;
}

/* Counting starts the engine. Without it, nothing does in a program that has ordinary collectives
 * only, and they are the host's. */
static bool for_collectives(const struct tug_circumstances *c, char *why, size_t why_bytes) {
    const struct tug_verdict_report *r = c->report;
    const double blocking = r->elapsed_s > 0 ? r->time_s[TUG_TIME_BLOCKING] / r->elapsed_s : 0;
    const double passed = r->ranks > 0 ? r->collectives_passed / r->ranks : 0;
    const double left = r->engine_called_for ? passed : passed + r->collectives;
    snprintf(why, why_bytes,
             "a rank makes %.0f collective calls, which may be the host MPI's without it, and %.0f "
             "%% of "
             "its run is in calls that wait",
             left, 100 * blocking);
    return blocking >= WAITS_MUCH && left >= MANY_CALLS && 2 * left > passed + r->collectives;
}

static bool for_polite(const struct tug_circumstances *c, char *why, size_t why_bytes) {
    snprintf(
        why, why_bytes,
        "other programs kept %.1f cores of this machine busy, and %.1f were idle; a rank waits "
        "for %.0f %% of the run, and no wait gave the core away",
        c->others, c->idle, 100 * waiting(c));
    return c->idle >= 0 && c->idle < LITTLE_IDLE && c->others >= LITTLE_IDLE &&
           waiting(c) >= WAITS_MUCH && c->report->outside_waits < 1;
}

static bool for_native(const struct tug_circumstances *c, char *why, size_t why_bytes) {
    snprintf(why, why_bytes,
             "the run is longer, %.0f waits of a rank gave the core away, and only %.1f of %d "
             "cores were busy",
             c->report->outside_waits, c->busy, c->cores);
    return c->wall == TUG_MORE && c->report->outside_waits >= MANY_CALLS &&
           c->busy < NEARLY_ALL * c->cores;
}

static bool for_caller(const struct tug_circumstances *c, char *why, size_t why_bytes) {
    const struct tug_verdict_report *r = c->report;
    const double engine = r->elapsed_s > 0 ? r->engine_cpu_s / r->elapsed_s : 0;
    snprintf(why, why_bytes,
             "the run is longer, no core is to spare, and the offload thread takes %.0f %% of one; "
             "only where no rank has to answer while it computes",
             100 * engine);
    return c->wall == TUG_MORE && engine >= ENGINE_MUCH && c->busy >= NEARLY_ALL * c->cores;
}

int tug_compare_suggest(const struct tug_circumstances *circumstances,
                        bool (*is_set)(const char *name),
                        struct tug_suggestion suggestions[TUG_SUGGESTIONS]) {
    static const struct {
        const char *name, *setting;
        speaks *speaks;
    } rows[TUG_SUGGESTIONS] = {
        {"TUGBOAT_COLLECTIVES", "TUGBOAT_COLLECTIVES=on", for_collectives},
        {"TUGBOAT_WAIT", "TUGBOAT_WAIT=polite", for_polite},
        {"TUGBOAT_WAIT", "TUGBOAT_WAIT=native", for_native},
        {"TUGBOAT_PROGRESS", "TUGBOAT_PROGRESS=caller", for_caller},
    };
    int n = 0;
    for (int i = 0; circumstances->report != NULL && i < TUG_SUGGESTIONS; i++) {
        struct tug_suggestion *s = &suggestions[n];
        if (!is_set(rows[i].name) && rows[i].speaks(circumstances, s->why, sizeof s->why))
            suggestions[n++].setting = rows[i].setting;
    }
    return n;
}
