#include "persistent/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "persistent/copy.h"
#include "tugboat/tugboat.h"

/* ---- compiling ---- */

/* Fills a lane with one descriptor a segment; the first `ready` of them need nobody's step. */
static int lane_init(struct tug_schedule *schedule, enum tug_lane_kind kind, bool ready,
                     uint32_t advances, int peer) {
    struct tug_lane *lane = &schedule->lanes[kind];
    lane->descriptors = malloc(schedule->nsegments * sizeof(*lane->descriptors));
    if (lane->descriptors == NULL)
        return TUG_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < schedule->nsegments; i++)
        lane->descriptors[i] = (struct tug_descriptor){i, advances};
    lane->count = schedule->nsegments;
    lane->limit_at_start = ready ? lane->count : 0;
    lane->peer = peer;
    return 0;
}

/* Who has the data first on the node at a place in the chain that begins at the root's node. */
static int holder_at(const struct tug_team *team, int root, int place) {
    int node = (team->node_of[root] + place) % team->nnodes;
    return place == 0 ? root : team->leader_of[node];
}

int tug_schedule_bcast(struct tug_schedule *schedule, int root) {
    const struct tug_team *team = schedule->team;
    int place = (team->node_of[team->rank] - team->node_of[root] + team->nnodes) % team->nnodes;
    if (schedule->nsegments == 0)
        return 0;
    schedule->staging.packs = team->rank == root;
    int holder = holder_at(team, root, place);
    schedule->writer = team->node_rank_of[holder];
    /* what is staged is unpacked at once: it had better be in the cache */
    schedule->streams = schedule->staging.type == MPI_DATATYPE_NULL &&
                        schedule->bytes >= tug_copy_cache_share(team->node_size);
    if (holder != team->rank)
        return lane_init(schedule, TUG_LANE_COLLECT, true, 0, 0);

    bool is_root = place == 0;
    bool sends = place + 1 < team->nnodes;
    bool publishes = team->node_size > 1;
    uint32_t steps = (sends ? 1u << TUG_LANE_SEND : 0) | (publishes ? 1u << TUG_LANE_PUBLISH : 0);
    int error = 0;
    if (!is_root)
        error =
            lane_init(schedule, TUG_LANE_RECEIVE, true, steps, holder_at(team, root, place - 1));
    if (!error && sends)
        error = lane_init(schedule, TUG_LANE_SEND, is_root, 0, holder_at(team, root, place + 1));
    if (!error && publishes)
        error = lane_init(schedule, TUG_LANE_PUBLISH, is_root, 0, 0);
    return error;
}

void tug_schedule_end(struct tug_schedule *schedule) {
    for (int i = 0; i < TUG_LANES; i++)
        free(schedule->lanes[i].descriptors);
    tug_staging_fini(&schedule->staging);
}

bool tug_schedule_polls(const struct tug_schedule *schedule) {
    return schedule->lanes[TUG_LANE_RECEIVE].count > 0 || schedule->lanes[TUG_LANE_SEND].count > 0;
}

/* ---- running ---- */

void tug_schedule_start(struct tug_schedule *schedule) {
    for (int i = 0; i < TUG_LANES; i++) {
        struct tug_lane *lane = &schedule->lanes[i];
        lane->next = 0;
        lane->posted = 0;
        lane->limit = lane->limit_at_start;
    }
    schedule->base = schedule->channel->position;
    schedule->channel->position += schedule->nsegments;
    schedule->error = MPI_SUCCESS;
    tug_staging_start(&schedule->staging);
}

static size_t segment_offset(const struct tug_schedule *schedule, uint32_t segment) {
    return segment * schedule->segment_bytes;
}

static size_t segment_end(const struct tug_schedule *schedule, uint32_t segment) {
    size_t end = segment_offset(schedule, segment) + schedule->segment_bytes;
    return end < schedule->bytes ? end : schedule->bytes;
}

static void note(struct tug_schedule *schedule, int error) {
    if (schedule->error == MPI_SUCCESS)
        schedule->error = error;
}

/* The descriptor at the read pointer is complete: the session progress step. */
static void step(struct tug_schedule *schedule, struct tug_lane *lane) {
    uint32_t advances = lane->descriptors[lane->next++].advances;
    for (int i = 0; advances != 0; i++, advances >>= 1)
        if (advances & 1)
            schedule->lanes[i].limit++;
}

/* The writer may reuse the slot of a position when every reader has collected what it held. */
static bool slot_is_free(struct tug_schedule *schedule, uint64_t position) {
    struct tug_channel *channel = schedule->channel;
    const struct tug_team *team = schedule->team;
    if (position < channel->reads_seen + TUG_CHANNEL_SLOTS)
        return true;
    uint64_t least = UINT64_MAX;
    for (int r = 0; r < team->node_size; r++) {
        /* seq_cst: pairs with the reader's count, then its look at our bell; acquire: its reads of
         * the slot are over */
        uint64_t count = r == team->node_rank ? UINT64_MAX : atomic_load(&channel->reads[r].count);
        least = count < least ? count : least;
    }
    channel->reads_seen = least;
    return position < least + TUG_CHANNEL_SLOTS;
}

static bool publish(struct tug_schedule *schedule, const struct tug_descriptor *descriptor) {
    struct tug_channel *channel = schedule->channel;
    const struct tug_team *team = schedule->team;
    uint64_t position = schedule->base + descriptor->segment;
    if (!slot_is_free(schedule, position))
        return false;
    size_t offset = segment_offset(schedule, descriptor->segment);
    size_t end = segment_end(schedule, descriptor->segment);
    note(schedule, tug_staging_pack_to(&schedule->staging, end));
    unsigned slot = position % TUG_CHANNEL_SLOTS;
    struct tug_slot_head *head = &channel->heads[slot];
    const unsigned char *bytes = schedule->staging.bytes + offset;
    unsigned char *data = channel->data + slot * channel->slot_bytes;
    if (end - offset <= TUG_SLOT_INLINE)
        memcpy(head->data, bytes, end - offset);
    else if (atomic_load_explicit(channel->streaming, memory_order_relaxed))
        tug_copy_streaming(data, bytes, end - offset);
    else
        memcpy(data, bytes, end - offset);
    /* release: the data before its number; seq_cst: before the look at the readers' bells */
    atomic_store(&head->number, position + 1);
    for (int r = 0; r < team->node_size; r++)
        if (r != team->node_rank)
            tug_bell_ring(tug_team_bell(team, r), true);
    return true;
}

static bool collect(struct tug_schedule *schedule, const struct tug_descriptor *descriptor) {
    struct tug_channel *channel = schedule->channel;
    const struct tug_team *team = schedule->team;
    uint64_t position = schedule->base + descriptor->segment;
    unsigned slot = position % TUG_CHANNEL_SLOTS;
    struct tug_slot_head *head = &channel->heads[slot];
    /* acquire: pairs with publish; seq_cst: the second look before sleeping on our bell */
    if (atomic_load(&head->number) != position + 1)
        return false;
    size_t offset = segment_offset(schedule, descriptor->segment);
    size_t end = segment_end(schedule, descriptor->segment);
    unsigned char *bytes = schedule->staging.bytes + offset;
    const unsigned char *data = channel->data + slot * channel->slot_bytes;
    if (end - offset <= TUG_SLOT_INLINE)
        memcpy(bytes, head->data, end - offset);
    else if (schedule->streams)
        tug_copy_streaming(bytes, data, end - offset);
    else
        memcpy(bytes, data, end - offset);
    atomic_store(&channel->reads[team->node_rank].count, position + 1);
    tug_bell_ring(tug_team_bell(team, schedule->writer), true);
    note(schedule, tug_staging_unpack_to(&schedule->staging, end));
    return true;
}

/* Hands segments to the host as far as the scheduling pointer and the depth allow. */
static bool post(struct tug_schedule *schedule, struct tug_lane *lane, bool sends) {
    const struct tug_team *team = schedule->team;
    bool moved = false;
    while (lane->posted < lane->limit && lane->posted - lane->next < TUG_LANE_DEPTH) {
        uint32_t segment = lane->descriptors[lane->posted].segment;
        size_t offset = segment_offset(schedule, segment);
        size_t end = segment_end(schedule, segment);
        MPI_Request *request = &lane->in_flight[lane->posted % TUG_LANE_DEPTH];
        unsigned char *bytes = schedule->staging.bytes + offset;
        if (sends) {
            note(schedule, tug_staging_pack_to(&schedule->staging, end));
            note(schedule, tug_host.Isend(bytes, (int)(end - offset), MPI_BYTE, lane->peer,
                                          schedule->channel->index, team->comm, request));
        } else {
            note(schedule, tug_host.Irecv(bytes, (int)(end - offset), MPI_BYTE, lane->peer,
                                          schedule->channel->index, team->comm, request));
        }
        if (schedule->error != MPI_SUCCESS)
            return false;
        lane->posted++;
        moved = true;
    }
    return moved;
}

static bool transfer(struct tug_schedule *schedule, enum tug_lane_kind kind) {
    struct tug_lane *lane = &schedule->lanes[kind];
    bool moved = post(schedule, lane, kind == TUG_LANE_SEND);
    while (lane->next < lane->posted && schedule->error == MPI_SUCCESS) {
        int flag = 0;
        note(schedule, tug_host.Test(&lane->in_flight[lane->next % TUG_LANE_DEPTH], &flag,
                                     MPI_STATUS_IGNORE));
        if (!flag)
            break;
        if (kind == TUG_LANE_RECEIVE)
            note(schedule, tug_staging_unpack_to(
                               &schedule->staging,
                               segment_end(schedule, lane->descriptors[lane->next].segment)));
        step(schedule, lane);
        moved = true;
        (void)post(schedule, lane, kind == TUG_LANE_SEND);
    }
    return moved;
}

static bool copy(struct tug_schedule *schedule, enum tug_lane_kind kind) {
    struct tug_lane *lane = &schedule->lanes[kind];
    bool moved = false;
    while (lane->next < lane->limit) {
        const struct tug_descriptor *descriptor = &lane->descriptors[lane->next];
        if (!(kind == TUG_LANE_PUBLISH ? publish(schedule, descriptor)
                                       : collect(schedule, descriptor)))
            break;
        step(schedule, lane);
        moved = true;
    }
    return moved;
}

/* This rank has nothing more to collect from any earlier writer: whoever writes next may count on
 * it. */
static void close_run(struct tug_schedule *schedule) {
    struct tug_channel *channel = schedule->channel;
    if (schedule->lanes[TUG_LANE_COLLECT].count == 0 && channel->reads != NULL)
        atomic_store(&channel->reads[schedule->team->node_rank].count,
                     schedule->base + schedule->nsegments);
}

bool tug_schedule_advance(struct tug_schedule *schedule, bool *done) {
    bool moved = false;
    bool complete = true;
    for (int i = 0; i < TUG_LANES; i++) {
        struct tug_lane *lane = &schedule->lanes[i];
        if (lane->next == lane->count)
            continue;
        moved |= i <= TUG_LANE_SEND ? transfer(schedule, i) : copy(schedule, i);
        complete &= lane->next == lane->count;
    }
    if (complete)
        close_run(schedule);
    *done = complete || schedule->error != MPI_SUCCESS;
    return moved;
}
