#include "schedule/compiler.h"

struct scan {
    struct tug_compiler c;
    const struct tug_reduce_plan *plan;
    bool exclusive;
    uint32_t rank, n;
    struct tug_run all;
    uint32_t copy, send, receive, reduce; /* queues */
};

static bool last(const struct scan *s) {
    return s->rank + 1 == s->n;
}

/* ---- large, or of two ranks: a chain ---- */

/* Rank 0 passes its input on. */
static void begin_chain(struct scan *s) {
    struct tug_compiler *c = &s->c;
    bool copies = !s->exclusive && !s->plan->in_place;
    c->schedule->queues[s->send].limit = TUG_LIMIT_ALL;
    if (copies)
        tug_add(c, s->copy, tug_describe(TUG_COPY, &s->all, TUG_AREA_INPUT, TUG_AREA_OUTPUT, 0));
    if (!last(s))
        tug_add_message(c, s->send, TUG_SEND, 1, 0, &s->all, TUG_AREA_INPUT, 0);
}

/* What arrives from the rank below, reduced with the rank's own, goes to the rank above. That is
 * done in OUTPUT; of an exclusive scan OUTPUT gets what arrives, and it is done in SCRATCH. */
static void continue_chain(struct scan *s) {
    struct tug_compiler *c = &s->c;
    uint32_t from = s->exclusive ? TUG_AREA_OUTPUT : TUG_AREA_SCRATCH;
    uint32_t to = s->exclusive ? TUG_AREA_SCRATCH : TUG_AREA_OUTPUT;
    bool goes_on = !s->exclusive || !last(s);
    bool copies = goes_on && (s->exclusive || !s->plan->in_place);
    bool copies_first = copies && s->plan->in_place; /* before OUTPUT is received into */
    struct tug_run whole = {0, s->all.elements, 0};
    if (copies) {
        struct tug_descriptor d =
            tug_describe(TUG_COPY, &whole, TUG_AREA_INPUT, to, copies_first ? 1u << s->receive : 0);
        d.steps = tug_run_segments(&s->all);
        tug_add(c, s->reduce, d);
        c->schedule->queues[s->reduce].limit = 1;
    }
    if (!copies_first)
        c->schedule->queues[s->receive].limit = TUG_LIMIT_ALL;
    tug_add_message(c, s->receive, TUG_RECEIVE, s->rank - 1, 0, &s->all, from,
                    goes_on ? 1u << s->reduce : 0);
    if (goes_on)
        tug_add(c, s->reduce,
                tug_describe(TUG_REDUCE, &s->all, from, to, last(s) ? 0 : 1u << s->send));
    if (!last(s))
        tug_add_message(c, s->send, TUG_SEND, s->rank + 1, 0, &s->all, to, 0);
    c->schedule->scratch = s->all.elements;
}

/* ---- small: doubling ---- */

/* In stage d a rank's partial result, of the d ranks up to it, goes to the rank d above. */
static uint32_t queues_of_stage(const struct scan *s, uint32_t d) {
    return (s->n - s->rank > d ? 1u << s->send : 0) | (s->rank >= d ? 1u << s->receive : 0);
}

/* Reduces what came from the rank d below. */
static void take_in(struct scan *s, uint32_t d, struct tug_run *partial, uint32_t area) {
    struct tug_compiler *c = &s->c;
    uint32_t next = queues_of_stage(s, 2 * d);
    struct tug_descriptor reduce = tug_describe(TUG_REDUCE, partial, TUG_AREA_SCRATCH, area, next);
    reduce.from = s->all.elements;
    if (s->exclusive) {
        struct tug_descriptor result = reduce;
        result.kind = d == 1 ? TUG_COPY : TUG_REDUCE;
        result.to_area = TUG_AREA_OUTPUT;
        result.advances = 1u << s->reduce;
        tug_add(c, s->reduce, result);
    }
    tug_add(c, s->reduce, reduce);
}

static void doubling(struct scan *s) {
    struct tug_compiler *c = &s->c;
    struct tug_run partial = {0, s->all.elements, 0};
    struct tug_run incoming = {s->all.elements, s->all.elements, 0};
    uint32_t area = s->exclusive ? TUG_AREA_SCRATCH : TUG_AREA_OUTPUT;
    bool there = !s->exclusive && s->plan->in_place;
    c->schedule->scratch = 2 * s->all.elements;
    tug_add(c, s->copy,
            tug_describe(there ? TUG_NOP : TUG_COPY, &partial, TUG_AREA_INPUT, area,
                         queues_of_stage(s, 1)));
    for (uint32_t d = 1; d < s->n; d *= 2) {
        bool sends = s->n - s->rank > d, receives = s->rank >= d;
        if (sends)
            tug_add_message(c, s->send, TUG_SEND, s->rank + d, 0, &partial, area,
                            receives ? 1u << s->reduce : queues_of_stage(s, 2 * d));
        if (!receives)
            continue;
        tug_add_message(c, s->receive, TUG_RECEIVE, s->rank - d, 0, &incoming, TUG_AREA_SCRATCH,
                        1u << s->reduce);
        tug_add_nop(c, s->reduce, sends, 0, 0);
        take_in(s, d, &partial, area);
    }
}

int tug_compile_scan(struct tug_schedule *schedule, const struct tug_places *places,
                     const struct tug_reduce_plan *plan, bool exclusive, uint32_t rank) {
    struct scan s = {.plan = plan,
                     .exclusive = exclusive,
                     .rank = rank,
                     .n = places->nranks,
                     .all = {0, plan->elements, plan->large ? plan->segment : 0}};
    tug_compiler_begin(&s.c, schedule, places, rank);
    if (schedule->failed || plan->elements == 0)
        return tug_compiler_end(&s.c);
    s.copy = tug_schedule_queue(schedule, TUG_LIMIT_ALL);
    s.send = tug_schedule_queue(schedule, 0);
    s.receive = tug_schedule_queue(schedule, 0);
    s.reduce = tug_schedule_queue(schedule, 0);
    if (!plan->large && s.n > 2)
        doubling(&s);
    else if (rank == 0)
        begin_chain(&s);
    else
        continue_chain(&s);
    return tug_compiler_end(&s.c);
}
