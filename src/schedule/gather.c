/* Gather and Scatter by a binomial tree over the ranks, numbered from the root upwards: a subtree's
 * parts are one run of numbers, and at most two of ranks. */
#include "schedule/compiler.h"

struct tree {
    struct tug_compiler c;
    const struct tug_gather_plan *plan;
    uint32_t n, number;
};

static uint32_t rank_of(const struct tree *t, uint32_t number) {
    return (t->plan->root + number) % t->n;
}

static uint32_t parent_of(uint32_t number) {
    return number & (number - 1);
}

/* Ranks in the subtree of a number. */
static uint32_t size_of(const struct tree *t, uint32_t number) {
    uint32_t reach = number == 0 ? t->n : number & -number;
    return reach < t->n - number ? reach : t->n - number;
}

/* Where a rank has the parts of numbers from `number` on: the root by rank, a leaf its only one. */
static uint32_t place_of(const struct tree *t, enum tug_kind kind, uint32_t number,
                         uint64_t *offset) {
    *offset = (t->number == 0 ? rank_of(t, number) : number - t->number) * t->plan->elements;
    if (t->number != 0 && size_of(t, t->number) > 1)
        return TUG_AREA_SCRATCH;
    return kind == TUG_SEND ? TUG_AREA_INPUT : TUG_AREA_OUTPUT;
}

/* Messages with the parts of a subtree, between its top and the parent: by rank if the parent is
 * the root, so there may be two. How many. */
static uint32_t add_subtree(struct tree *t, uint32_t queue, enum tug_kind kind, uint32_t top,
                            uint32_t advances) {
    uint32_t size = size_of(t, top);
    uint32_t to_end = t->n - rank_of(t, top);
    uint32_t cut = parent_of(top) == 0 && to_end < size ? to_end : size;
    uint32_t peer = rank_of(t, t->number == top ? parent_of(top) : top);
    uint32_t ends[3] = {0, cut, size};
    uint32_t messages = cut < size ? 2 : 1;
    for (uint32_t i = 0; i < messages; i++) {
        struct tug_run run = {.elements = (ends[i + 1] - ends[i]) * t->plan->elements};
        uint32_t area = place_of(t, kind, top + ends[i], &run.begin);
        tug_add_message(&t->c, queue, kind, peer, 0, &run, area, advances);
    }
    return messages;
}

/* Children, the nearest first or the farthest first: how many messages. */
static uint32_t add_children(struct tree *t, uint32_t queue, enum tug_kind kind,
                             uint32_t advances) {
    uint32_t messages = 0;
    uint32_t hops[32], nhops = 0;
    uint32_t reach = t->number == 0 ? t->n : t->number & -t->number;
    for (uint32_t hop = 1; hop < reach && hop < t->n - t->number; hop *= 2)
        hops[nhops++] = hop;
    for (uint32_t i = 0; i < nhops; i++) {
        uint32_t hop = hops[kind == TUG_SEND ? nhops - 1 - i : i];
        messages += add_subtree(t, queue, kind, t->number + hop, advances);
    }
    return messages;
}

static void copy_own(struct tree *t, uint32_t queue, uint32_t from, uint64_t from_offset,
                     uint32_t to, uint64_t to_offset, uint32_t advances) {
    struct tug_run run = {from_offset, t->plan->elements, 0};
    struct tug_descriptor d = tug_describe(TUG_COPY, &run, from, to, advances);
    d.to = to_offset;
    tug_add(&t->c, queue, d);
}

static void begin(struct tree *t, struct tug_schedule *schedule, const struct tug_places *places,
                  const struct tug_gather_plan *plan, uint32_t rank) {
    tug_compiler_begin(&t->c, schedule, places, rank);
    t->plan = plan;
    t->n = places->nranks;
    t->number = (rank + t->n - plan->root) % t->n;
}

static void gather(struct tree *t) {
    struct tug_schedule *schedule = t->c.schedule;
    uint32_t copy = tug_schedule_queue(schedule, TUG_LIMIT_ALL);
    uint32_t receive = tug_schedule_queue(schedule, TUG_LIMIT_ALL);
    if (t->number == 0) {
        if (!t->plan->in_place)
            copy_own(t, copy, TUG_AREA_INPUT, 0, TUG_AREA_OUTPUT, t->c.rank * t->plan->elements, 0);
        add_children(t, receive, TUG_RECEIVE, 0);
        return;
    }
    bool leaf = size_of(t, t->number) == 1;
    uint32_t send = tug_schedule_queue(schedule, leaf ? TUG_LIMIT_ALL : 0);
    if (!leaf) {
        schedule->scratch = size_of(t, t->number) * t->plan->elements;
        copy_own(t, copy, TUG_AREA_INPUT, 0, TUG_AREA_SCRATCH, 0, 1u << send);
        uint32_t messages = add_children(t, receive, TUG_RECEIVE, 1u << send);
        tug_add_nop(&t->c, send, messages, 0, 0);
        tug_add_nop(&t->c, send, 1, 2, 1u << send);
    }
    add_subtree(t, send, TUG_SEND, t->number, 0);
}

static void scatter(struct tree *t) {
    struct tug_schedule *schedule = t->c.schedule;
    uint32_t receive = tug_schedule_queue(schedule, TUG_LIMIT_ALL);
    if (t->number == 0) {
        uint32_t send = tug_schedule_queue(schedule, TUG_LIMIT_ALL);
        add_children(t, send, TUG_SEND, 0);
        if (!t->plan->in_place)
            copy_own(t, receive, TUG_AREA_INPUT, t->c.rank * t->plan->elements, TUG_AREA_OUTPUT, 0,
                     0);
        return;
    }
    if (size_of(t, t->number) > 1)
        schedule->scratch = size_of(t, t->number) * t->plan->elements;
    add_subtree(t, receive, TUG_RECEIVE, t->number, 0);
    if (size_of(t, t->number) == 1)
        return;
    uint32_t send = tug_schedule_queue(schedule, 0);
    uint32_t messages = add_children(t, send, TUG_SEND, 0);
    tug_add_nop(&t->c, receive, 1, messages, 1u << send);
    copy_own(t, receive, TUG_AREA_SCRATCH, 0, TUG_AREA_OUTPUT, 0, 0);
}

int tug_compile_gather(struct tug_schedule *schedule, const struct tug_places *places,
                       const struct tug_gather_plan *plan, uint32_t rank) {
    struct tree t;
    begin(&t, schedule, places, plan, rank);
    if (!schedule->failed && plan->elements > 0)
        gather(&t);
    return tug_compiler_end(&t.c);
}

int tug_compile_scatter(struct tug_schedule *schedule, const struct tug_places *places,
                        const struct tug_gather_plan *plan, uint32_t rank) {
    struct tree t;
    begin(&t, schedule, places, plan, rank);
    if (!schedule->failed && plan->elements > 0)
        scatter(&t);
    return tug_compiler_end(&t.c);
}
