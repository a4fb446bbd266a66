/* Runs that need no queues: see interpreter_private.h. */
#include <stdlib.h>

#include "base/trace.h"
#include "persistent/interpreter_private.h"

struct tug_row_step {
    const struct tug_descriptor *d;
    struct tug_piece piece;
    struct tug_segment_ring *ring; /* where its segment goes or comes from; NULL: it has none */
    uint64_t n;                    /* of this run's segments in that ring */
    size_t bytes;
};

/* What a run does to a ring when it is over. */
struct tug_row_end {
    struct tug_segment_ring *ring;
    uint64_t passes;
    _Atomic uint64_t *count;      /* ours, of the ring's readers */
    struct tug_bell *writer_bell; /* of the ring */
};

struct tug_row {
    uint32_t length;
    uint32_t done;  /* steps, of this run */
    uint32_t gives; /* steps up to the last for which another rank waits */
    uint32_t nends, nbells;
    struct tug_row_end *ends; /* [nends] */
    struct tug_bell **bells;  /* [nbells] of the other ranks of the node */
    struct tug_row_step steps[];
};

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

static struct tug_row_step step_of(const struct tug_interpreter *self,
                                   const struct tug_descriptor *d, uint64_t npublished) {
    struct tug_row_step step = {.d = d, .piece = tug_piece_of(self, d, 0)};
    const bool gives = publishes(d);
    if (!gives && d->kind == TUG_COPY)
        return step;
    step.ring = tug_interpreter_ring(self, gives ? tug_interpreter_me(self) : d->peer);
    step.n = gives ? npublished : d->position;
    step.bytes = step.piece.elements * (gives ? step.piece.from_area : step.piece.to_area)->extent;
    return step;
}

/* Appends the queues that only publish, or the other. */
static void append(struct tug_interpreter *self, struct tug_row *row, bool those_that_publish,
                   uint64_t *npublished) {
    for (uint32_t l = 0; l < self->schedule.nqueues; l++) {
        const struct tug_queue *queue = &self->schedule.queues[l];
        if (only_publishes(queue) != those_that_publish)
            continue;
        for (uint32_t i = 0; i < queue->count; i++) {
            const struct tug_descriptor *d = &queue->descriptors[i];
            row->steps[row->length++] = step_of(self, d, *npublished);
            if (publishes(d)) {
                ++*npublished;
                row->gives = row->length;
            }
        }
    }
}

static void fill_ends(const struct tug_interpreter *self, struct tug_row *row) {
    const uint32_t me = tug_interpreter_me(self);
    for (uint32_t i = 0; i < self->nwriters; i++) {
        struct tug_segment_ring *ring = &self->channel->rings[i];
        const uint32_t writer = self->writers[i];
        row->ends[row->nends++] =
            (struct tug_row_end){ring, self->schedule.passes[writer], &ring->reads[me].count,
                                 tug_team_bell(self->team, (int)writer)};
    }
    for (uint32_t r = 0; r < self->schedule.node_size; r++)
        if (r != me)
            row->bells[row->nbells++] = tug_team_bell(self->team, (int)r);
}

void tug_row_make(struct tug_interpreter *self) {
    const uint32_t length = length_of(self);
    uint64_t npublished = 0;
    if (length == 0)
        return;
    struct tug_row *row = calloc(1, sizeof(*row) + length * sizeof(row->steps[0]));
    if (row == NULL)
        return;
    row->ends = calloc(self->nwriters + 1, sizeof(*row->ends));
    row->bells = (struct tug_bell **)calloc(self->schedule.node_size, sizeof(struct tug_bell *));
    if (row->ends == NULL || row->bells == NULL) {
        tug_row_free(row);
        return;
    }
    append(self, row, true, &npublished);
    append(self, row, false, &npublished);
    fill_ends(self, row);
    self->row = row;
}

void tug_row_free(struct tug_row *row) {
    if (row == NULL)
        return;
    free(row->ends);
    free((void *)row->bells);
    free(row);
}

bool tug_row_has_given(const struct tug_row *row) {
    return row->done >= row->gives;
}

void tug_row_start(struct tug_interpreter *self) {
    self->row->done = 0;
    self->error = MPI_SUCCESS;
}

static inline void ring_bells(const struct tug_row *row) {
    /* no fence between what was written and the look at the bells: engine/event_wait.h */
    atomic_signal_fence(memory_order_seq_cst);
    for (uint32_t i = 0; i < row->nbells; i++)
        tug_bell_ring(row->bells[i], true);
}

static bool publish(struct tug_interpreter *self, const struct tug_row_step *step) {
    const bool is_signal = step->d->kind == TUG_SIGNAL;
    if (!tug_interpreter_publish(self, step->ring, step->n,
                                 is_signal ? NULL : tug_piece_from(&step->piece), step->bytes))
        return false;
    if (step->bytes > TUG_OWED_MOST)
        ring_bells(self->row);
    return true;
}

static bool take(struct tug_interpreter *self, const struct tug_row_step *step) {
    const unsigned char *data = tug_interpreter_arrived(self, step->ring, step->n, step->bytes);
    if (data == NULL)
        return false;
    if (step->d->kind == TUG_COLLECT && step->bytes <= TUG_SLOT_INLINE)
        tug_copy_few(tug_piece_to(&step->piece), data, step->bytes);
    else
        tug_interpreter_take(self, step->d, &step->piece, data, step->bytes);
    return true;
}

static bool do_step(struct tug_interpreter *self, const struct tug_row_step *step) {
    if (step->ring == NULL) /* a row reaches into no other rank's memory (is_brief) */
        return tug_interpreter_execute(self, step->d, 0, &step->piece, NULL);
    return publishes(step->d) ? publish(self, step) : take(self, step);
}

static void end(const struct tug_row *row) {
    for (uint32_t i = 0; i < row->nends; i++) {
        const struct tug_row_end *end = &row->ends[i];
        const uint64_t position = end->ring->position += end->passes;
        tug_interpreter_tell(end->count, end->writer_bell, position, end->ring->lag);
    }
}

bool tug_row_advance(struct tug_interpreter *self, bool *done) {
    struct tug_row *row = self->row;
    const uint32_t before = row->done;
    while (row->done < row->length && do_step(self, &row->steps[row->done]))
        row->done++;
    const uint32_t nsteps = row->done - before;
    *done = false;
    if (nsteps == 0)
        return false;
    if (before < row->gives)
        ring_bells(row);
    *done = row->done == row->length || self->error != MPI_SUCCESS;
    if (*done && self->error == MPI_SUCCESS)
        end(row);
    tug_trace_count(TUG_TRACE_STEPS, nsteps);
    return true;
}
