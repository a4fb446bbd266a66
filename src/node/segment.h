/* Segments: memory shared by the processes of a node, taken from the host MPI.
 *
 * Each process has a part of its own, of its own size, at a page; all parts are mapped everywhere
 * on the node. Pages are made real at once, since memory that /dev/shm cannot back must be an error
 * code here, not a SIGBUS when it is first touched. Collective, program's thread.
 */
#ifndef TUG_NODE_SEGMENT_H
#define TUG_NODE_SEGMENT_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tug_segment_part {
    unsigned char *base;
    size_t bytes;
};

struct tug_segment {
    MPI_Win win;                    /* MPI_WIN_NULL: there is none */
    struct tug_segment_part *parts; /* [node size] */
};

/* A segment; this process's part has `bytes` bytes, of which the first `real` are zeroed and made
 * real. The caller does so with the others before it uses them. all: the communicator of the
 * processes that must agree; node_comm: the processes of this node. 0, TUG_ERR_NO_MEMORY,
 * TUG_ERR_MPI, the same on all of `all`. */
int tug_segment_reserve(MPI_Comm all, MPI_Comm node_comm, size_t bytes, size_t real,
                        struct tug_segment *segment);

/* Collective over the node. */
void tug_segment_free(struct tug_segment *segment);

/* Why there is no memory to share (a sentence in `reason`, 256 bytes), or false. */
bool tug_shm_missing(char *reason);

/* Has /dev/shm room for so much? False is said once, with what wants it. */
bool tug_shm_has_room(size_t bytes, const char *what);

/* Makes the pages real. False, said once, if there is no memory behind them; an older kernel cannot
 * tell, then tug_shm_has_room() has looked. */
bool tug_shm_populate(unsigned char *base, size_t bytes, const char *what);

#endif
