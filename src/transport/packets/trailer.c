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
 * read when they have come.
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
    unsigned char data[TUG_STAGE_BYTES];
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
    stream->staging = staging;
}

/* So many bytes of the trailer have come: hands up what is new. */
static void unstage(const struct tug_packets *packets, const struct tug_stream *stream,
                    size_t come) {
    struct tug_staging *staging = stream->staging;
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

/* All of it has come. */
static void end_staging(struct tug_packets *packets, const struct tug_stream *stream) {
    struct tug_staging *staging = stream->staging;
    unstage(packets, stream, staging->all);
    if (staging->status == 0 && staging->have > 0)
        staging->status = TUG_ERR_INVALID;
    if (staging->status != 0)
        fail(packets, stream, staging->status, staging->tag);
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
            stream->unsignalled = (int8_t)applied.status;
        fail(packets, stream, applied.status, record->tag);
        return;
    }
    stream->trailer = applied.registration->base + record->words[1];
    stream->awaited = applied.registration;
    stream->awaited->serving++;
}

void tug_trailer_sign(struct tug_stream *stream, const struct tug_record *record) {
    memcpy(stream->signal, record->words, sizeof(stream->signal));
    stream->signal_tag = record->tag;
    stream->is_signed = true;
}

/* The data of a write have come, or went nowhere. */
static void signal(struct tug_packets *packets, struct tug_stream *stream) {
    const struct tug_record record = {
        .kind = TUG_RECORD_SIGNAL, .tag = stream->signal_tag, .words = stream->signal};
    tug_packets_signalled(packets, stream, &record);
}

void tug_trailer_expect(struct tug_stream *stream, const struct tug_operation *operation,
                        uint32_t tag) {
    stream->trailer = operation->local + (operation->bytes - operation->left);
    stream->reading = tag;
}

void tug_trailer_drop(struct tug_stream *stream) {
    if (stream->awaited != NULL)
        stream->awaited->serving--;
    stream->awaited = NULL;
    stream->reading = TUG_NO_TAG;
    stream->trailer = NULL;
    free(stream->staging);
    stream->staging = NULL;
    stream->awaits = stream->is_signed = false;
}

unsigned char *tug_trailer_address(void *receiver, uint32_t source, size_t come, size_t *room) {
    const struct tug_packets *packets = receiver;
    const struct tug_stream *stream = packets->streams[source];
    if (stream == NULL)
        return NULL;
    struct tug_staging *staging = stream->staging;
    if (staging == NULL)
        return stream->trailer != NULL ? stream->trailer + come : NULL;
    if (come > staging->come)
        unstage(packets, stream, come);
    if (*room > sizeof(staging->data) - staging->have)
        *room = sizeof(staging->data) - staging->have;
    return staging->data + staging->have;
}

void tug_trailer_arrived(void *receiver, uint32_t source, bool whole) {
    struct tug_packets *packets = receiver;
    struct tug_stream *stream = packets->streams[source];
    if (stream == NULL || !stream->awaits)
        return; /* the packet was refused, or the peer is lost */
    const uint32_t reading = stream->reading;
    if (whole && stream->staging != NULL)
        end_staging(packets, stream);
    if (whole && stream->is_signed)
        signal(packets, stream);
    tug_trailer_drop(stream);
    if (!whole)
        return;
    if (reading != TUG_NO_TAG) {
        tug_packets_have_read(packets, stream, &packets->fabric->operations[reading]);
        return;
    }
    tug_stream_applied(packets, stream, stream->late, false);
}

/* ---- sending ---- */

void tug_trailer_answer(struct tug_packets *packets, struct tug_stream *stream,
                        const struct tug_record *record, const struct tug_applied *applied) {
    uint64_t *words =
        tug_packets_answer(packets, stream->peer, TUG_RECORD_LONG_DATA, 0, record->tag, 0);
    struct tug_buffer *buffer = stream->answers;
    if (buffer == NULL)
        return; /* no memory; that has been logged */
    words[0] = record->words[2];
    tug_buffer_trail(buffer, applied->data, (uint32_t)applied->bytes);
    buffer->served = applied->registration;
    buffer->served->serving++;
}

void tug_trailer_sent(void *receiver, uint32_t peer, const struct tug_buffer *buffer) {
    struct tug_packets *packets = receiver;
    struct tug_stream *stream = packets->streams[peer];
    if (stream->lost || buffer->number == 0)
        return;
    stream->gone = buffer->number; /* before that it is not acknowledged: its operation is there */
    if (buffer->ends != TUG_NO_TAG)
        tug_fabric_local(&packets->fabric->operations[buffer->ends]);
}
