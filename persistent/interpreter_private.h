/* What the parts of the interpreter share; `self` is the interpreter. */
#ifndef TUG_PERSISTENT_INTERPRETER_PRIVATE_H
#define TUG_PERSISTENT_INTERPRETER_PRIVATE_H

#include "persistent/interpreter.h"

static inline void tug_note_error(struct tug_interpreter *self, int error) {
    if (self->error == MPI_SUCCESS)
        self->error = error;
}

static inline bool tug_is_transfer(const struct tug_descriptor *d) {
    return d->kind == TUG_SEND || d->kind == TUG_RECEIVE;
}

/* The place behind a segment of the descriptor. */
static inline struct tug_queue_pointer tug_behind(const struct tug_queue_pointer *at,
                                                  const struct tug_descriptor *d) {
    const bool last = at->segment + 1 == tug_descriptor_segments(d);
    return (struct tug_queue_pointer){.descriptor = at->descriptor + last,
                                      .segment = last ? 0 : at->segment + 1,
                                      .passed = at->passed + 1};
}

/* Field by field: what is read in other pieces than it was written in waits until all stores before
 * it have been made, those to lines of memory that a peer has had too. */
static inline void tug_point(struct tug_queue_pointer *pointer, struct tug_queue_pointer to) {
    pointer->descriptor = to.descriptor;
    pointer->segment = to.segment;
    pointer->passed = to.passed;
}

static inline void tug_move_on(struct tug_queue_pointer *pointer, const struct tug_descriptor *d) {
    tug_point(pointer, tug_behind(pointer, d));
}

/* A segment of a descriptor, in memory. */
struct tug_piece {
    const struct tug_area_memory *from_area, *to_area;
    size_t from_at, to_at; /* bytes from the beginning of the area */
    size_t elements;
};

/* Where it is here. Areas may be moved between runs (tug_collective_rebind()). */
static inline unsigned char *tug_piece_from(const struct tug_piece *piece) {
    return piece->from_area->base + piece->from_at;
}

static inline unsigned char *tug_piece_to(const struct tug_piece *piece) {
    return piece->to_area->base + piece->to_at;
}

struct tug_piece tug_piece_of(const struct tug_interpreter *self, const struct tug_descriptor *d,
                              uint32_t segment);

/* Sets whether some of its messages are the host's. */
void tug_interpreter_look_for_hosts(struct tug_interpreter *self);

/* ---- interpreter_steps.c: what is done at once ---- */

/* Bytes of OUTPUT are going to be read as far as the end of a piece. */
void tug_pack_piece(struct tug_interpreter *self, const struct tug_descriptor *d,
                    const struct tug_piece *piece);

/* Bytes of OUTPUT are there as far as the end of a piece. */
void tug_unpack_piece(struct tug_interpreter *self, const struct tug_descriptor *d,
                      const struct tug_piece *piece);

/* A message to ourselves, which waits for nobody. It copies between layouts that only MPI knows. */
void tug_copy_typed(struct tug_interpreter *self, const void *from, MPI_Count from_count,
                    MPI_Datatype from_type, void *to, MPI_Count to_count, MPI_Datatype to_type);

/* Executes one segment of anything but a transfer, of which it is packed what it reads; false if it
 * cannot be yet. */
bool tug_interpreter_execute(struct tug_interpreter *self, const struct tug_descriptor *d,
                             uint32_t segment, const struct tug_piece *piece);

/* Bells of those who wait for so little of a brief run are rung when the interpreter has advanced:
 * one fence for all that it has written then. */
#define TUG_OWED_MOST ((size_t)4096)

/* Rings the bells that are owed. */
void tug_interpreter_ring_owed(struct tug_interpreter *self);

/* This rank needs nothing of a writer's ring below a position of this run. */
void tug_interpreter_release(const struct tug_interpreter *self, uint32_t writer,
                             uint64_t position);

static inline struct tug_segment_ring *tug_interpreter_ring(const struct tug_interpreter *self,
                                                            uint32_t writer) {
    return &self->channel->rings[self->ring_of[writer]];
}

/* ---- interpreter_row.c: runs that need no queues ----
 *
 * Where a run is brief, each descriptor is one segment, none is a message, and no queue waits for
 * steps, all is done in one row: what queues publish that do nothing else, then the rest of the one
 * queue that there may be besides. That order can stop nobody: a publication of a brief run waits
 * for runs before it only. Places are worked out once. A broadcast of 8 bytes takes two thirds of
 * the instructions that it takes by queues. */

struct tug_row_step {
    const struct tug_descriptor *d;
    struct tug_piece piece;
};

/* Makes the row of an interpreter that is bound, if it can have one and there is memory. */
void tug_row_make(struct tug_interpreter *self);

/* Executes what can be executed now; the number of steps. */
uint32_t tug_row_advance(struct tug_interpreter *self);

/* ---- interpreter_near.c: transfers between ranks of a node, through a pair (pair.h) ---- */

/* Bytes of an element that a transfer sends or receives, as they travel. */
size_t tug_travels(const struct tug_interpreter *self, const struct tug_descriptor *d);

/* Would the transfer of so many elements go through a pair, if there are any? */
bool tug_may_be_near(const struct tug_interpreter *self, const struct tug_descriptor *d,
                     uint64_t elements);

static inline bool tug_is_near(const struct tug_interpreter *self, const struct tug_descriptor *d,
                               uint64_t elements) {
    return self->channel->to != NULL && tug_may_be_near(self, d, elements);
}

/* Packs elements of an area into plain bytes, or unpacks them from there. */
void tug_convert(struct tug_interpreter *self, const struct tug_area_memory *area, void *data,
                 size_t elements, void *plain, bool packs);

/* The queue begins a near transfer: what is lent is offered before its turn comes, unless something
 * else for that rank is ahead of it. */
void tug_near_begin(struct tug_interpreter *self, const struct tug_queue *queue,
                    struct tug_queue_state *state, const struct tug_piece *piece);

/* Gets the near transfer at the read pointer on. True if it is through; sets *moved if anything is.
 */
bool tug_near_move(struct tug_interpreter *self, struct tug_queue_state *state,
                   const struct tug_descriptor *d, bool *moved);

/* ---- interpreter_far.c: transfers between ranks of different nodes, through a stream (far.h) ----
 */

/* The stream of a descriptor of the queue; NULL: it is not far, or the host's. */
static inline struct tug_far_stream *tug_stream_of(const struct tug_queue_state *state,
                                                   uint32_t descriptor) {
    return state->far != NULL ? state->far[descriptor] : NULL;
}

/* The queue begins the transfer at its begin pointer. */
void tug_stream_begin(struct tug_interpreter *self, struct tug_queue_state *state,
                      const struct tug_descriptor *d, const struct tug_piece *piece);

/* Gets the transfer at the read pointer on. True if it is through; sets *moved if anything is. */
bool tug_stream_move(struct tug_interpreter *self, struct tug_queue_state *state,
                     const struct tug_descriptor *d, bool *moved);

/* Hands over what has been begun behind the read pointer. True if anything moved. */
bool tug_stream_push(const struct tug_queue *queue, struct tug_queue_state *state);

#endif
