/* The links between nodes, for the simulator.
 *
 *   FLAT   every node has one way to every other: only engines are scarce
 *   TORUS  places->torus; six directed links a node; a message goes along x, then y, then z, the
 *          shorter way round
 *   TREE   leaf switches with `radix` nodes each, joined by spines; a leaf has one link to each
 *          spine, and as many of them as its nodes have engines, divided by `taper`; a message
 *          takes the spine that is free first
 *
 * A link carries one message at a time. Whoever comes first is served first.
 */
#ifndef TUG_MODEL_NETWORK_H
#define TUG_MODEL_NETWORK_H

#include <stdint.h>

#include "schedule/places.h"

#define TUG_TORUS_LINKS 6

enum tug_network_kind { TUG_NETWORK_FLAT, TUG_NETWORK_TORUS, TUG_NETWORK_TREE };

struct tug_network {
    enum tug_network_kind kind;
    uint32_t radix; /* TREE: nodes of a leaf switch */
    uint32_t taper; /* TREE: engines that share an uplink, at least 1 */
    uint32_t nnodes;
    uint32_t spines;
    uint32_t side[3]; /* TORUS */
    const struct tug_places *places;
    uint64_t hop_ps;      /* from one link's end to the next link's */
    uint64_t *free_at_ps; /* [links] */
};

/* How many links it is from one node to another on the torus of the places; 1 without one. */
uint32_t tug_network_distance(const struct tug_places *places, uint32_t from, uint32_t to);

/* Which of a node's links on the torus a message takes first, below TUG_TORUS_LINKS. */
uint32_t tug_network_first_link(const struct tug_places *places, uint32_t from, uint32_t to);

/* kind, radix and taper are set. 0, TUG_ERR_INVALID (a torus that places do not have, a tree
 * without radix), TUG_ERR_NO_MEMORY. */
int tug_network_init(struct tug_network *network, const struct tug_places *places, double hop_s,
                     uint32_t engines);
void tug_network_fini(struct tug_network *network);

/* Takes the links from one node to another for a message that keeps each of them busy for busy_ps
 * and would enter the first at now_ps. When its head leaves the last. */
uint64_t tug_network_pass(struct tug_network *network, uint32_t from, uint32_t to, uint64_t now_ps,
                          uint64_t busy_ps);

#endif
