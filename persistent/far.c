#include "persistent/far.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "host/agreement.h"
#include "host/host.h"
#include "host/polite.h"
#include "llcl/llcl.h"
#include "node/team.h"
#include "persistent/channel.h"
#include "persistent/collectives.h"
#include "tugboat/tugboat.h"

#define PAGE ((size_t)4096)
#define SLOT_LEAST ((size_t)64)
#define SLOT_MOST ((size_t)32768)
#define MEMORY_MOST ((size_t)4 << 20) /* of all slots that a request adds to its channel */
/* Segments read: the word takes their acknowledgement along, just in time (TUG_STREAM_LATE). */
#define TELL_EVERY 11

/* What another process writes. Each on a cache line of its own. */
struct landing {
    uint64_t numbers[TUG_FAR_SLOTS]; /* how often the slot has been filled */
    unsigned char slots[];           /* [TUG_FAR_SLOTS] x slot_bytes */
} __attribute__((aligned(64)));

struct place {
    struct tug_key key;
    uint64_t at;
};

struct gate {
    uint64_t read; /* segments */
    unsigned char gap[56];
    struct {
        uint64_t number; /* position + 1 of the last offer */
        struct place place;
    } offers[TUG_FAR_SLOTS];
} __attribute__((aligned(64)));

/* On its way to the writer. */
struct tug_far_offer {
    struct place place;
    uint64_t number; /* that the writer has there, when it has come */
};

/* Memory that landings and gates are cut from. */
struct block {
    struct block *next;
    unsigned char *memory;
    tug_registration *registration;
};

/* A registration whose request is gone. */
struct parting {
    struct parting *next;
    tug_registration *registration;
};

/* A team's. */
struct tug_far {
    tug_context *context; /* NULL: MPI has ended */
    struct tug_counter ended;
    struct block *blocks;
    pthread_mutex_t lock;
    struct parting *partings; /* with the lock */
};

/* ---- the context ---- */

static void context_ends(void *d) {
    ((struct tug_far *)d)->context = NULL;
}

static struct tug_far *make(struct tug_team *team) {
    struct tug_far *far = calloc(1, sizeof(*far));
    if (!tug_all_agree(team->comm, far != NULL) ||
        tug_context_create_on(team, &far->context) != 0) {
        free(far);
        return NULL;
    }
    if (!tug_context_has_network(far->context)) {
        (void)tug_context_free(&far->context);
        free(far);
        return NULL;
    }
    pthread_mutex_init(&far->lock, NULL);
    tug_context_set_with_jobs(far->context);
    tug_context_set_end(far->context, context_ends, far);
    return far;
}

bool tug_far_prepare(struct tug_team *team) {
    struct tug_collectives *own = tug_collectives_of(team);
    if (!own->far_sought && team->nnodes > 1)
        own->far = make(team);
    own->far_sought = true;
    return own->far != NULL;
}

struct tug_bell *tug_far_bell(const struct tug_team *team) {
    return tug_context_bell(tug_collectives_of(team)->far->context);
}

static void look(void *context) {
    tug_context_look(context);
}

void tug_far_look(const struct tug_team *team) {
    tug_engine_call(look, tug_collectives_of(team)->far->context);
}

/* ---- memory of requests ---- */

bool tug_far_register(struct tug_team *team, void *base, size_t bytes,
                      struct tug_far_memory *memory) {
    memory->base = base;
    return tug_mem_register(tug_collectives_of(team)->far->context, base, bytes,
                            &memory->registration) == 0;
}

/* Ends what nothing uses any more. With the lock. */
static void reap(struct tug_far *far) {
    for (struct parting **at = &far->partings; *at != NULL;) {
        struct parting *parting = *at;
        if (tug_mem_deregister(&parting->registration) == TUG_ERR_STATE) {
            at = &parting->next;
            continue;
        }
        *at = parting->next;
        free(parting);
    }
}

/* A late end may still be out. What there is no memory to note ends with the context. */
void tug_far_release(struct tug_team *team, struct tug_far_memory *memory) {
    struct tug_far *far = tug_collectives_of(team)->far;
    struct parting *parting = NULL;
    if (memory->registration != NULL && far->context != NULL)
        parting = malloc(sizeof(*parting));
    if (parting == NULL)
        return;
    pthread_mutex_lock(&far->lock);
    *parting = (struct parting){far->partings, memory->registration};
    far->partings = parting;
    if (!tug_engine_driving())
        reap(far);
    pthread_mutex_unlock(&far->lock);
    memory->registration = NULL;
}

/* ---- opening ---- */

struct tug_far_stream *tug_far_find(const struct tug_channel *channel, uint32_t peer, uint8_t tag,
                                    bool sends) {
    for (uint32_t i = 0; i < channel->nfar; i++) {
        struct tug_far_stream *stream = channel->far[i];
        if (stream->peer == peer && stream->tag == tag && stream->sends == sends)
            return stream;
    }
    return NULL;
}

/* The stream of a need among those of the channel, new if need be. NULL: no memory. */
static struct tug_far_stream *stream_for(struct tug_far *far, struct tug_channel *channel,
                                         const struct tug_far_need *need) {
    struct tug_far_stream *stream = tug_far_find(channel, need->peer, need->tag, need->sends);
    if (stream != NULL)
        return stream;
    struct tug_far_stream **streams =
        realloc((void *)channel->far, (channel->nfar + 1) * sizeof(struct tug_far_stream *));
    if (streams == NULL)
        return NULL;
    channel->far = streams;
    stream = calloc(1, sizeof(*stream));
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

static size_t memory_of(const struct tug_far_stream *stream, size_t slot_bytes) {
    return stream->sends ? sizeof(struct gate)
                         : sizeof(struct landing) + TUG_FAR_SLOTS * slot_bytes;
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

static struct block *take_block(struct tug_far *far, size_t bytes) {
    struct block *block = calloc(1, sizeof(*block));
    if (block == NULL)
        return NULL;
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    block->memory = aligned_alloc(PAGE, bytes);
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
    struct landing *landing = (struct landing *)stream->here;
    for (uint64_t s = 0; s < TUG_FAR_SLOTS; s++)
        landing->numbers[s] = (stream->position + TUG_FAR_SLOTS - 1 - s) / TUG_FAR_SLOTS;
}

/* What this end has to do alone. */
struct opening {
    struct tug_far_stream **streams; /* [n] each once */
    size_t *longest;                 /* [n] */
    uint32_t n, coming;
};

static bool place_all(struct tug_far *far, const struct opening *opening) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < opening->n; i++) {
        const size_t slot_bytes = slot_for(opening->longest[i], opening->coming);
        if (lacks(opening->streams[i], slot_bytes))
            bytes += memory_of(opening->streams[i], slot_bytes);
    }
    struct block *block = bytes > 0 ? take_block(far, bytes) : NULL;
    if (bytes > 0 && block == NULL)
        return false;
    size_t at = 0;
    for (uint32_t i = 0; i < opening->n; i++) {
        struct tug_far_stream *stream = opening->streams[i];
        const size_t slot_bytes = slot_for(opening->longest[i], opening->coming);
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

/* The needs, each stream once. False: no memory. */
static bool list(struct tug_far *far, struct tug_channel *channel, const struct tug_far_need *needs,
                 uint32_t n, struct opening *opening) {
    opening->streams = malloc((n + 1) * sizeof(struct tug_far_stream *));
    opening->longest = malloc((n + 1) * sizeof(*opening->longest));
    if (opening->streams == NULL || opening->longest == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        struct tug_far_stream *stream = stream_for(far, channel, &needs[i]);
        uint32_t k = 0;
        if (stream == NULL)
            return false;
        while (k < opening->n && opening->streams[k] != stream)
            k++;
        if (k == opening->n) {
            opening->streams[opening->n++] = stream;
            opening->longest[k] = 0;
            opening->coming += !stream->sends;
            stream->direct = true;
        }
        stream->direct &= needs[i].direct;
        if (needs[i].longest > opening->longest[k])
            opening->longest[k] = needs[i].longest;
    }
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

/* The meeting for a stream, new if need be. */
static struct meeting *meeting_for(struct meeting *meetings, uint32_t *n,
                                   const struct tug_far_stream *stream) {
    uint32_t i = 0;
    while (i < *n && (meetings[i].peer != stream->peer || meetings[i].tag != stream->tag))
        i++;
    if (i == *n)
        meetings[(*n)++] = (struct meeting){.peer = stream->peer, .tag = stream->tag};
    return &meetings[i];
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

static void hear(const struct meeting *meeting, struct tug_far_stream *stream) {
    const struct word *theirs = &meeting->theirs;
    if (stream->sends) {
        stream->there = theirs->landing.key;
        stream->there_at = theirs->landing.at;
        stream->slot_bytes = theirs->landing.slot_bytes;
        stream->direct = theirs->landing.direct;
    } else {
        stream->there = theirs->gate.key;
        stream->there_at = theirs->gate.at;
    }
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
    for (uint32_t i = 0; i < 2 * n && error == MPI_SUCCESS; i++)
        error = tug_polite_wait(&meetings[i / 2].requests[i % 2]);
    return error == MPI_SUCCESS ? 0 : TUG_ERR_MPI;
}

/* What this end can prepare alone. */
static bool prepare(struct tug_far *far, struct tug_channel *channel,
                    const struct tug_far_need *needs, uint32_t n, struct opening *opening) {
    if (!list(far, channel, needs, n, opening) || !place_all(far, opening))
        return false;
    for (uint32_t i = 0; i < opening->n; i++)
        if (!opening->streams[i]->sends)
            settle_direct(opening->streams[i], opening->longest[i]);
    return true;
}

/* The ends of the streams tell each other where they are. */
static int introduce(const struct tug_team *team, const struct tug_channel *channel,
                     const struct opening *opening, struct meeting *meetings) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < opening->n; i++)
        say(meeting_for(meetings, &n, opening->streams[i]), opening->streams[i]);
    int error = meet(team, channel, meetings, n);
    for (uint32_t i = 0; i < opening->n && !error; i++)
        hear(meeting_for(meetings, &n, opening->streams[i]), opening->streams[i]);
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
    pthread_mutex_lock(&far->lock);
    reap(far);
    pthread_mutex_unlock(&far->lock);
    free((void *)opening.streams);
    free(opening.longest);
    free(meetings);
    return error;
}

void tug_far_close(struct tug_channel *channel) {
    for (uint32_t i = 0; i < channel->nfar; i++) {
        free(channel->far[i]->offers);
        free(channel->far[i]);
    }
    free((void *)channel->far);
}

void tug_far_end(struct tug_collectives *own) {
    struct tug_far *far = own->far;
    if (far == NULL)
        return;
    if (far->context != NULL)
        (void)tug_context_free(&far->context);
    for (struct block *block = far->blocks, *next; block != NULL; block = next) {
        next = block->next;
        free(block->memory);
        free(block);
    }
    for (struct parting *parting = far->partings, *next; parting != NULL; parting = next) {
        next = parting->next;
        free(parting);
    }
    pthread_mutex_destroy(&far->lock);
    free(far);
    own->far = NULL;
}

/* ---- writing to the other end ---- */

/* A write, and `value` added to a word of the other end's landing or gate. False: no room now. */
static bool write_there(struct tug_far_stream *stream, const struct tug_key *key, uint64_t to,
                        struct tug_local_address from, size_t bytes, size_t word, uint64_t value,
                        struct tug_callback on_local) {
    const struct tug_write_signal_params params = {
        .dest_proc = (int)stream->peer,
        .dest_raddr = {key, to},
        .src_laddr = from,
        .size_in_bytes = bytes,
        .signal_raddr = {&stream->there, stream->there_at + word},
        .value = value,
        .on_local = on_local,
        .on_complete = {tug_counter_add, stream->ended},
        .late = true};
    return tug_try_write_signal_async(stream->context, &params);
}

static struct tug_local_address anywhere(const struct tug_far_stream *stream, const void *data) {
    return (struct tug_local_address){tug_context_everything(stream->context),
                                      (size_t)(uintptr_t)data};
}

/* Acquire: what other processes have written before they added to it. seq_cst: the second look
 * before sleeping on what tells of news. */
static uint64_t look_at(const uint64_t *word) {
    return tug_signal_value(word);
}

static bool is_direct(const struct tug_far_stream *stream, const struct tug_far_message *message) {
    return stream->direct && message->bytes > stream->slot_bytes;
}

/* ---- the writer ---- */

/* Where the next segment goes: false, if that is not known or not free yet. */
static bool find_room(struct tug_far_stream *stream, const struct tug_far_message *message,
                      const struct tug_key **key, uint64_t *to) {
    const struct gate *gate = (const struct gate *)stream->here;
    const uint64_t position = message->position + message->done;
    const unsigned slot = position % TUG_FAR_SLOTS;
    if (is_direct(stream, message)) {
        if (look_at(&gate->offers[slot].number) != position + 1)
            return false;
        *key = &gate->offers[slot].place.key;
        *to = gate->offers[slot].place.at;
        return true;
    }
    if (position - stream->read >= TUG_FAR_SLOTS)
        stream->read = look_at(&gate->read);
    *key = &stream->there;
    *to = stream->there_at + offsetof(struct landing, slots) + slot * stream->slot_bytes;
    return position - stream->read < TUG_FAR_SLOTS;
}

/* Hands over what there is room for. */
static bool put(struct tug_far_stream *stream, struct tug_far_message *message) {
    const uint32_t before = message->done;
    const struct tug_key *key;
    uint64_t to;
    while (message->done < message->segments && find_room(stream, message, &key, &to)) {
        const size_t at = message->done * stream->slot_bytes, left = message->bytes - at;
        const size_t bytes =
            message->segments > 1 && left > stream->slot_bytes ? stream->slot_bytes : left;
        const unsigned char *data = message->data + at;
        const struct tug_far_memory *memory = message->memory;
        const struct tug_local_address from =
            memory != NULL
                ? (struct tug_local_address){memory->registration, (size_t)(data - memory->base)}
                : anywhere(stream, data);
        const unsigned slot = (message->position + message->done) % TUG_FAR_SLOTS;
        if (!write_there(stream, key, to, from, bytes, slot * sizeof(uint64_t), 1,
                         (struct tug_callback){tug_counter_add, &message->local}))
            break;
        message->done++;
    }
    return message->done != before;
}

/* ---- the reader ---- */

/* Tells the writer how far it is, when that is worth a packet; again, if there was no room. */
static void tell(struct tug_far_stream *stream) {
    if (stream->read - stream->told < TELL_EVERY)
        return;
    if (write_there(stream, &stream->there, stream->there_at, anywhere(stream, stream->here), 0,
                    offsetof(struct gate, read), stream->read - stream->told,
                    (struct tug_callback){0}))
        stream->told = stream->read;
}

/* Says where a message goes. */
static bool offer(struct tug_far_stream *stream, struct tug_far_message *message) {
    const unsigned slot = message->position % TUG_FAR_SLOTS;
    const size_t there = offsetof(struct gate, offers) + slot * 64;
    struct tug_far_offer *on_way = &stream->offers[slot];
    _Static_assert(sizeof(((struct gate *)0)->offers[0]) == 64, "a cache line each");
    tug_mem_key(message->memory->registration, &on_way->place.key);
    on_way->place.at = (uint64_t)(message->data - message->memory->base);
    const uint64_t number = message->position + 1;
    message->offered =
        write_there(stream, &stream->there, stream->there_at + there + sizeof(uint64_t),
                    anywhere(stream, &on_way->place), sizeof(on_way->place), there,
                    number - on_way->number, (struct tug_callback){0});
    if (message->offered)
        on_way->number = number;
    return message->offered;
}

/* Takes what has come. */
static bool take(struct tug_far_stream *stream, struct tug_far_message *message) {
    const struct landing *landing = (const struct landing *)stream->here;
    const uint32_t before = message->done;
    while (message->done < message->segments) {
        const uint64_t position = message->position + message->done;
        const unsigned slot = position % TUG_FAR_SLOTS;
        if (look_at(&landing->numbers[slot]) != position / TUG_FAR_SLOTS + 1)
            break;
        const size_t at = message->done * stream->slot_bytes, left = message->bytes - at;
        if (!is_direct(stream, message) && left > 0)
            memcpy(message->data + at, landing->slots + slot * stream->slot_bytes,
                   left < stream->slot_bytes ? left : stream->slot_bytes);
        message->done++;
        stream->read = position + 1;
    }
    tell(stream);
    return message->done != before;
}

/* ---- both ---- */

static uint32_t segments_of(const struct tug_far_stream *stream, size_t bytes) {
    if (bytes <= stream->slot_bytes || stream->direct)
        return 1;
    return (uint32_t)((bytes + stream->slot_bytes - 1) / stream->slot_bytes);
}

static bool get_on(struct tug_far_stream *stream, struct tug_far_message *message) {
    if (stream->sends)
        return put(stream, message);
    if (is_direct(stream, message) && !message->offered)
        return offer(stream, message);
    return false;
}

uint64_t tug_far_begin(struct tug_far_stream *stream, void *data, size_t bytes,
                       const struct tug_far_memory *memory) {
    const uint64_t number = stream->begun++;
    struct tug_far_message *message = tug_far_at(stream, number);
    *message = (struct tug_far_message){.data = data,
                                        .bytes = bytes,
                                        .memory = memory,
                                        .position = stream->position,
                                        .segments = segments_of(stream, bytes)};
    stream->position += message->segments;
    (void)get_on(stream, message);
    return number;
}

bool tug_far_push(struct tug_far_stream *stream, uint64_t number) {
    return put(stream, tug_far_at(stream, number));
}

bool tug_far_move(struct tug_far_stream *stream, uint64_t number, bool *moved) {
    struct tug_far_message *message = tug_far_at(stream, number);
    *moved |= get_on(stream, message);
    if (!stream->sends)
        *moved |= take(stream, message);
    bool over = message->done == message->segments;
    if (over && stream->sends)
        over = tug_counter_value(&message->local) == message->segments;
    stream->over += over;
    return over;
}
