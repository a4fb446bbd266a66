/* What descriptors do at once: copies, reductions, and segments through the rings of a channel. */
#include <string.h>

#include "base/copy.h"
#include "host/host.h"
#include "node/cma.h"
#include "persistent/copy.h"
#include "persistent/interpreter_private.h"
#include "tugboat/tugboat.h"

/* ---- rings ---- */

void tug_interpreter_ring_owed(struct tug_interpreter *self) {
    const uint64_t owed = self->owed;
    self->owed = 0;
    /* no fence between what was written and the look at the bells: engine/event_wait.h */
    atomic_signal_fence(memory_order_seq_cst);
    for (uint32_t r = 0; r < self->schedule.node_size; r++)
        if (r != tug_interpreter_me(self) && owed >> r % 64 & 1)
            tug_bell_ring(tug_team_bell(self->team, (int)r), true);
}

bool tug_interpreter_all_past(const struct tug_interpreter *self, struct tug_segment_ring *ring,
                              uint64_t position) {
    if (position <= ring->reads_seen)
        return true;
    uint64_t least = UINT64_MAX;
    for (uint32_t r = 0; r < self->schedule.node_size; r++) {
        /* acquire: what they read below is over; pairs with release() */
        uint64_t count =
            r == tug_interpreter_me(self) ? UINT64_MAX : atomic_load(&ring->reads[r].count);
        least = count < least ? count : least;
    }
    ring->reads_seen = least;
    return position <= least;
}

/* True if the other ranks of the node are through with the runs before, whose writers may have been
 * others: a way that is tried after another has its own. Nobody rings us for their rings, but who
 * receives from other nodes is polled. */
static bool all_closed(const struct tug_interpreter *self) {
    for (uint32_t i = 0; i < self->channel->has.rings; i++) {
        const struct tug_segment_ring *ring = &self->channel->rings[i];
        for (uint32_t r = 0; r < self->schedule.node_size; r++)
            /* acquire: as in all_past() */
            if (r != tug_interpreter_me(self) &&
                atomic_load(&ring->reads[r].count) < ring->position)
                return false;
    }
    return true;
}

/* The next segment of our ring. */
static bool publish(struct tug_interpreter *self, const unsigned char *from, size_t bytes) {
    struct tug_segment_ring *ring = tug_interpreter_ring(self, tug_interpreter_me(self));
    if (!tug_interpreter_publish(self, ring, self->published, from, bytes))
        return false;
    self->published++;
    self->owed = UINT64_MAX;
    if (!self->is_brief || bytes > TUG_OWED_MOST)
        tug_interpreter_ring_owed(self);
    return true;
}

/* ---- what descriptors do ---- */

struct tug_piece tug_piece_of(const struct tug_interpreter *self, const struct tug_descriptor *d,
                              uint32_t segment) {
    uint64_t offset;
    struct tug_piece piece = {.from_area = &self->areas[d->from_area],
                              .to_area = &self->areas[d->to_area]};
    piece.elements = (size_t)tug_descriptor_at(d, segment, &offset);
    piece.from_at = (d->from + offset) * piece.from_area->extent;
    piece.to_at = (d->to + offset) * piece.to_area->extent;
    return piece;
}

void tug_pack_piece(struct tug_interpreter *self, const struct tug_descriptor *d,
                    const struct tug_piece *piece) {
    if (self->staging != NULL && d->from_area == TUG_AREA_OUTPUT)
        tug_note_error(
            self, tug_staging_pack_to(self->staging,
                                      piece->from_at + piece->elements * piece->from_area->extent));
}

void tug_unpack_piece(struct tug_interpreter *self, const struct tug_descriptor *d,
                      const struct tug_piece *piece) {
    if (self->staging != NULL && d->to_area == TUG_AREA_OUTPUT && self->unpacks_in_order)
        tug_note_error(
            self, tug_staging_unpack_to(self->staging,
                                        piece->to_at + piece->elements * piece->to_area->extent));
}

/* Moves a piece between a buffer of another rank of the node, from some byte on, and memory here.
 * False: the other rank is to access it first. */
static bool reach(struct tug_interpreter *self, const struct tug_descriptor *d, uint32_t area,
                  size_t at, void *here, size_t bytes, size_t *done) {
    const struct tug_their_areas *theirs = &self->theirs[d->peer];
    const uint64_t there = (area == TUG_AREA_THEIR_INPUT ? theirs->input : theirs->output) + at;
    struct tug_segment_ring *ring = tug_interpreter_ring(self, d->peer);
    const int error = tug_cma_move(self->team->pids[d->peer], area == d->to_area, here, there,
                                   bytes, done, &ring->reads[tug_interpreter_me(self)].ask);
    if (error == TUG_ERR_FULL) {
        tug_bell_ring(tug_team_bell(self->team, (int)d->peer), true);
        return false;
    }
    *done = 0;
    if (error)
        tug_note_error(self, MPI_ERR_OTHER);
    return true;
}

bool tug_interpreter_answer(const struct tug_interpreter *self) {
    const uint32_t me = tug_interpreter_me(self);
    bool answered = false;
    for (uint32_t r = 0; r < self->schedule.node_size && self->schedule.passes[me] > 0; r++)
        if (r != me && tug_cma_answer(&tug_interpreter_ring(self, me)->reads[r].ask)) {
            tug_bell_ring(tug_team_bell(self->team, (int)r), true);
            answered = true;
        }
    return answered;
}

void tug_copy_typed(struct tug_interpreter *self, const void *from, MPI_Count from_count,
                    MPI_Datatype from_type, void *to, MPI_Count to_count, MPI_Datatype to_type) {
    const int own = self->team->rank, tag = (self->channel->index + 1) * TUG_CHANNEL_TAGS - 1;
    tug_note_error(self,
                   tug_host.Sendrecv_c(from, from_count, from_type, own, tag, to, to_count, to_type,
                                       own, tag, self->team->comm, MPI_STATUS_IGNORE));
}

static bool copy(struct tug_interpreter *self, const struct tug_descriptor *d,
                 const struct tug_piece *piece, size_t *done) {
    const struct tug_area_memory *from = piece->from_area;
    const struct tug_area_memory *to = piece->to_area;
    MPI_Count n = (MPI_Count)piece->elements;
    if (from->dense && to->dense) {
        size_t bytes = piece->elements * from->extent;
        if (tug_area_is_theirs(d->from_area))
            return reach(self, d, d->from_area, piece->from_at, tug_piece_to(piece), bytes, done);
        if (tug_area_is_theirs(d->to_area))
            return reach(self, d, d->to_area, piece->to_at, tug_piece_from(piece), bytes, done);
        if (tug_piece_from(piece) == tug_piece_to(piece))
            ; /* a block of an allgather whose blocking call is in place */
        else if (self->streams)
            tug_copy_streaming(tug_piece_to(piece), tug_piece_from(piece), bytes);
        else
            tug_copy(tug_piece_to(piece), tug_piece_from(piece), bytes);
        return true;
    }
    tug_copy_typed(self, tug_piece_from(piece), n * from->count, from->type, tug_piece_to(piece),
                   n * to->count, to->type);
    return true;
}

/* to = from op to, or, if it folds, to = to op from. */
static void reduce(struct tug_interpreter *self, const struct tug_piece *piece, const void *from,
                   bool folds) {
    const struct tug_area_memory *area = piece->to_area;
    if (self->reduction != NULL) { /* predefined operations commute */
        self->reduction(tug_piece_to(piece), from, piece->elements * (size_t)area->count);
        return;
    }
    MPI_Count n = (MPI_Count)piece->elements * area->count;
    if (!folds) {
        tug_note_error(
            self, tug_host.Reduce_local_c(from, tug_piece_to(piece), n, self->op_type, self->op));
        return;
    }
    size_t bytes = piece->elements * area->extent;
    if (from != self->aside)
        tug_copy(self->aside, from, bytes);
    tug_note_error(self, tug_host.Reduce_local_c(tug_piece_to(piece), self->aside, n, self->op_type,
                                                 self->op));
    tug_copy(tug_piece_to(piece), self->aside, bytes);
}

/* From memory here or in another rank. */
static bool reduce_piece(struct tug_interpreter *self, const struct tug_descriptor *d,
                         const struct tug_piece *piece, size_t *done) {
    const unsigned char *from = tug_piece_from(piece);
    if (tug_area_is_theirs(d->from_area)) {
        const size_t bytes = piece->elements * piece->from_area->extent;
        if (!reach(self, d, d->from_area, piece->from_at, self->aside, bytes, done))
            return false;
        from = self->aside;
    }
    reduce(self, piece, from, d->kind == TUG_FOLD);
    return true;
}

void tug_interpreter_take(struct tug_interpreter *self, const struct tug_descriptor *d,
                          const struct tug_piece *piece, const unsigned char *data, size_t bytes) {
    if (d->kind == TUG_GATHER_REDUCE || d->kind == TUG_GATHER_FOLD)
        reduce(self, piece, data, d->kind == TUG_GATHER_FOLD);
    else if (d->kind == TUG_COLLECT && self->streams && bytes > TUG_SLOT_INLINE)
        tug_copy_streaming(tug_piece_to(piece), data, bytes);
    else if (d->kind == TUG_COLLECT)
        tug_copy(tug_piece_to(piece), data, bytes);
}

static bool collect(struct tug_interpreter *self, const struct tug_descriptor *d, uint32_t segment,
                    const struct tug_piece *piece) {
    const struct tug_segment_ring *ring = tug_interpreter_ring(self, d->peer);
    const size_t bytes = piece->elements * piece->to_area->extent;
    const uint32_t position = d->position + segment;
    const unsigned char *data = tug_interpreter_arrived(self, ring, position, bytes);
    if (data == NULL)
        return false;
    tug_interpreter_take(self, d, piece, data, bytes);
    const bool last = segment + 1 == tug_descriptor_segments(d);
    tug_interpreter_release(self, ring, d->peer, last ? d->release : position + 1);
    return true;
}

bool tug_interpreter_execute(struct tug_interpreter *self, const struct tug_descriptor *d,
                             uint32_t segment, const struct tug_piece *piece, size_t *done) {
    switch ((enum tug_kind)d->kind) {
    case TUG_NOP:
    case TUG_SEND:
    case TUG_RECEIVE:
        return true;
    case TUG_WAIT:
        return self->queues[d->peer].limit >= d->position;
    case TUG_COPY:
        return copy(self, d, piece, done);
    case TUG_REDUCE:
    case TUG_FOLD:
        return reduce_piece(self, d, piece, done);
    case TUG_PUBLISH:
        return publish(self, tug_piece_from(piece), piece->elements * piece->from_area->extent);
    case TUG_SIGNAL:
        return publish(self, NULL, 0);
    case TUG_COLLECT:
    case TUG_AWAIT:
    case TUG_GATHER_REDUCE:
    case TUG_GATHER_FOLD:
        return collect(self, d, segment, piece);
    case TUG_DRAIN: {
        struct tug_segment_ring *ring = tug_interpreter_ring(self, tug_interpreter_me(self));
        return tug_interpreter_all_past(self, ring, ring->position + d->position) &&
               all_closed(self);
    }
    }
    return true;
}
