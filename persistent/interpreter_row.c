/* Runs that need no queues: see interpreter_private.h. */
#include <stdlib.h>

#include "persistent/interpreter_private.h"

static bool publishes(const struct tug_descriptor *d) {
    return d->kind == TUG_PUBLISH || d->kind == TUG_SIGNAL;
}

/* May it stand in a row? */
static bool may_stand(const struct tug_interpreter *self, const struct tug_descriptor *d) {
    if (tug_descriptor_segments(d) != 1)
        return false;
    switch ((enum tug_kind)d->kind) {
    case TUG_COPY:
        return self->areas[d->from_area].dense && self->areas[d->to_area].dense;
    case TUG_GATHER_REDUCE:
    case TUG_GATHER_FOLD:
        return self->reduction != NULL;
    case TUG_PUBLISH:
    case TUG_SIGNAL:
    case TUG_COLLECT:
    case TUG_AWAIT:
        return true;
    default:
        return false;
    }
}

/* Appends the descriptors of a queue. */
static void append(struct tug_interpreter *self, const struct tug_queue *queue) {
    for (uint32_t i = 0; i < queue->count; i++) {
        const struct tug_descriptor *d = &queue->descriptors[i];
        self->row[self->row_length++] =
            (struct tug_row_step){.d = d, .piece = tug_piece_of(self, d, 0)};
        if (publishes(d))
            self->row_gives = self->row_length;
    }
}

void tug_row_make(struct tug_interpreter *self) {
    const struct tug_schedule *schedule = &self->schedule;
    const struct tug_queue *last = NULL; /* the one that does not only publish */
    bool only_publishes[TUG_QUEUES_MOST];
    uint32_t length = 0;
    bool may = self->is_brief && self->staging == NULL;
    for (uint32_t l = 0; l < schedule->nqueues && may; l++) {
        const struct tug_queue *queue = &schedule->queues[l];
        only_publishes[l] = true;
        may = queue->limit >= queue->count;
        for (uint32_t i = 0; i < queue->count && may; i++) {
            may = may_stand(self, &queue->descriptors[i]);
            only_publishes[l] &= publishes(&queue->descriptors[i]);
        }
        length += queue->count;
        if (!only_publishes[l]) {
            may &= last == NULL;
            last = queue;
        }
    }
    if (may && length > 0)
        self->row = calloc(length, sizeof(*self->row));
    if (self->row == NULL)
        return;
    for (uint32_t l = 0; l < schedule->nqueues; l++)
        if (only_publishes[l])
            append(self, &schedule->queues[l]);
    if (last != NULL)
        append(self, last);
}

uint32_t tug_row_advance(struct tug_interpreter *self) {
    const uint32_t before = self->row_done;
    uint32_t i = before;
    while (i < self->row_length &&
           tug_interpreter_execute(self, self->row[i].d, 0, &self->row[i].piece))
        i++;
    self->row_done = i;
    return i - before;
}
