/* The ways in which a collective can be done, and which of them its next run takes.
 *
 * A broadcast between nodes has several schedules, which the model lists (model/choose.h); other
 * collectives have one, or two that copy in different ways (the ring's and what goes past it, which
 * no model tells apart). The host's own algorithm for the same buffers is one more way, where all
 * ranks have it. The tuner decides by what the first runs measure (model/tuner.h), all of them from
 * start to completion, and in rounds that come again. Every schedule has an interpreter of its own.
 * Before a run in which the ranks must decide together, the request runs their agreement.
 *
 * Made with the request; used by the thread that gets its run on.
 */
#ifndef TUG_PERSISTENT_CANDIDATES_H
#define TUG_PERSISTENT_CANDIDATES_H

#include "model/tuner.h"
#include "persistent/agreement.h"
#include "persistent/interpreter.h"
#include "persistent/tuning.h"

struct tug_candidates {
    struct tug_team *team;
    uint64_t bytes; /* of the message */
    bool broadcasts;
    bool predicted;  /* by the model */
    uint32_t others; /* schedules of which nothing is predicted */
    struct tug_tuner tuner;
    struct tug_agreement agreement;
    uint64_t started_ns; /* the run that is measured */
    uint32_t taken;      /* 1 + the way of the last round; 0: none yet */
};

/* At least one candidate for a broadcast of so many bytes: the same on all ranks. NULL: no memory.
 * Local. parameters: NULL: nothing is predicted. measures: even then. */
struct tug_candidates *tug_candidates_create(struct tug_team *team, uint64_t bytes, uint32_t root,
                                             const struct tug_model_parameters *parameters,
                                             bool measures);

/* The one schedule of another collective, to be measured beside others. NULL: no memory. Local. */
struct tug_candidates *tug_candidates_one(struct tug_team *team, uint64_t bytes);

void tug_candidates_free(struct tug_candidates *candidates); /* or NULL */

/* What there is besides those that are listed, on all ranks or none: schedules, whose ways come
 * behind theirs, and the host's algorithm. Once, before the first run. */
void tug_candidates_compare(struct tug_candidates *candidates, uint32_t others, bool host);

/* True if something is to be decided now. */
static inline bool tug_candidates_tune(const struct tug_candidates *candidates) {
    return candidates != NULL && !candidates->tuner.settled;
}

/* Runs to come before something is to be decided again, where nothing is now: then tell the tuner
 * to resume. TUG_TUNER_NEVER: that does not come. */
static inline uint64_t tug_candidates_rest(const struct tug_candidates *candidates) {
    return candidates != NULL ? candidates->tuner.rest : TUG_TUNER_NEVER;
}

/* What a start of the request runs: the agreement, or of `ways` that of a candidate; NULL: the
 * host's algorithm. */
struct tug_interpreter *tug_candidates_first(struct tug_candidates *candidates,
                                             struct tug_interpreter ways[]);

/* Something is over, *running. True: it was the agreement, and *running is what comes now, as
 * above. False: the request is complete. */
bool tug_candidates_next(struct tug_candidates *candidates, struct tug_interpreter ways[],
                         struct tug_interpreter **running);

#endif
