#include "model/tuner.h"

#include <string.h>

void tug_tuner_init(struct tug_tuner *tuner) {
    memset(tuner->measured_s, 0, sizeof(tuner->measured_s));
    tuner->current = 0;
    tuner->runs = 0;
    tuner->warm = tuner->ncandidates == 1 ? TUG_TUNER_WARM : 0;
    tuner->follows = false;
    tuner->wanted = TUG_TUNER_LOOKS;
    tuner->limit = TUG_TUNER_NEAR;
    tuner->trying = false;
    tuner->settled = false;
}

static uint32_t ways(const struct tug_tuner *tuner) {
    return tuner->ncandidates + tuner->nblind;
}

static double median(double *values, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) { /* a handful: by insertion */
        double value = values[i];
        uint32_t at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
    return values[(count - 1) / 2];
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

/* The next candidate of a round; ways(): the round is over. */
static uint32_t next_in_round(const struct tug_tuner *tuner, uint32_t after) {
    uint32_t next = after + 1;
    while (next < tuner->ncandidates && !(tuner->trying && is_worth_a_trial(tuner, next)))
        next++;
    return next;
}

bool tug_tuner_must_agree(const struct tug_tuner *tuner) {
    return !tuner->settled && tuner->runs == tuner->wanted;
}

bool tug_tuner_counts(const struct tug_tuner *tuner) {
    const bool runs_twice = tuner->ncandidates == 1 && tuner->nblind > 0;
    return tuner->warm == 0 && (tuner->follows || !runs_twice);
}

void tug_tuner_note(struct tug_tuner *tuner, double seconds) {
    const uint32_t next = next_in_round(tuner, tuner->current);
    if (!tug_tuner_counts(tuner)) { /* once more */
        tuner->follows = tuner->warm == 0;
        tuner->warm -= tuner->warm > 0;
        return;
    }
    tuner->follows = false;
    tuner->times_s[tuner->current][tuner->runs] = seconds;
    if (next < ways(tuner)) {
        tuner->current = next;
        return;
    }
    tuner->current = 0;
    if (++tuner->runs < tuner->wanted)
        return;
    for (uint32_t i = 0; i < ways(tuner); i = next_in_round(tuner, i))
        tuner->measured_s[i] = median(tuner->times_s[i], tuner->runs);
}

void tug_tuner_vote(const struct tug_tuner *tuner, double votes[TUG_WAYS_MOST]) {
    memcpy(votes, tuner->measured_s, sizeof(tuner->measured_s));
}

/* Begins to try all that are worth it. False: there are none but those that have been looked at. */
static bool try_others(struct tug_tuner *tuner) {
    uint32_t n = 1 + tuner->nblind, tried = n;
    tuner->trying = true;
    for (uint32_t i = 1; i < tuner->ncandidates; i++)
        n += is_worth_a_trial(tuner, i);
    if (n == tried)
        return false;
    const uint32_t left = (TUG_TUNER_RUNS - 1 - tuner->runs * tried) / n;
    tuner->runs = 0;
    tuner->wanted = left < TUG_TUNER_TRY ? left : TUG_TUNER_TRY;
    return true;
}

void tug_tuner_agreed(struct tug_tuner *tuner, const double votes[TUG_WAYS_MOST]) {
    memcpy(tuner->measured_s, votes, sizeof(tuner->measured_s));
    double measured = tuner->measured_s[0];
    double predicted = tuner->candidates[0].seconds;
    bool right = measured <= TUG_TUNER_WRONG * predicted && predicted <= TUG_TUNER_WRONG * measured;
    if (!right)
        tuner->limit = TUG_TUNER_HOPELESS;
    if (!tuner->trying && try_others(tuner))
        return;
    double least = 0;
    for (uint32_t i = 0; i < ways(tuner); i++) {
        const double seconds = tuner->measured_s[i] * (i < tuner->ncandidates ? 1 : TUG_TUNER_GAIN);
        if (seconds == 0 || (least > 0 && seconds >= least))
            continue;
        tuner->current = i;
        least = seconds;
    }
    tuner->settled = true;
}
