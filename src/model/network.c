#include "model/network.h"

#include <stdbool.h>
#include <stdlib.h>

#include "tugboat/tugboat.h"

/* Steps along a dimension of the torus, which closes; *up: upwards is the shorter way. */
static uint32_t side_steps(uint32_t side, uint32_t from, uint32_t to, bool *up) {
    uint32_t steps = (to + side - from) % side;
    *up = steps <= side / 2;
    return *up ? steps : side - steps;
}

uint32_t tug_network_distance(const struct tug_places *places, uint32_t from, uint32_t to) {
    uint32_t links = 0;
    from = tug_places_position(places, from);
    to = tug_places_position(places, to);
    for (int d = 0; d < 3 && places->torus[0] != 0; d++) {
        uint32_t side = places->torus[d];
        bool up;
        links += side_steps(side, from % side, to % side, &up);
        from /= side;
        to /= side;
    }
    return links > 0 ? links : 1;
}

static uint32_t leaves_of(const struct tug_network *network) {
    return (network->nnodes + network->radix - 1) / network->radix;
}

uint32_t tug_network_first_link(const struct tug_places *places, uint32_t from, uint32_t to) {
    from = tug_places_position(places, from);
    to = tug_places_position(places, to);
    for (uint32_t d = 0; d < 3; d++) {
        uint32_t side = places->torus[d];
        bool up;
        if (side_steps(side, from % side, to % side, &up) > 0)
            return 2 * d + up;
        from /= side;
        to /= side;
    }
    return 0;
}

int tug_network_init(struct tug_network *network, const struct tug_places *places, double hop_s,
                     uint32_t engines) {
    size_t links = 1;
    network->nnodes = places->nnodes;
    network->places = places;
    network->hop_ps = (uint64_t)(hop_s * 1e12);
    network->free_at_ps = NULL;
    if (network->kind == TUG_NETWORK_TORUS) {
        if (places->torus[0] == 0)
            return TUG_ERR_INVALID;
        for (int d = 0; d < 3; d++)
            network->side[d] = places->torus[d];
        links = TUG_TORUS_LINKS * (size_t)network->nnodes;
    } else if (network->kind == TUG_NETWORK_TREE) {
        if (network->radix == 0 || network->taper == 0)
            return TUG_ERR_INVALID;
        network->spines = (network->radix * engines + network->taper - 1) / network->taper;
        links = 2 * (size_t)leaves_of(network) * network->spines;
    }
    network->free_at_ps = calloc(links, sizeof(*network->free_at_ps));
    return network->free_at_ps != NULL ? 0 : TUG_ERR_NO_MEMORY;
}

void tug_network_fini(struct tug_network *network) {
    free(network->free_at_ps);
    network->free_at_ps = NULL;
}

/* One link: when the head that comes at head_ps may enter it. */
static uint64_t enter(struct tug_network *network, size_t link, uint64_t head_ps,
                      uint64_t busy_ps) {
    uint64_t *free_at = &network->free_at_ps[link];
    uint64_t start = head_ps > *free_at ? head_ps : *free_at;
    *free_at = start + busy_ps;
    return start;
}

static uint64_t pass_torus(struct tug_network *network, uint32_t from, uint32_t to,
                           uint64_t head_ps, uint64_t busy_ps) {
    uint32_t weight = 1;
    bool first = true;
    for (uint32_t d = 0; d < 3; d++) {
        uint32_t side = network->side[d];
        uint32_t at = from / weight % side;
        bool up;
        for (uint32_t left = side_steps(side, at, to / weight % side, &up); left > 0; left--) {
            head_ps += first ? 0 : network->hop_ps;
            first = false;
            head_ps = enter(network, TUG_TORUS_LINKS * (size_t)from + 2 * d + up, head_ps, busy_ps);
            uint32_t next = up ? (at + 1) % side : (at + side - 1) % side;
            from = from - at * weight + next * weight;
            at = next;
        }
        weight *= side;
    }
    return head_ps;
}

/* Up from the leaf of one node to a spine, down to the leaf of the other. The links between nodes
 * and leaves are as good as the nodes' engines, and theirs alone. */
static uint64_t pass_tree(struct tug_network *network, uint32_t from, uint32_t to, uint64_t head_ps,
                          uint64_t busy_ps) {
    size_t up = (size_t)(from / network->radix) * network->spines;
    size_t down = (size_t)(leaves_of(network) + to / network->radix) * network->spines;
    uint32_t best = 0;
    uint64_t best_ps = UINT64_MAX;
    head_ps += network->hop_ps;
    if (from / network->radix == to / network->radix)
        return head_ps;
    for (uint32_t s = 0; s < network->spines && best_ps > head_ps; s++) {
        uint64_t a = network->free_at_ps[up + s];
        uint64_t b = network->free_at_ps[down + s];
        if ((a > b ? a : b) < best_ps) {
            best = s;
            best_ps = a > b ? a : b;
        }
    }
    head_ps = enter(network, up + best, head_ps, busy_ps) + network->hop_ps;
    return enter(network, down + best, head_ps, busy_ps) + network->hop_ps;
}

uint64_t tug_network_pass(struct tug_network *network, uint32_t from, uint32_t to, uint64_t now_ps,
                          uint64_t busy_ps) {
    if (network->kind == TUG_NETWORK_TORUS)
        return pass_torus(network, tug_places_position(network->places, from),
                          tug_places_position(network->places, to), now_ps, busy_ps);
    if (network->kind == TUG_NETWORK_TREE)
        return pass_tree(network, from, to, now_ps, busy_ps);
    return now_ps;
}
