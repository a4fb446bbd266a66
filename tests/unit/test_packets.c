/* The packet transport between two processes that are both in this one: two fabrics, joined by
 * wires that are queues, so that the test decides what is delivered and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/fake_wire.h"
#include "transport/packets/packets.h"

#define OPERATIONS 4096
#define MEMORY ((size_t)1 << 20)
#define PACKET_BYTES 8176

static const struct tug_transport type = {.name = "fake", .send = fake_send, .poll = fake_poll};

/* What operations that only count have in common. */
struct counter {
    uint64_t n;
    int status;
};

static void count_one(void *d, int status) {
    struct counter *counter = d;
    counter->n++;
    if (status != 0)
        counter->status = status;
}

static void count_many(void *d, uint64_t n) {
    ((struct counter *)d)->n += n;
}

static bool no_memory;

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes) {
    return no_memory ? NULL : __real_calloc(n, bytes);
}

static int set_up(void **state) {
    (void)state;
    fake_begin(&type, PACKET_BYTES, OPERATIONS, MEMORY);
    for (struct side *side = a; side != NULL; side = side == a ? b : NULL) {
        side->fabric.ways |= TUG_WAY_SELF;
        side->fabric.counter = count_one;
        side->fabric.count = count_many;
    }
    return 0;
}

/* ---- operations ---- */

static struct tug_operation *prepare(unsigned kind, uint64_t offset, uint64_t bytes,
                                     struct record *record) {
    struct tug_operation *operation = fake_operation(kind, offset, bytes);
    *record = (struct record){0, 0, 1};
    operation->on_complete = (struct tug_callback){on_complete, record};
    if (kind == TUG_OPERATION_WRITE || kind == TUG_OPERATION_AM)
        operation->on_local = (struct tug_callback){on_local, record};
    return operation;
}

static void post(struct tug_operation *operation) {
    a->fabric.out++;
    tug_packets_post(&a->packets, operation);
}

/* Adds to a word of b's, and fetches what was there. */
static void post_add(uint64_t offset, uint64_t operand, uint64_t *got, struct record *record) {
    struct tug_operation *fetch = prepare(TUG_OPERATION_FETCH, offset, 8, record);
    fetch->op = TUG_ADD;
    fetch->operand = operand;
    fetch->local = (unsigned char *)got;
    post(fetch);
}

static void assert_done(const struct record *record, int status) {
    assert_int_equal(record->completed, 1);
    assert_int_equal(record->status, status);
}

/* ---- tests ---- */

static void test_kinds(void **state) {
    (void)state;
    struct record record[6];
    uint64_t old = 40, got = 0;
    for (size_t i = 0; i < MEMORY; i++)
        a->local.base[i] = (unsigned char)(i * 7);
    memcpy(b->remote.base + 4096, &old, 8);
    post(prepare(TUG_OPERATION_WRITE, 0, 100, &record[0]));
    post_add(4096, 2, &got, &record[1]);
    run();
    assert_done(&record[0], 0);
    assert_int_equal(record[0].local, 1);
    assert_memory_equal(b->remote.base, a->local.base, 100);
    assert_int_equal(b->remote.base[100], 0xB0);
    assert_done(&record[1], 0);
    assert_int_equal(got, 40);
    struct tug_operation *compare = prepare(TUG_OPERATION_COMPARE, 4096, 4, &record[2]);
    compare->compare = 42;
    compare->operand = 99;
    compare->local = (unsigned char *)&got;
    post(compare);
    post(prepare(TUG_OPERATION_READ, 8192, 777, &record[3]));
    struct tug_operation *message = prepare(TUG_OPERATION_AM, 64, 33, &record[4]);
    message->op = 5;
    post(message);
    post(prepare(TUG_OPERATION_WRITE, 50, 0, &record[5]));
    run();
    assert_done(&record[2], 0);
    assert_int_equal((uint32_t)got, 42);
    assert_int_equal(*(uint32_t *)(b->remote.base + 4096), 99);
    assert_done(&record[3], 0);
    for (int i = 0; i < 777; i++)
        assert_int_equal(a->local.base[8192 + i], 0xB0);
    assert_done(&record[4], 0);
    assert_int_equal(b->messages, 1);
    assert_int_equal(b->message_bytes, 33);
    assert_memory_equal(b->message, a->local.base + 64, 33);
    assert_done(&record[5], 0);
    assert_int_equal(a->fabric.out, 0);
    assert_false(tug_packets_busy(&a->packets));
}

/* A signal behind a write whose data are of that registration. */
static void post_signalled(struct tug_operation *write, unsigned kind, struct record *record) {
    write->op = 1;
    write->on_complete.f = NULL;
    post(write);
    struct tug_operation *signal = prepare(kind, 4096, 8, record);
    if (kind == TUG_OPERATION_SIGNAL) {
        signal->local = NULL;
        signal->operand = 3;
    }
    post(signal);
}

static void test_signals(void **state) {
    (void)state;
    struct record record[6], nobody;
    uint64_t *counter = (uint64_t *)(b->remote.base + 4096);
    *counter = 40;
    for (unsigned i = 0; i < 6; i++) {
        struct tug_operation *write = prepare(TUG_OPERATION_WRITE, 0, 100, &nobody);
        if (i % 3 == 1)
            write->key ^= UINT64_C(2) << 32; /* of a registration that has ended */
        post_signalled(write, i < 3 ? TUG_OPERATION_SIGNAL : TUG_OPERATION_SIGNAL_AM, &record[i]);
    }
    run();
    for (unsigned i = 0; i < 6; i++)
        assert_done(&record[i], i % 3 == 1 ? TUG_ERR_KEY : 0);
    assert_int_equal(*counter, 46);
    assert_int_equal(b->messages, 2);
    assert_int_equal(a->fabric.out, 0);
}

/* Others' failures say nothing of a signal. */
static void test_signals_of_others(void **state) {
    (void)state;
    struct record record[3];
    uint64_t *counter = (uint64_t *)(b->remote.base + 4096);
    *counter = 0;
    struct tug_operation *write = prepare(TUG_OPERATION_WRITE, 0, 100, &record[0]);
    write->key ^= UINT64_C(2) << 32;
    post(write);
    post_signalled(prepare(TUG_OPERATION_WRITE, 0, 8, &record[1]), TUG_OPERATION_SIGNAL,
                   &record[2]);
    run();
    assert_done(&record[0], TUG_ERR_KEY);
    assert_done(&record[2], 0);
    assert_int_equal(*counter, 3);
}

/* Where the write may fail and the signal not, or be overtaken, somebody has to wait for it. */
static void test_signals_that_must_wait(void **state) {
    (void)state;
    struct record record;
    struct tug_operation *write = prepare(TUG_OPERATION_WRITE, 0, 8, &record);
    no_memory = true; /* for a stream; for the next operation there may be some */
    assert_false(tug_packets_keep_order(&a->packets, write));
    no_memory = false;
    assert_true(tug_packets_keep_order(&a->packets, write));
    write->peer = 0; /* what nobody has mapped goes in packets, a signal does not */
    assert_false(tug_packets_keep_order(&a->packets, write));
    write->peer = 1;
    post(write);
    run();
    assert_done(&record, 0);
}

/* The peer is lost while both wait: the write's memory is free before the signal is over, whatever
 * their tags are. */
struct order {
    unsigned now, local, complete;
};

static void note_local(void *d, int status) {
    struct order *order = d;
    assert_int_equal(status, TUG_ERR_PEER);
    order->local = ++order->now;
}

static void note_complete(void *d, int status) {
    struct order *order = d;
    assert_int_equal(status, TUG_ERR_PEER);
    order->complete = ++order->now;
}

static void test_signals_of_lost_peers(void **state) {
    (void)state;
    struct record nobody, filling[TUG_STREAM_WINDOW + 1];
    struct order order = {0};
    for (unsigned i = 0; i <= TUG_STREAM_WINDOW; i++) /* no packet may go any more */
        post(prepare(TUG_OPERATION_WRITE, 0, PACKET_BYTES - 200, &filling[i]));
    struct tug_operation *signal = prepare(TUG_OPERATION_SIGNAL, 4096, 8, &nobody);
    struct tug_operation *write = prepare(TUG_OPERATION_WRITE, 0, PACKET_BYTES - 200, &nobody);
    assert_true(signal < write);
    signal->local = NULL;
    signal->on_complete = (struct tug_callback){note_complete, &order};
    write->op = 1;
    write->on_local = (struct tug_callback){note_local, &order};
    write->on_complete.f = NULL;
    post(write);
    post(signal);
    fake_lose(&a->out);
    tug_stream_lose(&a->packets, a->streams[1]);
    assert_int_equal(order.local, 1);
    assert_int_equal(order.complete, 2);
    assert_int_equal(a->fabric.out, 0);
}

static void test_aggregation(void **state) {
    (void)state;
    static struct record record[1000];
    for (unsigned i = 0; i < 1000; i++) {
        post(prepare(TUG_OPERATION_WRITE, 8 * i, 8, &record[i]));
        tug_packets_flush(&a->packets);
    }
    /* the first goes alone, the others wait for its acknowledgement or a full packet */
    unsigned full = (PACKET_BYTES - 40) / 32; /* WRITEs */
    assert_int_equal(a->out.sent, 1 + 999 / full);
    run();
    assert_int_equal(a->out.sent, 1 + (999 + full - 1) / full);
    for (unsigned i = 0; i < 1000; i++)
        assert_done(&record[i], 0);
    assert_int_equal(b->out.sent <= a->out.sent, 1);
    assert_memory_equal(b->remote.base, a->local.base, 8000);
}

static void test_demand(void **state) {
    (void)state;
    struct record record[2];
    for (int i = 0; i < 2; i++) {
        post(prepare(TUG_OPERATION_WRITE, 0, 8, &record[i]));
        tug_packets_flush(&a->packets);
    }
    assert_int_equal(a->out.sent, 1);
    atomic_store(&a->fabric.flush_wanted, true);
    poll_once(a);
    assert_int_equal(a->out.sent, 2);
    run();
    assert_done(&record[1], 0);
}

/* A peer that does not look: bounded packets, everything else waits in the table. */
static void test_window(void **state) {
    (void)state;
    static struct record record[OPERATIONS];
    for (unsigned i = 0; i < OPERATIONS; i++) {
        post(prepare(TUG_OPERATION_WRITE, 8 * i, 320, &record[i]));
        tug_packets_flush(&a->packets);
        poll_once(a);
    }
    assert_int_equal(a->out.count, TUG_STREAM_WINDOW);
    assert_int_equal(a->out.wire.pool.nout, TUG_STREAM_WINDOW + 1); /* the open one */
    uint32_t tag = TUG_NO_TAG;
    assert_false(tug_tags_take_in_hand(&a->fabric.tags, &tag));
    run();
    for (unsigned i = 0; i < OPERATIONS; i++)
        assert_done(&record[i], 0);
    assert_memory_equal(b->remote.base, a->local.base, 8 * OPERATIONS);
}

/* Acknowledgements come by the polls of other contexts: what waits for them goes all the same. */
static void test_brought_by_others(void **state) {
    (void)state;
    static struct record record[OPERATIONS];
    for (unsigned i = 0; i < OPERATIONS; i++)
        post(prepare(TUG_OPERATION_WRITE, 8 * i, 320, &record[i]));
    tug_packets_flush(&a->packets);
    for (int i = 0; i < 1000; i++) {
        poll_once(b);
        if (fake_poll(&a->out.wire))
            tug_packets_served(&a->packets);
        tug_packets_flush(&a->packets); /* at any time */
    }
    for (unsigned i = 0; i < OPERATIONS; i++)
        assert_done(&record[i], 0);
}

/* So many writes that each packet is full: how many packets go while nobody looks. */
static unsigned count_under_way(struct record *record, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        post(prepare(TUG_OPERATION_WRITE, 320 * i, 320, &record[i]));
    tug_packets_flush(&a->packets);
    return a->out.count;
}

/* Other peers do not answer: to this one little goes at a time, and it gets on. */
static void test_others_hold_all(void **state) {
    (void)state;
    static struct record record[1000];
    a->packets.load->under_way = TUG_UNDER_WAY_MOST;
    assert_int_equal(count_under_way(record, 1000), TUG_UNDER_WAY_LEAST);
    assert_int_equal(a->packets.load->under_way, TUG_UNDER_WAY_MOST + TUG_UNDER_WAY_LEAST);
    run();
    for (unsigned i = 0; i < 1000; i++)
        assert_done(&record[i], 0);
    assert_int_equal(a->packets.load->under_way, TUG_UNDER_WAY_MOST);
    a->packets.load->under_way -= 10;
    assert_int_equal(count_under_way(record, 1000), 10);
    run();
    assert_int_equal(a->packets.load->under_way, TUG_UNDER_WAY_MOST - 10);
    assert_int_equal(tug_packets_under_way(4, 100), (4 * TUG_STREAM_WINDOW + 4) * 100);
    assert_int_equal(tug_packets_under_way(1000, 100),
                     (TUG_UNDER_WAY_MOST + 1000 * (TUG_UNDER_WAY_LEAST + 1)) * 100);
}

/* What goes by the host's messages lies with the peer: it is less, the more peers that one has. */
static void test_piling_up(void **state) {
    (void)state;
    static struct record record[1000];
    struct tug_transport piling = type;
    piling.piles_up = true;
    a->out.wire.row = &piling;
    b->packets.load->streams = 511; /* and this one */
    assert_int_equal(count_under_way(record, 1000), tug_piling_window(tug_credit_least()));
    run();
    assert_int_equal(count_under_way(record, 1000), tug_piling_window(TUG_ANSWERS_MOST / 512));
    run();
    b->packets.load->streams = 1;
    post(prepare(TUG_OPERATION_WRITE, 0, 8, &record[0]));
    run();
    assert_int_equal(a->streams[1]->window, TUG_STREAM_WINDOW);
    /* of 1 024 peers, 32 MiB that they share and what they were promised when they were fewer */
    assert_in_range(tug_packets_unexpected(1024), (size_t)32 << 20, (size_t)160 << 20);
}

/* What the contexts of a process have to do with peers counts together. */
static void test_contexts_share(void **state) {
    (void)state;
    struct record record;
    b->packets.load = a->packets.load;
    post(prepare(TUG_OPERATION_WRITE, 0, 8, &record));
    tug_packets_flush(&a->packets);
    assert_int_equal(a->packets.load->under_way, 1);
    run();
    assert_int_equal(a->packets.load->under_way, 0);
    assert_int_equal(a->packets.load->streams, 2);
    a->packets.load->streams = 512;
    post(prepare(TUG_OPERATION_WRITE, 0, 8, &record));
    run();
    assert_int_equal(a->streams[1]->credit, TUG_ANSWERS_MOST / 512);
}

static void test_wire_without_room(void **state) {
    (void)state;
    static struct record record[2000];
    a->out.room = 0;
    b->out.room = 1;
    for (unsigned i = 0; i < 2000; i++)
        post(prepare(i % 2 ? TUG_OPERATION_WRITE : TUG_OPERATION_READ, 512 * i, 300, &record[i]));
    tug_packets_flush(&a->packets);
    assert_int_equal(a->out.sent, 0);
    run();
    assert_int_equal(a->out.sent, 0);
    a->out.room = 1;
    run();
    for (unsigned i = 0; i < 2000; i++)
        assert_done(&record[i], 0);
    assert_int_equal(a->fabric.out, 0);
}

/* A peer that takes nothing: its answers share packets, however long it goes on asking. */
static void test_answers_gather(void **state) {
    (void)state;
    static struct record record[300];
    b->out.room = 0;
    for (unsigned i = 0; i < 300; i++) {
        post(prepare(TUG_OPERATION_FETCH, 8 * i, 8, &record[i]));
        atomic_store(&a->fabric.flush_wanted, true);
        poll_once(a);
        poll_once(b);
    }
    assert_true(a->out.sent > 100);
    assert_in_range(b->out.wire.pool.nout, 1, 2);
    assert_false(tug_packets_arm(&b->packets)); /* nothing rings when there is room */
    b->out.room = FAKE_QUEUE;
    run();
    assert_true(tug_packets_arm(&b->packets));
    for (unsigned i = 0; i < 300; i++)
        assert_done(&record[i], 0);
}

/* The more peers a process has, the less each may ask it for at a time. */
static void ask_one_of(uint32_t npeers, uint64_t credit) {
    static struct record record[2000];
    const size_t room = PACKET_BYTES - sizeof(struct tug_packet_header);
    b->packets.load->streams = npeers;
    post(prepare(TUG_OPERATION_WRITE, 0, 8, &record[0]));
    run();
    assert_int_equal(a->streams[1]->credit, credit);
    b->out.room = 0;
    for (unsigned i = 0; i < 1000; i++)
        post(prepare(TUG_OPERATION_FETCH, 8 * i, 8, &record[i]));
    for (unsigned i = 1000; i < 1010; i++)
        post(prepare(TUG_OPERATION_READ, 1 << 16, 100000, &record[i]));
    run();
    assert_in_range(a->streams[1]->asked, credit / 2, credit);
    assert_in_range(b->out.wire.pool.nout, 1, 2 * credit / room + 2);
    b->out.room = FAKE_QUEUE;
    run();
    for (unsigned i = 0; i < 1010; i++)
        assert_done(&record[i], 0);
    assert_int_equal(a->streams[1]->asked, 0);
}

static void test_credit(void **state) {
    (void)state;
    ask_one_of(2, TUG_CREDIT_MOST);
    ask_one_of(512, TUG_ANSWERS_MOST / 512);
    ask_one_of(1 << 30, tug_credit_least());
    ask_one_of(2, TUG_CREDIT_MOST);
}

static void test_long_ones(void **state) {
    (void)state;
    struct record record[3];
    for (size_t i = 0; i < MEMORY; i++) {
        a->local.base[i] = (unsigned char)(i * 31 >> 3);
        b->remote.base[i] = (unsigned char)(i * 17 >> 2);
    }
    unsigned char *before = malloc(MEMORY);
    memcpy(before, b->remote.base, MEMORY);
    size_t half = MEMORY / 2 - 3;
    post(prepare(TUG_OPERATION_READ, 3, half, &record[0]));
    post(prepare(TUG_OPERATION_WRITE, MEMORY / 2 + 1, half, &record[1]));
    post(prepare(TUG_OPERATION_READ, MEMORY / 2, 1, &record[2]));
    assert_true(a->streams[1]->asked <= a->streams[1]->credit);
    run();
    for (int i = 0; i < 3; i++)
        assert_done(&record[i], 0);
    assert_int_equal(record[1].local, 1);
    assert_memory_equal(a->local.base + 3, before + 3, half);
    assert_memory_equal(b->remote.base + MEMORY / 2 + 1, a->local.base + MEMORY / 2 + 1, half);
    assert_int_equal(a->streams[1]->asked, 0);
    free(before);
}

static void test_failures(void **state) {
    (void)state;
    struct record record[8];
    struct tug_operation *operation;
    post(prepare(TUG_OPERATION_WRITE, 0, 8, &record[0]));
    operation = prepare(TUG_OPERATION_WRITE, 0, 8, &record[1]);
    operation->key += (uint64_t)1 << 32;
    post(operation);
    operation = prepare(TUG_OPERATION_READ, 8, 20000, &record[2]);
    operation->offset = MEMORY - 10000;
    post(operation);
    operation = prepare(TUG_OPERATION_FETCH, 4, 8, &record[3]);
    operation->op = TUG_XOR;
    post(operation);
    operation = prepare(TUG_OPERATION_AM, 0, 8, &record[4]);
    operation->op = 9;
    post(operation);
    operation = prepare(TUG_OPERATION_WRITE, 8, 50000, &record[5]);
    operation->offset = MEMORY - 10000;
    post(operation);
    post(prepare(TUG_OPERATION_WRITE, 16, 8, &record[6]));
    run();
    assert_done(&record[0], 0);
    assert_done(&record[1], TUG_ERR_KEY);
    assert_done(&record[2], TUG_ERR_RANGE);
    assert_done(&record[3], TUG_ERR_INVALID);
    assert_done(&record[4], TUG_ERR_INVALID);
    assert_done(&record[5], TUG_ERR_RANGE);
    assert_done(&record[6], 0);
    assert_int_equal(a->fabric.out, 0);
}

/* ---- operations that only count ---- */

/* A write of what is at offset in a's memory, which is copied if it is short. */
static void post_counting(unsigned kind, uint64_t offset, size_t bytes, struct counter *counter) {
    struct record unused;
    struct tug_operation *operation = prepare(kind, offset, bytes, &unused);
    operation->on_complete = (struct tug_callback){count_one, counter};
    operation->on_local = (struct tug_callback){NULL, NULL};
    if (bytes <= TUG_OPERATION_INLINE) {
        /* what is to be refused may end beyond the target's memory, and so beyond ours */
        memcpy(operation->data, operation->local,
               offset + bytes > MEMORY ? MEMORY - offset : bytes);
        operation->local = NULL;
    }
    post(operation);
}

static void test_counting_ones_end_together(void **state) {
    (void)state;
    static const size_t lengths[] = {8, 8, 8, 3, 24, 8, 100, 8, 1, 0, 8};
    const unsigned n = 4000, nlengths = sizeof(lengths) / sizeof(lengths[0]);
    struct counter counters[2] = {{0}};
    uint64_t due[2] = {0};
    for (size_t i = 0; i < MEMORY; i++)
        a->local.base[i] = (unsigned char)(i * 13 >> 2);
    memset(b->remote.base, 0, MEMORY);
    for (unsigned i = 0; i < n; i++) {
        const unsigned which = i / 100 % 2;
        const unsigned kind = i % 17 == 5 ? TUG_OPERATION_AM : TUG_OPERATION_WRITE;
        post_counting(kind, (uint64_t)i * 128, lengths[i % nlengths], &counters[which]);
        due[which]++;
        tug_packets_flush(&a->packets);
    }
    assert_true(a->fabric.out < n / 2);
    run();
    assert_int_equal(a->fabric.out, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(counters[i].n, due[i]);
        assert_int_equal(counters[i].status, 0);
    }
    for (unsigned i = 0; i < n; i++) {
        const size_t length = i % 17 == 5 ? 0 : lengths[i % nlengths];
        assert_memory_equal(b->remote.base + i * 128, a->local.base + i * 128, length);
        assert_int_equal(b->remote.base[i * 128 + length], 0);
    }
    uint32_t tag = TUG_NO_TAG;
    for (unsigned i = 0; i < OPERATIONS; i++)
        assert_true(tug_tags_take_in_hand(&a->fabric.tags, &tag));
}

/* One of many that end together is wrong: the counter says so, the others are done. */
static void test_failure_among_counting_ones(void **state) {
    (void)state;
    struct counter counter = {0};
    for (unsigned i = 0; i < 300; i++)
        post_counting(TUG_OPERATION_WRITE, i % 100 == 99 ? MEMORY - 4 : 8 * i, 8, &counter);
    run();
    assert_int_equal(counter.n, 300);
    assert_int_equal(counter.status, TUG_ERR_RANGE);
    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(b->remote.base[8 * i], i % 100 == 99 ? 0xB0 : 0x0A);
    for (unsigned i = 1; i <= 4; i++)
        assert_int_equal(b->remote.base[MEMORY - i], 0xB0);
    counter = (struct counter){0};
    struct tug_registration *registration = &b->remote;
    tug_memory_remove(&b->fabric.memory, registration);
    for (unsigned i = 0; i < 300; i++)
        post_counting(TUG_OPERATION_WRITE, 8 * i, 8, &counter);
    run();
    assert_int_equal(counter.n, 300);
    assert_int_equal(counter.status, TUG_ERR_KEY);
    assert_int_equal(a->fabric.out, 0);
}

static void test_lost_counting_ones(void **state) {
    (void)state;
    struct counter counter = {0};
    struct record record;
    uint64_t n = 0;
    for (; a->fabric.out < OPERATIONS - 10; n++) {
        post_counting(TUG_OPERATION_WRITE, 8, 8, &counter);
        tug_packets_flush(&a->packets);
    }
    assert_int_equal(a->out.count, TUG_STREAM_WINDOW);
    post(prepare(TUG_OPERATION_READ, 0, 8, &record));
    tug_stream_lose(&a->packets, a->streams[1]);
    assert_done(&record, TUG_ERR_PEER);
    assert_int_equal(counter.status, TUG_ERR_PEER);
    assert_int_equal(counter.n, n);
    assert_int_equal(a->fabric.out, 0);
    assert_int_equal(a->packets.unacked, 0);
    fake_lose(&a->out);
}

/* Requests that had no room when the peer was lost do not go any more. */
static void test_lost_unsent(void **state) {
    (void)state;
    struct counter counter = {0};
    a->out.room = 2;
    for (unsigned i = 0; i < 2000; i++)
        post_counting(TUG_OPERATION_WRITE, 8 * i, 24, &counter);
    assert_true(a->out.wire.pool.nout > 2);
    const unsigned sent = a->out.sent;
    tug_stream_lose(&a->packets, a->streams[1]);
    assert_int_equal(counter.n, 2000);
    assert_int_equal(a->out.wire.pool.nout, a->out.count);
    a->out.room = FAKE_QUEUE;
    poll_once(a);
    assert_int_equal(a->out.sent, sent);
    fake_lose(&a->out);
}

/* The refusal goes, whatever has no room before it. */
static void test_refusal_goes(void **state) {
    (void)state;
    struct record record;
    b->out.room = 0;
    a->out.room = 0;
    post(prepare(TUG_OPERATION_WRITE, 0, 8, &record));
    tug_packets_flush(&a->packets);
    uint64_t bad[5 + 2] = {0};
    struct tug_packet packet;
    tug_packet_begin(&packet, bad, sizeof(bad));
    *tug_packet_add(&packet, TUG_RECORD_VALUE, 0, 0, 0) = 0;
    tug_packet_end(&packet, 1, 0, 0, JOINED_ID);
    assert_true(a->out.wire.receive(a->out.wire.receiver, &a->out.wire, bad, sizeof(bad)));
    assert_done(&record, TUG_ERR_PEER);
    a->out.room = FAKE_QUEUE;
    poll_once(a);
    assert_int_equal(a->out.sent, 1);
    struct tug_packet_reader reader;
    struct tug_record said = {0};
    const struct tug_buffer *first = a->out.queue[a->out.first];
    assert_int_equal(tug_packet_open(&reader, first->memory, first->packet.used, JOINED_ID, 2),
                     TUG_PACKET_GOOD);
    assert_true(tug_packet_next(&reader, &said));
    assert_int_equal(said.kind, TUG_RECORD_REFUSED);
    fake_lose(&a->out);
}

/* Of n writes of that length, at so many bytes from each other, returns how many need no operation.
 */
static uint32_t write_run(uint64_t key, uint64_t offset, uint32_t n, uint32_t apart, size_t bytes,
                          void *counter) {
    static unsigned char writes[PACKET_BYTES];
    unsigned char *next = writes;
    for (uint32_t i = 0; i < n; i++, next += 4 + bytes) {
        const uint32_t distance = i * apart;
        memcpy(next, &distance, sizeof(distance));
        memset(next + sizeof(distance), 0x11, bytes);
    }
    return tug_packets_write_run(&a->packets, 1, key, offset, writes, n, bytes, counter);
}

/* What comes behind a write that counts at the same counter needs no operation. */
static void test_writing_on(void **state) {
    (void)state;
    struct counter counter = {0}, other = {0};
    const uint64_t key = b->remote.id;
    const unsigned many = PACKET_BYTES / 12;
    assert_int_equal(write_run(key, 0, 1, 8, 8, &counter), 0);
    for (unsigned i = 0; i < 2; i++) { /* one goes, one is in the open packet */
        post_counting(TUG_OPERATION_WRITE, 8 * i, 8, &counter);
        tug_packets_flush(&a->packets);
    }
    assert_int_equal(a->out.sent, 1);
    const uint32_t out = a->fabric.out;
    assert_int_equal(write_run(key, 64, 1, 8, 8, &other), 0);
    assert_int_equal(write_run(key, 64, 3, 8, 4, &counter), 3);
    assert_int_equal(write_run(key, 128, 3, 8, 8, &counter), 3);
    assert_int_equal(write_run(key, 128, 5, 8, 8, &counter), 5);      /* the same run */
    assert_int_equal(write_run(key, 4096, 100, 8, 8, &counter), 100); /* another */
    const uint32_t n = write_run(key, 4096, many, 0, 8, &counter);
    assert_in_range(n, many - 130, many - 105);
    assert_int_equal(write_run(key, 4096, 1, 8, 8, &counter), 0); /* full */
    assert_int_equal(a->fabric.out, out);
    assert_int_equal(counter.n, 0);
    run();
    assert_int_equal(counter.n, 2 + 3 + 3 + 5 + 100 + n);
    assert_int_equal(counter.status, 0);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(b->remote.base[4096 + 8 * i], 0x11);
    assert_int_equal(b->remote.base[4096 + 800], 0xB0);
    assert_int_equal(b->remote.base[128 + 40], 0xB0);
}

/* Nor does a message like the one before. */
static void test_telling_on(void **state) {
    (void)state;
    struct counter counter = {0}, other = {0};
    const uint64_t words[3] = {1, 2, 3};
    for (unsigned i = 0; i < 3; i++) { /* one goes, one is written in full, one begins a run */
        assert_false(tug_packets_message_on(&a->packets, 1, 0, words, 24, &counter));
        post_counting(TUG_OPERATION_AM, 0, 24, &counter);
        tug_packets_flush(&a->packets);
    }
    assert_int_equal(a->out.sent, 1);
    const uint32_t out = a->fabric.out;
    assert_false(tug_packets_message_on(&a->packets, 1, 1, words, 24, &counter));
    assert_false(tug_packets_message_on(&a->packets, 1, 0, words, 16, &counter));
    assert_false(tug_packets_message_on(&a->packets, 1, 0, words, 24, &other));
    unsigned n = 0;
    for (; tug_packets_message_on(&a->packets, 1, 0, words, 24, &counter); n++)
        assert_true(n < PACKET_BYTES / 24);
    assert_true(n > PACKET_BYTES / 24 - 10);
    assert_int_equal(a->fabric.out, out);
    assert_int_equal(counter.n, 0);
    run();
    assert_int_equal(counter.n, n + 3);
    assert_int_equal(counter.status, 0);
    assert_int_equal(b->messages, n + 3);
    assert_int_equal(b->message_bytes, 24);
    assert_memory_equal(b->message, words, 24);
}

/* While more is coming an open packet waits although nothing is under way. */
static void test_gathering(void **state) {
    (void)state;
    struct counter counter = {0};
    a->fabric.more_comes = true;
    for (unsigned i = 0; i < 5; i++) {
        post_counting(TUG_OPERATION_WRITE, 8 * i, 8, &counter);
        tug_packets_flush(&a->packets);
    }
    assert_int_equal(a->out.sent, 0);
    a->fabric.more_comes = false;
    tug_packets_flush(&a->packets);
    assert_int_equal(a->out.sent, 1);
    run();
    assert_int_equal(counter.n, 5);
}

/* The number that travels has 32 bits and is never 0. */
static void test_numbers_go_round(void **state) {
    (void)state;
    struct record record;
    post(prepare(TUG_OPERATION_WRITE, 0, 8, &record));
    tug_packets_flush(&a->packets);
    run();
    uint64_t near = 3 * (uint64_t)UINT32_MAX - 20;
    a->streams[1]->number = a->streams[1]->acked = near;
    b->streams[0]->applied = b->streams[0]->told = near;
    for (unsigned i = 0; i < 50; i++) {
        post(prepare(TUG_OPERATION_WRITE, 8 * i, 8, &record));
        tug_packets_flush(&a->packets);
        run();
        assert_done(&record, 0);
    }
    assert_int_equal(a->streams[1]->number, near + 50);
}

/* ---- late acknowledgements ---- */

/* A write and its signal, whose ends nobody waits for, go. */
static void post_late(struct record *record) {
    struct record nobody;
    struct tug_operation *write = prepare(TUG_OPERATION_WRITE, 0, 8, &nobody);
    write->op = TUG_WRITE_SIGNALLED | TUG_WRITE_LATE;
    write->on_complete.f = write->on_local.f = NULL;
    post(write);
    struct tug_operation *signal = prepare(TUG_OPERATION_SIGNAL, 4096, 8, record);
    signal->local = NULL;
    signal->operand = 3;
    signal->rkey = true;
    post(signal);
    tug_packets_flush(&a->packets);
}

static uint64_t raised(void) {
    return *(uint64_t *)(b->remote.base + 4096);
}

static void begin_late(void) {
    memset(b->remote.base + 4096, 0, 8);
}

static void assert_nothing_rests(void) {
    assert_int_equal(a->fabric.out, 0);
    assert_int_equal(a->fabric.resting, 0);
    assert_int_equal(a->packets.resting, 0);
    assert_int_equal(a->packets.unacked, 0);
    assert_false(tug_packets_busy(&a->packets));
}

/* One acknowledgement for TUG_STREAM_LATE of them; nobody is busy with those that rest, and
 * none waits for those before it. */
static void test_late_ones(void **state) {
    (void)state;
    struct record record[3 * TUG_STREAM_LATE];
    begin_late();
    for (unsigned i = 0; i < 3 * TUG_STREAM_LATE; i++) {
        post_late(&record[i]);
        const unsigned rest = i % TUG_STREAM_LATE + 1;
        assert_int_equal(a->out.sent, i + 1);
        assert_int_equal(a->fabric.resting, 2 * rest);
        run();
        assert_int_equal(raised(), 3 * (i + 1));
        assert_int_equal(b->out.sent, (i + 1) / TUG_STREAM_LATE);
        assert_int_equal(record[i].completed, rest == TUG_STREAM_LATE);
        assert_int_equal(a->fabric.out, rest == TUG_STREAM_LATE ? 0 : 2 * rest);
        assert_false(tug_packets_busy(&a->packets));
        assert_false(tug_packets_busy(&b->packets));
    }
    for (unsigned i = 0; i < 3 * TUG_STREAM_LATE; i++)
        assert_done(&record[i], 0);
    assert_nothing_rests();
}

/* While so many are not acknowledged others gather. */
static void test_late_ones_gather(void **state) {
    (void)state;
    struct record record[100];
    begin_late();
    b->out.delivers = 0;
    for (unsigned i = 0; i < 100; i++)
        post_late(&record[i]);
    assert_int_equal(a->out.sent, TUG_STREAM_LATE);
    assert_true(tug_packets_busy(&a->packets));
    b->out.delivers = UINT32_MAX;
    run();
    assert_int_equal(a->out.sent, TUG_STREAM_LATE + 1);
    assert_int_equal(raised(), 300);
    assert_int_equal(a->fabric.resting, 2 * (100 - TUG_STREAM_LATE));
    tug_packets_ask(&a->packets);
    run();
    for (unsigned i = 0; i < 100; i++)
        assert_done(&record[i], 0);
    assert_nothing_rests();
}

static void test_late_one_rides(void **state) {
    (void)state;
    struct record record[2];
    struct side *first = a;
    post_late(&record[0]);
    run();
    assert_int_equal(record[0].completed, 0);
    a = b; /* which sends something of its own */
    b = first;
    struct tug_operation *write = prepare(TUG_OPERATION_WRITE, 0, 8, &record[1]);
    write->peer = 0;
    post(write);
    tug_packets_flush(&a->packets);
    b = a;
    a = first;
    poll_once(a);
    assert_done(&record[0], 0);
    assert_int_equal(b->out.sent, 1);
    run();
    assert_done(&record[1], 0);
    assert_int_equal(b->out.sent, 1);
    assert_nothing_rests();
}

static void test_late_one_is_asked_for(void **state) {
    (void)state;
    struct record record[2];
    post_late(&record[0]);
    run();
    assert_int_equal(record[0].completed, 0);
    tug_packets_ask(&a->packets);
    assert_true(tug_packets_busy(&a->packets));
    assert_int_equal(a->fabric.resting, 0);
    run();
    assert_done(&record[0], 0);
    assert_int_equal(a->out.sent, 2);
    assert_int_equal(b->out.sent, 1);
    tug_packets_ask(&a->packets); /* nothing rests */
    run();
    assert_int_equal(a->out.sent, 2);
    atomic_store(&a->fabric.awaiting, 1);
    post_late(&record[1]);
    assert_int_equal(a->fabric.resting, 0);
    run();
    assert_done(&record[1], 0);
    assert_int_equal(b->out.sent, 2);
    assert_nothing_rests();
}

/* What is not late is acknowledged at once, and they with it; so is a failure. */
static void test_late_one_among_others(void **state) {
    (void)state;
    struct record record[3];
    post_late(&record[0]);
    run();
    post(prepare(TUG_OPERATION_WRITE, 0, 8, &record[1]));
    tug_packets_flush(&a->packets);
    run();
    assert_done(&record[0], 0);
    assert_done(&record[1], 0);
    assert_int_equal(b->out.sent, 1);
    tug_memory_remove(&b->fabric.memory, &b->remote);
    post_late(&record[2]);
    run();
    assert_done(&record[2], TUG_ERR_KEY);
    assert_nothing_rests();
}

/* Where the window is narrow what waits for it asks. */
static void test_late_ones_hold_up(void **state) {
    (void)state;
    struct record record[3];
    begin_late();
    post_late(&record[0]);
    a->streams[1]->window = TUG_UNDER_WAY_LEAST;
    post_late(&record[1]);
    assert_int_equal(a->out.sent, 2);
    post_late(&record[2]);
    assert_int_equal(a->out.sent, 3);
    assert_int_equal(a->fabric.resting, 0);
    run();
    assert_int_equal(raised(), 9);
    assert_done(&record[0], 0);
    assert_done(&record[1], 0);
    tug_packets_ask(&a->packets);
    run();
    assert_done(&record[2], 0);
    assert_nothing_rests();
}

static void test_lost_late_ones(void **state) {
    (void)state;
    struct record record[2];
    post_late(&record[0]);
    run();
    post_late(&record[1]);
    assert_int_equal(a->fabric.resting, 4);
    tug_stream_lose(&a->packets, a->streams[1]);
    assert_done(&record[0], TUG_ERR_PEER);
    assert_done(&record[1], TUG_ERR_PEER);
    fake_lose(&a->out);
    assert_nothing_rests();
}

static size_t forge(uint64_t *memory, uint32_t number, uint32_t applied) {
    struct tug_packet packet;
    tug_packet_begin(&packet, memory, PACKET_BYTES);
    uint64_t *words = tug_packet_add(&packet, TUG_RECORD_WRITE, 0, 3, 8);
    words[0] = b->remote.id;
    words[1] = 0;
    words[2] = 0x5151515151515151;
    tug_packet_end(&packet, 0, number, applied, 77);
    return packet.used;
}

static void test_noise_is_dropped(void **state) {
    (void)state;
    uint64_t memory[PACKET_BYTES / 8];
    struct record record;
    memset(memory, 0x5a, sizeof(memory));
    fake_inject(memory, 100);
    size_t n = forge(memory, 1, 0);
    ((struct tug_packet_header *)memory)->context = 78;
    fake_inject(memory, n);
    fake_inject(memory, 8);
    post(prepare(TUG_OPERATION_WRITE, 0, 8, &record));
    tug_packets_flush(&a->packets);
    run();
    assert_done(&record, 0);
}

static void refused(const uint64_t *memory, size_t n) {
    struct record record[3];
    post(prepare(TUG_OPERATION_WRITE, 8, 8, &record[0]));
    tug_packets_flush(&a->packets);
    run();
    assert_done(&record[0], 0);
    fake_inject(memory, n);
    struct tug_operation *message = prepare(TUG_OPERATION_AM, 0, 8, &record[1]);
    message->op = 1;
    post(message);
    tug_packets_flush(&a->packets);
    run();
    assert_done(&record[1], TUG_ERR_PEER);
    assert_int_equal(b->messages, 0);
    post(prepare(TUG_OPERATION_READ, 0, 8, &record[2]));
    assert_done(&record[2], TUG_ERR_PEER);
    assert_int_equal(b->remote.base[0], 0xB0);
    assert_int_equal(a->fabric.out, 0);
    assert_false(tug_packets_busy(&a->packets));
}

static void test_wrong_number(void **state) {
    (void)state;
    uint64_t memory[PACKET_BYTES / 8];
    refused(memory, forge(memory, 3, 0));
}

static void test_malformed(void **state) {
    (void)state;
    uint64_t memory[PACKET_BYTES / 8];
    size_t n = forge(memory, 2, 0);
    ((struct tug_record_head *)(memory + 5))->length = 4000;
    refused(memory, n);
}

static void test_answer_to_nothing(void **state) {
    (void)state;
    uint64_t memory[PACKET_BYTES / 8];
    struct tug_packet packet;
    tug_packet_begin(&packet, memory, PACKET_BYTES);
    *tug_packet_add(&packet, TUG_RECORD_VALUE, 0, 3, 0) = 5;
    tug_packet_end(&packet, 0, 0, 0, 77);
    refused(memory, packet.used);
}

static void test_acknowledges_what_was_not_sent(void **state) {
    (void)state;
    uint64_t memory[PACKET_BYTES / 8];
    struct tug_packet packet;
    tug_packet_begin(&packet, memory, PACKET_BYTES);
    tug_packet_end(&packet, 0, 0, 9, 77);
    refused(memory, packet.used);
}

static void test_control_without_transport(void **state) {
    (void)state;
    struct record record;
    for (int i = 0; i < 100; i++)
        tug_fabric_control(&a->fabric, 1, TUG_BY_VERBS, "0123456789", 10);
    post(prepare(TUG_OPERATION_WRITE, 0, 8, &record));
    tug_packets_flush(&a->packets);
    run();
    assert_done(&record, 0);
}

/* By which a row is wired comes beside the stream: it neither begins one nor counts there. */
static void inject_wiring(uint32_t number) {
    uint64_t memory[PACKET_BYTES / 8];
    struct tug_packet packet;
    tug_packet_begin(&packet, memory, PACKET_BYTES);
    for (int i = 0; i < 3; i++)
        tug_packet_data(tug_packet_add(&packet, TUG_RECORD_CONTROL, TUG_BY_VERBS, TUG_NO_TAG, 10),
                        "0123456789", 10);
    packet.flags = TUG_PACKET_WIRES;
    tug_packet_end(&packet, 0, number, 12345, a->fabric.id);
    fake_inject(memory, packet.used);
}

static void test_wiring(void **state) {
    (void)state;
    struct record record[6];
    inject_wiring(0);
    run();
    assert_null(b->streams[0]);
    for (unsigned i = 0; i < 6; i++) {
        inject_wiring(i % 2); /* with a number it is no packet at all */
        post(prepare(TUG_OPERATION_WRITE, 8 * i, 8, &record[i]));
        inject_wiring(0);
        run();
        assert_done(&record[i], 0);
    }
    assert_int_equal(b->streams[0]->taken, a->streams[1]->sent);
    tug_stream_lose(&b->packets, b->streams[0]);
    inject_wiring(0);
    run();
    assert_false(tug_packets_busy(&b->packets));
}

/* The row that would carry packets to the peer finds that it has no way there: what has waited so
 * far, of which nothing may have gone, goes by the next row, in order, and so does what follows. */
static int find_no_way(struct tug_wire *wire, uint32_t peer) {
    (void)wire;
    (void)peer;
    return 0;
}

/* The wires that there are become the first row's, and others come behind them. */
static void add_next_row(struct fake_wire next[2], const struct tug_transport *first,
                         const struct tug_transport *last) {
    for (unsigned i = 0; i < 2; i++) {
        struct side *side = i == 0 ? a : b;
        next[i] = (struct fake_wire){.wire = {.row = last, .fabric = &side->fabric},
                                     .to = &next[1 - i],
                                     .room = FAKE_QUEUE,
                                     .delivers = UINT32_MAX};
        next[i].wire.pool.bytes = PACKET_BYTES;
        side->out.wire.row = first;
        tug_packets_attach(&side->packets, &next[i].wire);
        side->fabric.states[TUG_BY_TCP] = &side->out.wire;
        side->fabric.states[TUG_BY_MPI] = &next[i].wire;
    }
}

static void drop_next_row(struct fake_wire next[2]) {
    for (unsigned i = 0; i < 2; i++) {
        struct side *side = i == 0 ? a : b;
        struct tug_stream *stream = side->streams[1 - i];
        if (stream->requests != NULL)
            tug_pool_give(&stream->wire->pool, stream->requests);
        stream->requests = NULL;
        tug_pool_fini(&next[i].wire.pool);
    }
}

static void test_next_row(void **state) {
    (void)state;
    enum { N = 12, BYTES = 3000 };
    static const struct tug_transport first = {
        .name = "first", .send = fake_send, .poll = fake_poll, .meet = find_no_way};
    static struct fake_wire next[2];
    struct record record[N + 1], answer;
    uint64_t got = 0;
    add_next_row(next, &first, &type);
    a->out.room = b->out.room = 0;
    for (size_t i = 0; i < MEMORY; i++)
        a->local.base[i] = (unsigned char)(i * 11);
    for (unsigned i = 0; i < N; i++)
        post(prepare(TUG_OPERATION_WRITE, i * BYTES, BYTES, &record[i]));
    struct tug_operation *fetch = prepare(TUG_OPERATION_FETCH, 0, 8, &answer);
    fetch->op = TUG_OR;
    fetch->operand = 0;
    fetch->local = (unsigned char *)&got;
    post(fetch);
    run();
    assert_int_equal(a->out.sent, 0);
    assert_int_equal(record[0].completed, 0);
    a->out.wire.settled(&a->packets, 1, false);
    b->out.wire.settled(&b->packets, 0, false);
    run();
    for (unsigned i = 0; i < N; i++)
        assert_done(&record[i], 0);
    assert_done(&answer, 0);
    assert_memory_equal(&got, a->local.base, 8); /* it was behind the first write */
    assert_memory_equal(b->remote.base, a->local.base, N * BYTES);
    post(prepare(TUG_OPERATION_WRITE, N * BYTES, 8, &record[N]));
    run();
    assert_done(&record[N], 0);
    assert_int_equal(a->out.sent + b->out.sent, 0);
    assert_int_equal(a->out.wire.pool.nout, 0); /* all buffers are the next one's */
    assert_false(tug_packets_busy(&a->packets));
    drop_next_row(next);
}

/* What would go behind a packet by one row and in it by the next waits until it is known which. */
static void test_next_row_without_trailers(void **state) {
    (void)state;
    static const struct tug_transport first = {
        .name = "first",
        .send = fake_send,
        .poll = fake_poll,
        .meet = find_no_way,
        .longs = {TUG_LONG_LEAST, TUG_LONG_SIGNALLED, TUG_LONG_PIECE, TUG_LONG_PIECE, 4}};
    static struct fake_wire next[2];
    struct record record, nobody;
    uint64_t *counter = (uint64_t *)(b->remote.base + 4096);
    *counter = 6;
    add_next_row(next, &first, &type);
    struct tug_operation *write = prepare(TUG_OPERATION_WRITE, 8192, TUG_LONG_SIGNALLED, &nobody);
    write->on_complete.f = NULL;
    write->on_local.f = NULL;
    post_signalled(write, TUG_OPERATION_SIGNAL, &record);
    run();
    a->out.wire.settled(&a->packets, 1, false);
    b->out.wire.settled(&b->packets, 0, false);
    tug_packets_served(&a->packets); /* as at the end of the poll that has told so */
    run();
    assert_done(&record, 0);
    assert_int_equal(*counter, 9);
    assert_memory_equal(b->remote.base + 8192, a->local.base + 8192, TUG_LONG_SIGNALLED);
    assert_int_equal(a->out.sent, 0);
    drop_next_row(next);
}

static void *make_none(struct tug_fabric *fabric) {
    (void)fabric;
    return NULL;
}

/* Of a row whose directions are wired each by itself one has a connection, and the other one has
 * none. What goes by one of them goes by no other way then. */
static void test_ways_apart(void **state) {
    (void)state;
    static const struct tug_transport first = {.name = "first",
                                               .send = fake_send,
                                               .poll = fake_poll,
                                               .meet = find_no_way,
                                               .wired_by_host = true};
    static const struct tug_transport last = {
        .name = "last", .send = fake_send, .poll = fake_poll, .make = make_none};
    static struct fake_wire next[2];
    struct record record[4];
    uint64_t got = 0;
    add_next_row(next, &first, &last);
    for (unsigned i = 0; i < 3; i++)
        post(prepare(TUG_OPERATION_WRITE, 3000 * i, 3000, &record[i]));
    a->out.wire.settled(&a->packets, 1, true);
    tug_packets_flush(&a->packets);
    poll_once(b);
    b->out.wire.settled(&b->packets, 0, false);
    struct tug_operation *fetch = prepare(TUG_OPERATION_FETCH, 0, 8, &record[3]);
    fetch->op = TUG_ADD;
    fetch->operand = 1;
    fetch->local = (unsigned char *)&got;
    post(fetch);
    run();
    for (unsigned i = 0; i < 4; i++)
        assert_done(&record[i], 0);
    assert_true(a->out.sent > 0 && next[1].sent > 0);
    assert_int_equal(b->out.sent + next[0].sent, 0);
    assert_null(a->streams[1]->requests);
    a->streams[1]->wire = &next[0].wire;
    post(prepare(TUG_OPERATION_WRITE, 0, 8, &record[0]));
    run();
    assert_done(&record[0], TUG_ERR_PEER);
    assert_true(b->streams[0]->lost);
    drop_next_row(next);
}

/* Messages to a lost peer are not kept. */
static void test_control_to_lost(void **state) {
    (void)state;
    assert_int_equal(tug_fabric_control(&a->fabric, 1, TUG_BY_VERBS, "0123456789", 10), 0);
    tug_stream_lose(&a->packets, a->streams[1]);
    for (int i = 0; i < 100; i++)
        assert_int_equal(tug_fabric_control(&a->fabric, 1, TUG_BY_VERBS, "0123456789", 10),
                         TUG_ERR_PEER);
    assert_null(a->streams[1]->control_first);
    poll_once(a);
    assert_false(tug_packets_busy(&a->packets));
}

/* ---- streams that are folded ---- */

/* Folds the side's stream, if it can be: what has happened since the last time is seen by the first
 * turn, an acknowledgement that is owed goes by the next. */
static void fold(struct side *side) {
    for (int i = 0; i < 4; i++) {
        tug_packets_fold(&side->packets);
        run();
    }
}

static void assert_folded(const struct side *side, bool folded) {
    assert_int_equal(side->streams[1 - side->fabric.rank] == NULL, folded);
    assert_int_equal(side->packets.nfolded, folded);
    assert_int_equal(side->packets.nstreams, !folded);
    assert_true(tug_stream_is_known(&side->packets, 1 - side->fabric.rank));
}

static void free_folded(void) {
    free(a->packets.folded);
    free(b->packets.folded);
}

/* A write and an atomic, with what they bring. */
static void exchange(uint64_t round) {
    struct record record[2];
    uint64_t got = 0, before;
    memcpy(a->local.base, &round, 8);
    memcpy(&before, b->remote.base + 64, 8);
    post(prepare(TUG_OPERATION_WRITE, 0, 8, &record[0]));
    post_add(64, 1, &got, &record[1]);
    tug_packets_flush(&a->packets);
    run();
    assert_done(&record[0], 0);
    assert_done(&record[1], 0);
    assert_int_equal(got, before);
    assert_memory_equal(b->remote.base, &round, 8);
}

/* Either side goes on with its numbers, whether the other side's stream is folded or not. */
static void test_folded_streams_go_on(void **state) {
    (void)state;
    assert_false(tug_stream_is_known(&a->packets, 1));
    for (uint64_t round = 0; round < 40; round++) {
        exchange(round);
        assert_folded(a, false);
        assert_folded(b, false);
        assert_int_equal(a->streams[1]->number, round + 1);
        if (round % 4 & 1)
            fold(a);
        if (round % 4 & 2)
            fold(b);
        assert_folded(a, round % 4 & 1);
        assert_folded(b, round % 4 & 2);
        assert_int_equal(atomic_load(&a->packets.load->streams), 1);
    }
    free_folded();
}

/* So are those whose numbers have gone round. */
static void test_folded_numbers_go_round(void **state) {
    (void)state;
    exchange(0);
    const uint64_t near = 3 * (uint64_t)UINT32_MAX - 20;
    a->streams[1]->number = a->streams[1]->acked = near;
    b->streams[0]->applied = b->streams[0]->told = near;
    for (uint64_t round = 0; round < 40; round++) {
        exchange(round);
        fold(round % 2 ? a : b);
        assert_folded(round % 2 ? a : b, true);
    }
    free_folded();
}

/* Nothing is folded that is under way, waits, or is owed; what is only late is asked for. */
static void test_what_has_to_do_is_not_folded(void **state) {
    (void)state;
    struct record record;
    begin_late();
    b->out.delivers = a->out.delivers = 0;
    post(prepare(TUG_OPERATION_WRITE, 0, 8, &record));
    tug_packets_flush(&a->packets);
    fold(a);
    assert_folded(a, false);
    a->out.delivers = UINT32_MAX; /* b takes it; its acknowledgement stays where it is */
    fold(a);
    fold(b);
    assert_folded(a, false);
    assert_folded(b, true);
    b->out.delivers = UINT32_MAX;
    fold(a);
    assert_folded(a, true);
    assert_done(&record, 0);
    post_late(&record);
    run();
    assert_int_equal(record.completed, 0);
    fold(a); /* asks for it */
    assert_done(&record, 0);
    assert_nothing_rests();
    post_late(&record);
    run();
    assert_int_equal(record.completed, 0);
    fold(b); /* acknowledges it unasked */
    assert_done(&record, 0);
    assert_nothing_rests();
    fold(a);
    assert_folded(a, true);
    assert_folded(b, true);
    free_folded();
}

/* A poll folds, when there are too many streams. */
static void test_polls_fold(void **state) {
    (void)state;
    exchange(1);
    assert_folded(a, false);
    for (int i = 0; i < 2; i++) { /* it has had something to do since the one before */
        assert_folded(a, false);
        a->packets.fold_at = 1;
        poll_once(a);
        assert_int_equal(a->packets.fold_at, TUG_STREAMS_KEPT);
    }
    assert_folded(a, true);
    exchange(2);
    free_folded();
}

/* The way to a peer that is folded ends: its rank is told to those above, and nothing fails. */
static void test_folded_peer_ends(void **state) {
    (void)state;
    exchange(1);
    fold(a);
    a->out.wire.ended(&a->packets, 1);
    assert_int_equal(a->peers_ended, 1);
    assert_false(tug_packets_has_lost(&a->packets, 1));
    assert_folded(a, true);
    exchange(2);
    free_folded();
}

static struct tug_caller waiting;

static int called_later(struct tug_fabric *fabric, struct tug_caller caller, unsigned handler,
                        const void *payload, size_t bytes) {
    (void)fabric, (void)handler, (void)payload, (void)bytes;
    waiting = caller;
    return 0;
}

/* A call has been acknowledged and not answered when the way to the peer ends: it fails, whether
 * the stream is folded or not. */
static void test_peer_ends_before_it_answers(void **state) {
    (void)state;
    for (int folded = 0; folded < 2; folded++) {
        struct record record;
        uint64_t value = 3;
        b->fabric.called = called_later;
        struct tug_operation *call = prepare(TUG_OPERATION_CALL, 0, sizeof value, &record);
        call->op = 5;
        call->local = (unsigned char *)&value;
        call->address = (uint64_t)(uintptr_t)&value;
        post(call);
        tug_packets_flush(&a->packets);
        run();
        assert_int_equal(record.completed, 0);
        assert_int_equal(a->packets.unacked, 0);
        if (folded)
            fold(a);
        assert_int_equal(a->streams[1] == NULL, folded);
        a->out.wire.ended(&a->packets, 1);
        assert_done(&record, TUG_ERR_PEER);
        assert_true(tug_packets_has_lost(&a->packets, 1));
        tug_packets_reply(&b->packets, waiting, 0, &value, sizeof value);
        run();
        free_folded();
        (void)fake_end(NULL);
        (void)set_up(NULL);
    }
}

static void test_no_memory_to_fold(void **state) {
    (void)state;
    exchange(1);
    no_memory = true;
    fold(a);
    assert_non_null(a->streams[1]);
    no_memory = false;
    fold(a);
    assert_folded(a, true);
    no_memory = true;
    assert_null(tug_stream_to(&a->packets, 1));
    no_memory = false;
    assert_folded(a, true);
    exchange(2);
    free_folded();
}

/* A row that has carried packets has no way to the peer any more: the folded streams tell each
 * other how many they have taken, and go on by the next row. */
static void test_folded_ones_take_the_next_row(void **state) {
    (void)state;
    static const struct tug_transport first = {
        .name = "first", .send = fake_send, .poll = fake_poll, .wired_by_host = true};
    static const struct tug_transport last = {
        .name = "last", .send = fake_send, .poll = fake_poll, .make = make_none};
    for (unsigned folded = 0; folded < 4; folded++) {
        static struct fake_wire next[2];
        struct record record;
        exchange(folded);
        add_next_row(next, &first, &last);
        if (folded & 1)
            fold(a);
        if (folded & 2)
            fold(b);
        const uint32_t taken = b->out.wire.yields(&b->packets, 0);
        assert_int_equal(taken,
                         a->streams[1] != NULL ? a->streams[1]->sent : a->packets.folded[1].sent);
        a->out.wire.moves(&a->packets, 1, taken, NULL);
        post(prepare(TUG_OPERATION_WRITE, 0, 8, &record));
        run();
        assert_done(&record, 0);
        assert_int_equal(next[0].sent, 1);
        assert_false(a->streams[1]->lost || b->streams[0]->lost);
        fold(a); /* it does not go by the first row, so it stays */
        assert_non_null(a->streams[1]);
        run();
        drop_next_row(next);
        free_folded();
        (void)fake_end(NULL);
        (void)set_up(NULL);
    }
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, fake_end)
    const struct CMUnitTest tests[] = {
        CASE(test_kinds),
        CASE(test_signals),
        CASE(test_signals_of_others),
        CASE(test_signals_that_must_wait),
        CASE(test_signals_of_lost_peers),
        CASE(test_aggregation),
        CASE(test_demand),
        CASE(test_window),
        CASE(test_brought_by_others),
        CASE(test_others_hold_all),
        CASE(test_piling_up),
        CASE(test_contexts_share),
        CASE(test_wire_without_room),
        CASE(test_next_row),
        CASE(test_next_row_without_trailers),
        CASE(test_wiring),
        CASE(test_ways_apart),
        CASE(test_answers_gather),
        CASE(test_credit),
        CASE(test_long_ones),
        CASE(test_failures),
        CASE(test_counting_ones_end_together),
        CASE(test_failure_among_counting_ones),
        CASE(test_lost_counting_ones),
        CASE(test_lost_unsent),
        CASE(test_refusal_goes),
        CASE(test_writing_on),
        CASE(test_telling_on),
        CASE(test_gathering),
        CASE(test_numbers_go_round),
        CASE(test_late_ones),
        CASE(test_late_ones_gather),
        CASE(test_late_one_rides),
        CASE(test_late_one_is_asked_for),
        CASE(test_late_one_among_others),
        CASE(test_late_ones_hold_up),
        CASE(test_lost_late_ones),
        CASE(test_noise_is_dropped),
        CASE(test_wrong_number),
        CASE(test_malformed),
        CASE(test_answer_to_nothing),
        CASE(test_acknowledges_what_was_not_sent),
        CASE(test_control_without_transport),
        CASE(test_control_to_lost),
        CASE(test_folded_streams_go_on),
        CASE(test_folded_numbers_go_round),
        CASE(test_what_has_to_do_is_not_folded),
        CASE(test_polls_fold),
        CASE(test_folded_peer_ends),
        CASE(test_peer_ends_before_it_answers),
        CASE(test_no_memory_to_fold),
        CASE(test_folded_ones_take_the_next_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
