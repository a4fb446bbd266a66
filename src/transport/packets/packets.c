#include "transport/packets/packets.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "host/agreement.h"
#include "transport/endpoint.h"

static int no_memory_for_message(uint32_t peer) {
    tug_log(TUG_LOG_ERROR,
            "no memory for a message to process %u, so what it was for fails: give this "
            "process more memory",
            peer);
    return TUG_ERR_NO_MEMORY;
}

/* By a message of the host, beside the stream: the row is to be wired by it. */
static int control_by_host(struct tug_packets *packets, uint32_t peer, unsigned transport,
                           const void *data, size_t bytes) {
    const struct tug_fabric *fabric = packets->fabric;
    struct tug_wire *host = tug_packets_detour(packets, fabric->states[transport]);
    struct tug_buffer *buffer = host != NULL ? tug_pool_take(&host->pool) : NULL;
    if (buffer == NULL)
        return no_memory_for_message(peer);
    uint64_t *words =
        tug_packet_add(&buffer->packet, TUG_RECORD_CONTROL, transport, TUG_NO_TAG, bytes);
    tug_packet_data(words, data, bytes);
    buffer->packet.flags = TUG_PACKET_WIRES;
    tug_packet_end(&buffer->packet, fabric->rank, 0, 0, fabric->id);
    if (host->row->send(host, peer, buffer))
        return 0;
    tug_pool_give(&host->pool, buffer);
    return no_memory_for_message(peer);
}

int tug_fabric_control(struct tug_fabric *fabric, uint32_t peer, unsigned transport,
                       const void *data, size_t bytes) {
    struct tug_packets *packets = fabric->packets;
    const struct tug_stream *known = packets->streams[peer];
    if (known != NULL && known->lost)
        return TUG_ERR_PEER;
    if (tug_transports[transport]->wired_by_host && tug_fabric_carries(fabric, transport))
        return control_by_host(packets, peer, transport, data, bytes);
    struct tug_stream *stream = tug_stream_to(packets, peer);
    struct tug_control_message *message = malloc(sizeof(*message));
    if (stream == NULL || message == NULL || bytes > TUG_CONTROL_MAX) {
        free(message);
        return no_memory_for_message(peer);
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
    tug_stream_pump(packets, stream);
    return 0;
}

static void flush_all(struct tug_packets *packets, bool wanted) {
    struct tug_stream *stream = packets->touched;
    packets->touched = NULL;
    while (stream != NULL) {
        struct tug_stream *next = stream->next_touched;
        stream->touched = false;
        tug_stream_flush(packets, stream, wanted);
        stream = next;
    }
}

/* The batch ends for those wires that wait for that. */
static void flush_wires(struct tug_packets *packets) {
    for (unsigned i = 0; i < packets->nwires; i++)
        if (packets->wires[i]->row->flush != NULL)
            packets->wires[i]->row->flush(packets->wires[i]);
}

void tug_packets_flush(struct tug_packets *packets) {
    if (packets->touched != NULL)
        flush_all(packets, false);
    if (packets->batches)
        flush_wires(packets);
}

/* Looks whether packets under way have been acknowledged by words; open packets behind
 * them go if that is wanted. Callbacks may put streams in the list meanwhile. */
static bool visit_under_way(struct tug_packets *packets, bool wanted) {
    bool moved = false;
    struct tug_stream *stream = packets->under_way;
    packets->under_way = NULL;
    while (stream != NULL) {
        struct tug_stream *next = stream->next_under_way;
        stream->listed = false;
        moved |= tug_stream_take_word(packets, stream);
        if (stream->number != stream->acked)
            tug_stream_list(packets, stream);
        if (wanted && (stream->requests != NULL || stream->waiting_first != TUG_NO_TAG))
            tug_stream_touch(packets, stream);
        stream = next;
    }
    return moved;
}

/* Ends what was acknowledged before its trailer had gone. */
static void end_early_ones(struct tug_packets *packets) {
    for (struct tug_stream *stream = packets->touched; stream != NULL && packets->early > 0;
         stream = stream->next_touched)
        if (stream->early)
            tug_stream_end_acknowledged(packets, stream);
}

/* What has come has made room for what waits. */
static void get_on(struct tug_packets *packets, bool moved, bool wanted) {
    end_early_ones(packets);
    for (struct tug_stream *stream = packets->touched; moved && stream != NULL;
         stream = stream->next_touched)
        tug_stream_pump(packets, stream);
    if (packets->touched != NULL)
        flush_all(packets, wanted);
    if (packets->batches)
        flush_wires(packets);
}

void tug_packets_served(struct tug_packets *packets) {
    get_on(packets, true, false);
}

bool tug_packets_poll(struct tug_packets *packets) {
    if (__builtin_expect(packets->nstreams >= packets->fold_at, 0))
        tug_packets_fold(packets);
    bool wanted = atomic_load_explicit(&packets->fabric->flush_wanted, memory_order_relaxed);
    if (wanted)
        atomic_store_explicit(&packets->fabric->flush_wanted, false, memory_order_relaxed);
    bool moved = packets->under_way != NULL && (wanted || packets->hears_words) &&
                 visit_under_way(packets, wanted);
    for (unsigned i = 0; i < packets->nwires; i++)
        moved |= packets->wires[i]->row->poll(packets->wires[i]);
    get_on(packets, moved, wanted);
    return moved;
}

bool tug_packets_poll_inside(struct tug_packets *packets, bool *left) {
    if (!packets->inside) /* a detour since the last poll from outside */
        return false;
    for (unsigned i = 0; i < packets->nwires; i++)
        packets->wires[i]->inside = true;
    const bool moved = tug_packets_poll(packets);
    for (unsigned i = 0; i < packets->nwires; i++) {
        struct tug_wire *wire = packets->wires[i];
        *left |= wire->left;
        wire->inside = wire->left = false;
    }
    return moved;
}

/* ---- wires ---- */

bool tug_packets_has_lost(const struct tug_packets *packets, uint32_t peer) {
    return packets->streams[peer] != NULL && packets->streams[peer]->lost;
}

/* Nothing goes there any more. At the end of a job nothing is outstanding, and nobody minds. */
void tug_packets_ended(void *receiver, uint32_t peer) {
    struct tug_packets *packets = receiver;
    if (!tug_stream_is_known(packets, peer))
        return;
    /* a folded stream may await the answer of a call */
    const bool awaits = tug_packets_awaits(packets, peer);
    struct tug_stream *stream = awaits ? tug_stream_to(packets, peer) : packets->streams[peer];
    if (stream != NULL)
        tug_trailer_drop(stream);
    if (stream != NULL && !stream->lost && (awaits || tug_stream_outstanding(stream))) {
        tug_log(TUG_LOG_ERROR,
                "the connection to process %u has ended while operations were under way, and they "
                "fail: look why that process has ended, or at the network between",
                peer);
        tug_stream_lose(packets, stream);
    } else if (packets->fabric->peer_ended != NULL) {
        packets->fabric->peer_ended(packets->fabric, peer);
    }
    if (stream != NULL && stream->lost)
        tug_stream_drop(stream, true);
}

/* The row that is next may be told of this peer for the first time. */
uint32_t tug_packets_yields(void *receiver, uint32_t peer) {
    struct tug_packets *packets = receiver;
    if (!tug_stream_is_known(packets, peer))
        return 0;
    struct tug_stream *stream = tug_stream_to(packets, peer);
    if (stream == NULL)
        return packets->folded[peer].taken;
    (void)tug_packets_detour(packets, stream->from != NULL ? stream->from : stream->wire);
    stream->from = NULL;
    packets->detours = true;
    return stream->taken;
}

void tug_packets_moves(void *receiver, uint32_t peer, uint32_t taken, struct tug_buffer *back) {
    struct tug_packets *packets = receiver;
    struct tug_stream *stream = tug_stream_to(packets, peer);
    if (stream != NULL)
        tug_stream_take_next_row(packets, stream, taken, back);
    for (struct tug_buffer *next; stream == NULL && back != NULL; back = next) { /* no memory */
        next = back->next;
        tug_pool_give(&packets->wires[0]->pool, back);
    }
}

/* What goes by the host, or may, is not handed up where the host must not be called. */
static void tell_wires(struct tug_packets *packets) {
    for (unsigned i = 0; i < packets->nwires; i++)
        packets->wires[i]->internal = packets->internal && packets->inside;
}

void tug_packets_set_internal(struct tug_packets *packets) {
    packets->internal = true;
    tell_wires(packets);
}

void tug_packets_attach(struct tug_packets *packets, struct tug_wire *wire) {
    wire->receiver = packets;
    wire->receive = tug_packets_receive;
    wire->lets_pass = tug_trailer_lets_pass;
    wire->trailer_address = tug_trailer_address;
    wire->arrived = tug_trailer_arrived;
    wire->sent = tug_trailer_sent;
    wire->keeps = tug_trailer_keeps;
    wire->settled = tug_packets_settled;
    wire->ended = tug_packets_ended;
    wire->yields = tug_packets_yields;
    wire->moves = tug_packets_moves;
    wire->recalls = tug_packets_recall;
    packets->wires[packets->nwires++] = wire;
    packets->hears_words |= wire->words != NULL;
    packets->batches |= wire->row->flush != NULL;
    packets->inside &= wire->row->inside;
    tell_wires(packets);
}

/* The wire of the first row behind that of `from` which can be made by this process alone. */
struct tug_wire *tug_packets_detour(struct tug_packets *packets, const struct tug_wire *from) {
    struct tug_fabric *fabric = packets->fabric;
    unsigned i = 0;
    while (fabric->states[i] != from)
        i++;
    do
        i++;
    while (i < TUG_TRANSPORT_COUNT && tug_transports[i]->make == NULL);
    if (i == TUG_TRANSPORT_COUNT)
        return NULL;
    if (fabric->states[i] == NULL) {
        fabric->states[i] = tug_transports[i]->make(fabric);
        if (fabric->states[i] != NULL)
            tug_packets_attach(packets, fabric->states[i]);
        else
            tug_log(TUG_LOG_ERROR,
                    "no memory for packets by %s, so peers that need them are lost: give this "
                    "process more memory",
                    tug_transports[i]->name);
    }
    return fabric->states[i];
}

void tug_packets_settled(void *receiver, uint32_t peer, bool by_wire) {
    struct tug_packets *packets = receiver;
    struct tug_stream *stream = by_wire ? packets->streams[peer] : tug_stream_to(packets, peer);
    if (stream == NULL)
        return;
    if (!by_wire)
        (void)tug_packets_detour(packets, stream->wire); /* the peer may be the first to send */
    if (stream->settled)
        return;
    if (!by_wire) {
        tug_stream_detour(packets, stream);
        return;
    }
    stream->settled = true;
    tug_stream_touch(packets, stream);
}

/* ---- opening and closing ---- */

int tug_packets_open(struct tug_fabric *fabric) {
    static struct tug_load load;
    struct tug_packets *packets = calloc(1, sizeof(*packets));
    if (packets != NULL) {
        packets->fabric = fabric;
        packets->load = &load;
        packets->inside = true;
        packets->fold_at = TUG_STREAMS_KEPT;
        packets->streams = calloc(fabric->nranks, sizeof(struct tug_stream *));
    }
    if (!tug_all_agree(fabric->comm, packets != NULL && packets->streams != NULL)) {
        if (packets != NULL)
            free((void *)packets->streams);
        free(packets);
        return TUG_ERR_NO_MEMORY;
    }
    fabric->packets = packets;
    for (unsigned i = 0; i < TUG_TRANSPORT_COUNT; i++)
        if (tug_fabric_carries(fabric, i))
            tug_packets_attach(packets, fabric->states[i]);
    return 0;
}

void tug_packets_leave(struct tug_packets *packets) {
    for (unsigned i = 0; i < packets->nwires; i++)
        if (packets->wires[i]->endpoint != NULL)
            tug_endpoint_leave(packets->wires[i]);
}

void tug_packets_close(struct tug_packets *packets) {
    tug_packets_leave(packets);
    atomic_fetch_sub(&packets->load->streams, packets->nstreams + packets->nfolded);
    while (packets->all != NULL) {
        struct tug_stream *stream = packets->all;
        packets->all = stream->next;
        if (stream->requests != NULL)
            tug_pool_give(&stream->wire->pool, stream->requests);
        tug_trailer_drop(stream);
        free(stream);
    }
    free((void *)packets->streams);
    free(packets->folded);
    free(packets);
}

/* ---- before sleep ---- */

bool tug_packets_busy(const struct tug_packets *packets) {
    for (unsigned i = 0; i < packets->nwires; i++) {
        const struct tug_wire *wire = packets->wires[i];
        if (wire->pool.nout > 0 || (wire->endpoint != NULL && wire->endpoint->under_way > 0))
            return true;
    }
    return packets->unacked > packets->resting || packets->touched != NULL;
}

/* What is held back goes when the wire wakes us because it has room again. */
bool tug_packets_arm(const struct tug_packets *packets) {
    for (const struct tug_stream *stream = packets->touched; stream != NULL;
         stream = stream->next_touched) {
        struct tug_wire *wire = stream->wire;
        if (stream->unsent_first == NULL || wire->row->tells_of_room == NULL ||
            !wire->row->tells_of_room(wire, stream->peer))
            return false;
    }
    return true;
}

bool tug_packets_use(const struct tug_packets *packets, const struct tug_wire *wire) {
    return packets->detours || wire->pool.nout > 0;
}

int tug_packets_descriptor(struct tug_packets *packets, bool watch) {
    for (unsigned i = 0; i < packets->nwires; i++)
        if (packets->wires[i]->endpoint != NULL && packets->wires[i]->endpoint->descriptor >= 0)
            return tug_endpoint_descriptor(packets->wires[i], watch);
    return -1;
}

size_t tug_packets_withheld(uint64_t active, size_t packet_bytes) {
    const size_t room = packet_bytes - sizeof(struct tug_buffer) - sizeof(struct tug_packet_header);
    size_t packets = 0;
    for (uint64_t k = 1; k <= active; k++) { /* two packets in a row hold more than one */
        const size_t longs = tug_credit(k) / tug_credit_least();
        packets += 2 * tug_credit(k) / room + 2 + (longs < TUG_LONGS_MOST ? longs : TUG_LONGS_MOST);
    }
    return packets * packet_bytes;
}

size_t tug_packets_under_way(uint64_t active, size_t packet_bytes) {
    uint64_t most = active * TUG_STREAM_WINDOW;
    if (most > TUG_UNDER_WAY_MOST)
        most = TUG_UNDER_WAY_MOST + active * TUG_UNDER_WAY_LEAST;
    return (most + active) * packet_bytes; /* one is open for each */
}

size_t tug_packets_unexpected(uint64_t active) {
    size_t packets = 0;
    for (uint64_t k = 1; k <= active; k++) /* the k-th has heard of no more */
        packets += tug_piling_window(tug_credit(k));
    return packets * TUG_MPI_PACKET_BYTES;
}

size_t tug_packets_footprint(uint64_t nranks, uint64_t active) {
    return sizeof(struct tug_packets) + nranks * sizeof(struct tug_stream *) +
           active * sizeof(struct tug_stream);
}
