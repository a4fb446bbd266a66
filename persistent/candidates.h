/* The ways in which a broadcast can go from node to node and inside of them, and which of them its
 * next run takes.
 *
 * The model lists them (model/choose.h); the tuner decides, after some twenty runs by what was
 * measured (model/tuner.h). Every candidate has an interpreter of its own. Before a run in which
 * the ranks must decide together, the request runs their agreement.
 *
 * Made with the request; used by the holder of the baton when the request runs.
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
    struct tug_tuner tuner;
    struct tug_agreement agreement;
    uint64_t started_ns; /* the run that is measured */
};

/* At least one candidate for a broadcast of so many bytes: the same on all ranks. NULL: no memory.
 * Local. */
struct tug_candidates *tug_candidates_create(struct tug_team *team, uint64_t bytes, uint32_t root,
                                             const struct tug_knowledge *known);
void tug_candidates_free(struct tug_candidates *candidates); /* or NULL */

/* What a start of the request runs: the agreement, or of `ways` that of a candidate. */
struct tug_interpreter *tug_candidates_first(struct tug_candidates *candidates,
                                             struct tug_interpreter ways[]);

/* What it runs after one that is over, or NULL: the request is complete. */
struct tug_interpreter *tug_candidates_next(struct tug_candidates *candidates,
                                            struct tug_interpreter ways[],
                                            const struct tug_interpreter *over);

#endif
