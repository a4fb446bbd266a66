/* The memory of a persistent collective. */
#include <stdlib.h>

#include "host/agreement.h"
#include "host/host.h"
#include "host/layout.h"
#include "host/polite.h"
#include "node/cma.h"
#include "persistent/pair.h"
#include "persistent/collective_private.h"
#include "tugboat/tugboat.h"

int tug_collective_reserve(struct collective *c, uint32_t nblocks) {
    const uint32_t n = TUG_AREA_BLOCKS + nblocks;
    c->areas = calloc(n, sizeof(*c->areas));
    c->held = calloc(2 * (size_t)n, sizeof(*c->held));
    if (c->areas == NULL || c->held == NULL)
        return TUG_ERR_NO_MEMORY;
    c->nareas = n;
    c->held_for = c->held + n;
    c->ways->areas = c->areas;
    /* messages without content have a type too: Open MPI looks at it where nothing is sent */
    for (uint32_t i = 0; i < c->nareas; i++)
        tug_collective_bytes(c, i, NULL, 0);
    return 0;
}

static bool is_named(MPI_Datatype type) {
    int combiner = 0;
    MPI_Count n[4];
    return tug_host.Type_get_envelope_c(type, &n[0], &n[1], &n[2], &n[3], &combiner) ==
               MPI_SUCCESS &&
           combiner == MPI_COMBINER_NAMED;
}

static int hold(struct collective *c, MPI_Datatype type, MPI_Datatype *held) {
    *held = type;
    if (is_named(type))
        return 0;
    for (uint32_t i = 0; i < c->nheld; i++)
        if (c->held_for[i] == type) {
            *held = c->held[i];
            return 0;
        }
    int error = tug_type_hold(type, &c->held[c->nheld]);
    if (error)
        return error;
    *held = c->held[c->nheld];
    c->held_for[c->nheld++] = type;
    return 0;
}

int tug_collective_area(struct collective *c, uint32_t number, const void *base, MPI_Count count,
                        MPI_Datatype type) {
    struct tug_area_memory *area = &c->areas[number];
    MPI_Count lb, extent, size;
    tug_host.Type_get_extent_c(type, &lb, &extent);
    tug_host.Type_size_c(type, &size);
    *area = (struct tug_area_memory){.base = (unsigned char *)base,
                                     .count = count,
                                     .extent = (size_t)(count * extent),
                                     .packed = (size_t)(count * size),
                                     .dense = tug_type_is_dense(type)};
    return hold(c, type, &area->type);
}

void tug_collective_bytes(struct collective *c, uint32_t area, void *base, size_t element_bytes) {
    c->areas[area] = (struct tug_area_memory){.base = base,
                                              .type = MPI_BYTE,
                                              .count = (MPI_Count)element_bytes,
                                              .extent = element_bytes,
                                              .dense = true};
}

int tug_collective_scratch(struct collective *c) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < c->nways; i++)
        if (bytes < c->ways[i].schedule.scratch)
            bytes = c->ways[i].schedule.scratch;
    bytes *= c->areas[TUG_AREA_SCRATCH].extent;
    c->memory = calloc(1, bytes + 1); /* what is between the parts of pairs goes along */
    c->areas[TUG_AREA_SCRATCH].base = c->memory;
    return c->memory != NULL ? 0 : TUG_ERR_NO_MEMORY;
}

/* ---- one another's buffers ---- */

#define NEAR_LEAST ((size_t)131072)
#define NEAR_MOST ((size_t)16777216)
#define NEAR_SLOTS 512

size_t tug_collective_near_most(const struct tug_team *team) {
    const size_t bytes = NEAR_SLOTS * tug_pair_slot_bytes(team->node_most, NEAR_MOST);
    return bytes < NEAR_LEAST ? NEAR_LEAST : bytes > NEAR_MOST ? NEAR_MOST : bytes;
}

/* What a rank says of its buffers. */
struct word {
    uint64_t able;
    uint64_t shape; /* the same on all ranks, or nobody reaches */
    uint64_t input, output;
};

/* Tries both ends of a buffer of another rank. */
static bool is_in_reach(pid_t pid, uint64_t address, size_t bytes) {
    unsigned char byte;
    return address == 0 || (tug_cma_read(pid, &byte, address, 1) == 0 &&
                            tug_cma_read(pid, &byte, address + bytes - 1, 1) == 0);
}

bool tug_collective_reach_out(struct collective *c, const struct tug_buffers *mine, uint64_t shape,
                              bool able) {
    const struct tug_team *team = c->team;
    struct word all[TUG_ATTACHERS_MOST];
    struct word word = {able, shape, (uint64_t)(uintptr_t)mine->input,
                        (uint64_t)(uintptr_t)mine->output};
    if (team->nnodes > 1 || !tug_team_reaches(team))
        return false;
    if (TUG_POLITE(Iallgather, &word, sizeof(word), MPI_BYTE, all, sizeof(word), MPI_BYTE,
                   team->node_comm) != MPI_SUCCESS)
        return false;
    for (int r = 0; r < team->node_size; r++)
        if (!all[r].able || all[r].shape != shape)
            return false; /* so does every rank */
    bool reached = true;
    for (int r = 0; r < team->node_size && reached; r++) {
        reached = is_in_reach(team->pids[r], all[r].input, mine->input_bytes) &&
                  is_in_reach(team->pids[r], all[r].output, mine->output_bytes);
        c->theirs[r] = (struct tug_their_areas){all[r].input, all[r].output};
    }
    c->ways->theirs = c->theirs;
    return tug_all_agree(team->node_comm, reached);
}
