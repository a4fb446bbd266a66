/* Measuring how a channel is best written on this machine. */
#ifndef TUG_PERSISTENT_PROBE_H
#define TUG_PERSISTENT_PROBE_H

#include "persistent/channel.h"

/* Smaller slots are written through the caches: there latency is all that counts. */
#define TUG_PROBE_LEAST 8192

/* Sends a ring full of segments through the first ring of a channel nobody uses, node rank 0 to all
 * others, a few times each way, and notes in *channel->streaming whether streaming is clearly
 * faster. Well under a millisecond with a core for each rank. Collective over the ranks of the
 * node. */
void tug_probe_channel(struct tug_team *team, struct tug_channel *channel);

#endif
