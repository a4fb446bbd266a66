#include "transport/packets.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/stats.h"
#include "transport/apply.h"
#include "transport/segment.h"

/* What a READ asks for at a time: its answer fits every wire's packets, and fragments of an
 * operation are told apart by their position alone. */
#define READ_PIECE 7168u
#define ANSWER_BYTES 16u /* that a FETCH or COMPARE is counted with */

/* A message of a transport's own, waiting for room. */
struct tug_control_message {
    struct tug_control_message *next;
    uint32_t bytes;
    uint8_t transport;
    unsigned char data[TUG_CONTROL_MAX];
};

/* ---- streams ---- */

static bool shares_node(const struct tug_fabric *fabric, uint32_t peer) {
    uint32_t low = 0, high = fabric->node_size;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (fabric->node_ranks[middle] < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return low < fabric->node_size && fabric->node_ranks[low] == peer;
}

static struct tug_wire *wire_to(const struct tug_packets *packets, uint32_t peer) {
    bool shm = (packets->fabric->ways & TUG_WAY_SHM) && shares_node(packets->fabric, peer);
    return shm ? packets->shm : packets->mpi;
}

const char *tug_packets_wire_name(const struct tug_packets *packets, uint32_t peer) {
    return wire_to(packets, peer)->type->name;
}

/* NULL: no memory. */
static struct tug_stream *stream_to(struct tug_packets *packets, uint32_t peer) {
    struct tug_stream *stream = packets->streams[peer];
    if (__builtin_expect(stream != NULL, 1))
        return stream;
    stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return NULL;
    stream->peer = peer;
    stream->wire = wire_to(packets, peer);
    stream->waiting_first = stream->waiting_last = TUG_NO_TAG;
    stream->open_first = stream->open_last = TUG_NO_TAG;
    stream->next = packets->all;
    packets->all = stream;
    packets->streams[peer] = stream;
    packets->nstreams++;
    return stream;
}

static void touch(struct tug_packets *packets, struct tug_stream *stream) {
    if (stream->touched)
        return;
    stream->touched = true;
    stream->next_touched = packets->touched;
    packets->touched = stream;
}

static bool window_open(const struct tug_stream *stream) {
    return stream->number - stream->acked < TUG_STREAM_WINDOW;
}

/* A packet's number as it travels: 1, 2, ... 2^32 - 1, 1, ...; 0 for none. */
static uint32_t wire_number(uint64_t number) {
    return number == 0 ? 0 : (uint32_t)((number - 1) % UINT32_MAX) + 1;
}

/* ---- sending ---- */

static void drain(struct tug_stream *stream) {
    while (stream->unsent_first != NULL) {
        struct tug_buffer *buffer = stream->unsent_first;
        struct tug_buffer *next = buffer->next;
        if (!stream->wire->type->send(stream->wire, stream->peer, buffer))
            return;
        stream->unsent_first = next;
    }
}

static void send(struct tug_packets *packets, struct tug_stream *stream, struct tug_buffer *buffer,
                 uint64_t number) {
    stream->told = stream->applied;
    tug_packet_end(&buffer->packet, packets->fabric->rank, wire_number(number),
                   wire_number(stream->applied), packets->fabric->session);
    tug_stat_add(TUG_STAT_PACKETS, 1);
    buffer->next = NULL;
    if (stream->unsent_first == NULL)
        stream->unsent_first = buffer;
    else
        stream->unsent_last->next = buffer;
    stream->unsent_last = buffer;
    drain(stream);
    if (stream->unsent_first != NULL)
        touch(packets, stream);
}

static void send_answers(struct tug_packets *packets, struct tug_stream *stream) {
    struct tug_buffer *buffer = stream->answers;
    stream->answers = NULL;
    send(packets, stream, buffer, 0);
}

/* The window is open. Answers go ahead: a failure must be known before its packet counts as
 * applied. */
static void send_requests(struct tug_packets *packets, struct tug_stream *stream) {
    struct tug_buffer *buffer = stream->requests;
    if (stream->answers != NULL)
        send_answers(packets, stream);
    stream->requests = NULL;
    stream->number++;
    packets->unacked++;
    stream->sent_first[stream->number % TUG_STREAM_WINDOW] = stream->open_first;
    stream->open_first = stream->open_last = TUG_NO_TAG;
    send(packets, stream, buffer, stream->number);
}

static void acknowledge(struct tug_packets *packets, struct tug_stream *stream) {
    struct tug_buffer *buffer = tug_pool_take(&stream->wire->pool);
    if (buffer == NULL)
        touch(packets, stream); /* the next packet to it says it too */
    else
        send(packets, stream, buffer, 0);
}

/* The end of a batch, for one peer. */
static void flush_stream(struct tug_packets *packets, struct tug_stream *stream, bool wanted) {
    if (stream->unsent_first != NULL)
        drain(stream);
    if (stream->unsent_first != NULL)
        touch(packets, stream);
    if (stream->answers != NULL)
        send_answers(packets, stream);
    if (stream->requests != NULL && stream->requests->packet.records > 0 && window_open(stream) &&
        (stream->number == stream->acked || wanted || !tug_settings.aggregate))
        send_requests(packets, stream);
    if (stream->told != stream->applied)
        acknowledge(packets, stream);
}

static void flush_all(struct tug_packets *packets, bool wanted) {
    struct tug_stream *stream = packets->touched;
    packets->touched = NULL;
    while (stream != NULL) {
        struct tug_stream *next = stream->next_touched;
        stream->touched = false;
        flush_stream(packets, stream, wanted);
        stream = next;
    }
}

static void packets_flush(void *state) {
    struct tug_packets *packets = state;
    if (packets->touched != NULL)
        flush_all(packets, false);
}

/* ---- writing operations into packets ---- */

enum fit {
    FITS,    /* written, all of it */
    PARTLY,  /* written in part: the packet is full */
    NO_ROOM, /* in this packet */
    LATER,   /* too much is under way */
};

static void link_open(struct tug_fabric *fabric, struct tug_stream *stream,
                      struct tug_operation *operation) {
    uint32_t tag = tug_fabric_tag(fabric, operation);
    operation->next = TUG_NO_TAG;
    operation->scratch = TUG_PACKETS_SENT;
    if (stream->open_first == TUG_NO_TAG)
        stream->open_first = tag;
    else
        fabric->operations[stream->open_last].next = tag;
    stream->open_last = tag;
}

/* operation->left: bytes that are not in packets yet. The part that completes it carries it. */
static enum fit write_write(struct tug_fabric *fabric, struct tug_stream *stream,
                            struct tug_operation *operation) {
    struct tug_packet *packet = &stream->requests->packet;
    size_t empty = packet->capacity - sizeof(struct tug_packet_header);
    size_t most = tug_record_bytes(TUG_RECORD_WRITE, 0);
    size_t room = packet->capacity - packet->used;
    size_t piece = operation->left;
    if (room < tug_record_bytes(TUG_RECORD_WRITE, piece)) {
        if (room < empty / 2)
            return NO_ROOM;
        piece = (room - most) & ~(size_t)7;
    }
    uint64_t moved = operation->bytes - operation->left;
    uint64_t *words =
        tug_packet_add(packet, TUG_RECORD_WRITE, 0, tug_fabric_tag(fabric, operation), piece);
    words[0] = operation->key;
    words[1] = operation->offset + moved;
    tug_packet_data(words + 2, tug_operation_data(operation) + moved, piece);
    operation->left -= piece;
    if (operation->left > 0)
        return PARTLY;
    link_open(fabric, stream, operation);
    tug_fabric_local(operation);
    return FITS;
}

/* operation->left: bytes that have not come; operand: those asked for. */
static enum fit write_read(struct tug_fabric *fabric, struct tug_stream *stream,
                           struct tug_operation *operation) {
    struct tug_packet *packet = &stream->requests->packet;
    uint32_t tag = tug_fabric_tag(fabric, operation);
    do {
        uint64_t piece = operation->bytes - operation->operand;
        if (piece > READ_PIECE)
            piece = READ_PIECE;
        if (stream->reading + piece > TUG_STREAM_READING)
            return LATER;
        if (!tug_packet_has_room(packet, TUG_RECORD_READ, 0))
            return NO_ROOM;
        uint64_t *words = tug_packet_add(packet, TUG_RECORD_READ, 0, tag, 0);
        words[0] = operation->key;
        words[1] = operation->offset + operation->operand;
        words[2] = operation->operand;
        words[3] = piece;
        operation->operand += piece;
        stream->reading += piece;
    } while (operation->operand < operation->bytes);
    operation->scratch = TUG_PACKETS_SENT;
    return FITS;
}

static enum fit write_atomic(struct tug_fabric *fabric, struct tug_stream *stream,
                             struct tug_operation *operation) {
    struct tug_packet *packet = &stream->requests->packet;
    bool compare = operation->kind == TUG_OPERATION_COMPARE;
    unsigned kind = compare ? TUG_RECORD_COMPARE : TUG_RECORD_FETCH;
    if (!tug_packet_has_room(packet, kind, 0))
        return NO_ROOM;
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
    if (!tug_packet_has_room(packet, TUG_RECORD_AM, operation->bytes))
        return NO_ROOM;
    uint64_t *words = tug_packet_add(packet, TUG_RECORD_AM, operation->op,
                                     tug_fabric_tag(fabric, operation), operation->bytes);
    tug_packet_data(words, tug_operation_data(operation), operation->bytes);
    link_open(fabric, stream, operation);
    tug_fabric_local(operation);
    return FITS;
}

/* Large blocks of registered memory go by themselves. */
static bool is_bulk(const struct tug_packets *packets, const struct tug_stream *stream,
                    const struct tug_operation *operation) {
    return operation->bytes >= TUG_BULK_LEAST && stream->wire == packets->mpi &&
           operation->local != NULL &&
           (operation->kind == TUG_OPERATION_WRITE || operation->kind == TUG_OPERATION_READ);
}

static enum fit write_bulk(struct tug_packets *packets, struct tug_stream *stream,
                           struct tug_operation *operation) {
    unsigned kind =
        operation->kind == TUG_OPERATION_WRITE ? TUG_RECORD_BULK_WRITE : TUG_RECORD_BULK_READ;
    if (packets->bulk_out == TUG_BULK_MOST)
        return LATER;
    if (!tug_packet_has_room(&stream->requests->packet, kind, 0))
        return NO_ROOM;
    if (!tug_bulk_announce(packets, operation))
        return LATER;
    uint64_t *words = tug_packet_add(&stream->requests->packet, kind, 0,
                                     tug_fabric_tag(packets->fabric, operation), 0);
    words[0] = operation->key;
    words[1] = operation->offset;
    words[2] = operation->bytes;
    return FITS;
}

static enum fit write_operation(struct tug_packets *packets, struct tug_stream *stream,
                                struct tug_operation *operation) {
    if (is_bulk(packets, stream, operation))
        return write_bulk(packets, stream, operation);
    switch (operation->kind) {
    case TUG_OPERATION_WRITE:
        return write_write(packets->fabric, stream, operation);
    case TUG_OPERATION_READ:
        return write_read(packets->fabric, stream, operation);
    case TUG_OPERATION_AM:
        return write_message(packets->fabric, stream, operation);
    default:
        return write_atomic(packets->fabric, stream, operation);
    }
}

/* False: no memory. */
static bool have_open(struct tug_packets *packets, struct tug_stream *stream) {
    if (stream->requests == NULL)
        stream->requests = tug_pool_take(&stream->wire->pool);
    touch(packets, stream);
    return stream->requests != NULL;
}

/* The open packet has no room for what comes next: it goes if it may. */
static bool make_room(struct tug_packets *packets, struct tug_stream *stream) {
    if (!window_open(stream))
        return false;
    send_requests(packets, stream);
    return have_open(packets, stream);
}

/* Writes what waits, as far as it goes. */
static void pump(struct tug_packets *packets, struct tug_stream *stream) {
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

static void wait_in_line(struct tug_fabric *fabric, struct tug_stream *stream,
                         struct tug_operation *operation) {
    uint32_t tag = tug_fabric_tag(fabric, operation);
    operation->next = TUG_NO_TAG;
    operation->scratch = TUG_PACKETS_WAITING;
    if (stream->waiting_first == TUG_NO_TAG)
        stream->waiting_first = tag;
    else
        fabric->operations[stream->waiting_last].next = tag;
    stream->waiting_last = tag;
}

/* A message to oneself needs no packet. */
static void deliver_here(struct tug_fabric *fabric, struct tug_operation *operation) {
    operation->status = (int8_t)fabric->deliver(fabric, fabric->rank, operation->op,
                                                tug_operation_data(operation), operation->bytes);
    tug_fabric_complete(fabric, operation);
}

static void packets_post(void *state, struct tug_operation *operation) {
    struct tug_packets *packets = state;
    struct tug_fabric *fabric = packets->fabric;
    if (operation->kind == TUG_OPERATION_AM && operation->peer == fabric->rank &&
        (fabric->ways & TUG_WAY_SELF)) {
        deliver_here(fabric, operation);
        return;
    }
    struct tug_stream *stream = stream_to(packets, operation->peer);
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
        if (stream->number == stream->acked)
            touch(packets, stream);
        if (write_operation(packets, stream, operation) == FITS)
            return;
    }
    wait_in_line(fabric, stream, operation);
    pump(packets, stream);
    if (!tug_settings.aggregate)
        flush_stream(packets, stream, true);
}

void tug_fabric_control(struct tug_fabric *fabric, uint32_t peer, unsigned transport,
                        const void *data, size_t bytes) {
    struct tug_packets *packets = fabric->states[TUG_BY_PACKETS];
    struct tug_stream *stream = stream_to(packets, peer);
    struct tug_control_message *message = malloc(sizeof(*message));
    if (stream == NULL || message == NULL || bytes > TUG_CONTROL_MAX) {
        tug_log(TUG_LOG_ERROR, "no memory for a message to process %u", peer);
        free(message);
        return;
    }
    message->next = NULL;
    message->bytes = (uint32_t)bytes;
    message->transport = (uint8_t)transport;
    memcpy(message->data, data, bytes);
    if (stream->control_first == NULL)
        stream->control_first = message;
    else
        stream->control_last->next = message;
    stream->control_last = message;
    pump(packets, stream);
}

/* ---- losing a peer ---- */

/* Everything that was to be done there fails, now and later. */
static void lose(struct tug_packets *packets, struct tug_stream *stream) {
    struct tug_fabric *fabric = packets->fabric;
    stream->lost = true;
    packets->unacked -= stream->number - stream->acked;
    stream->acked = stream->number;
    tug_bulk_drop(packets, stream->peer);
    if (stream->requests != NULL)
        tug_pool_give(&stream->wire->pool, stream->requests);
    stream->requests = NULL;
    while (stream->control_first != NULL) {
        struct tug_control_message *message = stream->control_first;
        stream->control_first = message->next;
        free(message);
    }
    stream->waiting_first = TUG_NO_TAG;
    stream->open_first = TUG_NO_TAG;
    for (uint32_t tag = 0; tag < fabric->noperations; tag++) {
        struct tug_operation *operation = &fabric->operations[tag];
        if (operation->kind == TUG_OPERATION_NONE || operation->scratch == 0 ||
            operation->scratch > TUG_PACKETS_BULK || operation->peer != stream->peer)
            continue;
        if (operation->scratch == TUG_PACKETS_BULK)
            packets->bulk_out--;
        operation->status = TUG_ERR_PEER;
        tug_fabric_complete(fabric, operation);
    }
}

/* ---- answers ---- */

uint64_t *tug_packets_answer(struct tug_packets *packets, uint32_t peer, unsigned kind, int status,
                             uint32_t tag, size_t length) {
    static uint64_t nowhere[1 + READ_PIECE / 8];
    struct tug_stream *stream = packets->streams[peer];
    if (stream->answers != NULL && !tug_packet_has_room(&stream->answers->packet, kind, length))
        send_answers(packets, stream);
    if (stream->answers == NULL)
        stream->answers = tug_pool_take(&stream->wire->pool);
    if (stream->answers == NULL) {
        tug_log(TUG_LOG_ERROR, "no memory for an answer to process %u, which will miss it", peer);
        return nowhere;
    }
    touch(packets, stream);
    return tug_packet_add(&stream->answers->packet, kind, (unsigned)-status, tag, length);
}

static void answer_read(struct tug_packets *packets, struct tug_stream *stream,
                        const struct tug_record *record, const struct tug_applied *applied) {
    int status = applied->status;
    if (status == 0 && applied->bytes > READ_PIECE)
        status = TUG_ERR_INVALID;
    size_t length = status == 0 ? applied->bytes : 0;
    uint64_t *words =
        tug_packets_answer(packets, stream->peer, TUG_RECORD_DATA, status, record->tag, length);
    words[0] = record->words[2];
    tug_packet_data(words + 1, applied->data, length);
}

static void serve_bulk(struct tug_packets *packets, struct tug_stream *stream,
                       const struct tug_record *record, struct tug_applied *applied) {
    if (applied->status == 0 && record->tag >= (uint32_t)INT32_MAX / 4)
        applied->status = TUG_ERR_INVALID;
    if (applied->status == 0 && !tug_bulk_serve(packets, stream->peer, record, applied))
        applied->status = TUG_ERR_NO_MEMORY;
    if (applied->status != 0)
        (void)tug_packets_answer(packets, stream->peer, TUG_RECORD_FAILED, applied->status,
                                 record->tag, 0);
}

static void take_control(struct tug_packets *packets, struct tug_stream *stream,
                         const struct tug_record *record) {
    struct tug_fabric *fabric = packets->fabric;
    if (record->sub < TUG_TRANSPORT_COUNT && fabric->states[record->sub] != NULL &&
        tug_transports[record->sub]->control != NULL)
        tug_transports[record->sub]->control(fabric->states[record->sub], stream->peer,
                                             record->data, record->length);
    else
        tug_warn_once("process %u sends messages for a transport that is not here", stream->peer);
}

static void serve(struct tug_packets *packets, struct tug_stream *stream,
                  const struct tug_record *record) {
    struct tug_fabric *fabric = packets->fabric;
    struct tug_applied applied = {0};
    switch (record->kind) {
    case TUG_RECORD_AM:
        applied.status =
            fabric->deliver(fabric, stream->peer, record->sub, record->data, record->length);
        break;
    case TUG_RECORD_CONTROL:
        take_control(packets, stream, record);
        return;
    default:
        applied = tug_apply(&fabric->memory, record);
    }
    switch (record->kind) {
    case TUG_RECORD_READ:
        answer_read(packets, stream, record, &applied);
        break;
    case TUG_RECORD_FETCH:
    case TUG_RECORD_COMPARE:
        *tug_packets_answer(packets, stream->peer, TUG_RECORD_VALUE, applied.status, record->tag,
                            0) = applied.value;
        break;
    case TUG_RECORD_BULK_WRITE:
    case TUG_RECORD_BULK_READ:
        serve_bulk(packets, stream, record, &applied);
        break;
    default:
        if (__builtin_expect(applied.status != 0, 0))
            (void)tug_packets_answer(packets, stream->peer, TUG_RECORD_FAILED, applied.status,
                                     record->tag, 0);
    }
}

/* ---- answers that come ---- */

/* The operation that an answer names, if it is one of ours to that peer in a state to be answered.
 */
static struct tug_operation *named(struct tug_packets *packets, const struct tug_stream *stream,
                                   const struct tug_record *record, unsigned states) {
    struct tug_fabric *fabric = packets->fabric;
    if (record->tag >= fabric->noperations)
        return NULL;
    struct tug_operation *operation = &fabric->operations[record->tag];
    if (operation->kind == TUG_OPERATION_NONE || operation->peer != stream->peer ||
        !(states >> operation->scratch & 1))
        return NULL;
    return operation;
}

#define IN(state) (1u << TUG_PACKETS_##state)

static bool take_data(struct tug_packets *packets, struct tug_stream *stream,
                      const struct tug_record *record) {
    struct tug_operation *operation = named(packets, stream, record, IN(WAITING) | IN(SENT));
    uint64_t position = record->words[0];
    if (operation == NULL || operation->kind != TUG_OPERATION_READ || position % READ_PIECE != 0 ||
        (position >= operation->bytes && position != 0))
        return false;
    uint64_t piece = operation->bytes - position;
    if (piece > READ_PIECE)
        piece = READ_PIECE;
    if (piece > operation->left || piece > stream->reading ||
        (record->sub == 0 && record->length != piece))
        return false;
    if (record->sub == 0 && piece > 0)
        memcpy(operation->local + position, record->data, piece);
    else if (record->sub != 0 && operation->status == 0)
        operation->status = (int8_t)-record->sub;
    operation->left -= piece;
    stream->reading -= piece;
    touch(packets, stream); /* who waits because too much was asked for */
    if (operation->left == 0)
        tug_fabric_complete(packets->fabric, operation);
    return true;
}

static bool take_value(struct tug_packets *packets, struct tug_stream *stream,
                       const struct tug_record *record) {
    struct tug_operation *operation = named(packets, stream, record, IN(SENT));
    if (operation == NULL ||
        (operation->kind != TUG_OPERATION_FETCH && operation->kind != TUG_OPERATION_COMPARE))
        return false;
    operation->status = (int8_t)-record->sub;
    if (record->sub == 0)
        tug_fabric_result(operation, record->words[0]);
    tug_fabric_complete(packets->fabric, operation);
    return true;
}

static bool take_failure(struct tug_packets *packets, struct tug_stream *stream,
                         const struct tug_record *record) {
    struct tug_operation *operation =
        named(packets, stream, record, IN(WAITING) | IN(SENT) | IN(BULK));
    if (operation == NULL || record->sub == 0)
        return false;
    if (operation->status == 0)
        operation->status = (int8_t)-record->sub;
    if (operation->scratch == TUG_PACKETS_BULK)
        tug_bulk_refused(packets, operation);
    return true; /* others are completed with their packet */
}

static bool take_bulk(struct tug_packets *packets, struct tug_stream *stream,
                      const struct tug_record *record) {
    struct tug_operation *operation = named(packets, stream, record, IN(BULK));
    if (operation == NULL || operation->kind != TUG_OPERATION_WRITE)
        return false;
    if (record->kind == TUG_RECORD_BULK_READY)
        tug_bulk_ready(packets, operation);
    else
        tug_bulk_done(packets, operation, -record->sub);
    return true;
}

static bool take_answer(struct tug_packets *packets, struct tug_stream *stream,
                        const struct tug_record *record) {
    switch (record->kind) {
    case TUG_RECORD_DATA:
        return take_data(packets, stream, record);
    case TUG_RECORD_VALUE:
        return take_value(packets, stream, record);
    case TUG_RECORD_FAILED:
        return take_failure(packets, stream, record);
    case TUG_RECORD_REFUSED:
        tug_log(TUG_LOG_ERROR, "process %u has refused a packet: it is given up", stream->peer);
        lose(packets, stream);
        return true;
    default:
        return take_bulk(packets, stream, record);
    }
}

/* ---- receiving ---- */

/* Completes what the packets up to that number carried. False: a number that was never sent. */
static bool take_acknowledgement(struct tug_packets *packets, struct tug_stream *stream,
                                 uint32_t applied) {
    struct tug_fabric *fabric = packets->fabric;
    uint64_t upto = stream->acked;
    while (wire_number(upto) != applied) {
        if (upto == stream->number)
            return false;
        upto++;
    }
    if (upto == stream->acked)
        return true;
    while (stream->acked < upto) {
        stream->acked++;
        packets->unacked--;
        uint32_t tag = stream->sent_first[stream->acked % TUG_STREAM_WINDOW];
        while (tag != TUG_NO_TAG) {
            struct tug_operation *operation = &fabric->operations[tag];
            tag = operation->next;
            if (tag != TUG_NO_TAG)
                __builtin_prefetch(&fabric->operations[tag]);
            tug_fabric_complete(fabric, operation);
        }
    }
    touch(packets, stream);
    return true;
}

static void refuse(struct tug_packets *packets, struct tug_stream *stream, const char *why) {
    tug_log(TUG_LOG_ERROR, "a packet from process %u is refused: %s", stream->peer, why);
    (void)tug_packets_answer(packets, stream->peer, TUG_RECORD_REFUSED, TUG_ERR_INVALID, TUG_NO_TAG,
                             0);
    flush_stream(packets, stream, false);
    lose(packets, stream);
}

void tug_packets_receive(void *receiver, struct tug_wire *wire, const void *memory, size_t bytes) {
    struct tug_packets *packets = receiver;
    struct tug_fabric *fabric = packets->fabric;
    struct tug_packet_reader reader;
    struct tug_record record;
    enum tug_packet_fault fault =
        tug_packet_open(&reader, memory, bytes, fabric->session, fabric->nranks);
    if (fault != TUG_PACKET_GOOD && (bytes < sizeof(reader.header) || fault <= TUG_PACKET_SOURCE)) {
        tug_log(TUG_LOG_ERROR, "%zu bytes came by %s that are not a packet of ours: %s", bytes,
                wire->type->name, tug_packet_fault_text(fault));
        return;
    }
    struct tug_stream *stream = stream_to(packets, reader.header.source);
    if (stream == NULL || stream->lost)
        return;
    if (fault != TUG_PACKET_GOOD) {
        refuse(packets, stream, tug_packet_fault_text(fault));
        return;
    }
    bool numbered = reader.header.number != 0;
    if (stream->wire != wire ||
        (numbered && reader.header.number != wire_number(stream->applied + 1))) {
        refuse(packets, stream, "it is not the next one");
        return;
    }
    while (tug_packet_next(&reader, &record)) {
        if (record.kind < TUG_RECORD_DATA) {
            serve(packets, stream, &record);
        } else if (!take_answer(packets, stream, &record)) {
            refuse(packets, stream, "an answer to nothing that was asked");
            return;
        }
        if (stream->lost)
            return;
    }
    if (numbered) {
        stream->applied++;
        touch(packets, stream);
    }
    if (!take_acknowledgement(packets, stream, reader.header.applied))
        refuse(packets, stream, "it acknowledges what was not sent");
}

static bool packets_poll(void *state) {
    struct tug_packets *packets = state;
    bool wanted = atomic_load_explicit(&packets->fabric->flush_wanted, memory_order_relaxed);
    bool moved = false;
    if (packets->shm != NULL)
        moved |= packets->shm->type->poll(packets->shm);
    if (packets->mpi != NULL)
        moved |= packets->mpi->type->poll(packets->mpi);
    if (packets->bulk != NULL)
        moved |= tug_bulk_poll(packets);
    if (wanted || packets->bulk_ended) {
        atomic_store_explicit(&packets->fabric->flush_wanted, false, memory_order_relaxed);
        packets->bulk_ended = false;
        for (struct tug_stream *stream = packets->all; stream != NULL; stream = stream->next)
            if (stream->requests != NULL || stream->waiting_first != TUG_NO_TAG)
                touch(packets, stream);
    }
    /* answers have made room */
    for (struct tug_stream *stream = packets->touched; moved && stream != NULL;
         stream = stream->next_touched)
        pump(packets, stream);
    if (packets->touched != NULL)
        flush_all(packets, wanted);
    return moved;
}

/* ---- the transport ---- */

static bool never_missing(char *reason) {
    (void)reason;
    return false;
}

/* Packets through shared memory where they are allowed, or where cross-memory attach needs the list
 * of live registrations; by MPI where somebody cannot be reached so. */
static int open_wires(struct tug_packets *packets) {
    struct tug_fabric *fabric = packets->fabric;
    int status = 0;
    if (fabric->ways & (TUG_WAY_SHM | TUG_WAY_CMA)) {
        packets->shm = tug_wire_shm_open(fabric, &status);
        if (packets->shm == NULL)
            fabric->ways &= ~(unsigned)(TUG_WAY_SHM | TUG_WAY_CMA);
    }
    bool node_is_all = fabric->node_size == fabric->nranks && (fabric->ways & TUG_WAY_SHM);
    if (!tug_all_agree(fabric->comm, node_is_all)) {
        packets->mpi = tug_wire_mpi_open(fabric, &status);
        if (packets->mpi == NULL)
            return status;
        packets->mpi->receiver = packets;
        packets->mpi->receive = tug_packets_receive;
    }
    if (packets->shm != NULL) {
        packets->shm->receiver = packets;
        packets->shm->receive = tug_packets_receive;
    }
    return 0;
}

static void packets_close(void *state) {
    struct tug_packets *packets = state;
    while (packets->all != NULL) {
        struct tug_stream *stream = packets->all;
        packets->all = stream->next;
        if (stream->requests != NULL)
            tug_pool_give(&stream->wire->pool, stream->requests);
        free(stream);
    }
    if (packets->mpi != NULL)
        packets->mpi->type->close(packets->mpi);
    if (packets->shm != NULL)
        packets->shm->type->close(packets->shm);
    free((void *)packets->streams);
    free(packets);
}

static int packets_open(struct tug_fabric *fabric, void **state) {
    struct tug_packets *packets = calloc(1, sizeof(*packets));
    if (packets != NULL) {
        packets->fabric = fabric;
        packets->streams = calloc(fabric->nranks, sizeof(struct tug_stream *));
    }
    if (!tug_all_agree(fabric->comm, packets != NULL && packets->streams != NULL)) {
        if (packets != NULL)
            free((void *)packets->streams);
        free(packets);
        return TUG_ERR_NO_MEMORY;
    }
    int status = open_wires(packets);
    if (status != 0) {
        packets_close(packets);
        return status;
    }
    *state = packets;
    return 0;
}

static bool packets_reaches(void *state, uint32_t peer) {
    (void)state;
    (void)peer;
    return true;
}

static bool packets_takes(void *state, const struct tug_operation *operation) {
    (void)state;
    (void)operation;
    return true;
}

static bool packets_busy(void *state) {
    const struct tug_packets *packets = state;
    return packets->unacked > 0 || (packets->shm != NULL && packets->shm->pool.nout > 0) ||
           (packets->mpi != NULL && packets->mpi->pool.nout > 0) || packets->bulk != NULL;
}

/* Inboxes ring; the host MPI does not. */
static bool packets_arm(void *state) {
    return ((struct tug_packets *)state)->mpi == NULL;
}

const struct tug_transport tug_transport_packets = {
    .name = "packets",
    .help = "requests in packets, through shared memory inside a node and by MPI",
    .missing = never_missing,
    .open = packets_open,
    .close = packets_close,
    .reaches = packets_reaches,
    .takes = packets_takes,
    .post = packets_post,
    .flush = packets_flush,
    .poll = packets_poll,
    .busy = packets_busy,
    .arm = packets_arm,
};

size_t tug_packets_footprint(uint64_t nranks, uint64_t active) {
    return sizeof(struct tug_packets) + nranks * sizeof(struct tug_stream *) +
           active * sizeof(struct tug_stream);
}
