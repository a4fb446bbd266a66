/* Packets between two processes that are both in this one, by a wire that is a queue: the test
 * decides what is delivered, and when. Whether the wire has trailers is in the test's own struct
 * tug_transport, made of the functions below. */
#ifndef TUG_TEST_FAKE_WIRE_H
#define TUG_TEST_FAKE_WIRE_H

#include "tests/unit/joined_records.h"

#define FAKE_QUEUE (2 * TUG_STREAM_WINDOW)

struct fake_wire {
    struct tug_wire wire;
    struct fake_wire *to; /* the other one's */
    struct tug_buffer *queue[FAKE_QUEUE];
    unsigned first, count;
    unsigned room;            /* packets that fit */
    unsigned delivers;        /* packets that the other one may take */
    unsigned sent, long_ones; /* packets; those with trailers */
    bool begun;               /* the first packet has been handed up, its trailer goes on */
    size_t come;              /* of that trailer */
};

struct side {
    struct tug_fabric fabric;
    struct tug_packets packets;
    struct fake_wire out;
    struct tug_stream *streams[2];
    struct tug_registration remote, local; /* what the other one may touch, and what it may not */
    unsigned messages;                     /* delivered here; the last one: */
    size_t message_bytes;
    unsigned char message[TUG_AM_MAX_PAYLOAD];
    unsigned parts; /* delivered here, of elements of so many bytes: */
    size_t element, part_most;
    uint64_t head[2];
    unsigned char *long_message;
    unsigned peers_ended; /* that the fabric was told of */
    uint64_t loses_at;    /* bytes of a long message at whose handling the origin is lost */
};

static struct side *a, *b;
static size_t allowance; /* bytes of trailers that may still go */

/* ---- the wire ---- */

static inline bool fake_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct fake_wire *fake = (struct fake_wire *)wire;
    assert_int_equal(peer, fake->to->wire.fabric->rank);
    assert_true(fake->count < FAKE_QUEUE);
    if (fake->count >= fake->room)
        return false;
    fake->queue[(fake->first + fake->count++) % FAKE_QUEUE] = buffer;
    fake->sent++;
    fake->long_ones += buffer->packet.trailer > 0;
    return true;
}

static inline void fake_forget_first(struct fake_wire *fake) {
    tug_pool_give(&fake->wire.pool, fake->queue[fake->first]);
    fake->first = (fake->first + 1) % FAKE_QUEUE;
    fake->count--;
    fake->begun = false;
}

/* What is on its way is lost. */
static inline void fake_lose(struct fake_wire *fake) {
    while (fake->count > 0)
        fake_forget_first(fake);
}

static inline void fake_abandon(struct tug_wire *wire, uint32_t peer) {
    struct fake_wire *fake = (struct fake_wire *)wire;
    (void)peer;
    if (fake->count == 0 || fake->queue[fake->first]->packet.trailer > 0)
        fake_lose(fake);
}

/* The first packet's trailer goes on. False: it has not come to its end. */
static inline bool fake_move_trailer(struct fake_wire *from, struct tug_wire *into,
                                     uint32_t source) {
    struct tug_buffer *buffer = from->queue[from->first];
    while (from->come < buffer->packet.trailer && allowance > 0) {
        size_t now = buffer->packet.trailer - from->come;
        now = now < allowance ? now : allowance;
        now = now < 100000 ? now : 100000;
        unsigned char *place = into->trailer_address(into->receiver, source, from->come, &now);
        if (place != NULL)
            memcpy(place, buffer->trailer + from->come, now);
        from->come += now;
        allowance -= now;
    }
    if (from->come < buffer->packet.trailer)
        return false;
    from->wire.sent(from->wire.receiver, into->fabric->rank, buffer);
    into->arrived(into->receiver, source, true);
    return true;
}

/* Takes what the other side has sent. */
static inline bool fake_poll(void *state) {
    struct tug_wire *wire = state;
    struct fake_wire *in = ((struct fake_wire *)wire)->to;
    const uint32_t source = in->wire.fabric->rank;
    bool any = false;
    while (in->count > 0 && (in->begun || in->delivers > 0)) {
        struct tug_buffer *buffer = in->queue[in->first];
        if (!in->begun) {
            if (!wire->receive(wire->receiver, wire, buffer->memory, buffer->packet.used))
                break;
            in->begun = any = true;
            in->come = 0;
            in->delivers--;
        }
        if (buffer->packet.trailer > 0 && !fake_move_trailer(in, wire, source))
            break;
        fake_forget_first(in);
    }
    return any;
}

/* A wire that carries what follows packets. */
static const struct tug_transport fake_trailing = {
    .name = "trailing",
    .send = fake_send,
    .longs = {TUG_LONG_LEAST, TUG_LONG_SIGNALLED, TUG_LONG_PIECE, TUG_LONG_PIECE, TUG_LONGS_MOST},
    .lost = fake_abandon,
    .poll = fake_poll};

/* Bytes on the wire to b that a did not write. */
static inline void fake_inject(const void *bytes, size_t n) {
    struct tug_buffer *buffer = tug_pool_take(&a->out.wire.pool);
    assert_non_null(buffer);
    memcpy(buffer->memory, bytes, n);
    buffer->packet.used = (uint32_t)n;
    a->out.queue[(a->out.first + a->out.count++) % FAKE_QUEUE] = buffer;
}

/* ---- two sides ---- */

static inline int fake_deliver(struct tug_fabric *fabric, uint32_t source, unsigned handler,
                               const void *payloads, size_t bytes, size_t n) {
    struct side *side = (struct side *)fabric;
    (void)source;
    if (handler == 9)
        return TUG_ERR_INVALID;
    side->messages += (unsigned)n;
    side->message_bytes = bytes;
    if (n > 0)
        memcpy(side->message, (const char *)payloads + (n - 1) * bytes, bytes);
    return 0;
}

static inline void fake_peer_ended(struct tug_fabric *fabric, uint32_t peer) {
    struct side *side = (struct side *)fabric;
    assert_int_equal(peer, 1 - fabric->rank);
    side->peers_ended++;
}

/* What is taken of a long message goes to side->long_message. */
static inline int64_t fake_deliver_part(struct tug_fabric *fabric, uint32_t source,
                                        unsigned handler, const uint64_t head[2], uint64_t position,
                                        const void *data, size_t bytes) {
    struct side *side = (struct side *)fabric;
    if (handler == 9)
        return TUG_ERR_INVALID;
    bytes -= bytes % side->element;
    side->parts++;
    side->part_most = bytes > side->part_most ? bytes : side->part_most;
    side->head[0] = head[0];
    side->head[1] = head[1];
    memcpy(side->long_message + position, data, bytes);
    if (side->loses_at > 0 && position + bytes == side->loses_at)
        side->out.wire.ended(&side->packets, source);
    return (int64_t)bytes;
}

static inline struct side *fake_side(uint32_t rank, const struct tug_transport *type,
                                     uint32_t packet_bytes, uint32_t noperations, size_t memory) {
    struct side *side = calloc(1, sizeof(*side));
    assert_non_null(side);
    assert_true(joined_begin(&side->fabric, rank, noperations));
    joined_by(&side->fabric, &side->packets, side->streams, &side->out.wire, type, packet_bytes);
    side->fabric.deliver = fake_deliver;
    side->fabric.deliver_part = fake_deliver_part;
    side->fabric.peer_ended = fake_peer_ended;
    side->element = 1;
    side->out.room = FAKE_QUEUE;
    side->out.delivers = UINT32_MAX;
    joined_add_memory(&side->fabric, &side->remote, memory, rank == 0 ? 0xA0 : 0xB0);
    joined_add_memory(&side->fabric, &side->local, memory, rank == 0 ? 0x0A : 0x0B);
    return side;
}

/* a, process 0, and b, process 1. */
static inline void fake_begin(const struct tug_transport *type, uint32_t packet_bytes,
                              uint32_t noperations, size_t memory) {
    allowance = SIZE_MAX;
    a = fake_side(0, type, packet_bytes, noperations, memory);
    b = fake_side(1, type, packet_bytes, noperations, memory);
    a->out.to = &b->out;
    b->out.to = &a->out;
}

static inline void fake_side_end(struct side *side) {
    joined_free_streams(side->streams, &side->out.wire);
    fake_lose(&side->out);
    joined_close(&side->fabric, &side->out.wire);
    free(side->remote.base);
    free(side->local.base);
    free(side);
}

static inline int fake_end(void **state) {
    (void)state;
    fake_side_end(a);
    fake_side_end(b);
    return 0;
}

/* An operation of a on memory of b, with a tag in hand if there is any. At the same offset at both;
 * what is to be refused has none here. */
static inline struct tug_operation *fake_operation(unsigned kind, uint64_t offset, uint64_t bytes) {
    uint32_t tag = TUG_NO_TAG;
    assert_true(tug_tags_take_in_hand(&a->fabric.tags, &tag));
    a->fabric.operations[tag] =
        (struct tug_operation){.kind = (uint8_t)kind,
                               .peer = 1,
                               .key = b->remote.id,
                               .offset = offset,
                               .bytes = bytes,
                               .local = a->local.base + (offset < a->local.bytes ? offset : 0)};
    return &a->fabric.operations[tag];
}

static inline void poll_once(struct side *side) {
    (void)tug_packets_poll(&side->packets);
}

static inline void run(void) {
    for (int i = 0; i < 1000; i++) {
        poll_once(b);
        poll_once(a);
    }
}

#endif
