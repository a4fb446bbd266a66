/* Direct lane: windows whose memory all of their ranks have mapped.
 *
 * For MPI_Win_allocate and MPI_Win_allocate_shared on ranks that share a node, and for
 * MPI_Win_create over memory that can be lent (lent.h: from MPI_Alloc_mem, or another such
 * window's). The calling thread itself loads and stores the target's memory: no queue, no engine,
 * no help from the target, any number of threads. What the program holds is a window of the host's
 * over next to nothing (create.h); the memory is a block that the ranks of the team share:
 *
 *     | synchronisation (node_sync.h) | memory of rank 0 | ... | n-1 |
 *
 * or, where the program brings it, such a block without the memory. An accumulate holds a mutex of
 * the target's. Epochs are checked by epoch.c.
 */
#ifndef TUG_RMA_DIRECT_H
#define TUG_RMA_DIRECT_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "node/lent.h"
#include "rma/node_sync.h"
#include "rma/rma.h"

struct tug_chunk;
struct tug_lane;
struct tug_team;

#define TUG_DIRECT_PAGE 4096

struct tug_direct_target {
    unsigned char *base;
    MPI_Aint size;
    MPI_Aint disp_unit;
    struct tug_control *control;
};

struct tug_direct {
    struct tug_team *team;   /* kept from ending by the window */
    struct tug_chunk *block; /* the shared memory of the window */
    struct tug_node_sync sync;
    int nranks, rank;
    struct tug_offer
        *lent; /* [nranks] memory that the program has brought; NULL: it is the block's */
    struct tug_direct_target targets[];
};

/* What each rank tells the others of its part of a window. */
struct tug_direct_part {
    MPI_Aint size;
    MPI_Aint disp_unit;
    struct tug_offer offer; /* of memory that the program brings */
};

/* How a window is laid out: the same on all ranks. */
struct tug_direct_layout {
    bool brought;    /* over the program's memory; else: */
    bool contiguous; /* as MPI_Win_allocate_shared does without alloc_shared_noncontig */
    bool pages; /* memory begins at a page (contiguous: that of rank 0); else, if a rank has less
                   than a page, at a multiple of 64 */
};

/* Makes the memory of a window of what the ranks have told (`stride` bytes from one to the next, of
 * the team's ranks in turn), over `base` of this rank if they bring it. Collective over the team,
 * which stands on one node and is ready to meet; the same answer on all ranks: NULL if any of them
 * cannot, as where it cannot map another's memory. */
struct tug_direct *tug_direct_create(struct tug_team *team, struct tug_direct_layout layout,
                                     const void *parts, size_t stride, void *base);

/* The operations: done when they return. MPI_SUCCESS, an error class for the window's handler
 * (MPI_ERR_RMA_SYNC outside of an epoch, MPI_ERR_RMA_RANGE outside of the target's memory,
 * MPI_ERR_TRUNCATE if the data do not fit where they are to go, MPI_ERR_BUFFER or MPI_ERR_ARG for a
 * buffer that is NULL, MPI_ERR_NO_MEM), or TUG_RMA_REFUSED. Any thread. */
int tug_direct_put(const struct tug_rma *o);
int tug_direct_get(const struct tug_rma *o);
int tug_direct_accumulate(const struct tug_rma *o);
int tug_direct_get_accumulate(const struct tug_rma *o);
int tug_direct_fetch_and_op(const struct tug_rma *o);
int tug_direct_compare_and_swap(const struct tug_rma *o);

extern const struct tug_lane tug_direct_lane;

#endif
