/* The verbs transport, as the fabric sees it. What is inside is in private.h. */
#ifndef TUG_TRANSPORT_VERBS_H
#define TUG_TRANSPORT_VERBS_H

#include <stdbool.h>

#include "transport/transport.h"

/* Peers that are known with `active` others, and bytes. In each context: of the view, of what it
 * keeps of those peers, of packets that are kept and of one. Once a process: of the endpoint, of
 * packets' registered memory, of what it keeps of the peers; connections kept, and estimates of
 * what libibverbs and the device's driver keep in this process for the queue pairs of one and for
 * the completion queue. False: not in this build.
 */
struct tug_verbs_footprint {
    size_t known, view, contacts, kept, packet;
    size_t endpoint, messages, pairs, connected, connection, completions;
};
bool tug_verbs_footprint(uint32_t operations, uint32_t active,
                         struct tug_verbs_footprint *footprint);

#endif
