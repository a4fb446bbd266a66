/* Pipelines between nodes: who sends a broadcast's segments to whom.
 *
 * A *pipeline* is a tree over all nodes, rooted at the root's node. Algorithms are sets of them:
 *
 *   CHAIN      one chain: each node passes on to the next (bucket relay)
 *   BINOMIAL   one binomial tree
 *   TRINARY    three pipelines that share no link, a third of the data each
 *
 * On a torus the three trees of TRINARY are those of three colours: colour x goes along x from the
 * root, from that line along y, from that plane along z, and a last hop round x fills
 * the plane of the root; y and z in turn. No directed link is in two trees, no path is longer than
 * the sum of the sides less two: the (hops + 1) of Morie et al., equations 1 and 3. A side of one
 * node has no colour. Without a torus they are three chains through the nodes that start at
 * different places.
 *
 * Pure functions, O(degree): no tree is ever stored.
 */
#ifndef TUG_SCHEDULE_TREES_H
#define TUG_SCHEDULE_TREES_H

#include <stdint.h>

#include "schedule/places.h"

enum tug_algorithm { TUG_CHAIN, TUG_BINOMIAL, TUG_TRINARY, TUG_ALGORITHMS };

#define TUG_PIPELINES_MOST 3
#define TUG_CHILDREN_MOST 32
#define TUG_NO_NODE UINT32_MAX

const char *tug_algorithm_name(enum tug_algorithm algorithm);

/* 1 to 3. */
uint32_t tug_pipelines(const struct tug_places *places, enum tug_algorithm algorithm);

/* The node before `node` in a pipeline from the root's node; TUG_NO_NODE for the root's. */
uint32_t tug_pipeline_parent(const struct tug_places *places, enum tug_algorithm algorithm,
                             uint32_t pipeline, uint32_t root_node, uint32_t node);

/* Those after it, in the order in which they are to be served; how many. */
uint32_t tug_pipeline_children(const struct tug_places *places, enum tug_algorithm algorithm,
                               uint32_t pipeline, uint32_t root_node, uint32_t node,
                               uint32_t children[TUG_CHILDREN_MOST]);

/* Hops from the root's node to the farthest; with one colour or two of a torus, at most. */
uint32_t tug_pipeline_depth(const struct tug_places *places, enum tug_algorithm algorithm);

#endif
