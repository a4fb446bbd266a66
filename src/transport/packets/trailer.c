/* Trailers: the data of long writes and messages, and of answers to long reads, which follow their
 * packet on the wire.
 *
 * They are sent from the program's memory and received where they shall lie, so that neither side
 * copies them, and however long they are (up to TUG_TRAILER_MOST) they cost one call to send, and
 * few to receive. The wire asks for the address whenever bytes have come: what is looked up when
 * the packet is served stays the stream's, which gives it up when the peer is lost or the data will
 * not come. Until then the registration is being served, and cannot be ended; so is one whose
 * memory is sent to a reader, until its packet is the pool's again. Memory of this side's own
 * operations is theirs as long as they are out: a write ends no sooner than its data have gone, a
 * read when they have come. So does a write to a peer that is lost, by a wire that cannot let go of
 * the data before they have gone: its `left` counts the pieces that the wire keeps.
 *
 * Those of long messages are *staged*: what has come is handed up whenever more is there, so that
 * the handler works on some while more arrives, and a peer costs TUG_STAGE_BYTES however long its
 * messages are.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "transport/packets/apply.h"
#include "transport/packets/packets.h"

/* ---- receiving ---- */

/* That of the packet that is being served. */
static struct tug_expected *served(struct tug_stream *stream) {
    return &stream->expected[stream->nexpected];
}

static void fail(struct tug_packets *packets, const struct tug_stream *stream, int status,
                 uint32_t tag) {
    (void)tug_packets_answer(packets, stream->peer, TUG_RECORD_FAILED, status, tag, 0);
}

/* A part of a long message whose data are on their way. */
struct tug_staging {
    uint64_t head[2];
    uint64_t position; /* in the message, of the first byte here */
    size_t have; /* bytes here that have not been handed up, as the last element is not whole */
    size_t come; /* bytes that have come, these and those that were handed up */
    size_t all;  /* bytes of the part */
    int status;  /* the first thing that went wrong; nothing is handed up any more */
    uint32_t tag;
    uint8_t handler;
    unsigned char data[TUG_STAGE_BYTES] __attribute__((aligned(16)));
};

static void stage(struct tug_packets *packets, struct tug_stream *stream,
                  const struct tug_record *record) {
    struct tug_staging *staging = malloc(sizeof(*staging));
    if (staging == NULL) {
        tug_log(TUG_LOG_ERROR,
                "no memory for a message of process %u, so its operation fails: give this process "
                "more memory",
                stream->peer);
        fail(packets, stream, TUG_ERR_NO_MEMORY, record->tag);
        return;
    }
    memcpy(staging->head, record->words, sizeof(staging->head));
    staging->position = record->words[2];
    staging->have = staging->come = 0;
    staging->all = record->words[3];
    staging->status = 0;
    staging->tag = record->tag;
    staging->handler = record->sub;
    served(stream)->staging = staging;
}

/* So many bytes of the trailer have come: hands up what is new. */
static void unstage(const struct tug_packets *packets, const struct tug_stream *stream,
                    struct tug_staging *staging, size_t come) {
    struct tug_fabric *fabric = packets->fabric;
    staging->have += come - staging->come;
    staging->come = come;
    int64_t taken = (int64_t)staging->have;
    if (staging->status == 0 && taken > 0)
        taken = fabric->deliver_part(fabric, stream->peer, staging->handler, staging->head,
                                     staging->position, staging->data, staging->have);
    if (taken < 0 || staging->have - (size_t)taken >= TUG_ELEMENT_MOST) {
        staging->status = taken < 0 ? (int)taken : TUG_ERR_INVALID;
        taken = (int64_t)staging->have;
    }
    staging->have -= (size_t)taken;
    staging->position += (uint64_t)taken;
    if (staging->have > 0)
        memmove(staging->data, staging->data + taken, staging->have);
}

/* All of it has come. It is the stream's no more: a handler may lose the peer. */
static void end_staging(struct tug_packets *packets, const struct tug_stream *stream,
                        struct tug_staging *staging) {
    unstage(packets, stream, staging, staging->all);
    if (staging->status == 0 && staging->have > 0)
        staging->status = TUG_ERR_INVALID;
    if (staging->status != 0 && !stream->lost)
        fail(packets, stream, staging->status, staging->tag);
    free(staging);
}

void tug_trailer_serve(struct tug_packets *packets, struct tug_stream *stream,
                       const struct tug_record *record) {
    if (record->kind == TUG_RECORD_LONG_PART) {
        stage(packets, stream, record);
        return;
    }
    struct tug_applied applied = tug_apply(&packets->fabric->memory, record);
    if (applied.status != 0) {
        if (record->sub != 0)
            served(stream)->failed = (int8_t)applied.status;
        fail(packets, stream, applied.status, record->tag);
        return;
    }
    served(stream)->memory = applied.registration->base + record->words[1];
    served(stream)->awaited = applied.registration;
    applied.registration->serving++;
}

bool tug_trailer_sign(struct tug_stream *stream, const struct tug_record *record) {
    struct tug_expected *one = served(stream);
    if (one->is_signed)
        return false;
    memcpy(one->signal, record->words, sizeof(one->signal));
    one->signal_tag = record->tag;
    return one->is_signed = true;
}

/* The data of a write have come, or went nowhere. */
static void signal(struct tug_packets *packets, struct tug_stream *stream,
                   const struct tug_expected *one) {
    const struct tug_record record = {
        .kind = TUG_RECORD_SIGNAL, .tag = one->signal_tag, .words = one->signal};
    tug_packets_signalled(packets, stream, &record);
}

void tug_trailer_expect(struct tug_stream *stream, const struct tug_operation *operation,
                        uint32_t tag) {
    served(stream)->memory = operation->local + (operation->bytes - operation->left);
    served(stream)->reading = tag + 1;
}

bool tug_trailer_begin(struct tug_stream *stream, uint32_t bytes, bool late, bool owes) {
    struct tug_expected *one = served(stream);
    if (bytes == 0)
        return !one->is_signed;
    one->owes = owes;
    one->late = late && bytes < TUG_LATE_MOST;
    stream->nexpected++;
    return true;
}

uint32_t tug_trailer_next_number(const struct tug_stream *stream) {
    uint64_t number = stream->applied + 1;
    for (uint32_t i = 0; i < stream->nexpected; i++)
        number += stream->expected[i].reading == 0;
    return tug_wire_number(number);
}

/* Of one READ no more than one part is on its way: operation->left tells which. */
bool tug_trailer_lets_pass(void *receiver, uint32_t source, const void *memory, size_t bytes) {
    const struct tug_packets *packets = receiver;
    const struct tug_stream *stream = packets->streams[source];
    const struct tug_packet_header *header = memory;
    const struct tug_record_head *first = (const struct tug_record_head *)(header + 1);
    if (stream == NULL || stream->nexpected == 0)
        return true;
    if (stream->nexpected == TUG_EXPECTED_MOST || !tug_packet_only_trails(memory, bytes))
        return false;
    for (uint32_t i = 0; i < stream->nexpected && first->kind == TUG_RECORD_LONG_DATA; i++)
        if (stream->expected[i].reading == first->tag + 1)
            return false;
    return true;
}

static void end(struct tug_stream *stream, struct tug_expected *one) {
    tug_stream_settle(stream, one->owes);
    if (one->awaited != NULL)
        one->awaited->serving--;
    free(one->staging);
    *one = (struct tug_expected){0};
}

void tug_trailer_drop(struct tug_stream *stream) {
    for (uint32_t i = 0; i <= stream->nexpected; i++)
        end(stream, &stream->expected[i]);
    stream->nexpected = 0;
}

unsigned char *tug_trailer_address(void *receiver, uint32_t source, size_t come, size_t *room) {
    const struct tug_packets *packets = receiver;
    const struct tug_stream *stream = packets->streams[source];
    if (stream == NULL || stream->nexpected == 0)
        return NULL;
    const struct tug_expected *one = &stream->expected[stream->nexpected - 1];
    struct tug_staging *staging = one->staging;
    if (staging == NULL)
        return one->memory != NULL ? one->memory + come : NULL;
    if (come > staging->come && come < staging->all)
        unstage(packets, stream, staging, come);
    if (*room > sizeof(staging->data) - staging->have)
        *room = sizeof(staging->data) - staging->have;
    return staging->data + staging->have;
}

void tug_trailer_arrived(void *receiver, uint32_t source, bool whole) {
    struct tug_packets *packets = receiver;
    struct tug_stream *stream = packets->streams[source];
    if (stream == NULL || stream->nexpected == 0)
        return; /* the packet was refused, or the peer is lost */
    if (!whole) {
        tug_trailer_drop(stream);
        return;
    }
    struct tug_expected one = stream->expected[0];
    if (one.staging != NULL) {
        stream->expected[0].staging = NULL;
        end_staging(packets, stream, one.staging);
        one.staging = NULL;
        if (stream->nexpected == 0)
            return;
    }
    if (one.failed != 0)
        stream->unsignalled = one.failed;
    if (one.is_signed)
        signal(packets, stream, &one);
    const uint32_t reading = one.reading;
    const bool late = one.late;
    end(stream, &one);
    memmove(stream->expected, stream->expected + 1, stream->nexpected * sizeof(one));
    stream->expected[stream->nexpected--] = one;
    if (reading > 0)
        tug_packets_have_read(packets, stream, &packets->fabric->operations[reading - 1]);
    else
        tug_stream_applied(packets, stream, late, false);
}

/* ---- sending ---- */

void tug_trailer_answer(struct tug_packets *packets, struct tug_stream *stream,
                        const struct tug_record *record, const struct tug_applied *applied) {
    uint64_t *words =
        tug_packets_answer(packets, stream->peer, TUG_RECORD_LONG_DATA, 0, record->tag, 0);
    struct tug_buffer *buffer = stream->answers;
    words[0] = record->words[2];
    tug_buffer_trail(buffer, applied->data, (uint32_t)applied->bytes);
    buffer->served = applied->registration;
    buffer->served->serving++;
}

void tug_trailer_sent(void *receiver, uint32_t peer, const struct tug_buffer *buffer) {
    struct tug_packets *packets = receiver;
    struct tug_stream *stream = packets->streams[peer];
    if (buffer->of == TUG_NO_TAG)
        return; /* it is an answer */
    struct tug_operation *operation = &packets->fabric->operations[buffer->of];
    if (!stream->lost) {
        stream->gone = buffer->number; /* it has not ended before: its operation is there */
        if (buffer->ends)
            tug_fabric_local(operation);
        /* no end of an operation in a row's send, which may tell of this: it would send more */
        if (stream->heard > stream->acked)
            tug_stream_touch(packets, stream);
    } else if (operation->scratch == TUG_PACKETS_ENDING && --operation->left == 0) {
        tug_fabric_complete(packets->fabric, operation);
    }
}

void tug_trailer_keeps(void *receiver, const struct tug_buffer *buffer) {
    const struct tug_packets *packets = receiver;
    if (buffer->of == TUG_NO_TAG)
        return; /* the registration is served as long as the buffer is there */
    struct tug_operation *operation = &packets->fabric->operations[buffer->of];
    if (operation->scratch != TUG_PACKETS_ENDING)
        operation->left = 0;
    operation->scratch = TUG_PACKETS_ENDING;
    operation->status = TUG_ERR_PEER;
    operation->left++;
}
