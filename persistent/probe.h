/* Measuring how a ring of a channel is best written on this machine. */
#ifndef TUG_PERSISTENT_PROBE_H
#define TUG_PERSISTENT_PROBE_H

#include <stdbool.h>

#include "persistent/channel.h"

/* Smaller slots are not measured, and written through the caches: there only latency counts. */
#define TUG_PROBE_LEAST 4096

/* Who takes part, by their read counts in the ring. */
struct tug_probe {
    int ncounts;
    int first; /* of the readers, who are the last ones */
    int mine;  /* this rank's; -1: it writes and has none; ncounts or more: it takes no part, and
                  goes  on where the others will be */
    bool writes;
};

/* Sends some ringfuls of segments through a ring that nobody uses, a few times with either way to
 * copy. True on the writer if streaming is clearly faster, on readers always false. Well under a
 * millisecond with a core for each rank. Those who take part do so together. */
bool tug_probe_ring(struct tug_segment_ring *ring, size_t slot_bytes,
                    const struct tug_probe *probe);

#endif
