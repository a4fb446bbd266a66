/* Streams are opened: each end makes its memory, and the two tell each other where it is. */
#include <stdlib.h>
#include <string.h>

#include "base/system_page.h"
#include "host/agreement.h"
#include "host/host.h"
#include "host/polite.h"
#include "llcl/llcl.h"
#include "node/team.h"
#include "persistent/channel.h"
#include "persistent/collectives.h"
#include "persistent/far_private.h"
#include "tugboat/tugboat.h"

#define SLOT_LEAST ((size_t)64)
#define SLOT_MOST ((size_t)32768)
#define MEMORY_MOST ((size_t)4 << 20) /* of all slots that a request adds to its channel */

/* A stream that a request needs. */
struct opened {
    struct tug_far_stream *stream;
    size_t longest;    /* bytes of a message of the request */
    size_t slot_bytes; /* that are wanted for them */
};

/* What this end has to do alone. */
struct opening {
    struct opened *streams; /* [n] each once, in order of peer and tag */
    uint32_t n, coming;
};

/* ---- streams by peer, tag and direction ---- */

/* They are kept in this order. */
static uint64_t order_of(uint32_t peer, uint8_t tag, bool sends) {
    return (uint64_t)peer << 9 | (uint64_t)tag << 1 | sends;
}

static uint64_t order_of_stream(const struct tug_far_stream *stream) {
    return order_of(stream->peer, stream->tag, stream->sends);
}

static uint64_t order_of_need(const struct tug_far_need *need) {
    return order_of(need->peer, need->tag, need->sends);
}

static int compare_streams(const void *a, const void *b) {
    const uint64_t first = order_of_stream(*(struct tug_far_stream *const *)a),
                   second = order_of_stream(*(struct tug_far_stream *const *)b);
    return (first > second) - (first < second);
}

static int compare_needs(const void *a, const void *b) {
    const uint64_t first = order_of_need(a), second = order_of_need(b);
    return (first > second) - (first < second);
}

/* Among the first n of the channel's. */
static struct tug_far_stream *find_among(const struct tug_channel *channel, uint32_t n,
                                         uint64_t order) {
    uint32_t first = 0;
    while (first < n) {
        const uint32_t middle = first + (n - first) / 2;
        const uint64_t there = order_of_stream(channel->far[middle]);
        if (there == order)
            return channel->far[middle];
        if (there < order)
            first = middle + 1;
        else
            n = middle;
    }
    return NULL;
}

struct tug_far_stream *tug_far_find(const struct tug_channel *channel, uint32_t peer, uint8_t tag,
                                    bool sends) {
    return find_among(channel, channel->nfar, order_of(peer, tag, sends));
}

/* A stream behind those of the channel. NULL: no memory. */
static struct tug_far_stream *add_stream(struct tug_far *far, struct tug_channel *channel,
                                         const struct tug_far_need *need) {
    struct tug_far_stream **streams =
        realloc((void *)channel->far, (channel->nfar + 1) * sizeof(struct tug_far_stream *));
    if (streams == NULL)
        return NULL;
    channel->far = streams;
    struct tug_far_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return NULL;
    stream->peer = need->peer;
    stream->tag = need->tag;
    stream->sends = need->sends;
    stream->context = far->context;
    stream->ended = &far->ended;
    streams[channel->nfar++] = stream;
    return stream;
}

/* Lists the streams of needs that are in order. False: no memory. */
static bool list_in_order(struct tug_far *far, struct tug_channel *channel,
                          const struct tug_far_need *needs, uint32_t n, struct opening *opening) {
    const uint32_t nold = channel->nfar;
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || order_of_need(&needs[i]) != order_of_need(&needs[i - 1])) {
            struct tug_far_stream *stream = find_among(channel, nold, order_of_need(&needs[i]));
            if (stream == NULL)
                stream = add_stream(far, channel, &needs[i]);
            if (stream == NULL)
                return false;
            stream->direct = true;
            opening->streams[opening->n++] = (struct opened){.stream = stream};
            opening->coming += !stream->sends;
        }
        struct opened *opened = &opening->streams[opening->n - 1];
        opened->stream->direct &= needs[i].direct;
        if (needs[i].longest > opened->longest)
            opened->longest = needs[i].longest;
    }
    return true;
}

/* The streams of the needs, each once. False: no memory. */
static bool list(struct tug_far *far, struct tug_channel *channel, const struct tug_far_need *needs,
                 uint32_t n, struct opening *opening) {
    struct tug_far_need *sorted = malloc((n + 1) * sizeof(*sorted));
    opening->streams = malloc((n + 1) * sizeof(*opening->streams));
    bool listed = sorted != NULL && opening->streams != NULL;
    if (listed && n > 0) {
        memcpy(sorted, needs, n * sizeof(*sorted));
        qsort(sorted, n, sizeof(*sorted), compare_needs);
        listed = list_in_order(far, channel, sorted, n, opening);
        if (channel->nfar > 0)
            qsort((void *)channel->far, channel->nfar, sizeof(struct tug_far_stream *),
                  compare_streams);
    }
    free(sorted);
    return listed;
}

/* ---- memory of this end ---- */

static size_t memory_of(const struct tug_far_stream *stream, size_t slot_bytes) {
    return stream->sends ? sizeof(struct tug_gate)
                         : sizeof(struct tug_landing) + TUG_FAR_SLOTS * slot_bytes;
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
static bool lacks(const struct tug_far_stream *stream, size_t slot_bytes) {
    return stream->here == NULL || (!stream->sends && stream->slot_bytes < slot_bytes);
}

static struct tug_far_block *take_block(struct tug_far *far, size_t bytes) {
    struct tug_far_block *block = calloc(1, sizeof(*block));
    if (block == NULL)
        return NULL;
    bytes = tug_page_up(bytes);
    block->memory = aligned_alloc(tug_page_bytes(), bytes);
    if (block->memory != NULL)
        memset(block->memory, 0, bytes);
    if (block->memory == NULL ||
        tug_mem_register(far->context, block->memory, bytes, &block->registration) != 0) {
        free(block->memory);
        free(block);
        return NULL;
    }
    block->next = far->blocks;
    far->blocks = block;
    return block;
}

/* A new landing looks as if it had been used from the beginning. */
static void settle_landing(const struct tug_far_stream *stream) {
    struct tug_landing *landing = (struct tug_landing *)stream->here;
    for (uint64_t s = 0; s < TUG_FAR_SLOTS; s++)
        landing->numbers[s] = (stream->position + TUG_FAR_SLOTS - 1 - s) / TUG_FAR_SLOTS;
}

static bool place_all(struct tug_far *far, const struct opening *opening) {
    size_t bytes = 0, at = 0;
    for (uint32_t i = 0; i < opening->n; i++) {
        struct opened *opened = &opening->streams[i];
        opened->slot_bytes = slot_for(opened->longest, opening->coming);
        if (lacks(opened->stream, opened->slot_bytes))
            bytes += memory_of(opened->stream, opened->slot_bytes);
    }
    struct tug_far_block *block = bytes > 0 ? take_block(far, bytes) : NULL;
    if (bytes > 0 && block == NULL)
        return false;
    for (uint32_t i = 0; i < opening->n; i++) {
        struct tug_far_stream *stream = opening->streams[i].stream;
        const size_t slot_bytes = opening->streams[i].slot_bytes;
        if (!lacks(stream, slot_bytes))
            continue;
        stream->here = block->memory + at;
        stream->here_at = at;
        stream->registration = block->registration;
        at += memory_of(stream, slot_bytes);
        if (stream->sends)
            continue;
        stream->slot_bytes = slot_bytes;
        settle_landing(stream);
    }
    return true;
}

/* Direct are messages longer than a slot; shorter ones than this are not registered. */
static void settle_direct(struct tug_far_stream *stream, size_t longest) {
    stream->direct = stream->direct && longest > stream->slot_bytes &&
                     stream->slot_bytes + 1 >= TUG_FAR_DIRECT_LEAST;
    if (stream->direct && stream->offers == NULL)
        stream->offers = calloc(TUG_FAR_SLOTS, sizeof(*stream->offers));
    stream->direct &= stream->offers != NULL;
}

/* What this end can prepare alone. */
static bool prepare(struct tug_far *far, struct tug_channel *channel,
                    const struct tug_far_need *needs, uint32_t n, struct opening *opening) {
    if (!list(far, channel, needs, n, opening) || !place_all(far, opening))
        return false;
    for (uint32_t i = 0; i < opening->n; i++)
        if (!opening->streams[i].stream->sends)
            settle_direct(opening->streams[i].stream, opening->streams[i].longest);
    return true;
}

/* ---- the two ends meet ---- */

/* What each end says of the streams between two ranks with one tag, there and back. */
struct word {
    struct {
        struct tug_key key;
        uint64_t at, slot_bytes, direct;
    } landing, gate;
};

struct meeting {
    uint32_t peer;
    uint8_t tag;
    struct word mine, theirs;
    MPI_Request requests[2];
};

/* The meeting of a stream; the streams come in order. */
static struct meeting *meeting_for(struct meeting *meetings, uint32_t *n,
                                   const struct tug_far_stream *stream) {
    if (*n == 0 || meetings[*n - 1].peer != stream->peer || meetings[*n - 1].tag != stream->tag)
        meetings[(*n)++] = (struct meeting){.peer = stream->peer, .tag = stream->tag};
    return &meetings[*n - 1];
}

static void say(struct meeting *meeting, const struct tug_far_stream *stream) {
    if (stream->sends) {
        tug_mem_key(stream->registration, &meeting->mine.gate.key);
        meeting->mine.gate.at = stream->here_at;
    } else {
        tug_mem_key(stream->registration, &meeting->mine.landing.key);
        meeting->mine.landing.at = stream->here_at;
        meeting->mine.landing.slot_bytes = stream->slot_bytes;
        meeting->mine.landing.direct = stream->direct;
    }
}

/* Keys are checked by LLCL when they are used. False: slots that no reader makes. */
static bool hear(const struct meeting *meeting, struct tug_far_stream *stream) {
    const struct word *theirs = &meeting->theirs;
    if (!stream->sends) {
        stream->there = theirs->gate.key;
        stream->there_at = theirs->gate.at;
        return true;
    }
    const uint64_t slot_bytes = theirs->landing.slot_bytes;
    if (slot_bytes < SLOT_LEAST || slot_bytes > SLOT_MOST || (slot_bytes & (slot_bytes - 1)) != 0)
        return false;
    stream->there = theirs->landing.key;
    stream->there_at = theirs->landing.at;
    stream->slot_bytes = slot_bytes;
    stream->direct = theirs->landing.direct != 0;
    return true;
}

static int meet(const struct tug_team *team, const struct tug_channel *channel,
                struct meeting *meetings, uint32_t n) {
    int error = MPI_SUCCESS;
    for (uint32_t i = 0; i < n && error == MPI_SUCCESS; i++) {
        struct meeting *meeting = &meetings[i];
        const int peer = (int)meeting->peer, tag = channel->index * TUG_CHANNEL_TAGS + meeting->tag;
        error = tug_host.Irecv_c(&meeting->theirs, sizeof(struct word), MPI_BYTE, peer, tag,
                                 team->comm, &meeting->requests[0]);
        if (error == MPI_SUCCESS)
            error = tug_host.Isend_c(&meeting->mine, sizeof(struct word), MPI_BYTE, peer, tag,
                                     team->comm, &meeting->requests[1]);
    }
    const uint32_t posted = error == MPI_SUCCESS ? 2 * n : 0;
    for (uint32_t i = 0; i < posted; i++) { /* all of them, as the meetings are freed next */
        const int ended = tug_polite_wait(&meetings[i / 2].requests[i % 2]);
        error = error == MPI_SUCCESS ? ended : error;
    }
    return error == MPI_SUCCESS ? 0 : TUG_ERR_MPI;
}

/* The ends of the streams tell each other where they are. */
static int introduce(const struct tug_team *team, const struct tug_channel *channel,
                     const struct opening *opening, struct meeting *meetings) {
    uint32_t n = 0, at = 0;
    for (uint32_t i = 0; i < opening->n; i++)
        say(meeting_for(meetings, &n, opening->streams[i].stream), opening->streams[i].stream);
    int error = meet(team, channel, meetings, n);
    for (uint32_t i = 0; i < opening->n && !error; i++) {
        struct tug_far_stream *stream = opening->streams[i].stream;
        at += meetings[at].peer != stream->peer || meetings[at].tag != stream->tag;
        error = hear(&meetings[at], stream) ? 0 : TUG_ERR_PEER;
    }
    return error;
}

int tug_far_open(struct tug_team *team, struct tug_channel *channel,
                 const struct tug_far_need *needs, uint32_t n, bool ready) {
    struct tug_far *far = tug_collectives_of(team)->far;
    struct opening opening = {0};
    struct meeting *meetings = malloc((n + 1) * sizeof(*meetings));
    ready = ready && meetings != NULL && prepare(far, channel, needs, n, &opening);
    int error = TUG_ERR_NO_MEMORY;
    if (tug_all_agree(team->comm, ready))
        error = introduce(team, channel, &opening, meetings);
    tug_far_reap(far);
    free(opening.streams);
    free(meetings);
    return error;
}
