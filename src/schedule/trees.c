#include "schedule/trees.h"

#include <stdbool.h>

const char *tug_algorithm_name(enum tug_algorithm algorithm) {
    static const char *const names[TUG_ALGORITHMS] = {"chain", "binomial", "trinary"};
    return names[algorithm];
}

/* ---- flat networks: nodes by their place behind the root's ---- */

static uint32_t place_of(const struct tug_places *places, uint32_t root_node, uint32_t node) {
    return (node + places->nnodes - root_node) % places->nnodes;
}

static uint32_t node_at(const struct tug_places *places, uint32_t root_node, uint32_t place) {
    return (root_node + place) % places->nnodes;
}

/* Pipeline k of three chains begins a third of the way round later: places 1..n-1, rotated. */
static uint32_t chain_shift(const struct tug_places *places, uint32_t pipelines,
                            uint32_t pipeline) {
    return (uint32_t)((uint64_t)(places->nnodes - 1) * pipeline / pipelines);
}

static uint32_t chain_index(const struct tug_places *places, uint32_t shift, uint32_t place) {
    uint32_t n = places->nnodes - 1;
    return place == 0 ? 0 : (place - 1 + n - shift) % n + 1;
}

static uint32_t chain_place(const struct tug_places *places, uint32_t shift, uint32_t index) {
    uint32_t n = places->nnodes - 1;
    return index == 0 ? 0 : (index - 1 + shift) % n + 1;
}

/* ---- a torus ---- */

struct point {
    uint32_t at[3]; /* coordinates from the root's node, going up */
};

static struct point point_of(const struct tug_places *places, uint32_t root_node, uint32_t node) {
    struct point point;
    node = tug_places_position(places, node);
    root_node = tug_places_position(places, root_node);
    for (int d = 0; d < 3; d++) {
        uint32_t side = places->torus[d];
        point.at[d] = (node % side + side - root_node % side) % side;
        node /= side;
        root_node /= side;
    }
    return point;
}

static uint32_t node_of(const struct tug_places *places, uint32_t root_node, struct point point) {
    uint32_t node = 0;
    uint32_t weight = 1;
    root_node = tug_places_position(places, root_node);
    for (int d = 0; d < 3; d++) {
        uint32_t side = places->torus[d];
        node += (root_node % side + point.at[d]) % side * weight;
        weight *= side;
        root_node /= side;
    }
    return tug_places_at(places, node);
}

/* The dimensions of the tree of a colour: the pipeline-th side that has a colour, and those behind
 * it in turn. */
static void axes_of(const struct tug_places *places, uint32_t pipeline, int axes[3]) {
    int first = 0;
    for (uint32_t seen = 0; first < 3; first++)
        if (places->torus[first] > 1 && seen++ == pipeline)
            break;
    for (int i = 0; i < 3; i++)
        axes[i] = (first + i) % 3;
}

static bool is_root(struct point point) {
    return point.at[0] == 0 && point.at[1] == 0 && point.at[2] == 0;
}

/* Along a, then b, then c; points with a == 0 get theirs round a, from the last a: so no
 * node sends more than three copies of a segment, over all three colours. */
static struct point torus_parent(const struct tug_places *places, struct point point,
                                 const int axes[3]) {
    if (point.at[axes[0]] == 0)
        point.at[axes[0]] = places->torus[axes[0]] - 1;
    else if (point.at[axes[2]] > 0)
        point.at[axes[2]]--;
    else if (point.at[axes[1]] > 0)
        point.at[axes[1]]--;
    else
        point.at[axes[0]]--;
    return point;
}

static uint32_t torus_children(const struct tug_places *places, uint32_t root_node,
                               struct point point, const int axes[3],
                               uint32_t children[TUG_CHILDREN_MOST]) {
    uint32_t n = 0;
    if (point.at[axes[0]] == 0 && !is_root(point))
        return 0;
    /* the longest way first */
    for (int i = 0; i < 3; i++) {
        struct point next = point;
        if (++next.at[axes[i]] == places->torus[axes[i]])
            continue;
        struct point parent = torus_parent(places, next, axes);
        if (parent.at[0] == point.at[0] && parent.at[1] == point.at[1] &&
            parent.at[2] == point.at[2])
            children[n++] = node_of(places, root_node, next);
    }
    if (point.at[axes[0]] + 1 == places->torus[axes[0]] &&
        (point.at[axes[1]] > 0 || point.at[axes[2]] > 0)) {
        point.at[axes[0]] = 0;
        children[n++] = node_of(places, root_node, point);
    }
    return n;
}

/* ---- all ---- */

uint32_t tug_pipelines(const struct tug_places *places, enum tug_algorithm algorithm) {
    if (algorithm != TUG_TRINARY || places->nnodes == 1)
        return 1;
    if (places->torus[0] == 0)
        return TUG_PIPELINES_MOST;
    uint32_t colours = 0;
    for (int d = 0; d < 3; d++)
        colours += places->torus[d] > 1;
    return colours;
}

uint32_t tug_pipeline_parent(const struct tug_places *places, enum tug_algorithm algorithm,
                             uint32_t pipeline, uint32_t root_node, uint32_t node) {
    if (node == root_node)
        return TUG_NO_NODE;
    uint32_t place = place_of(places, root_node, node);
    if (algorithm == TUG_BINOMIAL)
        return node_at(places, root_node, place & (place - 1));
    if (algorithm == TUG_TRINARY && places->torus[0] != 0) {
        int axes[3];
        axes_of(places, pipeline, axes);
        return node_of(places, root_node,
                       torus_parent(places, point_of(places, root_node, node), axes));
    }
    uint32_t shift = chain_shift(places, tug_pipelines(places, algorithm), pipeline);
    uint32_t before = chain_index(places, shift, place) - 1;
    return node_at(places, root_node, chain_place(places, shift, before));
}

uint32_t tug_pipeline_children(const struct tug_places *places, enum tug_algorithm algorithm,
                               uint32_t pipeline, uint32_t root_node, uint32_t node,
                               uint32_t children[TUG_CHILDREN_MOST]) {
    uint32_t place = place_of(places, root_node, node);
    uint32_t n = 0;
    if (algorithm == TUG_BINOMIAL) {
        uint32_t lowest = place == 0 ? 1u << 31 : (place & -place) >> 1;
        for (uint32_t bit = lowest; bit != 0; bit >>= 1) /* the largest subtree first */
            if (place + bit < places->nnodes)
                children[n++] = node_at(places, root_node, place + bit);
        return n;
    }
    if (algorithm == TUG_TRINARY && places->torus[0] != 0) {
        int axes[3];
        axes_of(places, pipeline, axes);
        return torus_children(places, root_node, point_of(places, root_node, node), axes, children);
    }
    uint32_t shift = chain_shift(places, tug_pipelines(places, algorithm), pipeline);
    uint32_t next = chain_index(places, shift, place) + 1;
    if (next < places->nnodes)
        children[n++] = node_at(places, root_node, chain_place(places, shift, next));
    return n;
}

uint32_t tug_pipeline_depth(const struct tug_places *places, enum tug_algorithm algorithm) {
    uint32_t nnodes = places->nnodes;
    if (nnodes == 1)
        return 0;
    if (algorithm == TUG_BINOMIAL)
        return 32 - (uint32_t)__builtin_clz(nnodes - 1);
    if (algorithm == TUG_CHAIN || places->torus[0] == 0)
        return nnodes - 1;
    return places->torus[0] + places->torus[1] + places->torus[2] - 2;
}
