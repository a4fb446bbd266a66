#include "model/flows.h"

#include <stdlib.h>
#include <string.h>

#define AT_FIRST 1024

static bool grow(struct tug_flows *flows) {
    uint32_t capacity = flows->capacity == 0 ? AT_FIRST : 2 * flows->capacity;
    struct tug_flow *moved = realloc(flows->flows, capacity * sizeof(*moved));
    if (moved == NULL)
        return false;
    flows->flows = moved;
    flows->capacity = capacity;
    return true;
}

/* The table has their numbers, plus 1. */
uint32_t tug_flows_find(struct tug_flows *flows, uint32_t from, uint32_t to, uint8_t tag) {
    const uint64_t key = (uint64_t)from << 36 | (uint64_t)to << 8 | tag;
    const uintptr_t known = (uintptr_t)tug_table_find(&flows->numbers, key);
    if (known != 0)
        return (uint32_t)known - 1;
    if ((flows->count == flows->capacity && !grow(flows)) ||
        !tug_table_add(&flows->numbers, key,
                       (void *)((uintptr_t)flows->count + 1))) /* NOLINT: a number */
        return UINT32_MAX;
    flows->flows[flows->count] = (struct tug_flow){.waiter = TUG_NO_WAITER};
    return flows->count++;
}

void tug_flows_fini(struct tug_flows *flows) {
    free(flows->flows);
    tug_table_fini(&flows->numbers);
    memset(flows, 0, sizeof(*flows));
}
