/* Transfers between ranks of a node. Short ones go through the slots of a pair (pair.h), what is
 * lent is taken from where it lies (rendezvous.h).
 */
#include "host/host.h"
#include "persistent/interpreter_private.h"
#include "persistent/pair.h"

#define WAKE_LEAST ((size_t)524288) /* worth a sleeper's way up */

size_t tug_travels(const struct tug_interpreter *self, const struct tug_descriptor *d) {
    const struct tug_area_memory *area =
        &self->areas[d->kind == TUG_SEND ? d->from_area : d->to_area];
    return area->dense ? area->extent : area->packed;
}

/* Those with tags are not: they would need pairs of their own. */
bool tug_may_be_near(const struct tug_interpreter *self, const struct tug_descriptor *d,
                     uint64_t elements) {
    const uint32_t *node_of = self->team->places.node_of;
    return tug_is_transfer(d) && d->tag == 0 && node_of[d->peer] == node_of[self->team->rank] &&
           (size_t)elements * tug_travels(self, d) <= self->near_most;
}

static uint32_t node_rank_of(const struct tug_interpreter *self, uint32_t rank) {
    return self->team->places.node_rank_of[rank];
}

void tug_convert(struct tug_interpreter *self, const struct tug_area_memory *area, void *data,
                 size_t elements, void *plain, bool packs) {
    MPI_Count n = (MPI_Count)elements * area->count, position = 0;
    MPI_Count bytes = (MPI_Count)(elements * area->packed);
    if (data == NULL && packs) { /* MPICH 4.0.2 packs nothing from MPI_BOTTOM */
        tug_copy_typed(self, data, n, area->type, plain, bytes, MPI_PACKED);
    } else if (data == NULL) {
        tug_copy_typed(self, plain, bytes, MPI_PACKED, data, n, area->type);
    } else if (packs) {
        tug_note_error(
            self, tug_host.Pack_c(data, n, area->type, plain, bytes, &position, self->team->comm));
    } else {
        tug_note_error(self, tug_host.Unpack_c(plain, bytes, &position, data, n, area->type,
                                               self->team->comm));
    }
}

/* Taken from where it lies, by a rendezvous: the same at both ends. */
static bool is_lent(const struct tug_descriptor *d) {
    return d->from_area == TUG_AREA_LENT || d->to_area == TUG_AREA_LENT;
}

static struct tug_partner partner_of(const struct tug_interpreter *self, uint32_t node_rank,
                                     size_t bytes) {
    const struct tug_team *team = self->team;
    return (struct tug_partner){.pid = team->pids[node_rank],
                                .bell = tug_team_bell(team, (int)node_rank),
                                .reader_alone = team->oversubscribed || !team->attaches,
                                .wakes = bytes >= WAKE_LEAST && !team->oversubscribed};
}

static struct tug_rendezvous_state *rendezvous_of(struct tug_queue_state *state,
                                                  const struct tug_queue_pointer *at) {
    return &state->rendezvous[at->passed % TUG_IN_FLIGHT_MOST];
}

/* Gets a near message to a rank on; true when it is through. */
static bool send_near(struct tug_interpreter *self, struct tug_queue_state *state,
                      const struct tug_descriptor *d, const struct tug_piece *piece) {
    uint32_t peer = node_rank_of(self, d->peer);
    struct tug_segment_ring *ring = &self->channel->to[peer];
    const void *message = tug_piece_from(piece);
    size_t bytes = piece->elements * tug_travels(self, d);
    struct tug_rendezvous_state *rendezvous = rendezvous_of(state, &state->read);
    if (is_lent(d) && !rendezvous->refused) {
        struct tug_partner reader = partner_of(self, peer, bytes);
        return tug_rendezvous_put(ring, rendezvous, message, bytes, &reader);
    }
    if (!tug_pair_has_room(ring, 1))
        return false;
    if (!piece->from_area->dense) {
        /* what does not lie as plain bytes fits a slot */
        tug_convert(self, piece->from_area, tug_piece_from(piece), piece->elements, self->aside,
                    true);
        message = self->aside;
    }
    const bool owes = self->is_brief && bytes <= TUG_OWED_MOST;
    if (owes)
        self->owed |= (uint64_t)1 << peer % 64;
    return tug_pair_put(ring, self->channel->has.pair_bytes, message, bytes, &state->done,
                        owes ? NULL : tug_team_bell(self->team, (int)peer));
}

static bool receive_near(struct tug_interpreter *self, struct tug_queue_state *state,
                         const struct tug_descriptor *d, const struct tug_piece *piece) {
    uint32_t peer = node_rank_of(self, d->peer);
    struct tug_segment_ring *ring = &self->channel->from[peer];
    bool dense = piece->to_area->dense;
    size_t bytes = piece->elements * tug_travels(self, d);
    struct tug_rendezvous_state *rendezvous = rendezvous_of(state, &state->read);
    if (is_lent(d) && !rendezvous->refused) {
        struct tug_partner writer = partner_of(self, peer, bytes);
        writer.view = tug_piece_from(piece); /* NULL: it is not mapped here */
        writer.view_streams = self->streams;
        return tug_rendezvous_take(ring, rendezvous, tug_piece_to(piece), bytes, &writer);
    }
    if (!tug_pair_take(ring, self->channel->has.pair_bytes,
                       dense ? tug_piece_to(piece) : self->aside, bytes, &state->done,
                       tug_team_bell(self->team, (int)peer)))
        return false;
    if (!dense)
        tug_convert(self, piece->to_area, tug_piece_to(piece), piece->elements, self->aside, false);
    return true;
}

bool tug_near_move(struct tug_interpreter *self, struct tug_queue_state *state,
                   const struct tug_descriptor *d, bool *moved) {
    struct tug_piece piece = tug_piece_of(self, d, state->read.segment);
    struct tug_rendezvous_state *rendezvous = rendezvous_of(state, &state->read);
    struct tug_rendezvous_state met = *rendezvous;
    size_t done = state->done;
    bool through = d->kind == TUG_SEND ? send_near(self, state, d, &piece)
                                       : receive_near(self, state, d, &piece);
    *moved |= state->done != done || rendezvous->copied != met.copied ||
              rendezvous->offer != met.offer || rendezvous->refused != met.refused;
    if (through) {
        state->done = 0;
        *rendezvous = (struct tug_rendezvous_state){0};
    }
    return through;
}

/* Is something for that rank under way already? */
static bool is_busy(const struct tug_queue *queue, const struct tug_queue_state *state,
                    uint32_t peer) {
    for (uint32_t i = state->read.descriptor; i < state->begin.descriptor; i++)
        if (queue->descriptors[i].peer == peer)
            return true;
    return state->begin.segment > 0;
}

void tug_near_begin(struct tug_interpreter *self, const struct tug_queue *queue,
                    struct tug_queue_state *state, const struct tug_piece *piece) {
    const struct tug_descriptor *d = &queue->descriptors[state->begin.descriptor];
    if (d->to_area != TUG_AREA_LENT || is_busy(queue, state, d->peer))
        return;
    uint32_t peer = node_rank_of(self, d->peer);
    tug_rendezvous_offer(&self->channel->to[peer], rendezvous_of(state, &state->begin),
                         tug_piece_from(piece), tug_team_bell(self->team, (int)peer));
}
