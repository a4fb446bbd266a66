/* What Reduce and Allreduce share: who takes part between nodes, and the reduction inside one.
 *
 * Between nodes one rank of each takes part, the *holder*, with its node's result. Where the order
 * of ranks matters and nodes do not keep it, every rank takes part by itself.
 */
#ifndef TUG_SCHEDULE_REDUCTION_H
#define TUG_SCHEDULE_REDUCTION_H

#include "schedule/compiler.h"

struct tug_reduction {
    struct tug_compiler c;
    const struct tug_reduce_plan *plan;
    struct tug_run all;
    uint32_t count, me; /* who take part between nodes */
    bool by_rank;       /* every rank does */
    uint32_t root_node; /* its holder is the root, others' the first; UINT32_MAX: none */
};

void tug_reduction_begin(struct tug_reduction *r, struct tug_schedule *schedule,
                         const struct tug_places *places, const struct tug_reduce_plan *plan,
                         uint32_t root_node, uint32_t rank);

/* The rank that takes part as number i; this rank's node's holder. */
uint32_t tug_reduction_rank(const struct tug_reduction *r, uint32_t i);
uint32_t tug_reduction_holder(const struct tug_reduction *r);

/* True if a node's ranks but for the holder only bring their input. */
static inline bool tug_reduction_has_members(const struct tug_reduction *r) {
    return !r->by_rank && r->c.node_size > 1;
}

/* The holder's queue: the node's inputs of a run, reduced into an area; a segment that is complete
 * steps. The holder's own is copied there first unless it is there; the other ranks publish theirs
 * in the same order of runs, this one from *position on, which is moved on. */
void tug_reduction_gather(struct tug_reduction *r, uint32_t queue, const struct tug_run *run,
                          uint32_t to, bool there, uint32_t *position, uint32_t advances);

/* The kind that takes in what comes from a lower rank, or a higher one, in the rank's order. */
static inline enum tug_kind tug_reduction_kind(const struct tug_reduction *r, bool from_lower) {
    return from_lower || r->plan->commutes ? TUG_REDUCE : TUG_FOLD;
}

static inline enum tug_kind tug_reduction_ring_kind(const struct tug_reduction *r,
                                                    bool from_lower) {
    return from_lower || r->plan->commutes ? TUG_GATHER_REDUCE : TUG_GATHER_FOLD;
}

/* The i-th of the node's other ranks to take in: the lower ones downwards, then the higher ones, so
 * that one's own may be first. */
uint32_t tug_reduction_other(const struct tug_reduction *r, uint32_t i);

/* One node and much to do (shares.c): segments are shared out; who has one reduces and publishes
 * it, and the root, or everybody (UINT32_MAX), collects. */
void tug_reduction_shares(struct tug_reduction *r, uint32_t root_node_rank);

/* One node whose ranks read one another's buffers (direct.c), otherwise as above. */
void tug_reduction_direct(struct tug_reduction *r, uint32_t root_node_rank);

#endif
