/* Trailers: the data of long writes, which follow their packet on the wire.
 *
 * They are sent from the program's memory and received in their place, so that neither side copies
 * them, and however long they are (up to TUG_TRAILER_MOST) they cost one call to send, and few to
 * receive. The wire asks for the place whenever bytes have come: what is looked up when the packet
 * is served stays the stream's, which gives it up when the peer is lost or the data will not come.
 * Until then the registration is being served, and cannot be ended.
 */
#include "transport/packets/apply.h"
#include "transport/packets/packets.h"

/* ---- receiving ---- */

void tug_trailer_serve(struct tug_packets *packets, struct tug_stream *stream,
                       const struct tug_record *record) {
    struct tug_applied applied = tug_apply(&packets->fabric->memory, record);
    stream->place = NULL;
    if (applied.status != 0) {
        (void)tug_packets_answer(packets, stream->peer, TUG_RECORD_FAILED, applied.status,
                                 record->tag, 0);
        return;
    }
    stream->place = applied.registration->base + record->words[1];
    stream->awaited = applied.registration;
    stream->awaited->serving++;
}

void tug_trailer_drop(struct tug_stream *stream) {
    if (stream->awaited != NULL)
        stream->awaited->serving--;
    stream->awaited = NULL;
    stream->place = NULL;
    stream->awaits = false;
}

unsigned char *tug_trailer_place(void *receiver, uint32_t source, size_t come) {
    const struct tug_packets *packets = receiver;
    const struct tug_stream *stream = packets->streams[source];
    return stream != NULL && stream->place != NULL ? stream->place + come : NULL;
}

void tug_trailer_arrived(void *receiver, uint32_t source, bool whole) {
    struct tug_packets *packets = receiver;
    struct tug_stream *stream = packets->streams[source];
    if (stream == NULL || !stream->awaits)
        return; /* the packet was refused, or the peer is lost */
    tug_trailer_drop(stream);
    if (!whole)
        return;
    stream->applied++;
    stream->patient = false;
    tug_stream_touch(packets, stream);
}

/* ---- sending ---- */

void tug_trailer_sent(void *receiver, uint32_t peer, const struct tug_buffer *buffer) {
    struct tug_packets *packets = receiver;
    struct tug_stream *stream = packets->streams[peer];
    if (stream->lost)
        return;
    stream->gone = buffer->number; /* before that it is not acknowledged: its operation is there */
    if (buffer->ends != TUG_NO_TAG)
        tug_fabric_local(&packets->fabric->operations[buffer->ends]);
}
