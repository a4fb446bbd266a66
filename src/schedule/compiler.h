/* What the compilers of collectives share: the rank's place, and descriptors in few words.
 *
 * How a compiler keeps the order of things: a queue that waits for two others counts the steps of
 * both, so either both run in lockstep with it (it takes a no-op for every step but the last), or
 * what one of them does follows from the other. Buffers that are being sent are not received into
 * before the send has completed.
 */
#ifndef TUG_SCHEDULE_COMPILER_H
#define TUG_SCHEDULE_COMPILER_H

#include "schedule/collectives.h"

/* Queues that read several rings of more segments than a ring holds take so many of each in
 * turn: nobody waits for a segment whose writer waits for that reader. */
#define TUG_CHUNK (TUG_RING_AHEAD / 2)

struct tug_compiler {
    struct tug_schedule *schedule;
    const struct tug_places *places;
    uint32_t rank, node, node_rank, node_size;
};

/* A run of elements in pieces of `segment`. */
struct tug_run {
    uint64_t begin, elements, segment;
};

void tug_compiler_begin(struct tug_compiler *c, struct tug_schedule *schedule,
                        const struct tug_places *places, uint32_t rank);

/* 0 or TUG_ERR_NO_MEMORY, and nothing is left. */
int tug_compiler_end(struct tug_compiler *c);

uint32_t tug_run_segments(const struct tug_run *run);
/* The n-th segment, a run in one piece. */
struct tug_run tug_run_segment(const struct tug_run *run, uint64_t n);
uint32_t tug_run_chunks(const struct tug_run *run);
struct tug_run tug_run_chunk(const struct tug_run *run, uint32_t chunk);

/* The n-th of `parts` parts. */
struct tug_run tug_run_part(const struct tug_run *run, uint32_t parts, uint32_t n);

/* Everything of a queue has been added that reads rings, and no other queue reads those: works out
 * release and first. schedule->passes is set. */
void tug_compiler_settle(struct tug_compiler *c, uint32_t queue);

/* A descriptor at the same offset of two areas, which steps once a segment. */
struct tug_descriptor tug_describe(enum tug_kind kind, const struct tug_run *run, uint32_t from,
                                   uint32_t to, uint32_t advances);

static inline void tug_add(struct tug_compiler *c, uint32_t queue, struct tug_descriptor d) {
    tug_queue_add(c->schedule, queue, &d);
}

/* Waits for `segments` steps and gives `steps` for each. */
void tug_add_nop(struct tug_compiler *c, uint32_t queue, uint32_t segments, uint32_t steps,
                 uint32_t advances);

void tug_add_message(struct tug_compiler *c, uint32_t queue, enum tug_kind kind, uint32_t peer,
                     uint8_t tag, const struct tug_run *run, uint32_t area, uint32_t advances);

/* Collects and reduces from a rank of the node, awaits it. */
void tug_add_ring(struct tug_compiler *c, uint32_t queue, enum tug_kind kind, uint32_t node_rank,
                  const struct tug_run *run, uint32_t to, uint32_t position, uint32_t advances);

/* An Allgather on one node whose ranks reach into one another's buffers (direct.c). */
void tug_allgather_direct(struct tug_compiler *c, const struct tug_gather_plan *plan);

#endif
