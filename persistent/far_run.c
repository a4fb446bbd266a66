/* Rings, and messages through streams: what the writer and the reader do in a run. */
#include <string.h>

#include "base/copy.h"
#include "llcl/llcl.h"
#include "persistent/far_private.h"
#include "tugboat/tugboat.h"

/* ---- the ring ---- */

/* Any data; of registered memory, where it is known. */
static struct tug_local_address local_address(const struct tug_far_ring *ring, const void *data,
                                              const struct tug_far_memory *memory) {
    if (memory != NULL && memory->registration != NULL)
        return (struct tug_local_address){memory->registration,
                                          (size_t)((const unsigned char *)data - memory->base)};
    return (struct tug_local_address){tug_context_everything(ring->far->context),
                                      (size_t)(uintptr_t)data};
}

/* A write, and `value` added to an integer of the other end's words or gate. */
static bool write_there(const struct tug_far_ring *ring, const struct tug_far_place *to, size_t at,
                        struct tug_local_address from, size_t bytes, size_t word, uint64_t value,
                        struct tug_callback on_local) {
    const struct tug_write_signal_params params = {
        .dest_proc = (int)ring->peer,
        .dest_raddr = {&to->key, to->at + at},
        .src_laddr = from,
        .size_in_bytes = bytes,
        .signal_raddr = {&ring->there.key, ring->there.at + word},
        .value = value,
        .on_local = on_local,
        .on_complete = {ring->may_miss ? NULL : tug_counter_add, &ring->far->ended},
        .late = true};
    return tug_try_write_signal_async(ring->far->context, &params);
}

int tug_far_error(const struct tug_far_ring *ring) {
    return ring->far->context == NULL ? TUG_ERR_STATE
                                      : __atomic_load_n(&ring->far->ended.status, __ATOMIC_RELAXED);
}

bool tug_far_has_room(struct tug_far_ring *ring, uint64_t end) {
    if (end - ring->read > ring->slots) /* the gate begins with it */
        ring->read = tug_signal_value((const uint64_t *)(const void *)ring->here);
    return end - ring->read <= ring->slots;
}

bool tug_far_fill(struct tug_far_ring *ring, uint64_t position, uint32_t n, const void *data,
                  size_t bytes, const struct tug_far_memory *memory,
                  const struct tug_far_place *place, struct tug_counter *local) {
    const size_t slot = position % ring->slots;
    const uint64_t word = (position / ring->slots + 1) << 32 | n;
    if (!write_there(ring, place != NULL ? place : &ring->into,
                     place != NULL ? 0 : slot * ring->slot_bytes, local_address(ring, data, memory),
                     bytes, slot * sizeof(uint64_t), word - ring->said[slot],
                     (struct tug_callback){tug_counter_add, local}))
        return false;
    ring->said[slot] = word;
    return true;
}

uint32_t tug_far_filled(const struct tug_far_ring *ring, uint64_t position) {
    const uint64_t *words = (const uint64_t *)(const void *)ring->here;
    const uint64_t word = tug_signal_value(&words[position % ring->slots]);
    return word >> 32 == (uint32_t)(position / ring->slots + 1) ? (uint32_t)word : 0;
}

void tug_far_give_back(struct tug_far_ring *ring) {
    const uint64_t n = ring->read - ring->told;
    if (n >= ring->tell_every && tug_far_tell(ring, 0, ring, 0, 0, n, (struct tug_callback){0}))
        ring->told = ring->read;
}

bool tug_far_tell(const struct tug_far_ring *ring, size_t at, const void *data, size_t bytes,
                  size_t word, uint64_t value, struct tug_callback on_local) {
    return write_there(ring, &ring->there, at, local_address(ring, data, NULL), bytes, word, value,
                       on_local);
}

/* ---- the writer of a stream ---- */

static bool is_direct(const struct tug_far_stream *stream, const struct tug_far_message *message) {
    return stream->direct && message->bytes > stream->ring.slot_bytes;
}

/* Where the message goes; NULL, if that is not known yet. */
static const struct tug_far_place *offered(const struct tug_far_stream *stream,
                                           const struct tug_far_message *message) {
    const struct tug_gate *gate = (const struct tug_gate *)stream->ring.here;
    const unsigned slot = message->position % TUG_FAR_SLOTS;
    return tug_signal_value(&gate->offers[slot].number) == message->position + 1
               ? &gate->offers[slot].place
               : NULL;
}

/* Hands over what there is room for. */
static bool put(struct tug_far_stream *stream, struct tug_far_message *message) {
    const uint32_t before = message->done;
    const bool direct = is_direct(stream, message);
    while (message->done < message->segments) {
        const uint64_t position = message->position + message->done;
        const size_t slot_bytes = stream->ring.slot_bytes;
        const size_t at = message->done * slot_bytes, left = message->bytes - at;
        const size_t bytes = message->segments > 1 && left > slot_bytes ? slot_bytes : left;
        const struct tug_far_place *place = direct ? offered(stream, message) : NULL;
        const bool known = direct ? place != NULL : tug_far_has_room(&stream->ring, position + 1);
        if (!known || !tug_far_fill(&stream->ring, position, 1, message->data + at, bytes,
                                    message->memory, place, &message->local))
            break;
        message->done++;
    }
    return message->done != before;
}

/* ---- its reader ---- */

/* Says where a message goes. */
static bool offer(struct tug_far_stream *stream, struct tug_far_message *message) {
    const unsigned slot = message->position % TUG_FAR_SLOTS;
    const size_t there = offsetof(struct tug_gate, offers[slot]);
    struct tug_far_offer *on_way = &stream->offers[slot];
    tug_mem_key(message->memory->registration, &on_way->place.key);
    on_way->place.at = (uint64_t)(message->data - message->memory->base);
    const uint64_t number = message->position + 1;
    message->offered =
        tug_far_tell(&stream->ring, there + sizeof(uint64_t), &on_way->place, sizeof(on_way->place),
                     there, number - on_way->number, (struct tug_callback){0});
    if (message->offered)
        on_way->number = number;
    return message->offered;
}

/* Takes what has come. */
static bool take(struct tug_far_stream *stream, struct tug_far_message *message) {
    struct tug_far_ring *ring = &stream->ring;
    const unsigned char *slots = ring->here + offsetof(struct tug_landing, slots);
    const uint32_t before = message->done;
    while (message->done < message->segments) {
        const uint64_t position = message->position + message->done;
        if (tug_far_filled(ring, position) == 0)
            break;
        const size_t at = message->done * ring->slot_bytes, left = message->bytes - at;
        if (!is_direct(stream, message) && left > 0)
            tug_copy(message->data + at, slots + position % TUG_FAR_SLOTS * ring->slot_bytes,
                     left < ring->slot_bytes ? left : ring->slot_bytes);
        message->done++;
        ring->read = position + 1;
    }
    tug_far_give_back(ring);
    return message->done != before;
}

/* ---- both ---- */

static uint32_t segments_of(const struct tug_far_stream *stream, size_t bytes) {
    const size_t slot_bytes = stream->ring.slot_bytes;
    if (bytes <= slot_bytes || stream->direct)
        return 1;
    return (uint32_t)((bytes + slot_bytes - 1) / slot_bytes);
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
