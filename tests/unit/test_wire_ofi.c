/* The ofi wire over libfabric itself: two endpoints of this process, over whatever provider it
 * prefers here. Packets arrive in order and whole; those that come before their context is served
 * are kept for it, and those for a context that is not here are passed over. Trailers are read
 * where they are, once, and what comes behind them waits; where the provider reads nothing there
 * are none. Operations are the provider's RMA, as if TUGBOAT_OFI_RMA were on. And which provider is
 * taken by default, out of lists that libfabric might return.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stats.h"
#include "transport/ofi/private.h"

#define PATIENCE_NS ((uint64_t)60 * 1000000000u)
#define PACKETS 1000u /* more than there are receives and sends */
#define CONTEXT 0x7475676f66690000u
#define LONG_MOST ((size_t)1 << 20)
#define OPERATIONS 64u
#define LONG_ROOM 100000u /* bytes that a receiver has room for at a time */

/* One of the processes, with its part of one context. */
struct side {
    struct tug_fabric fabric;
    struct tug_ofi_view *view;
    uint32_t received, wrong, ended;
    uint32_t arrived, broken, sent;     /* trailers */
    bool nowhere;                       /* trailers that come are for nobody */
    size_t awaited;                     /* bytes of the trailer that is to come */
    unsigned char *sent_from, *read_to; /* [LONG_MOST] */
    struct tug_operation operations[OPERATIONS];
    struct tug_registration memory; /* of sent_from */
};

static struct side sides[2];

static unsigned refusals; /* so many packets are not taken */

static bool receive(void *receiver, struct tug_wire *wire, const void *memory, size_t bytes) {
    struct side *side = receiver;
    struct tug_packet_reader reader;
    struct tug_record record = {0};
    assert_ptr_equal(wire, &side->view->wire);
    assert_int_equal(tug_packet_open(&reader, memory, bytes, CONTEXT, 2), TUG_PACKET_GOOD);
    assert_int_equal(reader.header.source, 1 - side->fabric.rank);
    assert_true(tug_packet_next(&reader, &record));
    if (refusals > 0) {
        refusals--;
        return false;
    }
    side->wrong += record.words[0] != side->received || side->awaited > 0;
    side->awaited = reader.header.trailer;
    side->received++;
    return true;
}

static unsigned char *trailer_address(void *receiver, uint32_t source, size_t come, size_t *room) {
    const struct side *side = receiver;
    assert_int_equal(source, 1 - side->fabric.rank);
    assert_in_range(*room, 1, side->awaited - come);
    if (*room > LONG_ROOM)
        *room = LONG_ROOM;
    return side->nowhere ? NULL : side->read_to + come;
}

static void arrived(void *receiver, uint32_t source, bool whole) {
    struct side *side = receiver;
    const struct side *other = &sides[source];
    if (whole && !side->nowhere)
        side->wrong += memcmp(side->read_to, other->sent_from, side->awaited) != 0;
    side->awaited = 0;
    side->arrived += whole;
    side->broken += !whole;
}

static void sent(void *receiver, uint32_t peer, const struct tug_buffer *buffer) {
    struct side *side = receiver;
    assert_int_equal(peer, 1 - side->fabric.rank);
    assert_ptr_equal(buffer->trailer, side->sent_from);
    side->sent++;
}

static void ended(void *receiver, uint32_t peer) {
    struct side *side = receiver;
    (void)peer;
    side->ended++;
}

static int begin_with(bool reads) {
    struct tug_ofi_address addresses[2];
    char reason[256];
    for (uint32_t i = 0; i < 2; i++) {
        struct side *side = &sides[i];
        *side = (struct side){.fabric = {.rank = i, .nranks = 2, .node_size = 2, .id = CONTEXT}};
        struct tug_ofi_endpoint *endpoint = tug_ofi_endpoint_make(reason);
        assert_non_null(endpoint);
        if (!reads)
            endpoint->info->caps &= ~(uint64_t)FI_RMA;
        addresses[i] = endpoint->address;
        side->view = tug_ofi_view_make(endpoint, &side->fabric);
        assert_non_null(side->view);
        side->view->wire.receiver = side;
        side->view->wire.receive = receive;
        side->view->wire.trailer_address = trailer_address;
        side->view->wire.arrived = arrived;
        side->view->wire.sent = sent;
        side->view->wire.ended = ended;
        side->sent_from = malloc(LONG_MOST);
        side->read_to = calloc(1, LONG_MOST);
        assert_true(side->sent_from != NULL && side->read_to != NULL);
        for (size_t at = 0; at < LONG_MOST; at++)
            side->sent_from[at] = (unsigned char)(at * 7 + at / 251 + i);
    }
    for (uint32_t i = 0; i < 2; i++) {
        memcpy(sides[i].view->told, addresses, sizeof(addresses));
        assert_true(tug_endpoint_enter(&sides[i].view->wire));
    }
    return 0;
}

static int begin(void **state) {
    (void)state;
    return begin_with(true);
}

static int begin_without(void **state) {
    (void)state;
    return begin_with(false);
}

static int end(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        tug_transport_ofi.close(sides[i].view);
        free(sides[i].sent_from);
        free(sides[i].read_to);
    }
    return 0;
}

/* A packet with that number to the other; bytes behind it, so that their lengths differ. */
static struct tug_buffer *packet_of(struct side *side, uint64_t number, uint64_t context) {
    struct tug_buffer *buffer = tug_pool_take(&side->view->wire.pool);
    assert_non_null(buffer);
    for (uint64_t i = 0; i <= number % 400; i++)
        *tug_packet_add(&buffer->packet, TUG_RECORD_VALUE, 0, 0, 0) = number;
    tug_packet_end(&buffer->packet, side->fabric.rank, 0, 0, context);
    return buffer;
}

/* The same with so many bytes behind it. */
static struct tug_buffer *long_packet_of(struct side *side, uint64_t number, size_t bytes) {
    struct tug_buffer *buffer = tug_pool_take(&side->view->wire.pool);
    assert_non_null(buffer);
    *tug_packet_add(&buffer->packet, TUG_RECORD_LONG_DATA, 0, 0, 0) = number;
    tug_buffer_trail(buffer, side->sent_from, (uint32_t)bytes);
    tug_packet_end(&buffer->packet, side->fabric.rank, 0, 0, CONTEXT);
    return buffer;
}

/* Sends it, while the endpoints are polled, and not the contexts. */
static void send_buffer(struct side *side, struct tug_buffer *buffer) {
    const uint64_t start = tug_clock_ns();
    while (!side->view->wire.row->send(&side->view->wire, 1 - side->fabric.rank, buffer)) {
        assert_true(tug_clock_ns() - start < PATIENCE_NS);
        (void)tug_endpoint_look(sides[0].view->wire.endpoint);
        (void)tug_endpoint_look(sides[1].view->wire.endpoint);
    }
}

static void send_one(struct side *side, uint64_t number, uint64_t context) {
    send_buffer(side, packet_of(side, number, context));
}

static void until_received(uint32_t n0, uint32_t n1) {
    const uint64_t start = tug_clock_ns();
    while (sides[0].received < n0 || sides[1].received < n1 ||
           sides[0].view->wire.pool.nout + sides[1].view->wire.pool.nout > 0) {
        assert_true(tug_clock_ns() - start < PATIENCE_NS);
        for (uint32_t i = 0; i < 2; i++)
            (void)sides[i].view->wire.row->poll(sides[i].view);
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(sides[i].wrong, 0);
        assert_int_equal(sides[i].ended, 0);
    }
    assert_int_equal(sides[0].received, n0);
    assert_int_equal(sides[1].received, n1);
}

static void in_order_both_ways(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        (void)sides[i].view->wire.row->poll(sides[i].view);
    for (uint64_t number = 0; number < PACKETS; number++) {
        send_one(&sides[0], number, CONTEXT);
        send_one(&sides[1], number, CONTEXT);
    }
    until_received(PACKETS, PACKETS);
}

static void kept_until_served(void **state) {
    (void)state;
    for (uint64_t number = 0; number < PACKETS; number++)
        send_one(&sides[0], number, CONTEXT);
    assert_int_equal(sides[1].received, 0);
    assert_non_null(sides[1].view->held.first);
    until_received(0, PACKETS);
}

static void strangers_passed_over(void **state) {
    (void)state;
    (void)sides[1].view->wire.row->poll(sides[1].view);
    send_one(&sides[0], 7, CONTEXT + 1);
    send_one(&sides[0], 0, CONTEXT);
    until_received(0, 1);
}

static void greetings(void **state) {
    const uint64_t start = tug_clock_ns();
    bool greeted = false;
    (void)state;
    while (!sides[1].view->heard) {
        assert_true(tug_clock_ns() - start < PATIENCE_NS);
        greeted = greeted || tug_ofi_greet(sides[0].view, 1);
        (void)tug_endpoint_look(sides[0].view->wire.endpoint);
        (void)tug_endpoint_look(sides[1].view->wire.endpoint);
    }
    assert_false(sides[0].view->heard);
}

/* Sizes by turns, with a short packet behind each, which waits for it. */
static void send_trailers(struct side *side, uint32_t trailers) {
    static const size_t sizes[] = {16384, 8, LONG_ROOM, LONG_ROOM + 8, LONG_MOST};
    for (uint32_t i = 0; i < trailers; i++) {
        send_buffer(side, long_packet_of(side, 2 * (uint64_t)i, sizes[i % 5]));
        send_one(side, 2 * (uint64_t)i + 1, CONTEXT);
    }
}

static bool can_read(void) {
    if (tug_ofi_reads(sides[0].view->endpoint))
        return true;
    printf("the provider does not read\n");
    return false;
}

static void trailers_are_read(void **state) {
    (void)state;
    if (!can_read())
        return;
    assert_int_equal(sides[0].view->wire.row->longs.least, TUG_OFI_LONG_LEAST);
    (void)sides[0].view->wire.row->poll(sides[0].view);
    send_trailers(&sides[0], 10); /* before side 1 is served */
    assert_int_equal(sides[1].received, 0);
    until_received(0, 20);
    assert_int_equal(sides[1].arrived, 10);
    assert_int_equal(sides[0].sent, 10);
    assert_int_equal(sides[0].view->endpoint->trailers, 10);
    assert_null(sides[1].view->reads);
    send_trailers(&sides[1], 5);
    until_received(10, 20);
    assert_int_equal(sides[0].arrived, 5);
    assert_int_equal(sides[1].sent, 5);
}

static int refuse(struct fid *domain, const void *memory, size_t bytes, uint64_t access,
                  uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **region,
                  void *context) {
    (void)domain, (void)memory, (void)bytes, (void)access, (void)offset, (void)key, (void)flags;
    (void)region, (void)context;
    return -FI_ENOMEM;
}

/* Memory that cannot be registered is read from a copy, one trailer at a time. */
static void refused_memory(void **state) {
    (void)state;
    if (!can_read())
        return;
    struct fi_ops_mr *theirs = sides[0].view->endpoint->domain->mr, ours = *theirs;
    ours.reg = refuse;
    sides[0].view->endpoint->domain->mr = &ours;
    (void)sides[1].view->wire.row->poll(sides[1].view);
    send_trailers(&sides[0], 10);
    until_received(0, 20);
    sides[0].view->endpoint->domain->mr = theirs;
    assert_int_equal(sides[1].arrived, 10);
    assert_int_equal(sides[0].sent, 10);
    assert_null(sides[0].view->endpoint->copied);
}

/* They are not read, and their senders are told so. */
static void trailers_for_nobody(void **state) {
    (void)state;
    if (!can_read())
        return;
    sides[1].nowhere = true;
    send_trailers(&sides[0], 5);
    until_received(0, 10);
    assert_int_equal(sides[1].arrived, 5);
    assert_int_equal(sides[0].sent, 5);
    for (size_t at = 0; at < LONG_MOST; at++)
        assert_int_equal(sides[1].read_to[at], 0);
}

/* A trailer at an address that nobody has been told: nothing of it is read, and its source is lost,
 * with what it has sent since. */
static void bad_keys(void **state) {
    struct tug_buffer *buffer;
    const struct tug_ofi_where where = {0, 0x7777, 0x7777};
    const uint64_t start = tug_clock_ns();
    (void)state;
    if (!can_read() || strstr(sides[0].view->endpoint->info->fabric_attr->prov_name, "tcp") == NULL)
        return;
    (void)sides[1].view->wire.row->poll(sides[1].view);
    buffer = long_packet_of(&sides[0], 0, LONG_MOST);
    memcpy(buffer->packet.memory + buffer->packet.used, &where, sizeof(where));
    buffer->packet.used += sizeof(where);
    buffer->packet.trailer = 0; /* as if it had none: the address is as it stands there */
    send_buffer(&sides[0], buffer);
    while (sides[1].ended == 0) {
        assert_true(tug_clock_ns() - start < PATIENCE_NS);
        for (uint32_t i = 0; i < 2; i++)
            (void)sides[i].view->wire.row->poll(sides[i].view);
    }
    assert_int_equal(sides[1].broken, 1);
    assert_int_equal(sides[1].arrived, 0);
    assert_null(sides[1].view->reads);
    for (size_t at = 0; at < LONG_MOST; at++)
        assert_int_equal(sides[1].read_to[at], 0);
}

/* The sender has given its peer up: its memory is its own at once. */
static void abandoned(void **state) {
    const uint64_t start = tug_clock_ns();
    (void)state;
    if (!can_read())
        return;
    (void)sides[0].view->wire.row->poll(sides[0].view);
    send_buffer(&sides[0], long_packet_of(&sides[0], 0, LONG_MOST));
    sides[0].view->wire.row->lost(&sides[0].view->wire, 1);
    while (sides[0].view->wire.pool.nout > 0) {
        assert_true(tug_clock_ns() - start < PATIENCE_NS);
        for (uint32_t i = 0; i < 2; i++)
            (void)tug_endpoint_look(sides[i].view->wire.endpoint);
    }
    assert_int_equal(sides[0].sent, 0);
}

static void packets_alone(void **state) {
    (void)state;
    assert_int_equal(sides[0].view->wire.row->longs.least, 0);
    assert_true(sides[0].view->wire.row->send == tug_transport_ofi.send);
    for (uint64_t number = 0; number < PACKETS; number++)
        send_one(&sides[0], number, CONTEXT);
    until_received(0, PACKETS);
    assert_int_equal(sides[0].view->endpoint->trailers, 0);
}

/* Nothing is under way, so the queue may be slept at; what is sent then makes its descriptor
 * readable. */
static void news_wake(void **state) {
    struct tug_ofi_endpoint *endpoint = sides[1].view->endpoint;
    (void)state;
    send_one(&sides[0], 0, CONTEXT);
    until_received(0, 1);
    if (endpoint->base.descriptor < 0) {
        assert_false(tug_ofi_arm(sides[1].view));
        return;
    }
    const uint64_t start = tug_clock_ns();
    do {
        assert_true(tug_clock_ns() - start < PATIENCE_NS);
        (void)tug_endpoint_look(&endpoint->base);
    } while (!tug_ofi_arm(sides[1].view));
    assert_true(tug_ofi_arm(sides[1].view)); /* once more, for another context */
    send_one(&sides[0], 1, CONTEXT);
    struct pollfd news = {.fd = endpoint->base.descriptor, .events = POLLIN};
    while (poll(&news, 1, 1) == 0) {
        assert_true(tug_clock_ns() - start < PATIENCE_NS);
        (void)tug_endpoint_look(sides[0].view->wire.endpoint);
    }
    until_received(0, 2);
}

/* For want of memory: it is handed up again, ahead of what has come behind it. */
static void not_taken(void **state) {
    (void)state;
    send_one(&sides[0], 0, CONTEXT);
    until_received(0, 1);
    refusals = UINT32_MAX;
    for (uint64_t number = 1; number < 4; number++)
        send_one(&sides[0], number, CONTEXT);
    const uint64_t start = tug_clock_ns();
    while (refusals > UINT32_MAX - 2) {
        assert_true(tug_clock_ns() - start < PATIENCE_NS);
        (void)tug_endpoint_look(sides[0].view->wire.endpoint);
        (void)tug_endpoint_look(sides[1].view->wire.endpoint);
    }
    assert_false(tug_ofi_arm(sides[1].view));
    refusals = 3;
    until_received(0, 4);
    assert_int_equal(refusals, 0);
}

/* ---- operations ---- */

static int ends, last_status;

static void ended_with(void *d, int status) {
    (void)d;
    ends++;
    last_status = status;
}

/* The memory that side 0 operates on is sent_from of side 1. */
static void register_it(void) {
    sides[1].memory =
        (struct tug_registration){.base = sides[1].sent_from, .bytes = LONG_MOST, .id = 7};
    assert_int_equal(tug_transport_ofi.register_memory(sides[1].view, &sides[1].memory), 0);
}

static int begin_operations(void **state) {
    tug_settings.ofi_rma = true;
    tug_stats_on = true;
    if (begin(state) != 0)
        return -1;
    for (uint32_t i = 0; i < 2; i++) {
        struct side *side = &sides[i];
        side->fabric.operations = side->operations;
        side->fabric.noperations = OPERATIONS;
        assert_int_equal(tug_tags_init(&side->fabric.tags, OPERATIONS), 0);
    }
    ends = 0;
    register_it();
    return 0;
}

static int end_operations(void **state) {
    tug_transport_ofi.deregister_memory(sides[1].view, &sides[1].memory);
    const int status = end(state);
    for (uint32_t i = 0; i < 2; i++)
        tug_tags_fini(&sides[i].fabric.tags);
    tug_settings.ofi_rma = tug_stats_on = false;
    return status;
}

/* One of side 0 on [offset, offset + bytes) of side 1's memory; local: NULL, its data are in it. */
static struct tug_operation *operation_of(enum tug_operation_kind kind, uint64_t offset,
                                          unsigned char *local, uint64_t bytes) {
    struct side *side = &sides[0];
    uint32_t tag = 0;
    assert_true(tug_tags_take(&side->fabric.tags, &tag));
    struct tug_operation *operation = &side->operations[tag];
    *operation = (struct tug_operation){.on_complete = {ended_with, NULL},
                                        .key = sides[1].memory.id,
                                        .offset = offset,
                                        .address = (uintptr_t)sides[1].memory.base + offset,
                                        .rkey = sides[1].memory.rkeys[0],
                                        .peer = 1,
                                        .local = local,
                                        .bytes = bytes,
                                        .kind = (uint8_t)kind};
    side->fabric.out++;
    return operation;
}

/* Posts it and polls until it has ended. Returns its status. */
static int execute(struct tug_operation *operation) {
    const uint64_t start = tug_clock_ns();
    const int before = ends;
    tug_transport_ofi.post(sides[0].view, operation);
    while (ends == before) {
        assert_true(sides[0].view->out > 0);
        assert_true(tug_clock_ns() - start < PATIENCE_NS);
        (void)tug_endpoint_look(sides[0].view->wire.endpoint);
        (void)tug_endpoint_look(sides[1].view->wire.endpoint);
    }
    assert_false(sides[0].view->out > 0);
    assert_int_equal(sides[0].fabric.out, 0);
    return last_status;
}

static uint64_t requests(void) {
    return atomic_load(&tug_stat_values[TUG_STAT_OFI_REQUESTS]);
}

/* Data of a short write are in the operation; what the memory has at a write's end is right. */
static void writes_and_reads(void **state) {
    static const size_t sizes[] = {1, 24, 25, 4096, LONG_MOST};
    (void)state;
    if (!can_read())
        return;
    assert_int_not_equal(sides[1].memory.rkeys[0], 0);
    for (size_t i = 0; i < 5; i++) {
        const size_t bytes = sizes[i], offset = bytes < LONG_MOST ? 4099 : 0;
        unsigned char *from = sides[0].sent_from;
        const uint64_t before = requests();
        from[0] = (unsigned char)(100 + i);
        struct tug_operation *write = operation_of(TUG_OPERATION_WRITE, offset, from, bytes);
        if (bytes <= TUG_OPERATION_INLINE) {
            memcpy(write->data, from, bytes);
            write->local = NULL;
        }
        assert_true(tug_transport_ofi.takes(sides[0].view, write));
        assert_int_equal(execute(write), 0);
        assert_memory_equal(sides[1].sent_from + offset, from, bytes);
        assert_int_equal(execute(operation_of(TUG_OPERATION_READ, offset, sides[0].read_to, bytes)),
                         0);
        assert_memory_equal(sides[0].read_to, from, bytes);
        assert_int_equal(requests() - before, 2);
    }
    assert_int_equal(sides[1].received, 0);
}

/* More than the provider sends at once, in pieces. */
static void in_pieces(void **state) {
    (void)state;
    if (!can_read())
        return;
    const uint64_t before = requests();
    sides[0].view->endpoint->info->ep_attr->max_msg_size = 100000;
    assert_int_equal(execute(operation_of(TUG_OPERATION_WRITE, 8, sides[0].sent_from, 450000)), 0);
    assert_memory_equal(sides[1].sent_from + 8, sides[0].sent_from, 450000);
    assert_int_equal(requests() - before, 5);
}

static void atomics(void **state) {
    static const struct {
        enum tug_atomic_op op;
        uint64_t operand, result;
    } cases[] = {{TUG_ADD, 5, 105},
                 {TUG_AND, 0xfc, 104},
                 {TUG_OR, 3, 107},
                 {TUG_XOR, 1, 106},
                 {TUG_SWAP, 9, 9}};
    uint64_t *word = (uint64_t *)(void *)(sides[1].sent_from + 64), found, expected = 100;
    (void)state;
    if (!sides[0].view->wire.atomics)
        return;
    *word = expected;
    struct tug_operation *operation = operation_of(TUG_OPERATION_FETCH, 64, NULL, 8);
    assert_false(tug_transport_ofi.takes(sides[0].view, operation)); /* not agreed */
    sides[0].fabric.device_atomics = true;
    operation->bytes = 4;
    assert_false(tug_transport_ofi.takes(sides[0].view, operation));
    operation->bytes = 8;
    assert_true(tug_transport_ofi.takes(sides[0].view, operation));
    operation->op = TUG_ADD;
    operation->operand = 0;
    assert_int_equal(execute(operation), 0);
    for (size_t i = 0; i < 5; i++) {
        operation = operation_of(TUG_OPERATION_FETCH, 64, (unsigned char *)&found, 8);
        operation->op = (uint8_t)cases[i].op;
        operation->operand = cases[i].operand;
        assert_int_equal(execute(operation), 0);
        assert_int_equal(found, expected);
        assert_int_equal(*word, cases[i].result);
        expected = cases[i].result;
    }
    for (uint64_t compare = 8; compare <= 9; compare++) {
        operation = operation_of(TUG_OPERATION_COMPARE, 64, (unsigned char *)&found, 8);
        operation->operand = 77;
        operation->compare = compare;
        assert_int_equal(execute(operation), 0);
        assert_int_equal(found, 9);
        assert_int_equal(*word, compare == 9 ? 77 : 9);
    }
}

static unsigned times_full;

static ssize_t full(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags) {
    (void)ep, (void)message, (void)flags;
    times_full++;
    return -FI_EAGAIN;
}

/* What has no room is sent by a later poll, in order, and nobody sleeps until then. */
static void no_room(void **state) {
    (void)state;
    if (!can_read())
        return;
    struct tug_ofi_endpoint *endpoint = sides[0].view->endpoint;
    struct fi_ops_rma *theirs = endpoint->ep->rma, ours = *theirs;
    ours.writemsg = full;
    endpoint->ep->rma = &ours;
    for (size_t i = 0; i < 3; i++)
        tug_transport_ofi.post(sides[0].view, operation_of(TUG_OPERATION_WRITE, 16 * i,
                                                           sides[0].sent_from + 512 * i, 16));
    (void)tug_endpoint_look(&endpoint->base);
    assert_int_equal(ends, 0);
    assert_true(times_full >= 2);
    assert_false(tug_ofi_arm(sides[0].view));
    endpoint->ep->rma = theirs;
    tug_transport_ofi.post(sides[0].view, operation_of(TUG_OPERATION_READ, 0, sides[0].read_to, 8));
    const uint64_t start = tug_clock_ns();
    while (ends < 4) {
        assert_true(tug_clock_ns() - start < PATIENCE_NS);
        (void)tug_endpoint_look(sides[0].view->wire.endpoint);
        (void)tug_endpoint_look(sides[1].view->wire.endpoint);
    }
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(sides[1].sent_from + 16 * i, sides[0].sent_from + 512 * i, 16);
}

static ssize_t broken(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
                      void *result_desc, fi_addr_t to, uint64_t addr, uint64_t key,
                      enum fi_datatype datatype, enum fi_op op, void *context) {
    (void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)to;
    (void)addr, (void)datatype, (void)op, (void)context;
    return key == 0x7777 ? -FI_EKEYREJECTED : -FI_EIO;
}

/* An atomic that fails ends with an error: other ways are not atomic to the card's. */
static void atomics_fail(void **state) {
    (void)state;
    if (!sides[0].view->wire.atomics)
        return;
    struct tug_ofi_endpoint *endpoint = sides[0].view->endpoint;
    struct fi_ops_atomic *theirs = endpoint->ep->atomic, ours = *theirs;
    ours.readwrite = broken;
    endpoint->ep->atomic = &ours;
    for (int refused = 0; refused < 2; refused++) {
        struct tug_operation *operation = operation_of(TUG_OPERATION_FETCH, 64, NULL, 8);
        operation->rkey = refused ? 0x7777 : operation->rkey;
        tug_transport_ofi.post(sides[0].view, operation);
        assert_int_equal(ends, refused + 1);
        assert_int_equal(last_status, refused ? TUG_ERR_KEY : TUG_ERR_PEER);
    }
    endpoint->ep->atomic = theirs;
}

static int close_nothing(struct fid *object) {
    (void)object;
    return 0;
}

static int give_wide_key(struct fid *domain, const void *memory, size_t bytes, uint64_t access,
                         uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **region,
                         void *context) {
    static struct fi_ops ops = {.size = sizeof(struct fi_ops), .close = close_nothing};
    static struct fid_mr wide = {.fid = {.ops = &ops}, .key = (uint64_t)1 << 32 | 5};
    (void)domain, (void)memory, (void)bytes, (void)access, (void)offset, (void)key, (void)flags;
    (void)context;
    *region = &wide;
    return 0;
}

/* Memory that the provider refuses, or gives a key that does not fit, is not known to it; nor is
 * any where a row verbs is open. A key is not given twice. */
static void registrations(void **state) {
    struct tug_registration *memory = &sides[1].memory;
    struct tug_ofi_endpoint *endpoint = sides[1].view->endpoint;
    struct fi_ops_mr *theirs = endpoint->domain->mr, ours = *theirs;
    (void)state;
    if (!can_read())
        return;
    for (int which = 0; which < 3; which++) {
        const uint32_t before = memory->rkeys[0];
        tug_transport_ofi.deregister_memory(sides[1].view, memory);
        register_it();
        assert_int_not_equal(memory->rkeys[0], before);
        assert_false(memory->rkeys[0] & TUG_OFI_TRAILER_KEY);
    }
    endpoint->domain->mr = &ours;
    for (int which = 0; which < 3; which++) {
        tug_transport_ofi.deregister_memory(sides[1].view, memory);
        ours.reg = which == 0 ? refuse : give_wide_key;
        if (which == 2)
            endpoint->domain->mr = theirs;
        sides[1].view->wire.ports = which != 2;
        register_it();
        assert_null(memory->of_transport[TUG_BY_OFI]);
        struct tug_operation *write = operation_of(TUG_OPERATION_WRITE, 0, sides[0].sent_from, 8);
        assert_false(tug_transport_ofi.takes(sides[0].view, write));
    }
}

/* With verbs, and without the setting, operations go in packets. */
static void no_operations(void **state) {
    struct tug_ofi_endpoint *endpoint = sides[0].view->endpoint;
    (void)state;
    assert_int_equal(sides[0].view->wire.ports, 0);
    tug_settings.ofi_rma = true;
    sides[0].fabric.states[TUG_BY_VERBS] = &sides;
    struct tug_ofi_view *other = tug_ofi_view_make(endpoint, &sides[0].fabric);
    assert_int_equal(other->wire.ports, 0);
    tug_transport_ofi.close(other);
    sides[0].fabric.states[TUG_BY_VERBS] = NULL;
    other = tug_ofi_view_make(endpoint, &sides[0].fabric);
    assert_int_equal(other->wire.ports, tug_ofi_reads(endpoint));
    tug_transport_ofi.close(other);
    tug_settings.ofi_rma = false;
}

/* ---- the provider ---- */

static void default_providers(void **state) {
    static const struct {
        const char *names[4];
        uint64_t caps;
        int by_default, by_hand; /* which is taken, -1: none */
    } lists[] = {{{"tcp;ofi_rxm", "net", "shm"}, FI_RMA, -1, 0},
                 {{"udp;ofi_rxd", "sockets", "shm"}, FI_RMA, -1, 2},
                 {{"cxi", "tcp;ofi_rxm"}, FI_RMA, 0, 0},
                 {{"efa", "cxi", "tcp;ofi_rxm"}, FI_RMA, 1, 0},
                 {{"cxi"}, 0, -1, 0},
                 {{"verbs;ofi_rxm", "psm3", "opx"}, FI_RMA, -1, 0},
                 {{"cxi;ofi_rxm"}, FI_RMA, -1, 0},
                 {{NULL}, FI_RMA, -1, -1}};
    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct fi_fabric_attr fabrics[4] = {0};
        struct fi_ep_attr ep = {.max_msg_size = SIZE_MAX};
        struct fi_info infos[4] = {0}, *first = NULL;
        for (int n = 3; n >= 0; n--) {
            if (lists[i].names[n] == NULL)
                continue;
            fabrics[n].prov_name = (char *)(uintptr_t)lists[i].names[n];
            infos[n] = (struct fi_info){
                .next = first, .caps = lists[i].caps, .fabric_attr = &fabrics[n], .ep_attr = &ep};
            first = &infos[n];
        }
        const int expected[2] = {lists[i].by_hand, lists[i].by_default};
        for (int by_card = 0; by_card < 2; by_card++)
            assert_ptr_equal(tug_ofi_pick(first, by_card),
                             expected[by_card] >= 0 ? &infos[expected[by_card]] : NULL);
    }
}

/* A machine without the card does not even load libfabric; the reason says what to do. */
static void no_card(void **state) {
    char reason[256] = "";
    (void)state;
    if (access("/sys/class/cxi", F_OK) == 0)
        return;
    tug_settings.transports_named = false;
    assert_true(tug_transport_ofi.missing(reason));
    assert_non_null(strstr(reason, "TUGBOAT_TRANSPORTS"));
    assert_true(tug_wire_ofi_lacks_card(reason));
    tug_settings.transports_named = true;
    assert_true(tug_wire_ofi_lacks_card(reason));
    assert_false(tug_transport_ofi.missing(reason));
}

int main(void) {
    char reason[256];
    tug_settings.transports_named = true;
    struct fi_info *info = tug_ofi_choose(false, reason);
    if (info == NULL) {
        printf("skipped: %s\n", reason);
        return 77;
    }
    printf("%s\n", reason);
    tug_ofi.freeinfo(info);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(in_order_both_ways, begin, end),
        cmocka_unit_test_setup_teardown(kept_until_served, begin, end),
        cmocka_unit_test_setup_teardown(strangers_passed_over, begin, end),
        cmocka_unit_test_setup_teardown(greetings, begin, end),
        cmocka_unit_test_setup_teardown(not_taken, begin, end),
        cmocka_unit_test_setup_teardown(news_wake, begin, end),
        cmocka_unit_test_setup_teardown(trailers_are_read, begin, end),
        cmocka_unit_test_setup_teardown(refused_memory, begin, end),
        cmocka_unit_test_setup_teardown(trailers_for_nobody, begin, end),
        cmocka_unit_test_setup_teardown(bad_keys, begin, end),
        cmocka_unit_test_setup_teardown(abandoned, begin, end),
        cmocka_unit_test_setup_teardown(packets_alone, begin_without, end),
        cmocka_unit_test_setup_teardown(writes_and_reads, begin_operations, end_operations),
        cmocka_unit_test_setup_teardown(in_pieces, begin_operations, end_operations),
        cmocka_unit_test_setup_teardown(atomics, begin_operations, end_operations),
        cmocka_unit_test_setup_teardown(no_room, begin_operations, end_operations),
        cmocka_unit_test_setup_teardown(atomics_fail, begin_operations, end_operations),
        cmocka_unit_test_setup_teardown(registrations, begin_operations, end_operations),
        cmocka_unit_test_setup_teardown(no_operations, begin, end),
        cmocka_unit_test(default_providers),
        cmocka_unit_test(no_card),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
