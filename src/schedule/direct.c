/* Large collectives on one node whose ranks reach into one another's buffers: only signals go
 * through rings, and every byte is copied once.
 *
 * Position 0 of a rank's ring says that its buffers may be read, position 1 that its share of
 * the result is there. A rank awaits a position before it uses the buffer or share that it stands
 * for. It awaits it again, and releases it, when it is done. So a rank may leave when all others
 * have released its positions.
 */
#include "schedule/reduction.h"

static const struct tug_run nothing = {0};

static void add_await(struct tug_compiler *c, uint32_t queue, uint32_t from, uint32_t position) {
    tug_add_ring(c, queue, TUG_AWAIT, from, &nothing, TUG_AREA_NONE, position, 0);
}

/* A run of a rank's area, its own or another's, to another place. */
static void add_move(struct tug_compiler *c, uint32_t queue, uint32_t from, enum tug_kind kind,
                     const struct tug_run *run, uint32_t from_area, uint32_t to, uint64_t at) {
    struct tug_descriptor d = tug_describe(kind, run, from_area, to, 0);
    d.peer = from;
    d.to = at;
    tug_add(c, queue, d);
}

static void add_signal(struct tug_compiler *c, uint32_t queue) {
    tug_add(c, queue, (struct tug_descriptor){.kind = TUG_SIGNAL});
}

/* The end of a queue: waits until the others have released so many positions of ours. */
static void leave(struct tug_compiler *c, uint32_t queue, uint32_t positions) {
    tug_add(c, queue, (struct tug_descriptor){.kind = TUG_DRAIN, .position = positions});
    tug_compiler_settle(c, queue);
}

/* ---- reductions ---- */

static struct tug_run share_of(const struct tug_reduction *r, uint32_t node_rank) {
    return tug_run_part(&r->all, r->c.node_size, node_rank);
}

/* All inputs of a piece of this rank's share, at `at` of an area. The first of the others' goes
 * there ahead of its own, unless that is there. */
static void reduce_piece(struct tug_reduction *r, uint32_t queue, const struct tug_run *piece,
                         uint32_t area, uint64_t at) {
    struct tug_compiler *c = &r->c;
    bool there = r->plan->in_place && area == TUG_AREA_OUTPUT;
    for (uint32_t i = 0; i < c->node_size - 1; i++) {
        uint32_t from = tug_reduction_other(r, i);
        bool lower = from < c->node_rank;
        enum tug_kind kind = i > 0 || there ? tug_reduction_kind(r, lower) : TUG_COPY;
        add_move(c, queue, from, kind, piece, TUG_AREA_THEIR_INPUT, area, at);
        if (kind == TUG_COPY)
            add_move(c, queue, c->node_rank, tug_reduction_kind(r, !lower), piece, TUG_AREA_INPUT,
                     area, at);
    }
}

static void reduce_share(struct tug_reduction *r, uint32_t queue, uint32_t area, uint64_t at) {
    struct tug_compiler *c = &r->c;
    struct tug_run share = share_of(r, c->node_rank);
    for (uint32_t i = 0; i < c->node_size - 1; i++)
        add_await(c, queue, tug_reduction_other(r, i), 0);
    for (uint32_t k = 0; k < tug_run_chunks(&share); k++) {
        struct tug_run piece = tug_run_chunk(&share, k);
        reduce_piece(r, queue, &piece, area, at + (piece.begin - share.begin));
    }
    for (uint32_t i = 0; i < c->node_size - 1; i++)
        add_await(c, queue, tug_reduction_other(r, i), 0);
}

void tug_reduction_direct(struct tug_reduction *r, uint32_t root) {
    struct tug_compiler *c = &r->c;
    uint32_t queue = tug_schedule_queue(c->schedule, TUG_LIMIT_ALL);
    bool all = root == UINT32_MAX, gets = all || root == c->node_rank;
    struct tug_run share = share_of(r, c->node_rank);
    for (uint32_t w = 0; w < c->node_size; w++)
        c->schedule->passes[w] = 2;
    add_signal(c, queue);
    reduce_share(r, queue, gets ? TUG_AREA_OUTPUT : TUG_AREA_SCRATCH, gets ? share.begin : 0);
    if (!gets) { /* straight into the root's buffer, for which the root waits */
        struct tug_descriptor give =
            tug_describe(TUG_COPY, &share, TUG_AREA_SCRATCH, TUG_AREA_THEIR_OUTPUT, 0);
        give.peer = root;
        give.from = 0;
        tug_add(c, queue, give);
        c->schedule->scratch = share.elements;
    }
    add_signal(c, queue);
    for (uint32_t i = 0; gets && i < c->node_size - 1; i++) {
        uint32_t from = tug_reduction_other(r, i);
        struct tug_run theirs = share_of(r, from);
        add_await(c, queue, from, 1);
        if (!all)
            continue;
        add_move(c, queue, from, TUG_COPY, &theirs, TUG_AREA_THEIR_OUTPUT, TUG_AREA_OUTPUT,
                 theirs.begin);
        add_await(c, queue, from, 1);
    }
    leave(c, queue, all ? 2 : 1);
}

/* ---- Allgather ---- */

void tug_allgather_direct(struct tug_compiler *c, const struct tug_gather_plan *plan) {
    uint32_t queue = tug_schedule_queue(c->schedule, TUG_LIMIT_ALL);
    for (uint32_t w = 0; w < c->node_size; w++)
        c->schedule->passes[w] = 1;
    add_signal(c, queue);
    const struct tug_run mine = {0, plan->elements, plan->segment};
    if (!plan->in_place)
        add_move(c, queue, c->node_rank, TUG_COPY, &mine, TUG_AREA_INPUT, TUG_AREA_OUTPUT,
                 c->rank * plan->elements);
    for (uint32_t i = 1; i < c->node_size; i++) {
        uint32_t from = (c->node_rank + i) % c->node_size;
        uint64_t at = tug_places_rank(c->places, c->node, from) * plan->elements;
        struct tug_run theirs = {plan->in_place ? at : 0, plan->elements, plan->segment};
        add_await(c, queue, from, 0);
        add_move(c, queue, from, TUG_COPY, &theirs,
                 plan->in_place ? TUG_AREA_THEIR_OUTPUT : TUG_AREA_THEIR_INPUT, TUG_AREA_OUTPUT,
                 at);
        add_await(c, queue, from, 0);
    }
    leave(c, queue, 1);
}
