/* Schedules: one rank's part of a collective, as data.
 *
 * A schedule is a handful of *queues*, each a list of *descriptors* worked off in order; queues run
 * beside one another. This is the Session Mode Control Queue of Tofu2 in software (Morie et al.,
 * section 3): each queue has a read pointer and a *scheduling pointer* that the read pointer may
 * not overtake. A descriptor that completes adds its *step* to the scheduling pointers of the
 * queues that wait for it.
 *
 *     queue 0 (from the left)  RECEIVE x 8          limit: all at start
 *                              |  each segment: queues 1 and 2 + 1
 *     queue 1 (to the right)   SEND x 8             limit: none at start
 *     queue 2 (to the node)    PUBLISH x 8          limit: none at start
 *
 * A queue without descriptors is a counter of what has been given to it. Where the order in which a
 * queue works is not the order in which several others advance it, it has a counter for each of
 * them, and waits for the one it needs next (WAIT).
 *
 * A descriptor stands for a run of *segments*: its elements are cut into pieces of `segment`, the
 * last may be shorter. Pointers count segments, and each segment that completes takes a step. No
 * elements are one segment of nothing: a signal.
 *
 * The same schedule is executed by an interpreter (persistent/interpreter.h), by the simulator
 * (model/simulate.h), and printed by tug_schedule_dump(). It knows neither MPI nor addresses:
 * quantities are in elements of the collective's datatype, places are areas and offsets in
 * them. Compilers (bcast.h, collectives.h) are pure functions of the places of ranks, a plan, and
 * the rank. A finished schedule is constant.
 */
#ifndef TUG_SCHEDULE_SCHEDULE_H
#define TUG_SCHEDULE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TUG_QUEUES_MOST 32 /* what fits a set of queues */

/* What a descriptor does with a segment. "Node" operations go through memory that the ranks of a
 * node share: each rank writes a *ring* of numbered segments there, and any
 * of them reads it. All ranks of a node run through the numbers of every ring alike, so a
 * segment is named by its writer and its position, counted from the beginning of the run. */
enum tug_kind {
    TUG_NOP,     /* nothing: waits for its step, then gives its own */
    TUG_WAIT,    /* waits until the scheduling pointer of the queue `peer` is at `position` */
    TUG_COPY,    /* from -> to */
    TUG_REDUCE,  /* to = from op to, element by element */
    TUG_FOLD,    /* to = to op from: the other order, for operations that do not commute */
    TUG_SEND,    /* from -> peer, a rank; segments between two ranks arrive in the order of their
                    queue, queues are told apart by `tag` */
    TUG_RECEIVE, /* peer -> to. Where SEND's `to` and RECEIVE's `from` are LENT, the receiver takes
                    the data from where they lie if it can; all that is sent to it is in one queue
                    then */
    TUG_PUBLISH, /* from -> the next segments of this rank's ring */
    TUG_SIGNAL,  /* PUBLISH without data */
    TUG_COLLECT, /* segments of peer's ring -> to; peer is a rank of the node */
    TUG_AWAIT,   /* COLLECT without data */
    TUG_DRAIN,   /* waits until the node's ranks need nothing below `position` of this rank's ring
                    in this run: what they read on its word (LANDING) may be written again */
    TUG_GATHER_REDUCE, /* to = (segment of peer's ring) op to */
    TUG_GATHER_FOLD,   /* to = to op (segment of peer's ring) */
};

/* The memory a collective works on. Who executes a schedule says where they are. */
enum tug_area {
    TUG_AREA_NONE,
    TUG_AREA_INPUT,        /* the program's send buffer (in place: the same as OUTPUT) */
    TUG_AREA_OUTPUT,       /* the program's receive buffer; a broadcast's buffer */
    TUG_AREA_SCRATCH,      /* private, schedule->scratch elements */
    TUG_AREA_LANDING,      /* shared by the node, schedule->landing elements */
    TUG_AREA_LENT,         /* where the data lie in the rank `peer` of this node: a broadcast's
                              OUTPUT, if it is mapped here; a block */
    TUG_AREA_THEIR_INPUT,  /* INPUT of the node rank `peer`: COPY, REDUCE and FOLD read it */
    TUG_AREA_THEIR_OUTPUT, /* OUTPUT of the node rank `peer`: as above, and COPY writes it */
    TUG_AREA_BLOCKS, /* this number and all above are blocks that MPI describes (of an alltoallw:
                        one a peer and direction); each is one element, moved as a whole */
};

static inline bool tug_area_is_theirs(uint32_t area) {
    return area == TUG_AREA_THEIR_INPUT || area == TUG_AREA_THEIR_OUTPUT;
}

struct tug_descriptor {
    uint8_t kind;
    uint8_t tag;   /* SEND, RECEIVE: the same at both ends */
    uint32_t peer; /* SEND, RECEIVE: rank; COLLECT and its like, THEIR areas: rank in the node;
                      WAIT: queue */
    uint64_t elements;
    uint64_t segment; /* elements of a piece; 0: all in one */
    uint32_t from_area, to_area;
    uint64_t from, to; /* offsets, elements */
    uint32_t position; /* COLLECT and its like: of the first segment in peer's ring; DRAIN: in
                          this rank's; WAIT: segments */
    uint32_t release;  /* COLLECT and its like: the position in peer's ring that this rank needs
                          next when the last segment is done; the writer may overwrite those below */
    uint32_t steps;    /* how far the pointers move when a segment is complete */
    uint32_t advances; /* the set of queues whose pointers move */
};

struct tug_queue {
    struct tug_descriptor *descriptors;
    uint32_t count;
    uint32_t capacity;
    uint32_t limit; /* the scheduling pointer at the start of a run, segments */
};

struct tug_schedule {
    uint32_t nqueues;
    struct tug_queue queues[TUG_QUEUES_MOST];
    uint64_t scratch; /* elements of the private area */
    uint64_t landing; /* elements of the node's area: the same on all ranks of a node */
    uint32_t *passes; /* [node size] segments that go through each ring in a run: the same on
                         all ranks of a node */
    uint32_t *first;  /* [node size] the first position this rank needs of each */
    uint32_t node_size;
    bool failed; /* memory ran out while it was built */
};

#define TUG_LIMIT_ALL UINT32_MAX /* a queue that waits for nobody */

/* ---- building ---- */

void tug_schedule_init(struct tug_schedule *schedule, uint32_t node_size);
void tug_schedule_fini(struct tug_schedule *schedule);

/* A new queue whose first `limit` segments need no step; its number. More than TUG_QUEUES_MOST:
 * failed. */
uint32_t tug_schedule_queue(struct tug_schedule *schedule, uint32_t limit);

/* Appends; memory that runs out is noted in schedule->failed. */
void tug_queue_add(struct tug_schedule *schedule, uint32_t queue,
                   const struct tug_descriptor *descriptor);

/* ---- reading ---- */

/* Segments of a descriptor (at least 1), and the elements of one of them. */
static inline uint32_t tug_descriptor_segments(const struct tug_descriptor *descriptor) {
    if (descriptor->segment == 0 || descriptor->elements <= descriptor->segment)
        return 1;
    return (uint32_t)((descriptor->elements - 1) / descriptor->segment + 1);
}

static inline uint64_t tug_descriptor_at(const struct tug_descriptor *descriptor, uint32_t segment,
                                         uint64_t *offset) {
    const uint64_t begin = segment * descriptor->segment;
    const uint64_t left = descriptor->elements - begin;
    *offset = begin;
    return descriptor->segment != 0 && left > descriptor->segment ? descriptor->segment : left;
}

/* For people: one line a descriptor, queues one after another. */
void tug_schedule_dump(const struct tug_schedule *schedule, FILE *out);

#endif
