/* The verbs transport on a real device (Soft-RoCE will do), between two fabrics of one process.
 *
 * Usage: test_verbs [CASE]; test_verbs -l lists the cases. Looks inside the transport where a claim
 * is about the inside: how many chains, which pairs, how full. */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../unit/check.h"
#include "base/clock.h"
#include "fake.h"

#define ORIGIN (&fakes[0])
#define TARGET (&fakes[1])

/* Memory of both, registered: `mine` at rank 0, `theirs` at rank 1. */
#define AREA (32u << 20)
static unsigned char *mine_memory, *theirs_memory;
static struct tug_registration *mine, *theirs;

static unsigned char pattern(size_t i, unsigned seed) {
    return (unsigned char)(i * 7 + (i >> 8) * 13 + (i >> 16) * 31 + seed);
}

static void fill(unsigned char *at, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++)
        at[i] = pattern(i, seed);
}

static void assert_filled(const unsigned char *at, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != pattern(i, seed))
            fail_msg("byte %zu of %zu is %u, not %u", i, bytes, at[i], pattern(i, seed));
}

static void *memory(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    return at;
}

static int set_up(void **state) {
    (void)state;
    fake_hold = false;
    fake_open();
    mine_memory = memory(AREA);
    theirs_memory = memory(AREA);
    mine = fake_register(ORIGIN, mine_memory, AREA);
    theirs = fake_register(TARGET, theirs_memory, AREA);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fake_deregister(ORIGIN, mine);
    fake_deregister(TARGET, theirs);
    munmap(mine_memory, AREA);
    munmap(theirs_memory, AREA);
    fake_close();
    return 0;
}

static void assert_done(const struct fake_end *end, int status) {
    assert_int_equal(end->complete, 1);
    assert_int_equal(end->status, status);
}

/* One operation of rank 0, alone. */
static void one(enum tug_operation_kind kind, uint64_t offset, uint64_t local_offset,
                uint64_t bytes) {
    struct fake_end end;
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, kind, theirs, offset, mine, local_offset, bytes, &end));
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    assert_int_equal(end.local, kind == TUG_OPERATION_WRITE);
}

/* ---- device ---- */

static void device_opens(void **state) {
    (void)state;
    char reason[256] = "";
    assert_false(tug_transport_verbs.missing(reason));
    const struct tug_verbs_device *device = &ORIGIN->verbs->device;
    printf("%s port %u, GID %u, MTU %u, %u bytes a message, %u reads, completion queue of %u\n",
           device->name, device->port, device->gid_index, device->mtu, device->most_message,
           device->reads, ORIGIN->verbs->cq_size);
    assert_true(device->atomics);
    if (device->link_layer == IBV_LINK_LAYER_ETHERNET) {
        assert_int_equal(device->gid.raw[10], 0xff); /* that of the IPv4 address */
        assert_int_equal(device->gid.raw[11], 0xff);
    }
    assert_int_equal(ORIGIN->verbs->npairs, 0);
    assert_false(ORIGIN->verbs->watcher.runs);
}

static void with_device(const char *name, bool there) {
    char reason[256] = "";
    setenv("TUGBOAT_VERBS_DEVICE", name, 1);
    tug_settings_reset();
    assert_int_equal(tug_settings_load(NULL, 0), 0);
    assert_int_equal(tug_transport_verbs.missing(reason), !there);
    if (!there)
        assert_non_null(strstr(reason, "device0"));
    unsetenv("TUGBOAT_VERBS_DEVICE");
    tug_settings_reset();
}

static void device_named(void **state) {
    (void)state;
    char name[128];
    with_device("nodevice0", false);
    snprintf(name, sizeof name, "%s", ORIGIN->verbs->device.name);
    with_device(name, true);
    snprintf(name, sizeof name, "%s:%u", ORIGIN->verbs->device.name, ORIGIN->verbs->device.port);
    with_device(name, true);
    char reason[256] = "";
    snprintf(name, sizeof name, "%s:200", ORIGIN->verbs->device.name);
    setenv("TUGBOAT_VERBS_DEVICE", name, 1);
    assert_int_equal(tug_settings_load(NULL, 0), 0);
    assert_true(tug_transport_verbs.missing(reason));
    assert_non_null(strstr(reason, "port"));
}

/* ---- pairs ---- */

static void pair_first_use(void **state) {
    (void)state;
    one(TUG_OPERATION_WRITE, 0, 0, 8);
    assert_int_equal(ORIGIN->verbs->npairs, 1);
    assert_int_equal(TARGET->verbs->npairs, 1);
    assert_non_null(ORIGIN->verbs->pairs[0]->sender);
    assert_null(ORIGIN->verbs->pairs[0]->server);
    assert_null(TARGET->verbs->pairs[0]->sender);
    assert_non_null(TARGET->verbs->pairs[0]->server);
    one(TUG_OPERATION_READ, 0, 0, 8);
    assert_int_equal(ORIGIN->verbs->npairs, 1);
    assert_int_equal(ORIGIN->verbs->numbers, 1);
}

static void pair_both_at_once(void **state) {
    (void)state;
    struct fake_end ends[2];
    fill(mine_memory, 100, 1);
    fill(theirs_memory, 100, 2);
    fake_hold = true;
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 1000, mine, 0, 100, &ends[0]));
    fake_post(TARGET,
              fake_operation(TARGET, 0, TUG_OPERATION_WRITE, mine, 1000, theirs, 0, 100, &ends[1]));
    fake_flush(ORIGIN);
    fake_flush(TARGET);
    assert_int_equal(fake_queued, 2);
    fake_round();
    assert_int_equal(ends[0].complete, 0);
    fake_hold = false;
    assert_true(fake_finish(60));
    assert_done(&ends[0], 0);
    assert_done(&ends[1], 0);
    assert_filled(theirs_memory + 1000, 100, 1);
    assert_filled(mine_memory + 1000, 100, 2);
}

static void pair_self(void **state) {
    (void)state;
    struct fake_end end;
    fill(mine_memory, 5000, 3);
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 0, TUG_OPERATION_WRITE, mine, 10000, mine, 0, 5000, &end));
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    assert_filled(mine_memory + 10000, 5000, 3);
    assert_int_equal(fake_queued, 0);
}

static void pair_foreign_messages(void **state) {
    (void)state;
    unsigned char garbage[TUG_CONTROL_MAX];
    for (unsigned round = 0; round < 300; round++) {
        fill(garbage, sizeof garbage, round);
        tug_transport_verbs.control(ORIGIN->verbs, round % 3, garbage, round % sizeof garbage);
        /* an answer that nobody waits for */
        memset(garbage, 0, 36);
        memcpy(garbage, (uint16_t[]){0x5456}, 2);
        garbage[2] = 1;
        garbage[3] = (unsigned char)(round % 5);
        if (garbage[3] != 1)
            tug_transport_verbs.control(ORIGIN->verbs, 1, garbage, 36);
    }
    fill(mine_memory, 64, 4);
    one(TUG_OPERATION_WRITE, 64, 0, 64);
    assert_filled(theirs_memory + 64, 64, 4);
}

/* ---- data ---- */

static void sizes_of(enum tug_operation_kind kind) {
    one(kind, 0, 0, 0);
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
        from += kind == TUG_OPERATION_WRITE ? 3 : 17; /* nothing needs to be aligned */
        to += kind == TUG_OPERATION_WRITE ? 17 : 3;
        fill(from, bytes, (unsigned)i + 5);
        memset(to - 1, 0xa5, bytes + 2);
        one(kind, 17, 3, bytes);
        assert_filled(to, bytes, (unsigned)i + 5);
        assert_int_equal(to[-1], 0xa5);
        assert_int_equal(to[bytes], 0xa5);
    }
}

static void data_write_sizes(void **state) {
    (void)state;
    sizes_of(TUG_OPERATION_WRITE);
}

static void data_read_sizes(void **state) {
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

/* Small data travel in the operation, whether or not the device takes data in requests. */
static void data_carried(void **state) {
    (void)state;
    write_carried(0);
    ORIGIN->verbs->pairs[0]->most_inline = 0;
    write_carried(4096);
}

static void data_not_registered(void **state) {
    (void)state;
    struct tug_registration nowhere = {.base = mine_memory, .bytes = 64};
    struct fake_end end;
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 0, &nowhere, 0, 64, &end));
    assert_true(fake_finish(60));
    assert_done(&end, TUG_ERR_INVALID);
}

/* More than 2 GiB in one operation: memory of that size, of which 64 MiB are there. */
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

static void data_two_gib(void **state) {
    (void)state;
    const uint64_t bytes = (2ull << 30) + 1;
    unsigned char *from = folded(bytes), *to = folded(bytes);
    fill(from, 64u << 20, 77);
    struct tug_registration *source = fake_register(TARGET, from, bytes);
    struct tug_registration *sink = fake_register(ORIGIN, to, bytes);
    struct fake_end end;
    const uint64_t before = tug_clock_ns();
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, TUG_OPERATION_READ, source, 0, sink, 0, bytes, &end));
    assert_true(fake_finish(300));
    printf("%.1f s\n", (double)(tug_clock_ns() - before) / 1e9);
    assert_done(&end, 0);
    const uint64_t most = ORIGIN->verbs->device.most_message;
    assert_int_equal(ORIGIN->verbs->posted, (bytes + most - 1) / most);
    assert_filled(to, 64u << 20, 77);
    fake_deregister(TARGET, source);
    fake_deregister(ORIGIN, sink);
}

/* ---- atomics ---- */

static struct tug_operation *atomic(struct fake *fake, enum tug_operation_kind kind, uint8_t op,
                                    uint64_t operand, uint64_t compare, uint64_t offset,
                                    struct tug_registration *result, uint64_t result_offset,
                                    struct fake_end *end) {
    struct tug_operation *operation =
        fake_operation(fake, 1, kind, theirs, offset, result, result_offset, 8, end);
    operation->op = op;
    operation->operand = operand;
    operation->compare = compare;
    assert_true(tug_transport_verbs.takes(fake->verbs, operation));
    return operation;
}

static void atomic_each(void **state) {
    (void)state;
    const uint64_t old = 0xf0f0123456789abcu, operand = 0xff00ff00ff00ff01u;
    const struct {
        enum tug_operation_kind kind;
        enum tug_atomic_op op;
        uint64_t compare, becomes;
    } cases[] = {
        {TUG_OPERATION_FETCH, TUG_ADD, 0, old + operand},
        {TUG_OPERATION_FETCH, TUG_AND, 0, old & operand},
        {TUG_OPERATION_FETCH, TUG_OR, 0, old | operand},
        {TUG_OPERATION_FETCH, TUG_XOR, 0, old ^ operand},
        {TUG_OPERATION_FETCH, TUG_SWAP, 0, operand},
        {TUG_OPERATION_COMPARE, 0, old, operand},
        {TUG_OPERATION_COMPARE, 0, old + 1, old},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int with_result = 0; with_result < 2; with_result++) {
            struct fake_end end;
            uint64_t found, becomes;
            memcpy(theirs_memory + 64, &old, 8);
            memset(mine_memory, 0x5a, 64);
            /* the result may stand anywhere */
            fake_post(ORIGIN, atomic(ORIGIN, cases[i].kind, (uint8_t)cases[i].op, operand,
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

static void atomic_not_taken(void **state) {
    (void)state;
    struct tug_operation operation = {
        .kind = TUG_OPERATION_FETCH, .bytes = 8, .address = 64, .rkey = 1};
    assert_true(tug_transport_verbs.takes(ORIGIN->verbs, &operation));
    operation.bytes = 4;
    assert_false(tug_transport_verbs.takes(ORIGIN->verbs, &operation));
    operation.bytes = 8;
    operation.address = 68;
    assert_false(tug_transport_verbs.takes(ORIGIN->verbs, &operation));
    operation.address = 64;
    ORIGIN->fabric.device_atomics = false;
    assert_false(tug_transport_verbs.takes(ORIGIN->verbs, &operation));
    operation.kind = TUG_OPERATION_AM;
    assert_false(tug_transport_verbs.takes(ORIGIN->verbs, &operation));
}

/* 64 ors of one bit each, from both sides at once: whoever finds n bits set was number n. */
static void atomic_contended(void **state) {
    (void)state;
    struct fake_end ends[64];
    uint64_t seen = 0;
    memset(theirs_memory, 0, 8);
    for (unsigned i = 0; i < 64; i++) {
        struct fake *fake = &fakes[i % 2];
        fake_post(fake, atomic(fake, TUG_OPERATION_FETCH, TUG_OR, 1ull << i, 0, 0,
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

/* ---- chains ---- */

/* Writes that do not go on where the last one ended. */
static void chain_of(unsigned n, unsigned first) {
    for (unsigned i = 0; i < n; i++) {
        struct tug_operation *operation = fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs,
                                                         (first + i) * 16, NULL, 0, 8, NULL);
        memcpy(operation->data, &(uint64_t){first + i}, 8);
        fake_post(ORIGIN, operation);
    }
}

static void assert_chain(unsigned n) {
    for (unsigned i = 0; i < n; i++)
        assert_memory_equal(theirs_memory + i * 16, &(uint64_t){i}, 8);
}

static void chain_one_post(void **state) {
    (void)state;
    one(TUG_OPERATION_WRITE, 0, 0, 8);
    const uint64_t chains = ORIGIN->verbs->chains, posted = ORIGIN->verbs->posted;
    chain_of(TUG_VERBS_DEPTH, 0);
    assert_int_equal(ORIGIN->verbs->posted, posted);
    fake_flush(ORIGIN);
    assert_int_equal(ORIGIN->verbs->chains, chains + 1);
    assert_int_equal(ORIGIN->verbs->posted, posted + TUG_VERBS_DEPTH);
    assert_true(fake_finish(60));
    assert_int_equal(ORIGIN->verbs->chains, chains + 1);
    assert_chain(TUG_VERBS_DEPTH);
}

/* While the peer has work of ours few small operations wait for the next poll; many, or a large
 * one, do not. */
static void chain_waits(void **state) {
    (void)state;
    const struct tug_verbs *verbs = ORIGIN->verbs;
    one(TUG_OPERATION_WRITE, 0, 0, 8);
    uint64_t posted = verbs->posted;
    chain_of(1, 0);
    fake_flush(ORIGIN);
    assert_int_equal(verbs->posted, posted + 1);
    chain_of(5, 1);
    fake_flush(ORIGIN);
    assert_int_equal(verbs->posted, posted + 1);
    assert_false(tug_transport_verbs.arm(ORIGIN->verbs));
    tug_transport_verbs.poll(ORIGIN->verbs);
    assert_int_equal(verbs->posted, posted + 6);
    chain_of(TUG_VERBS_SIGNAL - 1, 6);
    fake_flush(ORIGIN);
    assert_int_equal(verbs->posted, posted + 6);
    chain_of(1, 5 + TUG_VERBS_SIGNAL);
    fake_flush(ORIGIN);
    assert_int_equal(verbs->posted, posted + 6 + TUG_VERBS_SIGNAL);
    assert_true(fake_finish(60));
    assert_chain(6 + TUG_VERBS_SIGNAL);
    posted = verbs->posted;
    chain_of(1, 0);
    fake_flush(ORIGIN);
    fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 1u << 20, mine, 0,
                                     1u << 20, NULL));
    fake_flush(ORIGIN);
    assert_int_equal(verbs->posted, posted + 2);
    assert_true(fake_finish(60));
    assert_int_equal(verbs->pairs[0]->waiting, 0);
}

static void chain_off(void **state) {
    (void)state;
    tug_settings.aggregate = false;
    one(TUG_OPERATION_WRITE, 0, 0, 8);
    const uint64_t chains = ORIGIN->verbs->chains;
    chain_of(100, 0);
    assert_true(fake_finish(60));
    assert_int_equal(ORIGIN->verbs->chains, chains + 100);
    assert_chain(100);
    tug_settings.aggregate = true;
}

/* Far more than the sender is deep. */
static void chain_overflow(void **state) {
    (void)state;
    chain_of(FAKE_OPERATIONS, 0);
    fake_flush(ORIGIN);
    while (tug_transport_verbs.busy(ORIGIN->verbs)) {
        fake_round();
        const struct tug_verbs_pair *pair = ORIGIN->verbs->pairs[0];
        assert_true(pair->sent - pair->done <= TUG_VERBS_DEPTH);
    }
    assert_chain(FAKE_OPERATIONS);
    assert_int_equal(ORIGIN->verbs->cq_room, ORIGIN->verbs->cq_size);
}

/* The completion queue is almost full of what might come: one request at a time. */
static void chain_narrow_queue(void **state) {
    (void)state;
    ORIGIN->verbs->cq_room = ORIGIN->verbs->cq_size = 1;
    chain_of(50, 0);
    chain_of(50, 50);
    struct fake_end end;
    fake_post(ORIGIN, fake_operation(ORIGIN, 0, TUG_OPERATION_WRITE, mine, 64, mine, 0, 8, &end));
    assert_true(fake_finish(60));
    assert_chain(100);
    assert_done(&end, 0);
    assert_int_equal(ORIGIN->verbs->cq_room, 1);
}

/* Small operations behind and before large ones: all are right, and small ones before a large one
 * are not told late. */
static void chain_mixed(void **state) {
    (void)state;
    enum { N = 40 };
    struct fake_end ends[N];
    fill(mine_memory, 4u << 20, 9);
    one(TUG_OPERATION_WRITE, 0, 0, 8);
    for (unsigned i = 0; i < N; i++) {
        const uint64_t bytes = i % 5 == 4 ? 300000 : 40;
        fake_post(ORIGIN,
                  fake_operation(ORIGIN, 1, i % 3 ? TUG_OPERATION_WRITE : TUG_OPERATION_READ,
                                 theirs, i * 400000, mine, i * 400000, bytes, &ends[i]));
    }
    fake_flush(ORIGIN);
    while (ends[4].complete == 0)
        fake_round();
    for (unsigned i = 0; i < 4; i++)
        assert_done(&ends[i], 0);
    assert_true(fake_finish(60));
    for (unsigned i = 0; i < N; i++) {
        assert_done(&ends[i], 0);
        assert_memory_equal(theirs_memory + i * 400000, mine_memory + i * 400000,
                            i % 5 == 4 ? 300000 : 40);
    }
}

/* Small writes that go on where the last one ended become one request. */
static void chain_joined(void **state) {
    (void)state;
    enum { N = 64 };
    struct fake_end ends[N];
    fill(mine_memory, AREA / 2, 15);
    one(TUG_OPERATION_WRITE, 0, 0, 8);
    for (unsigned bytes = 1; bytes <= 40; bytes += 3) {
        const uint64_t posted = ORIGIN->verbs->posted;
        memset(theirs_memory, 0, (size_t)N * bytes + 1);
        for (unsigned i = 0; i < N; i++)
            fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, i * bytes,
                                             mine, i * bytes, bytes, &ends[i]));
        assert_true(fake_finish(60));
        const unsigned together = TUG_VERBS_INLINE / bytes;
        assert_int_equal(ORIGIN->verbs->posted - posted, (N + together - 1) / together);
        for (unsigned i = 0; i < N; i++) {
            assert_done(&ends[i], 0);
            assert_int_equal(ends[i].local, 1);
        }
        assert_filled(theirs_memory, (size_t)N * bytes, 15);
        assert_int_equal(theirs_memory[N * bytes], 0);
    }
    /* not over a gap, nor of two registrations, nor with others between */
    struct tug_registration alias = *theirs;
    const uint64_t posted = ORIGIN->verbs->posted;
    const unsigned at[] = {0, 9, 17, 24, 32, 39, 47};
    for (unsigned i = 0; i < 7; i++)
        fake_post(ORIGIN,
                  fake_operation(ORIGIN, 1, i == 4 ? TUG_OPERATION_READ : TUG_OPERATION_WRITE,
                                 i == 2 ? &alias : theirs, at[i], mine, 64 + at[i], 8, &ends[i]));
    assert_true(fake_finish(60));
    assert_int_equal(ORIGIN->verbs->posted - posted, 5);
}

struct relay {
    unsigned left;
};

static void relay_next(void *d, int status) {
    struct relay *relay = d;
    assert_int_equal(status, 0);
    if (relay->left-- == 0)
        return;
    struct tug_operation *operation =
        fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, relay->left * 16, NULL, 0, 8, NULL);
    memcpy(operation->data, &(uint64_t){relay->left}, 8);
    operation->on_complete = (struct tug_callback){relay_next, relay};
    fake_post(ORIGIN, operation);
    if (relay->left % 2)
        fake_flush(ORIGIN);
    assert_true(ORIGIN->verbs->pairs[0]->waiting <= 4);
}

/* Callbacks post, and the batch may end inside of them. */
static void chain_from_callbacks(void **state) {
    (void)state;
    struct relay relays[4];
    for (int i = 0; i < 4; i++) {
        relays[i].left = 100;
        relay_next(&relays[i], 0);
    }
    assert_true(fake_finish(60));
    assert_chain(100);
}

static void local_posts(void *d, int status) {
    assert_int_equal(status, 0);
    chain_of(20, 20);
    fake_flush(ORIGIN);
    ++*(int *)d;
}

static void chain_from_on_local(void **state) {
    (void)state;
    int told = 0;
    one(TUG_OPERATION_WRITE, 0, 0, 8);
    chain_of(20, 0);
    struct tug_operation *operation =
        fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 40 * 16, NULL, 0, 8, NULL);
    memcpy(operation->data, &(uint64_t){40}, 8);
    operation->on_local = (struct tug_callback){local_posts, &told};
    fake_post(ORIGIN, operation);
    assert_true(fake_finish(60));
    assert_int_equal(told, 1);
    assert_chain(41);
}

/* ---- registered memory ---- */

/* A write by what was remembered of a registration that has ended: refused, and nothing happened.
 */
static void assert_refused(const struct tug_registration *remembered, const unsigned char *there) {
    struct fake_end end;
    unsigned char before[64];
    memcpy(before, there, sizeof before);
    fill(mine_memory, sizeof before, there[0] + 1u);
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, (struct tug_registration *)remembered,
                             0, mine, 0, sizeof before, &end));
    assert_true(fake_finish(60));
    assert_memory_equal(there, before, sizeof before);
    assert_done(&end, TUG_ERR_KEY);
}

/* Registrations inside one another: each ends for itself. */
static void memory_inside(void **state) {
    (void)state;
    struct tug_registration *inside = fake_register(TARGET, theirs_memory + 4096, 100);
    struct tug_registration *same = fake_register(TARGET, theirs_memory, AREA);
    const struct tug_registration was_inside = *inside, was_same = *same;
    fake_deregister(TARGET, inside);
    assert_refused(&was_inside, theirs_memory + 4096);
    fake_deregister(TARGET, same);
    assert_refused(&was_same, theirs_memory);
    fill(mine_memory, 64, 11);
    one(TUG_OPERATION_WRITE, 4096, 0, 64);
    assert_filled(theirs_memory + 4096, 64, 11);
}

/* A device may call the next registration of the same memory what it called the last. */
static void memory_named_again(void **state) {
    (void)state;
    struct tug_registration *first = fake_register(TARGET, theirs_memory + 8192, 4096);
    struct tug_registration was_first = *first;
    fake_deregister(TARGET, first);
    struct tug_registration *second = fake_register(TARGET, theirs_memory + 4096, 16384);
    was_first.rkey = second->rkey;
    assert_refused(&was_first, theirs_memory + 8192);
    struct fake_end end;
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, second, 4096, mine, 0, 64, &end));
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    assert_memory_equal(theirs_memory + 8192, mine_memory, 64);
    fake_deregister(TARGET, second);
}

static void memory_empty(void **state) {
    (void)state;
    struct tug_registration *empty = fake_register(TARGET, theirs_memory, 0);
    struct fake_end end;
    fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_READ, empty, 0, mine, 0, 0, &end));
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    fake_deregister(TARGET, empty);
}

static void memory_ended(void **state) {
    (void)state;
    unsigned char *elsewhere = memory(8192);
    struct tug_registration *brief = fake_register(TARGET, elsewhere, 8192);
    struct tug_registration kept = *brief;
    struct fake_end end;
    fake_deregister(TARGET, brief);
    fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, &kept, 0, mine, 0, 64, &end));
    assert_true(fake_finish(60));
    assert_done(&end, TUG_ERR_KEY);
    one(TUG_OPERATION_WRITE, 0, 0, 64);
}

static void *register_often(void *argument) {
    const size_t shift = (size_t)argument * 4096;
    for (int i = 0; i < 100; i++) {
        struct tug_registration registration = {.base = mine_memory + shift + i * 64,
                                                .bytes = 20000};
        struct tug_registration own = {.base = argument == NULL ? theirs_memory : mine_memory,
                                       .bytes = 100};
        if (tug_transport_verbs.register_memory(ORIGIN->verbs, &registration) != 0 ||
            tug_transport_verbs.register_memory(ORIGIN->verbs, &own) != 0)
            return (void *)1;
        tug_transport_verbs.deregister_memory(ORIGIN->verbs, &registration);
        tug_transport_verbs.deregister_memory(ORIGIN->verbs, &own);
    }
    return NULL;
}

static void memory_threads(void **state) {
    (void)state;
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, register_often, (void *)i), 0);
    for (size_t i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    one(TUG_OPERATION_WRITE, 0, 0, 64);
}

/* ---- errors ---- */

/* One operation with a bad key among many: it fails alone, all others happen exactly once. */
static void bad_key_at(unsigned where, uint64_t bad_bytes, bool warm) {
    enum { N = 150 };
    struct fake_end ends[N];
    struct tug_registration nobody = *theirs;
    nobody.rkey ^= 0x5a5a00;
    memset(theirs_memory, 0, 4096);
    if (warm)
        one(TUG_OPERATION_WRITE, 8192, 0, 8);
    for (unsigned i = 0; i < N; i++) {
        struct tug_operation *operation;
        if (i == where) {
            operation = fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, &nobody, 1u << 20, mine,
                                       1u << 20, bad_bytes, &ends[i]);
        } else if (i % 3 == 0) {
            operation = atomic(ORIGIN, TUG_OPERATION_FETCH, TUG_ADD, 1, 0, 0, mine, 0, &ends[i]);
        } else if (i % 3 == 1) {
            operation = atomic(ORIGIN, TUG_OPERATION_FETCH, TUG_XOR, 1ull << (i % 64), 0, 8, NULL,
                               0, &ends[i]);
        } else {
            operation = fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 16 + i * 8, NULL, 0,
                                       8, &ends[i]);
            memcpy(operation->data, &(uint64_t){i}, 8);
        }
        fake_post(ORIGIN, operation);
    }
    assert_true(fake_finish(120));
    uint64_t sum = 0, bits = 0;
    for (unsigned i = 0; i < N; i++) {
        assert_done(&ends[i], i == where ? TUG_ERR_KEY : 0);
        if (i == where)
            continue;
        sum += i % 3 == 0;
        bits ^= i % 3 == 1 ? 1ull << (i % 64) : 0;
        if (i % 3 == 2)
            assert_memory_equal(theirs_memory + 16 + i * 8, &(uint64_t){i}, 8);
    }
    assert_memory_equal(theirs_memory, &sum, 8);
    assert_memory_equal(theirs_memory + 8, &bits, 8);
    assert_int_equal(ORIGIN->verbs->cq_room, ORIGIN->verbs->cq_size);
}

static void error_bad_key(void **state) {
    (void)state;
    bad_key_at(0, 8, false);
    const unsigned places[] = {0, 1, 14, 15, 16, 40, 62, 63, 64, 100, 149};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        bad_key_at(places[i], 8, true);
}

/* Joined writes with a bad key fail together, and nobody else. */
static void error_bad_key_joined(void **state) {
    (void)state;
    enum { N = 60 };
    for (unsigned bad = 0; bad < N; bad += 7) {
        struct fake_end ends[N];
        struct tug_registration nobody = *theirs;
        nobody.rkey ^= 0x5a5a00;
        fill(mine_memory, 4096, bad);
        memset(theirs_memory, 0, 4096);
        one(TUG_OPERATION_WRITE, 8192, 0, 8);
        for (unsigned i = 0; i < N; i++)
            fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE,
                                             i >= bad && i < bad + 5 ? &nobody : theirs, i * 8,
                                             mine, i * 8, 8, &ends[i]));
        assert_true(fake_finish(60));
        for (unsigned i = 0; i < N; i++) {
            const bool failed = i >= bad && i < bad + 5;
            assert_done(&ends[i], failed ? TUG_ERR_KEY : 0);
            assert_memory_equal(theirs_memory + i * 8,
                                failed ? (unsigned char[8]){0} : mine_memory + i * 8, 8);
        }
    }
}

static void error_bad_key_large(void **state) {
    (void)state;
    bad_key_at(20, 100000, true);
    bad_key_at(60, 3ull * ORIGIN->verbs->device.most_message + 1, true);
    bad_key_at(0, 3ull * ORIGIN->verbs->device.most_message + 1, true);
}

/* A large good one behind the bad one is begun again from its start. */
static void error_then_large(void **state) {
    (void)state;
    const uint64_t bytes = ORIGIN->verbs->device.most_message * 2ull + 5;
    assert_true(bytes < AREA);
    struct tug_registration nobody = *theirs;
    nobody.rkey ^= 0x5a5a00;
    struct fake_end ends[3];
    fill(mine_memory, bytes, 21);
    memset(theirs_memory, 0, bytes);
    one(TUG_OPERATION_WRITE, 0, 0, 8);
    chain_of(61, 0); /* so that the sender is full after the first piece */
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, TUG_OPERATION_READ, &nobody, 0, mine, bytes, 8, &ends[0]));
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 0, mine, 0, bytes, &ends[1]));
    fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_READ, theirs, bytes, mine, bytes + 64,
                                     8, &ends[2]));
    assert_true(fake_finish(120));
    assert_done(&ends[0], TUG_ERR_KEY);
    assert_done(&ends[1], 0);
    assert_done(&ends[2], 0);
    assert_filled(theirs_memory, bytes, 21);
}

static void error_out_of_memory_there(void **state) {
    (void)state;
    struct fake_end end;
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, AREA - 8, mine, 0, 16, &end));
    assert_true(fake_finish(60));
    assert_done(&end, TUG_ERR_KEY);
}

static void lose_server(void) {
    tug_ibv.destroy_qp(TARGET->verbs->pairs[0]->server);
    TARGET->verbs->pairs[0]->server = NULL;
}

/* The other end is gone: what is under way fails; the next operation asks again. */
static void error_peer_gone(void **state) {
    (void)state;
    enum { N = 80 };
    struct fake_end ends[N];
    one(TUG_OPERATION_WRITE, 0, 0, 8);
    lose_server();
    for (unsigned i = 0; i < N; i++)
        fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, i * 8, mine, i * 8,
                                         8, &ends[i]));
    fake_flush(ORIGIN);
    const uint64_t before = tug_clock_ns();
    assert_true(fake_finish(120));
    printf("lost after %.1f s\n", (double)(tug_clock_ns() - before) / 1e9);
    for (unsigned i = 0; i < N; i++) /* the last ones had not been posted and found the new way */
        assert_done(&ends[i], i < TUG_VERBS_DEPTH ? TUG_ERR_PEER : 0);
    fill(mine_memory, 64, 31);
    one(TUG_OPERATION_WRITE, 128, 0, 64);
    assert_filled(theirs_memory + 128, 64, 31);
}

/* ... and if nobody answers any more, it does not wait for ever. */
static void error_peer_silent(void **state) {
    (void)state;
    struct fake_end ends[2];
    one(TUG_OPERATION_WRITE, 0, 0, 8);
    lose_server();
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 0, mine, 0, 8, &ends[0]));
    assert_true(fake_finish(120));
    assert_done(&ends[0], TUG_ERR_PEER);
    fake_hold = true;
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 0, mine, 0, 8, &ends[1]));
    fake_flush(ORIGIN);
    assert_false(tug_transport_verbs.arm(ORIGIN->verbs)); /* somebody must look at the clock */
    assert_true(fake_finish(60));
    assert_done(&ends[1], TUG_ERR_PEER);
    assert_true(tug_transport_verbs.arm(ORIGIN->verbs));
    /* the late answer is for nobody; a new question is answered */
    fake_hold = false;
    fake_round();
    one(TUG_OPERATION_WRITE, 0, 0, 8);
}

/* The way of the questions is lost: who waits for an answer fails, later ones at once; what is
 * connected goes on. */
static void error_nobody_to_ask(void **state) {
    (void)state;
    struct fake_end ends[3];
    fake_hold = true;
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 0, mine, 0, 8, &ends[0]));
    fake_flush(ORIGIN);
    fake_round();
    assert_int_equal(ends[0].complete, 0);
    tug_transport_verbs.lost(ORIGIN->verbs, 1);
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 0, mine, 0, 8, &ends[1]));
    assert_true(fake_finish(5));
    assert_done(&ends[0], TUG_ERR_PEER);
    assert_done(&ends[1], TUG_ERR_PEER);
    fake_hold = false;
    fake_round(); /* a late answer */
    for (int i = 0; i < 2; i++) {
        fake_post(TARGET,
                  fake_operation(TARGET, 0, TUG_OPERATION_WRITE, mine, 0, theirs, 0, 8, &ends[2]));
        assert_true(fake_finish(60));
        assert_done(&ends[2], 0);
        tug_transport_verbs.lost(TARGET->verbs, 0);
    }
}

static void error_device_lost(void **state) {
    (void)state;
    enum { N = 100 };
    struct fake_end ends[N];
    one(TUG_OPERATION_WRITE, 0, 0, 8);
    for (unsigned i = 0; i < N; i++)
        fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_READ, theirs, 0, mine, i * 65536,
                                         65536, &ends[i]));
    fake_flush(ORIGIN);
    atomic_store(&ORIGIN->verbs->device_lost, true);
    assert_true(fake_finish(60));
    int lost = 0;
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(ends[i].complete, 1);
        assert_true(ends[i].status == 0 || ends[i].status == TUG_ERR_DEVICE);
        lost += ends[i].status != 0;
    }
    assert_true(ORIGIN->passed > 0 && ORIGIN->passed + (unsigned)lost <= N);
    assert_int_equal(ORIGIN->verbs->cq_room, ORIGIN->verbs->cq_size);
    const unsigned passed = ORIGIN->passed;
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 0, mine, 0, 8, &ends[0]));
    assert_true(fake_finish(60));
    assert_done(&ends[0], 0);
    assert_int_equal(ORIGIN->passed, passed + 1);
}

/* ---- connections that cannot be made ---- */

static const struct tug_verbs *refused; /* whose queue pairs or memory are refused */
static enum ibv_qp_state refused_state;
static struct tug_ibv real;

static struct ibv_qp *refuse_queue_pair(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes) {
    errno = ENOMEM;
    return pd == refused->device.pd ? NULL : real.create_qp(pd, attributes);
}

static int refuse_state(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask) {
    return qp->pd == refused->device.pd && attributes->qp_state == refused_state
               ? EINVAL
               : real.modify_qp(qp, attributes, mask);
}

/* Nothing to rank 1 goes by the device, and all of it ends well; atomics alone are the card's. */
static void assert_passed_on(void) {
    enum { N = 150 };
    struct fake_end ends[N + 1];
    const unsigned before = ORIGIN->passed;
    for (unsigned i = 0; i < N; i++)
        fake_post(ORIGIN,
                  fake_operation(ORIGIN, 1, i % 2 ? TUG_OPERATION_READ : TUG_OPERATION_WRITE,
                                 theirs, i * 8, mine, i * 8, 8, &ends[i]));
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, TUG_OPERATION_FETCH, theirs, 0, mine, 0, 8, &ends[N]));
    assert_true(fake_finish(60));
    for (unsigned i = 0; i < N; i++)
        assert_done(&ends[i], 0);
    assert_int_equal(ORIGIN->passed, before + N);
    assert_done(&ends[N], TUG_ERR_DEVICE);
    assert_true(tug_transport_verbs.arm(ORIGIN->verbs));
}

/* As long as it is refused, and then no longer. */
static void refuse_for_a_while(struct fake *whom, __typeof__(tug_ibv.create_qp) create,
                               __typeof__(tug_ibv.modify_qp) modify) {
    real = tug_ibv;
    refused = whom->verbs;
    tug_ibv.create_qp = create != NULL ? create : real.create_qp;
    tug_ibv.modify_qp = modify != NULL ? modify : real.modify_qp;
    assert_passed_on();
    assert_passed_on();
    assert_true(ORIGIN->verbs->pairs[0]->closed_ns > tug_clock_ns());
    ORIGIN->verbs->pairs[0]->closed_ns = 1; /* that is long ago */
    assert_passed_on();
    tug_ibv = real;
    fake_mute = false;
    assert_passed_on(); /* it is not tried with each operation */
    ORIGIN->verbs->pairs[0]->closed_ns = 1;
    const unsigned before = ORIGIN->passed;
    fill(mine_memory, 64, 41);
    one(TUG_OPERATION_WRITE, 0, 0, 64);
    assert_filled(theirs_memory, 64, 41);
    assert_int_equal(ORIGIN->passed, before);
}

static void refused_here(void **state) {
    (void)state;
    refuse_for_a_while(ORIGIN, refuse_queue_pair, NULL);
}

static void refused_there(void **state) {
    (void)state;
    refuse_for_a_while(TARGET, refuse_queue_pair, NULL);
}

static void refused_to_join(void **state) {
    (void)state;
    const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
    for (size_t i = 0; i < 6; i++) {
        refused_state = states[i / 2];
        refuse_for_a_while(i % 2 ? TARGET : ORIGIN, NULL, refuse_state);
        tear_down(NULL);
        set_up(NULL);
    }
}

static void refused_a_question(void **state) {
    (void)state;
    fake_mute = true;
    refuse_for_a_while(ORIGIN, NULL, NULL);
}

static struct ibv_mr *refuse_memory(struct ibv_pd *pd, void *address, size_t bytes, uint64_t at,
                                    int access) {
    errno = ENOMEM;
    return pd == refused->device.pd ? NULL : real.reg_mr_iova(pd, address, bytes, at, access);
}

/* Memory that the device refuses is for other ways, from here and to here. */
static void refused_memory(void **state) {
    (void)state;
    real = tug_ibv;
    tug_ibv.reg_mr_iova = refuse_memory;
    refused = ORIGIN->verbs;
    struct tug_registration *local = fake_register(ORIGIN, mine_memory, 64);
    refused = TARGET->verbs;
    struct tug_registration *remote = fake_register(TARGET, theirs_memory, 64);
    tug_ibv = real;
    assert_int_equal(remote->rkey, 0);
    const enum tug_operation_kind kinds[] = {TUG_OPERATION_WRITE, TUG_OPERATION_READ,
                                             TUG_OPERATION_FETCH};
    for (size_t i = 0; i < 3; i++) {
        for (unsigned which = 0; which < 4; which++) {
            struct tug_operation *operation =
                fake_operation(ORIGIN, 1, kinds[i], which & 1 ? remote : theirs, 0,
                               which & 2 ? local : mine, 0, 8, NULL);
            assert_int_equal(tug_transport_verbs.takes(ORIGIN->verbs, operation), which == 0);
            tug_tags_give(&ORIGIN->fabric.tags, tug_fabric_tag(&ORIGIN->fabric, operation));
        }
    }
    fake_deregister(ORIGIN, local);
    fake_deregister(TARGET, remote);
    one(TUG_OPERATION_WRITE, 0, 0, 8);
}

/* ---- sleeping ---- */

static uint64_t cpu_ns(void) {
    return check_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* As the engine sleeps: prepare, arm, look once more, wait. Returns how often it slept. */
static unsigned sleep_until_done(void) {
    unsigned sleeps = 0;
    while (tug_transport_verbs.busy(ORIGIN->verbs)) {
        const uint32_t key = tug_bell_prepare(&ORIGIN->bell);
        assert_true(tug_transport_verbs.arm(ORIGIN->verbs));
        if (tug_transport_verbs.poll(ORIGIN->verbs))
            continue;
        const uint64_t before = tug_clock_ns();
        tug_bell_wait(&ORIGIN->bell, key, 30000000000, false);
        assert_true(tug_clock_ns() - before < 25000000000u);
        sleeps++;
    }
    return sleeps;
}

static void sleep_wakes(void **state) {
    (void)state;
    struct fake_end end;
    one(TUG_OPERATION_WRITE, 0, 0, 8);
    for (int i = 0; i < 100; i++) {
        fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_READ, theirs, 0, mine, 0,
                                         i % 2 ? 1u << 20 : 8, &end));
        fake_flush(ORIGIN);
        assert_true(sleep_until_done() < 50);
        assert_done(&end, 0);
    }
    /* an end that comes seconds later: of an operation to a peer that is gone */
    lose_server();
    fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 0, mine, 0, 8, &end));
    fake_flush(ORIGIN);
    const uint64_t cpu = cpu_ns();
    const unsigned sleeps = sleep_until_done();
    assert_in_range(sleeps, 1, 5);
    assert_true(cpu_ns() - cpu < 200000000);
    assert_done(&end, TUG_ERR_PEER);
}

static void sleep_costs_nothing(void **state) {
    (void)state;
    one(TUG_OPERATION_WRITE, 0, 0, 8);
    assert_true(ORIGIN->verbs->watcher.runs);
    const uint64_t before = cpu_ns();
    check_sleep_us(1000000);
    assert_true(cpu_ns() - before < 50000000);
}

/* ---- ---- */

#define CASE(name)                                                                                 \
    { #name, name, set_up, tear_down, NULL }

static const struct CMUnitTest tests[] = {
    CASE(device_opens),         CASE(device_named),        CASE(pair_first_use),
    CASE(pair_both_at_once),    CASE(pair_self),           CASE(pair_foreign_messages),
    CASE(data_write_sizes),     CASE(data_read_sizes),     CASE(data_carried),
    CASE(data_not_registered),  CASE(data_two_gib),        CASE(atomic_each),
    CASE(atomic_not_taken),     CASE(atomic_contended),    CASE(chain_one_post),
    CASE(chain_waits),          CASE(chain_off),           CASE(chain_overflow),
    CASE(chain_narrow_queue),   CASE(chain_mixed),         CASE(chain_joined),
    CASE(chain_from_callbacks), CASE(chain_from_on_local), CASE(memory_inside),
    CASE(memory_named_again),   CASE(memory_empty),        CASE(memory_ended),
    CASE(memory_threads),       CASE(error_bad_key),       CASE(error_bad_key_joined),
    CASE(error_bad_key_large),  CASE(error_then_large),    CASE(error_out_of_memory_there),
    CASE(error_peer_gone),      CASE(error_peer_silent),   CASE(error_nobody_to_ask),
    CASE(error_device_lost),    CASE(refused_here),        CASE(refused_there),
    CASE(refused_to_join),      CASE(refused_a_question),  CASE(refused_memory),
    CASE(sleep_wakes),          CASE(sleep_costs_nothing),
};

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "-l") == 0) {
        for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
            puts(tests[i].name);
        return 0;
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
