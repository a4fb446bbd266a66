/* The packet transport among peers that say anything. The input is a script: operations are posted,
 * packets of all kinds come in, right and wrong ones, wires are full and large blocks end or not.
 *
 * Whatever comes, what the transport sends is good packets with numbers in order; an operation is
 * completed once; its local memory, which is freed then, is not touched afterwards (the address
 * sanitizer looks); requests write registered memory only; a peer that refuses ends all that was
 * left for it.
 *
 * Wires, the host MPI and the layer above are played here. One thread.
 */
#include <sanitizer/asan_interface.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "engine/engine.h"
#include "host/agreement.h"
#include "host/host.h"
#include "node/segment.h"
#include "tests/fuzz/world.h"
#include "transport/packets/packets.h"
#include "transport/packets/wire.h"
#include "transport/transport.h"

#define PAGE 32768u
#define GUARD 65536u
#define CANARY 0xc5
#define OPERATIONS 32u
#define TRANSFERS 256
#define WINDOW TUG_STREAM_WINDOW
#define PIECE TUG_READ_PIECE
#define ME 0u
#define NODE 3u /* ranks 0, 1 and 2 are a node */

/* One is larger than a part of a READ, and than a packet of the smaller wire. */
static const uint32_t sizes_of_memory[WORLD_REGISTRATIONS] = {8, 100, 20000, 64};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* ---- the script ---- */

static const uint8_t *script, *script_end;

static unsigned take(void) {
    return script < script_end ? *script++ : 0;
}

static uint64_t take_number(void) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | take();
    return value;
}

/* Sizes around which something changes. */
static uint64_t take_size(void) {
    static const uint32_t sizes[] = {0,         1,     4,     8,     23,         24,    25,
                                     64,        100,   4096,  4097,  PIECE - 1,  PIECE, PIECE + 1,
                                     3 * PIECE, 65535, 65536, 70000, 40 * PIECE, 8192,  20000};
    return sizes[take() % (sizeof(sizes) / sizeof(sizes[0]))];
}

/* ---- operations, as this side and an honest peer know them ---- */

static struct live {
    bool out, local_told, again;
    unsigned char *local;
    unsigned char *answer; /* CALL */
    uint32_t peer;
    uint64_t bytes;
    uint64_t asked, answered; /* READ: bytes */
    bool value_due;           /* FETCH, COMPARE, CALL */
    bool ready_due, done_due; /* BULK_WRITE */
} live[OPERATIONS];

/* ---- what the transport stands on ---- */

static struct {
    unsigned long packets, sent, refused, completed, failed, messages, blocks, kinds, trailers,
        placed, read;
} reached;

struct tug_settings tug_settings;

void tug_log(enum tug_verbose level, const char *format, ...) {
    char line[1000];
    va_list arguments;
    (void)level;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments); /* the arguments fit */
    va_end(arguments);
}

bool tug_all_agree(MPI_Comm comm, bool mine) {
    (void)comm;
    return mine;
}

struct wire {
    struct tug_wire wire;
    bool open;
};

static struct wire shm_wire, mpi_wire;
static bool wires_full;
static bool refused[WORLD_RANKS]; /* by either side: all is over between the two */
static bool lied[WORLD_RANKS];    /* about what it was asked */
static uint32_t last_sent[WORLD_RANKS], last_acked[WORLD_RANKS], last_came[WORLD_RANKS];
static struct tug_fabric fabric;

/* Now an answer is due. */
static void note_request(uint32_t peer, const struct tug_record *record) {
    if (record->kind == TUG_RECORD_REFUSED) {
        reached.refused++;
        refused[peer] = true;
    }
    if (record->kind >= TUG_RECORD_DATA || record->kind == TUG_RECORD_CONTROL || refused[peer] ||
        lied[peer])
        return;
    REQUIRE(record->tag < OPERATIONS);
    struct live *one = &live[record->tag];
    if (record->kind == TUG_RECORD_READ || record->kind == TUG_RECORD_FETCH ||
        record->kind == TUG_RECORD_COMPARE || record->kind == TUG_RECORD_CALL)
        REQUIRE(one->out && one->peer == peer);
    if (record->kind == TUG_RECORD_READ) {
        REQUIRE(record->words[2] == one->asked);
        REQUIRE(one->asked + record->words[3] <= one->bytes);
        one->asked += record->words[3];
        one->value_due = one->bytes == 0;
    }
    one->value_due |= record->kind == TUG_RECORD_FETCH || record->kind == TUG_RECORD_COMPARE ||
                      record->kind == TUG_RECORD_CALL;
    one->ready_due |= record->kind == TUG_RECORD_BULK_WRITE;
}

static unsigned long touched;

static void touch(const unsigned char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        touched = touched * 31 + at[i];
}

/* As the peer would see it. */
static void look_at_sent(uint32_t peer, const struct tug_packet *packet) {
    struct tug_packet_reader reader;
    struct tug_record record;
    REQUIRE(packet->used <= packet->capacity);
    REQUIRE(tug_packet_open(&reader, packet->memory, packet->used, WORLD_SESSION, WORLD_RANKS) ==
            TUG_PACKET_GOOD);
    REQUIRE(reader.header.source == ME);
    while (tug_packet_next(&reader, &record)) {
        reached.kinds |= 1ul << record.kind;
        note_request(peer, &record);
    }
    if (reader.header.number != 0) {
        REQUIRE(reader.header.number == last_sent[peer] + 1);
        last_sent[peer]++;
    }
    REQUIRE(reader.header.applied <= last_came[peer]);
}

static struct tug_buffer *held[WORLD_RANKS]; /* sent in part */

/* What follows a packet is read when it goes, which may be long after it was handed over. */
static void let_go(struct tug_wire *wire, uint32_t peer) {
    struct tug_buffer *buffer = held[peer];
    held[peer] = NULL;
    touch(buffer->trailer, buffer->packet.trailer);
    wire->sent(wire->receiver, peer, buffer);
    tug_pool_give(&wire->pool, buffer);
    reached.trailers++;
}

static bool wire_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    REQUIRE(peer < WORLD_RANKS);
    REQUIRE((wire == &shm_wire.wire) == (peer < NODE));
    if (wires_full || held[peer] != NULL)
        return false;
    reached.sent++;
    look_at_sent(peer, &buffer->packet);
    if (buffer->packet.trailer == 0) {
        tug_pool_give(&wire->pool, buffer);
        return true;
    }
    REQUIRE(wire == &shm_wire.wire);
    held[peer] = buffer;
    if (take() % 2 == 0)
        let_go(wire, peer);
    return true;
}

static void wire_abandon(struct tug_wire *wire, uint32_t peer) {
    if (held[peer] != NULL)
        tug_pool_give(&wire->pool, held[peer]);
    held[peer] = NULL;
}

static bool wire_poll(struct tug_wire *wire) {
    for (uint32_t peer = 0; peer < NODE && wire == &shm_wire.wire && !wires_full; peer++)
        if (held[peer] != NULL)
            let_go(wire, peer);
    return true;
}

static void wire_close(struct tug_wire *wire) {
    REQUIRE(wire->pool.nout == 0);
    tug_pool_fini(&wire->pool);
}

static const struct tug_wire_type wire_type = {
    .name = "played", .send = wire_send, .poll = wire_poll, .close = wire_close};

/* This one carries trailers, as that of sockets does. */
static const struct tug_wire_type trailing_type = {.name = "played, with trailers",
                                                   .send = wire_send,
                                                   .abandon = wire_abandon,
                                                   .poll = wire_poll,
                                                   .close = wire_close};

static struct tug_wire *open_wire(struct wire *wire, struct tug_fabric *of, uint32_t bytes,
                                  int *status) {
    *status = 0;
    wire->wire =
        (struct tug_wire){.type = wire == &shm_wire ? &trailing_type : &wire_type, .fabric = of};
    wire->wire.pool.bytes = bytes;
    return &wire->wire;
}

struct tug_wire *tug_wire_shm_open(struct tug_fabric *of, int *status) {
    return open_wire(&shm_wire, of, 8192 - 16, status);
}

bool tug_engine_enter_host(void) {
    return true;
}

void tug_engine_leave_host(void) {}

struct tug_wire *tug_wire_mpi_make(struct tug_fabric *of) {
    (void)of;
    return NULL;
}

struct tug_wire *tug_wire_mpi_open(struct tug_fabric *of, int *status) {
    return open_wire(&mpi_wire, of, 65536, status);
}

struct tug_wire *tug_wire_tcp_open(struct tug_fabric *of, const char **reason) {
    (void)of;
    *reason = "it is not played";
    return NULL;
}

/* A transport of another kind, to which messages can come. */
static void take_control(void *state, uint32_t peer, const void *data, size_t bytes) {
    unsigned sum = 0;
    REQUIRE(state == &reached && peer < WORLD_RANKS);
    for (size_t i = 0; i < bytes; i++)
        sum += ((const unsigned char *)data)[i];
    reached.messages += bytes > 0 || sum > 0;
}

const struct tug_transport tug_transport_verbs = {.name = "played", .control = take_control};
const struct tug_transport tug_transport_native = {.name = "without messages"};

static int deliver(struct tug_fabric *of, uint32_t source, unsigned handler, const void *payloads,
                   size_t bytes, size_t n) {
    unsigned sum = 0;
    REQUIRE(of == &fabric && source < WORLD_RANKS && handler < TUG_AM_HANDLERS);
    REQUIRE(bytes <= TUG_AM_MAX_PAYLOAD && (n == 1 || (bytes % 8 == 0 && bytes > 0)));
    for (size_t i = 0; i < bytes * n; i++)
        sum += ((const unsigned char *)payloads)[i];
    reached.messages += n;
    return sum % 5 == 4 ? TUG_ERR_INVALID : 0;
}

/* Calls that have come and are answered later. */
static struct tug_caller waiting[8];
static unsigned nwaiting;
static void *transport;

static const struct tug_stream *stream_to(uint32_t peer) {
    const struct tug_packets *packets = transport;
    return packets->streams[peer];
}

static void answer_waiting(void) {
    static const unsigned char answer[TUG_AM_MAX_PAYLOAD];
    while (nwaiting > 0)
        tug_packets_reply(transport, waiting[--nwaiting], 0, answer,
                          take_size() % (TUG_AM_MAX_PAYLOAD + 1));
}

static int called(struct tug_fabric *of, struct tug_caller caller, unsigned handler,
                  const void *payload, size_t bytes) {
    if (deliver(of, (uint32_t)caller.process, handler, payload, bytes, 1) != 0)
        return TUG_ERR_INVALID;
    waiting[nwaiting++] = caller;
    if (handler % 2 == 0 || nwaiting == 8)
        answer_waiting();
    return 0;
}

/* ---- the host MPI: large blocks ---- */

struct transfer {
    bool used, cancelled, into;
    unsigned char *place;
    size_t bytes;
};

static struct transfer transfers[TRANSFERS];
static bool transfers_end;
static bool taken_back; /* the one that ended last */
struct tug_host tug_host;

static void begin(void *place, MPI_Count count, bool into, MPI_Request *request) {
    int i = 0;
    while (i < TRANSFERS && transfers[i].used)
        i++;
    REQUIRE(i < TRANSFERS);
    transfers[i] =
        (struct transfer){.used = true, .into = into, .place = place, .bytes = (size_t)count};
    *request = (MPI_Request)(i + 1);
    reached.blocks++;
}

static int irecv(void *place, MPI_Count count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                 MPI_Request *request) {
    (void)type, (void)comm;
    REQUIRE(peer >= 0 && peer < (int)WORLD_RANKS && tag > 0 && count >= 0);
    *request = MPI_REQUEST_NULL; /* a sink has had its block */
    if (count > 0)
        begin(place, count, true, request);
    return MPI_SUCCESS;
}

static int isend(const void *place, MPI_Count count, MPI_Datatype type, int peer, int tag,
                 MPI_Comm comm, MPI_Request *request) {
    (void)type, (void)comm;
    REQUIRE(peer >= 0 && peer < (int)WORLD_RANKS && tag > 0 && count >= 0);
    begin((void *)(uintptr_t)place, count, false, request);
    return MPI_SUCCESS;
}

static int cancel(MPI_Request *request) {
    if (*request != MPI_REQUEST_NULL)
        transfers[*request - 1].cancelled = true;
    return MPI_SUCCESS;
}

/* A transfer touches all its memory when it ends; one that was cancelled does if the cancellation
 * came too late. */
static int test(MPI_Request *request, int *done, MPI_Status *status) {
    (void)status;
    *done = 1;
    if (*request == MPI_REQUEST_NULL)
        return MPI_SUCCESS;
    struct transfer *transfer = &transfers[*request - 1];
    REQUIRE(transfer->used);
    *done = transfers_end || transfer->cancelled;
    if (!*done)
        return MPI_SUCCESS;
    const bool late = transfer->cancelled && take() % 2 == 1;
    taken_back = transfer->cancelled && !late;
    if (transfer->into && (!transfer->cancelled || late))
        memset(transfer->place, CANARY, transfer->bytes);
    if (transfer->bytes > 0)
        REQUIRE(__asan_region_is_poisoned(transfer->place, transfer->bytes) == NULL);
    transfer->used = false;
    *request = MPI_REQUEST_NULL;
    return !transfer->cancelled && take() % 16 == 15 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int test_cancelled(const MPI_Status *status, int *flag) {
    (void)status;
    *flag = taken_back;
    return MPI_SUCCESS;
}

/* ---- the layer above ---- */

static struct tug_operation operations[OPERATIONS];
static unsigned depth;

static void post(void);

static void told_local(void *d, int status) {
    struct live *one = d;
    (void)status;
    REQUIRE(one->out && !one->local_told);
    one->local_told = true;
}

/* No message may have the memory of an operation that is complete. */
static void look_at_transfers(const unsigned char *local) {
    for (int i = 0; i < TRANSFERS && local != NULL; i++)
        REQUIRE(!transfers[i].used || transfers[i].place != local);
}

static void completed(void *d, int status) {
    struct live *one = d;
    REQUIRE(one->out);
    look_at_transfers(one->local);
    for (uint32_t peer = 0; peer < WORLD_RANKS && one->local != NULL; peer++)
        REQUIRE(held[peer] == NULL || held[peer]->trailer < one->local ||
                held[peer]->trailer >= one->local + one->bytes);
    REQUIRE(status <= 0 && status >= TUG_ERR_DEVICE);
    reached.completed++;
    reached.failed += status != 0;
    refused[one->peer] |= status == TUG_ERR_PEER;
    one->out = false;
    free(one->local);
    free(one->answer);
    one->local = one->answer = NULL;
    if (one->again && status == 0 && depth < 3) {
        depth++;
        post();
        depth--;
    }
}

static uint64_t size_of(unsigned kind) {
    const uint64_t bytes = take_size();
    if (kind == TUG_OPERATION_FETCH || kind == TUG_OPERATION_COMPARE)
        return bytes % 2 == 0 ? 8 : 4;
    if (kind >= TUG_OPERATION_AM && bytes > TUG_AM_MAX_PAYLOAD)
        return TUG_AM_MAX_PAYLOAD;
    return bytes;
}

/* As the layer above fills operations in. */
static void post(void) {
    uint32_t tag;
    if (!tug_tags_take(&fabric.tags, &tag))
        return;
    struct tug_operation *operation = &operations[tag];
    struct live *one = &live[tag];
    const unsigned choice = take();
    const unsigned kind = TUG_OPERATION_READ + choice % 6;
    const bool sends = kind == TUG_OPERATION_WRITE || kind >= TUG_OPERATION_AM;
    REQUIRE(!one->out);
    *one = (struct live){.out = true, .again = choice >> 7};
    *operation = (struct tug_operation){.key = world_id(choice % 4),
                                        .op = kind == TUG_OPERATION_FETCH ? choice / 5 % 5 : 0,
                                        .on_complete = {completed, one}};
    operation->peer = take() % WORLD_RANKS;
    operation->bytes = size_of(kind);
    operation->offset = take();
    one->local = malloc(operation->bytes);
    REQUIRE(one->local != NULL || operation->bytes == 0);
    one->peer = operation->peer;
    one->bytes = operation->bytes;
    if (operation->bytes > 0)
        one->local[0] = one->local[operation->bytes - 1] = 0x11;
    operation->local = one->local;
    if (kind == TUG_OPERATION_CALL) {
        operation->offset = choice % 64;
        one->answer = malloc(operation->offset);
        REQUIRE(one->answer != NULL || operation->offset == 0);
        operation->address = (uint64_t)(uintptr_t)one->answer;
    }
    if (sends) {
        operation->on_local = (struct tug_callback){told_local, one};
        if (operation->bytes <= TUG_OPERATION_INLINE) {
            memcpy(operation->data, one->local, operation->bytes);
            operation->local = NULL;
        }
    } else if (kind != TUG_OPERATION_READ && choice & 64) {
        operation->local = NULL; /* nobody wants the old value */
    }
    if (kind == TUG_OPERATION_FETCH || kind == TUG_OPERATION_COMPARE)
        operation->operand = operation->compare = choice;
    operation->kind = (uint8_t)kind;
    fabric.out++;
    tug_transport_packets.post(transport, operation);
}

/* ---- operations that only count ---- */

static uint64_t uncounted[WORLD_RANKS];

static void count_many(void *d, uint64_t n) {
    uint64_t *mine = d;
    REQUIRE(n <= *mine);
    *mine -= n;
    reached.completed += n;
}

static void count_one(void *d, int status) {
    REQUIRE(status <= 0 && status >= TUG_ERR_DEVICE);
    count_many(d, 1);
    reached.failed += status != 0;
    refused[(uint64_t *)d - uncounted] |= status == TUG_ERR_PEER;
}

static void post_one_counting(const struct tug_operation *like) {
    uint32_t tag;
    uint64_t *mine = &uncounted[like->peer];
    ++*mine;
    if (like->kind == TUG_OPERATION_WRITE &&
        tug_packets_write_on(transport, like->peer, like->key, like->offset, like->data,
                             like->bytes, mine))
        return;
    if (like->kind == TUG_OPERATION_AM &&
        tug_packets_message_on(transport, like->peer, like->op, like->data, like->bytes, mine))
        return;
    if (!tug_tags_take(&fabric.tags, &tag)) {
        --*mine;
        return;
    }
    REQUIRE(!live[tag].out);
    operations[tag] = *like;
    operations[tag].on_complete = (struct tug_callback){count_one, mine};
    fabric.out++;
    tug_transport_packets.post(transport, &operations[tag]);
}

/* Some of a kind, to one peer. */
static void post_counting(void) {
    const unsigned choice = take();
    struct tug_operation like = {.kind = choice & 64 ? TUG_OPERATION_AM : TUG_OPERATION_WRITE,
                                 .key = world_id(choice % 4),
                                 .peer = take() % WORLD_RANKS,
                                 .bytes = take() % (TUG_OPERATION_INLINE + 1)};
    for (unsigned i = choice % 32; i > 0; i--) {
        like.offset = take();
        post_one_counting(&like);
    }
}

/* ---- packets that come ---- */

static uint64_t incoming[64 * 8192 / 8];

static unsigned sub_of(unsigned kind, unsigned choice) {
    if (choice >= 250)
        return take();
    switch (kind) {
    case TUG_RECORD_FETCH:
        return choice % 5 << 4 | (choice & 64 ? 4 : 8);
    case TUG_RECORD_COMPARE:
        return choice & 64 ? 4 : 8;
    case TUG_RECORD_AM:
    case TUG_RECORD_CALL:
        return choice;
    case TUG_RECORD_CONTROL:
        return choice % 4;
    case TUG_RECORD_FAILED:
    case TUG_RECORD_REFUSED:
        return 1 + choice % 14;
    case TUG_RECORD_DATA:
    case TUG_RECORD_VALUE:
    case TUG_RECORD_BULK_DONE:
        return choice < 200 ? 0 : choice % 15;
    default:
        return 0;
    }
}

static size_t length_of(unsigned kind) {
    switch (kind) {
    case TUG_RECORD_WRITE:
    case TUG_RECORD_CONTROL:
    case TUG_RECORD_DATA:
        return take_size() % 65536;
    case TUG_RECORD_AM:
    case TUG_RECORD_CALL:
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

static void add_any(struct tug_packet *packet, uint32_t source, unsigned kind) {
    const unsigned choice = take();
    uint64_t words[TUG_RECORD_WORDS_MOST] = {0};
    const unsigned known = kind > 0 && kind < TUG_RECORD_KINDS ? kind : TUG_RECORD_FAILED;
    const size_t length = length_of(kind);
    if (!tug_packet_has_room(packet, known, length))
        return;
    if (kind == TUG_RECORD_RUN && choice < 240) {
        const unsigned char data[64] = {(unsigned char)choice};
        const size_t each = 1 + take() % sizeof(data);
        if (tug_packet_begin_run(packet, take_tag(source), each))
            for (unsigned i = choice % 8; i > 0 && tug_packet_runs(packet, each); i--)
                tug_packet_run_on(packet, packet->offset + take() - 128, data, each);
        return;
    }
    if (kind == TUG_RECORD_AM_RUN && choice < 240) {
        const unsigned char data[64] = {(unsigned char)choice};
        const size_t each = 8 + take() % 8 * 8;
        if (tug_packet_begin_am_run(packet, take_tag(source), take() * 2, each))
            for (unsigned i = choice % 8; i > 0 && tug_packet_room(packet) >= each; i--)
                tug_packet_am_run_on(packet, data, each);
        return;
    }
    if (kind == TUG_RECORD_AGAIN && choice < 240) {
        unsigned char *place = (unsigned char *)tug_packet_add_again(
            packet, packet->offset + take() - 128, choice, 1 + take() % 64);
        memset(place, (int)choice, (size_t)(packet->memory + packet->used - place));
        return;
    }
    if (kind == TUG_RECORD_LONG_WRITE && choice < 200) {
        const uint64_t offset = choice & 32 ? take_number() : take();
        uint64_t *at = tug_packet_add(packet, kind, 0, take_tag(source), 0);
        at[0] = world_id(choice % 5);
        at[1] = offset;
        tug_packet_trail(packet, (uint32_t)take_size() & ~7u);
        return;
    }
    if (kind == TUG_RECORD_LONG_DATA && choice < 200) {
        lied[source] = true;
        *tug_packet_add(packet, kind, 0, take_tag(source), 0) = take_size();
        tug_packet_trail(packet, (uint32_t)take_size() & ~7u);
        return;
    }
    if (kind < TUG_RECORD_DATA) {
        words[0] = choice % 8 < 5 ? world_id(choice % 8) : take_number();
        words[1] = choice & 32 ? take_number() : take();
        for (int i = 2; i < 4; i++)
            words[i] = take_size();
    } else {
        words[0] = choice & 32 ? take_number() : (uint64_t)PIECE * (choice % 32);
    }
    const unsigned sub = sub_of(kind, choice);
    refused[source] |= kind == TUG_RECORD_REFUSED;
    lied[source] |= kind >= TUG_RECORD_DATA;
    uint64_t *at = tug_packet_add(packet, known, sub, take_tag(source), length);
    if (kind == TUG_RECORD_WRITE)
        packet->offset = words[1];
    ((unsigned char *)(at - 1))[0] = (unsigned char)kind;
    memcpy(at, words, (size_t)tug_record_words[known] * 8);
    memset(at + tug_record_words[known], (int)choice, length);
}

static bool read_due(const struct live *one) {
    return one->asked > one->answered;
}

static bool is_due(const struct live *one) {
    return read_due(one) || one->value_due || one->ready_due || one->done_due;
}

/* Bytes of the next part of a READ. */
static uint64_t part_of(const struct live *one) {
    const uint64_t left = one->bytes - one->answered;
    if (one->peer >= NODE || one->bytes < TUG_LONG_LEAST)
        return left < PIECE ? left : PIECE;
    return left % 8 != 0 ? left % 8 : left < TUG_TRAILER_MOST ? left : TUG_TRAILER_MOST;
}

/* A part of a READ; how: 7 and 8 are lies. */
static void add_part(struct tug_packet *packet, uint32_t tag, unsigned how, unsigned status) {
    struct live *one = &live[tag];
    uint64_t piece = part_of(one), position = one->answered;
    const bool is_long = piece > PIECE && status == 0;
    if (how == 7)
        position = (uint64_t)PIECE * (take() % 40);
    else if (how == 8)
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

/* What an honest peer says about an operation next, or what it would say later. */
static void add_due(struct tug_packet *packet, uint32_t tag) {
    struct live *one = &live[tag];
    const uint8_t kind = operations[tag].kind;
    const unsigned how = take(), status = how < 240 ? 0 : -TUG_ERR_KEY;
    const bool due = is_due(one);
    lied[one->peer] |= !due || how % 16 == 7 || how % 16 == 8;
    if (kind == TUG_OPERATION_READ) {
        add_part(packet, tag, how % 16, status);
    } else if (kind == TUG_OPERATION_CALL) {
        const size_t length = status != 0 ? 0 : operations[tag].offset + (how % 16 == 8);
        uint64_t *at = tug_packet_add(packet, TUG_RECORD_DATA, status, tag, length);
        at[0] = how % 16 == 7;
        memset(at + 1, 0x33, length);
        one->value_due = false;
    } else if (kind == TUG_OPERATION_FETCH || kind == TUG_OPERATION_COMPARE) {
        *tug_packet_add(packet, TUG_RECORD_VALUE, status, tag, 0) = 17;
        one->value_due = false;
    } else if (one->ready_due) {
        tug_packet_add(packet, status == 0 ? TUG_RECORD_BULK_READY : TUG_RECORD_FAILED, status, tag,
                       0);
        one->ready_due = false;
        one->done_due = status == 0;
    } else {
        tug_packet_add(packet, due || how & 1 ? TUG_RECORD_BULK_DONE : TUG_RECORD_BULK_READY,
                       due || how & 1 ? status : 0, tag, 0);
        one->done_due = false;
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
            add_due(packet, tag);
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

/* What follows the packet comes as it comes, or not to its end. A wire that finds nonsense in the
 * header ends. */
static void deliver_trailer(struct wire *wire, uint32_t source) {
    const struct tug_packet_header *header = (const struct tug_packet_header *)incoming;
    const uint32_t bytes = header->trailer;
    if (wire != &shm_wire || bytes > TUG_TRAILER_MOST)
        return;
    for (uint32_t come = 0; come < bytes;) {
        uint32_t now = (uint32_t)take_size() + 1;
        if (now > bytes - come)
            now = bytes - come;
        unsigned char *place = wire->wire.place(wire->wire.receiver, source, come);
        if (place != NULL)
            memset(place, 0x44, now);
        reached.placed += place != NULL;
        come += now;
        const unsigned then = take();
        if (then == 255) {
            refused[source] = true;
            wire->wire.arrived(wire->wire.receiver, source, false);
            wire->wire.ended(wire->wire.receiver, source);
            return;
        }
        if (then % 4 == 3)
            (void)tug_transport_packets.poll(transport);
        else if (then % 8 == 6)
            post();
    }
    const struct tug_stream *stream = stream_to(source);
    reached.read += stream != NULL && stream->reading != TUG_NO_TAG;
    if (bytes > 0)
        wire->wire.arrived(wire->wire.receiver, source, true);
}

/* Rarely a header that is wrong: after that the peer is lost. */
static void receive(void) {
    const unsigned mode = take(), oddity = take();
    const uint32_t source = mode % WORLD_RANKS;
    const bool numbered = mode & 32;
    struct wire *wire = source < NODE ? &shm_wire : &mpi_wire;
    uint32_t number = numbered ? last_came[source] + 1 : 0, applied = last_acked[source];
    struct tug_packet packet;
    tug_packet_begin(&packet, incoming, sizeof(incoming));
    static const unsigned many[] = {0, 3, 8, 40};
    if (numbered)
        add_any(&packet, source, TUG_RECORD_WRITE + take() % TUG_RECORD_CALL);
    for (unsigned records = many[mode >> 6]; records > 0; records--)
        add_record(&packet, source, numbered);
    const uint32_t under_way = last_sent[source] - applied;
    if (under_way > 0)
        applied += oddity % (under_way + 1);
    bool wrong = false;
    if (oddity == 255) {
        wire = wire == &shm_wire ? &mpi_wire : &shm_wire;
        wrong = true;
    } else if (oddity == 254) {
        applied = last_sent[source] + take() % 12;
        wrong = applied > last_sent[source] + WINDOW;
    } else if (oddity == 253) {
        number = 1 + take() * UINT32_C(0x01000001);
        wrong = number != last_came[source] + 1;
    }
    tug_packet_end(&packet, source, number, applied, WORLD_SESSION);
    if (oddity == 252) { /* anything in the header, but who it is from and which it is */
        struct tug_packet_header *header = (struct tug_packet_header *)incoming;
        const unsigned word = take() % 5;
        incoming[word] ^= take_number();
        header->source = source;
        header->number = number;
    }
    if (number == last_came[source] + 1)
        last_came[source]++;
    if (applied - last_acked[source] <= under_way)
        last_acked[source] = applied;
    reached.packets++;
    unsigned char *copy = malloc(packet.used);
    REQUIRE(copy != NULL);
    memcpy(copy, packet.memory, packet.used);
    wire->wire.receive(wire->wire.receiver, &wire->wire, copy, packet.used);
    free(copy);
    deliver_trailer(wire, source);
    const struct tug_stream *stream = stream_to(source);
    REQUIRE(!wrong || stream->lost);
    /* what was no packet does not count */
    last_came[source] = stream != NULL ? (uint32_t)stream->applied : 0;
}

/* ---- the world ---- */

static struct tug_registration registrations[WORLD_REGISTRATIONS];
static unsigned char *pages[WORLD_REGISTRATIONS]; /* PAGE bytes each, then closed ones */
static unsigned char canaries[PAGE];

static void report(void) {
    const int kinds = __builtin_popcountl(reached.kinds);
    /* all kinds of record but CONTROL, which needs another transport to send it, and AGAIN, which
     * reads as a WRITE */
    const bool enough = kinds == TUG_RECORD_KINDS - 3 && reached.completed > reached.failed &&
                        reached.messages > 0 && reached.blocks > 0 && reached.refused > 0 &&
                        reached.trailers > 0 && reached.placed > 0 && reached.read > 0;
    fprintf(
        stderr,
        "reached: %lu packets came, %lu were sent, %lu were refused, %lu operations ended, "
        "%lu of them failed, %lu messages, %lu blocks, %lu and %lu trailers, %lu long reads, %d "
        "kinds were sent: %s\n",
        reached.packets, reached.sent, reached.refused, reached.completed, reached.failed,
        reached.messages, reached.blocks, reached.trailers, reached.placed, reached.read, kinds,
        enough ? "enough" : "too little");
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    tug_host.Irecv_c = irecv;
    tug_host.Isend_c = isend;
    tug_host.Cancel = cancel;
    tug_host.Test = test;
    tug_host.Test_cancelled = test_cancelled;
    memset(canaries, CANARY, PAGE);
    for (uint32_t i = 0; i < WORLD_REGISTRATIONS; i++) {
        pages[i] = mmap(NULL, (size_t)PAGE + GUARD, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(pages[i] != MAP_FAILED);
        REQUIRE(mprotect(pages[i] + PAGE, GUARD, PROT_NONE) == 0);
        memset(pages[i], CANARY, PAGE);
        registrations[i].bytes = sizes_of_memory[i];
        registrations[i].base = pages[i] + PAGE - sizes_of_memory[i];
    }
    atexit(report);
    return 0;
}

static void begin_world(void) {
    static uint32_t node_ranks[NODE] = {0, 1, 2};
    memset(transfers, 0, sizeof(transfers));
    memset(live, 0, sizeof(live));
    memset(uncounted, 0, sizeof(uncounted));
    memset(refused, 0, sizeof(refused));
    memset(lied, 0, sizeof(lied));
    memset((void *)held, 0, sizeof(held));
    memset(last_sent, 0, sizeof(last_sent));
    memset(last_acked, 0, sizeof(last_acked));
    memset(last_came, 0, sizeof(last_came));
    memset(operations, 0, sizeof(operations));
    wires_full = transfers_end = false;
    nwaiting = 0;
    tug_settings.aggregate = true;
    fabric = (struct tug_fabric){.rank = ME,
                                 .nranks = WORLD_RANKS,
                                 .node_size = NODE,
                                 .node_ranks = node_ranks,
                                 .session = WORLD_SESSION,
                                 .ways = TUG_WAY_SHM | TUG_WAY_MPI,
                                 .operations = operations,
                                 .noperations = OPERATIONS,
                                 .deliver = deliver,
                                 .called = called,
                                 .counter = count_one,
                                 .count = count_many};
    REQUIRE(tug_tags_init(&fabric.tags, OPERATIONS) == 0);
    REQUIRE(tug_memory_table_init(&fabric.memory) == 0);
    for (uint32_t i = 0; i < WORLD_REGISTRATIONS; i++) {
        registrations[i].serving = 0;
        REQUIRE(tug_memory_add(&fabric.memory, &registrations[i]) == 0);
    }
    tug_memory_remove(&fabric.memory, &registrations[WORLD_REGISTRATIONS - 1]);
    REQUIRE(tug_transport_packets.open(&fabric, &transport) == 0);
    fabric.states[TUG_BY_PACKETS] = transport;
    fabric.states[TUG_BY_VERBS] = &reached;
}

/* Every peer refuses: nothing may be left. */
static void end_world(void) {
    script = script_end;
    wires_full = false;
    transfers_end = true;
    for (uint32_t peer = 0; peer < WORLD_RANKS; peer++) {
        struct wire *wire = peer < NODE ? &shm_wire : &mpi_wire;
        struct tug_packet packet;
        refused[peer] = true;
        tug_packet_begin(&packet, incoming, sizeof(incoming));
        tug_packet_add(&packet, TUG_RECORD_REFUSED, -TUG_ERR_INVALID, TUG_NO_TAG, 0);
        tug_packet_end(&packet, peer, 0, last_acked[peer], WORLD_SESSION);
        wire->wire.receive(wire->wire.receiver, &wire->wire, incoming, packet.used);
    }
    for (int i = 0; i < 4; i++)
        (void)tug_transport_packets.poll(transport);
    REQUIRE(!tug_transport_packets.busy(transport));
    for (uint32_t tag = 0; tag < OPERATIONS; tag++)
        REQUIRE(!live[tag].out);
    for (int i = 0; i < TRANSFERS; i++)
        REQUIRE(!transfers[i].used);
    for (uint32_t peer = 0; peer < WORLD_RANKS; peer++)
        REQUIRE(uncounted[peer] == 0);
    REQUIRE(fabric.out == 0);
    tug_transport_packets.close(transport);
    for (uint32_t i = 0; i < WORLD_REGISTRATIONS; i++) {
        const bool ended = i == WORLD_REGISTRATIONS - 1;
        REQUIRE(registrations[i].serving == 0);
        REQUIRE(memcmp(pages[i], canaries, ended ? PAGE : PAGE - sizes_of_memory[i]) == 0);
    }
    tug_memory_table_fini(&fabric.memory);
    tug_tags_fini(&fabric.tags);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    script = data;
    script_end = data + bytes;
    begin_world();
    while (script < script_end) {
        const unsigned what = take() % 16;
        if (what < 5)
            post();
        else if (what == 5)
            post_counting();
        else if (what < 12)
            receive();
        else if (what < 14)
            (void)tug_transport_packets.poll(transport);
        else if (what == 14)
            tug_transport_packets.flush(transport);
        else {
            const unsigned how = take();
            wires_full = how & 1 && how & 2;
            transfers_end = how & 4;
            tug_settings.aggregate = (how & 24) != 0;
            atomic_store(&fabric.flush_wanted, (how & 32) != 0);
        }
    }
    end_world();
    return 0;
}
