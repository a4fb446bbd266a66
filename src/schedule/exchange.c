#include "schedule/compiler.h"

static const struct tug_run block = {0, 1, 0};

struct exchange {
    struct tug_compiler c;
    const struct tug_exchange_plan *plan;
    uint32_t copy, send, receive; /* queues: of sends and receives the first */
    uint32_t queues;              /* of sends, and of receives */
};

/* Messages from a rank to another are all in one queue. By distance: what a rank sends next in a
 * queue is then what its receiver awaits next in the queue of the same number. */
static uint32_t queue_of(const struct exchange *x, uint32_t first, uint32_t from, uint32_t to) {
    const uint32_t n = x->c.places->nranks;
    return first + ((to + n - from) % n + x->queues - 1) % x->queues;
}

static uint32_t send_queue(const struct exchange *x, uint32_t i) {
    return queue_of(x, x->send, x->c.rank, x->plan->sends[i].peer);
}

static uint32_t receive_queue(const struct exchange *x, uint32_t i) {
    return queue_of(x, x->receive, x->plan->receives[i].peer, x->c.rank);
}

static void add_queues(struct exchange *x) {
    const uint32_t limit = x->plan->in_place ? 0 : TUG_LIMIT_ALL;
    const uint32_t most = (TUG_QUEUES_MOST - 1) / 2, others = x->c.places->nranks - 1;
    x->queues = !x->plan->lends || others == 0 ? 1 : others < most ? others : most;
    /* queues run in the order of their numbers: copies come last, while messages are on their way
     */
    for (uint32_t i = 0; i < 2 * x->queues; i++) {
        const uint32_t queue = tug_schedule_queue(x->c.schedule, limit);
        x->send = i == 0 ? queue : x->send;
        x->receive = i == x->queues ? queue : x->receive;
    }
    x->copy = tug_schedule_queue(x->c.schedule, TUG_LIMIT_ALL);
}

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
                             source_of(x, i), goes ? 1u << send_queue(x, i) : 0));
    }
    tug_add_nop(&x->c, x->copy, 1, x->plan->nreceives, ((1u << x->queues) - 1) << x->receive);
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
    for (uint32_t i = 0; i < plan->nsends; i++) {
        struct tug_descriptor d = tug_describe(TUG_SEND, &block, source_of(x, i), TUG_AREA_NONE, 0);
        d.peer = plan->sends[i].peer;
        if (plan->lends && plan->sends[i].is_long)
            d.to_area = TUG_AREA_LENT;
        if (d.peer != x->c.rank)
            tug_add(&x->c, send_queue(x, i), d);
    }
    for (uint32_t i = 0; i < plan->nreceives; i++) {
        struct tug_descriptor d = tug_describe(TUG_RECEIVE, &block, TUG_AREA_NONE,
                                               TUG_AREA_BLOCKS + plan->receives[i].block, 0);
        d.peer = plan->receives[i].peer;
        if (plan->lends && plan->receives[i].is_long)
            d.from_area = TUG_AREA_LENT;
        if (d.peer != x->c.rank)
            tug_add(&x->c, receive_queue(x, i), d);
    }
}

int tug_compile_exchange(struct tug_schedule *schedule, const struct tug_places *places,
                         const struct tug_exchange_plan *plan, uint32_t rank) {
    struct exchange x = {.plan = plan};
    tug_compiler_begin(&x.c, schedule, places, rank);
    if (!schedule->failed) {
        add_queues(&x);
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
