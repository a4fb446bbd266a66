/* Messages from one rank to another under one tag, for the simulator: how many have arrived, how
 * many have been taken, and who waits. Numbers of flows stay what they are.
 */
#ifndef TUG_MODEL_FLOWS_H
#define TUG_MODEL_FLOWS_H

#include <stdint.h>

#include "base/table.h"

#define TUG_NO_WAITER UINT32_MAX

struct tug_flow {
    uint32_t arrived, taken;
    uint32_t waiter; /* the queue that wants the next; TUG_NO_WAITER */
};

struct tug_flows {
    struct tug_flow *flows;
    struct tug_table numbers; /* by both ranks and the tag */
    uint32_t count, capacity;
};

/* The number of a flow, made if need be; UINT32_MAX: no memory. Pointers into flows are invalid
 * afterwards. Ranks are below 2^28. */
uint32_t tug_flows_find(struct tug_flows *flows, uint32_t from, uint32_t to, uint8_t tag);

void tug_flows_fini(struct tug_flows *flows);

#endif
