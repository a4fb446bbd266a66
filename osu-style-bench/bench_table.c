/* bench_table.c: the rows a benchmark prints, readable or as CSV (see bench.h).
 *
 * Invariant: cells come in the order of the columns; the last one of a row ends the line and
 * flushes, so that a run which dies later has still shown what it measured.
 * Threading: rank 0's main thread only; other ranks' calls do nothing.
 */
#include "bench.h"

#include <stdio.h>
#include <string.h>

static const struct bench_column *columns;
static int ncolumns;
static int next_column;

static void end_cell(void) {
    if (++next_column < ncolumns) {
        if (bench.csv)
            putchar(',');
        return;
    }
    next_column = 0;
    putchar('\n');
    fflush(stdout);
}

static int column_width(const struct bench_column *column) {
    int width = (int)strlen(column->name) + 2;
    return width < 14 ? 14 : width;
}

/* Text to the left, numbers to the right, as OSU's tables have it. */
static void put_text(const struct bench_column *column, const char *text) {
    if (bench.csv)
        printf("%s", text);
    else if (column->decimals < 0)
        printf("%-*s", column_width(column) + 4, text);
    else
        printf("%*s", column_width(column), text);
}

void bench_table_begin(const struct bench_column new_columns[], int n) {
    static const char *const role[] = {"key:", "lower:", "higher:", "wrong:", ""};
    if (bench.rank != 0)
        return;
    columns = new_columns;
    ncolumns = n;
    next_column = 0;
    for (int i = 0; i < n; i++) {
        if (bench.csv)
            printf("%s%s", role[columns[i].role], columns[i].name);
        else
            put_text(&columns[i], columns[i].name);
        end_cell();
    }
}

void bench_cell(double value) {
    char text[40];
    if (bench.rank != 0)
        return;
    const struct bench_column *column = &columns[next_column];
    snprintf(text, sizeof text, "%.*f", column->decimals < 0 ? 0 : column->decimals, value);
    put_text(column, text);
    end_cell();
}

void bench_cell_text(const char *text) {
    if (bench.rank != 0)
        return;
    put_text(&columns[next_column], text);
    end_cell();
}

void bench_cell_medians(double *const samples[], size_t n, int nsamples) {
    for (size_t i = 0; i < n; i++) {
        bench_sort(samples[i], nsamples);
        bench_cell(bench_median(samples[i], nsamples));
    }
}
