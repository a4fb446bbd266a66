/* Operations become records: written into the open packet of their stream, or, where there is no
 * room, lined up in the table of operations. */
#include <stdlib.h>
#include <string.h>

#include "transport/packets/apply.h"
#include "transport/packets/packets.h"

/* ---- writing operations into packets ---- */

enum fit {
    FITS,    /* written, all of it */
    PARTLY,  /* written in part: the packet is full */
    NO_ROOM, /* in this packet */
    LATER,   /* too much is under way */
};

/* The operation under whose tag a write or message goes whose data are all in its record: the last
 * one of the open packet if it can end with that, or itself. */
static inline struct tug_operation *bearer(struct tug_fabric *fabric,
                                           const struct tug_stream *stream,
                                           struct tug_operation *operation) {
    struct tug_operation *last = &fabric->operations[stream->open_last];
    return stream->open_last != TUG_NO_TAG && tug_fabric_joins(fabric, operation, last) ? last
                                                                                        : operation;
}

/* All of it is in packets; the acknowledgement of the open one completes the bearer. */
static enum fit written(struct tug_fabric *fabric, struct tug_stream *stream,
                        struct tug_operation *operation, struct tug_operation *bearer) {
    if (bearer != operation) {
        tug_fabric_join(fabric, operation, bearer);
        return FITS;
    }
    operation->scratch = TUG_PACKETS_SENT;
    operation->left = 0;
    tug_fabric_line_up(fabric, &stream->open_first, &stream->open_last, operation);
    tug_fabric_local(operation);
    return FITS;
}

/* The next bytes of a write, in the open packet, which has room for them. */
static void add_write(struct tug_packet *packet, struct tug_operation *operation, uint32_t tag,
                      size_t bytes) {
    const uint64_t moved = operation->bytes - operation->left;
    uint64_t *words =
        tug_packet_add(packet, TUG_RECORD_WRITE, operation->op & TUG_WRITE_SIGNALLED, tag, bytes);
    words[0] = operation->key;
    words[1] = operation->offset + moved;
    tug_packet_data(words + 2, tug_operation_data(operation) + moved, bytes);
    operation->left -= bytes;
}

/* The short write, whose data are in the operation, continues the RUN that is open, or begins one.
 * False: there is no room for that. */
static bool run_on(struct tug_packet *packet, const struct tug_operation *operation, uint32_t tag) {
    unsigned char one[sizeof(int32_t) + TUG_OPERATION_INLINE];
    const uint64_t offset = operation->offset, base = tug_packet_run_base(packet, offset);
    const uint32_t distance = (uint32_t)(offset - base);
    if (!tug_packet_runs(packet, operation->key, base, operation->bytes) &&
        !tug_packet_begin_run(packet, tag, operation->key, base, operation->bytes))
        return false;
    memcpy(one, &distance, sizeof(distance));
    memcpy(one + sizeof(distance), operation->data, operation->bytes);
    return tug_packet_run_on(packet, one, 1, operation->bytes) == 1;
}

/* operation->left: bytes that are not in packets yet. The part that completes it carries it. */
static enum fit write_write(struct tug_fabric *fabric, struct tug_stream *stream,
                            struct tug_operation *operation) {
    struct tug_packet *packet = &stream->requests->packet;
    struct tug_operation *under = /* what is short is copied when it is started */
        operation->local == NULL ? bearer(fabric, stream, operation) : operation;
    uint32_t tag = tug_fabric_tag(fabric, under);
    if (under != operation && (operation->op & TUG_WRITE_FLAGS) == 0 &&
        run_on(packet, operation, tag))
        return written(fabric, stream, operation, under);
    size_t empty = packet->capacity - sizeof(struct tug_packet_header);
    size_t most = tug_record_bytes(TUG_RECORD_WRITE, 0);
    size_t room = tug_packet_room(packet);
    size_t piece = operation->left;
    if (room < tug_record_bytes(TUG_RECORD_WRITE, piece)) {
        if (room < empty / 2)
            return NO_ROOM;
        piece = (room - most) & ~(size_t)7;
    }
    add_write(packet, operation, tag, piece);
    return operation->left > 0 ? PARTLY : written(fabric, stream, operation, under);
}

/* May so many bytes of answers be asked for? */
static inline bool may_ask(const struct tug_stream *stream, size_t bytes) {
    return stream->asked + bytes <= stream->credit;
}

/* The packet goes at the end of the batch: what joins it later would save less time than the long
 * data take, or the job, that wait for it. */
static void hurry(struct tug_packets *packets, struct tug_stream *stream) {
    stream->hurries = true;
    tug_stream_touch(packets, stream);
}

/* operation->left: bytes that have not come; operand: those asked for. */
static enum fit write_read(struct tug_packets *packets, struct tug_stream *stream,
                           struct tug_operation *operation) {
    struct tug_packet *packet = &stream->requests->packet;
    uint32_t tag = tug_fabric_tag(packets->fabric, operation);
    do {
        const uint64_t piece =
            tug_read_piece(stream, operation, operation->bytes - operation->operand);
        const bool is_long = tug_read_is_long(stream, piece);
        if (!may_ask(stream, tug_read_cost(stream, piece)) ||
            (is_long && stream->long_reads >= stream->wire->row->longs.at_once))
            return LATER;
        if (!tug_packet_has_room(packet, TUG_RECORD_READ, 0))
            return NO_ROOM;
        uint64_t *words = tug_packet_add(packet, TUG_RECORD_READ, 0, tag, 0);
        words[0] = operation->key;
        words[1] = operation->offset + operation->operand;
        words[2] = operation->operand;
        words[3] = piece;
        operation->operand += piece;
        stream->asked += tug_read_cost(stream, piece);
        stream->long_reads += is_long;
        if (is_long)
            hurry(packets, stream);
    } while (operation->operand < operation->bytes);
    operation->scratch = TUG_PACKETS_SENT;
    return FITS;
}

static enum fit write_atomic(struct tug_fabric *fabric, struct tug_stream *stream,
                             struct tug_operation *operation) {
    struct tug_packet *packet = &stream->requests->packet;
    bool compare = operation->kind == TUG_OPERATION_COMPARE;
    unsigned kind = compare ? TUG_RECORD_COMPARE : TUG_RECORD_FETCH;
    if (!may_ask(stream, tug_record_bytes(TUG_RECORD_VALUE, 0)))
        return LATER;
    if (!tug_packet_has_room(packet, kind, 0))
        return NO_ROOM;
    stream->asked += tug_record_bytes(TUG_RECORD_VALUE, 0);
    unsigned sub = (compare ? 0 : (unsigned)operation->op << 4) | (unsigned)operation->bytes;
    uint64_t *words = tug_packet_add(packet, kind, sub, tug_fabric_tag(fabric, operation), 0);
    words[0] = operation->key;
    words[1] = operation->offset;
    words[2] = operation->operand;
    if (compare)
        words[3] = operation->compare;
    operation->scratch = TUG_PACKETS_SENT;
    return FITS;
}

static enum fit write_message(struct tug_fabric *fabric, struct tug_stream *stream,
                              struct tug_operation *operation) {
    struct tug_packet *packet = &stream->requests->packet;
    bool call = operation->kind == TUG_OPERATION_CALL;
    unsigned kind = call ? TUG_RECORD_CALL : TUG_RECORD_AM;
    struct tug_operation *under = call ? operation : bearer(fabric, stream, operation);
    if (under != operation && (tug_packet_am_runs(packet, operation->op, operation->bytes) ||
                               tug_packet_begin_am_run(packet, tug_fabric_tag(fabric, under),
                                                       operation->op, operation->bytes))) {
        tug_packet_am_run_on(packet, tug_operation_data(operation), operation->bytes);
        return written(fabric, stream, operation, under);
    }
    if (!tug_packet_has_room(packet, kind, operation->bytes))
        return NO_ROOM;
    uint64_t *words = tug_packet_add(packet, kind, operation->op, tug_fabric_tag(fabric, under),
                                     operation->bytes);
    tug_packet_data(words, tug_operation_data(operation), operation->bytes);
    if (!call)
        return written(fabric, stream, operation, under);
    operation->scratch = TUG_PACKETS_SENT; /* its answer completes it */
    tug_fabric_local(operation);
    return FITS;
}

static void say_signal(uint64_t *words, const struct tug_operation *signal) {
    words[0] = signal->key;
    words[1] = signal->offset;
    words[2] = signal->operand;
}

/* The write of the signal is the last in the open packet, and its data follow that: the signal goes
 * in the same one, ahead of it. */
static bool joins_trailer(struct tug_stream *stream, const struct tug_operation *signal,
                          uint32_t tag) {
    struct tug_packet *packet = &stream->requests->packet;
    if (packet->trailer == 0 || signal->kind != TUG_OPERATION_SIGNAL ||
        !tug_packet_can_sign(packet, stream->wire->pool.bytes))
        return false;
    say_signal(tug_packet_sign(packet, tag), signal);
    return true;
}

static enum fit write_signal(struct tug_fabric *fabric, struct tug_stream *stream,
                             struct tug_operation *operation) {
    struct tug_packet *packet = &stream->requests->packet;
    const uint32_t tag = tug_fabric_tag(fabric, operation);
    const bool message = operation->kind == TUG_OPERATION_SIGNAL_AM;
    if (joins_trailer(stream, operation, tag))
        return written(fabric, stream, operation, operation);
    const unsigned kind = message ? TUG_RECORD_SIGNAL_AM : TUG_RECORD_SIGNAL;
    const size_t length = message ? operation->bytes : 0;
    if (!tug_packet_has_room(packet, kind, length))
        return NO_ROOM;
    uint64_t *words = tug_packet_add(packet, kind, message ? operation->op : 0, tag, length);
    if (message)
        tug_packet_data(words, tug_operation_data(operation), length);
    else
        say_signal(words, operation);
    return written(fabric, stream, operation, operation);
}

/* The next bytes of a long message, in the open packet, which has room for them. */
static void add_part(struct tug_packet *packet, struct tug_operation *operation, uint32_t tag,
                     size_t bytes) {
    const uint64_t moved = operation->bytes - operation->left;
    uint64_t *words = tug_packet_add(packet, TUG_RECORD_PART, operation->op, tag, bytes);
    words[0] = operation->operand;
    words[1] = operation->compare;
    words[2] = moved;
    tug_packet_data(words + 3, operation->local + moved, bytes);
    operation->left -= bytes;
}

/* A long message where nothing follows packets; operation->left: as for writes. */
static enum fit write_parts(struct tug_fabric *fabric, struct tug_stream *stream,
                            struct tug_operation *operation) {
    struct tug_packet *packet = &stream->requests->packet;
    const size_t room = tug_packet_room(packet);
    size_t piece = operation->left;
    if (room < tug_record_bytes(TUG_RECORD_PART, piece)) {
        if (room < (packet->capacity - sizeof(struct tug_packet_header)) / 2)
            return NO_ROOM;
        piece =
            (room - tug_record_bytes(TUG_RECORD_PART, 0)) / operation->offset * operation->offset;
    }
    add_part(packet, operation, tug_fabric_tag(fabric, operation), piece);
    return operation->left > 0 ? PARTLY : written(fabric, stream, operation, operation);
}

/* Long writes and messages are sent as they stand, behind a packet. */
static bool is_long(const struct tug_stream *stream, const struct tug_operation *operation) {
    const struct tug_longs *longs = &stream->wire->row->longs;
    const bool signalled =
        operation->kind == TUG_OPERATION_WRITE && operation->op & TUG_WRITE_SIGNALLED;
    return longs->least > 0 && operation->local != NULL &&
           operation->bytes >= (signalled ? longs->least_signalled : longs->least) &&
           (operation->kind == TUG_OPERATION_WRITE || operation->kind == TUG_OPERATION_LONG_AM);
}

/* operation->left: as for other writes. A trailer has whole words, and elements: odd bytes go ahead
 * of it. */
static enum fit write_long(struct tug_packets *packets, struct tug_stream *stream,
                           struct tug_operation *operation) {
    const struct tug_longs *longs = &stream->wire->row->longs;
    struct tug_buffer *buffer = stream->requests;
    struct tug_packet *packet = &buffer->packet;
    const uint32_t tag = tug_fabric_tag(packets->fabric, operation);
    const bool message = operation->kind == TUG_OPERATION_LONG_AM;
    const uint32_t grain = message ? 8 * (uint32_t)operation->offset : 8;
    const size_t odd = operation->left % grain;
    if (stream->longs >= longs->at_once &&
        (stream->long_bytes >= TUG_LONGS_BYTES || stream->wire->row->piles_up))
        return LATER;
    if (tug_packet_room(packet) <
        tug_record_bytes(TUG_RECORD_PART, odd) + tug_record_bytes(TUG_RECORD_LONG_PART, 0))
        return NO_ROOM;
    if (odd > 0)
        (message ? add_part : add_write)(packet, operation, tag, odd);
    const uint64_t moved = operation->bytes - operation->left;
    const uint32_t most = (message ? longs->most_of_message : longs->most) / grain * grain;
    const uint32_t piece = operation->left < most ? (uint32_t)operation->left : most;
    uint64_t *words = message ? tug_packet_add(packet, TUG_RECORD_LONG_PART, operation->op, tag, 0)
                              : tug_packet_add(packet, TUG_RECORD_LONG_WRITE,
                                               operation->op & TUG_WRITE_SIGNALLED, tag, 0);
    words[0] = message ? operation->operand : operation->key;
    words[1] = message ? operation->compare : operation->offset + moved;
    if (message)
        words[2] = moved;
    tug_buffer_trail(buffer, operation->local + moved, piece);
    operation->left -= piece;
    hurry(packets, stream);
    buffer->of = tag;
    if (operation->left > 0)
        return PARTLY;
    buffer->ends = true;
    operation->scratch = TUG_PACKETS_SENT;
    tug_fabric_line_up(packets->fabric, &stream->open_first, &stream->open_last, operation);
    return FITS;
}

static enum fit write_operation(struct tug_packets *packets, struct tug_stream *stream,
                                struct tug_operation *operation) {
    stream->presses |= !tug_operation_is_late(operation);
    const bool goes_behind = is_long(stream, operation);
    if (!stream->settled && (goes_behind || operation->bytes >= TUG_LONG_LEAST))
        return LATER; /* how it goes depends on the wire */
    if (goes_behind)
        return write_long(packets, stream, operation);
    switch (operation->kind) {
    case TUG_OPERATION_WRITE:
        return write_write(packets->fabric, stream, operation);
    case TUG_OPERATION_READ:
        return write_read(packets, stream, operation);
    case TUG_OPERATION_AM:
    case TUG_OPERATION_CALL:
        return write_message(packets->fabric, stream, operation);
    case TUG_OPERATION_LONG_AM:
        return write_parts(packets->fabric, stream, operation);
    case TUG_OPERATION_SIGNAL:
    case TUG_OPERATION_SIGNAL_AM:
        if (operation->rkey & TUG_SIGNAL_AT_ONCE)
            hurry(packets, stream);
        return write_signal(packets->fabric, stream, operation);
    default:
        return write_atomic(packets->fabric, stream, operation);
    }
}

/* False: no memory. */
static bool have_open(struct tug_packets *packets, struct tug_stream *stream) {
    if (stream->requests == NULL)
        stream->requests = tug_pool_take(&stream->wire->pool);
    tug_stream_touch(packets, stream);
    if (stream->requests == NULL)
        return false;
    struct tug_packet *packet = &stream->requests->packet;
    if (!stream->settled && packet->capacity > TUG_MPI_PACKET_BYTES)
        packet->capacity = TUG_MPI_PACKET_BYTES; /* any wire carries it */
    return true;
}

/* The open packet has no room for what comes next: it goes if it may. */
static bool make_room(struct tug_packets *packets, struct tug_stream *stream) {
    if (!tug_stream_window_open(packets, stream))
        return false;
    tug_stream_send_requests(packets, stream);
    return have_open(packets, stream);
}

/* Writes what waits, as far as it goes. */
void tug_stream_pump(struct tug_packets *packets, struct tug_stream *stream) {
    struct tug_fabric *fabric = packets->fabric;
    if (stream->control_first == NULL && stream->waiting_first == TUG_NO_TAG)
        return;
    if (stream->lost || !have_open(packets, stream))
        return;
    while (stream->control_first != NULL) {
        struct tug_control_message *message = stream->control_first;
        if (!tug_packet_has_room(&stream->requests->packet, TUG_RECORD_CONTROL, message->bytes)) {
            if (!make_room(packets, stream))
                return;
            continue;
        }
        uint64_t *words = tug_packet_add(&stream->requests->packet, TUG_RECORD_CONTROL,
                                         message->transport, TUG_NO_TAG, message->bytes);
        tug_packet_data(words, message->data, message->bytes);
        stream->presses = true;
        stream->control_first = message->next;
        free(message);
    }
    while (stream->waiting_first != TUG_NO_TAG) {
        struct tug_operation *operation = &fabric->operations[stream->waiting_first];
        uint32_t next = operation->next;
        enum fit fit = write_operation(packets, stream, operation);
        if (fit == FITS)
            stream->waiting_first = next;
        else if (fit == LATER || !make_room(packets, stream))
            return;
    }
}

/* Does what is for this process itself reach it without a packet? */
static inline bool is_here(const struct tug_fabric *fabric, uint32_t peer) {
    return peer == fabric->rank && (fabric->ways & TUG_WAY_SELF);
}

bool tug_packets_keep_order(struct tug_packets *packets, const struct tug_operation *write) {
    if (is_here(packets->fabric, write->peer))
        return false;
    return tug_stream_to(packets, write->peer) != NULL;
}

bool tug_packets_go_by(struct tug_packets *packets, uint32_t peer, const void *wire) {
    if (is_here(packets->fabric, peer))
        return false;
    const struct tug_stream *stream = tug_stream_to(packets, peer);
    return stream != NULL && stream->settled && !stream->lost && stream->wire == wire;
}

/* A message or signal to oneself needs no packet. */
static void deliver_here(struct tug_packets *packets, struct tug_operation *operation) {
    struct tug_fabric *fabric = packets->fabric;
    if (operation->kind == TUG_OPERATION_SIGNAL) {
        const uint64_t words[] = {operation->key, operation->offset, operation->operand};
        const struct tug_record record = {.kind = TUG_RECORD_SIGNAL, .words = words};
        operation->status = (int8_t)tug_apply(&fabric->memory, &record).status;
        tug_fabric_complete(fabric, operation);
        return;
    }
    if (operation->kind == TUG_OPERATION_CALL) {
        const struct tug_caller caller = {(int)fabric->rank, tug_fabric_tag(fabric, operation)};
        operation->scratch = TUG_PACKETS_SENT; /* its memory is used until it has been handled */
        tug_packets_called(packets, caller, operation->op, tug_operation_data(operation),
                           operation->bytes);
        return;
    }
    if (operation->kind == TUG_OPERATION_LONG_AM) {
        const int64_t taken =
            fabric->deliver_part(fabric, fabric->rank, operation->op,
                                 (const uint64_t[]){operation->operand, operation->compare}, 0,
                                 operation->local, operation->bytes);
        operation->status = taken < 0 ? (int8_t)taken : 0;
        tug_fabric_complete(fabric, operation);
        return;
    }
    operation->status = (int8_t)fabric->deliver(fabric, fabric->rank, operation->op,
                                                tug_operation_data(operation), operation->bytes, 1);
    tug_fabric_complete(fabric, operation);
}

void tug_packets_post(struct tug_packets *packets, struct tug_operation *operation) {
    struct tug_fabric *fabric = packets->fabric;
    if (operation->kind >= TUG_OPERATION_AM && is_here(fabric, operation->peer)) {
        deliver_here(packets, operation);
        return;
    }
    struct tug_stream *stream = tug_stream_to(packets, operation->peer);
    if (stream == NULL || stream->lost) {
        operation->status = stream == NULL ? TUG_ERR_NO_MEMORY : TUG_ERR_PEER;
        tug_fabric_complete(fabric, operation);
        return;
    }
    operation->left = operation->bytes;
    if (operation->kind == TUG_OPERATION_READ)
        operation->operand = 0;
    if (__builtin_expect(stream->waiting_first == TUG_NO_TAG && stream->requests != NULL &&
                             stream->control_first == NULL && tug_settings.aggregate,
                         1)) {
        /* while a packet is under way its acknowledgement flushes */
        if (tug_stream_idle(stream))
            tug_stream_touch(packets, stream);
        if (write_operation(packets, stream, operation) == FITS)
            return;
    }
    operation->scratch = TUG_PACKETS_WAITING;
    tug_fabric_line_up(fabric, &stream->waiting_first, &stream->waiting_last, operation);
    tug_stream_pump(packets, stream);
    if (!tug_settings.aggregate)
        tug_stream_flush(packets, stream, true);
}
