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

static bool only_publishes(const struct tug_queue *queue) {
    for (uint32_t i = 0; i < queue->count; i++)
        if (!publishes(&queue->descriptors[i]))
            return false;
    return true;
}

/* May the queue be worked off without a look at its scheduling pointer? */
static bool may_join(const struct tug_interpreter *self, const struct tug_queue *queue) {
    for (uint32_t i = 0; i < queue->count; i++)
        if (!may_stand(self, &queue->descriptors[i]))
            return false;
    return queue->limit >= queue->count;
}

/* Steps of the row; 0: there can be none. */
static uint32_t length_of(const struct tug_interpreter *self) {
    uint32_t length = 0, others = 0;
    for (uint32_t l = 0; l < self->schedule.nqueues; l++) {
        const struct tug_queue *queue = &self->schedule.queues[l];
        if (!may_join(self, queue))
            return 0;
        length += queue->count;
        others += !only_publishes(queue);
    }
    return self->is_brief && self->staging == NULL && others <= 1 ? length : 0;
}

/* Appends the queues that only publish, or the other. */
static void append(struct tug_interpreter *self, bool those_that_publish) {
    for (uint32_t l = 0; l < self->schedule.nqueues; l++) {
        const struct tug_queue *queue = &self->schedule.queues[l];
        if (only_publishes(queue) != those_that_publish)
            continue;
        for (uint32_t i = 0; i < queue->count; i++) {
            const struct tug_descriptor *d = &queue->descriptors[i];
            self->row[self->row_length++] =
                (struct tug_row_step){.d = d, .piece = tug_piece_of(self, d, 0)};
            if (publishes(d))
                self->row_gives = self->row_length;
        }
    }
}

void tug_row_make(struct tug_interpreter *self) {
    const uint32_t length = length_of(self);
    self->row = length > 0 ? calloc(length, sizeof(*self->row)) : NULL;
    if (self->row == NULL)
        return;
    append(self, true);
    append(self, false);
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
