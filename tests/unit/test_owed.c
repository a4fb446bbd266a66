/* Packets of a process that has no memory: the n-th allocation fails, for every n, and some that
 * follow. Whatever the peer asks for is answered in the end, once, and rightly: what was not taken
 * for want of memory is taken later. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/fake_wire.h"
#include "transport/packets/packets.h"

#define OPERATIONS 256
#define MEMORY ((size_t)1 << 20)
#define PACKET_BYTES 8176
#define LONG 100000u
#define CALLS 3u
#define KINDS 9u
#define NTH_MOST 60 /* more than there are */

/* ---- memory ---- */

static bool counts; /* b is at work */
static int nth, fails;
static unsigned failed;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

static bool refuses(void) {
    if (!counts || --nth >= 0 || fails == 0)
        return false;
    fails--;
    failed++;
    return true;
}

void *__wrap_malloc(size_t bytes) {
    return refuses() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes) {
    return refuses() ? NULL : __real_calloc(n, bytes);
}

/* ---- what is asked ---- */

static struct tug_caller waiting[CALLS];
static unsigned ncalls;

/* Of handler 0 the call is answered at once, of 1 later. */
static int called(struct tug_fabric *fabric, struct tug_caller caller, unsigned handler,
                  const void *payload, size_t bytes) {
    unsigned char answer[TUG_AM_MAX_PAYLOAD];
    assert_int_equal(bytes, 8);
    if (handler == 1) {
        waiting[ncalls++] = caller;
        return 0;
    }
    memset(answer, *(const unsigned char *)payload, sizeof(answer));
    tug_packets_reply(fabric->packets, caller, 0, answer, sizeof(answer));
    return 0;
}

static struct tug_operation *prepare(unsigned kind, uint64_t offset, uint64_t bytes,
                                     struct record *record) {
    struct tug_operation *operation = fake_operation(kind, offset, bytes);
    *record = (struct record){0};
    operation->on_complete = (struct tug_callback){on_complete, record};
    return operation;
}

static void post(struct tug_operation *operation) {
    a->fabric.out++;
    tug_packets_post(&a->packets, operation);
}

static void post_call(unsigned handler, unsigned char *answer, struct record *record) {
    struct tug_operation *call = prepare(TUG_OPERATION_CALL, TUG_AM_MAX_PAYLOAD, 8, record);
    call->op = (uint8_t)handler;
    call->local = NULL;
    memset(call->data, 5, 8);
    call->address = (uint64_t)(uintptr_t)answer;
    post(call);
}

static uint64_t old;
static unsigned char answers[1 + CALLS][TUG_AM_MAX_PAYLOAD];

/* Reads short and long, an atomic, a write and a message that fail, calls. */
static void post_all(struct record records[KINDS + CALLS]) {
    post(prepare(TUG_OPERATION_READ, 0, 20000 - 4, &records[0]));
    post(prepare(TUG_OPERATION_READ, 1 << 17, LONG, &records[1]));
    struct tug_operation *fetch = prepare(TUG_OPERATION_FETCH, 4096, 8, &records[2]);
    fetch->op = TUG_ADD;
    fetch->operand = 1;
    fetch->local = (unsigned char *)&old;
    post(fetch);
    post(prepare(TUG_OPERATION_WRITE, MEMORY, 8, &records[3]));
    struct tug_operation *message = prepare(TUG_OPERATION_AM, 0, 100, &records[4]);
    message->op = 9;
    post(message);
    post_call(0, answers[0], &records[5]);
    post(prepare(TUG_OPERATION_WRITE, MEMORY, LONG, &records[6]));
    post(prepare(TUG_OPERATION_WRITE, 1 << 19, LONG, &records[7]));
    post(prepare(TUG_OPERATION_READ, 4096, 8, &records[8]));
    for (unsigned i = 0; i < CALLS; i++)
        post_call(1, answers[1 + i], &records[KINDS + i]);
    tug_packets_flush(&a->packets);
}

/* b has no memory when it is told so: at its polls, and where it answers calls. */
static void go_on(void) {
    for (int i = 0; i < 200; i++) {
        counts = true;
        poll_once(b);
        counts = false;
        poll_once(a);
    }
}

static void check(const struct record records[KINDS + CALLS]) {
    static const int statuses[KINDS] = {0, 0, 0, TUG_ERR_RANGE, TUG_ERR_INVALID, 0, TUG_ERR_RANGE};
    for (unsigned i = 0; i < KINDS + CALLS; i++) {
        assert_int_equal(records[i].completed, 1);
        assert_int_equal(records[i].status, i < KINDS ? statuses[i] : 0);
    }
    for (unsigned i = 0; i < 4000; i++)
        assert_int_equal(a->local.base[i], 0xB0);
    for (unsigned i = 0; i < LONG; i++) {
        assert_int_equal(a->local.base[(1 << 17) + i], 0xB0);
        assert_int_equal(b->remote.base[(1 << 19) + i], 0x0A);
    }
    assert_int_equal((unsigned char)old, 0xB0);
    for (unsigned i = 0; i <= CALLS; i++)
        for (unsigned j = 0; j < TUG_AM_MAX_PAYLOAD; j++)
            assert_int_equal(answers[i][j], 5);
}

static void ask_all(void) {
    struct record records[KINDS + CALLS];
    fake_begin(&fake_trailing, PACKET_BYTES, OPERATIONS, MEMORY);
    b->fabric.called = called;
    ncalls = 0;
    memset(answers, 0, sizeof(answers));
    post_all(records);
    go_on();
    assert_int_equal(ncalls, CALLS);
    unsigned char answer[TUG_AM_MAX_PAYLOAD];
    memset(answer, 5, sizeof(answer));
    counts = true;
    for (unsigned i = 0; i < CALLS; i++)
        tug_packets_reply(&b->packets, waiting[i], 0, answer, sizeof(answer));
    counts = false;
    go_on();
    check(records);
    uint64_t sum;
    memcpy(&sum, b->remote.base + 4096, 8);
    assert_int_equal(sum, old + 1);
    assert_int_equal(a->fabric.out, 0);
    assert_int_equal(b->packets.streams[0]->owed, 0);
    assert_false(tug_packets_busy(&b->packets));
    fake_end(NULL);
}

/* ---- tests ---- */

static void every_allocation_fails(int in_a_row) {
    int n = 0;
    do {
        nth = n;
        fails = in_a_row;
        failed = 0;
        ask_all();
    } while (failed > 0 && ++n < NTH_MOST);
    assert_in_range(n, 3, NTH_MOST - 1);
}

static void test_one_fails(void **state) {
    (void)state;
    every_allocation_fails(1);
}

static void test_some_fail(void **state) {
    (void)state;
    every_allocation_fails(10);
}

/* What was to be refused is, as soon as there is memory for that. */
static void test_refusal(void **state) {
    struct record record;
    (void)state;
    fake_begin(&fake_trailing, PACKET_BYTES, OPERATIONS, MEMORY);
    post(prepare(TUG_OPERATION_WRITE, 0, 8, &record));
    tug_packets_flush(&a->packets);
    a->out.queue[a->out.first]->memory[2] += 1; /* its number */
    nth = 0;
    fails = 5;
    go_on();
    assert_int_equal(fails, 0);
    assert_int_equal(record.completed, 1);
    assert_int_equal(record.status, TUG_ERR_PEER);
    assert_true(b->streams[0]->lost);
    fake_end(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_fails),
        cmocka_unit_test(test_some_fail),
        cmocka_unit_test(test_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
