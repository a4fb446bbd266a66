#include "schedule/reduction.h"

void tug_reduction_begin(struct tug_reduction *r, struct tug_schedule *schedule,
                         const struct tug_places *places, const struct tug_reduce_plan *plan,
                         uint32_t root_node, uint32_t rank) {
    tug_compiler_begin(&r->c, schedule, places, rank);
    r->plan = plan;
    r->all = (struct tug_run){0, plan->elements, plan->segment};
    r->by_rank = !plan->commutes && places->nnodes > 1 && !tug_places_in_order(places);
    r->count = r->by_rank ? places->nranks : places->nnodes;
    r->me = r->by_rank ? rank : r->c.node;
    r->root_node = root_node;
}

static uint32_t holder_of(const struct tug_reduction *r, uint32_t node) {
    return node == r->root_node ? r->c.places->node_rank_of[r->plan->root] : 0;
}

uint32_t tug_reduction_rank(const struct tug_reduction *r, uint32_t i) {
    return r->by_rank ? i : tug_places_rank(r->c.places, i, holder_of(r, i));
}

uint32_t tug_reduction_holder(const struct tug_reduction *r) {
    return r->by_rank ? r->c.node_rank : holder_of(r, r->c.node);
}

uint32_t tug_reduction_other(const struct tug_reduction *r, uint32_t i) {
    uint32_t me = r->c.node_rank;
    return i < me ? me - 1 - i : i + 1;
}

void tug_reduction_gather(struct tug_reduction *r, uint32_t queue, const struct tug_run *run,
                          uint32_t to, bool there, uint32_t *position, uint32_t advances) {
    struct tug_compiler *c = &r->c;
    uint32_t others = tug_reduction_has_members(r) ? c->node_size - 1 : 0;
    uint32_t chunks = tug_run_chunks(run);
    for (uint32_t k = 0; k < chunks; k++) {
        struct tug_run chunk = tug_run_chunk(run, k);
        enum tug_kind own = there ? TUG_NOP : TUG_COPY;
        if (!there || others == 0)
            tug_add(c, queue,
                    tug_describe(own, &chunk, TUG_AREA_INPUT, to, others == 0 ? advances : 0));
        for (uint32_t i = 0; i < others; i++) {
            uint32_t from = tug_reduction_other(r, i);
            tug_add_ring(c, queue, tug_reduction_ring_kind(r, from < c->node_rank), from, &chunk,
                         to, *position, i + 1 == others ? advances : 0);
        }
        *position += tug_run_segments(&chunk);
    }
}
