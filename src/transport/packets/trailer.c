/* Trailers: the data of long writes, and of answers to long reads, which follow their packet on the
 * wire.
 *
 * They are sent from the program's memory and received where they shall lie, so that neither side
 * copies them, and however long they are (up to TUG_TRAILER_MOST) they cost one call to send, and
 * few to receive. The wire asks for the address whenever bytes have come: what is looked up when
 * the packet is served stays the stream's, which gives it up when the peer is lost or the data will
 * not come. Until then the registration is being served, and cannot be ended; so is one whose
 * memory is sent to a reader, until its packet is the pool's again. Memory of this side's own
 * operations is theirs as long as they are out: a write ends no sooner than its data have gone, a
 * read when they have come.
 */
#include "transport/packets/apply.h"
#include "transport/packets/packets.h"

/* ---- receiving ---- */

void tug_trailer_serve(struct tug_packets *packets, struct tug_stream *stream,
                       const struct tug_record *record) {
    struct tug_applied applied = tug_apply(&packets->fabric->memory, record);
    if (applied.status != 0) {
        if (record->sub != 0)
            stream->unsignalled = (int8_t)applied.status;
        (void)tug_packets_answer(packets, stream->peer, TUG_RECORD_FAILED, applied.status,
                                 record->tag, 0);
        return;
    }
    stream->trailer = applied.registration->base + record->words[1];
    stream->awaited = applied.registration;
    stream->awaited->serving++;
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
    stream->awaits = false;
}

unsigned char *tug_trailer_address(void *receiver, uint32_t source, size_t come) {
    const struct tug_packets *packets = receiver;
    const struct tug_stream *stream = packets->streams[source];
    return stream != NULL && stream->trailer != NULL ? stream->trailer + come : NULL;
}

void tug_trailer_arrived(void *receiver, uint32_t source, bool whole) {
    struct tug_packets *packets = receiver;
    struct tug_stream *stream = packets->streams[source];
    if (stream == NULL || !stream->awaits)
        return; /* the packet was refused, or the peer is lost */
    const uint32_t reading = stream->reading;
    tug_trailer_drop(stream);
    if (!whole)
        return;
    if (reading != TUG_NO_TAG) {
        tug_packets_have_read(packets, stream, &packets->fabric->operations[reading]);
        return;
    }
    stream->applied++;
    stream->patient = false;
    tug_stream_touch(packets, stream);
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
