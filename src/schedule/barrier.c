#include "schedule/compiler.h"

static const struct tug_run nothing = {0, 0, 0};

/* Dissemination between nodes: in round k a node sends to the node 2^k after it, and receives from
 * the one 2^k before. Both queues wait for a first step, unless the caller lets them begin at once.
 */
static void disseminate(struct tug_compiler *c, uint32_t send, uint32_t receive, uint32_t through) {
    const struct tug_places *places = c->places;
    uint32_t n = places->nnodes;
    for (uint32_t hop = 1; hop < n; hop *= 2) {
        uint32_t to = tug_places_rank(places, (c->node + hop) % n, 0);
        uint32_t from = tug_places_rank(places, (c->node + n - hop) % n, 0);
        bool last = hop >= n - hop;
        tug_add_message(c, send, TUG_SEND, to, 0, &nothing, TUG_AREA_NONE, 0);
        tug_add_message(c, receive, TUG_RECEIVE, from, 0, &nothing, TUG_AREA_NONE,
                        last ? through : 1u << send | 1u << receive);
    }
}

/* The first rank of a node waits for the others, and tells them when all nodes are there. */
static void lead(struct tug_compiler *c) {
    uint32_t await = tug_schedule_queue(c->schedule, TUG_LIMIT_ALL);
    uint32_t send = tug_schedule_queue(c->schedule, c->node_size == 1);
    uint32_t receive = tug_schedule_queue(c->schedule, c->node_size == 1);
    uint32_t through = 0;
    for (uint32_t r = 1; r < c->node_size; r++)
        tug_add_ring(c, await, TUG_AWAIT, r, &nothing, TUG_AREA_NONE, 0,
                     r + 1 == c->node_size ? 1u << send | 1u << receive : 0);
    if (c->node_size > 1) {
        uint32_t signal = tug_schedule_queue(c->schedule, 0);
        tug_add(c, signal, (struct tug_descriptor){.kind = TUG_SIGNAL});
        through = 1u << signal;
    }
    disseminate(c, send, receive, through);
    tug_compiler_settle(c, await);
}

static void follow(struct tug_compiler *c) {
    bool alone = c->places->nnodes == 1;
    uint32_t signal = tug_schedule_queue(c->schedule, TUG_LIMIT_ALL);
    uint32_t await = tug_schedule_queue(c->schedule, TUG_LIMIT_ALL);
    tug_add(c, signal, (struct tug_descriptor){.kind = TUG_SIGNAL});
    for (uint32_t r = 0; r < (alone ? c->node_size : 1); r++)
        if (r != c->node_rank)
            tug_add_ring(c, await, TUG_AWAIT, r, &nothing, TUG_AREA_NONE, 0, 0);
    tug_compiler_settle(c, await);
}

int tug_compile_barrier(struct tug_schedule *schedule, const struct tug_places *places,
                        uint32_t rank) {
    struct tug_compiler c;
    tug_compiler_begin(&c, schedule, places, rank);
    for (uint32_t r = 0; r < c.node_size && !schedule->failed; r++)
        schedule->passes[r] = c.node_size > 1;
    if (!schedule->failed && places->nranks > 1) {
        if (places->nnodes > 1 && c.node_rank == 0)
            lead(&c);
        else
            follow(&c);
    }
    return tug_compiler_end(&c);
}
