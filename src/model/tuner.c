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

/* The next candidate worth a trial after `after`; ncandidates if there is none. */
static uint32_t next_to_try(const struct tug_tuner *tuner, uint32_t after) {
    uint32_t next = after + 1;
    while (next < tuner->ncandidates &&
           tuner->candidates[next].seconds > tuner->limit * tuner->candidates[0].seconds)
        next++;
    return next;
}

bool tug_tuner_must_agree(const struct tug_tuner *tuner) {
    if (tuner->settled || tuner->runs < runs_wanted(tuner))
        return false;
    return !tuner->trying || next_to_try(tuner, tuner->current) == tuner->ncandidates;
}

void tug_tuner_note(struct tug_tuner *tuner, double seconds) {
    tuner->times_s[tuner->runs++] = seconds;
    if (tuner->runs < runs_wanted(tuner))
        return;
    tuner->measured_s[tuner->current] = median(tuner->times_s, tuner->runs);
    if (!tuner->trying)
        return;
    uint32_t next = next_to_try(tuner, tuner->current);
    if (next == tuner->ncandidates)
        return;
    tuner->current = next;
    tuner->runs = 0;
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
        tuner->current = other;
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
