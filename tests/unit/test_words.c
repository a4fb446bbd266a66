/* Acknowledgements by words: packets between two processes that are both in this one, by wires
 * that have words beside their queues. The test decides what is delivered and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/page.h"
#include "node/words.h"
#include "tests/unit/fake_wire.h"
#include "transport/packets/packets.h"

#define OPERATIONS 64
#define MEMORY 4096
#define PACKET_BYTES 2048

static const struct tug_transport type = {.name = "words", .send = fake_send, .poll = fake_poll};

/* The two are a node. */
static _Atomic uint64_t all[4];
static struct tug_words words[2] = {{.row = 2, .mine = 0, .all = all},
                                    {.row = 2, .mine = 1, .all = all}};

static void join_node(struct side *side) {
    static const uint32_t ranks[] = {0, 1};
    static struct tug_node_page page;
    static struct tug_neighbour neighbour = {.page = &page};
    static struct tug_neighbour *neighbours[] = {&neighbour, &neighbour};
    static struct tug_team team = {.neighbours = neighbours};
    side->fabric.team = &team;
    side->fabric.node_ranks = ranks;
    side->fabric.node_size = 2;
    side->out.wire.words = &words[side->fabric.rank];
    side->packets.hears_words = true;
}

static int set_up(void **state) {
    (void)state;
    memset(all, 0, sizeof(all));
    fake_begin(&type, PACKET_BYTES, OPERATIONS, MEMORY);
    join_node(a);
    join_node(b);
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
    tug_packets_post(&a->packets, operation);
    tug_packets_flush(&a->packets);
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
    assert_false(tug_packets_busy(&a->packets));
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
    tug_words_tell(&words[1], 0, 7);
    poll_once(a);
    assert_int_equal(record.completed, 1);
    assert_int_equal(record.status, TUG_ERR_PEER);
    poll_once(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_word_acknowledges, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_failure_goes_ahead, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_word_for_what_was_not_sent, set_up, fake_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
