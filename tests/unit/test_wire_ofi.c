/* The ofi wire over libfabric itself: two endpoints of this process, over whatever provider it
 * prefers here. Packets arrive in order and whole; those that come before their context is served
 * are kept for it, and those for a context that is not here are passed over. Trailers are read
 * where they are, once, and what comes behind them waits; where the provider reads nothing there
 * are none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "transport/ofi/private.h"

#define PATIENCE_NS ((uint64_t)60 * 1000000000u)
#define PACKETS 1000u /* more than there are receives and sends */
#define CONTEXT 0x7475676f66690000u
#define LONG_MOST ((size_t)1 << 20)
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
        assert_true(tug_ofi_view_enter(sides[i].view));
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
        (void)tug_ofi_poll(sides[0].view->endpoint);
        (void)tug_ofi_poll(sides[1].view->endpoint);
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
        (void)tug_ofi_poll(sides[0].view->endpoint);
        (void)tug_ofi_poll(sides[1].view->endpoint);
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
    sides[0].view->wire.row->abandon(&sides[0].view->wire, 1);
    while (sides[0].view->wire.pool.nout > 0) {
        assert_true(tug_clock_ns() - start < PATIENCE_NS);
        for (uint32_t i = 0; i < 2; i++)
            (void)tug_ofi_poll(sides[i].view->endpoint);
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
    if (endpoint->descriptor < 0) {
        assert_false(tug_ofi_arm(endpoint));
        return;
    }
    const uint64_t start = tug_clock_ns();
    do {
        assert_true(tug_clock_ns() - start < PATIENCE_NS);
        (void)tug_ofi_poll(endpoint);
    } while (!tug_ofi_arm(endpoint));
    assert_true(tug_ofi_arm(endpoint)); /* once more, for another context */
    send_one(&sides[0], 1, CONTEXT);
    struct pollfd news = {.fd = endpoint->descriptor, .events = POLLIN};
    while (poll(&news, 1, 1) == 0) {
        assert_true(tug_clock_ns() - start < PATIENCE_NS);
        (void)tug_ofi_poll(sides[0].view->endpoint);
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
        (void)tug_ofi_poll(sides[0].view->endpoint);
        (void)tug_ofi_poll(sides[1].view->endpoint);
    }
    assert_false(tug_ofi_arm(sides[1].view->endpoint));
    refusals = 3;
    until_received(0, 4);
    assert_int_equal(refusals, 0);
}

int main(void) {
    char reason[256];
    struct fi_info *info = tug_ofi_choose(reason);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
