/* The wires, played. What the transport sends is checked here: good packets, with numbers in order,
 * that ask for no more than the operations need. One wire leads to the node, the other one to the
 * ranks elsewhere; trailers that have been given to that it does not let go of before they went. */
#include "played.h"

struct tug_wire shm_wire, mpi_wire;
bool wires_full;

/* ---- what is sent ---- */

static bool expects_value(unsigned kind) {
    return kind == TUG_RECORD_FETCH || kind == TUG_RECORD_COMPARE || kind == TUG_RECORD_CALL;
}

/* Remembers what an honest peer has to answer to a record. */
static void expect_answer(uint32_t peer, const struct tug_record *record) {
    if (record->kind == TUG_RECORD_REFUSED) {
        reached.refused++;
        peers[peer].refused = true;
    }
    if (record->kind >= TUG_RECORD_DATA || record->kind == TUG_RECORD_CONTROL ||
        peers[peer].refused || peers[peer].lied)
        return;
    REQUIRE(record->tag < OPERATIONS);
    struct live *one = &live[record->tag];
    if (record->kind == TUG_RECORD_READ || expects_value(record->kind))
        REQUIRE(one->out && one->peer == peer);
    if (record->kind == TUG_RECORD_READ) {
        REQUIRE(record->words[2] == one->asked);
        REQUIRE(one->asked + record->words[3] <= one->bytes);
        one->asked += record->words[3];
        one->value_due = one->bytes == 0;
    }
    one->value_due |= expects_value(record->kind);
}

/* Reads the packet as the peer would. */
static void check_sent(uint32_t peer, const struct tug_packet *packet) {
    struct tug_packet_reader reader;
    struct tug_record record;
    REQUIRE(packet->used <= packet->capacity);
    REQUIRE(tug_packet_open(&reader, packet->memory, packet->used, WORLD_CONTEXT, WORLD_RANKS) ==
            TUG_PACKET_GOOD);
    REQUIRE(reader.header.source == ME);
    while (tug_packet_next(&reader, &record)) {
        reached.kinds |= 1ul << record.kind;
        expect_answer(peer, &record);
    }
    if (reader.header.number != 0) {
        REQUIRE(reader.header.number == peers[peer].last_sent + 1);
        peers[peer].last_sent++;
    }
    REQUIRE(reader.header.applied <= peers[peer].last_came);
}

/* ---- how it is sent ---- */

/* Reads all of it, so that the address sanitizer looks. */
static void read_all(const volatile unsigned char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        (void)at[i];
}

/* The trailer of a packet goes, which may be long after the packet did. */
static void send_trailer(struct tug_wire *wire, uint32_t peer) {
    struct tug_buffer *buffer = peers[peer].partly_sent;
    peers[peer].partly_sent = NULL;
    read_all(buffer->trailer, buffer->packet.trailer);
    wire->sent(wire->receiver, peer, buffer);
    tug_pool_give(&wire->pool, buffer);
    reached.trailers++;
}

static bool wire_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    REQUIRE(peer < WORLD_RANKS);
    REQUIRE((wire == &shm_wire) == (peer < NODE));
    if (wires_full || peers[peer].partly_sent != NULL)
        return false;
    reached.sent++;
    check_sent(peer, &buffer->packet);
    if (buffer->packet.trailer == 0) {
        tug_pool_give(&wire->pool, buffer);
        return true;
    }
    peers[peer].partly_sent = buffer;
    if (take() % 2 == 0)
        send_trailer(wire, peer);
    return true;
}

/* Is a trailer under way to that peer by this wire? Every row hears of a loss. */
static bool sends_trailer(const struct tug_wire *wire, uint32_t peer) {
    return peers[peer].partly_sent != NULL && (wire == &shm_wire) == (peer < NODE);
}

static void wire_abandon(struct tug_wire *wire, uint32_t peer) {
    if (!sends_trailer(wire, peer))
        return;
    tug_pool_give(&wire->pool, peers[peer].partly_sent);
    peers[peer].partly_sent = NULL;
}

static void wire_keep(struct tug_wire *wire, uint32_t peer) {
    if (sends_trailer(wire, peer))
        wire->keeps(wire->receiver, peers[peer].partly_sent);
}

static bool wire_poll(void *state) {
    struct tug_wire *wire = state;
    for (uint32_t peer = 0; peer < WORLD_RANKS && !wires_full; peer++)
        if (sends_trailer(wire, peer))
            send_trailer(wire, peer);
    return true;
}

static void wire_close(void *state) {
    struct tug_wire *wire = state;
    REQUIRE(wire->pool.nout == 0);
    tug_pool_fini(&wire->pool);
}

/* ---- how the transport opens them ---- */

static bool in_node(void *state, uint32_t peer) {
    (void)state;
    return peer < NODE;
}

static int open_shm(struct tug_fabric *of, void **state, char *reason) {
    (void)reason;
    shm_wire = (struct tug_wire){.row = &tug_transport_shm, .fabric = of};
    shm_wire.pool.bytes = 8192 - 16;
    *state = &shm_wire;
    return 0;
}

static int open_mpi(struct tug_fabric *of, void **state, char *reason) {
    (void)reason;
    mpi_wire = (struct tug_wire){.row = &tug_transport_mpi, .fabric = of};
    mpi_wire.pool.bytes = 65536;
    *state = &mpi_wire;
    return 0;
}

/* Carries trailers, as the row of sockets does. */
const struct tug_transport tug_transport_shm = {
    .name = "played, with trailers",
    .open = open_shm,
    .close = wire_close,
    .reaches = in_node,
    .poll = wire_poll,
    .send = wire_send,
    .longs = {TUG_LONG_LEAST, TUG_LONG_SIGNALLED, TUG_LONG_PIECE, TUG_LONG_PIECE, TUG_LONGS_MOST},
    .lost = wire_abandon};

/* As the row of the host's messages does. */
const struct tug_transport tug_transport_mpi = {.name = "played, keeps trailers",
                                                .open = open_mpi,
                                                .close = wire_close,
                                                .poll = wire_poll,
                                                .send = wire_send,
                                                .longs = {TUG_MPI_LONG_LEAST, TUG_MPI_LONG_LEAST,
                                                          TUG_LONG_PIECE, TUG_STAGE_BYTES,
                                                          TUG_LONGS_MOST},
                                                .lost = wire_keep};

const struct tug_transport tug_transport_ofi = {.name = "not played"};
const struct tug_transport tug_transport_tcp = {.name = "not played"};
