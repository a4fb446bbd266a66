/* Reduce_scatter in pairs: every rank sends each other rank its block, and reduces what arrives
 * into its own. */
#include "schedule/reduction.h"

#define SLOTS 2 /* blocks that may have arrived and are not reduced yet */

struct pairs {
    struct tug_compiler c;
    const struct tug_reduce_plan *plan;
    const uint64_t *counts;
    uint32_t n, rank;
};

/* The i-th peer to send to, and to receive from, i = 1 ... n - 1. Without
 * commutation blocks come from the lower ranks first, the nearest first, then from the higher ones,
 * the nearest first. In both orders messages can be numbered so that numbers grow along the list of
 * every sender and of every receiver: so the message with the least number can always go. */
static uint32_t nth_to(const struct pairs *p, uint32_t i) {
    if (p->plan->commutes)
        return (p->rank + i) % p->n;
    return i < p->n - p->rank ? p->rank + i : p->n - 1 - i;
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

int tug_compile_reduce_scatter(struct tug_schedule *schedule, const struct tug_places *places,
                               const struct tug_reduce_plan *plan, const uint64_t *counts,
                               uint32_t rank) {
    struct pairs p = {.plan = plan, .counts = counts, .n = places->nranks, .rank = rank};
    tug_compiler_begin(&p.c, schedule, places, rank);
    if (!schedule->failed && (places->nranks > 1 || !plan->in_place))
        compile(&p);
    return tug_compiler_end(&p.c);
}
