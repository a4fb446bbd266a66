/* Which of its candidates a request takes: the model's choice, until measurements say otherwise.
 *
 * Candidates are predicted by the model or *blind*: another way to copy, and the host's own
 * algorithm, of which nothing is predicted. The first runs look at the candidate that is predicted
 * to be fastest, and at all blind ones, in turns. If others are predicted to be nearly as fast as
 * the first, all of these are then tried, in turns too: what disturbs the machine for a while
 * disturbs all of them. Where there is time for it each runs twice in a row, and the second is
 * counted, which finds the caches as the candidate itself leaves them. The fastest stays; a blind
 * one must be faster by TUG_TUNER_GAIN to stay.
 * If the median of the first differs from its prediction by more than a factor of two, the model
 * does not know this machine, and all that are not hopeless are tried. That is settled after
 * TUG_TUNER_RUNS runs.
 *
 * A few milliseconds say little of a machine, on which two ranks may share a core just then. So
 * those that were tried are *tried again*, by rows of runs, after 64, 128, 256, ... runs, and at
 * least every TUG_TUNER_PERIOD_S of them. A round takes in those nearest to the fastest, as long as
 * what they cost is small beside the runs since the last one; a slow one has to wait for its next
 * chance. How much slower each is than the fastest of its round is its vote of that round, and of
 * its last three votes the middle one holds: what has been disturbed once does not decide, and what
 * has changed for good decides after two rounds. The first round is the shortest and the least
 * sure: the second overrules it.
 *
 *     run   1       30   64       128         256              512        ...
 *           looks, tries  |round   |round      |round           |round
 *
 * All ranks must take the same candidate in the same run. What to run depends on the number of
 * runs and on what the ranks have agreed upon, nothing else: before a run for which
 * tug_tuner_must_agree() is true all ranks bring what they have measured, and the largest of each
 * measurement is told to tug_tuner_agreed() on every rank: a run takes as long as on the slowest.
 * That happens twice at most until it has settled first, and once in a later round.
 *
 * Pure; one thread at a time.
 */
#ifndef TUG_MODEL_TUNER_H
#define TUG_MODEL_TUNER_H

#include <stdbool.h>
#include <stdint.h>

#include "model/choose.h"

#define TUG_BLIND_MOST 2
#define TUG_WAYS_MOST (TUG_CANDIDATES_MOST + TUG_BLIND_MOST)

#define TUG_TUNER_RUNS 30 /* it has settled by then, first */
#define TUG_TUNER_WARM 4  /* runs before that are not counted, if there is but one prediction */
#define TUG_TUNER_LOOKS 3 /* runs of each at first */
#define TUG_TUNER_TRY 9   /* runs of each that is tried, at most */
#define TUG_TUNER_GAIN 1.03
#define TUG_TUNER_WRONG 2.0 /* a prediction is wrong beyond this factor */
#define TUG_TUNER_NEAR                                                                             \
    1.5 /* a candidate slower than the first by a smaller factor is always tried */
#define TUG_TUNER_HOPELESS 5.0 /* one slower by a greater factor is never tried */

#define TUG_TUNER_AGAIN 64      /* runs before the first are tried again */
#define TUG_TUNER_PERIOD_S 0.25 /* of runs, at most, from one round to the next */
#define TUG_TUNER_TURNS 2       /* rows of runs of each in such a round */
#define TUG_TUNER_ROW 4         /* runs in a row, of which the first is not counted */
#define TUG_TUNER_LONG_ROW 8    /* the same from TUG_TUNER_OLD runs on, and the first two */
#define TUG_TUNER_OLD 512
#define TUG_TUNER_COST 4.0      /* runs of the fastest that a round may cost, */
#define TUG_TUNER_COST_SHARE 32 /* and so much of the runs before it */
#define TUG_TUNER_VOTES 3       /* of a candidate that are remembered */
#define TUG_TUNER_NEVER UINT64_MAX

/* What is measured in a round, at most: a number for each turn of each candidate. */
#define TUG_TUNER_SAMPLES                                                                          \
    (TUG_TUNER_TURNS * TUG_WAYS_MOST > TUG_TUNER_RUNS ? TUG_TUNER_TURNS * TUG_WAYS_MOST            \
                                                      : TUG_TUNER_RUNS)

struct tug_tuner {
    struct tug_candidate candidates[TUG_CANDIDATES_MOST]; /* the fastest first */
    uint32_t ncandidates;
    uint32_t nblind;  /* further ways, numbered from ncandidates on */
    uint32_t current; /* the candidate of the next run */
    bool settled;     /* nothing is measured, until the next round */
    uint64_t runs;    /* so far */
    uint64_t rest;    /* runs from settling to the next round; TUG_TUNER_NEVER: there is none */
    double measured_s[TUG_WAYS_MOST]; /* medians of the last round of each; 0: not measured */
    /* times the fastest of the round, the newest first; 0: none */
    double votes[TUG_WAYS_MOST][TUG_TUNER_VOTES];

    /* the round */
    enum { TUG_TUNER_LOOKING, TUG_TUNER_TRYING, TUG_TUNER_RETRYING } stage;
    double limit;                  /* candidates slower than the first by more are not tried */
    uint32_t warm;                 /* runs to come that are not counted */
    uint32_t tried[TUG_WAYS_MOST]; /* these, in this order, */
    uint32_t ntried;
    uint32_t turns;               /* so often, */
    uint32_t row;                 /* each so often in a row, */
    uint32_t unheeded;            /* the first of which are not counted */
    uint32_t turn, place, of_row; /* where it stands */
    double row_s;
    double samples_s[TUG_TUNER_SAMPLES]; /* means of rows, in the order of the runs */
};

/* candidates[0 .. ncandidates) and nblind are set. */
void tug_tuner_init(struct tug_tuner *tuner);

/* True if the run that is about to start wants the ranks' agreement first. */
static inline bool tug_tuner_must_agree(const struct tug_tuner *tuner) {
    return !tuner->settled && tuner->turn == tuner->turns;
}

/* What this rank brings to it. */
void tug_tuner_vote(const struct tug_tuner *tuner, double votes[TUG_TUNER_SAMPLES]);

/* The largest vote of all ranks, one by one. */
void tug_tuner_agreed(struct tug_tuner *tuner, const double votes[TUG_TUNER_SAMPLES]);

/* True if it matters how long the next run takes. */
static inline bool tug_tuner_counts(const struct tug_tuner *tuner) {
    return tuner->warm == 0 && tuner->of_row >= tuner->unheeded;
}

/* A run of the current candidate has taken so long on this rank, if it counts; not called when
 * settled. */
void tug_tuner_note(struct tug_tuner *tuner, double seconds);

/* It has settled, and `rest` runs have been made since: another round begins. */
void tug_tuner_resume(struct tug_tuner *tuner);

#endif
