/* The equations: the time of a plan of schedule/bcast.h on any places, from LogGP parameters. They
 * are what choose.h chooses by.
 *
 * Pure functions.
 */
#ifndef TUG_MODEL_LOGGP_H
#define TUG_MODEL_LOGGP_H

#include <stdbool.h>
#include <stdint.h>

#include "schedule/bcast.h"
#include "tugboat/model.h"

/* The table of Morie et al.: pieces into which each pipeline cuts a message of so many bytes. */
uint32_t tug_paper_segments(uint64_t bytes);

/* What the prediction needs to know of an algorithm on some places; independent of the message. */
struct tug_tree_shape {
    uint32_t pipelines;
    uint32_t depth; /* hops to the farthest node */
    uint32_t late;  /* segments that are sent to others before, on the way to it */
    double links;   /* of the network in a hop, on average */
    uint32_t sends; /* copies of a segment that the busiest node sends, over all pipelines */
    uint32_t fan; /* copies of a segment that a node other than the root's sends, in one pipeline */
    uint32_t load; /* copies of those that begin with the same link of a torus */
    uint32_t ppn;  /* ranks of the largest node */
    uint32_t nodes;
};

/* Looks at 1 024 nodes at most. */
struct tug_tree_shape tug_tree_shape_of(const struct tug_places *places,
                                        enum tug_algorithm algorithm, uint32_t root);

/* True if ranks share cores. */
bool tug_is_crowded(const struct tug_model_parameters *parameters);

/* Ranks that share a core, at least 1. */
double tug_crowd(const struct tug_model_parameters *parameters);

/* Bytes that a message of `bytes` to so many ranks has in the caches of one machine. */
uint64_t tug_footprint(const struct tug_model_parameters *parameters, uint64_t bytes,
                       uint64_t ranks);

/* What a segment takes between two nodes whose ranks have a core each, where so many bytes are
 * touched meanwhile. Where ranks share cores nothing but the processors carries data between them:
 * a message takes one for as long as it keeps the next from leaving, and comes no sooner. */
struct tug_transfer_speed tug_transfer_at(const struct tug_model_parameters *parameters,
                                          uint64_t segment, uint64_t footprint);

/* Seconds a byte of a copy inside a node, in the course of a message of `bytes`. */
double tug_copy_byte_s(const struct tug_model_parameters *parameters, uint64_t bytes);

/* Seconds from the start on all ranks to the end on the last of them. With TUG_ONE_ENGINE, where a
 * message between nodes takes no processor (FX100), the one engine of a node copies at the speed of
 * such a message; elsewhere it is the rank that holds the pipelines. */
double tug_predict_bcast(const struct tug_tree_shape *shape, enum tug_phases phases, uint64_t bytes,
                         uint64_t segment_bytes, const struct tug_model_parameters *parameters);

/* True if engines move data without a processor: then one of them copies inside a node, too. */
bool tug_engines_carry(const struct tug_model_parameters *parameters);

#endif
