#include "model/flows.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define AT_FIRST 1024

static uint32_t chain_of(const struct tug_flows *flows, uint32_t from, uint32_t to, uint8_t tag) {
    uint64_t key = ((uint64_t)from << 32 | to) * 0x9e3779b97f4a7c15u + tag * 0xc2b2ae3d27d4eb4fu;
    return (uint32_t)((key ^ key >> 29) * 0xbf58476d1ce4e5b9u >> 32) & (flows->nchains - 1);
}

/* Twice the room, and chains for all of it. */
static bool grow(struct tug_flows *flows) {
    uint32_t capacity = flows->capacity == 0 ? AT_FIRST : 2 * flows->capacity;
    struct tug_flow *moved = realloc(flows->flows, capacity * sizeof(*moved));
    if (moved == NULL)
        return false;
    flows->flows = moved;
    flows->capacity = capacity;
    uint32_t *chains = realloc(flows->chains, capacity * sizeof(*chains));
    if (chains == NULL)
        return false;
    flows->chains = chains;
    flows->nchains = capacity;
    memset(chains, 0xff, capacity * sizeof(*chains));
    for (uint32_t i = 0; i < flows->count; i++) {
        struct tug_flow *flow = &flows->flows[i];
        uint32_t *chain = &chains[chain_of(flows, flow->from, flow->to, flow->tag)];
        flow->next = *chain;
        *chain = i;
    }
    return true;
}

uint32_t tug_flows_find(struct tug_flows *flows, uint32_t from, uint32_t to, uint8_t tag) {
    if (flows->count == flows->capacity && !grow(flows))
        return UINT32_MAX;
    uint32_t *chain = &flows->chains[chain_of(flows, from, to, tag)];
    for (uint32_t i = *chain; i != UINT32_MAX; i = flows->flows[i].next) {
        const struct tug_flow *flow = &flows->flows[i];
        if (flow->from == from && flow->to == to && flow->tag == tag)
            return i;
    }
    flows->flows[flows->count] = (struct tug_flow){
        .from = from, .to = to, .tag = tag, .waiter = TUG_NO_WAITER, .next = *chain};
    *chain = flows->count;
    return flows->count++;
}

void tug_flows_fini(struct tug_flows *flows) {
    free(flows->flows);
    free(flows->chains);
    memset(flows, 0, sizeof(*flows));
}
