/* A large reduction on one node. Segments are shared out among the ranks in turn. The rank that has
 * a segment reduces it from the rings of all others, and publishes the result.
 *
 * In round k every rank publishes its input for the others (I), reduces the segment that is its own
 * (R), publishes it (P) and collects those of the others (C). A ring's writer is a round
 * ahead, so that ranks need not wait for one another in every round:
 *
 *     publishes   I0 I1 P0 I2 P1 I3 P2 ... P(last)
 *     reads       R0 R1 C0 R2 C1 R3 C2 ... C(last)
 *
 * Both orders are the same on all ranks, and no rank reads ahead of what it has published. So a
 * slot only ever waits for something that comes earlier in the order.
 */
#include "schedule/reduction.h"

struct shares {
    struct tug_reduction *r;
    uint32_t root; /* node rank, or UINT32_MAX */
    uint32_t n, nsegments, rounds;
    uint32_t publish, read; /* queues */
};

static uint32_t in_round(const struct shares *s, uint32_t round) {
    uint32_t left = s->nsegments - round * s->n;
    return left < s->n ? left : s->n;
}

static bool publishes_result(const struct shares *s, uint32_t writer) {
    return writer != s->root;
}

static bool collects(const struct shares *s) {
    return s->root == UINT32_MAX || s->root == s->r->c.node_rank;
}

/* How many segments of a round `writer` publishes for the others. */
static uint32_t inputs_of(const struct shares *s, uint32_t writer, uint32_t round) {
    return round < s->rounds ? in_round(s, round) - (writer < in_round(s, round)) : 0;
}

static bool has_share(const struct shares *s, uint32_t writer, uint32_t round) {
    return writer < in_round(s, round);
}

/* Where the inputs and the result of a round begin in a writer's ring. */
static uint32_t inputs_at(const struct shares *s, uint32_t writer, uint32_t round) {
    uint32_t results = round > 0 ? round - 1 : 0;
    return round * (s->n - 1) + results * publishes_result(s, writer);
}

static uint32_t result_at(const struct shares *s, uint32_t writer, uint32_t round) {
    uint32_t before = inputs_of(s, writer, round) + inputs_of(s, writer, round + 1);
    return round * (s->n - 1) + before + round * publishes_result(s, writer);
}

static struct tug_run segment_of(const struct shares *s, uint32_t round, uint32_t owner) {
    return tug_run_segment(&s->r->all, (uint64_t)round * s->n + owner);
}

/* A rank without output keeps its segments one after another. */
static uint64_t kept_at(const struct shares *s, uint32_t round) {
    return collects(s) ? segment_of(s, round, s->r->c.node_rank).begin : round * s->r->all.segment;
}

static uint32_t kept_in(const struct shares *s) {
    return collects(s) ? TUG_AREA_OUTPUT : TUG_AREA_SCRATCH;
}

static void publish_inputs(const struct shares *s, uint32_t round) {
    for (uint32_t j = 0; round < s->rounds && j < in_round(s, round); j++) {
        struct tug_run segment = segment_of(s, round, j);
        if (j != s->r->c.node_rank)
            tug_add(&s->r->c, s->publish,
                    tug_describe(TUG_PUBLISH, &segment, TUG_AREA_INPUT, TUG_AREA_NONE, 0));
    }
}

static void publish_result(const struct shares *s, uint32_t round) {
    uint32_t me = s->r->c.node_rank;
    if (!has_share(s, me, round) || !publishes_result(s, me))
        return;
    struct tug_run segment = segment_of(s, round, me);
    segment.begin = kept_at(s, round);
    tug_add(&s->r->c, s->publish,
            tug_describe(TUG_PUBLISH, &segment, kept_in(s), TUG_AREA_NONE, 0));
}

/* Reduces one other rank's input. After the last the result may be published, and the inputs of the
 * round after next. */
static void take_in(const struct shares *s, uint32_t round, uint32_t from, bool last) {
    struct tug_reduction *r = s->r;
    uint32_t me = r->c.node_rank;
    struct tug_run segment = segment_of(s, round, me);
    enum tug_kind kind = tug_reduction_ring_kind(r, from < me);
    struct tug_descriptor d = tug_describe(kind, &segment, TUG_AREA_NONE, kept_in(s), 0);
    d.to = kept_at(s, round);
    d.peer = from;
    d.position = inputs_at(s, from, round) + me - (me > from);
    d.steps = publishes_result(s, me) + inputs_of(s, me, round + 2);
    d.advances = last && d.steps > 0 ? 1u << s->publish : 0;
    tug_add(&r->c, s->read, d);
}

static void reduce_round(const struct shares *s, uint32_t round) {
    struct tug_reduction *r = s->r;
    uint32_t me = r->c.node_rank;
    if (round >= s->rounds || !has_share(s, me, round))
        return;
    if (!(collects(s) && r->plan->in_place)) {
        struct tug_run segment = segment_of(s, round, me);
        struct tug_descriptor d = tug_describe(TUG_COPY, &segment, TUG_AREA_INPUT, kept_in(s), 0);
        d.to = kept_at(s, round);
        tug_add(&r->c, s->read, d);
    }
    for (uint32_t i = 0; i < s->n - 1; i++)
        take_in(s, round, i < me ? me - 1 - i : i + 1, i == s->n - 2);
}

static void collect_round(const struct shares *s, uint32_t round) {
    uint32_t me = s->r->c.node_rank;
    if (!collects(s))
        return;
    for (uint32_t i = 1; i < s->n; i++) {
        uint32_t from = (me + i) % s->n;
        struct tug_run segment = segment_of(s, round, from);
        if (has_share(s, from, round))
            tug_add_ring(&s->r->c, s->read, TUG_COLLECT, from, &segment, TUG_AREA_OUTPUT,
                         result_at(s, from, round), 0);
    }
}

void tug_reduction_shares(struct tug_reduction *r, uint32_t root_node_rank) {
    struct tug_schedule *schedule = r->c.schedule;
    struct shares s = {.r = r, .root = root_node_rank, .n = r->c.node_size};
    if (r->all.segment == 0)
        r->all.segment = r->all.elements;
    s.nsegments = tug_run_segments(&r->all);
    s.rounds = (s.nsegments + s.n - 1) / s.n;
    uint32_t me = r->c.node_rank;
    s.publish = tug_schedule_queue(schedule, inputs_of(&s, me, 0) + inputs_of(&s, me, 1));
    s.read = tug_schedule_queue(schedule, TUG_LIMIT_ALL);
    for (uint32_t w = 0; w < s.n; w++)
        for (uint32_t k = 0; k < s.rounds; k++)
            schedule->passes[w] +=
                inputs_of(&s, w, k) + (has_share(&s, w, k) && publishes_result(&s, w));
    publish_inputs(&s, 0);
    reduce_round(&s, 0);
    for (uint32_t k = 0; k < s.rounds; k++) {
        publish_inputs(&s, k + 1);
        publish_result(&s, k);
        reduce_round(&s, k + 1);
        collect_round(&s, k);
    }
    schedule->scratch = collects(&s) ? 0 : s.rounds * r->all.segment;
    tug_compiler_settle(&r->c, s.read);
}
