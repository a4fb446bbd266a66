#include "schedule/reduction.h"

/* ---- one node, small ---- */

/* A rank reduces the segments of all ranks, its own among them, from the last rank down. All ranks
 * keep that order, so results are the same to the bit. */
static void fold_chunk(struct tug_reduction *r, uint32_t queue, const struct tug_run *chunk,
                       uint32_t position) {
    struct tug_compiler *c = &r->c;
    uint32_t n = c->node_size;
    uint32_t saved = TUG_AREA_INPUT;
    if (n == 2) { /* both orders give the same */
        uint32_t other = 1 - c->node_rank;
        if (!r->plan->in_place)
            tug_add(c, queue, tug_describe(TUG_COPY, chunk, TUG_AREA_INPUT, TUG_AREA_OUTPUT, 0));
        tug_add_ring(c, queue, tug_reduction_ring_kind(r, other == 0), other, chunk,
                     TUG_AREA_OUTPUT, position, 0);
        return;
    }
    if (r->plan->in_place && c->node_rank + 1 < n) {
        saved = TUG_AREA_SCRATCH;
        tug_add(c, queue, tug_describe(TUG_COPY, chunk, TUG_AREA_INPUT, saved, 0));
    }
    for (uint32_t w = n; w-- > 0;) {
        bool first = w + 1 == n;
        if (w != c->node_rank)
            tug_add_ring(c, queue, first ? TUG_COLLECT : TUG_GATHER_REDUCE, w, chunk,
                         TUG_AREA_OUTPUT, position, 0);
        else if (!first || !r->plan->in_place)
            tug_add(c, queue,
                    tug_describe(first ? TUG_COPY : TUG_REDUCE, chunk, saved, TUG_AREA_OUTPUT, 0));
    }
}

static void everybody(struct tug_reduction *r) {
    struct tug_compiler *c = &r->c;
    uint32_t queue = tug_schedule_queue(c->schedule, TUG_LIMIT_ALL);
    uint32_t chunks = tug_run_chunks(&r->all);
    for (uint32_t w = 0; w < c->node_size; w++)
        c->schedule->passes[w] = tug_run_segments(&r->all);
    if (r->plan->in_place && c->node_size > 2)
        c->schedule->scratch = r->all.elements;
    for (uint32_t k = 0; k < chunks; k++) {
        struct tug_run chunk = tug_run_chunk(&r->all, k);
        tug_add(c, queue, tug_describe(TUG_PUBLISH, &chunk, TUG_AREA_INPUT, TUG_AREA_NONE, 0));
        fold_chunk(r, queue, &chunk, k * TUG_CHUNK);
    }
    tug_compiler_settle(c, queue);
}

/* ---- between nodes, small: recursive doubling ---- */

/* 2^k of those who take part double. In each of the first `extra` pairs the lower one sends its
 * input to the higher one beforehand, and takes no part. A stage begins when the one before is
 * over. */
struct doubling {
    struct tug_reduction *r;
    struct tug_run all; /* in one piece */
    uint32_t gather, send, receive, reduce;
    uint32_t power, extra;
};

static uint32_t number_of(const struct doubling *d, uint32_t doubler) {
    return doubler < d->extra ? 2 * doubler + 1 : doubler + d->extra;
}

/* What a stage needs to begin; its last descriptor is in queue `from`. */
static void send_to(struct doubling *d, uint32_t to, uint32_t advances) {
    tug_add_message(&d->r->c, d->send, TUG_SEND, tug_reduction_rank(d->r, to), 0, &d->all,
                    TUG_AREA_OUTPUT, advances);
}

static void receive_from(struct doubling *d, uint32_t from, uint32_t area, uint32_t steps,
                         uint32_t advances) {
    struct tug_descriptor receive = tug_describe(TUG_RECEIVE, &d->all, 0, area, advances);
    receive.peer = tug_reduction_rank(d->r, from);
    receive.steps = steps;
    tug_add(&d->r->c, d->receive, receive);
}

static void combine(struct doubling *d, uint32_t with, uint32_t steps, uint32_t advances) {
    enum tug_kind kind = tug_reduction_kind(d->r, with < d->r->me);
    struct tug_descriptor reduce =
        tug_describe(kind, &d->all, TUG_AREA_SCRATCH, TUG_AREA_OUTPUT, advances);
    reduce.steps = steps;
    tug_add(&d->r->c, d->reduce, reduce);
}

/* The lower of a pair, which does not double: it sends its input and receives the result. */
static void stand_by(struct doubling *d, uint32_t steps, uint32_t through) {
    tug_add_nop(&d->r->c, d->gather, 1, 1, 1u << d->send);
    send_to(d, d->r->me + 1, 1u << d->receive);
    receive_from(d, d->r->me + 1, TUG_AREA_OUTPUT, steps, through);
}

static void exchange(struct doubling *d, uint32_t steps, uint32_t through) {
    uint32_t me = d->r->me;
    uint32_t both = 1u << d->send | 1u << d->receive, reduce = 1u << d->reduce;
    uint32_t mine = me < 2 * d->extra ? me / 2 : me - d->extra;
    bool paired = me < 2 * d->extra;
    tug_add_nop(&d->r->c, d->gather, 1, 1, paired ? 1u << d->receive : both);
    if (paired) {
        receive_from(d, me - 1, TUG_AREA_SCRATCH, 1, reduce);
        combine(d, me - 1, 1, both);
        through |= 1u << d->send;
    }
    for (uint32_t bit = 1; bit < d->power; bit *= 2) {
        uint32_t with = number_of(d, mine ^ bit);
        bool last = 2 * bit == d->power;
        send_to(d, with, reduce);
        receive_from(d, with, TUG_AREA_SCRATCH, 1, reduce);
        tug_add_nop(&d->r->c, d->reduce, 1, 0, 0);
        combine(d, with, last ? steps : 1, last ? through : both);
    }
    if (paired)
        send_to(d, me - 1, 0);
}

static void doubling(struct tug_reduction *r) {
    struct tug_compiler *c = &r->c;
    struct tug_schedule *schedule = c->schedule;
    struct doubling d = {.r = r, .all = r->all, .power = 1};
    bool members = tug_reduction_has_members(r);
    uint32_t steps = members ? tug_run_segments(&r->all) : 1;
    uint32_t through = 0, position = 0;
    d.all.segment = 0;
    while (2 * d.power <= r->count)
        d.power *= 2;
    d.extra = r->count - d.power;
    d.gather = tug_schedule_queue(schedule, TUG_LIMIT_ALL);
    d.send = tug_schedule_queue(schedule, 0);
    d.receive = tug_schedule_queue(schedule, 0);
    d.reduce = tug_schedule_queue(schedule, 0);
    if (members) {
        uint32_t publish = tug_schedule_queue(schedule, 0);
        through = 1u << publish;
        tug_add(c, publish, tug_describe(TUG_PUBLISH, &r->all, TUG_AREA_OUTPUT, TUG_AREA_NONE, 0));
    }
    schedule->scratch = r->all.elements;
    tug_reduction_gather(r, d.gather, &r->all, TUG_AREA_OUTPUT, r->plan->in_place, &position, 0);
    if (r->me < 2 * d.extra && r->me % 2 == 0)
        stand_by(&d, steps, through);
    else
        exchange(&d, steps, through);
    tug_compiler_settle(c, d.gather);
}

/* ---- between nodes, large: a cycle ---- */

/* The message has a block for each node. Block b starts on node b and goes up the cycle: each node
 * reduces its own into it. Blocks arrive in SCRATCH, and start from there, so that OUTPUT is never
 * sent from while it is reduced. Node b - 1 ends up with the result, which goes up the cycle once
 * more.
 *
 *     gather -> receive -> reduce -> send          the reductions (tag 0)
 *                            |
 *                            +-> again: receive -> send, publish   (tag 1)
 *
 * Where there is nothing to gather, and INPUT may be read in place, blocks start from INPUT. Only
 * the last block is copied, to where its result goes.
 */
struct cycle {
    struct tug_reduction *r;
    uint32_t gather, receive, reduce, send, receive_again, send_again;
    uint32_t publish; /* set: no queue without members */
    uint32_t to, from;
    bool straight; /* blocks start from INPUT */
};

static struct tug_run block_of(const struct tug_reduction *r, uint32_t down) {
    return tug_run_part(&r->all, r->count, (r->me + r->count - down) % r->count);
}

/* The node's own part of a block, which is sent, or reduced into the block that arrives. */
static void cycle_prepare(struct cycle *g, uint32_t down, uint32_t *position) {
    struct tug_reduction *r = g->r;
    struct tug_run block = block_of(r, down);
    if (!g->straight)
        tug_reduction_gather(r, g->gather, &block, down == 0 ? TUG_AREA_SCRATCH : TUG_AREA_OUTPUT,
                             r->plan->in_place && down > 0, position,
                             1u << (down == 0 ? g->send : g->receive));
}

static void cycle_reduce(struct cycle *g) {
    struct tug_reduction *r = g->r;
    uint32_t position = 0;
    uint32_t own = g->straight ? TUG_AREA_INPUT : TUG_AREA_OUTPUT;
    for (uint32_t down = 0; down < r->count; down++) {
        struct tug_run block = block_of(r, down);
        bool last = down + 1 == r->count;
        cycle_prepare(g, down, &position);
        if (down > 0) {
            tug_add_message(&r->c, g->receive, TUG_RECEIVE, g->from, 0, &block, TUG_AREA_SCRATCH,
                            1u << g->reduce);
            tug_add(&r->c, g->reduce,
                    tug_describe(TUG_REDUCE, &block, last ? TUG_AREA_SCRATCH : own,
                                 last ? TUG_AREA_OUTPUT : TUG_AREA_SCRATCH,
                                 last ? g->publish | 1u << g->send_again | 1u << g->receive_again
                                      : 1u << g->send));
        }
        if (!last)
            tug_add_message(&r->c, g->send, TUG_SEND, g->to, 0, &block,
                            down == 0 && g->straight ? TUG_AREA_INPUT : TUG_AREA_SCRATCH, 0);
    }
}

static void cycle_again(struct cycle *g) {
    struct tug_reduction *r = g->r;
    struct tug_run reduced = block_of(r, r->count - 1);
    uint32_t segments = 0;
    for (uint32_t i = 1; i < r->count; i++) {
        struct tug_run block = block_of(r, i - 1);
        segments += tug_run_segments(&block);
    }
    tug_add_nop(&r->c, g->receive_again, tug_run_segments(&reduced) - 1, 0, 0);
    tug_add_nop(&r->c, g->receive_again, 1, segments, 1u << g->receive_again);
    for (uint32_t i = 0; i < r->count; i++) { /* block me + 1, me, me - 1, ... me + 2 */
        struct tug_run block = block_of(r, i == 0 ? r->count - 1 : i - 1);
        bool last = i + 1 == r->count;
        if (i > 0)
            tug_add_message(&r->c, g->receive_again, TUG_RECEIVE, g->from, 1, &block,
                            TUG_AREA_OUTPUT, g->publish | (last ? 0 : 1u << g->send_again));
        if (!last)
            tug_add_message(&r->c, g->send_again, TUG_SEND, g->to, 1, &block, TUG_AREA_OUTPUT, 0);
    }
}

/* Blocks in the order in which their results come to a node. */
static void cycle_results(struct tug_reduction *r, uint32_t queue, enum tug_kind kind) {
    uint32_t position = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        struct tug_run block = block_of(r, i == 0 ? r->count - 1 : i - 1);
        if (kind == TUG_COLLECT)
            tug_add_ring(&r->c, queue, kind, 0, &block, TUG_AREA_OUTPUT, position, 0);
        else
            tug_add(&r->c, queue, tug_describe(kind, &block, TUG_AREA_OUTPUT, TUG_AREA_NONE, 0));
        position += tug_run_segments(&block);
    }
}

static void cycle(struct tug_reduction *r) {
    struct tug_schedule *schedule = r->c.schedule;
    struct cycle g = {.r = r};
    g.to = tug_reduction_rank(r, (r->me + 1) % r->count);
    g.from = tug_reduction_rank(r, (r->me + r->count - 1) % r->count);
    g.gather = tug_schedule_queue(schedule, TUG_LIMIT_ALL);
    g.receive = tug_schedule_queue(schedule, 0);
    g.reduce = tug_schedule_queue(schedule, 0);
    g.send = tug_schedule_queue(schedule, 0);
    g.receive_again = tug_schedule_queue(schedule, 0);
    g.send_again = tug_schedule_queue(schedule, 0);
    if (tug_reduction_has_members(r)) {
        uint32_t publish = tug_schedule_queue(schedule, 0);
        g.publish = 1u << publish;
        cycle_results(r, publish, TUG_PUBLISH);
    }
    schedule->scratch = r->all.elements;
    g.straight = !tug_reduction_has_members(r) && !r->plan->in_place;
    if (g.straight) {
        struct tug_run first = block_of(r, 0), last = block_of(r, r->count - 1);
        schedule->queues[g.receive].limit = TUG_LIMIT_ALL;
        schedule->queues[g.send].limit = tug_run_segments(&first);
        schedule->queues[g.reduce].limit = tug_run_segments(&last);
        tug_add(&r->c, g.reduce, tug_describe(TUG_COPY, &last, TUG_AREA_INPUT, TUG_AREA_OUTPUT, 0));
    }
    cycle_reduce(&g);
    cycle_again(&g);
    tug_compiler_settle(&r->c, g.gather);
}

/* ---- ranks that do not send between nodes ---- */

static void bring_and_get(struct tug_reduction *r, bool in_blocks) {
    struct tug_compiler *c = &r->c;
    uint32_t publish = tug_schedule_queue(c->schedule, TUG_LIMIT_ALL);
    uint32_t collect = tug_schedule_queue(c->schedule, TUG_LIMIT_ALL);
    if (in_blocks) {
        for (uint32_t down = 0; down < r->count; down++) {
            struct tug_run block = block_of(r, down);
            tug_add(c, publish,
                    tug_describe(TUG_PUBLISH, &block, TUG_AREA_INPUT, TUG_AREA_NONE, 0));
        }
        cycle_results(r, collect, TUG_COLLECT);
    } else {
        tug_add(c, publish, tug_describe(TUG_PUBLISH, &r->all, TUG_AREA_INPUT, TUG_AREA_NONE, 0));
        tug_add_ring(c, collect, TUG_COLLECT, 0, &r->all, TUG_AREA_OUTPUT, 0, 0);
    }
    tug_compiler_settle(c, collect);
}

static void between_nodes(struct tug_reduction *r) {
    bool in_blocks = r->plan->large && r->plan->commutes;
    uint32_t passes = 0;
    for (uint32_t i = 0; in_blocks && i < r->count; i++) {
        struct tug_run block = block_of(r, i);
        passes += tug_run_segments(&block);
    }
    if (!in_blocks)
        passes = tug_run_segments(&r->all);
    for (uint32_t w = 0; tug_reduction_has_members(r) && w < r->c.node_size; w++)
        r->c.schedule->passes[w] = passes;
    if (tug_reduction_holder(r) != r->c.node_rank)
        bring_and_get(r, in_blocks);
    else if (in_blocks)
        cycle(r);
    else
        doubling(r);
}

static void alone(struct tug_reduction *r) {
    uint32_t queue = tug_schedule_queue(r->c.schedule, TUG_LIMIT_ALL);
    if (!r->plan->in_place)
        tug_add(&r->c, queue, tug_describe(TUG_COPY, &r->all, TUG_AREA_INPUT, TUG_AREA_OUTPUT, 0));
}

int tug_compile_allreduce(struct tug_schedule *schedule, const struct tug_places *places,
                          const struct tug_reduce_plan *plan, uint32_t rank) {
    struct tug_reduction r;
    tug_reduction_begin(&r, schedule, places, plan, UINT32_MAX, rank);
    if (schedule->failed || plan->elements == 0)
        return tug_compiler_end(&r.c);
    if (places->nranks == 1)
        alone(&r);
    else if (places->nnodes > 1)
        between_nodes(&r);
    else if (plan->large && plan->direct)
        tug_reduction_direct(&r, UINT32_MAX);
    else if (plan->large)
        tug_reduction_shares(&r, UINT32_MAX);
    else
        everybody(&r);
    return tug_compiler_end(&r.c);
}
