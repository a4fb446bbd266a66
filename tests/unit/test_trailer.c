/* Long writes and reads between two processes that are both in this one, over a wire that carries
 * what follows packets: the test decides how much of it goes, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/fake_wire.h"
#include "transport/packets/packets.h"

#define OPERATIONS 64
#define MEMORY ((size_t)8 << 20)
#define PACKET_BYTES 32768

static int set_up(void **state) {
    (void)state;
    fake_begin(&fake_trailing, PACKET_BYTES, OPERATIONS, MEMORY);
    memset(b->local.base, 0, MEMORY);
    for (size_t i = 0; i < MEMORY; i++)
        a->local.base[i] = (unsigned char)(i * 7 + (i >> 9));
    return 0;
}

/* ---- operations of a ---- */

static struct tug_operation *prepare(uint8_t kind, uint64_t key, uint64_t offset, uint64_t bytes,
                                     struct record *record) {
    struct tug_operation *operation = fake_operation(kind, offset, bytes);
    *record = (struct record){0, 0, 1};
    operation->key = key;
    operation->on_complete = (struct tug_callback){on_complete, record};
    operation->on_local = (struct tug_callback){on_local, record};
    a->fabric.out++;
    return operation;
}

static void start(uint8_t kind, uint64_t key, uint64_t offset, uint64_t bytes,
                  struct record *record) {
    tug_packets_post(&a->packets, prepare(kind, key, offset, bytes, record));
    tug_packets_flush(&a->packets);
}

static void write_to(uint64_t key, uint64_t offset, uint64_t bytes, struct record *record) {
    start(TUG_OPERATION_WRITE, key, offset, bytes, record);
}

static void read_from(uint64_t key, uint64_t offset, uint64_t bytes, struct record *record) {
    start(TUG_OPERATION_READ, key, offset, bytes, record);
}

static void assert_done(const struct record *record, int status) {
    assert_int_equal(record->completed, 1);
    assert_int_equal(record->local, 1);
    assert_int_equal(record->status, status);
}

static void assert_idle(void) {
    assert_int_equal(a->fabric.out, 0);
    assert_int_equal(b->remote.serving, 0);
    assert_false(tug_packets_busy(&b->packets));
    assert_false(tug_packets_busy(&a->packets));
}

static void assert_unwritten(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; i++)
        assert_int_equal(b->remote.base[i], 0xB0);
}

/* ---- writes ---- */

static void test_sizes(void **state) {
    static const uint64_t sizes[] = {
        TUG_LONG_LEAST - 1, TUG_LONG_LEAST, TUG_LONG_LEAST + 1, TUG_LONG_PIECE - 8,
        TUG_LONG_PIECE - 1, TUG_LONG_PIECE, TUG_LONG_PIECE + 7, 5 * (uint64_t)TUG_LONG_PIECE + 13};
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct record record;
        memset(b->remote.base, 0xB0, MEMORY);
        a->out.long_ones = 0;
        write_to(b->remote.id, 11, sizes[i], &record);
        run();
        assert_done(&record, 0);
        assert_int_equal(a->out.long_ones,
                         sizes[i] < TUG_LONG_LEAST
                             ? 0
                             : (sizes[i] - sizes[i] % 8 + TUG_LONG_PIECE - 1) / TUG_LONG_PIECE);
        assert_memory_equal(b->remote.base + 11, a->local.base + 11, sizes[i]);
        assert_unwritten(0, 11);
        assert_unwritten(11 + sizes[i], 11 + sizes[i] + 4096);
    }
    assert_idle();
}

/* Nothing is complete, nor may the memory be used again, before the last byte has gone; until then
 * the registration cannot be ended. */
static void test_in_parts(void **state) {
    (void)state;
    struct record record[3];
    allowance = 0;
    write_to(b->remote.id, 0, TUG_LONG_PIECE, &record[0]);
    write_to(b->remote.id, 4000000, 100, &record[1]);
    write_to(b->remote.id, 2000000, 70000, &record[2]);
    for (size_t come = 0; come < TUG_LONG_PIECE + 70000;) {
        run();
        assert_int_equal(b->remote.serving, 1);
        assert_int_equal(record[0].local, come >= TUG_LONG_PIECE);
        assert_int_equal(record[0].completed, come >= TUG_LONG_PIECE);
        assert_int_equal(record[2].completed + record[2].local, 0);
        if (come < TUG_LONG_PIECE)
            assert_unwritten(come, TUG_LONG_PIECE);
        size_t next = TUG_LONG_PIECE + 70000 - come;
        allowance = next < 99992 ? next : 99992;
        come += allowance;
    }
    run();
    for (int i = 0; i < 3; i++)
        assert_done(&record[i], 0);
    assert_memory_equal(b->remote.base, a->local.base, TUG_LONG_PIECE);
    assert_memory_equal(b->remote.base + 4000000, a->local.base + 4000000, 100);
    assert_memory_equal(b->remote.base + 2000000, a->local.base + 2000000, 70000);
    assert_idle();
}

/* A target that does not take any costs a bounded number of packets. */
static void test_few_at_a_time(void **state) {
    (void)state;
    struct record record[3];
    allowance = 0;
    for (int i = 0; i < 3; i++)
        write_to(b->remote.id, 0, 3 * (uint64_t)TUG_LONG_PIECE, &record[i]);
    run();
    assert_int_equal(a->out.long_ones, TUG_LONGS_MOST);
    allowance = SIZE_MAX;
    run();
    for (int i = 0; i < 3; i++)
        assert_done(&record[i], 0);
    assert_int_equal(a->out.long_ones, 9);
    assert_idle();
}

/* A wrong key and a place outside: what follows goes nowhere, and what comes after it is right. */
static void test_refused_places(void **state) {
    (void)state;
    struct record record[4];
    write_to(b->remote.id + 9, 0, 100000, &record[0]);
    write_to(b->remote.id, MEMORY - 99999, 100000, &record[1]);
    write_to(b->remote.id, UINT64_MAX - 50000, 100000 & ~7u, &record[2]);
    write_to(b->remote.id, 500000, 100000, &record[3]);
    run();
    assert_done(&record[0], TUG_ERR_KEY);
    assert_done(&record[1], TUG_ERR_RANGE);
    assert_done(&record[2], TUG_ERR_RANGE);
    assert_done(&record[3], 0);
    assert_unwritten(0, 500000);
    assert_unwritten(600000, MEMORY);
    assert_memory_equal(b->remote.base + 500000, a->local.base + 500000, 100000);
    assert_idle();
}

/* Two signals behind a write, before its packet has gone: the first alone goes in that. */
static void test_two_signals(void **state) {
    (void)state;
    struct record nobody = {0}, record[2];
    uint64_t *counters = (uint64_t *)b->remote.base;
    counters[0] = counters[1] = 40;
    struct tug_operation *write =
        prepare(TUG_OPERATION_WRITE, b->remote.id, 1000000, 2 * TUG_LONG_PIECE, &nobody);
    write->op = TUG_WRITE_SIGNALLED;
    write->on_complete.f = NULL;
    tug_packets_post(&a->packets, write);
    for (unsigned i = 0; i < 2; i++) {
        struct tug_operation *signal =
            prepare(TUG_OPERATION_SIGNAL, b->remote.id, 8 * i, 8, &record[i]);
        signal->local = NULL;
        signal->operand = i + 1;
        tug_packets_post(&a->packets, signal);
    }
    run();
    for (unsigned i = 0; i < 2; i++) {
        assert_done(&record[i], 0);
        assert_int_equal(counters[i], 40 + i + 1);
    }
    assert_memory_equal(b->remote.base + 1000000, a->local.base + 1000000, 2 * TUG_LONG_PIECE);
    assert_idle();
}

/* Nobody sends two in one packet: neither is raised, and the sender is given up. */
static void test_signed_twice(void **state) {
    (void)state;
    uint64_t memory[64];
    struct tug_packet packet;
    tug_packet_begin(&packet, memory, sizeof(memory));
    for (unsigned i = 0; i < 2; i++) {
        uint64_t *words = tug_packet_add(&packet, TUG_RECORD_SIGNAL, 1, i, 0);
        words[0] = b->remote.id;
        words[1] = 8 * i;
        words[2] = 1;
    }
    uint64_t *words = tug_packet_add(&packet, TUG_RECORD_LONG_WRITE, 1, 2, 0);
    words[0] = b->remote.id;
    words[1] = 4096;
    tug_packet_trail(&packet, 65536);
    tug_packet_end(&packet, 0, 1, 0, JOINED_ID);
    tug_packets_receive(&b->packets, &b->out.wire, memory, packet.used);
    assert_true(b->streams[0]->lost);
    assert_unwritten(0, 8192);
}

/* The origin is gone in the middle of its data: the target's memory is its own again. */
static void test_origin_lost(void **state) {
    (void)state;
    struct record record;
    allowance = 50000;
    write_to(b->remote.id, 0, TUG_LONG_PIECE, &record);
    run();
    assert_int_equal(b->remote.serving, 1);
    assert_non_null(b->out.wire.trailer_address(&b->packets, 0, 50000, &(size_t){1}));
    b->out.wire.arrived(&b->packets, 0, false);
    b->out.wire.ended(&b->packets, 0);
    assert_int_equal(b->remote.serving, 0);
    assert_null(b->out.wire.trailer_address(&b->packets, 0, 50000, &(size_t){1}));
    a->out.wire.ended(&a->packets, 1);
    assert_done(&record, TUG_ERR_PEER);
    assert_int_equal(a->out.count, 0); /* nothing refers to the program's memory any more */
    assert_idle();
}

/* While a write is half there, a packet of nothing comes from the other side. */
static void interrupt(struct side *at, uint32_t source, uint32_t applied, struct record *record) {
    uint64_t memory[8];
    struct tug_packet packet;
    allowance = 50000;
    write_to(b->remote.id, 0, TUG_LONG_PIECE, record);
    run();
    tug_packet_begin(&packet, memory, sizeof(memory));
    tug_packet_end(&packet, source, 0, applied, JOINED_ID);
    tug_packets_receive(&at->packets, &at->out.wire, memory, packet.used);
}

/* Acknowledged before all of it has been sent, as far as this side knows: the wire has the memory
 * still, and the write ends when it lets go of that. */
static void test_acknowledged_early(void **state) {
    (void)state;
    struct record record;
    interrupt(a, 1, 1, &record);
    assert_int_equal(record.completed + record.local, 0);
    allowance = TUG_LONG_PIECE - 50000;
    b->out.room = 0; /* no other acknowledgement comes */
    run();
    assert_done(&record, 0);
    b->out.room = FAKE_QUEUE;
    run();
    assert_idle();
}

/* Another packet in the place of the data. */
static void test_packet_in_between(void **state) {
    (void)state;
    struct record record;
    interrupt(b, 0, 0, &record);
    assert_true(b->streams[0]->lost);
    assert_int_equal(b->remote.serving, 0);
    run();
    assert_done(&record, TUG_ERR_PEER);
}

/* ---- reads ---- */

/* What b has, and a has not. */
static void fill_remote(void) {
    for (size_t i = 0; i < MEMORY; i++)
        b->remote.base[i] = (unsigned char)(i * 5 + (i >> 11));
    memset(a->local.base, 0xA0, MEMORY);
}

static void assert_read(uint64_t offset, uint64_t bytes) {
    assert_memory_equal(a->local.base + offset, b->remote.base + offset, bytes);
}

static void assert_unread(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; i++)
        assert_int_equal(a->local.base[i], 0xA0);
}

static void test_read_sizes(void **state) {
    static const struct {
        uint64_t bytes;
        unsigned long_ones;
    } sizes[] = {{TUG_LONG_LEAST - 1, 0},
                 {TUG_LONG_LEAST, 1},
                 {TUG_LONG_LEAST + 1, 1},
                 {TUG_LONG_PIECE - 1, 1},
                 {TUG_LONG_PIECE, 1},
                 {TUG_LONG_PIECE + 7, 1},
                 {TUG_LONG_PIECE + 8, 1}, /* the rest is short */
                 {TUG_LONG_PIECE + TUG_READ_PIECE + 9, 2},
                 {5 * (uint64_t)TUG_LONG_PIECE + TUG_READ_PIECE, 5}};
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct record record;
        fill_remote();
        b->out.long_ones = 0;
        read_from(b->remote.id, 11, sizes[i].bytes, &record);
        run();
        assert_done(&record, 0);
        assert_int_equal(b->out.long_ones, sizes[i].long_ones);
        assert_read(11, sizes[i].bytes);
        assert_unread(0, 11);
        assert_unread(11 + sizes[i].bytes, 11 + sizes[i].bytes + 4096);
    }
    assert_idle();
}

/* Nothing is complete before the last byte has come; until it has gone the registration cannot be
 * ended. */
static void test_read_in_parts(void **state) {
    (void)state;
    struct record record[3];
    fill_remote();
    allowance = 0;
    read_from(b->remote.id, 0, TUG_LONG_PIECE, &record[0]);
    read_from(b->remote.id, 4000000, 100, &record[1]);
    read_from(b->remote.id, 2000000, 70000, &record[2]);
    for (size_t come = 0; come < TUG_LONG_PIECE + 70000;) {
        run();
        assert_int_equal(b->remote.serving, come < TUG_LONG_PIECE ? 2 : 1);
        assert_int_equal(record[0].completed, come >= TUG_LONG_PIECE);
        assert_int_equal(record[1].completed, come >= TUG_LONG_PIECE);
        assert_int_equal(record[2].completed, 0);
        if (come < TUG_LONG_PIECE)
            assert_unread(come, TUG_LONG_PIECE);
        const size_t next = TUG_LONG_PIECE + 70000 - come;
        allowance = next < 99992 ? next : 99992;
        come += allowance;
    }
    run();
    for (int i = 0; i < 3; i++)
        assert_done(&record[i], 0);
    assert_read(0, TUG_LONG_PIECE);
    assert_read(4000000, 100);
    assert_read(2000000, 70000);
    assert_idle();
}

/* Whoever takes nothing of what it reads costs the other side a bounded number of packets. */
static void test_few_reads_at_a_time(void **state) {
    (void)state;
    struct record record[3];
    fill_remote();
    read_from(b->remote.id, 0, 8, &record[0]); /* now a has been told its credit */
    run();
    allowance = 0;
    for (int i = 0; i < 3; i++)
        read_from(b->remote.id, 0, 3 * (uint64_t)TUG_LONG_PIECE, &record[i]);
    run();
    assert_int_equal(b->out.long_ones, TUG_LONGS_MOST);
    assert_int_equal(b->remote.serving, TUG_LONGS_MOST);
    assert_true(b->out.count <= TUG_LONGS_MOST + 1);
    allowance = SIZE_MAX;
    run();
    for (int i = 0; i < 3; i++)
        assert_done(&record[i], 0);
    assert_int_equal(b->out.long_ones, 9);
    assert_read(0, 3 * (uint64_t)TUG_LONG_PIECE);
    assert_idle();
}

static void test_refused_reads(void **state) {
    (void)state;
    struct record record[4];
    fill_remote();
    read_from(b->remote.id + 9, 0, 100003, &record[0]);
    read_from(b->remote.id, MEMORY - 99999, 100000, &record[1]);
    read_from(b->remote.id, UINT64_MAX - 50000, 100000, &record[2]);
    read_from(b->remote.id, 500000, 100000, &record[3]);
    run();
    assert_done(&record[0], TUG_ERR_KEY);
    assert_done(&record[1], TUG_ERR_RANGE);
    assert_done(&record[2], TUG_ERR_RANGE);
    assert_done(&record[3], 0);
    assert_unread(0, 500000);
    assert_unread(600000, MEMORY);
    assert_read(500000, 100000);
    assert_idle();
}

/* Reads and writes cross: neither waits for the other. */
static void test_both_ways(void **state) {
    (void)state;
    struct record record[8];
    const uint64_t eighth = MEMORY / 8;
    for (int i = 0; i < 8; i++)
        (i % 2 ? read_from : write_to)(b->remote.id, eighth * (unsigned)i, eighth, &record[i]);
    for (int i = 0; i < 8; i++) {
        allowance = 300000;
        run();
    }
    allowance = SIZE_MAX;
    run();
    for (int i = 0; i < 8; i++)
        assert_done(&record[i], 0);
    assert_memory_equal(a->local.base, b->remote.base, MEMORY);
    assert_idle();
}

/* The target is gone in the middle of its data: they go nowhere any more. And the other way round:
 * it has its memory again when nobody reads it. */
static void test_reading_ends_early(void **state) {
    (void)state;
    struct record record[2];
    fill_remote();
    allowance = 50000;
    read_from(b->remote.id, 0, TUG_LONG_PIECE, &record[0]);
    read_from(b->remote.id, 0, TUG_LONG_PIECE, &record[1]);
    run();
    assert_int_equal(b->remote.serving, 2);
    assert_non_null(a->out.wire.trailer_address(&a->packets, 1, 50000, &(size_t){1}));
    a->out.wire.arrived(&a->packets, 1, false);
    a->out.wire.ended(&a->packets, 1);
    assert_null(a->out.wire.trailer_address(&a->packets, 1, 50000, &(size_t){1}));
    for (int i = 0; i < 2; i++)
        assert_done(&record[i], TUG_ERR_PEER);
    assert_unread(50000, TUG_LONG_PIECE);
    tug_stream_lose(&b->packets, b->streams[0]);
    assert_int_equal(b->out.count, 0);
    assert_idle();
}

/* An answer that has been made, or waits for room, is dropped with the stream. */
static void test_unsent_answers_are_dropped(void **state) {
    (void)state;
    struct record record[3];
    fill_remote();
    read_from(b->remote.id, 0, 8, &record[0]);
    run();
    b->out.room = 0;
    for (int i = 0; i < 3; i++)
        read_from(b->remote.id, 0, TUG_LONG_PIECE, &record[i]);
    run();
    assert_int_equal(b->remote.serving, 3);
    tug_stream_lose(&b->packets, b->streams[0]);
    assert_int_equal(b->remote.serving, 0);
    b->out.room = FAKE_QUEUE;
    run();
    assert_int_equal(b->out.long_ones, 0);
    tug_stream_lose(&a->packets, a->streams[1]);
    assert_idle();
}

/* Where the way to a peer has ended no answer waits for it. */
static void test_nothing_waits_for_the_end(void **state) {
    (void)state;
    struct record record[2];
    fill_remote();
    b->out.room = 0;
    read_from(b->remote.id, 0, 8, &record[0]);
    read_from(b->remote.id, 0, 70000, &record[1]);
    run();
    assert_true(tug_packets_busy(&b->packets));
    b->out.wire.ended(&b->packets, 0);
    run();
    assert_false(tug_packets_busy(&b->packets));
    a->out.wire.ended(&a->packets, 1);
    for (int i = 0; i < 2; i++)
        assert_done(&record[i], TUG_ERR_PEER);
    assert_idle();
}

/* An answer that says something else than was asked: nothing of it is written, and its sender is
 * given up. */
static void answer_wrongly(unsigned kind, uint32_t tag, uint64_t position, uint32_t bytes) {
    static uint64_t memory[65536 / 8];
    struct record record;
    struct tug_packet packet;
    fill_remote();
    allowance = 0;
    read_from(b->remote.id, 0, 40003, &record);
    tug_packet_begin(&packet, memory, sizeof(memory));
    *tug_packet_add(&packet, TUG_RECORD_DATA, 0, 0, 3) = 0;
    uint64_t *words = tug_packet_add(&packet, kind, 0, tag, kind == TUG_RECORD_DATA ? bytes : 0);
    words[0] = position;
    if (kind == TUG_RECORD_LONG_DATA)
        tug_packet_trail(&packet, bytes);
    tug_packet_end(&packet, 1, 0, 0, JOINED_ID);
    tug_packets_receive(&a->packets, &a->out.wire, memory, packet.used);
    assert_true(a->streams[1]->lost);
    assert_null(a->out.wire.trailer_address(&a->packets, 1, 0, &(size_t){1}));
    assert_done(&record, TUG_ERR_PEER);
    assert_unread(3, MEMORY);
}

#define WRONG_ANSWER(name, kind, tag, position, bytes)                                             \
    static void name(void **state) {                                                               \
        (void)state;                                                                               \
        answer_wrongly(kind, tag, position, bytes);                                                \
    }

WRONG_ANSWER(test_wrong_tag, TUG_RECORD_LONG_DATA, 1, 3, 40000)
WRONG_ANSWER(test_no_tag, TUG_RECORD_LONG_DATA, UINT32_MAX, 3, 40000)
WRONG_ANSWER(test_answered_twice, TUG_RECORD_LONG_DATA, 0, 0, 40000)
WRONG_ANSWER(test_wrong_position, TUG_RECORD_LONG_DATA, 0, 11, 39992)
WRONG_ANSWER(test_too_few_bytes, TUG_RECORD_LONG_DATA, 0, 3, 39992)
WRONG_ANSWER(test_too_many_bytes, TUG_RECORD_LONG_DATA, 0, 3, 40008)
WRONG_ANSWER(test_long_in_its_packet, TUG_RECORD_DATA, 0, 3, 40000)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sizes, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_in_parts, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_few_at_a_time, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_refused_places, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_two_signals, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_signed_twice, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_origin_lost, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_acknowledged_early, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_packet_in_between, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_read_sizes, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_read_in_parts, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_few_reads_at_a_time, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_refused_reads, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_both_ways, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_reading_ends_early, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_unsent_answers_are_dropped, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_nothing_waits_for_the_end, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_wrong_tag, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_no_tag, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_answered_twice, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_wrong_position, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_too_few_bytes, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_too_many_bytes, set_up, fake_end),
        cmocka_unit_test_setup_teardown(test_long_in_its_packet, set_up, fake_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
