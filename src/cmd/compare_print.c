/*
 * The report of `tugboat compare`: for people, and as JSON. See compare.h.
 */
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/compare.h"
#include "tugboat/tugboat.h"

static const char *const side_names[TUG_NSIDES] = {"without", "with"};
static const char *const outcomes[] = {"less", "same", "more"};
static const char *const judgements[] = {"better", "same", "worse"};

/* ---- for people ---- */

static const char *interval_name(const struct tug_comparison *c) {
    return c->runs < 6 ? "range" : "95 % interval of the median";
}

static void print_change(FILE *out, const char *name, const struct tug_change *change) {
    const struct tug_interval *a = &change->sides[TUG_WITHOUT], *b = &change->sides[TUG_WITH];
    char without[64], with[64];
    snprintf(without, sizeof without, "%.4g s (%.4g to %.4g)", a->median, a->low, a->high);
    snprintf(with, sizeof with, "%.4g s (%.4g to %.4g)", b->median, b->low, b->high);
    fprintf(out, "  %-10s %-34s %-34s %s", name, without, with, outcomes[change->outcome]);
    if (change->outcome != TUG_SAME)
        fprintf(out, ": %+.1f %% (%+.1f to %+.1f)", 100 * change->share, 100 * change->low,
                100 * change->high);
    fprintf(out, "\n");
}

/* Rows of the block that are not zero. */
static void print_counters(FILE *out, const struct tug_comparison *c) {
    if (c->counters == NULL) {
        fprintf(out,
                "The library counted nothing in a run that asks it to: it is not in the ranks, "
                "or they end without MPI_Finalize. See docs/troubleshooting.md.\n");
        return;
    }
    fprintf(out, "What it took and did, from one more run that was not timed:\n");
    for (const char *line = c->counters; *line != '\0';) {
        const int length = (int)strcspn(line, "\n");
        double count;
        if (sscanf(line, "%*s %lf", &count) != 1 || count > 0)
            fprintf(out, "%.*s\n", length, line);
        line += length + (line[length] == '\n');
    }
}

static void print_command(FILE *out, const struct tug_comparison *c) {
    for (char **word = c->argv; *word != NULL; word++)
        fprintf(out, " %s", *word);
    fprintf(out, "\n");
}

/* Which side failed, how, and whose matter that is. */
static void print_failures(FILE *out, const struct tug_comparison *c) {
    const char *with = c->failure[TUG_WITH];
    if (c->failed[TUG_WITHOUT])
        fprintf(out,
                "The program fails without the library: %s. With it, it %s%s. Nothing is compared: "
                "mend the command or the program first.\n",
                c->failure[TUG_WITHOUT], c->failed[TUG_WITH] ? "fails as well: " : "ends well",
                c->failed[TUG_WITH] ? with : "");
    else
        fprintf(out,
                "The program fails with the library only: %s. Nothing is compared: "
                "docs/troubleshooting.md says what to look for.\n",
                with);
}

void tug_compare_print(FILE *out, const struct tug_comparison *c) {
    fprintf(out, "tugboat %s compare, %d runs each, taking turns:", tug_version(), c->runs);
    print_command(out, c);
    if (c->failed[TUG_WITHOUT] || c->failed[TUG_WITH]) {
        print_failures(out, c);
        return;
    }
    fprintf(out, "  medians, and the %s\n", interval_name(c));
    fprintf(out, "  %-10s %-34s %-34s %s\n", "", "without Tugboat", "with Tugboat", "with it");
    print_change(out, "wall time", &c->wall);
    print_change(out, "CPU time", &c->cpu);
    fprintf(out, "  %-10s %-34.2f %.2f\n", "cores busy", c->busy[TUG_WITHOUT], c->busy[TUG_WITH]);
    fprintf(out, "CPU time is that of all processes on this machine that the command started and "
                 "that ended within a second of it; other machines' is not in it.\n");
    print_counters(out, c);
    fprintf(out, "%s: the wall time is %s.\n", judgements[c->wall.outcome],
            c->wall.outcome == TUG_SAME   ? "the same"
            : c->wall.outcome == TUG_LESS ? "less with Tugboat"
                                          : "more with Tugboat");
}

/* ---- JSON ---- */

static void json_side(FILE *out, const char *name, const struct tug_interval *interval,
                      const double *values, int n) {
    fprintf(out, "\"%s\": {\"median\": %.6g, \"low\": %.6g, \"high\": %.6g, \"values\": [", name,
            interval->median, interval->low, interval->high);
    for (int i = 0; i < n; i++)
        fprintf(out, "%s%.6g", i > 0 ? ", " : "", values[i]);
    fprintf(out, "]}");
}

static void json_change(FILE *out, const char *name, const struct tug_change *change,
                        double *const values[TUG_NSIDES], int n) {
    fprintf(out, "  \"%s\": {\n", name);
    for (int side = 0; side < TUG_NSIDES; side++) {
        fprintf(out, "    ");
        json_side(out, side_names[side], &change->sides[side], values[side], n);
        fprintf(out, ",\n");
    }
    fprintf(out, "    \"change\": %.4g, \"change_low\": %.4g, \"change_high\": %.4g, ",
            change->share, change->low, change->high);
    fprintf(out, "\"outcome\": \"%s\"\n  },\n", outcomes[change->outcome]);
}

static void json_failures(FILE *out, const struct tug_comparison *c) {
    fprintf(out, "  \"failures\": {");
    for (int side = 0; side < TUG_NSIDES; side++) {
        fprintf(out, "%s\"%s\": ", side > 0 ? ", " : "", side_names[side]);
        if (c->failed[side])
            tug_print_string(c->failure[side], out);
        else
            fprintf(out, "null");
    }
    fprintf(out, "}\n");
}

void tug_compare_print_json(FILE *out, const struct tug_comparison *c) {
    const char *outcome = c->failed[TUG_WITHOUT] ? "fails without"
                          : c->failed[TUG_WITH]  ? "fails with"
                                                 : judgements[c->wall.outcome];
    fprintf(out, "{\n  \"tugboat\": \"%s\",\n  \"command\": [", tug_version());
    for (char **word = c->argv; *word != NULL; word++) {
        fprintf(out, "%s", word > c->argv ? ", " : "");
        tug_print_string(*word, out);
    }
    fprintf(out, "],\n  \"runs\": %d,\n  \"outcome\": \"%s\",\n", c->runs, outcome);
    if (c->failed[TUG_WITHOUT] || c->failed[TUG_WITH]) {
        json_failures(out, c);
    } else {
        json_change(out, "wall_s", &c->wall, c->wall_s, c->runs);
        json_change(out, "cpu_s", &c->cpu, c->cpu_s, c->runs);
        fprintf(out, "  \"interval\": \"%s\",\n", c->runs < 6 ? "range" : "95 %");
        fprintf(out, "  \"cores_busy\": {\"without\": %.4g, \"with\": %.4g},\n",
                c->busy[TUG_WITHOUT], c->busy[TUG_WITH]);
        fprintf(out, "  \"counters\": ");
        if (c->counters != NULL)
            tug_print_string(c->counters, out);
        else
            fprintf(out, "null");
        fprintf(out, "\n");
    }
    fprintf(out, "}\n");
}
