#include "persistent/channel.h"

#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "host/polite.h"
#include "persistent/arena.h"
#include "persistent/probe.h"
#include "persistent/team.h"
#include "transport/segment.h"
#include "tugboat/tugboat.h"

#define CHANNELS_AT_FIRST 64
#define CHANNELS_MOST (1 << 14) /* x TUG_CHANNEL_TAGS: tags that every host has */
#define OFFER_WORDS (sizeof(struct tug_offer) / sizeof(uint64_t))
#define VOTES (3 + OFFER_WORDS) /* words before those of channels */

static size_t round_up(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static bool reserve_channel(struct tug_team *team) {
    if (team->nchannels < team->channel_capacity)
        return true;
    if (team->nchannels == CHANNELS_MOST)
        return false;
    int capacity = team->channel_capacity ? 2 * team->channel_capacity : CHANNELS_AT_FIRST;
    struct tug_channel **channels =
        realloc((void *)team->channels, (size_t)capacity * sizeof(*channels));
    if (channels == NULL)
        return false;
    team->channels = channels;
    uint64_t *votes = realloc(team->votes, (VOTES + (size_t)capacity / 64) * sizeof(*votes));
    if (votes == NULL)
        return false;
    team->votes = votes;
    team->channel_capacity = capacity;
    return true;
}

/* All ranks' word on a new request, by one bitwise-or: is anybody unwilling, do the messages have
 * one size (all bits of b and of not b agree), what does one of them offer, and which channels does
 * anybody still use. */
static int vote(struct tug_team *team, struct tug_ballot *ballot) {
    uint64_t few[VOTES];
    uint64_t *votes = team->votes != NULL ? team->votes : few;
    int words = (int)VOTES + (team->nchannels + 63) / 64;
    memset(votes, 0, (size_t)words * sizeof(*votes));
    votes[0] = !ballot->willing;
    votes[1] = ballot->bytes;
    votes[2] = ~ballot->bytes;
    memcpy(&votes[3], &ballot->offer, sizeof(ballot->offer));
    for (int i = 0; i < team->nchannels; i++)
        votes[VOTES + (size_t)i / 64] |= (uint64_t)team->channels[i]->busy << (i % 64);
    if (TUG_POLITE(Iallreduce, MPI_IN_PLACE, votes, words, MPI_UINT64_T, MPI_BOR, team->comm) !=
        MPI_SUCCESS)
        return TUG_ERR_MPI;
    memcpy(&ballot->offer, &votes[3], sizeof(ballot->offer));
    return votes[0] == 0 && votes[1] == ~votes[2] ? 0 : TUG_ERR_INVALID;
}

static size_t memory_of(const struct tug_channel_needs *needs) {
    return needs->rings * TUG_SEGMENT_SLOTS * needs->slot_bytes + needs->landing_bytes;
}

static bool fits(const struct tug_channel *channel, const struct tug_channel_needs *needs) {
    return channel->has.slot_bytes >= needs->slot_bytes &&
           channel->has.landing_bytes >= needs->landing_bytes && channel->has.rings >= needs->rings;
}

/* The smallest channel that fits and that nobody uses. */
static struct tug_channel *find_free(const struct tug_team *team,
                                     const struct tug_channel_needs *needs) {
    struct tug_channel *best = NULL;
    for (int i = 0; i < team->nchannels; i++) {
        struct tug_channel *channel = team->channels[i];
        bool used = team->votes[VOTES + (size_t)i / 64] >> (i % 64) & 1;
        if (!used && fits(channel, needs) &&
            (best == NULL || memory_of(&channel->has) < memory_of(&best->has)))
            best = channel;
    }
    return best;
}

static unsigned class_of(size_t slot_bytes) {
    unsigned class = 0;
    while (((size_t)4096 << class) < slot_bytes && class < TUG_CHANNEL_CLASSES - 1)
        class ++;
    return class;
}

/* Lays a channel out in shared memory, and measures how to write it if it is the first of its
 * class. */
static int map_channel(struct tug_team *team, struct tug_channel *channel) {
    unsigned char *memory;
    const struct tug_channel_needs *has = &channel->has;
    size_t reads = (size_t)team->node_most * sizeof(struct tug_read_count);
    size_t heads = TUG_SEGMENT_SLOTS * sizeof(struct tug_slot_head);
    size_t ring_bytes = reads + heads + TUG_SEGMENT_SLOTS * has->slot_bytes;
    int error = tug_team_share(team);
    if (!error)
        error = tug_arena_take(team, has->rings * ring_bytes + has->landing_bytes, &memory);
    if (error)
        return error;
    for (uint32_t i = 0; i < has->rings; i++, memory += ring_bytes)
        channel->rings[i] =
            (struct tug_segment_ring){.reads = (struct tug_read_count *)memory,
                                      .heads = (struct tug_slot_head *)(memory + reads),
                                      .data = memory + reads + heads};
    channel->landing = has->landing_bytes > 0 ? memory : NULL;
    unsigned class = class_of(has->slot_bytes);
    channel->streaming = &team->streaming[class];
    if (has->slot_bytes >= TUG_PROBE_LEAST && has->rings > 0 && team->node_size > 1 &&
        !(team->probed >> class & 1)) {
        team->probed |= 1u << class;
        tug_probe_channel(team, channel);
    }
    return 0;
}

static struct tug_channel *allocate(const struct tug_channel_needs *needs) {
    struct tug_channel *channel = calloc(1, sizeof(*channel));
    if (channel == NULL)
        return NULL;
    channel->has = *needs;
    channel->has.slot_bytes = round_up(needs->slot_bytes);
    channel->has.landing_bytes = round_up(needs->landing_bytes);
    channel->rings = calloc(needs->rings + 1, sizeof(*channel->rings));
    if (channel->rings == NULL) {
        free(channel);
        return NULL;
    }
    return channel;
}

static void free_channel(struct tug_channel *channel) {
    if (channel == NULL)
        return;
    free(channel->rings);
    free(channel);
}

static int add_channel(struct tug_team *team, const struct tug_channel_needs *needs,
                       struct tug_channel **result) {
    struct tug_channel *channel = allocate(needs);
    if (!tug_all_agree(team->comm, channel != NULL && reserve_channel(team))) {
        free_channel(channel);
        return TUG_ERR_NO_MEMORY;
    }
    channel->index = team->nchannels;
    int error = team->nnodes < team->nranks && needs->rings > 0 ? map_channel(team, channel) : 0;
    if (error) {
        free_channel(channel);
        return error;
    }
    team->channels[team->nchannels++] = channel;
    *result = channel;
    return 0;
}

int tug_channel_take(struct tug_team *team, const struct tug_channel_needs *needs,
                     struct tug_ballot *ballot, struct tug_channel **channel) {
    int error = vote(team, ballot);
    if (error)
        return error;
    *channel = find_free(team, needs);
    if (*channel == NULL) {
        error = add_channel(team, needs, channel);
        if (error)
            return error;
    }
    (*channel)->busy = true;
    team->references++;
    return 0;
}

void tug_channel_release(struct tug_team *team, struct tug_channel *channel) {
    channel->busy = false;
    team->references--;
}

void tug_channel_free_all(struct tug_team *team) {
    for (int i = 0; i < team->nchannels; i++)
        free_channel(team->channels[i]);
    free((void *)team->channels);
    free(team->votes);
}
