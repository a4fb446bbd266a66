/* Acknowledgements by words: packets between two processes that are both in this one, by wires
 * that have words beside their queues. The test decides what is delivered and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/joined_records.h"
#include "transport/packets/packets.h"

#define OPERATIONS 64
#define MEMORY 4096
#define PACKET_BYTES 2048
#define QUEUE 8

struct side;

struct word_wire {
    struct tug_wire wire;
    struct side *to;
    struct {
        size_t bytes;
        uint64_t memory[PACKET_BYTES / 8];
    } queue[QUEUE];
    unsigned first, count, sent;
    unsigned delivers; /* packets that the other one may take */
    uint64_t word;     /* from the other one */
};

struct side {
    struct tug_fabric fabric;
    struct tug_packets packets;
    struct word_wire out;
    struct tug_stream *streams[2];
    struct tug_registration remote, local;
};

static struct side *a, *b;

static bool put(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct word_wire *out = (struct word_wire *)wire;
    (void)peer;
    assert_true(out->count < QUEUE);
    const unsigned at = (out->first + out->count++) % QUEUE;
    out->queue[at].bytes = buffer->packet.used;
    memcpy(out->queue[at].memory, buffer->packet.memory, buffer->packet.used);
    out->sent++;
    tug_pool_give(&wire->pool, buffer);
    return true;
}

static bool take(struct tug_wire *wire) {
    struct word_wire *in = &((struct word_wire *)wire)->to->out;
    bool any = false;
    for (; in->count > 0 && in->delivers > 0; in->count--, in->delivers--, any = true) {
        const unsigned at = in->first;
        in->first = (in->first + 1) % QUEUE;
        wire->receive(wire->receiver, wire, in->queue[at].memory, in->queue[at].bytes);
    }
    return any;
}

static void tell(struct tug_wire *wire, uint32_t peer, uint64_t word) {
    (void)peer;
    ((struct word_wire *)wire)->to->out.word = word;
}

static uint64_t told(const struct tug_wire *wire, uint32_t peer) {
    (void)peer;
    return ((const struct word_wire *)wire)->word;
}

static const struct tug_wire_type type = {
    .name = "words", .send = put, .poll = take, .tell = tell, .told = told};

static struct side *make_side(uint32_t rank) {
    struct side *side = calloc(1, sizeof(*side));
    assert_non_null(side);
    assert_true(joined_begin(&side->fabric, rank, OPERATIONS));
    joined_by(&side->fabric, &side->packets, side->streams, &side->out.wire, &type, PACKET_BYTES);
    side->out.delivers = UINT32_MAX;
    joined_add_memory(&side->fabric, &side->remote, MEMORY, 0xB0);
    joined_add_memory(&side->fabric, &side->local, MEMORY, 0x0A);
    return side;
}

static int set_up(void **state) {
    (void)state;
    a = make_side(0);
    b = make_side(1);
    a->out.to = b;
    b->out.to = a;
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (struct side *side = a; side != NULL; side = side == a ? b : NULL) {
        joined_free_streams(side->streams, &side->out.wire);
        joined_close(&side->fabric, &side->out.wire);
        free(side->remote.base);
        free(side->local.base);
    }
    free(a);
    free(b);
    return 0;
}

static void write_at(uint64_t offset, struct record *record) {
    uint32_t tag = TUG_NO_TAG;
    assert_true(tug_tags_take(&a->fabric.tags, &tag));
    struct tug_operation *operation = &a->fabric.operations[tag];
    *record = (struct record){0, 0, 1};
    *operation = (struct tug_operation){.kind = TUG_OPERATION_WRITE,
                                        .peer = 1,
                                        .key = b->remote.id,
                                        .offset = offset,
                                        .bytes = 8,
                                        .local = a->local.base,
                                        .on_complete = {on_complete, record}};
    a->fabric.out++;
    tug_transport_packets.post(&a->packets, operation);
    tug_transport_packets.flush(&a->packets);
}

static void poll_once(struct side *side) {
    (void)tug_transport_packets.poll(&side->packets);
}

/* No packet goes back. */
static void test_a_word_acknowledges(void **state) {
    (void)state;
    struct record record[20];
    for (int i = 0; i < 20; i++) {
        write_at(8 * (uint64_t)i, &record[i]);
        assert_int_equal(record[i].completed, 0);
        assert_ptr_equal(a->packets.under_way, a->streams[1]);
        poll_once(b);
        poll_once(a);
        assert_null(a->packets.under_way); /* no poll looks there any more */
        assert_int_equal(record[i].completed, 1);
        assert_int_equal(record[i].status, 0);
    }
    assert_int_equal(a->out.sent, 20);
    assert_int_equal(b->out.sent, 0);
    assert_memory_equal(b->remote.base, a->local.base, 8);
    assert_false(tug_transport_packets.busy(&a->packets));
}

/* The word is there before the packet that says what has failed: it waits for it. */
static void test_failure_goes_ahead(void **state) {
    (void)state;
    struct record record[2];
    b->out.delivers = 0;
    write_at(MEMORY, &record[0]);
    poll_once(b);
    write_at(0, &record[1]); /* waits: the first one is under way */
    atomic_store(&a->fabric.flush_wanted, true);
    poll_once(a);
    poll_once(b);
    for (int i = 0; i < 3; i++)
        poll_once(a);
    assert_int_equal(record[0].completed + record[1].completed, 0);
    b->out.delivers = UINT32_MAX;
    for (int i = 0; i < 2; i++)
        poll_once(a);
    assert_int_equal(record[0].completed, 1);
    assert_int_equal(record[0].status, TUG_ERR_RANGE);
    assert_int_equal(record[1].completed, 1);
    assert_int_equal(record[1].status, 0);
}

static void test_word_for_what_was_not_sent(void **state) {
    (void)state;
    struct record record;
    write_at(0, &record);
    a->out.word = 7;
    poll_once(a);
    assert_int_equal(record.completed, 1);
    assert_int_equal(record.status, TUG_ERR_PEER);
    poll_once(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_word_acknowledges, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failure_goes_ahead, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_word_for_what_was_not_sent, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
