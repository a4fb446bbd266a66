/* The interpreter of schedules, in the engine.
 *
 * An interpreter has a schedule and what it works on: a team, a channel, the memory behind its
 * areas, an operation. It runs the schedule as often as it is started; schedule/schedule.h says
 * what the descriptors mean. Sends and receives are kept up to TUG_IN_FLIGHT_MOST in flight and
 * complete in order. No descriptor waits: one that cannot proceed is looked at again. Run by the
 * holder of the baton.
 */
#ifndef TUG_PERSISTENT_INTERPRETER_H
#define TUG_PERSISTENT_INTERPRETER_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/reduction.h"
#include "node/team.h"
#include "persistent/channel.h"
#include "persistent/rendezvous.h"
#include "persistent/staging.h"
#include "schedule/schedule.h"

#define TUG_IN_FLIGHT_MOST 8

/* The memory behind an area. An element of it is `count` of a datatype. */
struct tug_area_memory {
    unsigned char *base;
    MPI_Datatype type;
    MPI_Count count;
    size_t extent; /* bytes from one element to the next */
    bool dense;    /* an element is `extent` plain bytes: copied as such */
    size_t packed; /* bytes of data in an element that is not dense */
};

/* Where another rank of the node has its INPUT and OUTPUT, for attach (node/cma.h). */
struct tug_their_areas {
    uint64_t input, output;
};

/* A place in a lane. */
struct tug_lane_pointer {
    uint32_t descriptor;
    uint32_t segment; /* of it */
    uint32_t passed;  /* segments before this one in the lane */
};

/* Where a lane stands. Sends and receives are begun ahead of the read pointer; those between ranks
 * of a node that go through pairs are not ahead, but in pieces; what is lent is offered ahead. */
struct tug_lane_state {
    struct tug_lane_pointer read;  /* what is not complete */
    struct tug_lane_pointer begin; /* what is not begun */
    uint32_t limit;                /* scheduling pointer, segments */
    MPI_Request in_flight[TUG_IN_FLIGHT_MOST];
    struct tug_rendezvous_state rendezvous[TUG_IN_FLIGHT_MOST]; /* of near messages that are lent */
    size_t done; /* bytes of the one at `read`, if it goes through slots */
};

struct tug_interpreter {
    struct tug_schedule schedule;
    struct tug_team *team;
    struct tug_channel *channel;
    const struct tug_area_memory *areas;  /* by number; who fills them keeps them */
    size_t near_most;                     /* messages to ranks of the node of so many bytes go
                                             through pairs, if the channel has any */
    const struct tug_their_areas *theirs; /* [node size]; NULL: not reached for */
    struct tug_staging *staging;          /* NULL, or OUTPUT is its bytes */
    bool streams;                         /* reads of channels go past the caches (copy.h) */
    MPI_Op op;                            /* REDUCE and its like: on elements of OUTPUT ... */
    tug_reduction reduction;              /* ... by this, or by the host if NULL, ... */
    MPI_Datatype op_type;                 /* ... which hands it to the program's function */
    int error;                            /* first error of the host in this run */
    /* the interpreter's own */
    struct tug_lane_state *lanes;
    uint32_t *ring_of;     /* [node size] which ring of the channel a node rank writes */
    unsigned char *aside;  /* room for one segment, where something cannot be done in place */
    uint64_t published;    /* segments, in this run */
    size_t near_longest;   /* such message */
    bool polls;            /* has messages of the host's, for which no bell rings */
    bool unpacks_in_order; /* OUTPUT is filled from front to end */
};

/* Prepares an interpreter whose schedule (which becomes its own), areas, team, staging and op are
 * set. 0 or
 * TUG_ERR_NO_MEMORY; in any case to be ended by fini, which takes one that is all zeros too. */
int tug_interpreter_init(struct tug_interpreter *interpreter);

/* The channel it runs on. plain: all ranks' data lie as plain bytes, so that messages between ranks
 * of a node may be cut anywhere. The same on all ranks. */
void tug_interpreter_bind(struct tug_interpreter *interpreter, struct tug_channel *channel,
                          bool plain);
void tug_interpreter_fini(struct tug_interpreter *interpreter);

/* Sets all pointers for another run. The channel is there. */
void tug_interpreter_start(struct tug_interpreter *interpreter);

/* Executes what can be executed now. True if anything moved; sets *done at the end. */
bool tug_interpreter_advance(struct tug_interpreter *interpreter, bool *done);

#endif
