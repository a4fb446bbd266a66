/* What the parts of the interpreter share; `self` is the interpreter. */
#ifndef TUG_PERSISTENT_INTERPRETER_PRIVATE_H
#define TUG_PERSISTENT_INTERPRETER_PRIVATE_H

#include "base/copy.h"
#include "engine/park.h"
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
 * cannot be yet. *done: bytes of it that have come out of another rank's memory, or have gone
 * there; 0 at first, and when it is executed. */
bool tug_interpreter_execute(struct tug_interpreter *self, const struct tug_descriptor *d,
                             uint32_t segment, const struct tug_piece *piece, size_t *done);

/* Accesses memory of this rank that the program protects, for the ranks that ask for it. True: one
 * does. */
bool tug_interpreter_answer(const struct tug_interpreter *self);

/* Does with the data of a segment that has come what its descriptor says. */
void tug_interpreter_take(struct tug_interpreter *self, const struct tug_descriptor *d,
                          const struct tug_piece *piece, const unsigned char *data, size_t bytes);

static inline uint32_t tug_interpreter_me(const struct tug_interpreter *self) {
    return (uint32_t)self->team->node_rank;
}

static inline struct tug_segment_ring *tug_interpreter_ring(const struct tug_interpreter *self,
                                                            uint32_t writer) {
    return &self->channel->rings[self->ring_of[writer]];
}

/* Bells of those who wait for so little of a brief run are rung when the interpreter has advanced:
 * one look at them for all that it has written then. */
#define TUG_OWED_MOST ((size_t)4096)

/* Rings the bells that are owed. */
void tug_interpreter_ring_owed(struct tug_interpreter *self);

/* A reader's count of a ring, and the bell of the ring's writer: tells that it needs nothing below
 * a position, unless that is no further than `lag` from what it has told. */
static inline void tug_interpreter_tell(_Atomic uint64_t *count, struct tug_bell *bell,
                                        uint64_t position, uint64_t lag) {
    if (position - atomic_load_explicit(count, memory_order_relaxed) <= lag)
        return;
    /* release: our reads of what lies below are over; pairs with all_past(). Without a fence before
     * the look at the bell: engine/event_wait.h */
    atomic_store_explicit(count, position, memory_order_release);
    tug_bell_ring(bell, true);
}

/* This rank needs nothing of a ring below its position and as many more. Who is not brief may be
 * waited for at an exact position (TUG_DRAIN). */
static inline void tug_interpreter_release(const struct tug_interpreter *self,
                                           const struct tug_segment_ring *ring, uint32_t writer,
                                           uint64_t more) {
    tug_interpreter_tell(&ring->reads[tug_interpreter_me(self)].count,
                         tug_team_bell(self->team, (int)writer), ring->position + more,
                         self->is_brief ? ring->lag : 0);
}

/* Do all other ranks of the node need nothing below the position of our ring? */
bool tug_interpreter_all_past(const struct tug_interpreter *self, struct tug_segment_ring *ring,
                              uint64_t position);

/* Writes a segment of our ring, the n-th of this run from 0; false: there is no room yet. The
 * others' bells are to be rung. from == NULL: a signal. */
static inline bool tug_interpreter_publish(const struct tug_interpreter *self,
                                           struct tug_segment_ring *ring, uint64_t n,
                                           const unsigned char *from, size_t bytes) {
    const uint64_t position = ring->position + n;
    if (position >= ring->slots && position + 1 - ring->slots > ring->reads_seen &&
        !tug_interpreter_all_past(self, ring, position + 1 - ring->slots))
        return false;
    const unsigned slot = position & (ring->slots - 1);
    struct tug_slot_head *head = &ring->heads[slot];
    if (from != NULL && bytes <= TUG_SLOT_INLINE)
        tug_copy_few(head->data, from, bytes);
    else if (from != NULL)
        tug_copy(ring->data + slot * self->channel->has.slot_bytes, from, bytes);
    /* release: the data before its number */
    atomic_store_explicit(&head->number, position + 1, memory_order_release);
    return true;
}

/* The data of the n-th segment of this run in a writer's ring, or NULL while it is not there. */
static inline const unsigned char *tug_interpreter_arrived(const struct tug_interpreter *self,
                                                           const struct tug_segment_ring *ring,
                                                           uint64_t n, size_t bytes) {
    const uint64_t position = ring->position + n;
    const unsigned slot = position & (ring->slots - 1);
    struct tug_slot_head *head = &ring->heads[slot];
    /* acquire: pairs with publish(); seq_cst: the second look before sleeping on our bell */
    if (atomic_load(&head->number) != position + 1)
        return NULL;
    return bytes <= TUG_SLOT_INLINE ? head->data
                                    : ring->data + slot * self->channel->has.slot_bytes;
}

/* ---- interpreter_row.c: runs that need no queues ----
 *
 * Where a run is brief, each descriptor is one segment, none is a message, and no queue waits for
 * steps, all is done in one row: what queues publish that do nothing else, then the rest of the one
 * queue that there may be besides. That order can stop nobody: a publication of a brief run waits
 * for runs before it only. Nor does a writer of this run wait for what a reader releases: a row
 * releases rings at its end. What does not change from run to run is worked out once. A broadcast
 * of 8 bytes takes two fifths of the instructions that it takes by queues. */

/* Makes the row of an interpreter that is bound, if it can have one and there is memory. */
void tug_row_make(struct tug_interpreter *self);
void tug_row_free(struct tug_row *row);

void tug_row_start(struct tug_interpreter *self);

/* Executes what can be executed now. True if anything moved. Sets *done: the run is over. */
bool tug_row_advance(struct tug_interpreter *self, bool *done);

/* See tug_interpreter_has_given(). */
bool tug_row_has_given(const struct tug_row *row);

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
