/* The layer above the transport, played: it posts operations, is told of their ends, and takes
 * messages and calls. An operation completes once, and its memory is freed then. */
#include "engine/engine.h"
#include "played.h"

struct live live[OPERATIONS];
struct tug_operation operations[OPERATIONS];

/* ---- operations ---- */

static unsigned depth; /* completions that post, one inside another */

static void told_local(void *d, int status) {
    struct live *one = d;
    (void)status;
    REQUIRE(one->out && !one->local_told);
    one->local_told = true;
}

/* No packet that is still being sent may use the memory of an operation that is complete. */
static void check_no_trailer_uses(const struct live *one) {
    for (uint32_t peer = 0; peer < WORLD_RANKS && one->local != NULL; peer++) {
        const struct tug_buffer *buffer = peers[peer].partly_sent;
        REQUIRE(buffer == NULL || buffer->trailer < one->local ||
                buffer->trailer >= one->local + one->bytes);
    }
}

static void completed(void *d, int status) {
    struct live *one = d;
    REQUIRE(one->out);
    check_no_trailer_uses(one);
    REQUIRE(status <= 0 && status >= TUG_ERR_DEVICE);
    reached.completed++;
    reached.failed += status != 0;
    peers[one->peer].refused |= status == TUG_ERR_PEER;
    one->out = false;
    free(one->local);
    free(one->answer);
    one->local = one->answer = NULL;
    if (one->again && status == 0 && depth < 3) {
        depth++;
        post();
        depth--;
    }
}

static uint64_t take_size_of(unsigned kind) {
    const uint64_t bytes = take_size();
    if (kind == TUG_OPERATION_FETCH || kind == TUG_OPERATION_COMPARE)
        return bytes % 2 == 0 ? 8 : 4;
    if (kind == TUG_OPERATION_SIGNAL)
        return 8;
    if (kind == TUG_OPERATION_SIGNAL_AM)
        return bytes % (TUG_SIGNAL_MAX_PAYLOAD + 1);
    if (kind == TUG_OPERATION_LONG_AM)
        return bytes + TUG_OPERATION_INLINE + 1;
    if (kind >= TUG_OPERATION_AM && bytes > TUG_AM_MAX_PAYLOAD)
        return TUG_AM_MAX_PAYLOAD;
    return bytes;
}

/* Memory of its own for each operation: the address sanitizer knows its bounds and its end. */
static void give_memory(struct tug_operation *operation, struct live *one) {
    one->local = malloc(operation->bytes);
    REQUIRE(one->local != NULL || operation->bytes == 0);
    if (operation->bytes > 0)
        one->local[0] = one->local[operation->bytes - 1] = 0x11;
    operation->local = one->local;
}

static void give_answer_memory(struct tug_operation *operation, struct live *one, size_t bytes) {
    operation->offset = bytes;
    one->answer = malloc(bytes);
    REQUIRE(one->answer != NULL || bytes == 0);
    operation->address = (uint64_t)(uintptr_t)one->answer;
}

/* Small data travel in the operation. */
static void fill_in_source(struct tug_operation *operation, struct live *one) {
    operation->on_local = (struct tug_callback){told_local, one};
    if (operation->bytes <= TUG_OPERATION_INLINE) {
        memcpy(operation->data, one->local, operation->bytes);
        operation->local = NULL;
    }
}

void post(void) {
    uint32_t tag;
    if (!tug_tags_take(&fabric.tags, &tag))
        return;
    struct tug_operation *operation = &operations[tag];
    struct live *one = &live[tag];
    const unsigned choice = take();
    const unsigned kind = TUG_OPERATION_READ + choice % 9;
    REQUIRE(!one->out);
    *one = (struct live){.out = true, .again = choice >> 7};
    *operation = (struct tug_operation){.key = world_id(choice % 4),
                                        .op = kind == TUG_OPERATION_FETCH   ? choice / 5 % 5
                                              : kind == TUG_OPERATION_WRITE ? choice >> 5 & 3
                                                                            : 0,
                                        .rkey = choice >> 5 & 1, /* of signals: are they late? */
                                        .on_complete = {completed, one}};
    one->peer = operation->peer = take() % WORLD_RANKS;
    one->bytes = operation->bytes = take_size_of(kind);
    operation->offset =
        kind == TUG_OPERATION_LONG_AM ? 1 + take() % TUG_ELEMENT_MOST : (uint64_t)take();
    give_memory(operation, one);
    if (kind == TUG_OPERATION_CALL)
        give_answer_memory(operation, one, choice % 64);
    if (kind == TUG_OPERATION_WRITE || kind >= TUG_OPERATION_AM)
        fill_in_source(operation, one);
    else if (kind != TUG_OPERATION_READ && choice & 64)
        operation->local = NULL; /* nobody wants the old value */
    if (kind == TUG_OPERATION_FETCH || kind == TUG_OPERATION_COMPARE ||
        kind == TUG_OPERATION_SIGNAL || kind == TUG_OPERATION_LONG_AM)
        operation->operand = operation->compare = choice;
    operation->kind = (uint8_t)kind;
    fabric.out++;
    tug_packets_post(fabric.packets, operation);
}

/* ---- operations that only count ---- */

static void count_many(void *d, uint64_t n) {
    struct peer *peer = d;
    REQUIRE(n <= peer->uncounted);
    peer->uncounted -= n;
    reached.completed += n;
}

static void count_one(void *d, int status) {
    struct peer *peer = d;
    REQUIRE(status <= 0 && status >= TUG_ERR_DEVICE);
    count_many(peer, 1);
    reached.failed += status != 0;
    peer->refused |= status == TUG_ERR_PEER;
}

/* By the short way if the transport takes it, else as an operation with a tag. */
static void post_one_counting(const struct tug_operation *like) {
    uint32_t tag;
    struct peer *peer = &peers[like->peer];
    peer->uncounted++;
    unsigned char one[sizeof(uint32_t) + TUG_OPERATION_INLINE] = {0}; /* at no distance */
    memcpy(one + sizeof(uint32_t), like->data, TUG_OPERATION_INLINE);
    if (like->kind == TUG_OPERATION_WRITE &&
        tug_packets_write_run(fabric.packets, like->peer, like->key, like->offset, one, 1,
                              like->bytes, peer) == 1)
        return;
    if (like->kind == TUG_OPERATION_AM &&
        tug_packets_message_on(fabric.packets, like->peer, like->op, like->data, like->bytes, peer))
        return;
    if (!tug_tags_take(&fabric.tags, &tag)) {
        peer->uncounted--;
        return;
    }
    REQUIRE(!live[tag].out);
    operations[tag] = *like;
    operations[tag].on_complete = (struct tug_callback){count_one, peer};
    fabric.out++;
    tug_packets_post(fabric.packets, &operations[tag]);
}

void post_counting(void) {
    const unsigned choice = take();
    struct tug_operation like = {.kind = choice & 64 ? TUG_OPERATION_AM : TUG_OPERATION_WRITE,
                                 .key = world_id(choice % 4)};
    like.peer = take() % WORLD_RANKS;
    like.bytes = take() % (TUG_OPERATION_INLINE + 1);
    for (unsigned i = choice % 32; i > 0; i--) {
        like.offset = take();
        post_one_counting(&like);
    }
}

/* ---- messages and calls that come ---- */

static unsigned sum_of(const void *data, size_t bytes) {
    unsigned sum = 0;
    for (size_t i = 0; i < bytes; i++)
        sum += ((const unsigned char *)data)[i];
    return sum;
}

static int deliver(struct tug_fabric *of, uint32_t source, unsigned handler, const void *payloads,
                   size_t bytes, size_t n) {
    REQUIRE(of == &fabric && source < WORLD_RANKS && handler < TUG_AM_HANDLERS);
    REQUIRE(bytes <= TUG_AM_MAX_PAYLOAD && (n == 1 || (bytes % 8 == 0 && bytes > 0)));
    reached.messages += n;
    return sum_of(payloads, bytes * n) % 5 == 4 ? TUG_ERR_INVALID : 0;
}

/* Elements of some bytes, or an error, or one that takes too little. */
static int64_t deliver_part(struct tug_fabric *of, uint32_t source, unsigned handler,
                            const uint64_t head[2], uint64_t position, const void *data,
                            size_t bytes) {
    REQUIRE(of == &fabric && source < WORLD_RANKS && handler < 256);
    reached.messages += sum_of(data, bytes) + head[0] + head[1] + position > 0;
    if (handler % 8 == 7)
        return handler < 128 ? TUG_ERR_INVALID : (int64_t)(bytes / 2);
    return (int64_t)(bytes - bytes % (1 + handler % 64));
}

/* Calls that have come and are answered later. */
static struct tug_caller waiting[8];
static unsigned nwaiting;

static void answer_waiting(void) {
    static const unsigned char answer[TUG_AM_MAX_PAYLOAD];
    while (nwaiting > 0)
        tug_packets_reply(fabric.packets, waiting[--nwaiting], 0, answer,
                          take_size() % (TUG_AM_MAX_PAYLOAD + 1));
}

static int called(struct tug_fabric *of, struct tug_caller caller, unsigned handler,
                  const void *payload, size_t bytes) {
    if (deliver(of, (uint32_t)caller.process, handler, payload, bytes, 1) != 0)
        return TUG_ERR_INVALID;
    waiting[nwaiting++] = caller;
    if (handler % 2 == 0 || nwaiting == 8)
        answer_waiting();
    return 0;
}

/* A transport of another kind, to which messages can come, and one that takes none. */
static void take_control(void *state, uint32_t peer, const void *data, size_t bytes) {
    REQUIRE(state == &reached && peer < WORLD_RANKS);
    reached.messages += bytes > 0 || sum_of(data, bytes) > 0;
}

const struct tug_transport tug_transport_verbs = {.name = "played", .control = take_control};
const struct tug_transport tug_transport_self, tug_transport_mapped, tug_transport_cma;

/* No wire is a view of an endpoint, so nobody leaves one. */
void tug_engine_call(void (*function)(void *), void *argument) {
    (void)function, (void)argument;
    abort();
}

void above_reset(struct tug_fabric *of) {
    memset(live, 0, sizeof(live));
    memset(operations, 0, sizeof(operations));
    nwaiting = 0;
    of->operations = operations;
    of->noperations = OPERATIONS;
    of->deliver = deliver;
    of->deliver_part = deliver_part;
    of->called = called;
    of->counter = count_one;
    of->count = count_many;
}
