#include "persistent/probe.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/copy.h"
#include "engine/park.h"
#include "persistent/copy.h"

#define ROUNDS 3
#define TIMES (2 * (ROUNDS + 1)) /* the first of each way touches the memory */
#define RINGFULS 3               /* a round: enough for the ring to be written over what was read */

/* What a rank knows of the measurement. */
struct view {
    struct tug_segment_ring *ring;
    size_t slot_bytes;
    const struct tug_probe *probe;
    unsigned char *buffer;
};

/* Until read counts from `first` on are that far. All who take part are present in these loops:
 * pausing and yielding is enough. */
static void wait_for(const struct view *view, int first, uint64_t count) {
    struct tug_backoff backoff = {0};
    for (int r = first; r < view->probe->ncounts; r++)
        while (atomic_load(&view->ring->reads[r].count) < count)
            tug_backoff_relax(&backoff);
}

static void tell(const struct view *view, uint64_t count) {
    if (view->probe->mine >= 0)
        atomic_store(&view->ring->reads[view->probe->mine].count, count);
}

static void write_segments(const struct view *view, bool streaming) {
    const struct tug_segment_ring *ring = view->ring;
    for (uint64_t i = 0; i < RINGFULS * TUG_SEGMENT_SLOTS; i++) {
        unsigned slot = i % TUG_SEGMENT_SLOTS;
        unsigned char *to = ring->data + slot * view->slot_bytes;
        const unsigned char *from = view->buffer + slot * view->slot_bytes;
        if (i >= TUG_SEGMENT_SLOTS)
            wait_for(view, view->probe->first, ring->position + i + 1 - TUG_SEGMENT_SLOTS);
        if (streaming)
            tug_copy_streaming(to, from, view->slot_bytes);
        else
            tug_copy(to, from, view->slot_bytes);
        atomic_store(&ring->heads[slot].number, ring->position + i + 1);
    }
    wait_for(view, view->probe->first, ring->position + RINGFULS * TUG_SEGMENT_SLOTS);
}

static void read_segments(const struct view *view) {
    const struct tug_segment_ring *ring = view->ring;
    struct tug_backoff backoff = {0};
    for (uint64_t i = 0; i < RINGFULS * TUG_SEGMENT_SLOTS; i++) {
        unsigned slot = i % TUG_SEGMENT_SLOTS;
        while (atomic_load(&ring->heads[slot].number) != ring->position + i + 1)
            tug_backoff_relax(&backoff);
        tug_copy(view->buffer + slot * view->slot_bytes, ring->data + slot * view->slot_bytes,
                 view->slot_bytes);
        tell(view, ring->position + i + 1);
    }
}

/* One round, in lockstep. The writer gets the time it took. */
static uint64_t time_round(const struct view *view, bool streaming) {
    uint64_t start = tug_clock_ns();
    if (view->probe->writes)
        write_segments(view, streaming);
    else
        read_segments(view);
    view->ring->position += RINGFULS * TUG_SEGMENT_SLOTS;
    if (view->probe->writes)
        tell(view, view->ring->position);
    return tug_clock_ns() - start;
}

bool tug_probe_ring(struct tug_segment_ring *ring, size_t slot_bytes,
                    const struct tug_probe *probe) {
    size_t bytes = TUG_SEGMENT_SLOTS * slot_bytes;
    if (probe->mine >= probe->ncounts) {
        ring->position += TIMES * RINGFULS * TUG_SEGMENT_SLOTS;
        atomic_store(&ring->reads[probe->mine].count, ring->position);
        return false;
    }
    unsigned char *buffer = malloc(bytes);
    /* a rank without memory takes part with the ring's own memory: only the figures suffer */
    const struct view view = {ring, slot_bytes, probe, buffer != NULL ? buffer : ring->data};
    uint64_t best[2] = {UINT64_MAX, UINT64_MAX};
    if (buffer != NULL)
        memset(buffer, 1, bytes);
    for (int i = 0; i < TIMES; i++) {
        bool streaming = i % 2;
        uint64_t took = time_round(&view, streaming);
        if (took < best[streaming] && i >= 2)
            best[streaming] = took;
    }
    /* nobody rings a bell here: a rank that went on while another still reads, and slept until it
     * has, would not wake */
    wait_for(&view, 0, ring->position);
    free(buffer);
    /* streaming must be faster by a margin: where the two are close noise decides, and streaming by
     * mistake costs far more than not streaming */
    return probe->writes && best[1] < best[0] / 4 * 3;
}
