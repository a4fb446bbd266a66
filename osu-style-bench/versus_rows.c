/* versus_rows.c: from the CSV a benchmark prints to samples by key, and what follows from them
 * (see versus.h).
 *
 * The header line says what the columns are: "key:NAME" tells rows apart, "lower:NAME" or
 * "higher:NAME" is the value and which is better, "wrong:NAME" counts wrong data, any other column
 * is ignored. Lines that begin with '#' are remarks. Invariant: all outputs have the same key and
 * value columns; else they cannot be compared and are refused. Threading: one thread.
 */
#include "versus.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct layout {
    int ncolumns;
    bool is_key[VERSUS_MAX_COLUMNS];
    int value; /* column */
    int wrong; /* column, or -1 */
};

static int split(char *line, char *cells[]) {
    int n = 0;
    for (char *cell = line; cell != NULL && n < VERSUS_MAX_COLUMNS; n++) {
        cells[n] = cell;
        cell = strchr(cell, ',');
        if (cell != NULL)
            *cell++ = '\0';
    }
    return n;
}

static void append(char *to, size_t bytes, const char *text) {
    size_t length = strlen(to);
    snprintf(to + length, bytes - length, "%s%s", length > 0 ? "/" : "", text);
}

/* Returns false when the columns cannot be compared with those already known. */
static bool read_header(struct versus_table *table, char *cells[], int n, struct layout *layout) {
    char keys[VERSUS_KEY] = "";
    const char *value = NULL;
    bool higher = false;
    *layout = (struct layout){.ncolumns = n, .value = -1, .wrong = -1};
    for (int i = 0; i < n; i++) {
        if (strncmp(cells[i], "key:", 4) == 0) {
            layout->is_key[i] = true;
            append(keys, sizeof keys, cells[i] + 4);
        } else if (strncmp(cells[i], "lower:", 6) == 0 || strncmp(cells[i], "higher:", 7) == 0) {
            if (layout->value >= 0)
                return false;
            layout->value = i;
            higher = cells[i][0] == 'h';
            value = strchr(cells[i], ':') + 1;
        } else if (strncmp(cells[i], "wrong:", 6) == 0) {
            layout->wrong = i;
        }
    }
    if (value == NULL)
        return false;
    if (table->value_name[0] == '\0') {
        snprintf(table->key_names, sizeof table->key_names, "%s", keys);
        snprintf(table->value_name, sizeof table->value_name, "%s", value);
        table->higher_is_better = higher;
    }
    return strcmp(keys, table->key_names) == 0 && strcmp(value, table->value_name) == 0 &&
           higher == table->higher_is_better;
}

static struct versus_row *find_row(struct versus_table *table, const char *key) {
    for (int i = 0; i < table->nrows; i++)
        if (strcmp(table->rows[i].key, key) == 0)
            return &table->rows[i];
    if (table->nrows == VERSUS_MAX_ROWS)
        return NULL;
    struct versus_row *row = &table->rows[table->nrows++];
    snprintf(row->key, sizeof row->key, "%s", key);
    return row;
}

static bool add_sample(struct versus_table *table, int command, char *cells[],
                       const struct layout *layout) {
    char key[VERSUS_KEY] = "", *end = NULL;
    for (int i = 0; i < layout->ncolumns; i++)
        if (layout->is_key[i])
            append(key, sizeof key, cells[i]);
    double value = strtod(cells[layout->value], &end);
    if (end == cells[layout->value] || *end != '\0' || !isfinite(value))
        return false;
    struct versus_row *row = find_row(table, key);
    if (row == NULL)
        return false;
    struct versus_samples *samples = &row->samples[command];
    double *values = realloc(samples->values, ((size_t)samples->n + 1) * sizeof *values);
    if (values == NULL)
        return false;
    int at = samples->n++; /* kept sorted */
    for (; at > 0 && values[at - 1] > value; at--)
        values[at] = values[at - 1];
    values[at] = value;
    samples->values = values;
    if (layout->wrong >= 0)
        row->nwrong[command] += strtol(cells[layout->wrong], NULL, 10);
    return true;
}

int versus_rows_add(struct versus_table *table, int command, char *text, char *failure,
                    size_t failure_bytes) {
    struct layout layout = {.value = -1};
    char *cells[VERSUS_MAX_COLUMNS], *rest = NULL;
    int nrows = 0;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        bool is_header = strncmp(line, "key:", 4) == 0;
        if (line[0] == '#' || (layout.value < 0 && !is_header))
            continue;
        int n = split(line, cells);
        if (is_header) {
            if (!read_header(table, cells, n, &layout)) {
                snprintf(failure, failure_bytes, "its columns cannot be compared");
                return -1;
            }
        } else if (n == layout.ncolumns) {
            if (!add_sample(table, command, cells, &layout)) {
                snprintf(failure, failure_bytes,
                         "'%s' is no value of %s, or there are too many rows", cells[layout.value],
                         table->value_name);
                return -1;
            }
            nrows++;
        }
    }
    if (nrows == 0)
        snprintf(failure, failure_bytes, "it printed no rows");
    return nrows;
}

double versus_median(const struct versus_row *row, int command) {
    const struct versus_samples *samples = &row->samples[command];
    int n = samples->n;
    if (n == 0)
        return NAN;
    return n % 2 != 0 ? samples->values[n / 2]
                      : (samples->values[n / 2 - 1] + samples->values[n / 2]) / 2;
}

double versus_least(const struct versus_row *row, int command) {
    const struct versus_samples *samples = &row->samples[command];
    return samples->n == 0 ? NAN : samples->values[0];
}

double versus_most(const struct versus_row *row, int command) {
    const struct versus_samples *samples = &row->samples[command];
    return samples->n == 0 ? NAN : samples->values[samples->n - 1];
}

double versus_ratio(const struct versus_table *table, const struct versus_row *row, int command) {
    double base = versus_median(row, 0), other = versus_median(row, command);
    double over = table->higher_is_better ? other : base;
    double under = table->higher_is_better ? base : other;
    return under > 0 ? over / under : NAN;
}

bool versus_ranges_overlap(const struct versus_row *row, int a, int b) {
    const struct versus_samples *x = &row->samples[a], *y = &row->samples[b];
    if (x->n == 0 || y->n == 0)
        return false;
    return x->values[0] <= y->values[y->n - 1] && y->values[0] <= x->values[x->n - 1];
}
