#include "node/arena.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "engine/engine.h"
#include "host/agreement.h"
#include "host/host.h"
#include "host/spin.h"
#include "node/lent.h"
#include "node/segment.h"
#include "node/team.h"
#include "tugboat/tugboat.h"

#define BLOCK_LEAST ((size_t)16 << 10)
/* Bells and the like, and the first block. */
#define CHUNK_FIRST (((size_t)64 << 10) + BLOCK_LEAST)
#define CHUNK_LEAST ((size_t)2 << 20)
#define PAGE ((size_t)4096) /* blocks begin at one; the same on all nodes, whatever their pages */

#define COMMS_TAKEN 2 /* one for the chunk, one for the program's window */

#define NAME_BYTES 64 /* behind the chunk: its name, from node rank 0 for all */

static size_t page_up(size_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Makes this rank's part of these bytes real, see arena.h. */
static bool populate(const struct tug_team *team, unsigned char *base, size_t bytes,
                     const char *what) {
    const size_t n = (size_t)team->node_size, r = (size_t)team->node_rank;
    const size_t pages = page_up(bytes) / PAGE, begin = pages * r / n * PAGE;
    return tug_shm_populate(base + begin, pages * (r + 1) / n * PAGE - begin, what);
}

/* Takes the node's shared memory from the host; `first` bytes of it are for one purpose. */
static bool map(const struct tug_team *team, struct tug_chunk *chunk, size_t first, bool at_once,
                const char *what) {
    void *mine, *base;
    /* memory of one process comes from malloc, and lies anywhere */
    const size_t astray = team->node_size == 1 ? PAGE : 0;
    MPI_Aint bytes = team->node_rank == 0 ? (MPI_Aint)(chunk->bytes + NAME_BYTES + astray) : 0;
    int unit;
    if (!tug_host_has_comms(team->node_comm, COMMS_TAKEN) ||
        tug_host.Win_allocate_shared(bytes, 1, MPI_INFO_NULL, team->node_comm, &mine,
                                     &chunk->win) != MPI_SUCCESS)
        return false;
    if (tug_host.Win_shared_query(chunk->win, 0, &bytes, &unit, &base) != MPI_SUCCESS)
        return false;
    chunk->base = (unsigned char *)base + (astray > 0 ? -(uintptr_t)base % PAGE : 0);
    if (astray > 0)
        memset(chunk->base, 0, chunk->bytes);
    first = page_up(first);
    if (at_once && !(populate(team, chunk->base, first, what) &&
                     populate(team, chunk->base + first, chunk->bytes - first, what)))
        return false;
    if (team->node_rank != 0)
        return true;
    if (!tug_shm_populate(chunk->base + chunk->bytes, NAME_BYTES, what))
        return false;
    uint64_t name = 0; /* without random numbers: none */
    (void)tug_random_draw(&name, sizeof(name));
    memcpy(chunk->base + chunk->bytes, &name, sizeof(name));
    return true;
}

/* A new chunk, zeroed; at_once: with its pages. NULL without memory. */
static struct tug_chunk *make_chunk(struct tug_team *team, size_t bytes, size_t first, bool at_once,
                                    const char *what) {
    struct tug_chunk *chunk = calloc(1, sizeof(*chunk));
    bytes = page_up(bytes);
    if (!tug_all_agree(team->comm, chunk != NULL && (team->node_rank != 0 ||
                                                     tug_shm_has_room(bytes + NAME_BYTES, what)))) {
        free(chunk);
        return NULL;
    }
    chunk->bytes = bytes;
    chunk->win = MPI_WIN_NULL;
    chunk->shelved.id = ++team->last_chunk;
    tug_spin_meeting_begin(tug_engine_driving);
    bool mapped = tug_all_agree(team->comm, map(team, chunk, first, at_once, what));
    tug_spin_meeting_end();
    if (!mapped) {
        if (chunk->win != MPI_WIN_NULL)
            tug_host.Win_free(&chunk->win);
        free(chunk);
        return NULL;
    }
    if (at_once) /* they are there: now they are mapped here as well */
        (void)tug_shm_populate(chunk->base, chunk->bytes, what);
    memcpy(&chunk->name, chunk->base + chunk->bytes, sizeof(chunk->name));
    return chunk;
}

static void free_chunk(struct tug_chunk *chunk) {
    if (chunk->win != MPI_WIN_NULL)
        tug_host.Win_free(&chunk->win);
    free(chunk);
}

/* ---- the arena ---- */

/* The first chunk of a team may be small. */
static int add_chunk(struct tug_team *team, size_t bytes, size_t first, size_t least) {
    if (team->chunks == NULL && bytes <= CHUNK_FIRST)
        least = CHUNK_FIRST;
    struct tug_chunk *chunk =
        make_chunk(team, bytes < least ? least : bytes, first, true, "a persistent broadcast");
    if (chunk == NULL)
        return TUG_ERR_NO_MEMORY;
    chunk->next = team->chunks;
    team->chunks = chunk;
    team->arena_bytes += chunk->bytes;
    return 0;
}

int tug_arena_take(struct tug_team *team, size_t bytes, unsigned char **memory) {
    bytes = (bytes + 63) / 64 * 64;
    struct tug_chunk *chunk = team->chunks;
    if (chunk == NULL || chunk->bytes - chunk->used < bytes) {
        int error = add_chunk(team, bytes, bytes, CHUNK_LEAST);
        if (error)
            return error;
        chunk = team->chunks;
    }
    *memory = chunk->base + chunk->used;
    chunk->used += bytes;
    return 0;
}

void tug_arena_fini(struct tug_team *team) {
    struct tug_shelved *block;
    while (team->chunks != NULL) {
        struct tug_chunk *chunk = team->chunks;
        team->chunks = chunk->next;
        free_chunk(chunk);
    }
    while ((block = tug_shelf_borrow(&team->blocks, NULL, NULL)) != NULL)
        free_chunk((struct tug_chunk *)block);
}

/* ---- blocks ---- */

#define BLOCK_KEPT ((size_t)1 << 20) /* larger ones go back to the host at once */

/* Those that are out, in all teams: for lending. */
static struct tug_chunk *out;
static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER;

static void note_out(struct tug_chunk *block) {
    pthread_mutex_lock(&out_lock);
    block->next = out;
    out = block;
    pthread_mutex_unlock(&out_lock);
}

static void note_back(struct tug_chunk *block) {
    pthread_mutex_lock(&out_lock);
    struct tug_chunk **link = &out;
    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    pthread_mutex_unlock(&out_lock);
}

static struct tug_offer block_offer(const void *memory, size_t bytes) {
    struct tug_offer offer = {0};
    pthread_mutex_lock(&out_lock);
    for (const struct tug_chunk *block = out; block != NULL; block = block->next) {
        size_t distance = (uintptr_t)memory - (uintptr_t)block->base;
        if (distance < block->bytes && bytes <= block->bytes - distance)
            offer = (struct tug_offer){.name = block->name, .distance = distance};
    }
    pthread_mutex_unlock(&out_lock);
    return offer.name != 0 ? offer : (struct tug_offer){0};
}

struct tug_offer tug_offer_of(const void *buffer, size_t bytes) {
    if (bytes == 0)
        return (struct tug_offer){0};
    struct tug_offer offer = tug_lent_offer(buffer, bytes);
    return offer.name != 0 ? offer : block_offer(buffer, bytes);
}

unsigned char *tug_block_open(const struct tug_offer *offer) {
    unsigned char *memory = NULL;
    pthread_mutex_lock(&out_lock);
    for (const struct tug_chunk *block = out; block != NULL; block = block->next)
        if (block->name == offer->name)
            memory = block->base + offer->distance;
    pthread_mutex_unlock(&out_lock);
    return memory;
}

static size_t rounded(size_t bytes) {
    size_t size = BLOCK_LEAST;
    while (size < bytes && size < BLOCK_KEPT)
        size *= 2;
    return size < bytes ? bytes : size;
}

static bool has_bytes(const struct tug_shelved *block, void *bytes) {
    return ((const struct tug_chunk *)block)->bytes >= *(size_t *)bytes;
}

struct tug_chunk *tug_block_pick(struct tug_team *team, size_t bytes) {
    bytes = rounded(bytes);
    return (struct tug_chunk *)tug_shelf_borrow(&team->blocks, has_bytes, &bytes);
}

void tug_block_put_back(struct tug_team *team, struct tug_chunk *block) {
    tug_shelf_put(&team->blocks, &block->shelved);
}

/* Ranks choose by themselves, and alike unless threads that free windows have kept them in
 * different orders: then a new block it is. */
static struct tug_chunk *take_spare(struct tug_team *team, size_t bytes, bool *ready) {
    struct tug_chunk *block = *ready ? tug_block_pick(team, bytes) : NULL;
    const int64_t id = block != NULL ? (int64_t)block->shelved.id : 0;
    int64_t votes[3] = {id, ~id, !*ready};
    const bool agreed = tug_team_agree(team, MPI_MAX, votes, 3) == MPI_SUCCESS;
    const bool alike = agreed && votes[0] == ~votes[1];
    *ready = agreed && votes[2] == 0;
    if ((alike && *ready) || block == NULL)
        return block;
    tug_block_put_back(team, block);
    return NULL;
}

void tug_block_begin(struct tug_chunk *block) {
    note_out(block);
}

/* Begins at a page of the newest chunk. */
static bool has_room(const struct tug_chunk *chunk, size_t bytes) {
    return chunk != NULL && page_up(chunk->used) + bytes <= chunk->bytes;
}

/* A small block, in a chunk of the arena: chunks double what the team has, up to CHUNK_LEAST.
 * first: what a window needs of the bytes. The same answer on all ranks. */
static struct tug_chunk *carve(struct tug_team *team, size_t bytes, size_t first) {
    const size_t least = team->arena_bytes < CHUNK_LEAST ? team->arena_bytes : CHUNK_LEAST;
    struct tug_chunk *block = calloc(1, sizeof(*block));
    if (!tug_team_all_agree(team, block != NULL) ||
        (!has_room(team->chunks, bytes) && add_chunk(team, bytes, first, least) != 0)) {
        free(block);
        return NULL;
    }
    struct tug_chunk *chunk = team->chunks;
    const size_t begin = page_up(chunk->used);
    const uint64_t id = ++team->last_chunk;
    chunk->used = begin + bytes;
    *block =
        (struct tug_chunk){.shelved.id = id,
                           .win = MPI_WIN_NULL,
                           .base = chunk->base + begin,
                           .bytes = bytes,
                           .name = chunk->name == 0 ? 0 : (chunk->name + id) * 0x9e3779b97f4a7c15u,
                           .kept = true};
    return block;
}

static struct tug_chunk *make_block(struct tug_team *team, size_t bytes, size_t first) {
    return bytes <= BLOCK_KEPT ? carve(team, bytes, first)
                               : make_chunk(team, bytes, first, false, "a window");
}

struct tug_chunk *tug_block_take(struct tug_team *team, size_t bytes, bool *ready) {
    const size_t size = rounded(bytes);
    struct tug_chunk *block = take_spare(team, size, ready);
    if (block == NULL && *ready)
        block = make_block(team, size, bytes);
    if (block == NULL)
        return NULL;
    tug_block_begin(block);
    return block;
}

void tug_block_give(struct tug_team *team, struct tug_chunk *block) {
    note_back(block);
    if (block->kept)
        tug_block_put_back(team, block);
    else
        free_chunk(block);
}
