/* Allgather. Every rank publishes its part on its node and collects the others'; the first rank of
 * each node sends the node's parts round a cycle of nodes, and publishes the parts that arrive
 * after its own. All ranks go through the parts of a node in one order: TUG_CHUNK segments of each
 * rank in turn. */
#include "schedule/compiler.h"

struct gathering {
    struct tug_compiler c;
    const struct tug_gather_plan *plan;
};

static struct tug_run part_of(const struct gathering *g, uint32_t rank) {
    return (struct tug_run){rank * g->plan->elements, g->plan->elements, g->plan->segment};
}

/* Where the rank's own part is, and where in it a run of OUTPUT begins. */
static struct tug_descriptor own(const struct gathering *g, enum tug_kind kind,
                                 const struct tug_run *run, uint32_t advances) {
    struct tug_descriptor d = tug_describe(kind, run, TUG_AREA_OUTPUT, TUG_AREA_OUTPUT, advances);
    if (!g->plan->in_place) {
        d.from_area = TUG_AREA_INPUT;
        d.from -= g->c.rank * g->plan->elements;
    }
    return d;
}

/* The parts of a node, cut into chunks, in the order that all ranks use. */
static uint32_t chunks_of(const struct gathering *g, uint32_t node) {
    struct tug_run any = part_of(g, 0);
    return tug_run_chunks(&any) * tug_places_node_size(g->c.places, node);
}

static struct tug_run nth_chunk(const struct gathering *g, uint32_t node, uint32_t n) {
    uint32_t size = tug_places_node_size(g->c.places, node);
    struct tug_run part = part_of(g, tug_places_rank(g->c.places, node, n % size));
    return tug_run_chunk(&part, n / size);
}

/* The parts of this node into OUTPUT; every rank begins with its own. */
static void collect_node(struct gathering *g, uint32_t queue, uint32_t advances) {
    struct tug_compiler *c = &g->c;
    for (uint32_t n = 0; n < chunks_of(g, c->node); n++) {
        uint32_t turn = n / c->node_size;
        uint32_t from = (c->node_rank + n) % c->node_size;
        struct tug_run chunk = nth_chunk(g, c->node, turn * c->node_size + from);
        if (from != c->node_rank)
            tug_add_ring(c, queue, TUG_COLLECT, from, &chunk, TUG_AREA_OUTPUT, turn * TUG_CHUNK,
                         advances);
        else
            tug_add(c, queue, own(g, g->plan->in_place ? TUG_NOP : TUG_COPY, &chunk, advances));
    }
}

/* The first rank of a node receives the other nodes' parts, the nearest down the cycle first,
 * passes them on and publishes them. Nothing is received before the node's own parts have been
 * collected, so that steps to the sends come in their order. */
static void go_round(struct gathering *g, uint32_t publish, uint32_t collect, uint32_t send) {
    struct tug_compiler *c = &g->c;
    uint32_t nnodes = c->places->nnodes, segments = 0;
    uint32_t to = tug_places_rank(c->places, (c->node + 1) % nnodes, 0);
    uint32_t from = tug_places_rank(c->places, (c->node + nnodes - 1) % nnodes, 0);
    uint32_t receive = tug_schedule_queue(c->schedule, 0);
    uint32_t publishes = c->node_size > 1 ? 1u << publish : 0;
    for (uint32_t down = 0; down < nnodes; down++) {
        uint32_t node = (c->node + nnodes - down) % nnodes;
        bool last = down + 1 == nnodes;
        for (uint32_t n = 0; n < chunks_of(g, node); n++) {
            struct tug_run chunk = nth_chunk(g, node, n);
            if (down > 0) {
                tug_add_message(c, receive, TUG_RECEIVE, from, 0, &chunk, TUG_AREA_OUTPUT,
                                publishes | (last ? 0 : 1u << send));
                segments += tug_run_segments(&chunk);
            }
            if (down > 0 && publishes)
                tug_add(c, publish,
                        tug_describe(TUG_PUBLISH, &chunk, TUG_AREA_OUTPUT, TUG_AREA_NONE, 0));
            if (!last)
                tug_add_message(c, send, TUG_SEND, to, 0, &chunk, TUG_AREA_OUTPUT, 0);
        }
    }
    tug_add_nop(c, collect, 1, segments, 1u << receive);
}

/* The others collect what the node's first rank publishes after its own part. */
static void collect_others(struct gathering *g, uint32_t queue, uint32_t position) {
    uint32_t nnodes = g->c.places->nnodes;
    for (uint32_t down = 1; down < nnodes; down++) {
        uint32_t node = (g->c.node + nnodes - down) % nnodes;
        for (uint32_t n = 0; n < chunks_of(g, node); n++) {
            struct tug_run chunk = nth_chunk(g, node, n);
            tug_add_ring(&g->c, queue, TUG_COLLECT, 0, &chunk, TUG_AREA_OUTPUT, position, 0);
            position += tug_run_segments(&chunk);
        }
    }
}

static void compile(struct gathering *g) {
    struct tug_compiler *c = &g->c;
    struct tug_run mine = part_of(g, c->rank);
    uint32_t segments = tug_run_segments(&mine);
    uint32_t others = (c->places->nranks - c->node_size) * segments;
    uint32_t collect = tug_schedule_queue(c->schedule, TUG_LIMIT_ALL);
    uint32_t publish = tug_schedule_queue(c->schedule, segments);
    for (uint32_t w = 0; c->node_size > 1 && w < c->node_size; w++)
        c->schedule->passes[w] = segments + (w == 0 ? others : 0);
    if (c->node_size > 1)
        tug_add(c, publish, own(g, TUG_PUBLISH, &mine, 0));
    if (c->node_rank == 0 && others > 0) {
        uint32_t send = tug_schedule_queue(c->schedule, 0);
        collect_node(g, collect, 1u << send);
        go_round(g, publish, collect, send);
    } else {
        collect_node(g, collect, 0);
        collect_others(g, collect, segments);
    }
    tug_compiler_settle(c, collect);
}

int tug_compile_allgather(struct tug_schedule *schedule, const struct tug_places *places,
                          const struct tug_gather_plan *plan, uint32_t rank) {
    struct gathering g = {.plan = plan};
    tug_compiler_begin(&g.c, schedule, places, rank);
    if (!schedule->failed && plan->elements > 0)
        plan->direct ? tug_allgather_direct(&g.c, plan) : compile(&g);
    return tug_compiler_end(&g.c);
}
