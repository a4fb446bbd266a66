/* Packets that come: requests are applied and answered, answers end operations of ours. */
#include <string.h>

#include "base/copy.h"
#include "base/log.h"
#include "base/trace.h"
#include "node/words.h"
#include "transport/packets/apply.h"
#include "transport/packets/packets.h"

/* ---- requests ---- */

static void answer_read(struct tug_packets *packets, struct tug_stream *stream,
                        const struct tug_record *record, const struct tug_applied *applied) {
    int status = applied->status;
    const bool is_long = tug_read_is_long(stream, applied->bytes);
    if (status == 0 && (is_long || applied->bytes > TUG_READ_PIECE)) {
        if (is_long && applied->bytes <= TUG_TRAILER_MOST && applied->bytes % 8 == 0) {
            tug_trailer_answer(packets, stream, record, applied);
            return;
        }
        status = TUG_ERR_INVALID;
    }
    size_t length = status == 0 ? applied->bytes : 0;
    uint64_t *words =
        tug_packets_answer(packets, stream->peer, TUG_RECORD_DATA, status, record->tag, length);
    words[0] = record->words[2];
    tug_packet_data(words + 1, applied->data, length);
}

static void take_control(struct tug_packets *packets, uint32_t source,
                         const struct tug_record *record) {
    struct tug_fabric *fabric = packets->fabric;
    if (record->sub < TUG_TRANSPORT_COUNT && fabric->states[record->sub] != NULL &&
        tug_transports[record->sub]->control != NULL)
        tug_transports[record->sub]->control(fabric->states[record->sub], source, record->data,
                                             record->length);
    else
        tug_warn_once("process %u sends messages for a transport that is not here, and they are "
                      "dropped: give all ranks the same TUGBOAT_TRANSPORTS",
                      source);
}

void tug_packets_called(struct tug_packets *packets, struct tug_caller caller, unsigned handler,
                        const void *payload, size_t bytes) {
    int status = packets->fabric->called(packets->fabric, caller, handler, payload, bytes);
    if (status != 0)
        tug_packets_reply(packets, caller, status, NULL, 0);
}

static void refuse(struct tug_packets *packets, struct tug_stream *stream, const char *why) {
    tug_log(TUG_LOG_ERROR,
            "a packet from process %u is refused, so that peer is lost and operations on it fail: "
            "%s; run the same version of the library on all ranks",
            stream->peer, why);
    (void)tug_packets_answer(packets, stream->peer, TUG_RECORD_REFUSED, TUG_ERR_INVALID, TUG_NO_TAG,
                             0);
    tug_stream_flush(packets, stream, false);
    tug_stream_lose(packets, stream);
}

/* A part of a long message has come, of whole elements. */
static int apply_part(struct tug_packets *packets, struct tug_stream *stream,
                      const struct tug_record *record) {
    struct tug_fabric *fabric = packets->fabric;
    const int64_t taken = fabric->deliver_part(fabric, stream->peer, record->sub, record->words,
                                               record->words[2], record->data, record->length);
    return taken < 0 ? (int)taken : taken < record->length ? TUG_ERR_INVALID : 0;
}

static int signal_status(struct tug_packets *packets, struct tug_stream *stream,
                         const struct tug_record *record) {
    struct tug_fabric *fabric = packets->fabric;
    const int status = stream->unsignalled;
    stream->unsignalled = 0;
    if (status != 0)
        return status;
    return record->kind == TUG_RECORD_SIGNAL ? tug_apply(&fabric->memory, record).status
                                             : fabric->deliver(fabric, stream->peer, record->sub,
                                                               record->data, record->length, 1);
}

void tug_packets_signalled(struct tug_packets *packets, struct tug_stream *stream,
                           const struct tug_record *record) {
    const int status = signal_status(packets, stream, record);
    if (status != 0)
        (void)tug_packets_answer(packets, stream->peer, TUG_RECORD_FAILED, status, record->tag, 0);
}

static void serve(struct tug_packets *packets, struct tug_stream *stream,
                  const struct tug_record *record) {
    struct tug_fabric *fabric = packets->fabric;
    struct tug_applied applied = {0};
    switch (record->kind) {
    case TUG_RECORD_CALL:
        tug_packets_called(packets, (struct tug_caller){(int)stream->peer, record->tag},
                           record->sub, record->data, record->length);
        return;
    case TUG_RECORD_AM:
        applied.status =
            fabric->deliver(fabric, stream->peer, record->sub, record->data, record->length, 1);
        break;
    case TUG_RECORD_AM_RUN:
        applied.status = record->words[0] < TUG_AM_HANDLERS
                             ? fabric->deliver(fabric, stream->peer, (unsigned)record->words[0],
                                               record->data, record->sub, record->length)
                             : TUG_ERR_INVALID;
        break;
    case TUG_RECORD_SIGNAL:
        if (record->sub == TUG_SIGNAL_VOID)
            return;
        if (record->sub == TUG_SIGNAL_TRAILS) {
            if (!tug_trailer_sign(stream, record))
                refuse(packets, stream, "two signals for the data that follow");
            return;
        } /* fall through */
    case TUG_RECORD_SIGNAL_AM:
        tug_packets_signalled(packets, stream, record);
        return;
    case TUG_RECORD_CONTROL:
        take_control(packets, stream->peer, record);
        return;
    case TUG_RECORD_PART:
        applied.status = apply_part(packets, stream, record);
        break;
    case TUG_RECORD_LONG_WRITE:
    case TUG_RECORD_LONG_PART:
        tug_trailer_serve(packets, stream, record);
        return;
    case TUG_RECORD_RUN:
        applied.status = tug_apply_run(&fabric->memory, record);
        break;
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
    default:
        if (__builtin_expect(applied.status == 0, 1))
            return;
        if (record->kind == TUG_RECORD_WRITE && record->sub != 0)
            stream->unsignalled = (int8_t)applied.status;
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

/* So much of what was asked for has come: others may be asked for now. */
static inline void answered(struct tug_packets *packets, struct tug_stream *stream,
                            uint64_t bytes) {
    stream->asked -= bytes;
    tug_stream_touch(packets, stream);
}

#define IN(state) (1u << TUG_PACKETS_##state)

/* The answer of a call, whose size is the callee's word: another than was asked for is an error. */
static void take_reply(struct tug_packets *packets, struct tug_operation *operation, int status,
                       const void *answer, size_t bytes) {
    if (status == 0 && bytes != operation->offset)
        status = TUG_ERR_RANGE;
    operation->status = (int8_t)status;
    if (status == 0 && bytes > 0)
        tug_copy((void *)(uintptr_t)operation->address, answer, bytes);
    tug_fabric_complete(packets->fabric, operation);
}

/* Is the part at that position the one that comes next, and was it asked for? Wires keep order. */
static bool is_due(const struct tug_stream *stream, const struct tug_operation *operation,
                   uint64_t position) {
    return position == operation->bytes - operation->left &&
           (operation->scratch == TUG_PACKETS_SENT || position < operation->operand) &&
           tug_read_cost(stream, tug_read_piece(stream, operation, operation->left)) <=
               stream->asked;
}

void tug_packets_have_read(struct tug_packets *packets, struct tug_stream *stream,
                           struct tug_operation *operation) {
    const uint64_t piece = tug_read_piece(stream, operation, operation->left);
    operation->left -= piece;
    stream->long_reads -= tug_read_is_long(stream, piece);
    answered(packets, stream, tug_read_cost(stream, piece));
    if (operation->left == 0)
        tug_fabric_complete(packets->fabric, operation);
}

static bool take_data(struct tug_packets *packets, struct tug_stream *stream,
                      const struct tug_record *record) {
    struct tug_operation *operation = named(packets, stream, record, IN(WAITING) | IN(SENT));
    if (operation != NULL && operation->kind == TUG_OPERATION_CALL &&
        operation->scratch == TUG_PACKETS_SENT && record->words[0] == 0) {
        take_reply(packets, operation, -record->sub, record->data, record->length);
        return true;
    }
    if (operation == NULL || operation->kind != TUG_OPERATION_READ ||
        !is_due(stream, operation, record->words[0]))
        return false;
    const uint64_t piece = tug_read_piece(stream, operation, operation->left);
    if (record->sub == 0 && (record->length != piece || tug_read_is_long(stream, piece)))
        return false;
    if (record->sub == 0 && piece > 0)
        tug_copy(operation->local + record->words[0], record->data, piece);
    else if (record->sub != 0 && operation->status == 0)
        operation->status = (int8_t)-record->sub;
    tug_packets_have_read(packets, stream, operation);
    return true;
}

static bool take_long_data(struct tug_packets *packets, struct tug_stream *stream,
                           const struct tug_record *record) {
    struct tug_operation *operation = named(packets, stream, record, IN(WAITING) | IN(SENT));
    if (operation == NULL || operation->kind != TUG_OPERATION_READ ||
        !is_due(stream, operation, record->words[0]))
        return false;
    const uint64_t piece = tug_read_piece(stream, operation, operation->left);
    if (record->words[1] != piece || !tug_read_is_long(stream, piece))
        return false;
    tug_trailer_expect(stream, operation, record->tag);
    return true;
}

static bool take_value(struct tug_packets *packets, struct tug_stream *stream,
                       const struct tug_record *record) {
    struct tug_operation *operation = named(packets, stream, record, IN(SENT));
    if (operation == NULL ||
        (operation->kind != TUG_OPERATION_FETCH && operation->kind != TUG_OPERATION_COMPARE))
        return false;
    answered(packets, stream, tug_record_bytes(TUG_RECORD_VALUE, 0));
    operation->status = (int8_t)-record->sub;
    if (record->sub == 0)
        tug_fabric_result(operation, record->words[0]);
    tug_fabric_complete(packets->fabric, operation);
    return true;
}

static bool take_failure(struct tug_packets *packets, struct tug_stream *stream,
                         const struct tug_record *record) {
    struct tug_operation *operation = named(packets, stream, record, IN(WAITING) | IN(SENT));
    if (operation == NULL || record->sub == 0)
        return false;
    if (operation->status == 0)
        operation->status = (int8_t)-record->sub;
    return true; /* it is completed with its packet */
}

static bool take_answer(struct tug_packets *packets, struct tug_stream *stream,
                        const struct tug_record *record) {
    switch (record->kind) {
    case TUG_RECORD_DATA:
        return take_data(packets, stream, record);
    case TUG_RECORD_LONG_DATA:
        return take_long_data(packets, stream, record);
    case TUG_RECORD_VALUE:
        return take_value(packets, stream, record);
    case TUG_RECORD_FAILED:
        return take_failure(packets, stream, record);
    default: /* REFUSED */
        tug_log(TUG_LOG_ERROR,
                "process %u has refused a packet of this process, so that peer is lost and "
                "operations on it fail: run the same version of the library on all ranks",
                stream->peer);
        tug_stream_lose(packets, stream);
        return true;
    }
}

void tug_packets_reply(struct tug_packets *packets, struct tug_caller caller, int status,
                       const void *answer, size_t bytes) {
    struct tug_fabric *fabric = packets->fabric;
    if ((uint32_t)caller.process == fabric->rank && (fabric->ways & TUG_WAY_SELF)) {
        take_reply(packets, &fabric->operations[caller.tag], status, answer, bytes);
        return;
    }
    struct tug_stream *stream = packets->streams[caller.process];
    if (stream->lost)
        return;
    if (status != 0)
        bytes = 0;
    uint64_t *words =
        tug_packets_answer(packets, stream->peer, TUG_RECORD_DATA, status, caller.tag, bytes);
    words[0] = 0;
    tug_packet_data(words + 1, answer, bytes);
    tug_stream_settle(stream, 1);
}

/* ---- receiving ---- */

void tug_stream_end_acknowledged(struct tug_packets *packets, struct tug_stream *stream) {
    const uint64_t before = stream->acked;
    while (stream->acked < stream->heard) {
        if (stream->sent_long[(stream->acked + 1) % TUG_STREAM_WINDOW] > 0 &&
            stream->acked + 1 > stream->gone)
            break;
        stream->acked++;
        tug_packets_count(packets, -1);
        stream->longs -= stream->sent_long[stream->acked % TUG_STREAM_WINDOW] > 0;
        stream->long_bytes -= stream->sent_long[stream->acked % TUG_STREAM_WINDOW];
        tug_stream_unrest(packets, stream, stream->acked);
        tug_fabric_complete_list(packets->fabric,
                                 stream->sent_first[stream->acked % TUG_STREAM_WINDOW]);
    }
    const bool early = stream->acked < stream->heard;
    packets->early += (uint32_t)early - (uint32_t)stream->early;
    stream->early = early;
    if (stream->acked != before)
        tug_stream_touch(packets, stream);
}

/* Completes what the packets up to that number carried. False: a number that was never sent. */
static bool take_acknowledgement(struct tug_packets *packets, struct tug_stream *stream,
                                 uint32_t applied) {
    uint64_t upto = stream->acked;
    while (tug_wire_number(upto) != applied)
        if (upto++ == stream->number)
            return false;
    stream->heard = upto;
    tug_stream_end_acknowledged(packets, stream);
    return true;
}

bool tug_stream_take_word(struct tug_packets *packets, struct tug_stream *stream) {
    if (stream->number == stream->acked || stream->wire->words == NULL)
        return false;
    const uint64_t word =
        tug_words_told(stream->wire->words, tug_fabric_node_rank(packets->fabric, stream->peer));
    const uint32_t applied = (uint32_t)word;
    if (word >> 32 != stream->taken || applied == tug_wire_number(stream->acked))
        return false;
    if (take_acknowledgement(packets, stream, applied))
        return true;
    if (!tug_stream_owe(stream, 1))
        return false; /* it is refused at the next look */
    refuse(packets, stream, "it acknowledges what was not sent");
    return true;
}

/* A packet beside the stream has come. */
static void take_wiring(struct tug_packets *packets, struct tug_packet_reader *reader) {
    struct tug_record record;
    while (tug_packet_next(reader, &record))
        take_control(packets, reader->header.source, &record);
}

/* The two directions between a pair are wired each by itself, and one of them may have taken the
 * detour. */
static bool may_come_by(const struct tug_stream *stream, const struct tug_wire *wire) {
    const struct tug_transport *ours = stream->wire->row, *theirs = wire->row;
    return stream->wire == wire || (ours->wired_by_host && theirs->make != NULL) ||
           (ours->make != NULL && theirs->wired_by_host);
}

/* All from one peer comes by one wire, which its first packet tells. */
static bool comes_by(struct tug_packets *packets, struct tug_stream *stream,
                     struct tug_wire *wire) {
    if (stream->from == NULL && may_come_by(stream, wire)) {
        stream->from = wire;
        packets->detours |= wire->row->make != NULL;
    }
    return stream->from == wire;
}

/* Serves the records of a packet that have not been served. False: the next one needs an answer for
 * which there is no memory. The stream owes one for the packet. */
static bool serve_records(struct tug_packets *packets, struct tug_stream *stream,
                          struct tug_packet_reader *reader) {
    struct tug_record record;
    for (uint32_t i = 0; i < stream->served; i++)
        (void)tug_packet_next(reader, &record);
    while (tug_pool_ready(&stream->wire->pool)) {
        if (!tug_packet_next(reader, &record))
            return true;
        if (record.kind == TUG_RECORD_CALL && !tug_stream_owe(stream, 1))
            return false;
        stream->served++;
        if (record.kind < TUG_RECORD_DATA)
            serve(packets, stream, &record);
        else if (!take_answer(packets, stream, &record))
            refuse(packets, stream, "an answer to nothing that was asked");
        if (stream->lost)
            return true;
    }
    return false;
}

/* All of a packet has been served; the stream owes an answer for it. */
static void end_packet(struct tug_packets *packets, struct tug_stream *stream,
                       const struct tug_packet_header *header, bool full) {
    const bool numbered = header->number != 0, trailing = header->trailer > 0;
    const bool late = header->flags & TUG_PACKET_LATE;
    stream->served = 0;
    stream->taken++;
    if (!tug_trailer_begin(stream, header->trailer, late, numbered)) {
        refuse(packets, stream, "a signal for data that do not follow");
        return;
    }
    if (numbered && !trailing) {
        tug_stream_applied(
            packets, stream, late,
            full || atomic_load_explicit(&packets->fabric->replies, memory_order_relaxed));
    } else if (!trailing && (header->flags & TUG_PACKET_ASKS)) {
        stream->pressed = stream->told != stream->applied; /* else that is on its way */
        tug_stream_touch(packets, stream);
    }
    if (!take_acknowledgement(packets, stream, header->applied))
        refuse(packets, stream, "it acknowledges what was not sent");
    if (!(numbered && trailing))
        tug_stream_settle(stream, 1);
}

/* A packet of that stream, which owes an answer for it. False: not now. */
static bool take_packet(struct tug_packets *packets, struct tug_stream *stream,
                        struct tug_wire *wire, enum tug_packet_fault fault,
                        struct tug_packet_reader *reader, const void *memory, size_t bytes) {
    const struct tug_packet_header *header = &reader->header;
    if (fault != TUG_PACKET_GOOD) {
        refuse(packets, stream, tug_packet_fault_text(fault));
        return true;
    }
    if (header->credit != stream->credit)
        tug_stream_take_credit(stream, header->credit);
    if (stream->wire != wire && !stream->settled && wire->row->make != NULL)
        tug_stream_detour(packets, stream); /* the peer has heard of it first */
    if (stream->lost)
        return true;
    if (!comes_by(packets, stream, wire) || (header->trailer > 0 && wire->row->longs.least == 0) ||
        !tug_trailer_lets_pass(packets, stream->peer, memory, bytes) ||
        (header->number != 0 && header->number != tug_trailer_next_number(stream))) {
        refuse(packets, stream, "it is not the next one");
        return true;
    }
    if (!serve_records(packets, stream, reader))
        return false;
    if (!stream->lost)
        end_packet(packets, stream, header, bytes >= wire->pool.bytes / 2);
    return true;
}

bool tug_packets_receive(void *receiver, struct tug_wire *wire, const void *memory, size_t bytes) {
    struct tug_packets *packets = receiver;
    struct tug_fabric *fabric = packets->fabric;
    struct tug_packet_reader reader;
    enum tug_packet_fault fault =
        tug_packet_open(&reader, memory, bytes, fabric->id, fabric->nranks);
    if (fault != TUG_PACKET_GOOD && (bytes < sizeof(reader.header) || fault <= TUG_PACKET_SOURCE)) {
        tug_log(TUG_LOG_ERROR,
                "%zu bytes came by %s that are not a packet of this job's, and are dropped: %s; "
                "run the same version of the library on all ranks",
                bytes, wire->row->name, tug_packet_fault_text(fault));
        return true;
    }
    tug_trace_count(TUG_TRACE_ARRIVED, 1);
    if (fault == TUG_PACKET_GOOD && (reader.header.flags & TUG_PACKET_WIRES)) {
        take_wiring(packets, &reader);
        return true;
    }
    struct tug_stream *stream = tug_stream_to(packets, reader.header.source);
    if (stream == NULL || (!stream->lost && !tug_stream_owe(stream, 1)))
        return false;
    if (stream->lost || take_packet(packets, stream, wire, fault, &reader, memory, bytes))
        return true;
    tug_stream_settle(stream, 1);
    return false;
}
