#include "model/tuner.h"

#include <string.h>

void tug_tuner_init(struct tug_tuner *tuner) {
    memset(tuner->measured_s, 0, sizeof(tuner->measured_s));
    tuner->current = 0;
    tuner->runs = 0;
    tuner->limit = TUG_TUNER_NEAR;
    tuner->trying = false;
    tuner->settled = false;
}

static uint32_t runs_wanted(const struct tug_tuner *tuner) {
    return tuner->trying ? TUG_TUNER_TRY : TUG_TUNER_TRUST;
}

static double median(double *values, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) { /* a handful: by insertion */
        double value = values[i];
        uint32_t at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
    return values[count / 2];
}

static double fastest_fitted(const struct tug_tuner *tuner) {
    double least = tuner->candidates[0].fitted_s;
    for (uint32_t i = 1; i < tuner->ncandidates; i++)
        if (tuner->candidates[i].fitted_s < least)
            least = tuner->candidates[i].fitted_s;
    return least;
}

static bool is_worth_a_trial(const struct tug_tuner *tuner, uint32_t i) {
    const struct tug_candidate *candidate = &tuner->candidates[i];
    const double fitted = fastest_fitted(tuner);
    return candidate->seconds <= tuner->limit * tuner->candidates[0].seconds ||
           (fitted > 0 && candidate->fitted_s <= tuner->limit * fitted);
}

/* The next candidate worth a trial after `after`; ncandidates if there is none. */
static uint32_t next_to_try(const struct tug_tuner *tuner, uint32_t after) {
    uint32_t next = after + 1;
    while (next < tuner->ncandidates && !is_worth_a_trial(tuner, next))
        next++;
    return next;
}

bool tug_tuner_must_agree(const struct tug_tuner *tuner) {
    return !tuner->settled && tuner->runs == runs_wanted(tuner);
}

/* The next candidate of a round; ncandidates: the round is over. */
static uint32_t next_in_round(const struct tug_tuner *tuner, uint32_t after) {
    return tuner->trying ? next_to_try(tuner, after) : tuner->ncandidates;
}

void tug_tuner_note(struct tug_tuner *tuner, double seconds) {
    const uint32_t next = next_in_round(tuner, tuner->current);
    tuner->times_s[tuner->current][tuner->runs] = seconds;
    if (next < tuner->ncandidates) {
        tuner->current = next;
        return;
    }
    tuner->current = 0;
    if (++tuner->runs < runs_wanted(tuner))
        return;
    for (uint32_t i = 0; i < tuner->ncandidates; i = next_in_round(tuner, i))
        tuner->measured_s[i] = median(tuner->times_s[i], tuner->runs);
}

void tug_tuner_vote(const struct tug_tuner *tuner, double votes[TUG_CANDIDATES_MOST]) {
    memcpy(votes, tuner->measured_s, sizeof(tuner->measured_s));
}

void tug_tuner_agreed(struct tug_tuner *tuner, const double votes[TUG_CANDIDATES_MOST]) {
    memcpy(tuner->measured_s, votes, sizeof(tuner->measured_s));
    double measured = tuner->measured_s[0];
    double predicted = tuner->candidates[0].seconds;
    bool right = measured <= TUG_TUNER_WRONG * predicted && predicted <= TUG_TUNER_WRONG * measured;
    if (!right)
        tuner->limit = TUG_TUNER_HOPELESS;
    uint32_t other = next_to_try(tuner, 0);
    if (!tuner->trying && other < tuner->ncandidates) {
        tuner->trying = true;
        tuner->runs = 0;
        return;
    }
    uint32_t best = 0;
    for (uint32_t i = 1; i < tuner->ncandidates; i++)
        if (tuner->measured_s[i] > 0 && tuner->measured_s[i] < tuner->measured_s[best])
            best = i;
    tuner->current = best;
    tuner->settled = true;
}
