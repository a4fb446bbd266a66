/* What the parts of a persistent collective share.
 *
 * Made by the thread that makes the request; used, once it is started, by the holder of the baton.
 */
#ifndef TUG_PERSISTENT_COLLECTIVE_PRIVATE_H
#define TUG_PERSISTENT_COLLECTIVE_PRIVATE_H

#include "node/lent.h"
#include "persistent/collective.h"
#include "persistent/interpreter.h"
#include "persistent/staging.h"
#include "schedule/collectives.h"

struct tug_candidates;
struct tug_far_memory;
struct tug_model_parameters;

struct collective {
    struct tug_request request; /* first: the engine's job is its first */
    enum tug_collective_kind kind;
    uint64_t traced_ns; /* when the run began that is traced, else 0 */
    struct tug_team *team;
    struct tug_channel *channel; /* NULL: not taken yet */
    struct tug_channel_needs needs;
    struct tug_area_memory *areas; /* [nareas] */
    uint32_t nareas;
    struct tug_far_memory *registered; /* [nareas] for other nodes; NULL: none is */
    struct tug_their_areas theirs[TUG_ATTACHERS_MOST];
    unsigned char *memory;  /* of SCRATCH, or of blocks that are copied before they are sent */
    MPI_Datatype *held;     /* [nheld] our own references to the program's types */
    MPI_Datatype *held_for; /* [nheld] the program's handles of the same types */
    uint32_t nheld;
    MPI_Request host; /* kept because it holds the program's operation, or as one more way; or
                         MPI_REQUEST_NULL */
    uint64_t bytes;   /* of a run, for the statistics */
    uint64_t token;   /* what all ranks must agree on */
    /* of a broadcast */
    struct tug_staging staging;
    struct tug_offer borrowed; /* where the root's memory is, if this rank has opened it */
    /* of what goes as blocks, until it is settled who sends them how */
    struct tug_message *messages; /* sends, then receives */
    struct tug_exchange_plan exchange;
    size_t longest; /* bytes of a message to or from another rank */

    struct tug_candidates *candidates; /* NULL: there is one way */
    bool tunes;                        /* what the next run takes is not settled */
    uint64_t rest;                     /* runs to come before that is so again */
    struct tug_interpreter *running;   /* NULL: the host's request is */
    uint32_t nways;
    struct tug_interpreter ways[]; /* [nways] each does it all; one a candidate, or just one */
};

/* ---- memory (collective_areas.c) ---- */

/* Room for areas up to and with TUG_AREA_BLOCKS + nblocks - 1. 0 or TUG_ERR_NO_MEMORY. */
int tug_collective_reserve(struct collective *c, uint32_t nblocks);

/* An area whose elements are `count` of a type; holds the type. 0, TUG_ERR_NO_MEMORY, TUG_ERR_MPI.
 */
int tug_collective_area(struct collective *c, uint32_t area, const void *base, MPI_Count count,
                        MPI_Datatype type);

/* An area of plain bytes. */
void tug_collective_bytes(struct collective *c, uint32_t area, void *base, size_t element_bytes);

/* Memory for SCRATCH, whose elements are known, as any of the compiled schedules wants it. 0 or
 * TUG_ERR_NO_MEMORY. */
int tug_collective_scratch(struct collective *c);

/* A rank's buffers, of which others of the node may make use where they lie. */
struct tug_buffers {
    const void *input, *output; /* NULL: has none */
    size_t input_bytes, output_bytes;
};

/* May the node's ranks read one another's INPUT and OUTPUT where they lie? `shape` must be the same
 * on all, and all `able`. Collective on one node, before this rank may fail by itself; true on all
 * ranks or none. */
bool tug_collective_reach_out(struct collective *c, const struct tug_buffers *mine, uint64_t shape,
                              bool able);

/* Messages of a collective to ranks of the node go through pairs up to here. Pairs of few ranks
 * have long slots, and are two to three times as fast as the host's messages at every size; those
 * of many ranks have short ones. */
size_t tug_collective_near_most(const struct tug_team *team);

/* Opens streams to ranks of other nodes, where they are better than the host's messages, and has
 * its ways use them. rebinds: its buffers are others in every run. Collective, after its ways are
 * bound. 0 or TUG_ERR_MPI. */
int tug_collective_go_far(struct collective *c, bool rebinds);
void tug_collective_leave_far(struct collective *c);

/* ---- kinds: all that this rank can prepare before it votes; 0 or an error ---- */

int tug_collective_bcast(struct collective *c, const struct tug_collective *call,
                         const struct tug_model_parameters *parameters, bool compares);
int tug_collective_barrier(struct collective *c);
int tug_collective_reduction(struct collective *c, const struct tug_collective *call);
int tug_collective_allgather(struct collective *c, const struct tug_collective *call);
int tug_collective_tree(struct collective *c, const struct tug_collective *call);

/* Compiles what goes as blocks from rank to rank; `total` bytes decide about the way of an
 * Allgatherv. */
int tug_collective_blocks(struct collective *c, const struct tug_collective *call);

/* ---- their part of a creation ---- */

/* What the vote says of long blocks. */
void tug_blocks_vote(const struct collective *c, struct tug_ballot *ballot);

/* After the vote: where long blocks can be taken from where they lie, that is one more way.
 * Collective, the same on all ranks. */
void tug_blocks_lend(struct collective *c, const struct tug_ballot *ballot);

/* ---- the broadcast's parts of a creation ---- */

/* What the vote says of lending the root's memory. */
void tug_bcast_vote(const struct collective *c, bool rebinds, struct tug_ballot *ballot);

/* Does without memory for the message to land in, or without pairs, if something else is left. The
 * same on all ranks. */
bool tug_bcast_lessen(struct collective *c, struct tug_ballot *ballot);

/* If all ranks of the root's node can read its memory they will. Collective. */
void tug_bcast_take_offer(struct collective *c, const struct tug_offer *offer, int root);

#endif
