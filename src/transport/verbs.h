/* The verbs transport, as the fabric sees it. What is inside is in verbs_private.h. */
#ifndef TUG_TRANSPORT_VERBS_H
#define TUG_TRANSPORT_VERBS_H

#include <stdbool.h>

#include "transport/transport.h"

extern const struct tug_transport tug_transport_verbs;

/* True if the devices of all processes do remote atomics, which are then atomic to each other when
 * every atomic of the context goes by verbs. The same everywhere. state may be NULL: false. */
bool tug_verbs_atomics(const void *state);

#endif
