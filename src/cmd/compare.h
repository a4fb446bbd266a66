/*
 * `tugboat compare`: what a program takes without the library and with it.
 *
 * compare.c lets the runs take turns, compare_run.c does one of them, compare_judge.c tells what
 * the figures mean (no system calls, no MPI), compare_print.c prints and writes them. One thread.
 */
#ifndef TUG_CMD_COMPARE_H
#define TUG_CMD_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#define TUG_COMPARE_RUNS_LEAST 2
#define TUG_COMPARE_RUNS_MOST 1000

/* ---- one run ---- */

/* Where a run's output goes and its input comes from: open files, the caller's. */
struct tug_run_files {
    int in, out, err;
};

struct tug_run {
    double wall_s;  /* from the start of the command to its end */
    double cpu_s;   /* of all processes that have ended, user and system, on this machine */
    int status;     /* as waitpid(2) has it */
    int exec_error; /* errno, where the command could not be executed; else 0 */
    int signal;     /* that ended the comparing; else 0 */
};

/* To be called once before the first run: from then on SIGINT, SIGTERM and SIGHUP end the run, and
 * what a run leaves behind comes to this process. 0, or -1 and errno. */
int tug_run_prepare(void);

/* Runs argv to its end, in a process group of its own. After a failure, and after a signal (which
 * is passed on first), none of its processes on this machine is left. 0, or -1 and errno. */
int tug_run(char *const argv[], const struct tug_run_files *files, struct tug_run *run);

/* ---- what the figures mean ---- */

enum tug_compare_side { TUG_WITHOUT, TUG_WITH, TUG_NSIDES };

/* The median of some runs, and where it is: the range of all of them, or of six runs or more the
 * interval that holds it in 95 of 100 cases, from the order of the values alone. */
struct tug_interval {
    double median, low, high;
};

/* values are put in order. */
struct tug_interval tug_interval_of(double values[], int n);

enum tug_compare_outcome { TUG_LESS, TUG_SAME, TUG_MORE };

/* Same: the intervals overlap, or the medians differ by less than a hundredth. */
struct tug_change {
    struct tug_interval sides[TUG_NSIDES];
    double share, low, high; /* with the library, against without: 0.1 is a tenth more */
    enum tug_compare_outcome outcome;
};
void tug_change_judge(struct tug_change *change);

/* ---- the report ---- */

struct tug_comparison {
    char **argv;
    int runs;                                       /* of each side */
    double *wall_s[TUG_NSIDES], *cpu_s[TUG_NSIDES]; /* in the order of the runs */
    struct tug_change wall, cpu;
    double busy[TUG_NSIDES];
    char *counters; /* the block of TUGBOAT_STATS=1, from one more run; NULL: none came */
    /* a run that failed; all above is then unknown but argv and runs */
    bool failed[TUG_NSIDES];
    char failure[TUG_NSIDES][80]; /* "exit status 3" */
};

void tug_compare_print(FILE *out, const struct tug_comparison *comparison);
void tug_compare_print_json(FILE *out, const struct tug_comparison *comparison);

#endif
