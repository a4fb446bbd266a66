/* versus_report.c: the comparison as a readable table, as CSV and as JSON (see versus.h).
 *
 * Every form shows failures: a command that failed in some round is named with the reason, and a
 * row that it did not deliver shows "failed" where its value would be.
 * Threading: one thread.
 */
#include "versus.h"

#include <math.h>
#include <string.h>

static void number(char *text, size_t bytes, double value) {
    if (isnan(value))
        snprintf(text, bytes, "failed");
    else
        snprintf(text, bytes, "%.*f",
                 value >= 10000 ? 0
                 : value >= 100 ? 1
                 : value >= 1   ? 2
                                : 4,
                 value);
}

static void ratio_text(char *text, size_t bytes, double ratio) {
    if (isnan(ratio))
        snprintf(text, bytes, "-");
    else
        snprintf(text, bytes, ratio >= 100 ? "x%.0f" : "x%.2f", ratio);
}

/* A key's cells in columns of their own. */
static void print_key(const char *key, FILE *to) {
    while (*key != '\0') {
        size_t length = strcspn(key, "/");
        fprintf(to, "%-14.*s", (int)length, key);
        key += length + (key[length] == '/');
    }
}

static void print_heading(const struct versus_table *table, FILE *to) {
    char text[2 * VERSUS_NAME];
    if (table->title != NULL)
        fprintf(to, "%s: ", table->title);
    fprintf(to, "%s, %s is better, medians of %d alternating rounds\n", table->value_name,
            table->higher_is_better ? "higher" : "lower", table->nrounds);
    print_key(table->key_names, to);
    for (int i = 0; i < table->ncommands; i++)
        fprintf(to, "%13s", table->commands[i].name);
    for (int i = 1; i < table->ncommands; i++) {
        snprintf(text, sizeof text, "%s is", table->commands[i].name);
        fprintf(to, "%12s", text);
    }
    fprintf(to, "\n");
}

static void print_notes(const struct versus_table *table, const struct versus_row *row, FILE *to) {
    for (int i = 0; i < table->ncommands; i++)
        if (row->nwrong[i] > 0)
            fprintf(to, "  <- %s: WRONG DATA", table->commands[i].name);
    for (int i = 1; i < table->ncommands; i++) {
        double ratio = versus_ratio(table, row, i);
        if (isnan(ratio) || ratio >= 1)
            continue;
        fprintf(to, "  <- %s is slower%s", table->commands[i].name,
                versus_ranges_overlap(row, 0, i) ? " (ranges overlap)" : "");
    }
}

static void print_failures(const struct versus_table *table, FILE *to) {
    for (int i = 0; i < table->ncommands; i++)
        if (table->commands[i].nfailures > 0)
            fprintf(to, "!! %s FAILED in %d of %d rounds: %s\n", table->commands[i].name,
                    table->commands[i].nfailures, table->nrounds, table->commands[i].failure);
}

void versus_report_text(const struct versus_table *table, FILE *to) {
    char text[40];
    print_heading(table, to);
    for (int r = 0; r < table->nrows; r++) {
        const struct versus_row *row = &table->rows[r];
        print_key(row->key, to);
        for (int i = 0; i < table->ncommands; i++) {
            number(text, sizeof text, versus_median(row, i));
            fprintf(to, "%13s", text);
        }
        for (int i = 1; i < table->ncommands; i++) {
            ratio_text(text, sizeof text, versus_ratio(table, row, i));
            fprintf(to, "%12s", text);
        }
        print_notes(table, row, to);
        fprintf(to, "\n");
    }
    print_failures(table, to);
}

static void csv_number(double value, FILE *to) {
    if (isnan(value))
        fprintf(to, ",");
    else
        fprintf(to, ",%.6g", value);
}

static void csv_ratio(const struct versus_table *table, const struct versus_row *row, int command,
                      FILE *to) {
    csv_number(versus_ratio(table, row, command), to);
    fprintf(to, ",%s", versus_ranges_overlap(row, 0, command) ? "yes" : "no");
}

void versus_report_csv(const struct versus_table *table, FILE *to) {
    fprintf(to, "title,key,value,better");
    for (int i = 0; i < table->ncommands; i++)
        fprintf(to, ",%s", table->commands[i].name);
    for (int i = 1; i < table->ncommands; i++)
        fprintf(to, ",%s_ratio,%s_overlaps", table->commands[i].name, table->commands[i].name);
    for (int i = 0; i < table->ncommands; i++)
        fprintf(to, ",%s_failures", table->commands[i].name);
    for (int i = 0; i < table->ncommands; i++)
        fprintf(to, ",%s_least,%s_most,%s_wrong", table->commands[i].name, table->commands[i].name,
                table->commands[i].name);
    fprintf(to, "\n");
    for (int r = 0; r < table->nrows; r++) {
        const struct versus_row *row = &table->rows[r];
        fprintf(to, "%s,%s,%s,%s", table->title != NULL ? table->title : "", row->key,
                table->value_name, table->higher_is_better ? "higher" : "lower");
        for (int i = 0; i < table->ncommands; i++)
            csv_number(versus_median(row, i), to);
        for (int i = 1; i < table->ncommands; i++)
            csv_ratio(table, row, i, to);
        for (int i = 0; i < table->ncommands; i++)
            fprintf(to, ",%d", table->commands[i].nfailures);
        for (int i = 0; i < table->ncommands; i++) {
            csv_number(versus_least(row, i), to);
            csv_number(versus_most(row, i), to);
            fprintf(to, ",%ld", row->nwrong[i]);
        }
        fprintf(to, "\n");
    }
}

static void json_string(const char *text, FILE *to) {
    fputc('"', to);
    for (; text != NULL && *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c < 0x20)
            fprintf(to, "\\u%04x", c);
        else
            fputc(c, to);
    }
    fputc('"', to);
}

static void json_number(double value, FILE *to) {
    if (isnan(value))
        fprintf(to, "null");
    else
        fprintf(to, "%.9g", value);
}

static void json_command(const struct versus_command *command, FILE *to) {
    fprintf(to, "{\"name\": ");
    json_string(command->name, to);
    fprintf(to, ", \"argv\": [");
    for (int i = 0; command->argv[i] != NULL; i++) {
        fprintf(to, "%s", i > 0 ? ", " : "");
        json_string(command->argv[i], to);
    }
    fprintf(to, "], \"failures\": %d, \"failure\": ", command->nfailures);
    json_string(command->failure, to);
    fprintf(to, "}");
}

static void json_row(const struct versus_table *table, const struct versus_row *row, FILE *to) {
    fprintf(to, "{\"key\": ");
    json_string(row->key, to);
    fprintf(to, ", \"medians\": [");
    for (int i = 0; i < table->ncommands; i++) {
        fprintf(to, "%s", i > 0 ? ", " : "");
        json_number(versus_median(row, i), to);
    }
    fprintf(to, "], \"ratios\": [");
    for (int i = 1; i < table->ncommands; i++) {
        fprintf(to, "%s", i > 1 ? ", " : "");
        json_number(versus_ratio(table, row, i), to);
    }
    fprintf(to, "], \"sorted_samples\": [");
    for (int i = 0; i < table->ncommands; i++) {
        fprintf(to, "%s[", i > 0 ? ", " : "");
        for (int j = 0; j < row->samples[i].n; j++) {
            fprintf(to, "%s", j > 0 ? ", " : "");
            json_number(row->samples[i].values[j], to);
        }
        fprintf(to, "]");
    }
    fprintf(to, "]}");
}

void versus_report_json(const struct versus_table *table, FILE *to) {
    fprintf(to, "{\"title\": ");
    json_string(table->title, to);
    fprintf(to, ", \"rounds\": %d, \"keys\": ", table->nrounds);
    json_string(table->key_names, to);
    fprintf(to, ", \"value\": ");
    json_string(table->value_name, to);
    fprintf(to, ", \"better\": \"%s\",\n \"commands\": [",
            table->higher_is_better ? "higher" : "lower");
    for (int i = 0; i < table->ncommands; i++) {
        fprintf(to, "%s", i > 0 ? ",\n  " : "\n  ");
        json_command(&table->commands[i], to);
    }
    fprintf(to, "],\n \"rows\": [");
    for (int i = 0; i < table->nrows; i++) {
        fprintf(to, "%s", i > 0 ? ",\n  " : "\n  ");
        json_row(table, &table->rows[i], to);
    }
    fprintf(to, "]}\n");
}
