/* The row mpi between two processes that are one: two fabrics, and a host whose messages wait until
 * they are matched, in their order, as those do that go from memory to memory. Seen: what arrives,
 * how many are under way, and that memory is its message's until that has ended, at whatever step
 * the two lose each other. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/joined_records.h"
#include "tests/unit/played_messages.h"

#define OPERATIONS 64
#define BLOCK ((size_t)1 << 17)
#define BLOCKS 12
#define MEMORY (BLOCKS * BLOCK)

/* ---- two sides ---- */

static struct side {
    struct tug_fabric fabric;
    struct tug_packets packets;
    struct tug_wire spare; /* joined_by() joins by it, and nothing goes by it */
    struct tug_wire *wire;
    struct tug_stream *streams[2];
    struct tug_registration memory;
} sides[2];

static bool takes_some; /* of three times that a packet is handed up it is taken once */

static bool receive(void *receiver, struct tug_wire *wire, const void *memory, size_t bytes) {
    static unsigned n;
    return (!takes_some || n++ % 3 == 2) && tug_packets_receive(receiver, wire, memory, bytes);
}

/* The host's messages have come this far. */
static void step(unsigned to) {
    played_progress(sides[to].fabric.comm);
    (void)tug_packets_poll(&sides[to].packets);
}

static void run(void) {
    for (int i = 0; i < 60; i++)
        step((unsigned)i % 2);
}

static int set_up(void **state) {
    (void)state;
    played_begin(true);
    takes_some = false;
    memset(sides, 0, sizeof(sides));
    for (uint32_t i = 0; i < 2; i++) {
        struct side *side = &sides[i];
        assert_true(joined_begin(&side->fabric, i, OPERATIONS));
        side->fabric.comm = PLAYED_COMM(i);
        joined_by(&side->fabric, &side->packets, side->streams, &side->spare, &tug_transport_mpi,
                  0);
        side->wire = tug_transport_mpi.make(&side->fabric);
        assert_non_null(side->wire);
        side->packets.nwires = 0;
        tug_packets_attach(&side->packets, side->wire);
        side->wire->receive = receive;
        joined_add_memory(&side->fabric, &side->memory, MEMORY, 0);
        for (size_t at = 0; at < MEMORY; at++)
            side->memory.base[at] = (unsigned char)(at * 7 + (at >> 9) + i);
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_false(tug_packets_busy(&sides[i].packets));
        joined_free_streams(sides[i].streams, sides[i].wire);
        assert_int_equal(sides[i].wire->pool.nout, 0);
        tug_transport_mpi.close(sides[i].wire);
        joined_end(&sides[i].fabric);
        free(sides[i].memory.base);
    }
    for (int i = 0; i < nplayed; i++)
        assert_false(played[i].used);
    return 0;
}

static bool key_of_nothing;

/* At the same place at both. */
static void post(unsigned kind, size_t offset, size_t bytes, struct record *record) {
    struct side *side = &sides[0];
    uint32_t tag = TUG_NO_TAG;
    assert_true(tug_tags_take(&side->fabric.tags, &tag));
    struct tug_operation *operation = &side->fabric.operations[tag];
    *record = (struct record){0, 0, 1};
    *operation = (struct tug_operation){.kind = (uint8_t)kind,
                                        .peer = 1,
                                        .key = sides[1].memory.id + key_of_nothing,
                                        .offset = offset,
                                        .bytes = bytes,
                                        .local = side->memory.base + offset,
                                        .on_complete = {on_complete, record},
                                        .on_local = {on_local, record}};
    side->fabric.out++;
    tug_packets_post(&side->packets, operation);
    tug_packets_flush(&side->packets);
}

static bool is_read_or_written(const struct side *side) {
    const unsigned char *base = side->memory.base;
    for (int i = 0; i < nplayed; i++)
        if (played[i].used && !played[i].done && !played[i].taken_back &&
            played[i].memory >= base && played[i].memory < base + MEMORY)
            return true;
    return false;
}

static unsigned received_at_once(void) {
    unsigned n = 0;
    for (int i = 0; i < nplayed; i++)
        n += played[i].used && played[i].receives && played[i].tag == TUG_MPI_TAG_LONG;
    return n;
}

/* ---- the cases ---- */

/* Odd bytes go ahead; what is not long goes in packets, and between the others. */
static void moves(unsigned kind) {
    struct record records[BLOCKS];
    unsigned most = 0;
    for (size_t i = 0; i < BLOCKS; i++)
        post(kind, i * BLOCK, i % 4 == 3 ? 1000 : BLOCK - i % 3, &records[i]);
    for (int i = 0; i < 200; i++) {
        step((unsigned)i % 2);
        const unsigned now = received_at_once();
        most = now > most ? now : most;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(records[i].completed, 1);
        assert_int_equal(records[i].status, 0);
        assert_memory_equal(sides[0].memory.base + i * BLOCK, sides[1].memory.base + i * BLOCK,
                            i % 4 == 3 ? 1000 : BLOCK - i % 3);
    }
    assert_true((takes_some || most > 1) && most <= TUG_EXPECTED_MOST);
    assert_int_equal(sides[0].memory.base[0], kind == TUG_OPERATION_READ);
}

static void blocks_are_written(void **state) {
    (void)state;
    moves(TUG_OPERATION_WRITE);
}

static void blocks_are_read(void **state) {
    (void)state;
    moves(TUG_OPERATION_READ);
}

/* For want of memory: it is handed up again, ahead of what has come behind it. */
static void blocks_are_written_later(void **state) {
    (void)state;
    takes_some = true;
    moves(TUG_OPERATION_WRITE);
}

static void blocks_are_read_later(void **state) {
    (void)state;
    takes_some = true;
    moves(TUG_OPERATION_READ);
}

/* Its data go nowhere, and those before and behind it arrive. */
static void what_is_refused_goes_nowhere(void **state) {
    struct record records[3];
    (void)state;
    post(TUG_OPERATION_WRITE, 0, BLOCK, &records[0]);
    key_of_nothing = true;
    post(TUG_OPERATION_WRITE, MEMORY - BLOCK, BLOCK, &records[1]);
    key_of_nothing = false;
    post(TUG_OPERATION_WRITE, 2 * BLOCK, BLOCK, &records[2]);
    run();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(records[i].completed, 1);
        assert_int_equal(records[i].status, i == 1 ? TUG_ERR_KEY : 0);
    }
    assert_memory_equal(sides[0].memory.base, sides[1].memory.base, BLOCK);
    assert_memory_equal(sides[0].memory.base + 2 * BLOCK, sides[1].memory.base + 2 * BLOCK, BLOCK);
    assert_memory_not_equal(sides[0].memory.base + MEMORY - BLOCK,
                            sides[1].memory.base + MEMORY - BLOCK, BLOCK);
}

/* That side sends what makes no sense, a packet with a number that is not the next. */
static void talk_nonsense(unsigned from) {
    struct tug_wire *wire = sides[from].wire;
    struct tug_buffer *buffer = tug_pool_take(&wire->pool);
    assert_non_null(buffer);
    uint64_t *words = tug_packet_add(&buffer->packet, TUG_RECORD_READ, 0, 0, 0);
    memset(words, 0, 32);
    tug_packet_end(&buffer->packet, from, 77, 0, JOINED_ID);
    assert_true(wire->row->send(wire, !from, buffer));
}

/* A packet that is none while data arrive: the data behind it go nowhere, and the others where they
 * belong. */
static void what_is_no_packet_has_no_data(void **state) {
    struct record records[2];
    (void)state;
    struct tug_wire *wire = sides[0].wire;
    post(TUG_OPERATION_WRITE, 0, BLOCK, &records[0]);
    struct tug_buffer *buffer = tug_pool_take(&wire->pool);
    assert_non_null(buffer);
    uint64_t *words = tug_packet_add(&buffer->packet, TUG_RECORD_LONG_WRITE, 0, TUG_NO_TAG, 0);
    words[0] = sides[1].memory.id;
    words[1] = 4 * BLOCK;
    words[2] = 2 * BLOCK;
    tug_buffer_trail(buffer, sides[0].memory.base + 8 * BLOCK, 2 * BLOCK);
    tug_packet_end(&buffer->packet, 0, 0, 0, JOINED_ID);
    ((struct tug_packet_header *)buffer->memory)->flags |= 64;
    buffer->of = TUG_NO_TAG;
    assert_true(wire->row->send(wire, 1, buffer));
    post(TUG_OPERATION_WRITE, 2 * BLOCK, BLOCK, &records[1]);
    run();
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(records[i].completed, 1);
        assert_int_equal(records[i].status, 0);
        assert_memory_equal(sides[0].memory.base + 2 * i * BLOCK,
                            sides[1].memory.base + 2 * i * BLOCK, BLOCK);
    }
    assert_int_equal(sides[1].memory.base[BLOCK], (unsigned char)(BLOCK * 7 + (BLOCK >> 9) + 1));
    assert_int_equal(sides[1].memory.serving, 0);
}

/* Longer than any packet: the host cuts it off, and says how long it was. It is not read beyond the
 * buffer. */
static void what_is_cut_off_is_dropped(void **state) {
    static uint64_t memory[TUG_MPI_PACKET_BYTES / 8 + 8];
    struct tug_packet packet;
    MPI_Request request;
    int flag;
    (void)state;
    run();
    tug_packet_begin(&packet, memory, sizeof(memory));
    (void)tug_packet_add(&packet, TUG_RECORD_FAILED, 0, 0, 0);
    tug_packet_end(&packet, 0, 0, 0, JOINED_ID);
    ((struct tug_packet_header *)memory)->bytes = sizeof(memory);
    played_cuts = true;
    tug_host.Isend(memory, sizeof(memory), MPI_BYTE, 1, TUG_MPI_TAG_PACKET, PLAYED_COMM(0),
                   &request);
    run();
    played_cuts = false;
    assert_null(sides[1].streams[0]); /* nobody has talked to it */
    tug_host.Test(&request, &flag, MPI_STATUS_IGNORE);
    assert_true(flag);
}

/* One of them makes no sense after so many steps: they lose each other. Memory that the host has is
 * not said to be free. */
static void part_after(unsigned kind, int steps, unsigned who) {
    void *none = NULL;
    struct record records[3];
    assert_int_equal(set_up(&none), 0);
    for (size_t i = 0; i < 3; i++)
        post(kind, i * BLOCK, BLOCK, &records[i]);
    for (int i = 0; i < steps; i++)
        step(!((unsigned)i % 2));
    talk_nonsense(who);
    for (int i = 0; i < 60; i++) {
        step((unsigned)i % 2);
        const bool ended = records[0].completed && records[1].completed && records[2].completed;
        assert_true(!ended || !is_read_or_written(&sides[0]));
        assert_true(sides[1].memory.serving > 0 || !is_read_or_written(&sides[1]));
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(records[i].completed, 1);
        assert_true(records[i].status == 0 || records[i].status == TUG_ERR_PEER);
    }
    assert_true(sides[0].streams[1]->lost || sides[1].streams[0]->lost);
    assert_int_equal(sides[0].fabric.out, 0);
    assert_int_equal(sides[1].memory.serving, 0);
    assert_int_equal(tear_down(&none), 0);
}

static void memory_is_its_messages(void **state) {
    (void)state;
    for (int steps = 0; steps < 8; steps++)
        for (unsigned who = 0; who < 2; who++) {
            part_after(TUG_OPERATION_WRITE, steps, who);
            part_after(TUG_OPERATION_READ, steps, who);
        }
}

int main(void) {
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(blocks_are_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blocks_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blocks_are_written_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blocks_are_read_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_refused_goes_nowhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_packet_has_no_data, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_cut_off_is_dropped, set_up, tear_down),
        cmocka_unit_test(memory_is_its_messages),
    };
    return cmocka_run_group_tests_name("transport/wire_mpi", cases, NULL, NULL);
}
