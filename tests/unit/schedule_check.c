#include "schedule_check.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

/* What a descriptor of each kind reads and writes. */
enum { FROM = 1, TO = 2, RING = 4 };

static const unsigned needs_of[] = {
    [TUG_COPY] = FROM | TO,
    [TUG_REDUCE] = FROM | TO,
    [TUG_FOLD] = FROM | TO,
    [TUG_SEND] = FROM,
    [TUG_RECEIVE] = TO,
    [TUG_PUBLISH] = FROM,
    [TUG_COLLECT] = TO | RING,
    [TUG_AWAIT] = RING,
    [TUG_GATHER_REDUCE] = TO | RING,
    [TUG_GATHER_FOLD] = TO | RING,
};

static uint64_t room_of(const struct tug_schedule *schedule, uint32_t area, uint64_t input,
                        uint64_t output) {
    switch (area) {
    case TUG_AREA_NONE:
        return 0;
    case TUG_AREA_INPUT:
        return input;
    case TUG_AREA_OUTPUT:
    case TUG_AREA_LENT:
        return output;
    case TUG_AREA_THEIR_INPUT:
    case TUG_AREA_THEIR_OUTPUT: /* the others may have more of it */
        return input > output ? input : output;
    case TUG_AREA_SCRATCH:
        return schedule->scratch;
    case TUG_AREA_LANDING:
        return schedule->landing;
    default:
        return 1;
    }
}

static bool outside(const struct tug_schedule *schedule, uint32_t area, uint64_t offset,
                    uint64_t elements, uint64_t input, uint64_t output) {
    uint64_t room = room_of(schedule, area, input, output);
    return area == TUG_AREA_NONE || offset > room || elements > room - offset;
}

static const char *wrong_with(const struct tug_schedule *schedule,
                              const struct tug_descriptor *descriptor, uint64_t input,
                              uint64_t output) {
    if (descriptor->kind > TUG_GATHER_FOLD)
        return "unknown kind";
    const unsigned needs = needs_of[descriptor->kind];
    uint64_t n = descriptor->elements;
    uint32_t segments = tug_descriptor_segments(descriptor);
    if (needs & FROM && n > 0 &&
        outside(schedule, descriptor->from_area, descriptor->from, n, input, output))
        return "reads outside of its area";
    if (needs & TO && n > 0 &&
        outside(schedule, descriptor->to_area, descriptor->to, n, input, output))
        return "writes outside of its area";
    if (schedule->nqueues < TUG_QUEUES_MOST && descriptor->advances >> schedule->nqueues != 0)
        return "steps to a queue that does not exist";
    if (descriptor->kind == TUG_WAIT && descriptor->peer >= schedule->nqueues)
        return "waits for a queue that does not exist";
    if ((tug_area_is_theirs(descriptor->from_area) || tug_area_is_theirs(descriptor->to_area)) &&
        descriptor->peer >= schedule->node_size)
        return "reaches for memory of a rank that is not on the node";
    if (needs & RING) {
        if (descriptor->peer >= schedule->node_size)
            return "reads the ring of a rank that is not on the node";
        if (descriptor->position < schedule->first[descriptor->peer] ||
            descriptor->position + segments > schedule->passes[descriptor->peer])
            return "reads what does not pass in a ring";
    }
    return NULL;
}

int schedule_check(const struct tug_schedule *schedule, uint64_t input, uint64_t output,
                   char why[128]) {
    uint64_t steps[TUG_QUEUES_MOST] = {0};
    for (uint32_t l = 0; l < schedule->nqueues; l++)
        for (uint32_t d = 0; d < schedule->queues[l].count; d++) {
            const struct tug_descriptor *descriptor = &schedule->queues[l].descriptors[d];
            const char *wrong = wrong_with(schedule, descriptor, input, output);
            if (wrong != NULL) {
                snprintf(why, 128, "queue %" PRIu32 ", descriptor %" PRIu32 ": %s", l, d, wrong);
                return -1;
            }
            for (uint32_t to = 0; to < schedule->nqueues; to++)
                if (descriptor->advances >> to & 1)
                    steps[to] += (uint64_t)tug_descriptor_segments(descriptor) * descriptor->steps;
        }
    for (uint32_t l = 0; l < schedule->nqueues; l++) {
        const struct tug_queue *queue = &schedule->queues[l];
        uint64_t segments = 0;
        for (uint32_t d = 0; d < queue->count; d++) {
            const struct tug_descriptor *descriptor = &queue->descriptors[d];
            segments += tug_descriptor_segments(descriptor);
            if (descriptor->kind == TUG_WAIT &&
                schedule->queues[descriptor->peer].limit + steps[descriptor->peer] <
                    descriptor->position) {
                snprintf(why, 128,
                         "queue %" PRIu32 " waits for more steps of %" PRIu32 " than there are", l,
                         descriptor->peer);
                return -1;
            }
        }
        if (queue->limit != TUG_LIMIT_ALL && queue->limit + steps[l] < segments) {
            snprintf(why, 128, "queue %" PRIu32 " has %" PRIu64 " segments and %" PRIu64 " steps",
                     l, segments, queue->limit + steps[l]);
            return -1;
        }
    }
    return 0;
}
