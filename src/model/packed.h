/* The schedules of all ranks, packed for the simulator: descriptors and queues of all of them in
 * two vectors, and the state of their execution.
 *
 * A queue posts in order and completes in order: `op` and `segment` say what it posts next,
 * `done_op` and `done_segment` what will complete next.
 */
#ifndef TUG_MODEL_PACKED_H
#define TUG_MODEL_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schedule/places.h"
#include "schedule/schedule.h"

#define TUG_NO_FLOW UINT32_MAX

struct tug_packed_op {
    uint64_t elements;
    uint64_t segment;
    uint32_t segments; /* how many */
    uint32_t peer;
    uint32_t position;
    uint32_t release;
    uint32_t steps;
    uint32_t advances;
    uint32_t flow; /* SEND, RECEIVE, once known */
    uint8_t kind;
    uint8_t tag;
};

struct tug_packed_queue {
    uint64_t wire_ps; /* SEND: the segment before has left by then */
    uint32_t rank;
    uint32_t op, segment;
    uint32_t done_op, done_segment;
    uint32_t end; /* the op after the last */
    uint32_t posted;
    uint32_t limit;
    uint16_t flying; /* segments that have begun and not completed */
    bool is_ready;   /* on the list of queues to look at */
};

struct tug_packed {
    const struct tug_places *places;
    struct tug_packed_op *ops;
    struct tug_packed_queue *queues;
    uint32_t *queues_of; /* [nranks + 1] where the queues of a rank begin */
    uint64_t *needs_of;  /* [nnodes] where a node's table begins in `needs` */
    uint32_t *needs;     /* [reader][writer] the first position that is still needed */
    uint32_t nops, nqueues;
    uint32_t ops_capacity, queues_capacity;
};

/* 0, what compile() returns, TUG_ERR_NO_MEMORY, TUG_ERR_INVALID with the reason in `why`. */
int tug_pack(struct tug_packed *packed, const struct tug_places *places,
             int (*compile)(void *state, uint32_t rank, struct tug_schedule *schedule), void *state,
             char *why, size_t why_bytes);

void tug_packed_fini(struct tug_packed *packed);

/* What a reader of a node still needs of a writer's ring. */
static inline uint32_t *tug_packed_need(const struct tug_packed *packed, uint32_t node,
                                        uint32_t reader, uint32_t writer) {
    uint32_t size = tug_places_node_size(packed->places, node);
    return &packed->needs[packed->needs_of[node] + (uint64_t)reader * size + writer];
}

#endif
