/*
 * The verdict on one run of a program: what the library took, what that cost and saved, and in
 * plain words whether it was worth it (TUGBOAT_STATS=verdict).
 *
 * Every rank fills one record; rank 0 judges them all. Times are of the calls as the program saw
 * them: from the outermost entry to its return. What the host MPI would have taken is measured, not
 * guessed, but not on the same calls: for one-sided operations on a window of the host's at the
 * end, between ranks that do nothing else (so the least that the host would have needed, for a rank
 * that computes keeps it waiting); for persistent collectives on some of the program's own starts,
 * which take the host's way (persistent/twin.h). No MPI here.
 */
#ifndef TUG_BASE_VERDICT_H
#define TUG_BASE_VERDICT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/stats.h"

/* Kinds of calls whose time is told apart: X(NAME, "words") */
#define TUG_TIME_CLASSES(X)                                                                        \
    X(ONE_SIDED, "one-sided operations")                                                           \
    X(SYNC, "their synchronisation")                                                               \
    X(WINDOW, "windows made, freed, asked")                                                        \
    X(REQUEST, "starts, waits and tests")                                                          \
    X(BLOCKING, "calls that wait in the host")                                                     \
    X(SETUP, "persistent collectives made")

enum tug_time {
#define TUG_TIME_ONE(NAME, words) TUG_TIME_##NAME,
    TUG_TIME_CLASSES(TUG_TIME_ONE)
#undef TUG_TIME_ONE
        TUG_TIME_COUNT
};

/* One rank's run; all 64-bit integers, so that it travels as an array of them. Times in ns. */
struct tug_verdict_rank {
    uint64_t stats[TUG_STAT_COUNT];
    uint64_t time_ns[TUG_TIME_COUNT]; /* in calls of each class */
    uint64_t elapsed_ns;              /* from MPI_Init to MPI_Finalize */
    uint64_t engine_cpu_ns;           /* CPU time of the offload thread */
    uint64_t host_rma_ns;  /* what the host needs for this rank's one-sided calls; 0: none */
    uint64_t twin_runs;    /* pairs of starts compared, ours and the host's */
    uint64_t twin_own_ns;  /* time of ours, from start to completion */
    uint64_t twin_host_ns; /* time of the host's */
    uint64_t run_ns;  /* persistent collectives of ours: from start to completion, all starts */
    uint64_t call_ns; /* the part of run_ns in the calls that started and waited for them */
};
#define TUG_VERDICT_WORDS (sizeof(struct tug_verdict_rank) / sizeof(uint64_t))

enum tug_verdict_outcome { TUG_VERDICT_HELPED, TUG_VERDICT_NO_DIFFERENCE, TUG_VERDICT_HURT };

struct tug_verdict {
    enum tug_verdict_outcome outcome;
    double saved_s;     /* time saved in the run, mean over the ranks; negative: lost */
    double saved_share; /* saved_s as a share of the run without Tugboat */
    char words[400];    /* one sentence, and which setting to change */
};

/* A class took the program less than a hundredth of its run: noise. */
#define TUG_VERDICT_LEAST_SHARE 0.01

void tug_verdict_judge(const struct tug_verdict_rank ranks[], int nranks,
                       struct tug_verdict *verdict);

/* One block for people, and the same as one JSON object; nranks records. */
void tug_verdict_print(FILE *out, const struct tug_verdict_rank ranks[], int nranks);
void tug_verdict_print_json(FILE *out, const struct tug_verdict_rank ranks[], int nranks);

/* What a block for people says, of the ranks' medians. */
struct tug_verdict_report {
    int ranks;
    double elapsed_s;
    double time_s[TUG_TIME_COUNT];
    double engine_cpu_s;
    double sleeps, outside_waits;
    double collectives, collectives_passed; /* ordinary ones: a rank's, taken; all ranks', not */
    bool engine_called_for;                 /* there are windows or persistent collectives */
    char words[400];                        /* as in struct tug_verdict */
};

/* The time of them that a rank waits in. */
double tug_verdict_waiting_s(const struct tug_verdict_report *report);

/* Finds the last block that tug_verdict_print() has put into `text`, which may hold anything else,
 * also before the lines of the block. False: there is none, or it is not whole. */
bool tug_verdict_read(const char *text, struct tug_verdict_report *report);

#endif
