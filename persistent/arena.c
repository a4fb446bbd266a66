#include "persistent/arena.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "host/host.h"
#include "persistent/team.h"
#include "tugboat/tugboat.h"

#define CHUNK_LEAST ((size_t)2 << 20)
#define CHUNK_SPARE ((size_t)256 << 10) /* for the host's own bookkeeping of a window */
#define PAGE ((size_t)4096)

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

/* MPICH backs shared windows by files in /dev/shm. */
bool tug_arena_has_room(size_t bytes, const char *what) {
    struct statvfs shm;
    if (statvfs("/dev/shm", &shm) != 0)
        return true;
    size_t room = (size_t)shm.f_bavail * shm.f_frsize;
    if (room >= bytes + CHUNK_SPARE)
        return true;
    tug_warn_once("/dev/shm has %zu KiB left, %s needs %zu KiB: the host MPI's own is used instead",
                  room >> 10, what, (bytes + CHUNK_SPARE) >> 10);
    return false;
}

/* False if there is no memory behind the pages. An older kernel cannot say; has_room() has looked.
 */
static bool populate(unsigned char *base, size_t bytes) {
    unsigned char *start = (unsigned char *)((uintptr_t)base / PAGE * PAGE);
    if (madvise(start, (size_t)(base + bytes - start), MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
        return true;
    tug_warn_once(
        "shared memory of %zu KiB for a persistent broadcast is not to be had (%s): the host "
        "MPI's own is used instead",
        bytes >> 10, strerror(errno));
    return false;
}

static bool all_agree(const struct tug_team *team, bool mine) {
    int everyone = mine;
    if (tug_host.Allreduce(MPI_IN_PLACE, &everyone, 1, MPI_INT, MPI_LAND, team->comm) !=
        MPI_SUCCESS)
        return false;
    return everyone;
}

/* Takes the node's shared memory from the host. */
static bool map(const struct tug_team *team, struct tug_chunk *chunk) {
    void *mine, *base;
    MPI_Aint bytes;
    int unit;
    if (tug_host.Win_allocate_shared(team->node_rank == 0 ? (MPI_Aint)chunk->bytes : 0, 1,
                                     MPI_INFO_NULL, team->node_comm, &mine,
                                     &chunk->win) != MPI_SUCCESS)
        return false;
    if (tug_host.Win_shared_query(chunk->win, 0, &bytes, &unit, &base) != MPI_SUCCESS)
        return false;
    chunk->base = base;
    return team->node_rank != 0 || populate(chunk->base, chunk->bytes);
}

static int add_chunk(struct tug_team *team, size_t bytes) {
    struct tug_chunk *chunk = calloc(1, sizeof(*chunk));
    bytes = bytes < CHUNK_LEAST ? CHUNK_LEAST : (bytes + PAGE - 1) / PAGE * PAGE;
    if (!all_agree(team, chunk != NULL && (team->node_rank != 0 ||
                                           tug_arena_has_room(bytes, "a persistent broadcast")))) {
        free(chunk);
        return TUG_ERR_NO_MEMORY;
    }
    chunk->bytes = bytes;
    chunk->win = MPI_WIN_NULL;
    if (!all_agree(team, map(team, chunk))) {
        if (chunk->win != MPI_WIN_NULL)
            tug_host.Win_free(&chunk->win);
        free(chunk);
        return TUG_ERR_NO_MEMORY;
    }
    chunk->next = team->chunks;
    team->chunks = chunk;
    return 0;
}

int tug_arena_take(struct tug_team *team, size_t bytes, unsigned char **memory) {
    bytes = (bytes + 63) / 64 * 64;
    struct tug_chunk *chunk = team->chunks;
    if (chunk == NULL || chunk->bytes - chunk->used < bytes) {
        int error = add_chunk(team, bytes);
        if (error)
            return error;
        chunk = team->chunks;
    }
    *memory = chunk->base + chunk->used;
    chunk->used += bytes;
    return 0;
}

void tug_arena_fini(struct tug_team *team) {
    while (team->chunks != NULL) {
        struct tug_chunk *chunk = team->chunks;
        team->chunks = chunk->next;
        tug_host.Win_free(&chunk->win);
        free(chunk);
    }
}
