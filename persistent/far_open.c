/* Streams are opened: each end makes its memory, and the two tell each other where it is. */
#include <search.h>
#include <stdlib.h>

#include "host/agreement.h"
#include "host/host.h"
#include "host/polite.h"
#include "node/team.h"
#include "persistent/channel.h"
#include "persistent/collectives.h"
#include "persistent/far_private.h"
#include "tugboat/tugboat.h"

#define SLOT_LEAST ((size_t)64)
#define SLOT_MOST ((size_t)32768)
#define MEMORY_MOST ((size_t)4 << 20) /* of all slots that a request adds to its channel */

/* Segments read: the word takes their acknowledgement along, just in time (TUG_STREAM_LATE). */
#define TELL_EVERY 11

/* The word before its slot is filled for the n-th time. */
static uint64_t word_before(uint64_t n) {
    return (n - 1) << 32 | 1;
}

/* ---- streams by peer, tag and direction ---- */

static int compare(const void *a, const void *b) {
    const struct tug_far_stream *x = a, *y = b;
    if (x->ring.peer != y->ring.peer)
        return x->ring.peer < y->ring.peer ? -1 : 1;
    return 2 * (x->tag - y->tag) + (x->sends - y->sends);
}

/* The stream as the tree of the channel's has it; that one is added otherwise. NULL: no memory. */
static struct tug_far_stream *find_or_add(struct tug_channel *channel,
                                          struct tug_far_stream *stream) {
    struct tug_far_stream **at = tsearch(stream, &channel->far, compare);
    struct tug_far_stream *found = at != NULL ? *at : NULL;
    if (found != stream)
        free(stream);
    return found;
}

struct tug_far_stream *tug_far_want(const struct tug_team *team, struct tug_channel *channel,
                                    const struct tug_far_need *need) {
    struct tug_far_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return NULL;
    stream->ring = tug_far_ring_to(team, need->peer);
    stream->tag = need->tag;
    stream->sends = need->sends;
    stream = find_or_add(channel, stream);
    if (stream == NULL)
        return NULL;
    if (!stream->wanted) {
        stream->wanted = stream->direct = true;
        stream->longest = 0;
        stream->next = channel->wanted;
        channel->wanted = stream;
    }
    stream->direct &= need->direct;
    if (need->longest > stream->longest)
        stream->longest = need->longest;
    return stream;
}

/* ---- memory of this end ---- */

static size_t memory_of(const struct tug_far_stream *stream) {
    return stream->sends ? sizeof(struct tug_gate)
                         : sizeof(struct tug_landing) + TUG_FAR_SLOTS * stream->slot_bytes;
}

/* Slots for the messages of a request, of so many streams that come here. */
static size_t slot_for(size_t longest, uint32_t nstreams) {
    size_t bytes = SLOT_LEAST;
    while (bytes < longest && bytes < SLOT_MOST &&
           (size_t)nstreams * TUG_FAR_SLOTS * 2 * bytes <= MEMORY_MOST)
        bytes *= 2;
    return bytes;
}

/* Does its memory here not do? */
static bool lacks(const struct tug_far_stream *stream) {
    return stream->ring.here == NULL ||
           (!stream->sends && stream->ring.slot_bytes < stream->slot_bytes);
}

/* Sets the words as if all positions below stream->position had used this memory. */
static void settle_words(const struct tug_far_stream *stream, uint64_t words[TUG_FAR_SLOTS]) {
    for (uint64_t s = 0; s < TUG_FAR_SLOTS; s++)
        words[s] = word_before((stream->position + 2 * TUG_FAR_SLOTS - 1 - s) / TUG_FAR_SLOTS);
}

static void settle_ring(struct tug_far_stream *stream) {
    struct tug_far_ring *ring = &stream->ring;
    ring->slots = TUG_FAR_SLOTS;
    ring->tell_every = TELL_EVERY;
    ring->said = stream->said;
    if (stream->sends) {
        settle_words(stream, stream->said);
        return;
    }
    settle_words(stream, ((struct tug_landing *)ring->here)->words);
    ring->slot_bytes = stream->slot_bytes;
}

/* Direct are messages longer than a slot; shorter ones than this are not registered. */
static void settle_direct(struct tug_far_stream *stream) {
    const size_t slot_bytes = stream->ring.slot_bytes;
    stream->direct &= stream->longest > slot_bytes && slot_bytes + 1 >= TUG_FAR_DIRECT_LEAST;
    if (stream->direct && stream->offers == NULL)
        stream->offers = calloc(TUG_FAR_SLOTS, sizeof(*stream->offers));
    stream->direct &= stream->offers != NULL;
    stream->mine.direct = stream->direct;
    stream->mine.slot_bytes = slot_bytes;
}

/* Memory for streams of the team, for as long as that lives. */
static bool take_block(struct tug_team *team, size_t bytes, struct tug_far_memory *memory) {
    struct tug_far *far = tug_collectives_of(team)->far;
    struct tug_far_kept *block = calloc(1, sizeof(*block));
    if (block == NULL)
        return false;
    const bool taken = tug_far_allocate(team, bytes, &block->memory);
    *memory = block->memory;
    block->next = far->blocks;
    far->blocks = block;
    return taken;
}

/* What this end can prepare alone. */
static bool place_all(struct tug_team *team, struct tug_far_stream *wanted) {
    size_t bytes = 0, at = 0;
    uint32_t coming = 0;
    struct tug_far_memory block = {0};
    for (struct tug_far_stream *stream = wanted; stream != NULL; stream = stream->next)
        coming += !stream->sends;
    for (struct tug_far_stream *stream = wanted; stream != NULL; stream = stream->next) {
        stream->slot_bytes = slot_for(stream->longest, coming);
        if (lacks(stream))
            bytes += memory_of(stream);
    }
    if (bytes > 0 && !take_block(team, bytes, &block))
        return false;
    for (struct tug_far_stream *stream = wanted; stream != NULL; stream = stream->next) {
        if (lacks(stream)) {
            stream->ring.here = block.base + at;
            stream->mine.place.at = at;
            tug_mem_key(block.registration, &stream->mine.place.key);
            at += memory_of(stream);
            settle_ring(stream);
        }
        if (!stream->sends)
            settle_direct(stream);
    }
    return true;
}

/* ---- the two ends meet ---- */

/* Keys are checked by LLCL when they are used. False: slots that no reader makes. */
static bool hear(struct tug_far_stream *stream) {
    const uint64_t slot_bytes = stream->theirs.slot_bytes;
    stream->ring.there = stream->ring.into = stream->theirs.place;
    stream->ring.into.at += offsetof(struct tug_landing, slots);
    if (!stream->sends)
        return true;
    stream->ring.slot_bytes = slot_bytes;
    stream->direct = stream->theirs.direct != 0;
    return slot_bytes >= SLOT_LEAST && slot_bytes <= SLOT_MOST &&
           (slot_bytes & (slot_bytes - 1)) == 0;
}

/* Posts the messages about the ends that read, or that write. Two ranks post first the ones, then
 * the others, so that messages with equal tags match. */
static int say(const struct tug_team *team, const struct tug_channel *channel, bool writers,
               MPI_Request *requests, uint32_t *n) {
    int error = MPI_SUCCESS;
    for (struct tug_far_stream *stream = channel->wanted; stream != NULL && error == MPI_SUCCESS;
         stream = stream->next) {
        const int peer = (int)stream->ring.peer;
        const int tag = channel->index * TUG_CHANNEL_TAGS + stream->tag;
        error = stream->sends == writers
                    ? tug_host.Isend_c(&stream->mine, sizeof(struct tug_far_end), MPI_BYTE, peer,
                                       tag, team->comm, &requests[*n])
                    : tug_host.Irecv_c(&stream->theirs, sizeof(struct tug_far_end), MPI_BYTE, peer,
                                       tag, team->comm, &requests[*n]);
        *n += error == MPI_SUCCESS;
    }
    return error;
}

/* The ends of the streams tell each other where they are. */
static int meet(const struct tug_team *team, const struct tug_channel *channel,
                MPI_Request *requests) {
    uint32_t n = 0;
    int error = say(team, channel, false, requests, &n);
    if (error == MPI_SUCCESS)
        error = say(team, channel, true, requests, &n);
    for (uint32_t i = 0; i < n; i++) { /* all of them, as the requests are freed next */
        const int ended = tug_polite_wait(&requests[i]);
        error = error == MPI_SUCCESS ? ended : error;
    }
    bool heard = true;
    for (struct tug_far_stream *stream = channel->wanted; stream != NULL && error == MPI_SUCCESS;
         stream = stream->next)
        heard &= hear(stream);
    return error != MPI_SUCCESS ? TUG_ERR_MPI : heard ? 0 : TUG_ERR_PEER;
}

int tug_far_open(struct tug_team *team, struct tug_channel *channel, bool ready) {
    uint32_t n = 0;
    int error = TUG_ERR_NO_MEMORY;
    for (struct tug_far_stream *stream = channel->wanted; stream != NULL; stream = stream->next)
        n++;
    MPI_Request *requests = malloc((2 * (size_t)n + 1) * sizeof(*requests));
    ready = ready && requests != NULL && place_all(team, channel->wanted);
    if (tug_all_agree(team->comm, ready))
        error = meet(team, channel, requests);
    tug_far_reap(tug_collectives_of(team)->far);
    for (; channel->wanted != NULL; channel->wanted = channel->wanted->next)
        channel->wanted->wanted = false;
    free(requests);
    return error;
}
