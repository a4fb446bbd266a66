/* Messages through streams: what the writer and the reader of one do in a run. */
#include <string.h>

#include "base/copy.h"
#include "llcl/llcl.h"
#include "persistent/far_private.h"

/* Segments read: the word takes their acknowledgement along, just in time (TUG_STREAM_LATE). */
#define TELL_EVERY 11

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
    const struct tug_gate *gate = (const struct tug_gate *)stream->here;
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
    *to = stream->there_at + offsetof(struct tug_landing, slots) + slot * stream->slot_bytes;
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
                    offsetof(struct tug_gate, read), stream->read - stream->told,
                    (struct tug_callback){0}))
        stream->told = stream->read;
}

/* Says where a message goes. */
static bool offer(struct tug_far_stream *stream, struct tug_far_message *message) {
    const unsigned slot = message->position % TUG_FAR_SLOTS;
    const size_t there =
        offsetof(struct tug_gate, offers[0]) + slot * sizeof(((struct tug_gate *)0)->offers[0]);
    struct tug_far_offer *on_way = &stream->offers[slot];
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
    const struct tug_landing *landing = (const struct tug_landing *)stream->here;
    const uint32_t before = message->done;
    while (message->done < message->segments) {
        const uint64_t position = message->position + message->done;
        const unsigned slot = position % TUG_FAR_SLOTS;
        if (look_at(&landing->numbers[slot]) != position / TUG_FAR_SLOTS + 1)
            break;
        const size_t at = message->done * stream->slot_bytes, left = message->bytes - at;
        if (!is_direct(stream, message) && left > 0)
            tug_copy(message->data + at, landing->slots + slot * stream->slot_bytes,
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
