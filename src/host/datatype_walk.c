#include "host/datatype.h"

#include <assert.h>
#include <stdint.h>

/* ---- from leaf to leaf ---- */

/* Goes into a node. True if it is a leaf: it has runs to give. */
static bool enter(struct tug_walk *walk, const struct tug_node *node, MPI_Aint base) {
    base += node->at;
    if (node->kind == TUG_NODE_RUNS || node->kind == TUG_NODE_LIST) {
        walk->at = base;
        walk->left = node->n;
        walk->list = node->blocks;
        walk->span = node->span;
        walk->stride = node->stride;
        walk->span_units = walk->unit == 1 ? node->span : node->span / walk->unit;
        walk->quick = node->kind == TUG_NODE_RUNS && walk->gaps == NULL;
        return true;
    }
    walk->frames[walk->nframes++] = (struct tug_walk_frame){.node = node, .base = base};
    return false;
}

static bool next_leaf(struct tug_walk *walk) {
    while (walk->nframes > 0) {
        struct tug_walk_frame *frame = &walk->frames[walk->nframes - 1];
        const struct tug_node *node = frame->node, *child = node->child;
        MPI_Aint base = frame->base;
        if (frame->left == 0 && frame->next == node->n) {
            walk->nframes--;
            continue;
        }
        switch (node->kind) {
        case TUG_NODE_LOOP:
            frame->next++;
            frame->base += node->stride;
            break;
        case TUG_NODE_BLOCKS:
            if (frame->left == 0) {
                const struct tug_block *block = &node->blocks[frame->next++];
                frame->inner = base + block->at;
                frame->left = block->n;
            }
            base = frame->inner;
            frame->inner += node->stride;
            frame->left--;
            break;
        default: /* TUG_NODE_FIELDS */
            child = node->fields[frame->next++];
            break;
        }
        if (enter(walk, child, base))
            return true;
    }
    return false;
}

/* ---- runs ---- */

static bool fetch_span(struct tug_walk *walk, MPI_Aint *at, size_t *span) {
    if (walk->left == 0 && !next_leaf(walk))
        return false;
    walk->left--;
    *at = walk->at;
    *span = walk->span;
    if (walk->list != NULL) {
        *at += walk->list->at;
        *span = walk->list->n;
        walk->list++;
    } else {
        walk->at += walk->stride;
    }
    return true;
}

/* A run without gaps: of each pair what is before the gap, then what is behind. */
static bool fetch(struct tug_walk *walk, MPI_Aint *at, size_t *span) {
    const struct tug_flat *flat = walk->gaps;
    if (flat == NULL)
        return fetch_span(walk, at, span);
    if (walk->pairs == 0) {
        if (!fetch_span(walk, &walk->pair_at, span))
            return false;
        walk->pairs = *span / flat->element_extent;
    }
    *at = walk->pair_at;
    *span = flat->gap_from;
    if (!walk->second && flat->gap_from < flat->element_size) {
        walk->second = true;
        return true;
    }
    if (walk->second) {
        *at += (MPI_Aint)flat->gap_to;
        *span = flat->element_size - flat->gap_from;
        walk->second = false;
    }
    walk->pair_at += (MPI_Aint)flat->element_extent;
    walk->pairs--;
    return true;
}

void tug_walk_begin(struct tug_walk *walk, const struct tug_flat *flat, size_t count,
                    enum tug_walk_mode mode) {
    assert(mode == TUG_WALK_BYTES || flat->element != MPI_DATATYPE_NULL);
    walk->left = walk->rest = walk->pairs = 0;
    walk->quick = walk->second = false;
    walk->unit = mode == TUG_WALK_BYTES ? 1 : flat->element_extent;
    walk->gaps = mode == TUG_WALK_BYTES && flat->element_size != flat->element_extent ? flat : NULL;
    walk->nframes = 0;
    if (count == 0 || flat->root.kind == TUG_NODE_EMPTY)
        return;
    walk->top = flat->root;
    if (!tug_node_fold(&walk->top, count, flat->extent))
        walk->top = (struct tug_node){.kind = TUG_NODE_LOOP,
                                      .n = count,
                                      .stride = flat->extent,
                                      .child = (struct tug_node *)&flat->root};
    enter(walk, &walk->top, 0);
}

/* A leaf's runs do not touch each other, save in a list; its last may touch the next leaf's first.
 */
static bool join_next(struct tug_walk *walk, size_t limit, MPI_Aint *offset, size_t *n) {
    size_t most, span = walk->rest;
    MPI_Aint at = walk->rest_at, next_at;
    if (__builtin_mul_overflow(limit, walk->unit, &most))
        most = SIZE_MAX / walk->unit * walk->unit;
    if (span == 0 && !fetch(walk, &at, &span))
        return false;
    walk->rest = 0;
    while (span < most && !(walk->quick && walk->left > 0)) {
        size_t next;
        if (!fetch(walk, &next_at, &next))
            break;
        if (next_at != at + (MPI_Aint)span) {
            walk->rest_at = next_at;
            walk->rest = next;
            break;
        }
        span += next;
    }
    if (span > most) {
        walk->rest_at = at + (MPI_Aint)most;
        walk->rest = span - most;
        span = most;
    }
    *offset = at;
    *n = walk->unit == 1 ? span : span / walk->unit;
    return true;
}

bool tug_walk_next(struct tug_walk *walk, size_t limit, MPI_Aint *offset, size_t *n) {
    if (__builtin_expect(
            walk->rest > 0 || !walk->quick || walk->left < 2 || walk->span_units > limit, 0))
        return join_next(walk, limit, offset, n);
    *offset = walk->at;
    *n = walk->span_units;
    walk->at += walk->stride;
    walk->left--;
    return true;
}
