/* The ofi wire over libfabric itself: two endpoints of this process, over whatever provider it
 * prefers here. Packets arrive in order and whole; those that come before their context is served
 * are kept for it, and those for a context that is not here are passed over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "transport/ofi/private.h"

#define PATIENCE_NS ((uint64_t)60 * 1000000000u)
#define PACKETS 1000u /* more than there are receives and sends */
#define CONTEXT 0x7475676f66690000u

/* One of the processes, with its part of one context. */
struct side {
    struct tug_fabric fabric;
    struct tug_ofi_view *view;
    uint32_t received, wrong, ended;
};

static struct side sides[2];

static void receive(void *receiver, struct tug_wire *wire, const void *memory, size_t bytes) {
    struct side *side = receiver;
    struct tug_packet_reader reader;
    struct tug_record record = {0};
    assert_ptr_equal(wire, &side->view->wire);
    assert_int_equal(tug_packet_open(&reader, memory, bytes, CONTEXT, 2), TUG_PACKET_GOOD);
    assert_int_equal(reader.header.source, 1 - side->fabric.rank);
    assert_true(tug_packet_next(&reader, &record));
    side->wrong += record.words[0] != side->received;
    side->received++;
}

static void ended(void *receiver, uint32_t peer) {
    struct side *side = receiver;
    (void)peer;
    side->ended++;
}

static int begin(void **state) {
    struct tug_ofi_address addresses[2];
    char reason[256];
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct side *side = &sides[i];
        *side = (struct side){.fabric = {.rank = i, .nranks = 2, .node_size = 2, .id = CONTEXT}};
        struct tug_ofi_endpoint *endpoint = tug_ofi_endpoint_make(reason);
        assert_non_null(endpoint);
        addresses[i] = endpoint->address;
        side->view = tug_ofi_view_make(endpoint, &side->fabric);
        assert_non_null(side->view);
        side->view->wire.receiver = side;
        side->view->wire.receive = receive;
        side->view->wire.ended = ended;
    }
    for (uint32_t i = 0; i < 2; i++)
        assert_true(tug_ofi_view_enter(sides[i].view, addresses));
    return 0;
}

static int end(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        tug_transport_ofi.close(sides[i].view);
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

/* Sends it, while the endpoints are polled, and not the contexts. */
static void send_one(struct side *side, uint64_t number, uint64_t context) {
    struct tug_buffer *buffer = packet_of(side, number, context);
    const uint64_t start = tug_clock_ns();
    while (!side->view->wire.row->send(&side->view->wire, 1 - side->fabric.rank, buffer)) {
        assert_true(tug_clock_ns() - start < PATIENCE_NS);
        (void)tug_ofi_poll(sides[0].view->endpoint);
        (void)tug_ofi_poll(sides[1].view->endpoint);
    }
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
    assert_non_null(sides[1].view->held);
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
    bool greets = false;
    (void)state;
    while (!sides[1].view->heard || !sides[0].view->greeted) {
        assert_true(tug_clock_ns() - start < PATIENCE_NS);
        greets = greets || tug_ofi_greet(sides[0].view, 1);
        (void)tug_ofi_poll(sides[0].view->endpoint);
        (void)tug_ofi_poll(sides[1].view->endpoint);
    }
    assert_false(sides[0].view->heard);
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
        cmocka_unit_test_setup_teardown(news_wake, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
