/* Choosing how to broadcast: every plan that makes sense is predicted, with the segment that suits
 * it, and the fastest is taken.
 *
 * Pure functions of places, message and parameters: ranks that have the same of these choose alike.
 * Well under a millisecond.
 */
#ifndef TUG_MODEL_CHOOSE_H
#define TUG_MODEL_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/loggp.h"
#include "schedule/bcast.h"

struct tug_broadcast {
    uint64_t elements;
    uint64_t element_bytes;
    uint32_t root;          /* rank */
    uint64_t segment_bytes; /* 0: chosen */
    bool one_engine;        /* TUG_ONE_ENGINE alone, which is taken only where it is asked for */
};

const char *tug_phases_name(enum tug_phases phases);

struct tug_candidate {
    struct tug_bcast_plan plan;
    double seconds; /* predicted */
};

#define TUG_CANDIDATES_MOST (2 * TUG_ALGORITHMS)

/* All candidates, the fastest first, of two that are as fast the simpler; how many, at least one.
 * Before a fastest by two phases goes the relay of the same algorithm, if it is within 3 %: no
 * prediction is more exact. Those that would come out as the same
 * schedules are listed once: on one node there is nothing to choose, with one rank a node there are
 * no phases. */
uint32_t tug_model_choose(const struct tug_places *places, const struct tug_broadcast *message,
                          const struct tug_model_parameters *parameters,
                          struct tug_candidate candidates[TUG_CANDIDATES_MOST]);

/* The places that a shape means. 0, TUG_ERR_INVALID (see tug_model_bcast()), TUG_ERR_NO_MEMORY. */
int tug_model_places(const struct tug_model_shape *shape, struct tug_places *places);

/* The prediction for one plan. */
double tug_model_predict(const struct tug_places *places, const struct tug_bcast_plan *plan,
                         uint64_t element_bytes, const struct tug_model_parameters *parameters);

#endif
