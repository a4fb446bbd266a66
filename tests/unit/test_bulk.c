/* Large blocks by messages of their own, between two processes that are one: two fabrics, packets
 * that are carried when the test says so, and a host whose messages wait until they are matched,
 * as those do that go from memory to memory. Seen: what arrives, and that memory is its message's
 * until that has ended, at whatever step the two lose each other. */
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "tests/unit/joined_records.h"

#define OPERATIONS 64
#define BLOCK ((size_t)1 << 17)
#define PACKET_BYTES 4096
#define LETTERS 64
#define MESSAGES 64

/* ---- the host's messages ---- */

static struct message {
    bool used, receives, done, taken_back;
    int with; /* that other message, -1: none has been found */
    unsigned char *memory;
    size_t bytes;
    MPI_Comm comm; /* its process's */
    int tag;
} messages[MESSAGES];

static int post_message(bool receives, void *memory, MPI_Count bytes, int tag, MPI_Comm comm,
                        MPI_Request *request) {
    int i = 0;
    while (messages[i].used)
        i++;
    assert_true(i < MESSAGES);
    messages[i] =
        (struct message){true, receives, false, false, -1, memory, (size_t)bytes, comm, tag};
    *request = 1000 + i;
    for (int j = 0; j < MESSAGES; j++) {
        struct message *other = &messages[j];
        if (!other->used || other->with >= 0 || other->taken_back || other->receives == receives ||
            other->comm == comm || other->tag != tag)
            continue;
        messages[i].with = j;
        other->with = i;
        break;
    }
    return MPI_SUCCESS;
}

/* That process fetches what it receives. */
static void progress(MPI_Comm comm) {
    for (int i = 0; i < MESSAGES; i++) {
        struct message *to = &messages[i];
        if (!to->used || !to->receives || to->with < 0 || to->done || to->comm != comm)
            continue;
        struct message *from = &messages[to->with];
        memcpy(to->memory, from->memory, from->bytes < to->bytes ? from->bytes : to->bytes);
        to->done = from->done = true;
    }
}

static int fake_isend(const void *memory, MPI_Count bytes, MPI_Datatype type, int peer, int tag,
                      MPI_Comm comm, MPI_Request *request) {
    (void)type, (void)peer;
    return post_message(false, (void *)(uintptr_t)memory, bytes, tag, comm, request);
}

static int fake_irecv(void *memory, MPI_Count bytes, MPI_Datatype type, int peer, int tag,
                      MPI_Comm comm, MPI_Request *request) {
    (void)type, (void)peer;
    return post_message(true, memory, bytes, tag, comm, request);
}

static int fake_test(MPI_Request *request, int *flag, MPI_Status *status) {
    struct message *message = &messages[*request - 1000];
    assert_true(message->used);
    *flag = message->done || message->taken_back;
    if (!*flag)
        return MPI_SUCCESS;
    if (status != MPI_STATUS_IGNORE)
        status->MPI_TAG = message->taken_back;
    message->used = false;
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

static int fake_test_cancelled(const MPI_Status *status, int *flag) {
    *flag = status->MPI_TAG;
    return MPI_SUCCESS;
}

static int fake_cancel(MPI_Request *request) {
    struct message *message = &messages[*request - 1000];
    assert_true(message->used && message->receives); /* a send that has begun is not taken back */
    message->taken_back = message->with < 0;
    return MPI_SUCCESS;
}

static int fake_wait(MPI_Request *request, MPI_Status *status) {
    int flag = 0;
    (void)fake_test(request, &flag, status);
    assert_true(flag);
    return MPI_SUCCESS;
}

/* ---- two sides ---- */

struct side {
    struct tug_fabric fabric;
    struct tug_packets packets;
    struct tug_wire out;
    struct tug_stream *streams[2];
    struct {
        size_t bytes;
        uint64_t memory[PACKET_BYTES / 8];
    } queue[LETTERS];
    unsigned sent, taken;
    struct tug_registration memory;
} sides[2];

static bool fake_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct side *side = (struct side *)wire->fabric;
    (void)peer;
    assert_true(side->sent - side->taken < LETTERS);
    side->queue[side->sent % LETTERS].bytes = buffer->packet.used;
    memcpy(side->queue[side->sent++ % LETTERS].memory, buffer->memory, buffer->packet.used);
    tug_pool_give(&wire->pool, buffer);
    return true;
}

/* The host's messages have come this far; a packet, if there is one, goes to the other side. */
static void step(unsigned to) {
    struct side *from = &sides[!to];
    progress(sides[to].fabric.comm);
    if (from->taken < from->sent) {
        const unsigned at = from->taken++ % LETTERS;
        struct tug_wire *wire = &sides[to].out;
        wire->receive(wire->receiver, wire, from->queue[at].memory, from->queue[at].bytes);
    }
    (void)tug_packets_poll(&sides[to].packets);
}

static bool never_polls(void *state) {
    (void)state;
    return false;
}

static const struct tug_transport fake_type = {
    .name = "fake", .poll = never_polls, .send = fake_send, .blocks = true};

static int set_up(void **state) {
    (void)state;
    tug_host.Isend_c = fake_isend;
    tug_host.Irecv_c = fake_irecv;
    tug_host.Test = fake_test;
    tug_host.Test_cancelled = fake_test_cancelled;
    tug_host.Cancel = fake_cancel;
    tug_host.Wait = fake_wait;
    memset(sides, 0, sizeof(sides));
    for (uint32_t i = 0; i < 2; i++) {
        struct side *side = &sides[i];
        assert_true(joined_begin(&side->fabric, i, OPERATIONS));
        joined_by(&side->fabric, &side->packets, side->streams, &side->out, &fake_type,
                  PACKET_BYTES);
        side->fabric.comm = (MPI_Comm)(100 + i);
        joined_add_memory(&side->fabric, &side->memory, BLOCK, i == 0 ? 0xA0 : 0xB0);
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_null(sides[i].packets.bulk);
        tug_bulk_close(&sides[i].packets);
        joined_free_streams(sides[i].streams, &sides[i].out);
        joined_close(&sides[i].fabric, &sides[i].out);
        free(sides[i].memory.base);
    }
    for (int i = 0; i < MESSAGES; i++)
        assert_false(messages[i].used);
    return 0;
}

static void post(unsigned kind, struct record *record) {
    struct side *side = &sides[0];
    uint32_t tag = TUG_NO_TAG;
    assert_true(tug_tags_take(&side->fabric.tags, &tag));
    struct tug_operation *operation = &side->fabric.operations[tag];
    operation->kind = (uint8_t)kind;
    operation->peer = 1;
    operation->key = sides[1].memory.id;
    operation->offset = 0;
    operation->bytes = BLOCK;
    operation->local = side->memory.base;
    operation->status = 0;
    operation->scratch = 0;
    *record = (struct record){0, 0, 1};
    operation->on_complete = (struct tug_callback){on_complete, record};
    operation->on_local = (struct tug_callback){on_local, record};
    side->fabric.out++;
    tug_packets_post(&side->packets, operation);
    tug_packets_flush(&side->packets);
}

static bool is_read_or_written(const unsigned char *memory) {
    for (int i = 0; i < MESSAGES; i++)
        if (messages[i].used && !messages[i].done && !messages[i].taken_back &&
            messages[i].memory == memory)
            return true;
    return false;
}

/* ---- the cases ---- */

static void moves(unsigned kind) {
    struct record record;
    post(kind, &record);
    for (int i = 0; i < 20; i++)
        step((unsigned)i % 2);
    assert_int_equal(record.completed, 1);
    assert_int_equal(record.status, 0);
    assert_memory_equal(sides[0].memory.base, sides[1].memory.base, BLOCK);
    assert_int_equal(sides[0].memory.base[BLOCK - 1], kind == TUG_OPERATION_READ ? 0xB0 : 0xA0);
}

static void a_block_is_written(void **state) {
    (void)state;
    moves(TUG_OPERATION_WRITE);
}

static void a_block_is_read(void **state) {
    (void)state;
    moves(TUG_OPERATION_READ);
}

/* They lose each other after so many steps; who: is the first to notice. */
static void part_after(unsigned kind, int steps, unsigned who) {
    void *none = NULL;
    struct record record;
    assert_int_equal(set_up(&none), 0);
    post(kind, &record);
    for (int i = 0; i < steps; i++)
        step(!((unsigned)i % 2));
    const bool was_done = record.completed == 1;
    for (unsigned i = 0; i < 2; i++) {
        const unsigned loser = i == 0 ? who : !who;
        struct tug_stream *stream = tug_stream_to(&sides[loser].packets, !loser);
        assert_non_null(stream);
        tug_stream_lose(&sides[loser].packets, stream);
        sides[loser].taken = sides[loser].sent;
        /* memory that the host has still is not said to be free */
        for (int turn = 0; turn < 4; turn++) {
            assert_true(record.completed == 0 || !is_read_or_written(sides[0].memory.base));
            assert_true(sides[1].memory.serving > 0 || !is_read_or_written(sides[1].memory.base));
            step(loser);
        }
    }
    for (int i = 0; i < 20; i++)
        step((unsigned)i % 2);
    assert_int_equal(record.completed, 1);
    assert_int_equal(record.status, was_done ? 0 : TUG_ERR_PEER);
    assert_int_equal(sides[0].fabric.out, 0);
    assert_int_equal(sides[0].packets.bulk_out, 0);
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
        cmocka_unit_test_setup_teardown(a_block_is_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_block_is_read, set_up, tear_down),
        cmocka_unit_test(memory_is_its_messages),
    };
    return cmocka_run_group_tests_name("transport/bulk", cases, NULL, NULL);
}
