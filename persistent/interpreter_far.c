/* Transfers between ranks of different nodes, by streams (far.h). What does not lie as plain bytes
 * is packed before it goes, and unpacked when it has come.
 */
#include <stdlib.h>

#include "persistent/far.h"
#include "persistent/interpreter_private.h"

static bool is_far(const struct tug_interpreter *self, const struct tug_descriptor *d) {
    const uint32_t *node_of = self->team->places.node_of;
    return tug_is_transfer(d) && node_of[d->peer] != node_of[self->team->rank];
}

static uint32_t area_of(const struct tug_descriptor *d) {
    return d->kind == TUG_SEND ? d->from_area : d->to_area;
}

/* Bytes of the longest segment. */
static size_t longest_of(const struct tug_interpreter *self, const struct tug_descriptor *d) {
    uint64_t offset;
    return (size_t)tug_descriptor_at(d, 0, &offset) * tug_travels(self, d);
}

/* Is it worth registered memory? */
static bool is_long(const struct tug_interpreter *self, const struct tug_descriptor *d) {
    return self->areas[area_of(d)].dense && longest_of(self, d) >= TUG_FAR_DIRECT_LEAST;
}

static bool is_registered(const struct tug_interpreter *self, const struct tug_descriptor *d) {
    return self->registered != NULL && self->registered[area_of(d)].registration != NULL;
}

/* The stream that a descriptor needs. NULL: no memory. */
static struct tug_far_stream *want(const struct tug_interpreter *self,
                                   const struct tug_descriptor *d) {
    const size_t longest = longest_of(self, d);
    const struct tug_far_need need = {.peer = d->peer,
                                      .tag = d->tag,
                                      .sends = d->kind == TUG_SEND,
                                      .direct = longest < TUG_FAR_DIRECT_LEAST ||
                                                (is_long(self, d) && is_registered(self, d)),
                                      .longest = longest};
    return tug_far_want(self->team, self->channel, &need);
}

bool tug_interpreter_want_far(struct tug_interpreter *self) {
    for (uint32_t l = 0; l < self->schedule.nqueues; l++) {
        const struct tug_queue *queue = &self->schedule.queues[l];
        struct tug_far_stream **far = calloc(queue->count + 1, sizeof(struct tug_far_stream *));
        self->queues[l].far = far;
        for (uint32_t i = 0; i < queue->count && far != NULL; i++) {
            if (!is_far(self, &queue->descriptors[i]))
                continue;
            far[i] = want(self, &queue->descriptors[i]);
            if (far[i] == NULL)
                return false;
            self->has_far = true;
        }
        if (far == NULL)
            return false;
    }
    return true;
}

void tug_interpreter_drop_far(struct tug_interpreter *self) {
    for (uint32_t l = 0; l < self->schedule.nqueues && self->queues != NULL; l++) {
        free((void *)self->queues[l].far);
        self->queues[l].far = NULL;
    }
    self->has_far = false;
}

void tug_interpreter_far_range(const struct tug_interpreter *self, uint32_t area, size_t *begin,
                               size_t *end) {
    const size_t extent = self->areas[area].extent;
    for (uint32_t l = 0; l < self->schedule.nqueues; l++)
        for (uint32_t i = 0; i < self->schedule.queues[l].count; i++) {
            const struct tug_descriptor *d = &self->schedule.queues[l].descriptors[i];
            if (!is_far(self, d) || area_of(d) != area || !is_long(self, d))
                continue;
            const uint64_t first = d->kind == TUG_SEND ? d->from : d->to;
            const size_t from = (size_t)first * extent, to = (size_t)(first + d->elements) * extent;
            *begin = from < *begin ? from : *begin;
            *end = to > *end ? to : *end;
        }
}

/* ---- a run ---- */

static uint64_t *number_of(struct tug_queue_state *state, const struct tug_queue_pointer *at) {
    return &state->far_messages[at->passed % TUG_IN_FLIGHT_MOST];
}

/* An earlier run that has failed may have left messages that never end. */
static bool is_broken(const struct tug_far_stream *stream) {
    return tug_far_error(&stream->ring) != 0 || stream->begun - stream->over >= TUG_FAR_SLOTS;
}

void tug_stream_begin(struct tug_interpreter *self, struct tug_queue_state *state,
                      const struct tug_descriptor *d, const struct tug_piece *piece) {
    struct tug_far_stream *stream = tug_stream_of(state, state->begin.descriptor);
    const bool sends = d->kind == TUG_SEND;
    const struct tug_area_memory *area = sends ? piece->from_area : piece->to_area;
    const size_t bytes = piece->elements * tug_travels(self, d);
    void *data = sends ? tug_piece_from(piece) : tug_piece_to(piece), *aside = NULL;
    if (is_broken(stream)) {
        tug_note_error(self, MPI_ERR_OTHER);
        return;
    }
    if (!area->dense && bytes > 0) {
        aside = malloc(bytes);
        if (aside == NULL) {
            tug_note_error(self, MPI_ERR_NO_MEM);
            return;
        }
        if (sends)
            tug_convert(self, area, data, piece->elements, aside, true);
        data = aside;
    }
    const bool registered = aside == NULL && is_long(self, d) && is_registered(self, d);
    const uint64_t number =
        tug_far_begin(stream, data, bytes, registered ? &self->registered[area_of(d)] : NULL);
    tug_far_at(stream, number)->aside = aside;
    *number_of(state, &state->begin) = number;
    state->unwritten += sends && !tug_far_is_written(stream, number);
}

bool tug_stream_move(struct tug_interpreter *self, struct tug_queue_state *state,
                     const struct tug_descriptor *d, bool *moved) {
    struct tug_far_stream *stream = tug_stream_of(state, state->read.descriptor);
    const uint64_t number = *number_of(state, &state->read);
    if (tug_far_error(&stream->ring) != 0)
        tug_note_error(self, MPI_ERR_OTHER);
    if (!tug_far_move(stream, number, moved))
        return false;
    void *aside = tug_far_at(stream, number)->aside;
    if (aside != NULL && d->kind == TUG_RECEIVE) {
        const struct tug_piece piece = tug_piece_of(self, d, state->read.segment);
        tug_convert(self, piece.to_area, tug_piece_to(&piece), piece.elements, aside, false);
    }
    free(aside);
    return true;
}

bool tug_stream_push(const struct tug_queue *queue, struct tug_queue_state *state) {
    bool moved = false;
    state->unwritten = 0;
    for (struct tug_queue_pointer at = state->read; at.passed < state->begin.passed;) {
        const struct tug_descriptor *d = &queue->descriptors[at.descriptor];
        struct tug_far_stream *stream = tug_stream_of(state, at.descriptor);
        if (stream != NULL && d->kind == TUG_SEND &&
            !tug_far_is_written(stream, *number_of(state, &at))) {
            moved |= tug_far_push(stream, *number_of(state, &at));
            state->unwritten += !tug_far_is_written(stream, *number_of(state, &at));
        }
        tug_move_on(&at, d);
    }
    return moved;
}
