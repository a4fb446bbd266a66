#include "persistent/interpreter.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "host/host.h"
#include "node/cma.h"
#include "persistent/copy.h"
#include "persistent/pair.h"
#include "tugboat/tugboat.h"

#define WAKE_LEAST ((size_t)524288) /* worth a sleeper's way up */

static bool is_transfer(const struct tug_descriptor *descriptor) {
    return descriptor->kind == TUG_SEND || descriptor->kind == TUG_RECEIVE;
}

static void note(struct tug_interpreter *interpreter, int error) {
    if (interpreter->error == MPI_SUCCESS)
        interpreter->error = error;
}

/* ---- making ---- */

/* What a transfer sends from, or receives into: bytes of an element as they travel. */
static size_t travels(const struct tug_interpreter *interpreter, const struct tug_descriptor *d) {
    const struct tug_area_memory *area =
        &interpreter->areas[d->kind == TUG_SEND ? d->from_area : d->to_area];
    return area->dense ? area->extent : area->packed;
}

/* Bytes that one segment of the descriptor may have to be put aside: operations that do not
 * commute, what is reduced from another's buffer, and what is packed for a rank of the node. */
static size_t aside_for(const struct tug_interpreter *interpreter, const struct tug_descriptor *d) {
    uint64_t offset;
    size_t elements = (size_t)tug_descriptor_at(d, 0, &offset);
    bool folds = d->kind == TUG_FOLD || d->kind == TUG_GATHER_FOLD;
    bool reaches = d->kind != TUG_COPY && tug_area_is_theirs(d->from_area);
    if ((folds && interpreter->reduction == NULL) || reaches)
        return elements * interpreter->areas[d->to_area].extent;
    bool dense = interpreter->areas[d->kind == TUG_SEND ? d->from_area : d->to_area].dense;
    if (!is_transfer(d) || dense)
        return 0;
    size_t bytes = elements * travels(interpreter, d);
    return bytes <= tug_pair_slot_bytes(interpreter->team->node_most, interpreter->near_most)
               ? bytes
               : 0;
}

/* To or from a rank of the node, through a pair if there are any: tags would need pairs of their
 * own. */
static bool may_be_near(const struct tug_interpreter *interpreter, const struct tug_descriptor *d,
                        uint64_t elements) {
    const uint32_t *node_of = interpreter->team->places.node_of;
    return is_transfer(d) && d->tag == 0 && node_of[d->peer] == node_of[interpreter->team->rank] &&
           (size_t)elements * travels(interpreter, d) <= interpreter->near_most;
}

static size_t near_for(const struct tug_interpreter *interpreter, const struct tug_descriptor *d) {
    uint64_t offset;
    uint64_t elements = tug_descriptor_at(d, 0, &offset);
    return may_be_near(interpreter, d, elements) ? (size_t)elements * travels(interpreter, d) : 0;
}

/* One pass over all descriptors for what the interpreter wants to know of them. */
static size_t survey(struct tug_interpreter *interpreter) {
    size_t aside = 0;
    uint64_t filled = 0;
    uint32_t filler = TUG_LANES_MOST;
    interpreter->unpacks_in_order = true;
    for (uint32_t l = 0; l < interpreter->schedule.nlanes; l++) {
        const struct tug_lane *lane = &interpreter->schedule.lanes[l];
        for (uint32_t i = 0; i < lane->count; i++) {
            const struct tug_descriptor *d = &lane->descriptors[i];
            size_t bytes = aside_for(interpreter, d);
            aside = bytes > aside ? bytes : aside;
            size_t near = near_for(interpreter, d);
            interpreter->near_longest =
                near > interpreter->near_longest ? near : interpreter->near_longest;
            if (d->to_area != TUG_AREA_OUTPUT || d->kind == TUG_SEND || d->kind == TUG_PUBLISH)
                continue;
            interpreter->unpacks_in_order &= d->to == filled && (l == filler || filled == 0);
            filled = d->to + d->elements;
            filler = l;
        }
    }
    return aside;
}

int tug_interpreter_init(struct tug_interpreter *interpreter) {
    struct tug_schedule *schedule = &interpreter->schedule;
    size_t aside = survey(interpreter);
    interpreter->lanes = calloc(schedule->nlanes + 1, sizeof(*interpreter->lanes));
    interpreter->ring_of = calloc(schedule->node_size, sizeof(*interpreter->ring_of));
    interpreter->aside = aside > 0 ? malloc(aside) : NULL;
    if (interpreter->lanes == NULL || interpreter->ring_of == NULL ||
        (aside > 0 && interpreter->aside == NULL))
        return TUG_ERR_NO_MEMORY;
    uint32_t ring = 0;
    for (uint32_t w = 0; w < schedule->node_size; w++)
        if (schedule->passes[w] > 0)
            interpreter->ring_of[w] = ring++;
    return 0;
}

static bool is_near(const struct tug_interpreter *interpreter, const struct tug_descriptor *d,
                    uint64_t elements) {
    return interpreter->channel->to != NULL && may_be_near(interpreter, d, elements);
}

static bool is_all_near(const struct tug_interpreter *interpreter, const struct tug_lane *lane) {
    for (uint32_t i = 0; i < lane->count; i++) {
        const struct tug_descriptor *d = &lane->descriptors[i];
        uint64_t offset;
        if (is_transfer(d) && !is_near(interpreter, d, tug_descriptor_at(d, 0, &offset)))
            return false;
    }
    return true;
}

void tug_interpreter_bind(struct tug_interpreter *interpreter, struct tug_channel *channel,
                          bool plain) {
    interpreter->channel = channel;
    if (!plain && interpreter->near_most > channel->has.pair_bytes)
        interpreter->near_most = channel->has.pair_bytes;
    interpreter->polls = false;
    for (uint32_t l = 0; l < interpreter->schedule.nlanes; l++)
        interpreter->polls |= !is_all_near(interpreter, &interpreter->schedule.lanes[l]);
}

void tug_interpreter_fini(struct tug_interpreter *interpreter) {
    tug_schedule_fini(&interpreter->schedule);
    free(interpreter->lanes);
    free(interpreter->ring_of);
    free(interpreter->aside);
}

/* ---- rings ---- */

static struct tug_segment_ring *ring_of(const struct tug_interpreter *interpreter,
                                        uint32_t writer) {
    return &interpreter->channel->rings[interpreter->ring_of[writer]];
}

static uint32_t me(const struct tug_interpreter *interpreter) {
    return (uint32_t)interpreter->team->node_rank;
}

static void ring_bell(const struct tug_interpreter *interpreter, uint32_t node_rank) {
    tug_bell_ring(tug_team_bell(interpreter->team, (int)node_rank), true);
}

/* This rank needs nothing below the position any more. */
static void release(const struct tug_interpreter *interpreter, uint32_t writer, uint64_t position) {
    _Atomic uint64_t *count = &ring_of(interpreter, writer)->reads[me(interpreter)].count;
    if (atomic_load_explicit(count, memory_order_relaxed) == position)
        return;
    /* release: our reads of what lies below are over; seq_cst: before the look at the bell. Pairs
     * with all_past(). */
    atomic_store(count, position);
    ring_bell(interpreter, writer);
}

/* True if all other ranks of the node need nothing below the position of our ring. */
static bool all_past(const struct tug_interpreter *interpreter, struct tug_segment_ring *ring,
                     uint64_t position) {
    if (position <= ring->reads_seen)
        return true;
    uint64_t least = UINT64_MAX;
    for (uint32_t r = 0; r < interpreter->schedule.node_size; r++) {
        /* acquire: what they read below is over; seq_cst: the second look before we sleep. Pairs
         * with release(). */
        uint64_t count = r == me(interpreter) ? UINT64_MAX : atomic_load(&ring->reads[r].count);
        least = count < least ? count : least;
    }
    ring->reads_seen = least;
    return position <= least;
}

/* The next segment of our ring is there. */
static void announce(struct tug_interpreter *interpreter, struct tug_slot_head *head,
                     uint64_t position) {
    /* release: the data before its number; seq_cst: before the look at the readers' bells */
    atomic_store(&head->number, position + 1);
    interpreter->published++;
    for (uint32_t r = 0; r < interpreter->schedule.node_size; r++)
        if (r != me(interpreter))
            ring_bell(interpreter, r);
}

/* from == NULL: a signal. */
static bool publish(struct tug_interpreter *interpreter, const unsigned char *from, size_t bytes) {
    struct tug_segment_ring *ring = ring_of(interpreter, me(interpreter));
    uint64_t position = ring->position + interpreter->published;
    if (position >= TUG_SEGMENT_SLOTS &&
        !all_past(interpreter, ring, position + 1 - TUG_SEGMENT_SLOTS))
        return false;
    unsigned slot = position % TUG_SEGMENT_SLOTS;
    unsigned char *data = ring->data + slot * interpreter->channel->has.slot_bytes;
    if (from == NULL)
        ;
    else if (bytes <= TUG_SLOT_INLINE)
        memcpy(ring->heads[slot].data, from, bytes);
    else if (atomic_load_explicit(interpreter->channel->streaming, memory_order_relaxed))
        tug_copy_streaming(data, from, bytes);
    else
        memcpy(data, from, bytes);
    announce(interpreter, &ring->heads[slot], position);
    return true;
}

/* The data of a segment of a writer, or NULL while it is not there. */
static const unsigned char *arrived(const struct tug_interpreter *interpreter, uint32_t writer,
                                    uint32_t segment, size_t bytes) {
    struct tug_segment_ring *ring = ring_of(interpreter, writer);
    uint64_t position = ring->position + segment;
    unsigned slot = position % TUG_SEGMENT_SLOTS;
    struct tug_slot_head *head = &ring->heads[slot];
    /* acquire: pairs with announce(); seq_cst: the second look before sleeping on our bell */
    if (atomic_load(&head->number) != position + 1)
        return NULL;
    return bytes <= TUG_SLOT_INLINE ? head->data
                                    : ring->data + slot * interpreter->channel->has.slot_bytes;
}

/* ---- what descriptors do ---- */

/* A segment of a descriptor, in memory. */
struct piece {
    const struct tug_area_memory *from_area, *to_area;
    unsigned char *from, *to; /* NULL in another rank */
    size_t from_at, to_at;    /* bytes from the beginning of the area */
    size_t elements;
};

static struct piece piece_of(const struct tug_interpreter *interpreter,
                             const struct tug_descriptor *d, uint32_t segment) {
    uint64_t offset;
    struct piece piece = {.from_area = &interpreter->areas[d->from_area],
                          .to_area = &interpreter->areas[d->to_area]};
    piece.elements = (size_t)tug_descriptor_at(d, segment, &offset);
    piece.from_at = (d->from + offset) * piece.from_area->extent;
    piece.to_at = (d->to + offset) * piece.to_area->extent;
    if (!tug_area_is_theirs(d->from_area))
        piece.from = piece.from_area->base + piece.from_at;
    if (!tug_area_is_theirs(d->to_area))
        piece.to = piece.to_area->base + piece.to_at;
    return piece;
}

/* Bytes of OUTPUT are going to be read as far as the end of a piece. */
static void pack(struct tug_interpreter *interpreter, const struct tug_descriptor *d,
                 const struct piece *piece) {
    if (interpreter->staging != NULL && d->from_area == TUG_AREA_OUTPUT)
        note(interpreter, tug_staging_pack_to(interpreter->staging,
                                              (size_t)(piece->from - piece->from_area->base) +
                                                  piece->elements * piece->from_area->extent));
}

/* Bytes of OUTPUT are there as far as the end of a piece. */
static void unpack(struct tug_interpreter *interpreter, const struct tug_descriptor *d,
                   const struct piece *piece) {
    if (interpreter->staging != NULL && d->to_area == TUG_AREA_OUTPUT &&
        interpreter->unpacks_in_order)
        note(interpreter, tug_staging_unpack_to(interpreter->staging,
                                                (size_t)(piece->to - piece->to_area->base) +
                                                    piece->elements * piece->to_area->extent));
}

/* Moves a piece between a buffer of another rank of the node, from some byte on, and memory here.
 */
static void reach(struct tug_interpreter *interpreter, const struct tug_descriptor *d,
                  uint32_t area, size_t at, void *here, size_t bytes) {
    const struct tug_their_areas *theirs = &interpreter->theirs[d->peer];
    uint64_t there = (area == TUG_AREA_THEIR_INPUT ? theirs->input : theirs->output) + at;
    pid_t pid = interpreter->team->pids[d->peer];
    int error = area == d->from_area ? tug_cma_read(pid, here, there, bytes)
                                     : tug_cma_write(pid, here, there, bytes);
    if (error)
        note(interpreter, MPI_ERR_OTHER);
}

static void copy(struct tug_interpreter *interpreter, const struct tug_descriptor *d,
                 const struct piece *piece) {
    const struct tug_area_memory *from = piece->from_area;
    const struct tug_area_memory *to = piece->to_area;
    MPI_Count n = (MPI_Count)piece->elements;
    if (from->dense && to->dense) {
        size_t bytes = piece->elements * from->extent;
        if (tug_area_is_theirs(d->from_area))
            reach(interpreter, d, d->from_area, piece->from_at, piece->to, bytes);
        else if (tug_area_is_theirs(d->to_area))
            reach(interpreter, d, d->to_area, piece->to_at, piece->from, bytes);
        else if (interpreter->streams)
            tug_copy_streaming(piece->to, piece->from, bytes);
        else
            memcpy(piece->to, piece->from, bytes);
        return;
    }
    /* between layouts: a message to ourselves, which waits for nobody */
    int self = interpreter->team->rank;
    int tag = (interpreter->channel->index + 1) * TUG_CHANNEL_TAGS - 1;
    note(interpreter, tug_host.Sendrecv_c(piece->from, n * from->count, from->type, self, tag,
                                          piece->to, n * to->count, to->type, self, tag,
                                          interpreter->team->comm, MPI_STATUS_IGNORE));
}

/* to = from op to, or, if it folds, to = to op from. */
static void reduce(struct tug_interpreter *interpreter, const struct piece *piece, const void *from,
                   bool folds) {
    const struct tug_area_memory *area = piece->to_area;
    if (interpreter->reduction != NULL) { /* predefined operations commute */
        interpreter->reduction(piece->to, from, piece->elements * (size_t)area->count);
        return;
    }
    MPI_Count n = (MPI_Count)piece->elements * area->count;
    if (!folds) {
        note(interpreter,
             tug_host.Reduce_local_c(from, piece->to, n, interpreter->op_type, interpreter->op));
        return;
    }
    size_t bytes = piece->elements * area->extent;
    if (from != interpreter->aside)
        memcpy(interpreter->aside, from, bytes);
    note(interpreter, tug_host.Reduce_local_c(piece->to, interpreter->aside, n,
                                              interpreter->op_type, interpreter->op));
    memcpy(piece->to, interpreter->aside, bytes);
}

/* From memory here or in another rank. */
static void reduce_piece(struct tug_interpreter *interpreter, const struct tug_descriptor *d,
                         const struct piece *piece) {
    const unsigned char *from = piece->from;
    if (tug_area_is_theirs(d->from_area)) {
        reach(interpreter, d, d->from_area, piece->from_at, interpreter->aside,
              piece->elements * piece->from_area->extent);
        from = interpreter->aside;
    }
    reduce(interpreter, piece, from, d->kind == TUG_FOLD);
}

static bool collect(struct tug_interpreter *interpreter, const struct tug_descriptor *d,
                    uint32_t segment, const struct piece *piece) {
    size_t bytes = piece->elements * piece->to_area->extent;
    uint32_t position = d->position + segment;
    const unsigned char *data = arrived(interpreter, d->peer, position, bytes);
    if (data == NULL)
        return false;
    if (d->kind == TUG_GATHER_REDUCE || d->kind == TUG_GATHER_FOLD)
        reduce(interpreter, piece, data, d->kind == TUG_GATHER_FOLD);
    else if (d->kind == TUG_COLLECT && interpreter->streams && bytes > TUG_SLOT_INLINE)
        tug_copy_streaming(piece->to, data, bytes);
    else if (d->kind == TUG_COLLECT)
        memcpy(piece->to, data, bytes);
    bool last = segment + 1 == tug_descriptor_segments(d);
    release(interpreter, d->peer,
            ring_of(interpreter, d->peer)->position + (last ? d->release : position + 1));
    return true;
}

/* Executes one segment of anything but a transfer; false if it cannot be yet. */
static bool execute(struct tug_interpreter *interpreter, const struct tug_descriptor *d,
                    uint32_t segment) {
    struct piece piece = piece_of(interpreter, d, segment);
    pack(interpreter, d, &piece);
    switch ((enum tug_kind)d->kind) {
    case TUG_NOP:
    case TUG_SEND:
    case TUG_RECEIVE:
        break;
    case TUG_COPY:
        copy(interpreter, d, &piece);
        break;
    case TUG_REDUCE:
    case TUG_FOLD:
        reduce_piece(interpreter, d, &piece);
        break;
    case TUG_PUBLISH:
        if (!publish(interpreter, piece.from, piece.elements * piece.from_area->extent))
            return false;
        break;
    case TUG_SIGNAL:
        if (!publish(interpreter, NULL, 0))
            return false;
        break;
    case TUG_COLLECT:
    case TUG_AWAIT:
    case TUG_GATHER_REDUCE:
    case TUG_GATHER_FOLD:
        if (!collect(interpreter, d, segment, &piece))
            return false;
        break;
    case TUG_DRAIN: {
        struct tug_segment_ring *ring = ring_of(interpreter, me(interpreter));
        if (!all_past(interpreter, ring, ring->position + d->position))
            return false;
        break;
    }
    }
    unpack(interpreter, d, &piece);
    return true;
}

/* ---- near messages ---- */

static uint32_t node_rank_of(const struct tug_interpreter *interpreter, uint32_t rank) {
    return interpreter->team->places.node_rank_of[rank];
}

/* What does not lie as plain bytes fits a slot: packed into `aside`, or unpacked from there. */
static void convert(struct tug_interpreter *interpreter, const struct tug_area_memory *area,
                    void *data, size_t elements, bool packs) {
    MPI_Count n = (MPI_Count)elements * area->count, position = 0;
    MPI_Count bytes = (MPI_Count)(elements * area->packed);
    if (data == NULL) { /* MPICH 4.0.2 packs nothing from MPI_BOTTOM: a message to ourselves */
        int self = interpreter->team->rank;
        int tag = (interpreter->channel->index + 1) * TUG_CHANNEL_TAGS - 1;
        MPI_Datatype from = packs ? area->type : MPI_PACKED, to = packs ? MPI_PACKED : area->type;
        note(interpreter,
             tug_host.Sendrecv_c(packs ? data : interpreter->aside, packs ? n : bytes, from, self,
                                 tag, packs ? interpreter->aside : data, packs ? bytes : n, to,
                                 self, tag, interpreter->team->comm, MPI_STATUS_IGNORE));
    } else if (packs) {
        note(interpreter, tug_host.Pack_c(data, n, area->type, interpreter->aside, bytes, &position,
                                          interpreter->team->comm));
    } else {
        note(interpreter, tug_host.Unpack_c(interpreter->aside, bytes, &position, data, n,
                                            area->type, interpreter->team->comm));
    }
}

/* Taken from where it lies, by a rendezvous: the same at both ends. */
static bool is_lent(const struct tug_descriptor *d) {
    return d->from_area == TUG_AREA_LENT || d->to_area == TUG_AREA_LENT;
}

static struct tug_partner partner_of(const struct tug_interpreter *interpreter, uint32_t node_rank,
                                     size_t bytes) {
    const struct tug_team *team = interpreter->team;
    return (struct tug_partner){.pid = team->pids[node_rank],
                                .bell = tug_team_bell(team, (int)node_rank),
                                .reader_alone = team->crowded || !team->attaches,
                                .wakes = bytes >= WAKE_LEAST && !team->crowded};
}

static struct tug_rendezvous_state *rendezvous_of(struct tug_lane_state *state,
                                                  const struct tug_lane_pointer *at) {
    return &state->rendezvous[at->passed % TUG_IN_FLIGHT_MOST];
}

/* Gets a near message to a rank on; true when it is through. */
static bool send_near(struct tug_interpreter *interpreter, struct tug_lane_state *state,
                      const struct tug_descriptor *d, const struct piece *piece) {
    uint32_t peer = node_rank_of(interpreter, d->peer);
    struct tug_segment_ring *ring = &interpreter->channel->to[peer];
    const void *message = piece->from;
    size_t bytes = piece->elements * travels(interpreter, d);
    struct tug_rendezvous_state *rendezvous = rendezvous_of(state, &state->read);
    if (is_lent(d) && !rendezvous->refused) {
        struct tug_partner reader = partner_of(interpreter, peer, bytes);
        return tug_rendezvous_put(ring, rendezvous, message, bytes, &reader);
    }
    if (!tug_pair_has_room(ring))
        return false;
    if (!piece->from_area->dense) {
        convert(interpreter, piece->from_area, piece->from, piece->elements, true);
        message = interpreter->aside;
    }
    return tug_pair_put(ring, interpreter->channel->has.pair_bytes, message, bytes, &state->done,
                        tug_team_bell(interpreter->team, (int)peer));
}

static bool receive_near(struct tug_interpreter *interpreter, struct tug_lane_state *state,
                         const struct tug_descriptor *d, const struct piece *piece) {
    uint32_t peer = node_rank_of(interpreter, d->peer);
    struct tug_segment_ring *ring = &interpreter->channel->from[peer];
    bool dense = piece->to_area->dense;
    size_t bytes = piece->elements * travels(interpreter, d);
    struct tug_rendezvous_state *rendezvous = rendezvous_of(state, &state->read);
    if (is_lent(d) && !rendezvous->refused) {
        struct tug_partner writer = partner_of(interpreter, peer, bytes);
        writer.view = piece->from; /* NULL: it is not mapped here */
        writer.view_streams = interpreter->streams;
        return tug_rendezvous_take(ring, rendezvous, piece->to, bytes, &writer);
    }
    if (!tug_pair_take(ring, interpreter->channel->has.pair_bytes,
                       dense ? piece->to : interpreter->aside, bytes, &state->done,
                       tug_team_bell(interpreter->team, (int)peer)))
        return false;
    if (!dense)
        convert(interpreter, piece->to_area, piece->to, piece->elements, false);
    return true;
}

/* Gets the near message at the read pointer on. True if it is through; sets *moved if anything
 * is. */
static bool move_near(struct tug_interpreter *interpreter, struct tug_lane_state *state,
                      const struct tug_descriptor *d, bool *moved) {
    struct piece piece = piece_of(interpreter, d, state->read.segment);
    struct tug_rendezvous_state *rendezvous = rendezvous_of(state, &state->read);
    struct tug_rendezvous_state met = *rendezvous;
    size_t done = state->done;
    bool through = d->kind == TUG_SEND ? send_near(interpreter, state, d, &piece)
                                       : receive_near(interpreter, state, d, &piece);
    *moved |= state->done != done || rendezvous->copied != met.copied ||
              rendezvous->offer != met.offer || rendezvous->refused != met.refused;
    if (through) {
        state->done = 0;
        *rendezvous = (struct tug_rendezvous_state){0};
    }
    return through;
}

/* What is lent may be taken before its turn comes. */
static void lend(struct tug_interpreter *interpreter, struct tug_lane_state *state,
                 const struct tug_descriptor *d, const struct piece *piece) {
    uint32_t peer = node_rank_of(interpreter, d->peer);
    tug_rendezvous_offer(&interpreter->channel->to[peer], rendezvous_of(state, &state->begin),
                         piece->from, tug_team_bell(interpreter->team, (int)peer));
}

/* Hands the segment of a transfer at the begin pointer to the host, if it is not near. */
static void begin_transfer(struct tug_interpreter *interpreter, const struct tug_lane *lane,
                           struct tug_lane_state *state) {
    const struct tug_team *team = interpreter->team;
    const struct tug_descriptor *d = &lane->descriptors[state->begin.descriptor];
    MPI_Request *request = &state->in_flight[state->begin.passed % TUG_IN_FLIGHT_MOST];
    struct piece piece = piece_of(interpreter, d, state->begin.segment);
    pack(interpreter, d, &piece);
    if (is_near(interpreter, d, piece.elements)) {
        if (d->to_area == TUG_AREA_LENT)
            lend(interpreter, state, d, &piece);
        return;
    }
    MPI_Count n = (MPI_Count)piece.elements;
    int tag = interpreter->channel->index * TUG_CHANNEL_TAGS + d->tag;
    if (d->kind == TUG_SEND)
        note(interpreter,
             tug_host.Isend_c(piece.from, n * piece.from_area->count, piece.from_area->type,
                              (int)d->peer, tag, team->comm, request));
    else
        note(interpreter, tug_host.Irecv_c(piece.to, n * piece.to_area->count, piece.to_area->type,
                                           (int)d->peer, tag, team->comm, request));
}

/* ---- lanes ---- */

static void move_on(struct tug_lane_pointer *pointer, const struct tug_descriptor *d) {
    pointer->passed++;
    if (++pointer->segment == tug_descriptor_segments(d)) {
        pointer->segment = 0;
        pointer->descriptor++;
    }
}

/* A segment is complete: the lanes that wait for it may go on. */
static void step(struct tug_interpreter *interpreter, const struct tug_descriptor *d) {
    for (uint32_t lanes = d->advances, l = 0; lanes != 0; lanes >>= 1, l++)
        if (lanes & 1 && interpreter->lanes[l].limit != TUG_LIMIT_ALL)
            interpreter->lanes[l].limit += d->steps;
}

/* Begins what the scheduling pointer and the depth allow; everything but transfers is complete when
 * it is begun. */
static bool begin(struct tug_interpreter *interpreter, const struct tug_lane *lane,
                  struct tug_lane_state *state) {
    bool moved = false;
    while (state->begin.passed < state->limit && state->begin.descriptor < lane->count) {
        const struct tug_descriptor *d = &lane->descriptors[state->begin.descriptor];
        uint32_t under_way = state->begin.passed - state->read.passed;
        if (is_transfer(d)) {
            if (under_way == TUG_IN_FLIGHT_MOST)
                break;
            begin_transfer(interpreter, lane, state);
            if (interpreter->error != MPI_SUCCESS)
                break;
            move_on(&state->begin, d);
        } else {
            if (under_way > 0 || !execute(interpreter, d, state->begin.segment))
                break;
            move_on(&state->begin, d);
            state->read = state->begin;
            step(interpreter, d);
        }
        moved = true;
    }
    return moved;
}

static bool test(struct tug_interpreter *interpreter, MPI_Request *request) {
    int flag = 0;
    if (tug_engine_enter_host()) {
        note(interpreter, tug_host.Test(request, &flag, MPI_STATUS_IGNORE));
        tug_engine_leave_host();
    }
    return flag;
}

/* Looks which transfers are over. */
static bool complete(struct tug_interpreter *interpreter, const struct tug_lane *lane,
                     struct tug_lane_state *state) {
    bool moved = false;
    while (state->read.passed < state->begin.passed && interpreter->error == MPI_SUCCESS) {
        const struct tug_descriptor *d = &lane->descriptors[state->read.descriptor];
        uint64_t offset;
        bool flag;
        if (is_near(interpreter, d, tug_descriptor_at(d, state->read.segment, &offset)))
            flag = move_near(interpreter, state, d, &moved);
        else
            flag = test(interpreter, &state->in_flight[state->read.passed % TUG_IN_FLIGHT_MOST]);
        if (!flag)
            break;
        if (d->kind == TUG_RECEIVE) {
            struct piece piece = piece_of(interpreter, d, state->read.segment);
            unpack(interpreter, d, &piece);
        }
        move_on(&state->read, d);
        step(interpreter, d);
        moved = true;
    }
    return moved;
}

/* ---- a run ---- */

void tug_interpreter_start(struct tug_interpreter *interpreter) {
    const struct tug_schedule *schedule = &interpreter->schedule;
    for (uint32_t l = 0; l < schedule->nlanes; l++) {
        interpreter->lanes[l].read = interpreter->lanes[l].begin = (struct tug_lane_pointer){0};
        interpreter->lanes[l].limit = schedule->lanes[l].limit;
        interpreter->lanes[l].done = 0;
        memset(interpreter->lanes[l].rendezvous, 0, sizeof(interpreter->lanes[l].rendezvous));
    }
    interpreter->published = 0;
    interpreter->error = MPI_SUCCESS;
    if (interpreter->staging != NULL)
        tug_staging_start(interpreter->staging);
    for (uint32_t w = 0; w < schedule->node_size; w++)
        if (schedule->first[w] > 0)
            release(interpreter, w, ring_of(interpreter, w)->position + schedule->first[w]);
}

/* This rank needs nothing of this run any more: whoever writes next may count on it. */
static void close_run(struct tug_interpreter *interpreter) {
    const struct tug_schedule *schedule = &interpreter->schedule;
    if (interpreter->staging != NULL)
        note(interpreter, tug_staging_unpack_to(interpreter->staging, SIZE_MAX));
    for (uint32_t w = 0; w < schedule->node_size; w++) {
        if (schedule->passes[w] == 0)
            continue;
        struct tug_segment_ring *ring = ring_of(interpreter, w);
        ring->position += schedule->passes[w];
        release(interpreter, w, ring->position);
    }
}

bool tug_interpreter_advance(struct tug_interpreter *interpreter, bool *done) {
    const struct tug_schedule *schedule = &interpreter->schedule;
    bool moved = false;
    bool over = true;
    for (uint32_t l = 0; l < schedule->nlanes && interpreter->error == MPI_SUCCESS; l++) {
        const struct tug_lane *lane = &schedule->lanes[l];
        struct tug_lane_state *state = &interpreter->lanes[l];
        if (state->read.descriptor == lane->count)
            continue;
        bool again;
        do {
            again = begin(interpreter, lane, state);
            again |= complete(interpreter, lane, state);
            moved |= again;
        } while (again && state->begin.descriptor < lane->count);
        over &= state->read.descriptor == lane->count;
    }
    if (over && interpreter->error == MPI_SUCCESS)
        close_run(interpreter);
    *done = over || interpreter->error != MPI_SUCCESS;
    return moved;
}
