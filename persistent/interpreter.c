#include "base/trace.h"
#include "persistent/interpreter.h"

#include <stdlib.h>
#include <string.h>

#include "engine/host_progress.h"
#include "host/host.h"
#include "persistent/interpreter_private.h"
#include "persistent/pair.h"
#include "tugboat/tugboat.h"

/* ---- making ---- */

/* Bytes that one segment of the descriptor may have to be put aside: operations that do not
 * commute, what is reduced from another's buffer, and what is packed for a rank of the node. */
static size_t aside_for(const struct tug_interpreter *self, const struct tug_descriptor *d) {
    uint64_t offset;
    size_t elements = (size_t)tug_descriptor_at(d, 0, &offset);
    bool folds = d->kind == TUG_FOLD || d->kind == TUG_GATHER_FOLD;
    bool reaches = d->kind != TUG_COPY && tug_area_is_theirs(d->from_area);
    if ((folds && self->reduction == NULL) || reaches)
        return elements * self->areas[d->to_area].extent;
    bool dense = self->areas[d->kind == TUG_SEND ? d->from_area : d->to_area].dense;
    if (!tug_is_transfer(d) || dense)
        return 0;
    size_t bytes = elements * tug_travels(self, d);
    return bytes <= tug_pair_slot_bytes(self->team->node_most, self->near_most) ? bytes : 0;
}

static size_t near_for(const struct tug_interpreter *self, const struct tug_descriptor *d) {
    uint64_t offset;
    uint64_t elements = tug_descriptor_at(d, 0, &offset);
    return tug_may_be_near(self, d, elements) ? (size_t)elements * tug_travels(self, d) : 0;
}

static bool is_awaited(const struct tug_descriptor *d) {
    return d->kind == TUG_SEND || d->kind == TUG_PUBLISH || d->kind == TUG_SIGNAL;
}

/* One pass over all descriptors for what the interpreter wants to know of them. */
static size_t survey(struct tug_interpreter *self) {
    size_t aside = 0;
    uint64_t filled = 0;
    uint32_t filler = TUG_QUEUES_MOST;
    self->unpacks_in_order = true;
    for (uint32_t l = 0; l < self->schedule.nqueues; l++) {
        const struct tug_queue *queue = &self->schedule.queues[l];
        for (uint32_t i = 0; i < queue->count; i++) {
            const struct tug_descriptor *d = &queue->descriptors[i];
            size_t bytes = aside_for(self, d);
            aside = bytes > aside ? bytes : aside;
            size_t near = near_for(self, d);
            self->near_longest = near > self->near_longest ? near : self->near_longest;
            if (d->to_area != TUG_AREA_OUTPUT || d->kind == TUG_SEND || d->kind == TUG_PUBLISH)
                continue;
            self->unpacks_in_order &= d->to == filled && (l == filler || filled == 0);
            filled = d->to + d->elements;
            filler = l;
        }
    }
    return aside;
}

int tug_interpreter_init(struct tug_interpreter *self) {
    struct tug_schedule *schedule = &self->schedule;
    size_t aside = survey(self);
    self->queues = calloc(schedule->nqueues + 1, sizeof(*self->queues));
    for (uint32_t l = 0; l < schedule->nqueues && self->queues != NULL; l++)
        for (uint32_t i = 0; i < schedule->queues[l].count; i++)
            if (is_awaited(&schedule->queues[l].descriptors[i]))
                self->queues[l].gives = i + 1;
    self->ring_of = calloc(schedule->node_size, sizeof(*self->ring_of));
    self->writers = calloc(schedule->node_size, sizeof(*self->writers));
    self->aside = aside > 0 ? malloc(aside) : NULL;
    if (self->queues == NULL || self->ring_of == NULL || self->writers == NULL ||
        (aside > 0 && self->aside == NULL))
        return TUG_ERR_NO_MEMORY;
    for (uint32_t w = 0; w < schedule->node_size; w++)
        if (schedule->passes[w] > 0) {
            self->writers[self->nwriters] = w;
            self->ring_of[w] = self->nwriters++;
            self->skips |= schedule->first[w] > 0;
        }
    return 0;
}

/* Is some message of the queue the host's? */
static bool has_hosts(const struct tug_interpreter *self, uint32_t number) {
    const struct tug_queue *queue = &self->schedule.queues[number];
    for (uint32_t i = 0; i < queue->count; i++) {
        const struct tug_descriptor *d = &queue->descriptors[i];
        uint64_t offset;
        if (tug_is_transfer(d) && !tug_is_near(self, d, tug_descriptor_at(d, 0, &offset)) &&
            tug_stream_of(&self->queues[number], i) == NULL)
            return true;
    }
    return false;
}

void tug_interpreter_look_for_hosts(struct tug_interpreter *self) {
    self->polls = false;
    for (uint32_t l = 0; l < self->schedule.nqueues; l++)
        self->polls |= has_hosts(self, l);
}

/* More is worth an engine that copies it while the program computes. */
#define BRIEF_MOST ((uint64_t)65536)

/* What comes to a rank in a run. */
struct incoming {
    uint64_t bytes;
    uint32_t *slots; /* by rank, of its pair */
};

/* False: it is more than fits, or lies in another rank's memory. */
static bool count_incoming(const struct tug_interpreter *self, const struct tug_descriptor *d,
                           struct incoming *in) {
    const size_t slot = self->channel->has.pair_bytes;
    const bool reads_ring =
        d->kind == TUG_COLLECT || d->kind == TUG_GATHER_REDUCE || d->kind == TUG_GATHER_FOLD;
    if (d->kind == TUG_DRAIN || d->from_area == TUG_AREA_LENT || d->to_area == TUG_AREA_LENT ||
        tug_area_is_theirs(d->from_area) || tug_area_is_theirs(d->to_area))
        return false;
    if (!reads_ring && d->kind != TUG_RECEIVE)
        return true;
    const uint64_t bytes = d->elements * tug_travels(self, d);
    in->bytes += bytes;
    if (d->kind == TUG_RECEIVE)
        in->slots[d->peer] += bytes <= slot ? 1 : (uint32_t)((bytes + slot - 1) / slot);
    return in->bytes <= BRIEF_MOST && (reads_ring || in->slots[d->peer] <= TUG_SEGMENT_SLOTS);
}

static bool is_brief(const struct tug_interpreter *self) {
    const struct tug_schedule *schedule = &self->schedule;
    struct incoming in = {.slots = calloc((size_t)self->team->nranks, sizeof(*in.slots))};
    bool brief = in.slots != NULL && !self->polls;
    for (uint32_t w = 0; w < schedule->node_size; w++)
        brief &= schedule->passes[w] <= TUG_SEGMENT_SLOTS;
    for (uint32_t l = 0; l < schedule->nqueues; l++)
        for (uint32_t i = 0; i < schedule->queues[l].count && brief; i++)
            brief = count_incoming(self, &schedule->queues[l].descriptors[i], &in);
    free(in.slots);
    return brief;
}

void tug_interpreter_bind(struct tug_interpreter *self, struct tug_channel *channel, bool plain) {
    self->channel = channel;
    if (!plain && self->near_most > channel->has.pair_bytes)
        self->near_most = channel->has.pair_bytes;
    tug_interpreter_look_for_hosts(self);
    self->is_brief = is_brief(self);
    tug_row_make(self);
}

void tug_interpreter_fini(struct tug_interpreter *self) {
    tug_interpreter_drop_far(self);
    tug_schedule_fini(&self->schedule);
    free(self->queues);
    tug_row_free(self->row);
    free(self->ring_of);
    free(self->writers);
    free(self->aside);
}

/* ---- queues ---- */

/* Begins the segment of a transfer at the begin pointer: near, far, or by the host. */
static void begin_transfer(struct tug_interpreter *self, const struct tug_queue *queue,
                           struct tug_queue_state *state) {
    const struct tug_team *team = self->team;
    const struct tug_descriptor *d = &queue->descriptors[state->begin.descriptor];
    MPI_Request *request = &state->in_flight[state->begin.passed % TUG_IN_FLIGHT_MOST];
    struct tug_piece piece = tug_piece_of(self, d, state->begin.segment);
    tug_pack_piece(self, d, &piece);
    if (tug_is_near(self, d, piece.elements)) {
        tug_near_begin(self, queue, state, &piece);
        return;
    }
    if (tug_stream_of(state, state->begin.descriptor) != NULL) {
        tug_stream_begin(self, state, d, &piece);
        return;
    }
    MPI_Count n = (MPI_Count)piece.elements;
    int tag = self->channel->index * TUG_CHANNEL_TAGS + d->tag;
    if (d->kind == TUG_SEND)
        tug_note_error(self, tug_host.Isend_c(tug_piece_from(&piece), n * piece.from_area->count,
                                              piece.from_area->type, (int)d->peer, tag, team->comm,
                                              request));
    else
        tug_note_error(self, tug_host.Irecv_c(tug_piece_to(&piece), n * piece.to_area->count,
                                              piece.to_area->type, (int)d->peer, tag, team->comm,
                                              request));
}

/* A segment is complete: the queues that wait for it may go on. */
static void step(struct tug_interpreter *self, const struct tug_descriptor *d) {
    for (uint32_t queues = d->advances, l = 0; queues != 0; queues >>= 1, l++)
        if (queues & 1 && self->queues[l].limit != TUG_LIMIT_ALL)
            self->queues[l].limit += d->steps;
}

/* Executes a segment of anything but a transfer; false if it cannot be yet. */
static bool execute(struct tug_interpreter *self, const struct tug_descriptor *d,
                    struct tug_queue_state *state) {
    const uint32_t segment = state->begin.segment;
    const struct tug_piece piece = tug_piece_of(self, d, segment);
    tug_pack_piece(self, d, &piece);
    if (!tug_interpreter_execute(self, d, segment, &piece, &state->done))
        return false;
    tug_unpack_piece(self, d, &piece);
    return true;
}

/* Begins what the scheduling pointer and the depth allow; everything but transfers is complete when
 * it is begun. */
static bool begin(struct tug_interpreter *self, const struct tug_queue *queue,
                  struct tug_queue_state *state) {
    bool moved = false;
    while (state->begin.passed < state->limit && state->begin.descriptor < queue->count) {
        const struct tug_descriptor *d = &queue->descriptors[state->begin.descriptor];
        uint32_t under_way = state->begin.passed - state->read.passed;
        if (tug_is_transfer(d)) {
            if (under_way == TUG_IN_FLIGHT_MOST)
                break;
            begin_transfer(self, queue, state);
            if (self->error != MPI_SUCCESS)
                break;
            tug_move_on(&state->begin, d);
        } else {
            if (under_way > 0 || !execute(self, d, state))
                break;
            const struct tug_queue_pointer behind = tug_behind(&state->begin, d);
            tug_point(&state->begin, behind);
            tug_point(&state->read, behind);
            step(self, d);
        }
        moved = true;
    }
    return moved;
}

static bool test(struct tug_interpreter *self, MPI_Request *request) {
    int flag = 0;
    if (tug_engine_enter_host()) {
        tug_note_error(self, tug_host.Test(request, &flag, MPI_STATUS_IGNORE));
        tug_engine_leave_host();
    }
    return flag;
}

/* Looks which transfers are over. */
static bool complete(struct tug_interpreter *self, const struct tug_queue *queue,
                     struct tug_queue_state *state) {
    bool moved = state->unwritten > 0 && tug_stream_push(queue, state);
    while (state->read.passed < state->begin.passed && self->error == MPI_SUCCESS) {
        const struct tug_descriptor *d = &queue->descriptors[state->read.descriptor];
        uint64_t offset;
        bool flag;
        if (tug_is_near(self, d, tug_descriptor_at(d, state->read.segment, &offset)))
            flag = tug_near_move(self, state, d, &moved);
        else if (tug_stream_of(state, state->read.descriptor) != NULL)
            flag = tug_stream_move(self, state, d, &moved);
        else
            flag = test(self, &state->in_flight[state->read.passed % TUG_IN_FLIGHT_MOST]);
        if (!flag)
            break;
        if (d->kind == TUG_RECEIVE) {
            struct tug_piece piece = tug_piece_of(self, d, state->read.segment);
            tug_unpack_piece(self, d, &piece);
        }
        tug_move_on(&state->read, d);
        step(self, d);
        moved = true;
    }
    return moved;
}

/* ---- a run ---- */

static __attribute__((noinline)) void start_queues(struct tug_interpreter *self) {
    const struct tug_schedule *schedule = &self->schedule;
    for (uint32_t l = 0; l < schedule->nqueues; l++) {
        self->queues[l].read = self->queues[l].begin = (struct tug_queue_pointer){0};
        self->queues[l].limit = schedule->queues[l].limit;
        self->queues[l].done = 0;
        self->queues[l].unwritten = 0;
        if (self->error != MPI_SUCCESS) /* else those of the last run have all been through */
            memset(self->queues[l].rendezvous, 0, sizeof(self->queues[l].rendezvous));
    }
    if (self->staging != NULL)
        tug_staging_start(self->staging);
    self->published = 0;
    self->error = MPI_SUCCESS;
    for (uint32_t i = 0; i < self->nwriters && self->skips; i++)
        tug_interpreter_release(self, &self->channel->rings[i], self->writers[i],
                                schedule->first[self->writers[i]]);
}

void tug_interpreter_start(struct tug_interpreter *self) {
    if (self->row != NULL)
        tug_row_start(self);
    else
        start_queues(self);
}

/* This rank needs nothing of this run any more: whoever writes next may count on it. */
static void close_run(struct tug_interpreter *self) {
    if (self->staging != NULL)
        tug_note_error(self, tug_staging_unpack_to(self->staging, SIZE_MAX));
    for (uint32_t i = 0; i < self->nwriters; i++) {
        struct tug_segment_ring *ring = &self->channel->rings[i];
        ring->position += self->schedule.passes[self->writers[i]];
        tug_interpreter_release(self, ring, self->writers[i], 0);
    }
}

bool tug_interpreter_has_given(const struct tug_interpreter *self) {
    if (self->row != NULL)
        return tug_row_has_given(self->row);
    for (uint32_t l = 0; l < self->schedule.nqueues; l++)
        if (self->queues[l].read.descriptor < self->queues[l].gives)
            return false;
    return true;
}

/* Sets *done: all queues are worked off, or the host failed. The number of steps. */
static uint64_t work_off(struct tug_interpreter *self, bool *done) {
    const struct tug_schedule *schedule = &self->schedule;
    uint64_t nsteps = 0;
    *done = true;
    for (uint32_t l = 0; l < schedule->nqueues && self->error == MPI_SUCCESS; l++) {
        const struct tug_queue *queue = &schedule->queues[l];
        struct tug_queue_state *state = &self->queues[l];
        if (state->read.descriptor == queue->count)
            continue;
        bool again;
        do {
            again = begin(self, queue, state);
            again |= complete(self, queue, state);
            nsteps += again;
        } while (again && state->begin.descriptor < queue->count);
        *done &= state->read.descriptor == queue->count;
    }
    if (self->owed != 0)
        tug_interpreter_ring_owed(self);
    *done |= self->error != MPI_SUCCESS;
    return nsteps;
}

static __attribute__((noinline)) bool advance_queues(struct tug_interpreter *self, bool *done) {
    const uint64_t nsteps = work_off(self, done);
    if (*done && self->error == MPI_SUCCESS)
        close_run(self);
    if (nsteps > 0)
        tug_trace_count(TUG_TRACE_STEPS, nsteps);
    return nsteps > 0 || (self->theirs != NULL && tug_interpreter_answer(self));
}

/* The queues' share is out of line: a row is short, and saves no registers for it. */
bool tug_interpreter_advance(struct tug_interpreter *self, bool *done) {
    return self->row != NULL ? tug_row_advance(self, done) : advance_queues(self, done);
}
