/* Measuring how a channel is best written on this machine. */
#ifndef TUG_PERSISTENT_PROBE_H
#define TUG_PERSISTENT_PROBE_H

#include "persistent/channel.h"

/* Channels with smaller slots are not measured, and written through the caches: there only latency
 * counts. */
#define TUG_PROBE_LEAST 4096

/* Sends some ringfuls of segments from node rank 0 to all others, through the first ring of a
 * channel that nobody uses, a few times with either way to copy, and notes in *channel->streaming
 * whether streaming is clearly faster. Well under a millisecond with a core for each rank.
 * Collective over the ranks of the node. */
void tug_probe_channel(struct tug_team *team, struct tug_channel *channel);

#endif
