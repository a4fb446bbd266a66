/* Where ranks are: on which node, as which of its ranks, and where the node is in the network.
 *
 * Nodes are numbered by their first rank. Made once for a communicator (or by the simulator for as
 * many ranks as one likes), constant afterwards.
 */
#ifndef TUG_SCHEDULE_PLACES_H
#define TUG_SCHEDULE_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tug_places {
    uint32_t nranks, nnodes;
    const uint32_t *node_of;      /* [nranks] */
    const uint32_t *node_rank_of; /* [nranks] */
    const uint32_t *node_first;   /* [nnodes + 1] where a node's ranks begin in `ranks` */
    const uint32_t *ranks;        /* [nranks] by node, then by node rank */
    uint32_t torus[3];            /* nodes along x, y, z; their product is nnodes; 0: a flat network
                                   */
    const uint32_t *position;     /* [nnodes] of a node on the torus, (z * Y + y) * X + x; NULL: its
                                     number */
    const uint32_t *at;           /* [nnodes] the node at a position; NULL as well */
};

static inline uint32_t tug_places_position(const struct tug_places *places, uint32_t node) {
    return places->position != NULL ? places->position[node] : node;
}

static inline uint32_t tug_places_at(const struct tug_places *places, uint32_t position) {
    return places->at != NULL ? places->at[position] : position;
}

static inline uint32_t tug_places_node_size(const struct tug_places *places, uint32_t node) {
    return places->node_first[node + 1] - places->node_first[node];
}

static inline uint32_t tug_places_rank(const struct tug_places *places, uint32_t node,
                                       uint32_t node_rank) {
    return places->ranks[places->node_first[node] + node_rank];
}

/* Numbers the nodes by their first ranks: leaders[r], the first rank of r's node, becomes the
 * number of the node. How many there are; 0: a rank has told of a first rank behind itself. */
uint32_t tug_places_number(uint32_t leaders[], uint32_t nranks);

/* Of the nodes of all ranks (numbered by first appearance). 0 or TUG_ERR_NO_MEMORY. */
int tug_places_init(struct tug_places *places, uint32_t nranks, const uint32_t *node_of);

/* nnodes nodes with ppn ranks each, in order. */
int tug_places_uniform(struct tug_places *places, uint32_t nnodes, uint32_t ppn);

/* Puts the nodes on a torus of so many positions as there are nodes, each at one of its own. Copies
 * `position`; NULL: each at its number. 0 or TUG_ERR_NO_MEMORY, and the network stays flat. */
int tug_places_arrange(struct tug_places *places, const uint32_t sides[3],
                       const uint32_t *position);

void tug_places_fini(struct tug_places *places);

/* True if ranks of a node follow one another in the order of ranks on every node: what a reduction
 * that does not commute wants to know. */
bool tug_places_in_order(const struct tug_places *places);

#endif
