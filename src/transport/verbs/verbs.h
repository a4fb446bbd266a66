/* The verbs transport, as the fabric sees it. What is inside is in private.h. */
#ifndef TUG_TRANSPORT_VERBS_H
#define TUG_TRANSPORT_VERBS_H

#include <stdbool.h>

#include "transport/transport.h"

/* Bytes a process: of the transport, of packets' registered memory, of what it keeps of `active`
 * peers, and an estimate of what libibverbs and the device's driver keep in this process for their
 * queue pairs and the completion queue; packets that are kept, and bytes of one. False: not in this
 * build. */
struct tug_verbs_footprint {
    size_t fixed, messages, pairs, queues, kept, packet;
};
bool tug_verbs_footprint(uint32_t operations, uint32_t active,
                         struct tug_verbs_footprint *footprint);

#endif
