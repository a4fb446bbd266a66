/* Memory shared by the ranks of a node, taken from the host MPI in chunks.
 *
 * The *arena* of a team hands out pieces of chunks that stay until the team goes.
 * *Blocks* come and go with a window. Small ones are pieces of chunks, too, and are kept for the
 * next window when they are given back: the host takes most of a millisecond, and the id of a
 * communicator, to make a chunk. Large ones are chunks of their own. A block has a
 * name that all of its ranks know: what is in one can be lent (lent.h). Who gives back one that is
 * kept leaves it as the next window is to find it, each rank its part: zeroed, but for what only
 * goes on counting.
 *
 * Pages are made real at once, but for those of large blocks: memory that /dev/shm cannot back is
 * an error code here, not a SIGBUS when it is first touched. Linux takes a page from the memory of
 * the socket whose core touches it first, so each rank makes real what it will own: what is in such
 * memory is mostly laid out by the ranks of the node, in order, and so each has an equal part. All
 * calls but tug_block_give() are collective over the team and answer alike on all ranks.
 */
#ifndef TUG_NODE_ARENA_H
#define TUG_NODE_ARENA_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shelf.h"

struct tug_offer;
struct tug_team;

struct tug_chunk {
    struct tug_shelved shelved; /* by an id that is the same on all ranks of the team */
    MPI_Win win;                /* MPI_WIN_NULL: a block inside a chunk of the arena */
    unsigned char *base;        /* at a page */
    size_t bytes;
    size_t used;            /* arena: handed out */
    uint64_t name;          /* the same on all ranks of the node, and no other chunk's there */
    bool kept;              /* block: for the next window, when it is given back */
    struct tug_chunk *next; /* chunks of the team, blocks that are out */
};

/* Memory of the newest chunk, or of a new one; the same `bytes` on all ranks, for all of them need
 * a new one then or none does: zeroed, at the same offset in the chunk for all ranks of the node, a
 * multiple of 64 bytes. 0, TUG_ERR_NO_MEMORY (said once, with what is missing), TUG_ERR_MPI. */
int tug_arena_take(struct tug_team *team, size_t bytes, unsigned char **memory);

/* A block of at least `bytes` for each node, for a team that is ready to meet; the same `bytes` on
 * all ranks; NULL if shared memory runs out (said once), or if some rank is not ready: *ready says
 * of this rank whether it is, and then whether all are. Agrees once (tug_team_agree()). */
struct tug_chunk *tug_block_take(struct tug_team *team, size_t bytes, bool *ready);

/* The block that this rank would take if it were asked now, or NULL: taken out, so that no other
 * thread has it. With the same id on all ranks it is theirs: tug_block_begin(); else it goes back.
 * Local. */
struct tug_chunk *tug_block_pick(struct tug_team *team, size_t bytes);
void tug_block_put_back(struct tug_team *team, struct tug_chunk *block);

/* All ranks have picked it: a window's from now on. Local. */
void tug_block_begin(struct tug_chunk *block);

/* No rank will touch the block again. Collective for large ones only. Any thread. */
void tug_block_give(struct tug_team *team, struct tug_chunk *block);

/* Where others of the node find a buffer that can be lent: in a piece of MPI_Alloc_mem (lent.h), or
 * in a block of this process that is out. All zeros: in neither. Any thread. */
struct tug_offer tug_offer_of(const void *buffer, size_t bytes);

/* Where a buffer that was offered out of a block is in this process, or NULL. Any thread. */
unsigned char *tug_block_open(const struct tug_offer *offer);

/* Gives all chunks and spare blocks back. */
void tug_arena_fini(struct tug_team *team);

#endif
