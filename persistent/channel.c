#include "persistent/channel.h"

#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "host/agreement.h"
#include "host/host.h"
#include "node/arena.h"
#include "node/team.h"
#include "persistent/collectives.h"
#include "persistent/far.h"
#include "persistent/pair.h"
#include "schedule/collectives.h"
#include "tugboat/tugboat.h"

#define CHANNELS_AT_FIRST 64
#define CHANNELS_MOST (1 << 14) /* x TUG_CHANNEL_TAGS: tags that every host has */
#define OFFER_WORDS (sizeof(struct tug_offer) / sizeof(uint64_t))
#define VOTES (4 + OFFER_WORDS) /* words before those of channels */

#define SEGMENT_SMALL 2048 /* of messages that live in the caches anyway */
#define SEGMENT_LEAST 8192
#define SEGMENT_MOST 65536
#define SEGMENT_CROWDED ((size_t)524288)
/* Where one rank writes. 2 ranks, cores near each other, one broadcast after another in times of a
 * bare ring of 8 x 128 KiB (osu-style-bench/ring_sizes): 64 KiB in 8 pieces 1.5, in 2 1.25, in one
 * 1.0; 128 KiB in 8, 2, 1 2.0, 1.15, 1.05; 256 KiB in 8, 4, 2 1.35, 1.2, 1.1; 2 MiB in segments of
 * 64, 128 KiB 1.25, 1.1. One at a time: 64 KiB in 8, 2, 1 5.5, 3.8, 3.9 us; 128 KiB 9.6, 8.4, 8.3;
 * 256 KiB in 8, 4, 2 17, 12-15, 13-15; 2 MiB 140, 100. */
#define SEGMENT_ALONE ((size_t)131072)

size_t tug_channel_segment(const struct tug_team *team, size_t bytes, bool alone) {
    const size_t most = team->oversubscribed ? SEGMENT_CROWDED : SEGMENT_MOST;
    const size_t pieces = team->oversubscribed ? 1 : TUG_SEGMENT_SLOTS;
    if (tug_settings.segment_bytes != 0)
        return tug_settings.segment_bytes;
    if (alone && !team->oversubscribed)
        return SEGMENT_ALONE;
    if (bytes <= SEGMENT_LEAST)
        return team->oversubscribed ? SEGMENT_LEAST : SEGMENT_SMALL;
    size_t segment = SEGMENT_LEAST;
    while (segment < most && segment * pieces < bytes)
        segment *= 2;
    return segment;
}

static size_t round_up(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static bool reserve_channel(struct tug_collectives *own) {
    if (own->nchannels < own->channel_capacity)
        return true;
    if (own->nchannels == CHANNELS_MOST)
        return false;
    int capacity = own->channel_capacity ? 2 * own->channel_capacity : CHANNELS_AT_FIRST;
    struct tug_channel **channels =
        realloc((void *)own->channels, (size_t)capacity * sizeof(*channels));
    if (channels == NULL)
        return false;
    own->channels = channels;
    uint64_t *votes = realloc(own->votes, (VOTES + (size_t)capacity / 64) * sizeof(*votes));
    if (votes == NULL)
        return false;
    own->votes = votes;
    own->channel_capacity = capacity;
    return true;
}

enum { UNWILLING = 1, NOT_PLAIN = 2, NOT_COMPARED = 4 };

/* All ranks vote on a new request, by one bitwise-or of these words: is a rank unwilling, are its
 * data not plain, has it no request of the host's to compare with; the size of the message and its
 * complement, of which no bit is set in both if all sizes are equal; the length of messages through
 * pairs, which comes out at less than twice the longest; the offer, which all but one rank leave
 * zero; the channels that a rank still uses. */
static int vote(struct tug_team *team, struct tug_ballot *ballot) {
    uint64_t few[VOTES];
    const struct tug_collectives *own = tug_collectives_of(team);
    uint64_t *votes = own->votes != NULL ? own->votes : few;
    int words = (int)VOTES + (own->nchannels + 63) / 64;
    memset(votes, 0, (size_t)words * sizeof(*votes));
    votes[0] = (ballot->willing ? 0 : UNWILLING) | (ballot->plain ? 0 : NOT_PLAIN) |
               (ballot->compares ? 0 : NOT_COMPARED);
    votes[1] = ballot->bytes;
    votes[2] = ~ballot->bytes;
    votes[3] = ballot->near_bytes;
    memcpy(&votes[4], &ballot->offer, sizeof(ballot->offer));
    for (int i = 0; i < own->nchannels; i++)
        votes[VOTES + (size_t)i / 64] |= (uint64_t)own->channels[i]->busy << (i % 64);
    if (tug_agree(team->comm, MPI_BOR, (int64_t *)votes, words) != MPI_SUCCESS)
        return TUG_ERR_MPI;
    memcpy(&ballot->offer, &votes[4], sizeof(ballot->offer));
    ballot->near_bytes = votes[3];
    ballot->plain = !(votes[0] & NOT_PLAIN);
    ballot->compares = !(votes[0] & NOT_COMPARED);
    return !(votes[0] & UNWILLING) && votes[1] == ~votes[2] ? 0 : TUG_ERR_INVALID;
}

#define RING_MOST ((size_t)32768) /* of data in a ring of more slots than the least */
#define SLOTS_MOST 64

static uint32_t slots_of(size_t slot_bytes) {
    uint32_t slots = SLOTS_MOST;
    while (slots > TUG_SEGMENT_SLOTS && slots * slot_bytes > RING_MOST)
        slots /= 2;
    return slots;
}

/* A schedule counts on TUG_RING_AHEAD slots. On several nodes those who drain their rings
 * (TUG_DRAIN) are not those who read them. */
static uint32_t lag_of(const struct tug_team *team, uint32_t slots) {
    return team->nnodes == 1 && slots > TUG_RING_AHEAD ? slots / 4 - 1 : 0;
}

static size_t memory_of(const struct tug_channel_needs *needs) {
    return needs->rings * slots_of(needs->slot_bytes) * needs->slot_bytes + needs->landing_bytes +
           TUG_SEGMENT_SLOTS * needs->pair_bytes;
}

static bool fits(const struct tug_channel *channel, const struct tug_channel_needs *needs) {
    return channel->has.slot_bytes >= needs->slot_bytes &&
           channel->has.landing_bytes >= needs->landing_bytes &&
           channel->has.rings >= needs->rings && channel->has.pair_bytes >= needs->pair_bytes;
}

/* The smallest channel that fits and that nobody uses. */
static struct tug_channel *find_free(const struct tug_collectives *own,
                                     const struct tug_channel_needs *needs) {
    struct tug_channel *best = NULL;
    for (int i = 0; i < own->nchannels; i++) {
        struct tug_channel *channel = own->channels[i];
        bool used = own->votes[VOTES + (size_t)i / 64] >> (i % 64) & 1;
        if (!used && fits(channel, needs) &&
            (best == NULL || memory_of(&channel->has) < memory_of(&best->has)))
            best = channel;
    }
    return best;
}

/* This rank's pairs among those of all, by writer and reader. */
static void lay_out_pairs(const struct tug_team *team, struct tug_channel *channel,
                          unsigned char *memory) {
    size_t each = tug_pair_memory(TUG_SEGMENT_SLOTS, channel->has.pair_bytes);
    size_t most = (size_t)team->node_most, me = (size_t)team->node_rank;
    for (size_t r = 0; channel->to != NULL && r < most; r++) {
        channel->to[r] = tug_pair_at(memory + (me * most + r) * each, TUG_SEGMENT_SLOTS);
        channel->from[r] = tug_pair_at(memory + (r * most + me) * each, TUG_SEGMENT_SLOTS);
    }
}

static size_t pairs_memory(const struct tug_team *team, const struct tug_channel *channel) {
    size_t most = (size_t)team->node_most;
    return channel->to != NULL
               ? most * most * tug_pair_memory(TUG_SEGMENT_SLOTS, channel->has.pair_bytes)
               : 0;
}

/* Rings of many slots are short: the first runs, each in slots of their own, find them in a cache.
 */
static void fetch(const unsigned char *memory, size_t bytes) {
    for (size_t i = 0; i < bytes && bytes <= 2 * RING_MOST; i += 64)
        (void)*(const volatile unsigned char *)(memory + i);
}

/* Lays a channel out in shared memory. */
static int map_channel(struct tug_team *team, struct tug_channel *channel) {
    unsigned char *memory;
    const struct tug_channel_needs *has = &channel->has;
    size_t reads = (size_t)team->node_most * sizeof(struct tug_read_count);
    const uint32_t slots = slots_of(has->slot_bytes);
    size_t heads = slots * sizeof(struct tug_slot_head);
    size_t ring_bytes = reads + heads + slots * has->slot_bytes;
    int error = tug_team_share(team);
    if (!error)
        error = tug_arena_take(
            team, has->rings * ring_bytes + has->landing_bytes + pairs_memory(team, channel),
            &memory);
    if (error)
        return error;
    for (uint32_t i = 0; i < has->rings; i++, memory += ring_bytes) {
        fetch(memory, ring_bytes);
        channel->rings[i] =
            (struct tug_segment_ring){.reads = (struct tug_read_count *)memory,
                                      .heads = (struct tug_slot_head *)(memory + reads),
                                      .data = memory + reads + heads,
                                      .slots = slots,
                                      .lag = lag_of(team, slots)};
    }
    channel->landing = has->landing_bytes > 0 ? memory : NULL;
    lay_out_pairs(team, channel, memory + has->landing_bytes);
    return 0;
}

static struct tug_channel *allocate(const struct tug_team *team,
                                    const struct tug_channel_needs *needs) {
    struct tug_channel *channel = calloc(1, sizeof(*channel));
    if (channel == NULL)
        return NULL;
    channel->has = *needs;
    channel->has.slot_bytes = round_up(needs->slot_bytes);
    channel->has.landing_bytes = round_up(needs->landing_bytes);
    size_t most = needs->pair_bytes > 0 ? (size_t)team->node_most : 0;
    channel->rings = calloc(needs->rings + 2 * most + 1, sizeof(*channel->rings));
    if (channel->rings == NULL) {
        free(channel);
        return NULL;
    }
    channel->to = most > 0 ? channel->rings + needs->rings : NULL;
    channel->from = most > 0 ? channel->to + most : NULL;
    return channel;
}

static void free_channel(struct tug_channel *channel) {
    if (channel == NULL)
        return;
    tug_far_close(channel);
    free(channel->rings);
    free(channel);
}

static int add_channel(struct tug_team *team, const struct tug_channel_needs *needs,
                       struct tug_channel **result) {
    struct tug_collectives *own = tug_collectives_of(team);
    struct tug_channel *channel = allocate(team, needs);
    if (!tug_all_agree(team->comm, channel != NULL && reserve_channel(own))) {
        free_channel(channel);
        return TUG_ERR_NO_MEMORY;
    }
    channel->index = own->nchannels;
    bool shares = team->nnodes < team->nranks && (needs->rings > 0 || needs->pair_bytes > 0);
    int error = shares ? map_channel(team, channel) : 0;
    if (error) {
        free_channel(channel);
        return error;
    }
    own->channels[own->nchannels++] = channel;
    *result = channel;
    return 0;
}

int tug_channel_take(struct tug_team *team, const struct tug_channel_needs *needs,
                     struct tug_ballot *ballot, struct tug_channel **channel) {
    int error = vote(team, ballot);
    if (error)
        return error;
    struct tug_channel_needs all = *needs;
    all.pair_bytes = tug_pair_slot_bytes(team->node_most, ballot->near_bytes);
    *channel = find_free(tug_collectives_of(team), &all);
    if (*channel == NULL) {
        error = add_channel(team, &all, channel);
        if (error)
            return error;
    }
    (*channel)->busy = true;
    tug_team_hold(team);
    return 0;
}

void tug_channel_release(struct tug_team *team, struct tug_channel *channel) {
    channel->busy = false;
    tug_team_drop(team);
}

void tug_channel_free_all(struct tug_collectives *own) {
    for (int i = 0; i < own->nchannels; i++)
        free_channel(own->channels[i]);
    free((void *)own->channels);
    free(own->votes);
}
