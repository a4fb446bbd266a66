#include "model/packed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tugboat/tugboat.h"

#define AT_FIRST 1024

/* Room for one more. */
static bool reserve(void **vector, uint32_t count, uint32_t *capacity, size_t item) {
    if (count < *capacity)
        return true;
    uint32_t grown = *capacity == 0 ? AT_FIRST : *capacity + *capacity / 2;
    void *moved = grown > *capacity ? realloc(*vector, grown * item) : NULL;
    if (moved == NULL)
        return false;
    *vector = moved;
    *capacity = grown;
    return true;
}

/* What would lead the simulator out of its tables; NULL: nothing. */
static const char *wrong_with(const struct tug_packed *packed, const struct tug_schedule *schedule,
                              const struct tug_descriptor *descriptor) {
    bool message = descriptor->kind == TUG_SEND || descriptor->kind == TUG_RECEIVE;
    bool ring = descriptor->kind == TUG_COLLECT || descriptor->kind == TUG_AWAIT ||
                descriptor->kind == TUG_GATHER_REDUCE || descriptor->kind == TUG_GATHER_FOLD;
    if (message && descriptor->peer >= packed->places->nranks)
        return "a peer that is no rank";
    if (ring && descriptor->peer >= schedule->node_size)
        return "a peer that is not on the node";
    if (descriptor->kind > TUG_GATHER_FOLD)
        return "an unknown kind";
    if (descriptor->kind == TUG_WAIT && descriptor->peer >= schedule->nqueues)
        return "a wait for a queue that is not there";
    if (schedule->nqueues < TUG_QUEUES_MOST && descriptor->advances >> schedule->nqueues != 0)
        return "a step to a queue that is not there";
    return NULL;
}

static int pack_queue(struct tug_packed *packed, const struct tug_schedule *schedule, uint32_t rank,
                      uint32_t number, char *why, size_t why_bytes) {
    const struct tug_queue *queue = &schedule->queues[number];
    struct tug_packed_queue to = {
        .rank = rank, .op = packed->nops, .done_op = packed->nops, .limit = queue->limit};
    for (uint32_t i = 0; i < queue->count; i++) {
        const struct tug_descriptor *d = &queue->descriptors[i];
        const char *wrong = wrong_with(packed, schedule, d);
        if (wrong != NULL) {
            snprintf(why, why_bytes, "rank %u, queue %u, descriptor %u: %s", rank, number, i,
                     wrong);
            return TUG_ERR_INVALID;
        }
        if (!reserve((void **)&packed->ops, packed->nops, &packed->ops_capacity,
                     sizeof(*packed->ops)))
            return TUG_ERR_NO_MEMORY;
        packed->ops[packed->nops++] = (struct tug_packed_op){
            .elements = d->elements,
            .segment = d->segment,
            .segments = tug_descriptor_segments(d),
            .peer = d->peer,
            .position = d->position,
            .release = d->release,
            .steps = d->steps,
            .advances = d->advances,
            .flow = TUG_NO_FLOW,
            .kind = d->kind,
            .tag = d->tag,
        };
    }
    to.end = packed->nops;
    if (!reserve((void **)&packed->queues, packed->nqueues, &packed->queues_capacity,
                 sizeof(*packed->queues)))
        return TUG_ERR_NO_MEMORY;
    packed->queues[packed->nqueues++] = to;
    return 0;
}

static int pack_schedule(struct tug_packed *packed, const struct tug_schedule *schedule,
                         uint32_t rank, char *why, size_t why_bytes) {
    uint32_t node = packed->places->node_of[rank];
    uint32_t size = tug_places_node_size(packed->places, node);
    int error = 0;
    if (schedule->node_size != size) {
        snprintf(why, why_bytes, "rank %u has a schedule for a node of %u ranks, not of %u", rank,
                 schedule->node_size, size);
        return TUG_ERR_INVALID;
    }
    for (uint32_t l = 0; l < schedule->nqueues && !error; l++)
        error = pack_queue(packed, schedule, rank, l, why, why_bytes);
    if (!error && size > 1)
        memcpy(tug_packed_need(packed, node, packed->places->node_rank_of[rank], 0),
               schedule->first, size * sizeof(*schedule->first));
    packed->queues_of[rank + 1] = packed->nqueues;
    return error;
}

static uint64_t needs_count(const struct tug_places *places, uint64_t *needs_of) {
    uint64_t count = 0;
    for (uint32_t n = 0; n < places->nnodes; n++) {
        uint64_t size = tug_places_node_size(places, n);
        needs_of[n] = count;
        count += size > 1 ? size * size : 0;
    }
    return count;
}

int tug_pack(struct tug_packed *packed, const struct tug_places *places,
             int (*compile)(void *state, uint32_t rank, struct tug_schedule *schedule), void *state,
             char *why, size_t why_bytes) {
    memset(packed, 0, sizeof(*packed));
    packed->places = places;
    packed->queues_of = calloc((size_t)places->nranks + 1, sizeof(*packed->queues_of));
    packed->needs_of = calloc(places->nnodes, sizeof(*packed->needs_of));
    if (packed->queues_of == NULL || packed->needs_of == NULL)
        return TUG_ERR_NO_MEMORY;
    packed->needs = calloc(needs_count(places, packed->needs_of) + 1, sizeof(*packed->needs));
    int error = packed->needs != NULL ? 0 : TUG_ERR_NO_MEMORY;
    for (uint32_t rank = 0; rank < places->nranks && !error; rank++) {
        struct tug_schedule schedule;
        error = compile(state, rank, &schedule);
        if (error)
            break;
        error = pack_schedule(packed, &schedule, rank, why, why_bytes);
        tug_schedule_fini(&schedule);
    }
    return error;
}

void tug_packed_fini(struct tug_packed *packed) {
    free(packed->ops);
    free(packed->queues);
    free(packed->queues_of);
    free(packed->needs_of);
    free(packed->needs);
    memset(packed, 0, sizeof(*packed));
}
