/*
 * The report of `tugboat model`: as a table and as JSON.
 */
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/model.h"

static double microseconds(double seconds) {
    return seconds * 1e6;
}

static double rate_gb_s(uint64_t bytes, double seconds) {
    return seconds > 0 ? (double)bytes / seconds * 1e-9 : 0;
}

static void size_text(uint64_t bytes, char text[24]) {
    static const char units[] = "\0KMG";
    int unit = 0;
    while (unit < 3 && bytes > 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 24, "%llu%.1s", (unsigned long long)bytes, &units[unit]);
}

static uint32_t way_of(const struct tug_bcast_plan *plan) {
    return tug_bcast_way(plan->algorithm, plan->phases);
}

/* The index of a way among a row's candidates; ncandidates: it is not among them. */
static uint32_t find(const struct tug_model_row *row, uint32_t way) {
    uint32_t i = 0;
    while (i < row->ncandidates && way_of(&row->candidates[i].plan) != way)
        i++;
    return i;
}

static void way_text(uint32_t way, char text[24]) {
    static const char *const behind[TUG_PHASES] = {"", " 2-phase", " 1-engine"};
    snprintf(text, 24, "%s%s", tug_algorithm_name(way / TUG_PHASES), behind[way % TUG_PHASES]);
}

/* ---- for people ---- */

static void print_heading(const struct tug_model_report *report, FILE *out) {
    const struct tug_model_shape *shape = &report->shape;
    fprintf(out, "%u node%s x %u rank%s", shape->nodes, shape->nodes == 1 ? "" : "s", shape->ppn,
            shape->ppn == 1 ? "" : "s");
    if (shape->torus[0] > 0)
        fprintf(out, ", torus %ux%ux%u", shape->torus[0], shape->torus[1], shape->torus[2]);
    if (report->network.kind == TUG_NETWORK_TREE)
        fprintf(out, ", fat tree with %u nodes a switch, tapered %u to 1", report->network.radix,
                report->network.taper);
    fprintf(out, "; parameters: %s%s\n", report->machine,
            report->parameters.between_is_guess && shape->nodes > 1 ? ", a guess between nodes"
                                                                    : "");
    fprintf(out, "microseconds of a broadcast, predicted:\n\n%8s", "bytes");
    for (uint32_t way = 0; way < TUG_BCAST_WAYS; way++) {
        char text[24];
        way_text(way, text);
        if (find(&report->rows[0], way) < report->rows[0].ncandidates)
            fprintf(out, " %16s", text);
    }
    fprintf(out, "   %-16s %8s %7s%s\n", "the fastest", "segment", "GB/s",
            report->simulated ? "    simulated   ratio" : "");
}

static void print_row(const struct tug_model_report *report, const struct tug_model_row *row,
                      FILE *out) {
    const struct tug_candidate *chosen = &row->candidates[0];
    char size[24], segment[24], name[24];
    size_text(row->bytes, size);
    size_text(chosen->plan.segment, segment);
    way_text(way_of(&chosen->plan), name);
    fprintf(out, "%8s", size);
    for (uint32_t way = 0; way < TUG_BCAST_WAYS; way++) {
        uint32_t i = find(row, way);
        if (i < row->ncandidates)
            fprintf(out, " %16.2f", microseconds(row->candidates[i].seconds));
    }
    fprintf(out, "   %-16s %8s %7.2f", name, segment, rate_gb_s(row->bytes, chosen->seconds));
    if (report->simulated)
        fprintf(out, " %12.2f %7.2f", microseconds(row->simulated_s[0]),
                row->simulated_s[0] > 0 ? chosen->seconds / row->simulated_s[0] : 1);
    fputc('\n', out);
}

/* Why the fastest is another than the paper's. */
static void print_one_engine(const struct tug_model_report *report, FILE *out) {
    const struct tug_model_row *row = &report->rows[report->nrows - 1];
    uint32_t relay = find(row, tug_bcast_way(TUG_TRINARY, TUG_RELAY));
    uint32_t two_phase = find(row, tug_bcast_way(TUG_TRINARY, TUG_TWO_PHASE));
    uint32_t one_engine = find(row, tug_bcast_way(TUG_TRINARY, TUG_ONE_ENGINE));
    if (one_engine == row->ncandidates || relay == row->ncandidates ||
        two_phase == row->ncandidates)
        return;
    char size[24];
    size_text(row->bytes, size);
    double one_engine_s = row->candidates[one_engine].seconds;
    double relay_s = row->candidates[relay].seconds;
    double two_phase_s = row->candidates[two_phase].seconds;
    fprintf(out,
            "\none-engine: in the paper's relay one engine copies every segment of all pipelines"
            " inside a node:\na broadcast of %s takes %.2f us",
            size, microseconds(one_engine_s));
    if (report->simulated)
        fprintf(out, " (simulated: %.2f)", microseconds(row->simulated_s[one_engine]));
    fprintf(out, ", and two-phase is %s, with %.2f.\n",
            two_phase_s < one_engine_s ? "faster" : "slower", microseconds(two_phase_s));
    if (relay_s < two_phase_s)
        fprintf(out,
                "Our relay is faster than two-phase, %.2f: it copies with as many engines as "
                "two-phase (%u), not with one,\nand while further segments arrive.\n",
                microseconds(relay_s), report->parameters.copiers);
    else
        fprintf(out, "Our relay takes %.2f: two-phase is faster here, too.\n",
                microseconds(relay_s));
}

void tug_model_print_table(const struct tug_model_report *report, FILE *out) {
    print_heading(report, out);
    for (uint32_t i = 0; i < report->nrows; i++)
        print_row(report, &report->rows[i], out);
    print_one_engine(report, out);
}

/* ---- for programs ---- */

static void print_candidate(const struct tug_model_row *row, uint32_t i, bool simulated,
                            FILE *out) {
    const struct tug_candidate *candidate = &row->candidates[i];
    fprintf(out,
            "%s\n        {\"algorithm\": \"%s\", \"phases\": \"%s\", \"segment_bytes\": %llu, "
            "\"predicted_s\": %.6g",
            i > 0 ? "," : "", tug_algorithm_name(candidate->plan.algorithm),
            tug_phases_name(candidate->plan.phases), (unsigned long long)candidate->plan.segment,
            candidate->seconds);
    if (simulated)
        fprintf(out, ", \"simulated_s\": %.6g", row->simulated_s[i]);
    fputc('}', out);
}

void tug_model_print_json(const struct tug_model_report *report, FILE *out) {
    const struct tug_model_shape *shape = &report->shape;
    fprintf(out, "{\n  \"nodes\": %u,\n  \"ppn\": %u,\n  \"torus\": [%u, %u, %u],\n", shape->nodes,
            shape->ppn, shape->torus[0], shape->torus[1], shape->torus[2]);
    fprintf(out, "  \"parameters\": ");
    tug_print_string(report->machine, out);
    fprintf(out, ",\n  \"sizes\": [");
    for (uint32_t r = 0; r < report->nrows; r++) {
        const struct tug_model_row *row = &report->rows[r];
        fprintf(out, "%s\n    {\"bytes\": %llu, \"ways\": [", r > 0 ? "," : "",
                (unsigned long long)row->bytes);
        for (uint32_t i = 0; i < row->ncandidates; i++)
            print_candidate(row, i, report->simulated, out);
        fprintf(out, "]}");
    }
    fprintf(out, "\n  ]\n}\n");
}
