#include "schedule/compiler.h"

static const struct tug_run block = {0, 1, 0};

struct exchange {
    struct tug_compiler c;
    const struct tug_exchange_plan *plan;
    uint32_t copy, send, receive; /* queues */
};

/* The block that send i reads. */
static uint32_t source_of(const struct exchange *x, uint32_t i) {
    uint32_t at = x->plan->in_place ? x->plan->staging + i : x->plan->sends[i].block;
    return TUG_AREA_BLOCKS + at;
}

/* In place: all that is sent is copied elsewhere before anything is received. */
static void put_aside(struct exchange *x) {
    for (uint32_t i = 0; i < x->plan->nsends; i++) {
        bool goes = x->plan->sends[i].peer != x->c.rank;
        tug_add(&x->c, x->copy,
                tug_describe(TUG_COPY, &block, TUG_AREA_BLOCKS + x->plan->sends[i].block,
                             source_of(x, i), goes ? 1u << x->send : 0));
    }
    tug_add_nop(&x->c, x->copy, 1, x->plan->nreceives, 1u << x->receive);
}

/* What the rank sends itself is copied, in the order in which it would arrive. */
static void copy_own(struct exchange *x) {
    const struct tug_exchange_plan *plan = x->plan;
    for (uint32_t i = 0, j = 0; i < plan->nsends; i++) {
        if (plan->sends[i].peer != x->c.rank)
            continue;
        while (plan->receives[j].peer != x->c.rank)
            j++;
        tug_add(&x->c, x->copy,
                tug_describe(TUG_COPY, &block, source_of(x, i),
                             TUG_AREA_BLOCKS + plan->receives[j++].block, 0));
    }
}

static void add_messages(struct exchange *x) {
    const struct tug_exchange_plan *plan = x->plan;
    for (uint32_t i = 0; i < plan->nsends; i++)
        if (plan->sends[i].peer != x->c.rank)
            tug_add_message(&x->c, x->send, TUG_SEND, plan->sends[i].peer, 0, &block,
                            source_of(x, i), 0);
    for (uint32_t i = 0; i < plan->nreceives; i++)
        if (plan->receives[i].peer != x->c.rank)
            tug_add_message(&x->c, x->receive, TUG_RECEIVE, plan->receives[i].peer, 0, &block,
                            TUG_AREA_BLOCKS + plan->receives[i].block, 0);
}

int tug_compile_exchange(struct tug_schedule *schedule, const struct tug_places *places,
                         const struct tug_exchange_plan *plan, uint32_t rank) {
    struct exchange x = {.plan = plan};
    uint32_t limit = plan->in_place ? 0 : TUG_LIMIT_ALL;
    tug_compiler_begin(&x.c, schedule, places, rank);
    if (!schedule->failed) {
        /* queues run in the order of their numbers: copies come last, while messages are on their
         * way */
        x.send = tug_schedule_queue(schedule, limit);
        x.receive = tug_schedule_queue(schedule, limit);
        x.copy = tug_schedule_queue(schedule, TUG_LIMIT_ALL);
        if (plan->in_place)
            put_aside(&x);
        copy_own(&x);
        add_messages(&x);
    }
    return tug_compiler_end(&x.c);
}

int tug_compile_cycle(struct tug_schedule *schedule, const struct tug_places *places, bool in_place,
                      uint32_t rank) {
    struct tug_compiler c;
    uint32_t n = places->nranks;
    uint32_t own = TUG_AREA_BLOCKS + (in_place ? rank : n);
    tug_compiler_begin(&c, schedule, places, rank);
    if (schedule->failed)
        return tug_compiler_end(&c);
    uint32_t copy = tug_schedule_queue(schedule, TUG_LIMIT_ALL);
    uint32_t send = tug_schedule_queue(schedule, 1);
    uint32_t receive = tug_schedule_queue(schedule, TUG_LIMIT_ALL);
    if (!in_place)
        tug_add(&c, copy, tug_describe(TUG_COPY, &block, own, TUG_AREA_BLOCKS + rank, 0));
    for (uint32_t down = 0; down < n; down++) {
        uint32_t area = TUG_AREA_BLOCKS + (rank + n - down) % n;
        if (down > 0)
            tug_add_message(&c, receive, TUG_RECEIVE, (rank + n - 1) % n, 0, &block, area,
                            down + 1 < n ? 1u << send : 0);
        if (down + 1 < n)
            tug_add_message(&c, send, TUG_SEND, (rank + 1) % n, 0, &block, down == 0 ? own : area,
                            0);
    }
    return tug_compiler_end(&c);
}
