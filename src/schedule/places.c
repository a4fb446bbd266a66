#include "schedule/places.h"

#include <stdlib.h>
#include <string.h>

#include "tugboat/tugboat.h"

/* One block of memory: node_of, node_rank_of, ranks, node_first. */
static uint32_t *block_for(struct tug_places *places, uint32_t nranks, uint32_t nnodes) {
    uint32_t *block = calloc(3 * (size_t)nranks + nnodes + 1, sizeof(*block));
    if (block == NULL)
        return NULL;
    *places = (struct tug_places){.nranks = nranks,
                                  .nnodes = nnodes,
                                  .node_of = block,
                                  .node_rank_of = block + nranks,
                                  .ranks = block + 2 * (size_t)nranks,
                                  .node_first = block + 3 * (size_t)nranks};
    return block;
}

uint32_t tug_places_number(uint32_t leaders[], uint32_t nranks) {
    uint32_t nnodes = 0;
    for (uint32_t r = 0; r < nranks; r++) {
        if (leaders[r] > r)
            return 0;
        leaders[r] = leaders[r] == r ? nnodes++ : leaders[leaders[r]];
    }
    return nnodes;
}

int tug_places_init(struct tug_places *places, uint32_t nranks, const uint32_t *node_of) {
    uint32_t nnodes = 0;
    for (uint32_t r = 0; r < nranks; r++)
        nnodes = node_of[r] >= nnodes ? node_of[r] + 1 : nnodes;
    uint32_t *block = block_for(places, nranks, nnodes);
    if (block == NULL)
        return TUG_ERR_NO_MEMORY;
    uint32_t *node_rank_of = block + nranks;
    uint32_t *ranks = block + 2 * (size_t)nranks;
    uint32_t *first = block + 3 * (size_t)nranks;
    memcpy(block, node_of, nranks * sizeof(*block));
    for (uint32_t r = 0; r < nranks; r++)
        node_rank_of[r] = first[node_of[r] + 1]++;
    for (uint32_t n = 0; n < nnodes; n++)
        first[n + 1] += first[n];
    for (uint32_t r = 0; r < nranks; r++)
        ranks[first[node_of[r]] + node_rank_of[r]] = r;
    return 0;
}

int tug_places_uniform(struct tug_places *places, uint32_t nnodes, uint32_t ppn) {
    uint32_t *block = block_for(places, nnodes * ppn, nnodes);
    if (block == NULL)
        return TUG_ERR_NO_MEMORY;
    uint32_t nranks = nnodes * ppn;
    for (uint32_t r = 0; r < nranks; r++) {
        block[r] = r / ppn;
        block[nranks + r] = r % ppn;
        block[2 * (size_t)nranks + r] = r;
    }
    for (uint32_t n = 0; n <= nnodes; n++)
        block[3 * (size_t)nranks + n] = n * ppn;
    return 0;
}

int tug_places_arrange(struct tug_places *places, const uint32_t sides[3],
                       const uint32_t *position) {
    uint32_t n = places->nnodes;
    if (position != NULL) {
        uint32_t *both = malloc(2 * (size_t)n * sizeof(*both));
        if (both == NULL)
            return TUG_ERR_NO_MEMORY;
        memcpy(both, position, n * sizeof(*both));
        for (uint32_t node = 0; node < n; node++)
            both[n + position[node]] = node;
        places->position = both;
        places->at = both + n;
    }
    memcpy(places->torus, sides, sizeof(places->torus));
    return 0;
}

void tug_places_fini(struct tug_places *places) {
    free((void *)places->position);
    free((void *)places->node_of);
    memset(places, 0, sizeof(*places));
}

bool tug_places_in_order(const struct tug_places *places) {
    for (uint32_t i = 1; i < places->nranks; i++)
        if (places->ranks[i] != places->ranks[i - 1] + 1)
            return false;
    return true;
}
