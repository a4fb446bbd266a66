#include "schedule/schedule.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tugboat/tugboat.h"

/* What each kind needs said. */
enum { FROM = 1, TO = 2, RANK = 4, RING = 8, WRITES_RING = 16 };

static const struct {
    const char *name;
    unsigned needs;
} kinds[] = {
    [TUG_NOP] = {"no-op", 0},
    [TUG_WAIT] = {"wait", 0},
    [TUG_COPY] = {"copy", FROM | TO},
    [TUG_REDUCE] = {"reduce", FROM | TO},
    [TUG_FOLD] = {"fold", FROM | TO},
    [TUG_SEND] = {"send", FROM | RANK},
    [TUG_RECEIVE] = {"receive", TO | RANK},
    [TUG_PUBLISH] = {"publish", FROM | WRITES_RING},
    [TUG_SIGNAL] = {"signal", WRITES_RING},
    [TUG_COLLECT] = {"collect", TO | RING},
    [TUG_AWAIT] = {"await", RING},
    [TUG_DRAIN] = {"drain", 0},
    [TUG_GATHER_REDUCE] = {"gather-reduce", TO | RING},
    [TUG_GATHER_FOLD] = {"gather-fold", TO | RING},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* ---- building ---- */

void tug_schedule_init(struct tug_schedule *schedule, uint32_t node_size) {
    memset(schedule, 0, sizeof(*schedule));
    schedule->node_size = node_size;
    schedule->passes = calloc(2 * (size_t)node_size, sizeof(*schedule->passes));
    schedule->first = schedule->passes + node_size;
    schedule->failed = schedule->passes == NULL;
}

void tug_schedule_fini(struct tug_schedule *schedule) {
    for (uint32_t l = 0; l < schedule->nqueues; l++)
        free(schedule->queues[l].descriptors);
    free(schedule->passes);
    memset(schedule, 0, sizeof(*schedule));
}

uint32_t tug_schedule_queue(struct tug_schedule *schedule, uint32_t limit) {
    if (schedule->nqueues == TUG_QUEUES_MOST) {
        schedule->failed = true;
        return TUG_QUEUES_MOST - 1;
    }
    schedule->queues[schedule->nqueues].limit = limit;
    return schedule->nqueues++;
}

void tug_queue_add(struct tug_schedule *schedule, uint32_t number,
                   const struct tug_descriptor *descriptor) {
    struct tug_queue *queue = &schedule->queues[number];
    if (queue->count == queue->capacity) {
        uint32_t capacity = queue->capacity == 0 ? 2 : 2 * queue->capacity;
        struct tug_descriptor *grown =
            realloc(queue->descriptors, capacity * sizeof(*queue->descriptors));
        if (grown == NULL) {
            schedule->failed = true;
            return;
        }
        queue->descriptors = grown;
        queue->capacity = capacity;
    }
    queue->descriptors[queue->count++] = *descriptor;
}

/* ---- checking ---- */

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
    if (descriptor->kind >= KINDS)
        return "unknown kind";
    unsigned needs = kinds[descriptor->kind].needs;
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

int tug_schedule_check(const struct tug_schedule *schedule, uint64_t input, uint64_t output,
                       char why[128]) {
    uint64_t steps[TUG_QUEUES_MOST] = {0};
    for (uint32_t l = 0; l < schedule->nqueues; l++)
        for (uint32_t d = 0; d < schedule->queues[l].count; d++) {
            const struct tug_descriptor *descriptor = &schedule->queues[l].descriptors[d];
            const char *wrong = wrong_with(schedule, descriptor, input, output);
            if (wrong != NULL) {
                snprintf(why, 128, "queue %" PRIu32 ", descriptor %" PRIu32 ": %s", l, d, wrong);
                return TUG_ERR_INVALID;
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
                return TUG_ERR_INVALID;
            }
        }
        if (queue->limit != TUG_LIMIT_ALL && queue->limit + steps[l] < segments) {
            snprintf(why, 128, "queue %" PRIu32 " has %" PRIu64 " segments and %" PRIu64 " steps",
                     l, segments, queue->limit + steps[l]);
            return TUG_ERR_INVALID;
        }
    }
    return 0;
}

static void print_place(FILE *out, const char *word, uint32_t area, uint64_t offset) {
    static const char *const names[] = {"nothing", "input", "output",      "scratch",
                                        "landing", "lent",  "their input", "their output"};
    if (area < TUG_AREA_BLOCKS)
        fprintf(out, " %s %s+%" PRIu64, word, names[area], offset);
    else
        fprintf(out, " %s block %" PRIu32, word, area - TUG_AREA_BLOCKS);
}

static void print_descriptor(FILE *out, const struct tug_descriptor *descriptor) {
    unsigned needs = kinds[descriptor->kind].needs;
    uint32_t segments = tug_descriptor_segments(descriptor);
    fprintf(out, "    %-14s", kinds[descriptor->kind].name);
    if (needs & (FROM | TO))
        fprintf(out, "%" PRIu64 " in %" PRIu32, descriptor->elements, segments);
    else if (segments > 1)
        fprintf(out, "x %" PRIu32, segments);
    if (needs & FROM)
        print_place(out, "from", descriptor->from_area, descriptor->from);
    if (needs & TO)
        print_place(out, "to", descriptor->to_area, descriptor->to);
    if (needs & RANK)
        fprintf(out, ", rank %" PRIu32 " tag %u", descriptor->peer, descriptor->tag);
    if (needs & RING)
        fprintf(out, ", ring %" PRIu32 " from %" PRIu32 ", then free to %" PRIu32, descriptor->peer,
                descriptor->position, descriptor->release);
    if (descriptor->from_area == TUG_AREA_LENT || descriptor->to_area == TUG_AREA_LENT)
        fprintf(out, ", lent");
    if (tug_area_is_theirs(descriptor->from_area) || tug_area_is_theirs(descriptor->to_area))
        fprintf(out, ", of %" PRIu32, descriptor->peer);
    if (descriptor->kind == TUG_WAIT)
        fprintf(out, "for %" PRIu32 " to queue %" PRIu32, descriptor->position, descriptor->peer);
    if (descriptor->kind == TUG_DRAIN)
        fprintf(out, "below %" PRIu32, descriptor->position);
    if (descriptor->advances != 0) {
        fprintf(out, "; +%" PRIu32 " to", descriptor->steps);
        for (uint32_t l = 0; l < TUG_QUEUES_MOST; l++)
            if (descriptor->advances >> l & 1)
                fprintf(out, " %" PRIu32, l);
    }
    fputc('\n', out);
}

void tug_schedule_dump(const struct tug_schedule *schedule, FILE *out) {
    for (uint32_t l = 0; l < schedule->nqueues; l++) {
        const struct tug_queue *queue = &schedule->queues[l];
        fprintf(out, "queue %" PRIu32 ", limit ", l);
        if (queue->limit == TUG_LIMIT_ALL)
            fprintf(out, "none\n");
        else
            fprintf(out, "%" PRIu32 "\n", queue->limit);
        for (uint32_t d = 0; d < queue->count; d++)
            print_descriptor(out, &queue->descriptors[d]);
    }
}
