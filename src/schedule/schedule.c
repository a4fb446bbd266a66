#include "schedule/schedule.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What is printed of each kind. */
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

/* ---- for people ---- */

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
