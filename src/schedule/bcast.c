#include "schedule/bcast.h"

#include "tugboat/tugboat.h"

/* What the parts of one compilation share. */
struct compiler {
    struct tug_schedule *schedule;
    const struct tug_places *places;
    const struct tug_bcast_plan *plan;
    uint32_t rank, node, node_rank, node_size;
    uint32_t root_node;
    uint32_t pipelines;
};

/* ---- who carries what ---- */

/* The share of a pipeline: elements [begin, end). */
static uint64_t share_begin(const struct compiler *c, uint32_t pipeline) {
    return c->plan->elements / c->pipelines * pipeline +
           c->plan->elements % c->pipelines * pipeline / c->pipelines;
}

static uint64_t share_of(const struct compiler *c, uint32_t pipeline) {
    return share_begin(c, pipeline + 1) - share_begin(c, pipeline);
}

/* The node rank that holds a pipeline's end: on the root's node the root; on others the ranks take
 * turns, or one, which has the engine, holds all. */
static uint32_t holder_on(const struct compiler *c, uint32_t node, uint32_t pipeline) {
    if (node == c->root_node)
        return c->places->node_rank_of[c->plan->root];
    if (c->plan->phases == TUG_ONE_ENGINE)
        return 0;
    return pipeline % tug_places_node_size(c->places, node);
}

static bool holds(const struct compiler *c, uint32_t pipeline) {
    return share_of(c, pipeline) > 0 && holder_on(c, c->node, pipeline) == c->node_rank;
}

static uint32_t rank_of_holder(const struct compiler *c, uint32_t node, uint32_t pipeline) {
    return tug_places_rank(c->places, node, holder_on(c, node, pipeline));
}

static bool lands(const struct compiler *c) {
    return c->plan->phases == TUG_TWO_PHASE && c->node != c->root_node && c->node_size > 1;
}

static struct tug_descriptor describe(const struct compiler *c, enum tug_kind kind,
                                      uint32_t pipeline) {
    uint32_t area = lands(c) ? TUG_AREA_LANDING : TUG_AREA_OUTPUT;
    uint64_t begin = share_begin(c, pipeline);
    return (struct tug_descriptor){
        .kind = (uint8_t)kind,
        .tag = (uint8_t)pipeline,
        .elements = share_of(c, pipeline),
        .segment = c->plan->segment,
        .from_area = area,
        .to_area = area,
        .from = begin,
        .to = begin,
        .steps = 1,
    };
}

/* The n-th segment of a run, as a run of its own. */
static struct tug_descriptor cut(const struct tug_descriptor *run, uint32_t n) {
    struct tug_descriptor one = *run;
    uint64_t offset;
    one.elements = tug_descriptor_at(run, n, &offset);
    one.from += offset;
    one.to += offset;
    one.position += n;
    one.release = one.position + 1;
    return one;
}

static uint32_t segments_of(const struct compiler *c, uint32_t pipeline) {
    struct tug_descriptor run = describe(c, TUG_NOP, pipeline);
    return tug_descriptor_segments(&run);
}

/* ---- between nodes ---- */

/* Sends a pipeline on to the nodes after ours; the queues. */
static uint32_t pass_on(const struct compiler *c, uint32_t pipeline, uint32_t limit) {
    uint32_t children[TUG_CHILDREN_MOST];
    uint32_t queues = 0;
    uint32_t n = tug_pipeline_children(c->places, c->plan->algorithm, pipeline, c->root_node,
                                       c->node, children);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t queue = tug_schedule_queue(c->schedule, limit);
        struct tug_descriptor send = describe(c, TUG_SEND, pipeline);
        send.peer = rank_of_holder(c, children[i], pipeline);
        tug_queue_add(c->schedule, queue, &send);
        queues |= 1u << queue;
    }
    return queues;
}

static struct tug_descriptor receive_of(const struct compiler *c, uint32_t pipeline,
                                        uint32_t advances) {
    struct tug_descriptor receive = describe(c, TUG_RECEIVE, pipeline);
    uint32_t parent =
        tug_pipeline_parent(c->places, c->plan->algorithm, pipeline, c->root_node, c->node);
    receive.peer = rank_of_holder(c, parent, pipeline);
    receive.advances = advances;
    return receive;
}

/* ---- inside a node: relay ---- */

/* The segments of a ring have one order. The root publishes the message from front to end; a
 * rank that holds several pipelines takes their segments in turn. Calls visit() for every run of
 * segments, in the order of the holder's ring. */
static void in_ring_order(const struct compiler *c, uint32_t holder, enum tug_kind kind,
                          void (*visit)(void *state, struct tug_descriptor *run), void *state) {
    struct tug_descriptor runs[TUG_PIPELINES_MOST];
    uint32_t n = 0;
    uint32_t most = 0;
    if (c->node == c->root_node) {
        runs[0] = describe(c, kind, 0);
        runs[0].elements = c->plan->elements;
        runs[0].release = tug_descriptor_segments(&runs[0]);
        visit(state, &runs[0]);
        return;
    }
    for (uint32_t k = 0; k < c->pipelines; k++) {
        if (share_of(c, k) == 0 || holder_on(c, c->node, k) != holder)
            continue;
        runs[n++] = describe(c, kind, k);
        uint32_t segments = segments_of(c, k);
        most = segments > most ? segments : most;
    }
    if (n == 1) {
        runs[0].release = most;
        visit(state, &runs[0]);
        return;
    }
    uint32_t position = 0;
    for (uint32_t s = 0; s < most; s++)
        for (uint32_t i = 0; i < n; i++) {
            if (s >= tug_descriptor_segments(&runs[i]))
                continue;
            struct tug_descriptor one = cut(&runs[i], s);
            one.position = position++;
            one.release = position;
            visit(state, &one);
        }
}

#define NO_COUNTER UINT32_MAX

/* What has come of the pipelines, by tag. A pipeline waits for no other: who takes their segments
 * in turn waits for each. */
struct arrivals {
    uint32_t counters[TUG_PIPELINES_MOST]; /* queues, or NO_COUNTER: it need not wait */
    uint32_t awaited[TUG_PIPELINES_MOST];  /* segments */
};

struct adding {
    const struct compiler *c;
    uint32_t queue;
    uint32_t peer;
    struct arrivals arrivals;
};

static const struct arrivals all_there = {.counters = {NO_COUNTER, NO_COUNTER, NO_COUNTER}};

static void await_next(struct adding *adding, uint32_t pipeline) {
    struct arrivals *arrivals = &adding->arrivals;
    if (arrivals->counters[pipeline] == NO_COUNTER)
        return;
    struct tug_descriptor wait = {.kind = TUG_WAIT,
                                  .peer = arrivals->counters[pipeline],
                                  .position = ++arrivals->awaited[pipeline]};
    tug_queue_add(adding->c->schedule, adding->queue, &wait);
}

static void add_run(void *state, struct tug_descriptor *run) {
    struct adding *adding = state;
    await_next(adding, run->tag);
    run->peer = adding->peer;
    tug_queue_add(adding->c->schedule, adding->queue, run);
}

static void count_run(void *state, struct tug_descriptor *run) {
    *(uint32_t *)state += tug_descriptor_segments(run);
}

static void receive_all(const struct compiler *c, const uint32_t advances[TUG_PIPELINES_MOST]) {
    for (uint32_t k = 0; k < c->pipelines; k++) {
        if (!holds(c, k))
            continue;
        struct tug_descriptor receive = receive_of(c, k, advances[k]);
        tug_queue_add(c->schedule, tug_schedule_queue(c->schedule, TUG_LIMIT_ALL), &receive);
    }
}

/* A queue of a holder other than the root that takes the pipelines' segments in turn as they come:
 * `advances` grow by what it has to be told. */
static struct adding in_turn(const struct compiler *c, uint32_t advances[TUG_PIPELINES_MOST]) {
    struct adding adding = {
        .c = c, .queue = tug_schedule_queue(c->schedule, TUG_LIMIT_ALL), .arrivals = all_there};
    for (uint32_t k = 0; k < c->pipelines; k++) {
        if (!holds(c, k))
            continue;
        adding.arrivals.counters[k] = tug_schedule_queue(c->schedule, 0);
        advances[k] |= 1u << adding.arrivals.counters[k] | 1u << adding.queue;
    }
    return adding;
}

/* What a holder does: it receives (unless it is the root), passes on and publishes. */
static void relay_holder(const struct compiler *c) {
    bool root = c->rank == c->plan->root;
    uint32_t limit = root ? TUG_LIMIT_ALL : 0;
    uint32_t advances[TUG_PIPELINES_MOST] = {0};
    uint32_t held = 0;
    for (uint32_t k = 0; k < c->pipelines; k++) /* first to other nodes: more ranks wait there */
        if (holds(c, k)) {
            advances[k] = pass_on(c, k, limit);
            held++;
        }
    if (c->node_size > 1 && (root || held == 1)) {
        struct adding publishes = {
            .c = c, .queue = tug_schedule_queue(c->schedule, limit), .arrivals = all_there};
        in_ring_order(c, c->node_rank, TUG_PUBLISH, add_run, &publishes);
        for (uint32_t k = 0; k < c->pipelines; k++)
            advances[k] |= 1u << publishes.queue;
    } else if (c->node_size > 1) {
        struct adding publishes = in_turn(c, advances);
        in_ring_order(c, c->node_rank, TUG_PUBLISH, add_run, &publishes);
    }
    if (!root)
        receive_all(c, advances);
}

static void relay(const struct compiler *c) {
    bool holder[TUG_PIPELINES_MOST] = {false};
    for (uint32_t k = 0; k < c->pipelines; k++)
        if (share_of(c, k) > 0) {
            uint32_t who = holder_on(c, c->node, k);
            holder[c->node == c->root_node ? 0 : who] = true;
        }
    for (uint32_t i = 0; i < TUG_PIPELINES_MOST; i++) {
        if (!holder[i])
            continue;
        uint32_t who = c->node == c->root_node ? holder_on(c, c->node, 0) : i;
        uint32_t passes = 0;
        if (c->node_size > 1)
            in_ring_order(c, who, TUG_NOP, count_run, &passes);
        c->schedule->passes[who] = passes;
        if (who == c->node_rank) {
            relay_holder(c);
            continue;
        }
        struct adding collects = {.c = c,
                                  .queue = tug_schedule_queue(c->schedule, TUG_LIMIT_ALL),
                                  .peer = who,
                                  .arrivals = all_there};
        in_ring_order(c, who, TUG_COLLECT, add_run, &collects);
    }
}

/* ---- inside a node: one engine ---- */

/* Every segment of a run to every other rank. Between two ranks of a node messages have one order,
 * and no tags. */
static void add_sends(void *state, struct tug_descriptor *run) {
    struct adding *adding = state;
    const struct compiler *c = adding->c;
    uint32_t segments = tug_descriptor_segments(run);
    for (uint32_t s = 0; s < segments; s++) {
        struct tug_descriptor send = cut(run, s);
        await_next(adding, run->tag);
        send.tag = 0;
        for (uint32_t i = 1; i < c->node_size; i++) {
            send.peer = tug_places_rank(c->places, c->node, (c->node_rank + i) % c->node_size);
            tug_queue_add(c->schedule, adding->queue, &send);
        }
    }
}

static void add_receive(void *state, struct tug_descriptor *run) {
    const struct adding *adding = state;
    run->peer = adding->peer;
    run->tag = 0;
    tug_queue_add(adding->c->schedule, adding->queue, run);
}

static void one_engine(const struct compiler *c) {
    uint32_t holder = holder_on(c, c->node, 0);
    bool root = c->rank == c->plan->root;
    uint32_t advances[TUG_PIPELINES_MOST] = {0};
    struct adding adding = {.c = c, .arrivals = all_there};
    if (holder != c->node_rank) {
        adding.queue = tug_schedule_queue(c->schedule, TUG_LIMIT_ALL);
        adding.peer = rank_of_holder(c, c->node, 0);
        in_ring_order(c, holder, TUG_RECEIVE, add_receive, &adding);
        return;
    }
    for (uint32_t k = 0; k < c->pipelines; k++)
        if (holds(c, k))
            advances[k] = pass_on(c, k, root ? TUG_LIMIT_ALL : 0);
    if (root)
        adding.queue = tug_schedule_queue(c->schedule, TUG_LIMIT_ALL);
    else
        adding = in_turn(c, advances);
    in_ring_order(c, holder, TUG_SEND, add_sends, &adding);
    if (!root)
        receive_all(c, advances);
}

/* ---- inside the root's node: lent ---- */

/* The root sends to each rank of its node by itself; both ends copy. */
static void lend(const struct compiler *c) {
    struct tug_schedule *schedule = c->schedule;
    struct tug_descriptor run = {.kind = TUG_RECEIVE,
                                 .peer = c->plan->root,
                                 .elements = c->plan->elements,
                                 .from_area = TUG_AREA_LENT,
                                 .to_area = TUG_AREA_OUTPUT};
    if (c->rank != c->plan->root) {
        tug_queue_add(schedule, tug_schedule_queue(schedule, TUG_LIMIT_ALL), &run);
        return;
    }
    for (uint32_t k = 0; k < c->pipelines; k++)
        if (holds(c, k))
            (void)pass_on(c, k, TUG_LIMIT_ALL);
    run.kind = TUG_SEND;
    run.from_area = TUG_AREA_OUTPUT;
    run.to_area = TUG_AREA_LENT;
    uint32_t first = schedule->nqueues, n = TUG_QUEUES_MOST - first;
    for (uint32_t i = 0; i < c->node_size - 1; i++) {
        run.peer = tug_places_rank(c->places, c->node, (c->node_rank + 1 + i) % c->node_size);
        uint32_t queue = i < n ? tug_schedule_queue(schedule, TUG_LIMIT_ALL) : first + i % n;
        tug_queue_add(schedule, queue, &run);
    }
}

/* ---- inside a node: two phases ---- */

/* A pipeline that lands. It begins when no rank of the node reads the message of the last run there
 * any more. The last segment steps to `through`. */
static void land(const struct compiler *c, uint32_t pipeline, uint32_t through) {
    uint32_t segments = segments_of(c, pipeline);
    uint32_t queue = tug_schedule_queue(c->schedule, 0);
    struct tug_descriptor drain = {.kind = TUG_DRAIN, .steps = segments, .advances = 1u << queue};
    tug_queue_add(c->schedule, tug_schedule_queue(c->schedule, TUG_LIMIT_ALL), &drain);

    struct tug_descriptor receive = receive_of(c, pipeline, pass_on(c, pipeline, 0));
    struct tug_descriptor last = cut(&receive, segments - 1);
    receive.elements -= last.elements;
    last.advances |= 1u << through;
    if (segments > 1)
        tug_queue_add(c->schedule, queue, &receive);
    tug_queue_add(c->schedule, queue, &last);
}

/* The node's ranks copy the message out of where it landed, each beginning with its own part. */
static void copy_out(const struct compiler *c, uint32_t queue, uint32_t signals) {
    struct tug_descriptor wait = {.kind = TUG_NOP};
    struct tug_descriptor copy = describe(c, TUG_COPY, 0);
    uint64_t mine = c->plan->elements / c->node_size * c->node_rank;
    for (uint32_t i = 1; i < signals; i++)
        tug_queue_add(c->schedule, queue, &wait);
    copy.to_area = TUG_AREA_OUTPUT;
    copy.segment = 0;
    copy.from = copy.to = mine;
    copy.elements = c->plan->elements - mine;
    copy.advances = mine > 0 ? 1u << queue : 0;
    tug_queue_add(c->schedule, queue, &copy);
    if (mine == 0)
        return;
    copy.from = copy.to = 0;
    copy.elements = mine;
    copy.advances = 0;
    tug_queue_add(c->schedule, queue, &copy);
}

static void two_phase(const struct compiler *c) {
    struct tug_schedule *schedule = c->schedule;
    uint32_t held[TUG_PIPELINES_MOST] = {0}; /* by node rank: pipelines */
    uint32_t signals = 0;
    uint32_t copy = tug_schedule_queue(schedule, 0);
    schedule->landing = c->plan->elements;
    for (uint32_t k = 0; k < c->pipelines; k++)
        if (share_of(c, k) > 0)
            held[holder_on(c, c->node, k)]++;
    for (uint32_t who = 0; who < TUG_PIPELINES_MOST && who < c->node_size; who++) {
        if (held[who] == 0)
            continue;
        signals++;
        schedule->passes[who] = 1;
        uint32_t through = tug_schedule_queue(schedule, who == c->node_rank ? 0 : TUG_LIMIT_ALL);
        struct tug_descriptor signal = {.kind = TUG_SIGNAL, .steps = 1, .advances = 1u << copy};
        if (who == c->node_rank) {
            struct tug_descriptor wait = {.kind = TUG_NOP};
            for (uint32_t i = 1; i < held[who]; i++)
                tug_queue_add(schedule, through, &wait);
            for (uint32_t k = 0; k < c->pipelines; k++)
                if (holds(c, k))
                    land(c, k, through);
        } else {
            signal.kind = TUG_AWAIT; /* released when the run ends: until then it is copied */
            signal.peer = who;
        }
        tug_queue_add(schedule, through, &signal);
    }
    copy_out(c, copy, signals);
}

/* ---- all ---- */

int tug_compile_bcast(struct tug_schedule *schedule, const struct tug_places *places,
                      const struct tug_bcast_plan *plan, uint32_t rank) {
    struct compiler c = {
        .schedule = schedule,
        .places = places,
        .plan = plan,
        .rank = rank,
        .node = places->node_of[rank],
        .node_rank = places->node_rank_of[rank],
        .root_node = places->node_of[plan->root],
        .pipelines = tug_pipelines(places, plan->algorithm),
    };
    c.node_size = tug_places_node_size(places, c.node);
    tug_schedule_init(schedule, c.node_size);
    if (!schedule->failed && plan->elements > 0) {
        if (lands(&c))
            two_phase(&c);
        else if (plan->phases == TUG_ONE_ENGINE && c.node_size > 1)
            one_engine(&c);
        else if (plan->lent && c.node == c.root_node && c.node_size > 1)
            lend(&c);
        else
            relay(&c);
    }
    if (!schedule->failed)
        return 0;
    tug_schedule_fini(schedule);
    return TUG_ERR_NO_MEMORY;
}
