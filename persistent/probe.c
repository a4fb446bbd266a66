#include "persistent/probe.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/park.h"
#include "node/team.h"
#include "persistent/copy.h"

#define ROUNDS 3
#define RINGFULS 3 /* a round: enough for the ring to be written over what was read */

/* Until node ranks from `first` on are that far. All ranks of the node are present in these loops:
 * pausing and yielding is enough. */
static void wait_for(const struct tug_team *team, const struct tug_channel *channel, int first,
                     uint64_t count) {
    struct tug_backoff backoff = {0};
    for (int r = first; r < team->node_size; r++)
        while (atomic_load(&channel->rings[0].reads[r].count) < count)
            tug_backoff_relax(&backoff);
}

static void write_segments(const struct tug_team *team, struct tug_channel *channel,
                           const unsigned char *buffer, bool streaming) {
    for (uint64_t i = 0; i < RINGFULS * TUG_SEGMENT_SLOTS; i++) {
        unsigned slot = i % TUG_SEGMENT_SLOTS;
        unsigned char *to = channel->rings[0].data + slot * channel->has.slot_bytes;
        const unsigned char *from = buffer + slot * channel->has.slot_bytes;
        if (i >= TUG_SEGMENT_SLOTS)
            wait_for(team, channel, 1, channel->rings[0].position + i + 1 - TUG_SEGMENT_SLOTS);
        if (streaming)
            tug_copy_streaming(to, from, channel->has.slot_bytes);
        else
            memcpy(to, from, channel->has.slot_bytes);
        atomic_store(&channel->rings[0].heads[slot].number, channel->rings[0].position + i + 1);
    }
    wait_for(team, channel, 1, channel->rings[0].position + RINGFULS * TUG_SEGMENT_SLOTS);
}

static void read_segments(const struct tug_team *team, struct tug_channel *channel,
                          unsigned char *buffer) {
    struct tug_backoff backoff = {0};
    for (uint64_t i = 0; i < RINGFULS * TUG_SEGMENT_SLOTS; i++) {
        unsigned slot = i % TUG_SEGMENT_SLOTS;
        while (atomic_load(&channel->rings[0].heads[slot].number) !=
               channel->rings[0].position + i + 1)
            tug_backoff_relax(&backoff);
        memcpy(buffer + slot * channel->has.slot_bytes,
               channel->rings[0].data + slot * channel->has.slot_bytes, channel->has.slot_bytes);
        atomic_store(&channel->rings[0].reads[team->node_rank].count,
                     channel->rings[0].position + i + 1);
    }
}

/* One round, in lockstep. Node rank 0 gets the time it took. */
static uint64_t time_round(const struct tug_team *team, struct tug_channel *channel,
                           unsigned char *buffer, bool streaming) {
    uint64_t start = tug_clock_ns();
    if (team->node_rank == 0)
        write_segments(team, channel, buffer, streaming);
    else
        read_segments(team, channel, buffer);
    channel->rings[0].position += RINGFULS * TUG_SEGMENT_SLOTS;
    if (team->node_rank == 0)
        atomic_store(&channel->rings[0].reads[0].count, channel->rings[0].position);
    return tug_clock_ns() - start;
}

void tug_probe_channel(struct tug_team *team, struct tug_channel *channel) {
    size_t bytes = TUG_SEGMENT_SLOTS * channel->has.slot_bytes;
    unsigned char *buffer = malloc(bytes);
    /* a rank without memory takes part with the channel's own memory: only the figures suffer */
    unsigned char *data = buffer != NULL ? buffer : channel->rings[0].data;
    uint64_t best[2] = {UINT64_MAX, UINT64_MAX};
    if (buffer != NULL)
        memset(buffer, 1, bytes);
    for (int i = 0; i < 2 * (ROUNDS + 1); i++) {
        bool streaming = i % 2;
        uint64_t took = time_round(team, channel, data, streaming);
        if (took < best[streaming] && i >= 2) /* the first round touches the memory */
            best[streaming] = took;
    }
    /* nobody rings a bell here: a rank that went on while another still reads, and slept until it
     * has, would not wake */
    wait_for(team, channel, 0, channel->rings[0].position);
    /* streaming must be faster by a margin: where the two are close noise decides, and streaming by
     * mistake costs far more than not streaming */
    if (team->node_rank == 0)
        atomic_store(channel->streaming, best[1] < best[0] / 4 * 3);
    free(buffer);
}
