#include "persistent/candidates.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/stats.h"
#include "model/choose.h"
#include "persistent/channel.h"
#include "schedule/bcast.h"

#define LANDING_MOST ((size_t)128 << 20) /* of a node's shared memory, for a message to land in */

/* ---- which there are ---- */

static bool is_allowed(uint64_t bytes, const struct tug_bcast_plan *plan) {
    if (tug_settings.pipelines != TUG_PIPELINES_AUTO &&
        plan->algorithm != (enum tug_algorithm)(tug_settings.pipelines - 1))
        return false;
    if (tug_settings.phases != TUG_PHASES_AUTO)
        return plan->phases == (enum tug_phases)(tug_settings.phases - 1);
    return plan->phases != TUG_TWO_PHASE || bytes <= LANDING_MOST;
}

/* What the settings name, if they leave no choice or nothing is known to choose by. */
static struct tug_bcast_plan plan_by_settings(const struct tug_candidates *candidates,
                                              uint32_t root) {
    struct tug_bcast_plan plan = {
        .algorithm = TUG_CHAIN,
        .phases = TUG_RELAY,
        .root = root,
        .elements = candidates->bytes,
        .segment = tug_channel_segment(candidates->team, candidates->bytes, true)};
    if (tug_settings.pipelines != TUG_PIPELINES_AUTO)
        plan.algorithm = (enum tug_algorithm)(tug_settings.pipelines - 1);
    if (tug_settings.phases != TUG_PHASES_AUTO)
        plan.phases = (enum tug_phases)(tug_settings.phases - 1);
    return plan;
}

/* The fastest first by the model. */
static void choose(struct tug_candidates *candidates, uint32_t root,
                   const struct tug_model_parameters *parameters) {
    const struct tug_places *places = &candidates->team->places;
    const uint64_t bytes = candidates->bytes;
    struct tug_tuner *tuner = &candidates->tuner;
    struct tug_candidate all[TUG_CANDIDATES_MOST];
    struct tug_broadcast message = {.elements = bytes,
                                    .element_bytes = 1,
                                    .root = root,
                                    .segment_bytes = tug_settings.segment_bytes,
                                    .one_engine = tug_settings.phases == TUG_PHASES_ONE_ENGINE};
    uint32_t n = 0;
    if (parameters != NULL && places->nnodes > 1 && bytes > 0)
        n = tug_model_choose(places, &message, parameters, all);
    for (uint32_t i = 0; i < n; i++)
        if (is_allowed(bytes, &all[i].plan))
            tuner->candidates[tuner->ncandidates++] = all[i];
    if (tuner->ncandidates == 0) {
        struct tug_candidate *only = &tuner->candidates[tuner->ncandidates++];
        only->plan = plan_by_settings(candidates, root);
        only->seconds =
            parameters != NULL ? tug_model_predict(places, &only->plan, 1, parameters) : 0;
    }
    candidates->predicted = parameters != NULL;
}

static struct tug_candidates *allocate(struct tug_team *team, uint64_t bytes, bool measures) {
    struct tug_candidates *candidates = calloc(1, sizeof(*candidates));
    if (candidates == NULL)
        return NULL;
    candidates->team = team;
    candidates->bytes = bytes;
    candidates->tuner.ncandidates = 1;
    if (measures && tug_agreement_init(&candidates->agreement, team, TUG_TUNER_SAMPLES) != 0) {
        tug_candidates_free(candidates);
        return NULL;
    }
    return candidates;
}

struct tug_candidates *tug_candidates_create(struct tug_team *team, uint64_t bytes, uint32_t root,
                                             const struct tug_model_parameters *parameters,
                                             bool measures) {
    struct tug_candidates *candidates = allocate(team, bytes, measures || parameters != NULL);
    if (candidates == NULL)
        return NULL;
    candidates->broadcasts = true;
    candidates->tuner.ncandidates = 0;
    choose(candidates, root, parameters);
    return candidates;
}

struct tug_candidates *tug_candidates_one(struct tug_team *team, uint64_t bytes) {
    return allocate(team, bytes, true);
}

void tug_candidates_compare(struct tug_candidates *candidates, uint32_t others, bool host) {
    struct tug_tuner *tuner = &candidates->tuner;
    candidates->others = others;
    tuner->nblind = others + host;
    tug_tuner_init(tuner);
    tuner->settled = tuner->nblind == 0 && !candidates->predicted; /* and so it stays */
}

void tug_candidates_free(struct tug_candidates *candidates) {
    if (candidates == NULL)
        return;
    tug_agreement_fini(&candidates->agreement);
    free(candidates);
}

/* ---- which runs ---- */

/* Of a broadcast. */
static void tell_predicted(const struct tug_candidates *candidates) {
    const struct tug_tuner *tuner = &candidates->tuner;
    for (uint32_t i = 0; i < tuner->ncandidates; i++) {
        const struct tug_candidate *candidate = &tuner->candidates[i];
        if (tuner->measured_s[i] == 0)
            continue;
        tug_log(
            TUG_VERBOSE_INFO,
            "broadcast of %zu bytes by %s, %s, segments of %zu: predicted %.1f us, measured %.1f "
            "us%s",
            (size_t)candidates->bytes, tug_algorithm_name(candidate->plan.algorithm),
            tug_phases_name(candidate->plan.phases), (size_t)candidate->plan.segment,
            candidate->seconds * 1e6, tuner->measured_s[i] * 1e6,
            i == tuner->current ? ": taken" : "");
    }
}

/* Where nothing is predicted. */
static void tell_others(const struct tug_candidates *candidates) {
    const struct tug_tuner *tuner = &candidates->tuner;
    const uint32_t host = tuner->ncandidates + candidates->others;
    for (uint32_t i = candidates->predicted ? tuner->ncandidates : 0;
         i < tuner->ncandidates + tuner->nblind; i++)
        if (tuner->measured_s[i] > 0)
            tug_log(TUG_VERBOSE_INFO, "%s of %zu bytes: %s takes %.1f us%s",
                    candidates->broadcasts ? "broadcast" : "collective", (size_t)candidates->bytes,
                    i < tuner->ncandidates ? "through the ring"
                    : i < host             ? "past the ring"
                                           : "the host's",
                    tuner->measured_s[i] * 1e6, i == tuner->current ? ": taken" : "");
}

/* Tells people what has been measured: of later rounds, what has changed. */
static void settle(struct tug_candidates *candidates) {
    const struct tug_tuner *tuner = &candidates->tuner;
    const bool anew = candidates->taken != 1 + tuner->current;
    const bool first = candidates->taken == 0;
    candidates->taken = 1 + tuner->current;
    if (candidates->team->rank != 0 || !anew)
        return;
    if (candidates->predicted)
        tell_predicted(candidates);
    tell_others(candidates);
    if (!first || !candidates->predicted || tuner->current >= tuner->ncandidates)
        return;
    tug_stat_add(TUG_STAT_MODEL_PREDICTED,
                 (uint64_t)(tuner->candidates[tuner->current].seconds * 1e9));
    tug_stat_add(TUG_STAT_MODEL_MEASURED, (uint64_t)(tuner->measured_s[tuner->current] * 1e9));
}

/* Two looks at the clock are a third of a small collective: only where they are wanted. */
static double taken_s(const struct tug_candidates *candidates) {
    if (!tug_tuner_counts(&candidates->tuner))
        return 0;
    return (double)(tug_clock_ns() - candidates->started_ns) * 1e-9;
}

static struct tug_interpreter *current(struct tug_candidates *candidates,
                                       struct tug_interpreter ways[]) {
    const struct tug_tuner *tuner = &candidates->tuner;
    if (!tuner->settled && tug_tuner_counts(tuner))
        candidates->started_ns = tug_clock_ns();
    return tuner->current < tuner->ncandidates + candidates->others ? &ways[tuner->current] : NULL;
}

struct tug_interpreter *tug_candidates_first(struct tug_candidates *candidates,
                                             struct tug_interpreter ways[]) {
    struct tug_agreement *agreement = &candidates->agreement;
    if (!tug_tuner_must_agree(&candidates->tuner))
        return current(candidates, ways);
    tug_tuner_vote(&candidates->tuner, agreement->mine);
    return &agreement->interpreter;
}

bool tug_candidates_next(struct tug_candidates *candidates, struct tug_interpreter ways[],
                         struct tug_interpreter **running) {
    struct tug_tuner *tuner = &candidates->tuner;
    const struct tug_interpreter *over = *running;
    if (over != &candidates->agreement.interpreter) {
        if (!tuner->settled)
            tug_tuner_note(tuner, taken_s(candidates));
        return false;
    }
    if (over->error != MPI_SUCCESS)
        return false;
    tug_tuner_agreed(tuner, candidates->agreement.largest);
    if (tuner->settled)
        settle(candidates);
    *running = current(candidates, ways);
    return true;
}
