/* versus.h: the parts of versus, the program that runs commands alternately and compares their
 * rows.
 *
 * versus_run.c runs a command under a time limit, versus_rows.c turns what it printed into
 * samples, versus_report.c prints them side by side, versus.c has the command line and the
 * verdict.
 * A row is known by its key: the cells of its key columns, joined by '/'. The first command is the
 * baseline; a ratio above 1 says that the other command is better.
 * Threading: one thread.
 */
#ifndef OSU_STYLE_BENCH_VERSUS_H
#define OSU_STYLE_BENCH_VERSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { VERSUS_MAX_COMMANDS = 8, VERSUS_MAX_COLUMNS = 32, VERSUS_MAX_ROWS = 1024 };
enum { VERSUS_NAME = 64, VERSUS_KEY = 160 };

struct versus_command {
    const char *name;
    char **argv;       /* NULL-terminated */
    int nfailures;     /* rounds that failed, ran out of time or printed no rows */
    char failure[400]; /* why the last of them did */
};

struct versus_samples {
    double *values;
    int n;
};

struct versus_row {
    char key[VERSUS_KEY];
    struct versus_samples samples[VERSUS_MAX_COMMANDS];
    long nwrong[VERSUS_MAX_COMMANDS]; /* words, over all rounds */
};

struct versus_table {
    const char *title;
    int nrounds;
    struct versus_command commands[VERSUS_MAX_COMMANDS];
    int ncommands;
    char key_names[VERSUS_KEY]; /* joined like a key */
    char value_name[VERSUS_NAME];
    bool higher_is_better;
    struct versus_row rows[VERSUS_MAX_ROWS];
    int nrows;
};

/* Runs argv with an empty stdin. Returns its stdout, for the caller to free, or NULL with the
 * reason in `failure`: it could not be started, exited with another status than 0, was killed by a
 * signal, or ran longer than timeout_s; then its whole process group is killed. */
char *versus_run(char *const argv[], double timeout_s, char *failure, size_t failure_bytes);

/* Kills what versus_run() is running, from a signal handler. */
void versus_run_kill(void);

/* Adds the rows of a command's output to the table. Returns how many, or -1 with the reason in
 * `failure`: the columns differ from those of another output, or a value is no number. */
int versus_rows_add(struct versus_table *table, int command, char *text, char *failure,
                    size_t failure_bytes);

/* The range of a row's samples, or NaN when there are none. */
double versus_least(const struct versus_row *row, int command);
double versus_most(const struct versus_row *row, int command);

/* The median of a row's samples, or NaN when there are none. */
double versus_median(const struct versus_row *row, int command);

/* How many times better than the baseline, or NaN. */
double versus_ratio(const struct versus_table *table, const struct versus_row *row, int command);

/* True when neither command's samples are all better than all of the other's. */
bool versus_ranges_overlap(const struct versus_row *row, int a, int b);

void versus_report_text(const struct versus_table *table, FILE *to);
void versus_report_csv(const struct versus_table *table, FILE *to);
void versus_report_json(const struct versus_table *table, FILE *to);

#endif
