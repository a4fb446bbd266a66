/* The interpreter of schedules.
 *
 * An interpreter has a schedule and what it works on: a team, a channel, the memory behind its
 * areas, an operation. It runs the schedule as often as it is started; schedule/schedule.h says
 * what the descriptors mean. Sends and receives are kept up to TUG_IN_FLIGHT_MOST in flight and
 * complete in order. No descriptor waits: one that cannot proceed is looked at again. Run by the
 * holder of the baton, or, where a request is kept (request/request.h), by the thread that holds
 * it.
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

struct tug_far_memory;
struct tug_far_stream;
struct tug_row;

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

/* A place in a queue. */
struct tug_queue_pointer {
    uint32_t descriptor;
    uint32_t segment; /* of the descriptor */
    uint32_t passed;  /* segments before this one in the queue */
};

/* Where a queue stands. Sends and receives are begun before those ahead of them are complete. One
 * through a pair only moves, slot by slot, when it is the first that is not complete; but a lent
 * message is offered to its reader when its turn to begin comes. */
struct tug_queue_state {
    struct tug_queue_pointer read;  /* what is not complete */
    struct tug_queue_pointer begin; /* what is not begun */
    uint32_t limit;                 /* scheduling pointer, segments */
    MPI_Request in_flight[TUG_IN_FLIGHT_MOST];
    struct tug_far_stream **far; /* [descriptors] NULL: none; else of those that are far */
    uint64_t far_messages[TUG_IN_FLIGHT_MOST]; /* their numbers */
    uint32_t unwritten;                        /* of these, begun and not handed over */
    struct tug_rendezvous_state rendezvous[TUG_IN_FLIGHT_MOST]; /* of those that are lent */
    size_t done;    /* bytes, of the segment at `read`, that went through slots or by attach */
    uint32_t gives; /* descriptors up to the last for which another rank waits */
};

struct tug_interpreter {
    struct tug_schedule schedule;
    struct tug_team *team;
    struct tug_channel *channel;
    const struct tug_area_memory *areas; /* by number; they stay the caller's */
    size_t near_most; /* longer messages to ranks of the node do not go through pairs */
    const struct tug_their_areas *theirs; /* [node size]; NULL: no schedule uses them */
    struct tug_staging *staging;          /* OUTPUT is its bytes; NULL: OUTPUT is the program's */
    const struct tug_far_memory *registered; /* [areas] for messages to and from other nodes; NULL:
                                                none is */
    bool streams;                            /* reads of channels go past the caches (copy.h) */
    MPI_Op op;                               /* of reductions, on elements of OUTPUT */
    tug_reduction reduction;                 /* what does `op`; NULL: the host does */
    MPI_Datatype op_type;                    /* the host hands it to the program's function */
    int error;                               /* first error of the host in this run */

    /* set by the interpreter */
    struct tug_queue_state *queues;
    struct tug_row *row; /* all it does, if that is done in a row; or NULL */
    uint32_t *ring_of;   /* [node size] which ring of the channel a node rank writes */
    uint32_t *writers;   /* [nwriters] node ranks that write, by ring */
    uint32_t nwriters;
    bool skips;            /* it does not need the first segments of some ring */
    unsigned char *aside;  /* room for one segment, where something cannot be done in place */
    uint64_t published;    /* segments, in this run */
    uint64_t owed;         /* bells that are to be rung, a bit for a node rank (modulo 64) */
    size_t near_longest;   /* bytes of the longest message that may go through a pair */
    bool polls;            /* some of its messages are the host's, for which no bell rings */
    bool has_far;          /* some of its messages go to or come from other nodes by LLCL */
    bool unpacks_in_order; /* OUTPUT is filled from front to end */
    bool is_brief; /* all that comes to this rank in a run fits the rings: no writer waits for it */
};

/* Prepares an interpreter whose schedule (which becomes its own), areas, team, staging and op are
 * set. 0 or TUG_ERR_NO_MEMORY; tug_interpreter_fini() is to be called in both cases. */
int tug_interpreter_init(struct tug_interpreter *interpreter);

/* Sets the channel that it runs on. plain: the data of all ranks lie as plain bytes, so that
 * messages between ranks of a node may be cut anywhere. The same on all ranks. */
void tug_interpreter_bind(struct tug_interpreter *interpreter, struct tug_channel *channel,
                          bool plain);

/* Has it want the streams to ranks of other nodes (far.h) that its messages need, once it is bound.
 * False: no memory. They are used when they are open and tug_interpreter_look_for_hosts() has been
 * called; without them, dropped, those messages are the host's. */
bool tug_interpreter_want_far(struct tug_interpreter *interpreter);
void tug_interpreter_drop_far(struct tug_interpreter *interpreter);

/* Finds out whether some of its messages are the host's. */
void tug_interpreter_look_for_hosts(struct tug_interpreter *interpreter);

/* The bytes of an area that long messages to and from other nodes touch: from *begin, which is not
 * raised, to *end, which is not lowered. */
void tug_interpreter_far_range(const struct tug_interpreter *interpreter, uint32_t area,
                               size_t *begin, size_t *end);

/* Frees what it has; one that is all zeros has nothing. */
void tug_interpreter_fini(struct tug_interpreter *interpreter);

/* Begins another run. The channel is set. */
void tug_interpreter_start(struct tug_interpreter *interpreter);

/* Executes what can be executed now. True if anything moved. Sets *done: the run is over. */
bool tug_interpreter_advance(struct tug_interpreter *interpreter, bool *done);

/* True if no other rank waits for anything of this run: what is left is this rank's own. */
bool tug_interpreter_has_given(const struct tug_interpreter *interpreter);

#endif
