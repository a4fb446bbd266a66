#include "model/choose.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tugboat/tugboat.h"

#define SEGMENT_LEAST 1024
#define RANKS_MOST ((uint64_t)1 << 31)
#define SEGMENT_MOST ((uint64_t)4 << 20)
#define AS_FAST 1.03

/* Segments of elements that are about so many bytes. */
static uint64_t elements_in(const struct tug_broadcast *message, uint64_t bytes) {
    uint64_t n = message->element_bytes > 0 ? bytes / message->element_bytes : message->elements;
    n = n < message->elements ? n : message->elements;
    return n > 0 ? n : 1;
}

static uint64_t least_of(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* The best segment of a candidate whose algorithm and phases are set, and the time it gives. */
static void fit_segment(const struct tug_tree_shape *shape, const struct tug_broadcast *message,
                        const struct tug_model_parameters *parameters,
                        struct tug_candidate *candidate) {
    uint64_t bytes = message->elements * message->element_bytes;
    bool rings = shape->ppn > 1;
    uint64_t longest = rings ? parameters->segment_most : SEGMENT_MOST;
    if (parameters->ntransfers > 0 && shape->depth > 0) /* nothing is known of longer ones */
        longest = least_of(longest, parameters->transfers[parameters->ntransfers - 1].bytes);
    uint64_t least = message->segment_bytes > 0 ? message->segment_bytes : SEGMENT_LEAST;
    longest = message->segment_bytes > 0 ? message->segment_bytes : longest;
    candidate->seconds = -1;
    for (uint64_t size = least;; size *= 2) {
        size = size < longest ? size : longest;
        uint64_t segment = elements_in(message, size);
        double seconds = tug_predict_bcast(shape, candidate->plan.phases, bytes,
                                           segment * message->element_bytes, parameters);
        if (candidate->seconds < 0 || seconds < candidate->seconds) {
            candidate->seconds = seconds;
            candidate->plan.segment = segment;
        }
        if (size == longest || size >= bytes)
            return;
    }
}

static int faster(const void *left, const void *right) {
    const struct tug_candidate *a = left;
    const struct tug_candidate *b = right;
    if (a->seconds != b->seconds)
        return a->seconds < b->seconds ? -1 : 1;
    if (a->plan.algorithm != b->plan.algorithm)
        return a->plan.algorithm < b->plan.algorithm ? -1 : 1;
    return (int)a->plan.phases - (int)b->plan.phases;
}

/* The relay of the first one's algorithm goes first if it is predicted to be as fast. */
static void prefer_relay(struct tug_candidate *candidates, uint32_t count) {
    const struct tug_candidate first = candidates[0];
    uint32_t i = 1;
    while (i < count && (candidates[i].plan.algorithm != first.plan.algorithm ||
                         candidates[i].plan.phases != TUG_RELAY))
        i++;
    if (i >= count || candidates[i].seconds > AS_FAST * first.seconds)
        return;
    const struct tug_candidate relay = candidates[i];
    memmove(candidates + 1, candidates, i * sizeof(*candidates));
    candidates[0] = relay;
}

static void sort(struct tug_candidate *candidates, uint32_t count) {
    qsort(candidates, count, sizeof(*candidates), faster);
    if (count > 0 && candidates[0].plan.phases == TUG_TWO_PHASE)
        prefer_relay(candidates, count);
}

/* True if another algorithm comes to the same as the chain: from one node to the only other, where
 * several ranks do not share the work. */
static bool is_chain(const struct tug_places *places, enum tug_algorithm algorithm,
                     const struct tug_tree_shape *shape) {
    return places->nnodes == 2 &&
           (algorithm == TUG_BINOMIAL || (algorithm == TUG_TRINARY && shape->ppn == 1));
}

uint32_t tug_model_choose(const struct tug_places *places, const struct tug_broadcast *message,
                          const struct tug_model_parameters *parameters,
                          struct tug_candidate candidates[TUG_CANDIDATES_MOST]) {
    uint32_t n = 0;
    int algorithms = places->nnodes > 1 ? TUG_ALGORITHMS : 1;
    for (int a = 0; a < algorithms; a++) {
        struct tug_tree_shape shape = tug_tree_shape_of(places, a, message->root);
        if (is_chain(places, a, &shape))
            continue;
        bool both = shape.depth > 0 && shape.ppn > 1;
        int first = message->one_engine ? TUG_ONE_ENGINE : TUG_RELAY;
        int last = message->one_engine ? TUG_ONE_ENGINE : both ? TUG_TWO_PHASE : TUG_RELAY;
        for (int p = first; p <= last; p++) {
            candidates[n].plan = (struct tug_bcast_plan){
                .algorithm = a,
                .phases = p,
                .root = message->root,
                .elements = message->elements,
            };
            fit_segment(&shape, message, parameters, &candidates[n]);
            n++;
        }
    }
    sort(candidates, n);
    return n;
}

double tug_model_predict(const struct tug_places *places, const struct tug_bcast_plan *plan,
                         uint64_t element_bytes, const struct tug_model_parameters *parameters) {
    struct tug_tree_shape shape = tug_tree_shape_of(places, plan->algorithm, plan->root);
    return tug_predict_bcast(&shape, plan->phases, plan->elements * element_bytes,
                             plan->segment * element_bytes, parameters);
}

const char *tug_phases_name(enum tug_phases phases) {
    static const char *const names[TUG_PHASES] = {"relay", "two-phase", "one-engine"};
    return names[phases];
}

int tug_model_places(const struct tug_model_shape *shape, struct tug_places *places) {
    const uint32_t *side = shape->torus;
    bool flat = side[0] == 0 && side[1] == 0 && side[2] == 0;
    if (shape->nodes == 0 || shape->ppn == 0 || (uint64_t)shape->nodes * shape->ppn > RANKS_MOST)
        return TUG_ERR_INVALID;
    if (!flat && (double)side[0] * side[1] * side[2] != shape->nodes)
        return TUG_ERR_INVALID;
    int error = tug_places_uniform(places, shape->nodes, shape->ppn);
    for (int d = 0; d < 3 && !error; d++)
        places->torus[d] = side[d];
    return error;
}

int tug_model_bcast(const struct tug_model_shape *shape, uint64_t bytes,
                    const struct tug_model_parameters *parameters,
                    struct tug_model_prediction predictions[TUG_MODEL_WAYS], uint32_t *count) {
    struct tug_candidate candidates[TUG_CANDIDATES_MOST];
    const struct tug_broadcast message = {.elements = bytes, .element_bytes = 1};
    struct tug_places places;
    int error = tug_model_places(shape, &places);
    if (error)
        return error;
    *count = tug_model_choose(&places, &message, parameters, candidates);
    for (uint32_t i = 0; i < *count; i++)
        predictions[i] = (struct tug_model_prediction){
            .algorithm = tug_algorithm_name(candidates[i].plan.algorithm),
            .phases = tug_phases_name(candidates[i].plan.phases),
            .segment_bytes = candidates[i].plan.segment,
            .seconds = candidates[i].seconds,
        };
    tug_places_fini(&places);
    return 0;
}
