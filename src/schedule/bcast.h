/* Compiling a broadcast.
 *
 * Between nodes the message goes down the pipelines of an algorithm (trees.h), each carrying its
 * share in segments; on every node one rank holds a pipeline's ends: with several pipelines and
 * ranks they take one each, as the TNIs of a node do. Inside a node:
 *
 *   RELAY       The holder publishes each segment as it arrives; the others collect it.
 *   TWO_PHASE   The pipelines land in memory that the node shares. When all of them are through
 *               (each queue waits for the steps of the others by no-ops, as in Morie et al.,
 *               section 6), every rank copies the message out of it by itself, in parallel.
 *   ONE_ENGINE  The relay of Morie et al., section 4: one rank holds all pipelines, and one queue
 * of it, as the fourth TNI does, sends every segment to every other rank, one after another. The
 * same on the root's node. It is there to be compared with: whatever chooses leaves it out.
 *
 * On the root's node nothing lands: the root publishes, or, where it lends its buffer, the others
 * copy out of that, all at once.
 */
#ifndef TUG_SCHEDULE_BCAST_H
#define TUG_SCHEDULE_BCAST_H

#include <stdbool.h>
#include <stdint.h>

#include "schedule/places.h"
#include "schedule/schedule.h"
#include "schedule/trees.h"

enum tug_phases { TUG_RELAY, TUG_TWO_PHASE, TUG_ONE_ENGINE, TUG_PHASES };

struct tug_bcast_plan {
    enum tug_algorithm algorithm;
    enum tug_phases phases;
    uint32_t root; /* rank */
    uint64_t elements;
    uint64_t segment; /* elements, between nodes and in the ring */
    bool lent;        /* the root's node can read the root's OUTPUT where it lies */
};

/* Algorithms and phases, numbered: below TUG_BCAST_WAYS. */
#define TUG_BCAST_WAYS ((uint32_t)TUG_PHASES * TUG_ALGORITHMS)
static inline uint32_t tug_bcast_way(enum tug_algorithm algorithm, enum tug_phases phases) {
    return TUG_PHASES * (uint32_t)algorithm + (uint32_t)phases;
}

/* The schedule of a rank, between TUG_AREA_OUTPUT of all ranks. 0 or TUG_ERR_NO_MEMORY. */
int tug_compile_bcast(struct tug_schedule *schedule, const struct tug_places *places,
                      const struct tug_bcast_plan *plan, uint32_t rank);

#endif
