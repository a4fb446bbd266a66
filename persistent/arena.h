/* The arena of a team: memory shared by the ranks of a node, taken from the host MPI in chunks.
 *
 * Every page is made real at once: memory that /dev/shm cannot back is an error code here, not a
 * SIGBUS when it is first touched. All calls are collective over the team and answer alike on all
 * ranks.
 */
#ifndef TUG_PERSISTENT_ARENA_H
#define TUG_PERSISTENT_ARENA_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

struct tug_team;

struct tug_chunk {
    MPI_Win win;
    unsigned char *base;
    size_t bytes;
    size_t used;
    struct tug_chunk *next;
};

/* Memory of the newest chunk, or of a new one: zeroed, at the same place in the chunk for all ranks
 * of the node, a multiple of 64 bytes. 0, TUG_ERR_NO_MEMORY (said once, with what is missing),
 * TUG_ERR_MPI. */
int tug_arena_take(struct tug_team *team, size_t bytes, unsigned char **memory);

/* False, said once, if /dev/shm cannot take so many bytes more. what: needs them ("a window"). */
bool tug_arena_has_room(size_t bytes, const char *what);

/* Gives all chunks back. */
void tug_arena_fini(struct tug_team *team);

#endif
