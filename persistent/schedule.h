/* Schedules: a persistent collective as data, and their interpreter.
 *
 * A schedule is a handful of *lanes*, each a list of descriptors executed in order; lanes run
 * beside one another. This is the Session Mode Control Queue of Tofu2 in software (Morie et al.,
 * section 3): a lane has a read pointer (next), a *scheduling pointer* (limit) that the read
 * pointer may not overtake, and the completion of a descriptor advances the scheduling pointers of
 * the lanes that wait for it by one step each (its session progress step).
 *
 *     lane RECEIVE   r0 r1 r2 ...         limit: all at start
 *                     |  |                each completion: PUBLISH and SEND + 1
 *     lane SEND      s0 s1 s2 ...
 *     lane PUBLISH   p0 p1 p2 ...
 *
 * Sends and receives are kept up to TUG_LANE_DEPTH in flight and complete in order. No descriptor
 * waits: one that cannot proceed is looked at again. Run by the holder of the baton.
 */
#ifndef TUG_PERSISTENT_SCHEDULE_H
#define TUG_PERSISTENT_SCHEDULE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "persistent/staging.h"
#include "persistent/team.h"

#define TUG_LANE_DEPTH 8

enum tug_lane_kind {
    TUG_LANE_RECEIVE, /* a segment from the node before us in the chain */
    TUG_LANE_SEND,    /* a segment to the node after us */
    TUG_LANE_PUBLISH, /* copy a segment into the node's ring */
    TUG_LANE_COLLECT, /* copy a segment out of it */
    TUG_LANES
};

struct tug_descriptor {
    uint32_t segment;  /* which part of the message */
    uint32_t advances; /* bit set of lanes whose scheduling pointer completion moves by one */
};

struct tug_lane {
    struct tug_descriptor *descriptors;
    uint32_t count;
    uint32_t next;   /* read pointer: all before are complete */
    uint32_t posted; /* RECEIVE, SEND: all before are handed to the host */
    uint32_t limit;  /* scheduling pointer */
    uint32_t limit_at_start;
    int peer; /* RECEIVE, SEND: rank in the team */
    MPI_Request in_flight[TUG_LANE_DEPTH];
};

struct tug_schedule {
    struct tug_team *team;
    struct tug_channel *channel;
    struct tug_staging staging; /* the message as bytes in order */
    size_t bytes;
    size_t segment_bytes;
    uint32_t nsegments;
    int writer;    /* COLLECT: node rank of who publishes */
    bool streams;  /* COLLECT: past the caches (copy.h) */
    uint64_t base; /* the channel's position when this run began */
    struct tug_lane lanes[TUG_LANES];
    int error; /* first error of the host in this run */
};

/* Compiles the broadcast from root for this rank. The team, channel, staging and sizes are set. 0
 * or TUG_ERR_NO_MEMORY. */
int tug_schedule_bcast(struct tug_schedule *schedule, int root);

/* Sets all pointers for another run. */
void tug_schedule_start(struct tug_schedule *schedule);

/* Executes what can be executed now. True if anything moved; sets *done at the end. */
bool tug_schedule_advance(struct tug_schedule *schedule, bool *done);

/* True if the schedule has traffic between nodes, for which no bell rings. */
bool tug_schedule_polls(const struct tug_schedule *schedule);

void tug_schedule_end(struct tug_schedule *schedule);

#endif
