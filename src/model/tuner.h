/* Which of its candidates a request takes: the model's choice, until measurements say otherwise.
 *
 * The first TUG_TUNER_TRUST runs take the candidate that is predicted to be fastest. If others are
 * predicted to be nearly as fast, all of these are then run in turn, TUG_TUNER_TRY times each: what
 * disturbs the machine for a while disturbs all of them. The fastest stays. If the median of the
 * first differs from its prediction by more than a factor of two, the model does not know this
 * machine, and all that are not hopeless are tried, both by the model alone and with experience.
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

#define TUG_TUNER_TRUST 20
#define TUG_TUNER_TRY 9
#define TUG_TUNER_WRONG 2.0 /* a prediction is wrong beyond this factor */
#define TUG_TUNER_NEAR                                                                             \
    1.5 /* a candidate slower than the first by a smaller factor is always tried */
#define TUG_TUNER_HOPELESS 5.0 /* one slower by a greater factor is never tried */

struct tug_tuner {
    struct tug_candidate candidates[TUG_CANDIDATES_MOST]; /* the fastest first */
    double measured_s[TUG_CANDIDATES_MOST];               /* medians; 0: not measured */
    uint32_t ncandidates;
    uint32_t current; /* the candidate of the next run */
    uint32_t runs;    /* while trying: of each */
    double times_s[TUG_CANDIDATES_MOST][TUG_TUNER_TRUST];
    double limit; /* candidates slower than the first by more are not tried */
    bool trying;
    bool settled; /* nothing is measured any more */
};

/* candidates[0 .. ncandidates) are set. */
void tug_tuner_init(struct tug_tuner *tuner);

/* True if the run that is about to start wants the ranks' agreement first. */
bool tug_tuner_must_agree(const struct tug_tuner *tuner);

/* What this rank brings to it. */
void tug_tuner_vote(const struct tug_tuner *tuner, double votes[TUG_CANDIDATES_MOST]);

/* The largest vote of all ranks, one by one. */
void tug_tuner_agreed(struct tug_tuner *tuner, const double votes[TUG_CANDIDATES_MOST]);

/* A run of the current candidate has taken so long on this rank; not called when settled. */
void tug_tuner_note(struct tug_tuner *tuner, double seconds);

#endif
