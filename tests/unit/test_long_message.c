/* Long messages between two processes that are both in this one, over a wire that carries what
 * follows packets, and one that does not: the test decides how much of it goes, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/fake_wire.h"
#include "transport/packets/packets.h"

#define OPERATIONS 64
#define MEMORY ((size_t)4 << 20)
#define PACKET_BYTES 32768
#define STAGE ((size_t)64 << 10)
#define REFUSES 9 /* a handler */

static const struct tug_transport plain = {.name = "plain", .send = fake_send, .poll = fake_poll};

static int set_up_on(const struct tug_transport *type) {
    fake_begin(type, PACKET_BYTES, OPERATIONS, MEMORY);
    for (size_t i = 0; i < MEMORY; i++)
        a->local.base[i] = (unsigned char)(i * 7 + (i >> 9));
    b->long_message = calloc(1, MEMORY);
    assert_non_null(b->long_message);
    return 0;
}

static int set_up(void **state) {
    (void)state;
    return set_up_on(&fake_trailing);
}

static int set_up_plain(void **state) {
    (void)state;
    return set_up_on(&plain);
}

static int end(void **state) {
    free(b->long_message);
    return fake_end(state);
}

static struct tug_operation *take(uint8_t kind, struct record *record) {
    uint32_t tag = TUG_NO_TAG;
    assert_true(tug_tags_take(&a->fabric.tags, &tag));
    *record = (struct record){0, 0, 1};
    a->fabric.operations[tag] = (struct tug_operation){.kind = kind,
                                                       .peer = 1,
                                                       .on_complete = {on_complete, record},
                                                       .on_local = {on_local, record}};
    a->fabric.out++;
    return &a->fabric.operations[tag];
}

static void start(uint64_t bytes, size_t element, uint8_t handler, struct record *record) {
    struct tug_operation *operation = take(TUG_OPERATION_LONG_AM, record);
    operation->op = handler;
    operation->bytes = bytes;
    operation->offset = element;
    operation->operand = 0x123456789;
    operation->compare = UINT64_MAX;
    operation->local = a->local.base;
    b->element = element;
    tug_packets_post(&a->packets, operation);
    tug_packets_flush(&a->packets);
}

static void send_message(struct record *record) {
    struct tug_operation *operation = take(TUG_OPERATION_AM, record);
    operation->bytes = 8;
    tug_packets_post(&a->packets, operation);
    tug_packets_flush(&a->packets);
}

static void assert_done(const struct record *record, int status) {
    assert_int_equal(record->completed, 1);
    assert_int_equal(record->local, 1);
    assert_int_equal(record->status, status);
}

static void assert_idle(void) {
    assert_int_equal(a->fabric.out, 0);
    assert_false(tug_packets_busy(&b->packets));
    assert_false(tug_packets_busy(&a->packets));
    assert_int_equal(b->streams[0]->nexpected, 0);
}

/* Any number of elements, whose bytes come as they were sent, and not more at a time than are
 * staged. */
static void test_sizes(void **state) {
    static const size_t elements[] = {1, 2, 8, 12, 16, 32, 63, 64};
    static const size_t sizes[] = {25,    4000,   TUG_LONG_LEAST, 32768,
                                   65536, 100000, 1 << 20,        (3 << 20) + 12345};
    (void)state;
    for (size_t e = 0; e < sizeof(elements) / sizeof(elements[0]); e++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            const size_t bytes = (sizes[i] + elements[e]) / elements[e] * elements[e];
            struct record record;
            memset(b->long_message, 0, MEMORY);
            start(bytes, elements[e], 1, &record);
            run();
            assert_done(&record, 0);
            assert_memory_equal(b->long_message, a->local.base, bytes);
            for (size_t behind = bytes; behind < bytes + 100; behind++)
                assert_int_equal(b->long_message[behind], 0);
            assert_int_equal(b->head[0], 0x123456789);
            assert_true(b->head[1] == UINT64_MAX);
        }
    }
    assert_true(b->part_most <= STAGE);
    assert_true((a->out.long_ones > 0) == (a->out.wire.row == &fake_trailing));
    assert_idle();
}

/* What has come is handed up while more is on its way, elements as a whole; the message is
 * complete, and one that was sent later is handled, when all of it has been. */
static void test_in_parts(void **state) {
    const size_t bytes = 960000, element = 32;
    struct record record, later;
    size_t come = 0;
    (void)state;
    allowance = 0;
    start(bytes, element, 1, &record);
    send_message(&later);
    run();
    while (come < bytes) {
        allowance = come + 777 < bytes ? 777 : bytes - come;
        assert_int_equal(record.completed, 0);
        assert_int_equal(b->messages, 0);
        const size_t whole = come / element * element;
        if (come >= 777)
            assert_memory_equal(b->long_message, a->local.base, (come - 777) / element * element);
        for (size_t i = whole; i < whole + element; i++)
            assert_int_equal(b->long_message[i], 0);
        come += allowance;
        poll_once(b);
    }
    allowance = SIZE_MAX;
    run();
    assert_done(&record, 0);
    assert_done(&later, 0);
    assert_int_equal(b->messages, 1);
    assert_true(b->parts > 1000);
    assert_memory_equal(b->long_message, a->local.base, bytes);
    assert_idle();
}

/* Nobody handles it, or takes less than there is: it fails, and nothing else does. */
static void test_refused(void **state) {
    struct record refused, left, good;
    (void)state;
    start(100000, 8, REFUSES, &refused);
    run();
    start(30000, 3000, 1, &left);
    b->element = 29000; /* the receiver has another notion of them */
    run();
    start(100000, 8, 1, &good);
    run();
    assert_done(&refused, TUG_ERR_INVALID);
    assert_done(&left, TUG_ERR_INVALID);
    assert_done(&good, 0);
    assert_memory_equal(b->long_message, a->local.base, 100000);
    assert_idle();
}

/* The origin is gone in the middle of its data: nothing is kept of them. */
static void test_origin_lost(void **state) {
    struct record record;
    size_t room = 100000;
    (void)state;
    allowance = 50000;
    start(400000, 8, 1, &record);
    run();
    assert_non_null(b->out.wire.trailer_address(&b->packets, 0, 50000, &room));
    assert_int_equal(room, STAGE);
    assert_memory_equal(b->long_message, a->local.base, 50000);
    assert_int_equal(b->peers_ended, 0);
    b->out.wire.arrived(&b->packets, 0, false);
    b->out.wire.ended(&b->packets, 0);
    assert_int_equal(b->peers_ended, 1); /* though nothing was on its way there */
    assert_null(b->out.wire.trailer_address(&b->packets, 0, 50000, &room));
    a->out.wire.ended(&a->packets, 1);
    assert_int_equal(a->peers_ended, 1);
    assert_done(&record, TUG_ERR_PEER);
    assert_idle();
}

/* It is lost by what the handler does with the last of them. */
static void test_origin_lost_by_handler(void **state) {
    struct record record;
    (void)state;
    b->loses_at = 400000;
    start(400000, 8, 1, &record);
    run();
    assert_memory_equal(b->long_message, a->local.base, 400000);
    a->out.wire.ended(&a->packets, 1);
    assert_done(&record, TUG_ERR_PEER);
    assert_idle();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sizes, set_up, end),
        cmocka_unit_test_setup_teardown(test_sizes, set_up_plain, end),
        cmocka_unit_test_setup_teardown(test_in_parts, set_up, end),
        cmocka_unit_test_setup_teardown(test_refused, set_up, end),
        cmocka_unit_test_setup_teardown(test_refused, set_up_plain, end),
        cmocka_unit_test_setup_teardown(test_origin_lost, set_up, end),
        cmocka_unit_test_setup_teardown(test_origin_lost_by_handler, set_up, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
