/* Compiling the collectives other than the broadcast.
 *
 * Barrier, reductions and Allgather go through the node's rings inside a node and by messages of
 * one rank a node between them; the others are messages between ranks. `large` in a plan says that
 * bandwidth counts more than the number of hops.
 *
 *   Barrier         signals on the node, dissemination between nodes
 *   Allreduce       one node, small: everybody publishes, everybody reduces in the same order;
 *                   large: segments are shared out, who reduces one publishes the result;
 *                   direct: shares, read from and written to where they lie
 *                   nodes, small: recursive doubling; large: a cycle of reductions, then one of
 *                   copies (what does not commute is doubled always)
 *   Reduce          one node: as above, or by the root alone; nodes, small: a binomial tree; large:
 *                   a chain
 *   Allgather       everybody publishes (direct: reads); between nodes a cycle
 *   Gather, Scatter a binomial tree
 *   Reduce_scatter  in pairs; Scan, Exscan: small: doubling; large: a chain
 *   exchange        all others: messages straight from rank to rank (lent: long ones by one copy)
 *   cycle           Allgatherv of large blocks
 *
 * Reductions that do not commute keep the order of ranks. All are pure functions; every one makes a
 * schedule, or frees what it made and returns TUG_ERR_NO_MEMORY. All ranks compile from the same
 * plan, but for `in_place`, which is the rank's own where it says so.
 */
#ifndef TUG_SCHEDULE_COLLECTIVES_H
#define TUG_SCHEDULE_COLLECTIVES_H

#include <stdbool.h>
#include <stdint.h>

#include "schedule/places.h"
#include "schedule/schedule.h"

/* A writer may be so many segments ahead of the slowest reader of its ring, or more. */
#define TUG_RING_AHEAD 8

int tug_compile_barrier(struct tug_schedule *schedule, const struct tug_places *places,
                        uint32_t rank);

struct tug_reduce_plan {
    uint64_t elements;
    uint64_t segment; /* elements */
    uint32_t root;    /* of Reduce */
    bool large;
    bool commutes;
    bool in_place; /* OUTPUT holds the input: on all ranks; of Reduce on the root */
    bool direct;   /* one node, whose ranks reach into one another's buffers; only if large */
};

/* From INPUT of all to OUTPUT of the root; the others have none. */
int tug_compile_reduce(struct tug_schedule *schedule, const struct tug_places *places,
                       const struct tug_reduce_plan *plan, uint32_t rank);

/* From INPUT of all to OUTPUT of all, the same on all to the bit. */
int tug_compile_allreduce(struct tug_schedule *schedule, const struct tug_places *places,
                          const struct tug_reduce_plan *plan, uint32_t rank);

/* The ranks up to this one (but for this one: exclusive; rank 0 then gets nothing). */
int tug_compile_scan(struct tug_schedule *schedule, const struct tug_places *places,
                     const struct tug_reduce_plan *plan, bool exclusive, uint32_t rank);

/* counts[nranks] elements for each rank, from INPUT of their sum. plan->elements is not used. In
 * place the input is in OUTPUT, and the result at its beginning. */
int tug_compile_reduce_scatter(struct tug_schedule *schedule, const struct tug_places *places,
                               const struct tug_reduce_plan *plan, const uint64_t *counts,
                               uint32_t rank);

struct tug_gather_plan {
    uint64_t elements; /* of each rank */
    uint64_t segment;  /* of Allgather: elements */
    uint32_t root;
    bool in_place; /* Allgather: all ranks' part is in OUTPUT already; Gather and Scatter: the
                      root's own part stays where it is */
    bool direct;   /* of Allgather: one node, whose ranks reach into one another's buffers */
};

/* INPUT of all to OUTPUT of all, by rank. */
int tug_compile_allgather(struct tug_schedule *schedule, const struct tug_places *places,
                          const struct tug_gather_plan *plan, uint32_t rank);

/* INPUT of all to OUTPUT of the root, by rank. */
int tug_compile_gather(struct tug_schedule *schedule, const struct tug_places *places,
                       const struct tug_gather_plan *plan, uint32_t rank);

/* INPUT of the root, by rank, to OUTPUT of all. */
int tug_compile_scatter(struct tug_schedule *schedule, const struct tug_places *places,
                        const struct tug_gather_plan *plan, uint32_t rank);

/* Blocks to and from ranks, this rank among them. What is sent to a rank arrives there in order. */
struct tug_message {
    uint32_t peer;
    uint32_t block; /* of TUG_AREA_BLOCKS */
    bool is_long;   /* the same at both ends */
};

struct tug_exchange_plan {
    const struct tug_message *sends, *receives;
    uint32_t nsends, nreceives;
    bool in_place; /* blocks that are received are sent first: send i goes out of block
                      `staging` + i, to which it is copied before anything is received */
    uint32_t staging;
    bool lends; /* one node: what is long is taken from where it lies. Messages with different ranks
                   do not wait for each other then, but where queues are short */
};

int tug_compile_exchange(struct tug_schedule *schedule, const struct tug_places *places,
                         const struct tug_exchange_plan *plan, uint32_t rank);

/* Block r of every rank gets what block r of rank r has; in_place or from block nranks. */
int tug_compile_cycle(struct tug_schedule *schedule, const struct tug_places *places, bool in_place,
                      uint32_t rank);

#endif
