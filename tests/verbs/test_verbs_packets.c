/* Packets by verbs, between two fabrics of one process: their streams, the device (Soft-RoCE, or
 * the stand-in), and messages of the host, which are a queue here and are counted. Usage:
 * test_verbs_packets [CASE] */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "broken.h"
#include "tests/unit/fake_wire.h"
#include "transport/verbs/private.h"
#include "transport/verbs/verbs.h"

#define OPERATIONS 1024
#define MEMORY ((size_t)1 << 20)
#define HALF (MEMORY / 2)
#define CALLEE 3

static struct tug_bell bells[2];
static struct tug_endpoint *homes[2][TUG_RKEYS]; /* each process's own */
static struct tug_ibv real;

static void *make_none(struct tug_fabric *fabric) {
    (void)fabric;
    return NULL;
}

static bool rings_not(void *state) {
    (void)state;
    return false;
}

static const struct tug_transport host = {
    .name = "host", .send = fake_send, .poll = fake_poll, .make = make_none, .arm = rings_not};

/* Answers twice what was asked. */
static int called(struct tug_fabric *fabric, struct tug_caller caller, unsigned handler,
                  const void *payload, size_t bytes) {
    uint64_t value;
    assert_int_equal(handler, CALLEE);
    assert_int_equal(bytes, sizeof value);
    memcpy(&value, payload, sizeof value);
    value *= 2;
    tug_packets_reply(fabric->packets, caller, 0, &value, sizeof value);
    return 0;
}

static struct tug_verbs_view *view_of(const struct side *side) {
    return side->fabric.states[TUG_BY_VERBS];
}

static struct tug_verbs *verbs_of(const struct side *side) {
    return view_of(side)->verbs;
}

static void add_verbs(struct side *side) {
    struct tug_fabric *fabric = &side->fabric;
    char reason[256] = "";
    fabric->bell = &bells[fabric->rank];
    fabric->called = called;
    fabric->to_be_carried = true;
    if (tug_verbs_open_at(homes[fabric->rank], fabric, &fabric->states[TUG_BY_VERBS], reason) != 0)
        fail_msg("verbs cannot be opened: %s", reason);
    assert_true(tug_fabric_carries(fabric, TUG_BY_VERBS));
    fabric->takers[fabric->ntakers++] = TUG_BY_VERBS;
    fabric->states[TUG_BY_MPI] = &side->out.wire;
    side->packets.nwires = 0;
    tug_packets_attach(&side->packets, fabric->states[TUG_BY_VERBS]);
    tug_packets_attach(&side->packets, &side->out.wire);
    for (size_t i = 0; i < MEMORY; i++)
        side->local.base[i] = (unsigned char)(i * 7 + (i >> 8) * 13 + fabric->rank);
    tug_transport_verbs.register_memory(view_of(side), &side->remote);
    tug_transport_verbs.register_memory(view_of(side), &side->local);
}

static int set_up(void **state) {
    (void)state;
    fake_begin(&host, TUG_MPI_PACKET_BYTES, OPERATIONS, MEMORY);
    add_verbs(a);
    add_verbs(b);
    real = tug_ibv;
    return 0;
}

static void remove_verbs(struct side *side) {
    struct tug_stream *stream = side->streams[1 - side->fabric.rank];
    if (stream != NULL && stream->requests != NULL)
        tug_pool_give(&stream->wire->pool, stream->requests);
    if (stream != NULL)
        stream->requests = NULL;
    tug_transport_verbs.deregister_memory(view_of(side), &side->remote);
    tug_transport_verbs.deregister_memory(view_of(side), &side->local);
    tug_transport_verbs.close(view_of(side));
}

static int tear_down(void **state) {
    tug_ibv = real;
    remove_verbs(a);
    remove_verbs(b);
    return fake_end(state);
}

/* ---- operations ---- */

static struct tug_operation *prepare(struct side *side, unsigned kind, uint64_t offset,
                                     uint64_t bytes, struct record *record) {
    struct side *other = side == a ? b : a;
    uint32_t tag = TUG_NO_TAG;
    assert_true(tug_tags_take_in_hand(&side->fabric.tags, &tag));
    struct tug_operation *operation = &side->fabric.operations[tag];
    *record = (struct record){0, 0, 1};
    operation->kind = (uint8_t)kind;
    operation->op = 0;
    operation->peer = other->fabric.rank;
    operation->key = other->remote.id;
    operation->rkey = 0; /* the device does not know that memory: in packets */
    operation->offset = offset;
    operation->address = (uint64_t)(uintptr_t)other->remote.base + offset;
    operation->bytes = bytes;
    operation->local = side->local.base + offset;
    operation->registration = NULL;
    operation->status = 0;
    operation->scratch = 0;
    operation->on_complete = (struct tug_callback){on_complete, record};
    operation->on_local = (struct tug_callback){NULL, NULL};
    return operation;
}

static void post(struct side *side, struct tug_operation *operation) {
    side->fabric.out++;
    tug_fabric_post(&side->fabric, operation);
}

static void post_message(struct side *side, uint64_t bytes, struct record *record) {
    struct tug_operation *message = prepare(side, TUG_OPERATION_AM, 64, bytes, record);
    message->op = 5;
    post(side, message);
}

static void post_call(struct side *side, uint64_t *value, struct record *record) {
    struct tug_operation *call = prepare(side, TUG_OPERATION_CALL, sizeof *value, 0, record);
    call->op = CALLEE;
    call->bytes = sizeof *value;
    call->local = (unsigned char *)value;
    call->address = (uint64_t)(uintptr_t)value;
    post(side, call);
}

static void post_fetch(struct side *side, unsigned bytes, uint64_t *old, struct record *record) {
    struct tug_operation *fetch = prepare(side, TUG_OPERATION_FETCH, 0, bytes, record);
    fetch->op = TUG_ADD;
    fetch->operand = 1;
    fetch->local = (unsigned char *)old;
    post(side, fetch);
}

/* A write of 8 bytes that the device does. */
static void post_put(struct side *side, uint64_t offset, struct record *record) {
    struct tug_operation *put = prepare(side, TUG_OPERATION_WRITE, offset, 8, record);
    put->rkey = (side == a ? b : a)->remote.rkeys[0];
    put->registration = &side->local;
    side->local.users++;
    post(side, put);
}

static void round_both(void) {
    (void)tug_fabric_poll(&a->fabric);
    (void)tug_fabric_poll(&b->fabric);
}

static bool is_busy(const struct side *side) {
    return side->fabric.out > 0 || tug_fabric_busy(&side->fabric);
}

static void finish(void) {
    const uint64_t end = tug_clock_ns() + UINT64_C(60000000000);
    tug_fabric_flush(&a->fabric);
    tug_fabric_flush(&b->fabric);
    do {
        round_both();
        assert_true(tug_clock_ns() < end);
    } while (is_busy(a) || is_busy(b));
}

/* One of each kind from that side, of data that start at that offset. */
struct kinds {
    struct record write, read, message, long_message, call, fetch, compare, put;
    uint64_t value, old;
};

static void post_kinds(struct side *side, uint64_t offset, uint64_t bytes, struct kinds *kinds) {
    post(side, prepare(side, TUG_OPERATION_WRITE, offset, bytes, &kinds->write));
    struct tug_operation *read = prepare(side, TUG_OPERATION_READ, offset, bytes, &kinds->read);
    read->local = side->remote.base + HALF + offset;
    post(side, read);
    post_message(side, 8 + bytes % 500, &kinds->message);
    post_message(side, 4000, &kinds->long_message);
    kinds->value = 21 + offset;
    post_call(side, &kinds->value, &kinds->call);
    post_fetch(side, 4, &kinds->old, &kinds->fetch);
    post_put(side, offset, &kinds->put);
}

static void assert_kinds(struct side *side, uint64_t offset, uint64_t bytes,
                         const struct kinds *kinds) {
    const struct side *other = side == a ? b : a;
    const struct record *records[] = {&kinds->write, &kinds->read,  &kinds->message,
                                      &kinds->call,  &kinds->fetch, &kinds->long_message,
                                      &kinds->put};
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        assert_int_equal(records[i]->completed, 1);
        assert_int_equal(records[i]->status, 0);
    }
    assert_memory_equal(other->remote.base + offset, side->local.base + offset, bytes);
    assert_memory_equal(side->remote.base + HALF + offset, side->local.base + offset, bytes);
    assert_int_equal(kinds->value, 2 * (21 + offset));
}

static unsigned host_messages(void) {
    return a->out.sent + b->out.sent;
}

/* Both directions have a connection. */
static void wire_up_again(void) {
    struct record records[2];
    post_message(a, 8, &records[0]);
    post_message(b, 8, &records[1]);
    finish();
}

static void wire_up(void) {
    wire_up_again();
    assert_int_equal(host_messages(), 4); /* each asks, each is answered */
}

/* ---- cases ---- */

/* Once two processes are connected the host carries nothing between them, whatever they do. */
static void no_message_of_the_host(void **state) {
    (void)state;
    static struct kinds of_a[40], of_b[40];
    wire_up();
    for (unsigned i = 0; i < 40; i++) {
        const uint64_t offset = 64 + 10000 * (uint64_t)i, bytes = 24 + 240 * i;
        post_kinds(a, offset, bytes, &of_a[i]);
        if (i % 2 == 0)
            post_kinds(b, offset, bytes, &of_b[i]);
        if (i % 8 == 7)
            finish();
    }
    finish();
    for (unsigned i = 0; i < 40; i++) {
        assert_kinds(a, 64 + 10000 * (uint64_t)i, 24 + 240 * i, &of_a[i]);
        if (i % 2 == 0)
            assert_kinds(b, 64 + 10000 * (uint64_t)i, 24 + 240 * i, &of_b[i]);
    }
    assert_int_equal(host_messages(), 4);
}

/* The table of docs/adding-a-transport.md. */
static void counted(void **state) {
    (void)state;
    struct record records[40];
    uint64_t value = 4;
    const struct tug_verbs *mine = verbs_of(a), *theirs = verbs_of(b);
    wire_up();
    uint64_t chains = mine->chains, posted = mine->posted, answers = theirs->chains;
    post_message(a, 8, &records[0]);
    tug_fabric_flush(&a->fabric);
    assert_int_equal(mine->chains - chains, 1);
    assert_int_equal(mine->posted - posted, 1);
    finish();
    assert_int_equal(theirs->chains - answers, 1); /* the acknowledgement */
    assert_int_equal(mine->chains - chains, 1);
    chains = mine->chains, answers = theirs->chains;
    post_call(a, &value, &records[0]);
    finish();
    assert_int_equal(value, 8);
    assert_int_equal(mine->chains - chains, 1);
    assert_int_equal(theirs->chains - answers, 1); /* its answer acknowledges it */
    chains = mine->chains, posted = mine->posted;
    for (unsigned i = 0; i < 28; i++)
        post_put(a, 256 * i, &records[i]);
    for (unsigned i = 28; i < 40; i++)
        post_message(a, 4096, &records[i]);
    tug_fabric_flush(&a->fabric);
    assert_int_equal(mine->chains - chains, 1);
    assert_int_equal(mine->posted - posted, 39); /* the last message waits for an answer */
    unsigned signalled = 0;
    for (unsigned i = 0; i < 39; i++)
        signalled += (mine->chain[i].send_flags & IBV_SEND_SIGNALED) != 0;
    assert_int_equal(signalled, 1);
    finish();
}

/* Queue pairs fail at either end: all of it is done once, and in order. */
static void queue_pairs_fail(void **state) {
    (void)state;
    static struct kinds of_a[60], of_b[60];
    uint64_t old = 0;
    struct record record;
    wire_up();
    memset(a->remote.base, 0, 8);
    memset(b->remote.base, 0, 8);
    const unsigned before = b->messages;
    for (unsigned i = 0; i < 60; i++) {
        struct side *side = i % 3 == 0 ? b : a;
        const uint64_t offset = 64 + 8000 * (uint64_t)i;
        struct tug_verbs_pair *pair = verbs_of(side)->pairs[0];
        post_kinds(a, offset, 7000, &of_a[i]);
        post_kinds(b, offset, 200, &of_b[i]);
        if (i % 2 == 0)
            tug_fabric_flush(&side->fabric);
        if (i % 5 == 0)
            finish(); /* RDMA that is under way when its sender fails, fails */
        for (unsigned k = 0; k < i % 4; k++)
            round_both();
        if (i % 5 == 0 && pair->phase == TUG_PAIR_UP)
            break_queue_pair(i % 2 == 0 ? pair->sender : pair->server->qp);
        if (i % 5 == 0)
            post_message(side, 8, &record);
        if (i % 5 == 0)
            finish();
    }
    finish();
    for (unsigned i = 0; i < 60; i++) {
        assert_kinds(a, 64 + 8000 * (uint64_t)i, 7000, &of_a[i]);
        assert_kinds(b, 64 + 8000 * (uint64_t)i, 200, &of_b[i]);
    }
    assert_true(b->messages - before >= 120);
    post_fetch(a, 4, &old, &record);
    finish();
    assert_int_equal(old, 60); /* each fetch was done once */
    assert_true(host_messages() > 4);
    assert_false(a->streams[1]->lost || b->streams[0]->lost);
}

static unsigned may_be_made; /* queue pairs */

static struct ibv_qp *make_few(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes) {
    return may_be_made > 0 && may_be_made-- > 0 ? real.create_qp(pd, attributes) : NULL;
}

/* No queue pairs, or enough for one of the two directions: the rest goes by the host's messages. */
static void too_few_queue_pairs(unsigned n) {
    static struct kinds of_a[10], of_b[10];
    may_be_made = n;
    tug_ibv.create_qp = make_few;
    for (unsigned i = 0; i < 10; i++) {
        const uint64_t offset = 64 + 20000 * (uint64_t)i;
        post_kinds(a, offset, 10000, &of_a[i]);
        if (i > 2)
            post_kinds(b, offset, 9000, &of_b[i]);
        round_both();
    }
    finish();
    for (unsigned i = 0; i < 10; i++) {
        assert_kinds(a, 64 + 20000 * (uint64_t)i, 10000, &of_a[i]);
        if (i > 2)
            assert_kinds(b, 64 + 20000 * (uint64_t)i, 9000, &of_b[i]);
    }
    assert_true(host_messages() > 4);
}

static void no_queue_pairs(void **state) {
    (void)state;
    too_few_queue_pairs(0);
    assert_ptr_equal(a->streams[1]->wire, &a->out.wire);
    assert_ptr_equal(b->streams[0]->wire, &b->out.wire);
}

static void one_direction(void **state) {
    (void)state;
    too_few_queue_pairs(2);
    assert_ptr_equal(a->streams[1]->wire, view_of(a));
    assert_ptr_equal(b->streams[0]->wire, &b->out.wire);
}

static void one_queue_pair(void **state) {
    (void)state;
    too_few_queue_pairs(1);
}

static void break_pair(const struct side *side) {
    const struct tug_verbs_pair *pair = verbs_of(side)->pairs[0];
    if (pair->phase == TUG_PAIR_UP)
        break_queue_pair(pair->sender);
}

static void lose_queue_pairs(const struct side *side) {
    break_pair(side);
    make_unsound_queue_pairs();
}

static void lose_device(const struct side *side) {
    atomic_store(&verbs_of(side)->base.lost, true);
}

/* Traffic both ways, a way that is gone for good, more traffic: all of it is done once and in
 * order, some of it by each row. unseen: rounds in which only one side looks before. */
static void way_ends(void (*lose)(const struct side *), unsigned unseen, bool both) {
    enum { N = 24 };
    static struct kinds of_a[N], of_b[N];
    struct record records[4];
    uint64_t old[2] = {0, 0};
    wire_up();
    memset(a->remote.base, 0, 8);
    memset(b->remote.base, 0, 8);
    const unsigned came[2] = {a->messages, b->messages};
    for (unsigned i = 0; i < N; i++) {
        const uint64_t offset = 64 + 20000 * (uint64_t)i;
        post_kinds(a, offset, 18000, &of_a[i]);
        post_kinds(b, offset, 100 + i, &of_b[i]);
        if (i % 3 == 0)
            round_both();
        if (i != N / 2)
            continue;
        for (unsigned k = 0; k < unseen; k++)
            (void)tug_fabric_poll(&a->fabric);
        lose(a);
        if (both)
            lose(b);
        tug_fabric_flush(&a->fabric);
    }
    finish();
    for (unsigned i = 0; i < N; i++) {
        assert_kinds(a, 64 + 20000 * (uint64_t)i, 18000, &of_a[i]);
        assert_kinds(b, 64 + 20000 * (uint64_t)i, 100 + i, &of_b[i]);
    }
    tug_ibv = real;
    post_message(a, 8, &records[0]);
    post_message(b, 8, &records[1]);
    post_fetch(a, 4, &old[0], &records[2]);
    post_fetch(b, 4, &old[1], &records[3]);
    finish();
    assert_int_equal((uint32_t)old[0], N);
    assert_int_equal((uint32_t)old[1], N);
    assert_int_equal(a->messages - came[0], 2 * N + 1);
    assert_int_equal(b->messages - came[1], 2 * N + 1);
    assert_false(a->streams[1]->lost || b->streams[0]->lost);
    assert_ptr_equal(a->streams[1]->wire, &a->out.wire);
    assert_int_equal(verbs_of(a)->base.under_way + verbs_of(b)->base.under_way, 0);
    assert_int_equal(view_of(a)->wire.pool.nout + view_of(b)->wire.pool.nout, 0);
}

static void queue_pairs_gone(void **state) {
    (void)state;
    way_ends(lose_queue_pairs, 0, false);
}

static void queue_pairs_gone_unseen(void **state) {
    (void)state;
    way_ends(lose_queue_pairs, 5, true);
}

/* One whose device is there goes on by it. */
static void device_gone(void **state) {
    (void)state;
    way_ends(lose_device, 0, false);
    assert_ptr_equal(b->streams[0]->wire, view_of(b));
}

static void device_gone_unseen(void **state) {
    (void)state;
    way_ends(lose_device, 7, false);
}

static void both_devices_gone(void **state) {
    (void)state;
    way_ends(lose_device, 3, true);
    assert_ptr_equal(b->streams[0]->wire, &b->out.wire);
}

/* Closes the side's sender, which has nothing under way, as if others were used more. */
static void close_sender(const struct side *side) {
    tug_verbs_pairs_shed(verbs_of(side), 0);
    for (int i = 0; i < 100 || verbs_of(a)->retired != NULL || verbs_of(b)->retired != NULL; i++)
        round_both();
}

static uint32_t known_to(const struct side *side) {
    return verbs_of(side)->npairs - verbs_of(side)->nspare;
}

/* The side forgets what it can, as if it knew many others. */
static void forget(const struct side *side) {
    const uint64_t pairs = tug_settings.verbs_pairs;
    tug_settings.verbs_pairs = 0;
    verbs_of(side)->forget_at = 0;
    tug_verbs_pairs_forget(verbs_of(side));
    tug_settings.verbs_pairs = pairs;
}

/* Neither forgets the other while there is a connection in either direction; then one of them does,
 * or both, and all goes on, each packet once and in order. */
static void forgotten(void **state) {
    (void)state;
    enum { N = 24 };
    static struct kinds of_a[N], of_b[N];
    const unsigned came[2] = {a->messages, b->messages};
    for (unsigned i = 0; i < N; i++) {
        const uint64_t offset = 64 + 20000 * (uint64_t)i;
        post_kinds(i % 3 == 0 ? b : a, offset, 100 + 700 * i, &of_a[i]);
        if (i % 5 != 0)
            finish();
        post_kinds(i % 3 == 0 ? a : b, offset, 200 + i, &of_b[i]);
        finish();
        forget(a);
        forget(b);
        assert_int_equal(known_to(a), 1);
        assert_int_equal(known_to(b), 1);
        close_sender(i % 2 == 0 ? a : b);
        forget(a);
        forget(b);
        assert_int_equal(known_to(a), 1);
        assert_int_equal(known_to(b), 1);
        close_sender(i % 2 == 0 ? b : a);
        if (i % 4 & 1)
            forget(a);
        if (i % 4 & 2)
            forget(b);
        assert_int_equal(known_to(a), !(i % 4 & 1));
        assert_int_equal(known_to(b), !(i % 4 & 2));
        if (i % 4 & 1)
            assert_null(tug_table_find(&view_of(a)->contacts, 1));
    }
    for (unsigned i = 0; i < N; i++) {
        const uint64_t offset = 64 + 20000 * (uint64_t)i;
        assert_kinds(i % 3 == 0 ? b : a, offset, 100 + 700 * i, &of_a[i]);
        assert_kinds(i % 3 == 0 ? a : b, offset, 200 + i, &of_b[i]);
    }
    assert_int_equal(a->messages - came[0], 2 * N);
    assert_int_equal(b->messages - came[1], 2 * N);
    assert_false(a->streams[1]->lost || b->streams[0]->lost);
    assert_ptr_equal(a->streams[1]->wire, view_of(a));
    assert_ptr_equal(b->streams[0]->wire, view_of(b));
}

/* Numbers of messages that are near the end of their range, or past its half, go on. */
static void forgotten_far_on(void **state) {
    (void)state;
    static const uint32_t numbers[] = {0x7ffffff0, 0x80000005, 0xfffffff9};
    for (unsigned i = 0; i < 3; i++) {
        struct kinds of_a[10], of_b[10];
        wire_up_again();
        verbs_of(a)->pairs[0]->numbered = verbs_of(b)->pairs[0]->received = numbers[i];
        verbs_of(b)->pairs[0]->numbered = verbs_of(a)->pairs[0]->received = numbers[i];
        close_sender(a);
        close_sender(b);
        forget(i % 2 == 0 ? a : b);
        for (unsigned k = 0; k < 10; k++) {
            post_kinds(a, 64 + 20000 * (uint64_t)k, 500, &of_a[k]);
            post_kinds(b, 64 + 20000 * (uint64_t)k, 600, &of_b[k]);
            finish();
        }
        for (unsigned k = 0; k < 10; k++) {
            assert_kinds(a, 64 + 20000 * (uint64_t)k, 500, &of_a[k]);
            assert_kinds(b, 64 + 20000 * (uint64_t)k, 600, &of_b[k]);
        }
    }
}

/* The first message after one has forgotten the other has arrived, and has not been taken, when the
 * connection by which it came is closed again. */
static void forgotten_closed_unseen(void **state) {
    (void)state;
    for (unsigned n = 0; n < 2; n++) {
        struct record records[20], put, late;
        for (unsigned i = 0; i < 20; i++)
            post_message(a, 8, &records[i]);
        finish();
        wire_up_again();
        close_sender(a);
        close_sender(b);
        forget(n == 0 ? a : b);
        assert_int_equal(known_to(n == 0 ? a : b), 0);
        post_put(a, HALF - 64, &put); /* connects them, without a message */
        finish();
        const unsigned came = b->messages;
        const struct tug_verbs_pair *pair = verbs_of(a)->pairs[0];
        post_message(a, 8, &late);
        tug_fabric_flush(&a->fabric);
        while (pair->messages > 0)
            (void)tug_fabric_poll(&a->fabric);
        tug_verbs_pairs_shed(verbs_of(a), 0);
        assert_int_equal(verbs_of(a)->nsenders, 0);
        assert_true(fake_poll(&b->out.wire)); /* b is told before it looks */
        assert_int_equal(b->messages, came);
        finish();
        assert_int_equal(b->messages, came + 1);
        assert_int_equal(late.completed, 1);
        assert_int_equal(late.status, 0);
        assert_false(a->streams[1]->lost || b->streams[0]->lost);
        wire_up_again();
    }
}

/* No connection can be had any more after one has forgotten the other: packets go by the next row,
 * and the peer, which has not forgotten, says how many it has taken. */
static void forgotten_way_ends(void **state) {
    (void)state;
    struct kinds kinds[2];
    wire_up();
    post_kinds(a, 64, 5000, &kinds[0]);
    post_kinds(b, 64, 6000, &kinds[1]);
    finish();
    assert_kinds(a, 64, 5000, &kinds[0]);
    assert_kinds(b, 64, 6000, &kinds[1]);
    close_sender(a);
    close_sender(b);
    forget(a);
    may_be_made = 0;
    tug_ibv.create_qp = make_few;
    post_kinds(a, 20064, 5000, &kinds[0]);
    post_kinds(b, 20064, 6000, &kinds[1]);
    finish();
    assert_kinds(a, 20064, 5000, &kinds[0]);
    assert_kinds(b, 20064, 6000, &kinds[1]);
    assert_false(a->streams[1]->lost || b->streams[0]->lost);
    assert_ptr_equal(a->streams[1]->wire, &a->out.wire);
    assert_ptr_equal(b->streams[0]->wire, &b->out.wire);
}

/* Packets that have arrived, of which their sender has not learned: some have been taken when the
 * peer is asked, some are taken then. None comes twice. */
static void arrived_unseen(void **state) {
    (void)state;
    struct record records[20];
    struct ibv_wc completions[64];
    uint64_t old = 0;
    wire_up();
    memset(b->remote.base, 0, 8);
    const unsigned before = b->messages;
    for (unsigned i = 0; i < 20; i++) {
        if (i % 2 == 0)
            post_message(a, 3000, &records[i]);
        else
            post_fetch(a, 4, &old, &records[i]);
        if (i == 9)
            tug_fabric_flush(&a->fabric);
        if (i == 9)
            assert_true(ibv_poll_cq(verbs_of(a)->cq, 64, completions) > 0);
        if (i == 9)
            (void)tug_fabric_poll(&b->fabric);
        if (i == 12)
            (void)tug_fabric_poll(&a->fabric); /* they are acknowledged: others go */
    }
    tug_fabric_flush(&a->fabric);
    assert_true(ibv_poll_cq(verbs_of(a)->cq, 64, completions) > 0);
    lose_device(a);
    (void)tug_fabric_poll(&a->fabric);
    assert_int_equal(verbs_of(a)->pairs[0]->moving, 1);
    assert_true(verbs_of(a)->base.under_way > 0);
    assert_true(b->messages - before < 10);
    assert_true(fake_poll(&b->out.wire)); /* it is asked before it has looked at its queue */
    assert_true(b->messages - before < 10);
    const unsigned sent = a->out.sent;
    finish();
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(records[i].completed, 1);
        assert_int_equal(records[i].status, 0);
    }
    assert_int_equal(b->messages - before, 10);
    assert_int_equal(*(uint32_t *)b->remote.base, 10);
    assert_true(a->out.sent - sent <= 1); /* an acknowledgement, perhaps, and no packet again */
}

/* Who sleeps is woken by the completion channel, and looks for the host's messages seldom, from
 * when both are connected until packets go by them. */
static void sleeps(void **state) {
    (void)state;
    struct record records[2];
    round_both();
    assert_false(tug_fabric_arm(&a->fabric) || tug_fabric_arm(&b->fabric));
    post_message(a, 8, &records[0]);
    tug_fabric_flush(&a->fabric);
    assert_false(tug_fabric_arm(&a->fabric)); /* it has asked */
    wire_up();
    for (unsigned i = 0; i < 10; i++) {
        while (tug_fabric_poll(&a->fabric) || tug_fabric_poll(&b->fabric))
            ;
        const uint32_t key = tug_bell_prepare(&bells[1]);
        assert_true(tug_fabric_arm(&b->fabric));
        assert_true(b->fabric.seldom);
        assert_false(tug_fabric_poll(&b->fabric));
        post_message(a, 8, &records[0]);
        tug_fabric_flush(&a->fabric);
        const uint64_t before = tug_clock_ns();
        tug_bell_wait(&bells[1], key, 20000000000, false);
        assert_true(tug_clock_ns() - before < 15000000000u);
        finish();
        assert_true(tug_fabric_arm(&a->fabric) && a->fabric.seldom);
    }
    assert_int_equal(host_messages(), 4);
    lose_device(a);
    post_message(b, 8, &records[1]);
    finish();
    post_message(a, 8, &records[0]);
    finish();
    assert_false(tug_fabric_arm(&a->fabric) || tug_fabric_arm(&b->fabric));
}

/* A packet that the device has taken and the peer has not got is a peer that is lost. */
static void packet_gone(void **state) {
    (void)state;
    struct record records[2];
    wire_up();
    post_message(a, 8, &records[0]);
    tug_fabric_flush(&a->fabric);
    (void)tug_fabric_poll(&a->fabric);
    struct ibv_wc completions[8]; /* it is in b's queue */
    assert_true(ibv_poll_cq(verbs_of(b)->cq, 8, completions) > 0);
    lose_device(a);
    post_message(a, 8, &records[1]);
    finish();
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(records[i].completed, 1);
        assert_int_equal(records[i].status, TUG_ERR_PEER);
    }
    assert_true(a->streams[1]->lost);
}

/* ---- writes with a signal right behind them ---- */

/* One from a to b of the n-th block, and its signal, which adds 1 to the n-th counter. */
#define BLOCKS 24
#define BLOCK 20000u

static uint64_t *counter_of(unsigned n) {
    return (uint64_t *)(b->remote.base + HALF) + n;
}

static unsigned char *block_of(const struct tug_registration *memory, unsigned n) {
    return memory->base + (size_t)n * BLOCK;
}

/* Data that a has and b has not, and counters at 0. */
static void begin_signals(void) {
    wire_up();
    memset(b->remote.base, 0, MEMORY);
    (void)tug_packets_go_by(&a->packets, 1, NULL); /* there is a stream */
}

enum how { AHEAD = 1, LATE = 2 };

/* As a context does for a job; AHEAD: the signal goes with the write, where it may. */
static void post_signalled(unsigned n, uint32_t rkey, unsigned how, struct record *record) {
    struct record nobody;
    struct tug_operation *write =
        prepare(a, TUG_OPERATION_WRITE, (uint64_t)n * BLOCK, BLOCK, &nobody);
    struct tug_operation *signal =
        prepare(a, TUG_OPERATION_SIGNAL, HALF + 8 * (uint64_t)n, 8, record);
    write->rkey = rkey;
    write->registration = &a->local;
    write->on_complete.f = NULL;
    write->on_local = (struct tug_callback){on_local, record};
    a->local.users++;
    signal->local = NULL;
    signal->operand = 1;
    signal->rkey = TUG_SIGNAL_AT_ONCE | (how & LATE ? TUG_SIGNAL_LATE : 0);
    a->fabric.out += 2;
    if ((how & AHEAD) && tug_packets_go_by(&a->packets, 1, view_of(a)) &&
        tug_transport_verbs.post_signalled(view_of(a), write, signal)) {
        tug_packets_post(&a->packets, signal);
        return;
    }
    tug_fabric_follow(&a->fabric, write, signal);
    tug_fabric_post(&a->fabric, write);
}

static void post_good(unsigned n, struct record *record) {
    post_signalled(n, b->remote.rkeys[0], AHEAD, record);
}

/* The signals that b sees: their data are there, and are its program's from now on, which uses the
 * memory for something else. seen: [BLOCKS]. */
static void see_signals(bool seen[BLOCKS]) {
    for (unsigned n = 0; n < BLOCKS; n++) {
        if (seen[n] || *counter_of(n) == 0)
            continue;
        assert_memory_equal(block_of(&b->remote, n), block_of(&a->local, n), BLOCK);
        memset(block_of(&b->remote, n), 0xEE, BLOCK);
        seen[n] = true;
    }
}

/* Each write has been done once, and its signal, and nothing behind that. */
static void assert_signals(const struct record *records, bool seen[BLOCKS], unsigned n) {
    see_signals(seen);
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(records[i].completed, 1);
        assert_int_equal(records[i].status, 0);
        assert_int_equal(*counter_of(i), 1);
        for (unsigned k = 0; k < BLOCK; k++)
            assert_int_equal(block_of(&b->remote, i)[k], 0xEE);
    }
    assert_int_equal(a->fabric.out, 0);
    assert_int_equal(a->local.users, 0);
    assert_int_equal(verbs_of(a)->pairs[0]->ordered, 0);
}

static unsigned nsignalled; /* requests of a that report their end */
static int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);

static int count_signalled(struct ibv_qp *qp, struct ibv_send_wr *request,
                           struct ibv_send_wr **bad) {
    for (const struct ibv_send_wr *at = request; at != NULL; at = at->next)
        nsignalled += verbs_of(a)->pairs[0]->sender == qp && (at->send_flags & IBV_SEND_SIGNALED);
    return post_send(qp, request, bad);
}

/* A write of so many segments, each with its signal, posted in one batch or each by itself. Counts
 * what a's card is asked and tells. */
static void count_signals(unsigned segments, bool apart, unsigned how, unsigned doorbells,
                          unsigned requests, unsigned completions) {
    struct record records[BLOCKS];
    bool seen[BLOCKS] = {false};
    const struct tug_verbs *verbs = verbs_of(a);
    memset(b->remote.base, 0, MEMORY);
    const uint64_t chains = verbs->chains, posted = verbs->posted;
    nsignalled = 0;
    for (unsigned n = 0; n < segments; n++) {
        post_signalled(n, b->remote.rkeys[0], how, &records[n]);
        if (apart || n + 1 == segments)
            tug_fabric_flush(&a->fabric);
        while (apart && a->fabric.out > 0)
            round_both();
    }
    finish();
    assert_signals(records, seen, segments);
    assert_int_equal(verbs->chains - chains, doorbells);
    assert_int_equal(verbs->posted - posted, requests);
    assert_int_equal(nsignalled, completions);
}

/* The table of docs/adding-a-transport.md; and where the signal waits for the write's end. */
static void signals_counted(void **state) {
    (void)state;
    begin_signals();
    post_send = verbs_of(a)->device.context->ops.post_send;
    verbs_of(a)->device.context->ops.post_send = count_signalled;
    for (unsigned n = 1; n <= 16; n *= 4) {
        count_signals(n, false, AHEAD, 1, n + 1, n);
        count_signals(n, true, AHEAD, n, 2 * n, n);
        count_signals(n, true, 0, 2 * n, 2 * n, 2 * n);
    }
    verbs_of(a)->device.context->ops.post_send = post_send;
}

/* The peer refuses one of three writes whose signals share a packet, which may rest. */
static void refused_write(unsigned how) {
    struct record records[3], message;
    bool seen[BLOCKS] = {false};
    begin_signals();
    const unsigned before = b->messages;
    post_signalled(0, b->remote.rkeys[0], how, &records[0]);
    post_signalled(1, b->remote.rkeys[0] ^ 0x5a5a00, how, &records[1]);
    post_signalled(2, b->remote.rkeys[0], how, &records[2]);
    tug_fabric_flush(&a->fabric);
    while (records[1].completed == 0)
        round_both();
    assert_true(a->fabric.resting <= 2);
    while (a->fabric.out > a->fabric.resting)
        round_both();
    post_message(a, 8, &message);
    tug_packets_ask(&a->packets);
    finish();
    assert_int_equal(a->fabric.resting, 0);
    see_signals(seen);
    for (unsigned n = 0; n < 3; n++) {
        assert_int_equal(records[n].completed, 1);
        assert_int_equal(records[n].status, n == 1 ? TUG_ERR_KEY : 0);
        assert_int_equal(*counter_of(n), n != 1);
    }
    assert_int_equal(b->messages - before, 1);
    assert_int_equal(a->fabric.out + a->local.users, 0);
    assert_false(a->streams[1]->lost || b->streams[0]->lost);
}

static void signal_of_a_refused_write(void **state) {
    (void)state;
    refused_write(AHEAD);
}

static void late_signal_of_a_refused_write(void **state) {
    (void)state;
    refused_write(AHEAD | LATE);
}

/* What a sender tells is held back until the end of a message is among it: then it is told instead
 * that the peer does not answer the first of these requests. */
static uint32_t unlucky;
static uint64_t unlucky_first;
static int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);

static int poll_unlucky(struct ibv_cq *cq, int most, struct ibv_wc *found) {
    const int n = poll_cq(cq, most, found);
    int kept = 0;
    for (int i = 0; i < n; i++) {
        struct ibv_wc completion = found[i];
        if (completion.qp_num == unlucky && !(completion.wr_id & TUG_REQUEST_RECEIVES)) {
            if (unlucky_first == 0)
                unlucky_first = completion.wr_id;
            if (!(completion.wr_id & TUG_SLOT_MESSAGE))
                continue;
            completion.wr_id = unlucky_first;
            completion.status = IBV_WC_RETRY_EXC_ERR;
            unlucky = 0;
        }
        found[kept++] = completion;
    }
    return kept;
}

static void use_memory(void) {
    for (unsigned n = 0; n < 8; n++)
        memset(block_of(&b->remote, n), 0xEE, BLOCK);
}

/* All of it has been done when the sender is lost, and its owner does not know. asked: before the
 * peer has looked at what has come. */
static void signals_done_unseen(bool asked) {
    struct record records[8];
    bool seen[BLOCKS] = {false};
    const unsigned char *last = block_of(&b->remote, 7) + BLOCK - 1;
    begin_signals();
    const struct tug_verbs_pair *pair = verbs_of(a)->pairs[0];
    struct ibv_context *device = verbs_of(a)->device.context;
    poll_cq = device->ops.poll_cq;
    device->ops.poll_cq = poll_unlucky;
    unlucky = pair->sender->qp_num;
    unlucky_first = 0;
    block_of(&a->local, 7)[BLOCK - 1] = 1;
    for (unsigned n = 0; n < 8; n++)
        post_good(n, &records[n]);
    tug_fabric_flush(&a->fabric);
    while (asked && *(const volatile unsigned char *)last == 0)
        ;
    if (asked)
        use_memory(); /* as who sees the signals does */
    while (!asked && *counter_of(7) == 0)
        (void)tug_fabric_poll(&b->fabric);
    see_signals(seen);
    const uint64_t posted = verbs_of(a)->posted;
    while (pair->phase == TUG_PAIR_UP)
        (void)tug_fabric_poll(&a->fabric);
    device->ops.poll_cq = poll_cq;
    if (asked) {
        assert_int_equal(pair->ordered, 8);
        assert_true(fake_poll(&b->out.wire));
        for (unsigned n = 0; n < 8; n++) {
            assert_int_equal(*counter_of(n), 0);
            seen[n] = true;
        }
    }
    finish();
    assert_signals(records, seen, 8);
    assert_true(verbs_of(a)->posted - posted <= 4); /* messages, and no write */
    assert_ptr_equal(a->streams[1]->wire, view_of(a));
}

static void signals_done_and_seen(void **state) {
    (void)state;
    signals_done_unseen(false);
}

static void signals_done_when_asked(void **state) {
    (void)state;
    signals_done_unseen(true);
}

/* Senders are lost in all states, some at the peer's end; the writes go on with the next one, or,
 * in the end, by the next row, each ahead of its signal. */
static void signals_survive(void (*lose)(const struct side *), bool at_the_end) {
    struct record records[BLOCKS], message;
    for (unsigned round = 0; round < 8; round++) {
        bool seen[BLOCKS] = {false};
        if (round == 0)
            begin_signals();
        memset(b->remote.base, 0, MEMORY);
        for (unsigned n = 0; n < BLOCKS; n++) {
            const struct tug_verbs_pair *there = verbs_of(b)->pairs[0];
            post_good(n, &records[n]);
            if ((n + round) % 3 == 0)
                tug_fabric_flush(&a->fabric);
            if ((n + round) % 4 == 0)
                (void)tug_fabric_poll((n + round) % 8 == 0 ? &a->fabric : &b->fabric);
            see_signals(seen);
            if ((n + round) % 7 != 0 || at_the_end || verbs_of(a)->pairs[0]->failed > 0)
                continue; /* two in a row, and it would go by the next row */
            if (n % 2 == 0)
                break_pair(a);
            else if (there->server != NULL)
                break_queue_pair(there->server->qp);
            post_message(a, 8, &message);
            tug_fabric_flush(&a->fabric);
            for (unsigned k = 0; k < round; k++)
                round_both();
        }
        if (at_the_end && round == 4)
            lose(a);
        finish();
        assert_signals(records, seen, BLOCKS);
    }
    assert_false(a->streams[1]->lost || b->streams[0]->lost);
}

static void signals_of_lost_senders(void **state) {
    (void)state;
    signals_survive(NULL, false);
    assert_ptr_equal(a->streams[1]->wire, view_of(a));
}

static void signals_of_a_lost_device(void **state) {
    (void)state;
    signals_survive(lose_device, true);
    assert_ptr_equal(a->streams[1]->wire, &a->out.wire);
}

static void signals_of_lost_queue_pairs(void **state) {
    (void)state;
    signals_survive(lose_queue_pairs, true);
    assert_ptr_equal(a->streams[1]->wire, &a->out.wire);
}

/* The peer remembers more messages than have gone since it was forgotten: writes whose signals went
 * by a sender that has failed are not taken for done. */
static void signals_of_the_forgotten(void **state) {
    (void)state;
    struct record records[4], message, put;
    bool seen[BLOCKS] = {false};
    begin_signals();
    for (unsigned i = 0; i < 20; i++)
        post_message(a, 8, &message);
    finish();
    close_sender(a);
    close_sender(b);
    forget(a);
    assert_int_equal(known_to(a), 0);
    post_put(a, HALF - 64, &put); /* connects them, without a message */
    finish();
    break_pair(a);
    for (unsigned n = 0; n < 4; n++)
        post_good(n, &records[n]);
    finish();
    assert_signals(records, seen, 4);
    assert_false(a->streams[1]->lost || b->streams[0]->lost);
}

int main(int argc, char **argv) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(no_message_of_the_host),
        CASE(counted),
        CASE(queue_pairs_fail),
        CASE(no_queue_pairs),
        CASE(one_direction),
        CASE(one_queue_pair),
        CASE(queue_pairs_gone),
        CASE(queue_pairs_gone_unseen),
        CASE(device_gone),
        CASE(device_gone_unseen),
        CASE(both_devices_gone),
        CASE(forgotten),
        CASE(forgotten_far_on),
        CASE(forgotten_way_ends),
        CASE(forgotten_closed_unseen),
        CASE(packet_gone),
        CASE(arrived_unseen),
        CASE(sleeps),
        CASE(signals_counted),
        CASE(signal_of_a_refused_write),
        CASE(late_signal_of_a_refused_write),
        CASE(signals_done_and_seen),
        CASE(signals_done_when_asked),
        CASE(signals_of_the_forgotten),
        CASE(signals_of_lost_senders),
        CASE(signals_of_a_lost_device),
        CASE(signals_of_lost_queue_pairs),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
