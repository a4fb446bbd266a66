/* Data of all sizes, and atomics. */
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"

static void sizes_of(enum tug_operation_kind kind) {
    run_one(kind, 0, 0, 0);
    const uint64_t limit = ORIGIN->verbs->pairs[0]->most_inline;
    const uint64_t most = ORIGIN->verbs->device.most_message;
    assert_true(limit >= 24);
    const uint64_t sizes[] = {
        0,    1,    7,     8,     9,     limit - 1, limit,          limit + 1, 4095,
        4096, 4097, 16383, 16384, 65537, 1u << 20,  (1u << 20) + 1, most,      most + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const uint64_t bytes = sizes[i];
        if (bytes + 64 > AREA)
            continue;
        unsigned char *from = kind == TUG_OPERATION_WRITE ? mine_memory : theirs_memory;
        unsigned char *to = kind == TUG_OPERATION_WRITE ? theirs_memory : mine_memory;
        from += kind == TUG_OPERATION_WRITE ? 3 : 17; /* not aligned */
        to += kind == TUG_OPERATION_WRITE ? 17 : 3;
        fill(from, bytes, (unsigned)i + 5);
        memset(to - 1, 0xa5, bytes + 2);
        run_one(kind, 17, 3, bytes);
        assert_filled(to, bytes, (unsigned)i + 5);
        assert_int_equal(to[-1], 0xa5);
        assert_int_equal(to[bytes], 0xa5);
    }
}

void data_write_sizes(void **state) {
    (void)state;
    sizes_of(TUG_OPERATION_WRITE);
}

void data_read_sizes(void **state) {
    (void)state;
    sizes_of(TUG_OPERATION_READ);
}

static void write_carried(unsigned base) {
    for (uint64_t bytes = 0; bytes <= TUG_OPERATION_INLINE; bytes++) {
        struct fake_end end;
        struct tug_operation *operation = fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs,
                                                         base + bytes * 32, NULL, 0, bytes, &end);
        fill(operation->data, bytes, (unsigned)bytes);
        fake_post(ORIGIN, operation);
        assert_true(fake_finish(60));
        assert_done(&end, 0);
        assert_int_equal(end.local, 1);
        assert_filled(theirs_memory + base + bytes * 32, bytes, (unsigned)bytes);
    }
}

/* Small data are copied into the operation, whether or not the device takes data inside requests.
 */
void data_carried(void **state) {
    (void)state;
    write_carried(0);
    ORIGIN->verbs->pairs[0]->most_inline = 0;
    write_carried(4096);
}

/* Memory that the program has registered, but not with the device. */
void data_not_registered(void **state) {
    (void)state;
    struct tug_registration refused = {.base = mine_memory, .bytes = 64, .id = UINT64_C(9) << 32};
    struct fake_end end;
    struct tug_operation *operation =
        fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 0, &refused, 0, 64, &end);
    assert_false(tug_transport_verbs.takes(ORIGIN->view, operation));
    fake_post(ORIGIN, operation);
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    assert_int_equal(ORIGIN->passed, 1);
}

/* Memory of any size that takes 64 MiB: these are mapped again and again. */
static unsigned char *folded(size_t bytes) {
    const size_t fold = 64u << 20;
    const int fd = memfd_create("folded", MFD_CLOEXEC);
    assert_true(fd >= 0 && ftruncate(fd, (off_t)fold) == 0);
    unsigned char *at = mmap(NULL, bytes + fold, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    for (size_t done = 0; done < bytes; done += fold)
        assert_true(mmap(at + done, fold, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
                    at + done);
    close(fd);
    return at;
}

/* Reads bytes at that offset of two blocks, length bytes each, in as many requests as it takes. */
static void read_pieces(uint64_t length, uint64_t offset, uint64_t bytes) {
    const size_t fold = 64u << 20;
    unsigned char *from = folded(length), *to = folded(length);
    fill(from, fold, 77);
    struct tug_registration *source = fake_register(TARGET, from, length);
    struct tug_registration *sink = fake_register(ORIGIN, to, length);
    struct fake_end end;
    fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_READ, source, offset, sink, offset,
                                     bytes, &end));
    assert_true(fake_finish(300));
    assert_done(&end, 0);
    const uint64_t most = ORIGIN->verbs->device.most_message;
    assert_int_equal(ORIGIN->verbs->posted, (bytes + most - 1) / most);
    assert_memory_equal(to + offset, from + offset, bytes < fold ? bytes : fold);
    fake_deregister(TARGET, source);
    fake_deregister(ORIGIN, sink);
}

/* On both sides of 2 GiB; an emulated device takes over a minute for 2 GiB themselves. */
void data_pieces(void **state) {
    (void)state;
    read_pieces((2ull << 30) + (16 << 20), (2ull << 30) - (9 << 20), (17 << 20) + 1);
}

void data_two_gib(void **state) {
    (void)state;
    read_pieces((2ull << 30) + 1, 0, (2ull << 30) + 1);
}

/* ---- atomics ---- */

void atomic_each(void **state) {
    (void)state;
    const uint64_t old = 0xf0f0123456789abcu, operand = 0xff00ff00ff00ff01u;
    const struct {
        enum tug_operation_kind kind;
        unsigned op;
        uint64_t compare, becomes;
    } cases[] = {
        {TUG_OPERATION_FETCH, TUG_ADD, 0, old + operand},
        {TUG_OPERATION_FETCH, TUG_AND, 0, old & operand},
        {TUG_OPERATION_FETCH, TUG_OR, 0, old | operand},
        {TUG_OPERATION_FETCH, TUG_XOR, 0, old ^ operand},
        {TUG_OPERATION_FETCH, TUG_SWAP, 0, operand},
        {TUG_OPERATION_FETCH, TUG_ATOMIC_BY_CARD, 0, old + operand},
        {TUG_OPERATION_FETCH, TUG_ATOMIC_LOADS, 0, old},
        {TUG_OPERATION_COMPARE, 0, old, operand},
        {TUG_OPERATION_COMPARE, TUG_ATOMIC_BY_CARD, old, operand},
        {TUG_OPERATION_COMPARE, 0, old + 1, old},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int with_result = 0; with_result < 2; with_result++) {
            struct fake_end end;
            uint64_t found, becomes;
            memcpy(theirs_memory + 64, &old, 8);
            memset(mine_memory, 0x5a, 64);
            /* the place of the result is not aligned */
            fake_post(ORIGIN,
                      make_atomic(ORIGIN, cases[i].kind, (uint8_t)cases[i].op, operand,
                                  cases[i].compare, 64, with_result ? mine : NULL, 3, &end));
            assert_true(fake_finish(60));
            assert_done(&end, 0);
            memcpy(&becomes, theirs_memory + 64, 8);
            assert_true(becomes == cases[i].becomes);
            memcpy(&found, mine_memory + 3, 8);
            assert_true(found == (with_result ? old : 0x5a5a5a5a5a5a5a5au));
        }
    }
}

void atomic_not_taken(void **state) {
    (void)state;
    struct tug_operation operation = {
        .kind = TUG_OPERATION_FETCH, .bytes = 8, .address = 64, .rkey = 1};
    assert_true(tug_transport_verbs.takes(ORIGIN->view, &operation));
    operation.bytes = 4;
    assert_false(tug_transport_verbs.takes(ORIGIN->view, &operation));
    operation.bytes = 8;
    operation.address = 68;
    assert_false(tug_transport_verbs.takes(ORIGIN->view, &operation));
    operation.address = 64;
    ORIGIN->fabric.device_atomics = false;
    assert_false(tug_transport_verbs.takes(ORIGIN->view, &operation));
    operation.op = TUG_ATOMIC_BY_CARD;
    assert_true(tug_transport_verbs.takes(ORIGIN->view, &operation));
    operation.kind = TUG_OPERATION_AM;
    assert_false(tug_transport_verbs.takes(ORIGIN->view, &operation));
}

/* 64 ors of one bit each, from both sides at once. An operation that finds n bits set was number n;
 * each number occurs once. */
void atomic_contended(void **state) {
    (void)state;
    struct fake_end ends[64];
    uint64_t seen = 0;
    memset(theirs_memory, 0, 8);
    for (unsigned i = 0; i < 64; i++) {
        struct fake *fake = &fakes[i % 2];
        fake_post(fake, make_atomic(fake, TUG_OPERATION_FETCH, TUG_OR, 1ull << i, 0, 0,
                                    i % 2 ? theirs : mine, 64 + i * 8, &ends[i]));
    }
    assert_true(fake_finish(120));
    for (unsigned i = 0; i < 64; i++) {
        uint64_t found;
        memcpy(&found, (i % 2 ? theirs_memory : mine_memory) + 64 + i * 8, 8);
        assert_done(&ends[i], 0);
        assert_false(found >> i & 1);
        seen |= 1ull << __builtin_popcountll(found);
    }
    assert_true(seen == UINT64_MAX);
    assert_memory_equal(theirs_memory, &(uint64_t){UINT64_MAX}, 8);
}

static int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static char fences[9]; /* of each request: F, or a dot */
static size_t nfences;

static int note_fences(struct ibv_qp *qp, struct ibv_send_wr *first, struct ibv_send_wr **bad) {
    for (const struct ibv_send_wr *request = first; request != NULL; request = request->next)
        if (nfences < sizeof fences - 1)
            fences[nfences++] = request->send_flags & IBV_SEND_FENCE ? 'F' : '.';
    return post_send(qp, first, bad);
}

/* An atomic waits for the loads before it, which may be executed once more; nothing else waits. */
void atomic_fenced(void **state) {
    (void)state;
    static const unsigned ops[] = {TUG_ATOMIC_BY_CARD, TUG_ATOMIC_BY_CARD, TUG_ATOMIC_LOADS,
                                   TUG_ATOMIC_LOADS,   TUG_ATOMIC_BY_CARD, TUG_ATOMIC_BY_CARD};
    struct ibv_context_ops *functions = &ORIGIN->verbs->device.context->ops;
    struct fake_end ends[6];
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    post_send = functions->post_send;
    functions->post_send = note_fences;
    memset(theirs_memory, 0, 8);
    for (unsigned i = 0; i < 6; i++)
        fake_post(ORIGIN, make_atomic(ORIGIN, TUG_OPERATION_FETCH, (uint8_t)ops[i], 1, 0, 0, mine,
                                      64 + i * 8, &ends[i]));
    assert_true(fake_finish(60));
    functions->post_send = post_send;
    assert_string_equal(fences, "....F.");
    for (unsigned i = 0; i < 6; i++) {
        const uint64_t adds_before = i < 2 ? i : i < 5 ? 2 : 3;
        assert_done(&ends[i], 0);
        assert_memory_equal(mine_memory + 64 + i * 8, &adds_before, 8);
    }
}
