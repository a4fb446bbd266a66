/* What the parts of a persistent collective share; by their one thread, before it is started. */
#ifndef TUG_PERSISTENT_COLLECTIVE_PRIVATE_H
#define TUG_PERSISTENT_COLLECTIVE_PRIVATE_H

#include "persistent/collective.h"
#include "persistent/interpreter.h"

struct collective {
    struct tug_request request; /* first: the engine's job is its first */
    struct tug_interpreter interpreter;
    struct tug_area_memory *areas; /* [nareas] */
    uint32_t nareas;
    struct tug_their_areas theirs[TUG_ATTACHERS_MOST];
    unsigned char *memory; /* behind SCRATCH or blocks put aside */
    MPI_Datatype *held;    /* types of the program's, each with what it was held for */
    MPI_Datatype *held_for;
    uint32_t nheld;
    MPI_Request host; /* kept because it holds the program's operation, or MPI_REQUEST_NULL */
    uint64_t bytes;   /* of a run, for the statistics */
    uint64_t token;   /* what all ranks must agree on */
    struct tug_channel_needs needs;
};

/* Room for areas up to and with TUG_AREA_BLOCKS + nblocks - 1. 0 or TUG_ERR_NO_MEMORY. */
int tug_collective_reserve(struct collective *c, uint32_t nblocks);

/* An area whose elements are `count` of a type; holds the type. 0, TUG_ERR_NO_MEMORY, TUG_ERR_MPI.
 */
int tug_collective_area(struct collective *c, uint32_t area, const void *base, MPI_Count count,
                        MPI_Datatype type);

/* An area of plain bytes. */
void tug_collective_bytes(struct collective *c, uint32_t area, void *base, size_t element_bytes);

/* Messages between ranks of a node go through pairs, where there are any. */
void tug_collective_need_pairs(struct collective *c);

/* Compiles what goes as blocks from rank to rank; `total` bytes decide about the way of an
 * Allgatherv. 0 or an error. */
int tug_collective_blocks(struct collective *c, const struct tug_collective *call);

#endif
