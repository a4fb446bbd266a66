/* Reduce_scatter: every rank gives each other rank its block, and reduces what it gets into its
 * own.
 *
 * On one node blocks go through the rings, a segment of each in turn, and are reduced out of them.
 * (16 ranks with a core each, 8 bytes and 1 MiB a block, host 3.7 us and 8.3 ms: in pairs 5.6 and
 * 12.) Between nodes they go as messages, in pairs.
 */
#include "schedule/reduction.h"

#define SLOTS 2 /* blocks that may have arrived and are not reduced yet */

struct pairs {
    struct tug_compiler c;
    const struct tug_reduce_plan *plan;
    const uint64_t *counts;
    uint32_t n, rank;
};

/* The i-th peer that a rank gives a block, and that this rank gets one from, i = 1 ... n - 1.
 * Without commutation blocks come from the lower ranks first, the nearest first, then from the
 * higher ones, the nearest first. In both orders blocks can be numbered so that numbers grow along
 * the list of every giver and of every taker: so the block with the least number can always go.
 * Through rings these are the numbers in a round, and all of a round have less than those of the
 * next. */
static uint32_t nth_of(const struct pairs *p, uint32_t rank, uint32_t i) {
    if (p->plan->commutes)
        return (rank + i) % p->n;
    return i < p->n - rank ? rank + i : p->n - 1 - i;
}

static uint32_t nth_to(const struct pairs *p, uint32_t i) {
    return nth_of(p, p->rank, i);
}

static uint32_t nth_from(const struct pairs *p, uint32_t i) {
    if (p->plan->commutes)
        return (p->rank + p->n - i) % p->n;
    return i <= p->rank ? p->rank - i : i;
}

static uint64_t begin_of(const struct pairs *p, uint32_t rank) {
    uint64_t begin = 0;
    for (uint32_t r = 0; r < rank; r++)
        begin += p->counts[r];
    return begin;
}

static struct tug_run block_of(const struct pairs *p, uint32_t rank) {
    return (struct tug_run){begin_of(p, rank), p->counts[rank], p->plan->segment};
}

/* Segments that the rank sends. */
static uint32_t send_blocks(struct pairs *p, uint32_t send, uint32_t advances) {
    uint32_t segments = 0;
    for (uint32_t i = 1; i < p->n; i++) {
        uint32_t to = nth_to(p, i);
        struct tug_run block = block_of(p, to);
        if (block.elements == 0)
            continue;
        tug_add_message(&p->c, send, TUG_SEND, to, 0, &block, TUG_AREA_INPUT, advances);
        segments += tug_run_segments(&block);
    }
    return segments;
}

static void take_in(struct pairs *p, uint32_t receive, uint32_t reduce, uint32_t area,
                    uint32_t advances) {
    struct tug_run mine = {0, p->counts[p->rank], p->plan->segment};
    for (uint32_t i = 1; i < p->n; i++) {
        uint32_t from = nth_from(p, i);
        bool lower = from < p->rank || p->plan->commutes;
        uint32_t slot = i % SLOTS;
        struct tug_descriptor d =
            tug_describe(TUG_RECEIVE, &mine, 0, TUG_AREA_SCRATCH, 1u << reduce);
        d.peer = from;
        d.to = slot * mine.elements;
        tug_add(&p->c, receive, d);
        d = tug_describe(lower ? TUG_REDUCE : TUG_FOLD, &mine, TUG_AREA_SCRATCH, area,
                         (i + SLOTS < p->n ? 1u << receive : 0) | advances);
        d.from = slot * mine.elements;
        if (area == TUG_AREA_SCRATCH)
            d.to = SLOTS * mine.elements;
        tug_add(&p->c, reduce, d);
    }
}

static void compile(struct pairs *p) {
    struct tug_schedule *schedule = p->c.schedule;
    struct tug_run mine = {0, p->counts[p->rank], p->plan->segment};
    uint32_t segments = tug_run_segments(&mine);
    bool in_place = p->plan->in_place;
    bool any = mine.elements > 0;
    uint32_t send = tug_schedule_queue(schedule, TUG_LIMIT_ALL);
    uint32_t receive = tug_schedule_queue(schedule, SLOTS * segments);
    uint32_t reduce = tug_schedule_queue(schedule, 1);
    uint32_t area = in_place ? TUG_AREA_SCRATCH : TUG_AREA_OUTPUT;
    uint32_t finish = in_place && any ? tug_schedule_queue(schedule, 0) : 0;
    uint32_t finishes = in_place && any ? 1u << finish : 0;
    uint32_t steps = send_blocks(p, send, finishes) + (p->n - 1) * segments;
    if (!any)
        return;
    struct tug_run whole = {0, mine.elements, 0};
    struct tug_descriptor own = tug_describe(TUG_COPY, &whole, TUG_AREA_INPUT, area, 0);
    own.from = begin_of(p, p->rank);
    own.to = in_place ? SLOTS * mine.elements : 0;
    tug_add(&p->c, reduce, own);
    take_in(p, receive, reduce, area, finishes);
    schedule->scratch = (SLOTS + in_place) * mine.elements;
    if (!in_place)
        return;
    tug_add_nop(&p->c, finish, steps - 1, 0, 0); /* OUTPUT is sent from until then */
    struct tug_descriptor last =
        tug_describe(TUG_COPY, &whole, TUG_AREA_SCRATCH, TUG_AREA_OUTPUT, 0);
    last.from = SLOTS * mine.elements;
    tug_add(&p->c, finish, last);
}

/* ---- through the rings of a node ----
 *
 * In round k a rank publishes the k-th segment of every other rank's block, in the order of
 * nth_to(), and reduces the k-th of its own out of all rings, in the order of nth_from().
 */

static uint32_t rounds_of(const struct pairs *p, uint32_t rank) {
    struct tug_run block = {0, p->counts[rank], p->plan->segment};
    return tug_run_segments(&block);
}

static struct tug_run segment_of(const struct pairs *p, uint32_t rank, uint32_t round) {
    struct tug_run block = block_of(p, rank);
    return tug_run_segment(&block, round);
}

/* Segments that `writer` has published before a round. */
static uint32_t published_before(const struct pairs *p, uint32_t writer, uint32_t round) {
    uint32_t published = 0;
    for (uint32_t r = 0; r < p->n; r++) {
        uint32_t rounds = rounds_of(p, r);
        if (r != writer)
            published += rounds < round ? rounds : round;
    }
    return published;
}

/* Where this rank's segment of a round is in a writer's ring. */
static uint32_t position_in(const struct pairs *p, uint32_t writer, uint32_t round) {
    uint32_t position = published_before(p, writer, round);
    for (uint32_t i = 1; nth_of(p, writer, i) != p->rank; i++)
        position += round < rounds_of(p, nth_of(p, writer, i));
    return position;
}

static void publish_round(struct pairs *p, uint32_t publish, uint32_t round, uint32_t advances) {
    for (uint32_t i = 1; i < p->n; i++) {
        uint32_t to = nth_to(p, i);
        if (round >= rounds_of(p, to))
            continue;
        struct tug_run segment = segment_of(p, to, round);
        tug_add(&p->c, publish,
                tug_describe(TUG_PUBLISH, &segment, TUG_AREA_INPUT, TUG_AREA_NONE, advances));
    }
}

static void reduce_round(struct pairs *p, uint32_t read, uint32_t round, uint32_t area,
                         uint32_t advances) {
    struct tug_run segment = segment_of(p, p->rank, round);
    uint64_t to = round * p->plan->segment;
    struct tug_descriptor own = tug_describe(TUG_COPY, &segment, TUG_AREA_INPUT, area, 0);
    own.to = to;
    tug_add(&p->c, read, own);
    for (uint32_t i = 1; i < p->n; i++) {
        uint32_t from = nth_from(p, i);
        bool lower = from < p->rank || p->plan->commutes;
        struct tug_descriptor d = tug_describe(lower ? TUG_GATHER_REDUCE : TUG_GATHER_FOLD,
                                               &segment, TUG_AREA_NONE, area, advances);
        d.peer = from;
        d.to = to;
        d.position = position_in(p, from, round);
        tug_add(&p->c, read, d);
    }
}

static void compile_rings(struct pairs *p) {
    struct tug_schedule *schedule = p->c.schedule;
    bool keeps = p->plan->in_place && p->counts[p->rank] > 0; /* until OUTPUT is published */
    uint32_t publish = tug_schedule_queue(schedule, TUG_LIMIT_ALL);
    uint32_t read = tug_schedule_queue(schedule, TUG_LIMIT_ALL);
    uint32_t finish = keeps ? tug_schedule_queue(schedule, 0) : 0;
    uint32_t finishes = keeps ? 1u << finish : 0;
    uint32_t mine = rounds_of(p, p->rank), rounds = 0;
    for (uint32_t r = 0; r < p->n; r++)
        rounds = rounds_of(p, r) > rounds ? rounds_of(p, r) : rounds;
    for (uint32_t w = 0; w < p->n; w++)
        schedule->passes[w] = published_before(p, w, rounds);
    for (uint32_t k = 0; k < rounds; k++)
        publish_round(p, publish, k, finishes);
    for (uint32_t k = 0; k < mine; k++)
        reduce_round(p, read, k, keeps ? TUG_AREA_SCRATCH : TUG_AREA_OUTPUT, finishes);
    tug_compiler_settle(&p->c, read);
    if (!keeps)
        return;
    struct tug_run whole = {0, p->counts[p->rank], 0};
    schedule->scratch = whole.elements;
    tug_add_nop(&p->c, finish, schedule->passes[p->rank] + (p->n - 1) * mine - 1, 0, 0);
    tug_add(&p->c, finish, tug_describe(TUG_COPY, &whole, TUG_AREA_SCRATCH, TUG_AREA_OUTPUT, 0));
}

int tug_compile_reduce_scatter(struct tug_schedule *schedule, const struct tug_places *places,
                               const struct tug_reduce_plan *plan, const uint64_t *counts,
                               uint32_t rank) {
    struct pairs p = {.plan = plan, .counts = counts, .n = places->nranks, .rank = rank};
    tug_compiler_begin(&p.c, schedule, places, rank);
    if (!schedule->failed && p.n > 1 && places->nnodes == 1)
        compile_rings(&p);
    else if (!schedule->failed && (p.n > 1 || !plan->in_place))
        compile(&p);
    return tug_compiler_end(&p.c);
}
