/*
 * `tugboat model --paper`: equations 1 to 4 of Morie et al. with the paper's parameters, as CSV
 * and as curves like the paper's figure 10.
 */
#include "cmd/cmd.h"
#include "cmd/draw.h"
#include "cmd/model.h"
#include "model/loggp.h"

#define FIRST_BYTES 1024ull
#define LAST_BYTES (1ull << 30)
#define PPN_LEAST 2
#define PPN_MOST 4

/* Peaks that the paper's text states, of 2 to 4 ranks a node; 0: it states none. */
static const double stated_relay[] = {9, 4.5, 3};
static const double stated_two_phase[] = {22, 0, 16};

static struct tug_paper with_ranks(uint32_t ppn) {
    struct tug_paper paper = tug_paper_fx100;
    paper.ppn = ppn;
    return paper;
}

/* The paper names its unit GB/s, and does not say which. Only in thousands of MiB/s are all five
 * stated peaks met within 5 %: that is why this unit is drawn. */
enum { GB, GIB, THOUSAND_MIB, UNITS };
static const double units[UNITS] = {1e9, 1073741824, 1048576e3};

static double relay_rate(const struct tug_paper *paper, uint64_t bytes) {
    return (double)bytes / tug_paper_relay_s(paper, bytes);
}

static double two_phase_rate(const struct tug_paper *paper, uint64_t bytes) {
    return (double)bytes / tug_paper_two_phase_s(paper, bytes);
}

static void print_row(const struct tug_paper *paper, uint64_t bytes, FILE *out) {
    fprintf(out, "%u,%llu,%u,%.4f,%.4f,%.4f,%.4f\n", paper->ppn, (unsigned long long)bytes,
            tug_paper_segments(bytes), tug_paper_relay_s(paper, bytes) * 1e6,
            tug_paper_two_phase_s(paper, bytes) * 1e6, relay_rate(paper, bytes) / units[GB],
            two_phase_rate(paper, bytes) / units[GB]);
}

static void print_peak(const char *name, const struct tug_paper *paper,
                       double (*rate)(const struct tug_paper *paper, uint64_t bytes), double stated,
                       FILE *out) {
    double peak = 0;
    for (uint64_t bytes = FIRST_BYTES; bytes <= LAST_BYTES; bytes *= 2) {
        double value = rate(paper, bytes);
        peak = value > peak ? value : peak;
    }
    fprintf(out, "# peak of %s, %u ranks a node: %.2f GB/s, %.2f GiB/s, %.2f thousand MiB/s", name,
            paper->ppn, peak / units[GB], peak / units[GIB], peak / units[THOUSAND_MIB]);
    if (stated > 0)
        fprintf(out, "; the paper states %g: %+.1f, %+.1f, %+.1f %%", stated,
                (peak / units[GB] / stated - 1) * 100, (peak / units[GIB] / stated - 1) * 100,
                (peak / units[THOUSAND_MIB] / stated - 1) * 100);
    fputc('\n', out);
}

void tug_model_print_paper(FILE *out) {
    fprintf(out, "ranks_a_node,bytes,segments,relay_us,two_phase_us,relay_gb_s,two_phase_gb_s\n");
    for (uint32_t ppn = PPN_LEAST; ppn <= PPN_MOST; ppn++) {
        struct tug_paper paper = with_ranks(ppn);
        for (uint64_t bytes = FIRST_BYTES; bytes <= LAST_BYTES; bytes *= 2)
            print_row(&paper, bytes, out);
    }
    for (uint32_t ppn = PPN_LEAST; ppn <= PPN_MOST; ppn++) {
        struct tug_paper paper = with_ranks(ppn);
        print_peak("relay", &paper, relay_rate, stated_relay[ppn - PPN_LEAST], out);
        print_peak("two-phase", &paper, two_phase_rate, stated_two_phase[ppn - PPN_LEAST], out);
    }
}

static void write_points(uint32_t ppn, FILE *gnuplot) {
    struct tug_paper paper = with_ranks(ppn);
    fprintf(gnuplot, "$ranks%u << EOD\n", ppn);
    for (uint64_t bytes = FIRST_BYTES; bytes <= LAST_BYTES; bytes *= 2)
        fprintf(gnuplot, "%llu %g %g\n", (unsigned long long)bytes,
                relay_rate(&paper, bytes) / units[THOUSAND_MIB],
                two_phase_rate(&paper, bytes) / units[THOUSAND_MIB]);
    fprintf(gnuplot, "EOD\n");
}

/* Stated peaks are dashed, in the colour of their curve. */
static void write_curve(const char *name, uint32_t ppn, unsigned column, double stated,
                        FILE *gnuplot) {
    unsigned colour = (ppn - PPN_LEAST) * 2 + column - 1;
    fprintf(gnuplot,
            ", $ranks%u using 1:%u with linespoints linewidth 2 linecolor %u title '%s, %u a node'",
            ppn, column, colour, name, ppn);
    if (stated > 0)
        fprintf(gnuplot, ", %g with lines dashtype 2 linecolor %u notitle", stated, colour);
}

int tug_model_plot_paper(const char *file) {
    FILE *gnuplot = tug_draw_begin(file);
    if (gnuplot == NULL)
        return -1;
    fprintf(gnuplot, "set title 'equations 1 to 4; dashed: peaks that the paper states'\n"
                     "set logscale x 2\nset format x '%%.0b %%BB'\nset xlabel 'message'\n"
                     "set ylabel '1000 MiB/s'\nset key outside right\nset grid\nset yrange [0:]\n");
    for (uint32_t ppn = PPN_LEAST; ppn <= PPN_MOST; ppn++)
        write_points(ppn, gnuplot);
    fprintf(gnuplot, "plot NaN notitle");
    for (uint32_t ppn = PPN_LEAST; ppn <= PPN_MOST; ppn++) {
        write_curve("relay", ppn, 2, stated_relay[ppn - PPN_LEAST], gnuplot);
        write_curve("two-phase", ppn, 3, stated_two_phase[ppn - PPN_LEAST], gnuplot);
    }
    fputc('\n', gnuplot);
    return tug_draw_end(gnuplot, file);
}
