/* Packets that come from the peers: answers as an honest peer gives them, lies, and records of any
 * kind with any content. */
#include "played.h"

static uint64_t incoming[64 * 8192 / 8];

/* ---- records of any kind ---- */

/* The small number that a record carries in its header. */
static unsigned take_sub(unsigned kind, unsigned choice) {
    if (choice >= 250)
        return take();
    switch (kind) {
    case TUG_RECORD_FETCH:
        return choice % 5 << 4 | (choice & 64 ? 4 : 8);
    case TUG_RECORD_COMPARE:
        return choice & 64 ? 4 : 8;
    case TUG_RECORD_AM:
    case TUG_RECORD_CALL:
    case TUG_RECORD_SIGNAL_AM:
    case TUG_RECORD_PART:
    case TUG_RECORD_LONG_PART:
        return choice;
    case TUG_RECORD_WRITE:
    case TUG_RECORD_SIGNAL:
        return choice & 1;
    case TUG_RECORD_CONTROL:
        return choice % 4;
    case TUG_RECORD_FAILED:
    case TUG_RECORD_REFUSED:
        return 1 + choice % 14;
    case TUG_RECORD_DATA:
    case TUG_RECORD_VALUE:
        return choice < 200 ? 0 : choice % 15;
    default:
        return 0;
    }
}

static size_t take_length(unsigned kind) {
    switch (kind) {
    case TUG_RECORD_WRITE:
    case TUG_RECORD_PART:
    case TUG_RECORD_CONTROL:
    case TUG_RECORD_DATA:
        return take_size() % 65536;
    case TUG_RECORD_AM:
    case TUG_RECORD_CALL:
    case TUG_RECORD_SIGNAL_AM:
        return take_size() % (TUG_AM_MAX_PAYLOAD + 2);
    default:
        return 0;
    }
}

/* Mostly an operation that is out to that peer. */
static uint32_t take_tag(uint32_t source) {
    const unsigned choice = take();
    for (uint32_t i = 0; i < OPERATIONS && choice < 240; i++) {
        const struct live *one = &live[(choice + i) % OPERATIONS];
        if (one->out && (one->peer == source || choice >= 200))
            return (choice + i) % OPERATIONS;
    }
    return choice * UINT32_C(0x01010101);
}

static void add_run(struct tug_packet *packet, uint32_t source, unsigned choice) {
    unsigned char one[sizeof(uint32_t) + 64] = {0};
    const size_t each = 1 + take() % 64;
    memset(one + sizeof(uint32_t), (int)choice, 64);
    if (tug_packet_begin_run(packet, take_tag(source), world_id(choice % 5), take(), each))
        for (unsigned i = choice % 8; i > 0; i--) {
            const uint32_t distance = take() - 128;
            memcpy(one, &distance, sizeof(distance));
            (void)tug_packet_run_on(packet, one, 1, each);
        }
}

static void add_message_run(struct tug_packet *packet, uint32_t source, unsigned choice) {
    const unsigned char data[64] = {(unsigned char)choice};
    const size_t each = 8 + take() % 8 * 8;
    if (tug_packet_begin_am_run(packet, take_tag(source), take() * 2, each))
        for (unsigned i = choice % 8; i > 0 && tug_packet_room(packet) >= each; i--)
            tug_packet_am_run_on(packet, data, each);
}

static void add_long_write(struct tug_packet *packet, uint32_t source, unsigned choice) {
    const uint64_t offset = choice & 32 ? take_number() : take();
    uint64_t *at = tug_packet_add(packet, TUG_RECORD_LONG_WRITE, choice & 1, take_tag(source), 0);
    at[0] = world_id(choice % 5);
    at[1] = offset;
    tug_packet_trail(packet, (uint32_t)take_size() & ~7u);
    if (!(choice & 64) || !tug_packet_can_sign(packet, sizeof(incoming)))
        return;
    at = tug_packet_sign(packet, take_tag(source));
    at[0] = world_id(choice % 5);
    at[1] = 8 * (uint64_t)take();
    at[2] = 1;
}

static void add_long_part(struct tug_packet *packet, uint32_t source, unsigned choice) {
    uint64_t *at = tug_packet_add(packet, TUG_RECORD_LONG_PART, choice, take_tag(source), 0);
    at[0] = take();
    at[1] = take();
    at[2] = take_size();
    tug_packet_trail(packet, (uint32_t)take_size() & ~7u);
}

static void add_long_data(struct tug_packet *packet, uint32_t source) {
    peers[source].lied = true;
    *tug_packet_add(packet, TUG_RECORD_LONG_DATA, 0, take_tag(source), 0) = take_size();
    tug_packet_trail(packet, (uint32_t)take_size() & ~7u);
}

/* A record with words that may be right. A kind that does not exist has the form of FAILED. */
static void add_loose(struct tug_packet *packet, uint32_t source, unsigned kind, unsigned choice,
                      size_t length) {
    uint64_t words[TUG_RECORD_WORDS_MOST] = {0};
    const unsigned form = kind > 0 && kind < TUG_RECORD_KINDS ? kind : TUG_RECORD_FAILED;
    if (kind < TUG_RECORD_DATA) {
        words[0] = choice % 8 < 5 ? world_id(choice % 8) : take_number();
        words[1] = choice & 32 ? take_number() : take();
        for (int i = 2; i < 4; i++)
            words[i] = take_size();
    } else {
        words[0] = choice & 32 ? take_number() : (uint64_t)PIECE * (choice % 32);
    }
    const unsigned sub = take_sub(kind, choice);
    peers[source].refused |= kind == TUG_RECORD_REFUSED;
    peers[source].lied |= kind >= TUG_RECORD_DATA;
    uint64_t *at = tug_packet_add(packet, form, sub, take_tag(source), length);
    ((unsigned char *)(at - 1))[0] = (unsigned char)kind;
    memcpy(at, words, (size_t)tug_record_words[form] * 8);
    memset(at + tug_record_words[form], (int)choice, length);
}

static void add_any(struct tug_packet *packet, uint32_t source, unsigned kind) {
    const unsigned choice = take();
    const unsigned form = kind > 0 && kind < TUG_RECORD_KINDS ? kind : TUG_RECORD_FAILED;
    const size_t length = take_length(kind);
    if (!tug_packet_has_room(packet, form, length))
        return;
    if (kind == TUG_RECORD_RUN && choice < 240)
        add_run(packet, source, choice);
    else if (kind == TUG_RECORD_AM_RUN && choice < 240)
        add_message_run(packet, source, choice);
    else if (kind == TUG_RECORD_LONG_WRITE && choice < 200)
        add_long_write(packet, source, choice);
    else if (kind == TUG_RECORD_LONG_PART && choice < 200)
        add_long_part(packet, source, choice);
    else if (kind == TUG_RECORD_LONG_DATA && choice < 200)
        add_long_data(packet, source);
    else
        add_loose(packet, source, kind, choice, length);
}

/* ---- answers ---- */

static bool is_due(const struct live *one) {
    return one->asked > one->answered || one->value_due;
}

/* Bytes of the next part of a READ, as this peer answers. */
static uint64_t part_of(const struct live *one) {
    const uint64_t left = one->bytes - one->answered;
    if (one->bytes < (one->peer < NODE ? TUG_LONG_LEAST : TUG_MPI_LONG_LEAST))
        return left < PIECE ? left : PIECE;
    return left % 8 != 0 ? left % 8 : left < TUG_LONG_PIECE ? left : TUG_LONG_PIECE;
}

/* Ways in which an answer lies. */
enum { WRONG_PLACE = 7, WRONG_LENGTH = 8 };

static void add_part(struct tug_packet *packet, uint32_t tag, unsigned lie, unsigned status) {
    struct live *one = &live[tag];
    uint64_t piece = part_of(one), position = one->answered;
    const bool is_long = piece > PIECE && status == 0;
    if (lie == WRONG_PLACE)
        position = (uint64_t)PIECE * (take() % 40);
    else if (lie == WRONG_LENGTH)
        piece = is_long ? take_size() & ~7u : take_size() % (PIECE + 1);
    else
        one->answered += piece;
    if (status != 0)
        piece = 0;
    uint64_t *at = tug_packet_add(packet, is_long ? TUG_RECORD_LONG_DATA : TUG_RECORD_DATA, status,
                                  tag, is_long ? 0 : piece);
    at[0] = position;
    if (is_long)
        tug_packet_trail(packet, (uint32_t)piece);
    else
        memset(at + 1, 0x22, piece);
    one->value_due = false;
}

static void add_call_answer(struct tug_packet *packet, uint32_t tag, unsigned lie,
                            unsigned status) {
    const size_t length = status != 0 ? 0 : operations[tag].offset + (lie == WRONG_LENGTH);
    uint64_t *at = tug_packet_add(packet, TUG_RECORD_DATA, status, tag, length);
    at[0] = lie == WRONG_PLACE;
    memset(at + 1, 0x33, length);
    live[tag].value_due = false;
}

/* What an honest peer says next about an operation, or what it would say later. */
static void add_answer_to(struct tug_packet *packet, uint32_t tag) {
    struct live *one = &live[tag];
    const uint8_t kind = operations[tag].kind;
    const unsigned how = take(), lie = how % 16, status = how < 240 ? 0 : -TUG_ERR_KEY;
    const bool due = is_due(one);
    peers[one->peer].lied |= !due || lie == WRONG_PLACE || lie == WRONG_LENGTH;
    if (kind == TUG_OPERATION_READ) {
        add_part(packet, tag, lie, status);
    } else if (kind == TUG_OPERATION_CALL) {
        add_call_answer(packet, tag, lie, status);
    } else if (kind == TUG_OPERATION_FETCH || kind == TUG_OPERATION_COMPARE) {
        *tug_packet_add(packet, TUG_RECORD_VALUE, status, tag, 0) = 17;
        one->value_due = false;
    } else {
        tug_packet_add(packet, TUG_RECORD_FAILED, 1 + how % 14, tag, 0);
    }
}

static void add_answer(struct tug_packet *packet, uint32_t source, bool numbered) {
    const unsigned first = take();
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        const uint32_t tag = (first + i) % OPERATIONS;
        const struct live *one = &live[tag];
        if (numbered && operations[tag].kind == TUG_OPERATION_READ && part_of(one) > PIECE)
            continue;
        if (one->out && one->peer == source && (first >= 224 || is_due(one)) &&
            tug_packet_has_room(packet, TUG_RECORD_DATA, PIECE)) {
            add_answer_to(packet, tag);
            return;
        }
    }
}

static void add_record(struct tug_packet *packet, uint32_t source, bool numbered) {
    const unsigned choice = take();
    if (choice >= 240)
        add_any(packet, source, choice % TUG_RECORD_KINDS);
    else if (choice >= 120 && numbered)
        add_any(packet, source, 1 + choice % TUG_RECORD_CONTROL);
    else
        add_answer(packet, source, numbered);
}

/* ---- packets ---- */

/* The trailer of a packet comes in parts, and perhaps not to its end. */
static void deliver_trailer(struct tug_wire *wire, uint32_t source) {
    const struct tug_packet_header *header = (const struct tug_packet_header *)incoming;
    const uint32_t bytes = header->trailer;
    if (bytes > TUG_LONG_PIECE) { /* a wire ends at such a header */
        peers[source].refused = true;
        wire->arrived(wire->receiver, source, false);
        wire->ended(wire->receiver, source);
        return;
    }
    for (uint32_t come = 0; come < bytes;) {
        size_t now = (size_t)take_size() + 1;
        if (now > bytes - come)
            now = bytes - come;
        unsigned char *place = wire->trailer_address(wire->receiver, source, come, &now);
        if (place != NULL)
            memset(place, 0x44, now);
        reached.placed += place != NULL;
        come += (uint32_t)now;
        const unsigned then = take();
        if (then == 255) {
            peers[source].refused = true;
            wire->arrived(wire->receiver, source, false);
            wire->ended(wire->receiver, source);
            return;
        }
        if (then % 4 == 3)
            (void)tug_packets_poll(fabric.packets);
        else if (then % 8 == 6)
            post();
    }
    const struct tug_stream *stream = stream_to(source);
    reached.read += stream != NULL && stream->nexpected > 0 && stream->expected[0].reading != 0;
    if (bytes > 0)
        wire->arrived(wire->receiver, source, true);
}

/* How a packet is delivered: mostly right, rarely so that the peer is lost after it. */
struct delivery {
    struct tug_wire *wire;
    uint32_t number, applied;
    bool wrong; /* the peer must be lost */
    bool scrambled;
};

static struct delivery choose_delivery(uint32_t source, bool numbered, unsigned oddity) {
    const struct peer *peer = &peers[source];
    const uint32_t under_way = peer->last_sent - peer->last_acked;
    struct delivery d = {.wire = source < NODE ? &shm_wire : &mpi_wire,
                         .number = numbered ? peer->last_came + 1 : 0,
                         .applied = peer->last_acked};
    if (under_way > 0)
        d.applied += oddity % (under_way + 1);
    if (oddity == 255) {
        d.wire = d.wire == &shm_wire ? &mpi_wire : &shm_wire;
        d.wrong = true;
    } else if (oddity == 254) {
        d.applied = peer->last_sent + take() % 12;
        d.wrong = d.applied > peer->last_sent + TUG_STREAM_WINDOW;
    } else if (oddity == 253) {
        d.number = 1 + take() * UINT32_C(0x01000001);
        d.wrong = d.number != peer->last_came + 1;
    }
    d.scrambled = oddity == 252;
    return d;
}

/* Anything in the header but who the packet is from and which one it is. */
static void scramble_header(uint32_t source, uint32_t number) {
    struct tug_packet_header *header = (struct tug_packet_header *)incoming;
    const unsigned word = take() % 5;
    incoming[word] ^= take_number();
    header->source = source;
    header->number = number;
}

/* Delivers a copy, whose bounds the address sanitizer knows. */
static void deliver_copy(struct tug_wire *wire, const struct tug_packet *packet) {
    unsigned char *copy = malloc(packet->used);
    REQUIRE(copy != NULL);
    memcpy(copy, packet->memory, packet->used);
    reached.packets++;
    REQUIRE(wire->receive(wire->receiver, wire, copy, packet->used));
    free(copy);
}

void receive(void) {
    static const unsigned many[] = {0, 3, 8, 40};
    const unsigned mode = take(), oddity = take();
    const uint32_t source = mode % WORLD_RANKS;
    const bool numbered = mode & 32;
    struct peer *peer = &peers[source];
    const uint32_t under_way = peer->last_sent - peer->last_acked;
    struct tug_packet packet;
    tug_packet_begin(&packet, incoming, sizeof(incoming));
    if (numbered)
        add_any(&packet, source, TUG_RECORD_WRITE + take() % TUG_RECORD_CALL);
    for (unsigned records = many[mode >> 6]; records > 0; records--)
        add_record(&packet, source, numbered);
    const struct delivery d = choose_delivery(source, numbered, oddity);
    if (mode & 16)
        packet.flags = d.number != 0 ? TUG_PACKET_LATE : TUG_PACKET_ASKS;
    tug_packet_end(&packet, source, d.number, d.applied, WORLD_CONTEXT);
    if (d.scrambled)
        scramble_header(source, d.number);
    if (d.number == peer->last_came + 1)
        peer->last_came++;
    if (d.applied - peer->last_acked <= under_way)
        peer->last_acked = d.applied;
    deliver_copy(d.wire, &packet);
    deliver_trailer(d.wire, source);
    const struct tug_stream *stream = stream_to(source);
    REQUIRE(!d.wrong || stream->lost);
    /* a packet that was none does not count */
    peer->last_came = stream != NULL ? (uint32_t)stream->applied : 0;
}

void receive_refusal(uint32_t peer) {
    struct tug_wire *wire = peer < NODE ? &shm_wire : &mpi_wire;
    struct tug_packet packet;
    peers[peer].refused = true;
    tug_packet_begin(&packet, incoming, sizeof(incoming));
    tug_packet_add(&packet, TUG_RECORD_REFUSED, -TUG_ERR_INVALID, TUG_NO_TAG, 0);
    tug_packet_end(&packet, peer, 0, peers[peer].last_acked, WORLD_CONTEXT);
    REQUIRE(wire->receive(wire->receiver, wire, incoming, packet.used));
}
