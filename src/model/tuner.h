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
 * does not know this machine, and all that are not hopeless are tried, both by the model alone and
 * with experience. All that is over after TUG_TUNER_RUNS runs.
 *
 * All ranks must take the same candidate in the same run. What to run depends on the number of
 * runs and on what the ranks have agreed upon, nothing else: before a run for which
 * tug_tuner_must_agree() is true all ranks bring their votes, and the largest of each is told to
 * tug_tuner_agreed() on every rank. That happens twice at most.
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

#define TUG_TUNER_RUNS 30 /* it has settled by then */
#define TUG_TUNER_WARM 4  /* runs before that are not counted, if there is but one prediction */
#define TUG_TUNER_LOOKS 3 /* runs of each at first */
#define TUG_TUNER_TRY 9   /* runs of each that is tried, at most */
#define TUG_TUNER_GAIN 1.03
#define TUG_TUNER_WRONG 2.0 /* a prediction is wrong beyond this factor */
#define TUG_TUNER_NEAR                                                                             \
    1.5 /* a candidate slower than the first by a smaller factor is always tried */
#define TUG_TUNER_HOPELESS 5.0 /* one slower by a greater factor is never tried */

struct tug_tuner {
    struct tug_candidate candidates[TUG_CANDIDATES_MOST]; /* the fastest first */
    uint32_t ncandidates;
    uint32_t nblind;                  /* further ways, numbered from ncandidates on */
    double measured_s[TUG_WAYS_MOST]; /* medians; 0: not measured */
    uint32_t current;                 /* the candidate of the next run */
    uint32_t warm;                    /* runs to come that are not counted */
    bool follows;                     /* the last run was of the same candidate */
    uint32_t runs;                    /* of each */
    uint32_t wanted;                  /* runs of each before the ranks agree */
    double times_s[TUG_WAYS_MOST][TUG_TUNER_TRY];
    double limit; /* candidates slower than the first by more are not tried */
    bool trying;
    bool settled; /* nothing is measured any more */
};

/* candidates[0 .. ncandidates) and nblind are set. */
void tug_tuner_init(struct tug_tuner *tuner);

/* True if the run that is about to start wants the ranks' agreement first. */
bool tug_tuner_must_agree(const struct tug_tuner *tuner);

/* What this rank brings to it. */
void tug_tuner_vote(const struct tug_tuner *tuner, double votes[TUG_WAYS_MOST]);

/* The largest vote of all ranks, one by one. */
void tug_tuner_agreed(struct tug_tuner *tuner, const double votes[TUG_WAYS_MOST]);

/* True if it matters how long the next run takes. */
bool tug_tuner_counts(const struct tug_tuner *tuner);

/* A run of the current candidate has taken so long on this rank, if it counts; not called when
 * settled. */
void tug_tuner_note(struct tug_tuner *tuner, double seconds);

#endif
