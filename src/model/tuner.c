#include "model/tuner.h"

#include <string.h>

static uint32_t ways(const struct tug_tuner *tuner) {
    return tuner->ncandidates + tuner->nblind;
}

/* tried[] and ntried are set. */
static void begin_round(struct tug_tuner *tuner, uint32_t turns, uint32_t row, uint32_t unheeded) {
    tuner->turns = turns;
    tuner->row = row;
    tuner->unheeded = unheeded;
    tuner->turn = tuner->place = tuner->of_row = 0;
    tuner->row_s = 0;
    tuner->current = tuner->tried[0];
    tuner->settled = false;
}

static bool is_worth_a_trial(const struct tug_tuner *tuner, uint32_t i) {
    return tuner->candidates[i].seconds <= tuner->limit * tuner->candidates[0].seconds;
}

/* The first, and of the rest those that are worth it, and all blind ones. */
static void take_in(struct tug_tuner *tuner, bool others) {
    tuner->ntried = 0;
    for (uint32_t i = 0; i < ways(tuner); i++)
        if (i == 0 || i >= tuner->ncandidates || (others && is_worth_a_trial(tuner, i)))
            tuner->tried[tuner->ntried++] = i;
}

void tug_tuner_init(struct tug_tuner *tuner) {
    const bool runs_twice = tuner->ncandidates == 1 && tuner->nblind > 0;
    memset(tuner->measured_s, 0, sizeof(tuner->measured_s));
    memset(tuner->votes, 0, sizeof(tuner->votes));
    memset(tuner->samples_s, 0, sizeof(tuner->samples_s));
    tuner->runs = 0;
    tuner->rest = TUG_TUNER_NEVER;
    tuner->stage = TUG_TUNER_LOOKING;
    tuner->limit = TUG_TUNER_NEAR;
    tuner->warm = tuner->ncandidates == 1 ? TUG_TUNER_WARM : 0;
    take_in(tuner, false);
    begin_round(tuner, TUG_TUNER_LOOKS, runs_twice ? 2 : 1, runs_twice);
}

void tug_tuner_note(struct tug_tuner *tuner, double seconds) {
    tuner->runs++;
    if (tuner->warm > 0) {
        tuner->warm--;
        return;
    }
    if (tuner->of_row >= tuner->unheeded)
        tuner->row_s += seconds;
    if (++tuner->of_row < tuner->row)
        return;
    tuner->samples_s[tuner->turn * tuner->ntried + tuner->place] =
        tuner->row_s / (tuner->row - tuner->unheeded);
    tuner->row_s = 0;
    tuner->of_row = 0;
    if (++tuner->place == tuner->ntried) {
        tuner->place = 0;
        tuner->turn++;
    }
    tuner->current = tuner->tried[tuner->place];
}

void tug_tuner_vote(const struct tug_tuner *tuner, double votes[TUG_TUNER_SAMPLES]) {
    memcpy(votes, tuner->samples_s, sizeof(tuner->samples_s));
}

/* ---- what the ranks have agreed upon ---- */

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

static void take_medians(struct tug_tuner *tuner, const double samples[TUG_TUNER_SAMPLES]) {
    double own[TUG_TUNER_SAMPLES];
    for (uint32_t place = 0; place < tuner->ntried; place++) {
        for (uint32_t turn = 0; turn < tuner->turns; turn++)
            own[turn] = samples[turn * tuner->ntried + place];
        tuner->measured_s[tuner->tried[place]] = median(own, tuner->turns);
    }
}

/* Begins to try all that are worth it. False: there are none but those that have been looked at. */
static bool try_others(struct tug_tuner *tuner) {
    const uint32_t looked_at = tuner->ntried;
    const double measured = tuner->measured_s[0], predicted = tuner->candidates[0].seconds;
    if (measured > TUG_TUNER_WRONG * predicted || predicted > TUG_TUNER_WRONG * measured)
        tuner->limit = TUG_TUNER_HOPELESS;
    take_in(tuner, true);
    if (tuner->ntried == looked_at)
        return false;
    const uint32_t left = (TUG_TUNER_RUNS - 1 - TUG_TUNER_LOOKS * looked_at) / tuner->ntried;
    tuner->stage = TUG_TUNER_TRYING;
    begin_round(tuner, left < TUG_TUNER_TRY ? left : TUG_TUNER_TRY, 1, 0);
    return true;
}

static void note_votes(struct tug_tuner *tuner) {
    double least = tuner->measured_s[tuner->tried[0]];
    for (uint32_t place = 1; place < tuner->ntried; place++)
        if (tuner->measured_s[tuner->tried[place]] < least)
            least = tuner->measured_s[tuner->tried[place]];
    for (uint32_t place = 0; place < tuner->ntried && least > 0; place++) {
        double *votes = tuner->votes[tuner->tried[place]];
        memmove(votes + 1, votes, (TUG_TUNER_VOTES - 1) * sizeof(*votes));
        votes[0] = tuner->measured_s[tuner->tried[place]] / least;
    }
}

/* How much slower than the fastest. */
static double verdict(const struct tug_tuner *tuner, uint32_t i) {
    double votes[TUG_TUNER_VOTES];
    memcpy(votes, tuner->votes[i], sizeof(votes));
    return votes[TUG_TUNER_VOTES - 1] > 0 ? median(votes, TUG_TUNER_VOTES) : votes[0];
}

static bool is_measured(const struct tug_tuner *tuner, uint32_t i) {
    return tuner->votes[i][0] > 0;
}

static void take_fastest(struct tug_tuner *tuner) {
    double least = 0;
    for (uint32_t i = 0; i < ways(tuner); i++) {
        const double slower = verdict(tuner, i) * (i < tuner->ncandidates ? 1 : TUG_TUNER_GAIN);
        if (!is_measured(tuner, i) || (least > 0 && slower >= least))
            continue;
        tuner->current = i;
        least = slower;
    }
}

/* ---- the next round ---- */

/* The one nearest to the fastest that is not taken in. ways(): there is none. */
static uint32_t nearest_left(const struct tug_tuner *tuner) {
    uint32_t nearest = ways(tuner);
    for (uint32_t i = 0; i < ways(tuner); i++) {
        bool in = !is_measured(tuner, i);
        for (uint32_t place = 0; place < tuner->ntried; place++)
            in |= tuner->tried[place] == i;
        if (!in && (nearest == ways(tuner) || verdict(tuner, i) < verdict(tuner, nearest)))
            nearest = i;
    }
    return nearest;
}

static uint32_t row_after(const struct tug_tuner *tuner, uint64_t rest) {
    return tuner->runs + rest < TUG_TUNER_OLD ? TUG_TUNER_ROW : TUG_TUNER_LONG_ROW;
}

/* The current one, and all that are worth it after so many runs. */
static void take_in_again(struct tug_tuner *tuner, uint64_t rest) {
    const uint64_t runs = TUG_TUNER_TURNS * row_after(tuner, rest); /* of each */
    double costs_left = TUG_TUNER_COST + (double)rest / TUG_TUNER_COST_SHARE;
    uint32_t next;
    tuner->tried[0] = tuner->current;
    tuner->ntried = 1;
    while ((next = nearest_left(tuner)) < ways(tuner)) {
        const double slower = verdict(tuner, next) / verdict(tuner, tuner->current) - 1;
        costs_left -= slower > 0 ? (double)runs * slower : 0;
        if (costs_left < 0 || (tuner->ntried + 1) * runs > rest)
            break;
        tuner->tried[tuner->ntried++] = next;
    }
}

static uint64_t usual_rest(const struct tug_tuner *tuner) {
    const double period = TUG_TUNER_PERIOD_S / tuner->measured_s[tuner->current];
    uint64_t next = TUG_TUNER_AGAIN;
    while (next <= tuner->runs)
        next *= 2;
    const uint64_t rest = next - tuner->runs;
    if (period >= (double)rest)
        return rest;
    return period > TUG_TUNER_AGAIN ? (uint64_t)period : TUG_TUNER_AGAIN;
}

/* The round comes later if there is nothing that it would pay to try by then. */
static void plan_round(struct tug_tuner *tuner) {
    tuner->rest = usual_rest(tuner);
    take_in_again(tuner, tuner->rest);
    while (tuner->ntried == 1 && nearest_left(tuner) < ways(tuner) &&
           tuner->rest < TUG_TUNER_NEVER / 4) {
        tuner->rest *= 2;
        take_in_again(tuner, tuner->rest);
    }
    if (tuner->ntried == 1)
        tuner->rest = TUG_TUNER_NEVER;
}

void tug_tuner_agreed(struct tug_tuner *tuner, const double votes[TUG_TUNER_SAMPLES]) {
    take_medians(tuner, votes);
    if (tuner->stage == TUG_TUNER_LOOKING && try_others(tuner))
        return;
    note_votes(tuner);
    take_fastest(tuner);
    plan_round(tuner);
    tuner->stage = TUG_TUNER_RETRYING;
    tuner->settled = true;
}

void tug_tuner_resume(struct tug_tuner *tuner) {
    const uint32_t row = row_after(tuner, tuner->rest);
    tuner->runs += tuner->rest;
    begin_round(tuner, TUG_TUNER_TURNS, row, row / 4);
}
