/*
 * llcl_errors: every misuse gives its error, once, changes nothing, and costs nothing.
 *
 * A refused operation is refused many times over, so that a tag or a byte of room lost with each
 * would be missed soon, and after each kind a right operation works. Also: what registration and
 * contexts refuse, and that memory in use cannot be deregistered.
 * Argument: off, the library is switched off.
 */
#include "llcl_check.h"
#include <limits.h>

enum {
    SLOT = 4096,
    LONG = 1 << 17,
    BYTES = 16 * SLOT,
    TIMES = 300,
    NO_HANDLER = 99,
    HANDLER = 3,
    SLOW = 4
};

static tug_context *context, *other;
static struct ll_memory remote, local;
static tug_registration *of_other;
static int to; /* the process that all this is done to */
static size_t mine;
static struct ll_record record;
static uint64_t works_round;

/* A right operation, and its data. */
static void works(const char *after) {
    works_round++;
    check_fill(local.base + 512, 64, (uint64_t)check_rank, works_round);
    int rc = ll_write(context, to, &remote.keys[to], mine, local.registration, 512, 64);
    CHECK(rc == 0, "a write after %s: %s", after, tug_strerror(rc));
    memset(local.base + 512, 0, 64);
    rc = ll_read(context, to, &remote.keys[to], mine, local.registration, 512, 64);
    CHECK(rc == 0, "a read after %s: %s", after, tug_strerror(rc));
    check_same(local.base + 512, 64, (uint64_t)check_rank, works_round, after, __LINE__);
    rc = ll_am(context, to, HANDLER, local.base, 8);
    CHECK(rc == 0, "a message after %s: %s", after, tug_strerror(rc));
}

static void refused(const char *what, int expected) {
    int status = ll_finish(context, &record);
    CHECK(status == expected || (expected > 0 && status < 0), "%s: %s, not %s", what,
          tug_strerror(status), expected > 0 ? "any error" : tug_strerror(expected));
    CHECK(!record.has_local || atomic_load(&record.locals) == 1, "%s: on_local %d times", what,
          atomic_load(&record.locals));
}

/* What must not have changed: the rest of the local memory. */
static void untouched(const char *what) {
    ll_all(local.base + 1024, SLOT - 1024, LL_CANARY, what, __LINE__);
    ll_guards(&local);
}

#define REFUSED(what, expected, call)                                                              \
    do {                                                                                           \
        for (int i_ = 0; i_ < TIMES; i_++) {                                                       \
            record = (struct ll_record){0};                                                        \
            p.on_complete = ll_complete(&record);                                                  \
            LL_TRY(context, call);                                                                 \
            refused(what, expected);                                                               \
        }                                                                                          \
        untouched(what);                                                                           \
        works(what);                                                                               \
    } while (0)

/* ANY: the header names no code. */
enum { ANY = 1 };

static const struct tug_remote_address beyond[] = {
    {NULL, BYTES - 7}, {NULL, BYTES}, {NULL, BYTES + 1}, {NULL, SIZE_MAX - 3}, {NULL, SIZE_MAX}};
enum { BEYOND = sizeof beyond / sizeof *beyond };

static void reads(void) {
    struct tug_read_params good = {.src_proc = to,
                                   .src_raddr = {&remote.keys[to], mine},
                                   .dest_laddr = {local.registration, 1024},
                                   .size_in_bytes = 8},
                           p = good;
#define READ(what, expected) REFUSED("a read " what, expected, tug_try_read_async(context, &p))
    p.src_proc = check_nranks;
    READ("from a process behind the last", TUG_ERR_INVALID);
    p.src_proc = -1;
    READ("from process -1", TUG_ERR_INVALID);
    p = good;
    for (int i = 0; i < BEYOND; i++) {
        p.src_raddr.offset = beyond[i].offset;
        READ("beyond the remote memory", TUG_ERR_RANGE);
    }
    p.src_raddr.offset = 1;
    p.size_in_bytes = BYTES;
    READ("one byte longer than the remote memory", TUG_ERR_RANGE);
    p.size_in_bytes = SIZE_MAX;
    READ("of SIZE_MAX bytes", TUG_ERR_RANGE);
    p = good;
    for (int i = 0; i < BEYOND; i++) {
        p.dest_laddr.offset = beyond[i].offset;
        READ("beyond the local memory", TUG_ERR_RANGE);
    }
    p = good;
    p.dest_laddr.registration = NULL;
    READ("to no registration", TUG_ERR_INVALID);
    p.dest_laddr.registration = of_other;
    READ("to another context's registration", ANY);
    if (check_nranks > 1) {
        p = good;
        p.src_raddr.key = &remote.keys[(to + 1) % check_nranks];
        READ("with another process's key", TUG_ERR_KEY);
    }
}

static void writes(void) {
    struct tug_write_params good = {.dest_proc = to,
                                    .dest_raddr = {&remote.keys[to], mine},
                                    .src_laddr = {local.registration, 1024},
                                    .size_in_bytes = 8},
                            p = good;
#define WRITE(what, expected)                                                                      \
    REFUSED("a write " what, expected,                                                             \
            (p.on_local = ll_local(&record, NULL, 0), tug_try_write_async(context, &p)))
    p.dest_proc = check_nranks + 1000000;
    WRITE("to a process behind the last", TUG_ERR_INVALID);
    p.dest_proc = INT32_MIN;
    WRITE("to process INT_MIN", TUG_ERR_INVALID);
    p = good;
    for (int i = 0; i < BEYOND; i++) {
        p.dest_raddr.offset = beyond[i].offset;
        WRITE("beyond the remote memory", TUG_ERR_RANGE);
    }
    p.dest_raddr.offset = 1;
    p.size_in_bytes = BYTES;
    WRITE("one byte longer than the remote memory", TUG_ERR_RANGE);
    p = good;
    for (int i = 0; i < BEYOND; i++) {
        p.src_laddr.offset = beyond[i].offset;
        WRITE("from beyond the local memory", TUG_ERR_RANGE);
    }
    p = good;
    p.src_laddr.registration = NULL;
    WRITE("from no registration", TUG_ERR_INVALID);
}

static void atomics(void) {
    struct tug_fetch_and_op_params good = {.dest_proc = to,
                                           .dest_raddr = {&remote.keys[to], mine},
                                           .result_laddr = {local.registration, 1024},
                                           .size_in_bytes = 8,
                                           .op = TUG_ADD,
                                           .operand = 1},
                                   p = good;
#define FETCH(what, expected)                                                                      \
    REFUSED("an atomic " what, expected, tug_try_fetch_and_op_async(context, &p))
    static const size_t odd[] = {0, 1, 2, 3, 5, 7, 9, 16, SIZE_MAX};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        p.size_in_bytes = odd[i];
        FETCH("of an odd size", TUG_ERR_INVALID);
    }
    p = good;
    for (size_t at = 1; at < 8; at++) {
        p.dest_raddr.offset = mine + at;
        FETCH("of 8 bytes at an odd place", TUG_ERR_INVALID);
    }
    p.size_in_bytes = 4;
    p.dest_raddr.offset = mine + 6;
    FETCH("of 4 bytes at an odd place", TUG_ERR_INVALID);
    p = good;
    p.op = (enum tug_atomic_op)99;
    FETCH("that does not exist", TUG_ERR_INVALID);
    p = good;
    p.dest_raddr.offset = BYTES;
    FETCH("beyond the remote memory", TUG_ERR_RANGE);
    p = good;
    p.result_laddr.offset = BYTES - 7;
    FETCH("with the result beyond the local memory", TUG_ERR_RANGE);
    p = good;
    p.dest_proc = check_nranks;
    FETCH("to a process behind the last", TUG_ERR_INVALID);
}

static void compares(void) {
    struct tug_compare_and_swap_params good = {.dest_proc = to,
                                               .dest_raddr = {&remote.keys[to], mine},
                                               .result_laddr = {local.registration, 1024},
                                               .size_in_bytes = 8},
                                       p = good;
#define COMPARE(what, expected)                                                                    \
    REFUSED("a compare and swap " what, expected, tug_try_compare_and_swap_async(context, &p))
    p.size_in_bytes = 2;
    COMPARE("of 2 bytes", TUG_ERR_INVALID);
    p = good;
    p.dest_raddr.offset = mine + 4;
    COMPARE("of 8 bytes at an odd place", TUG_ERR_INVALID);
    p.dest_raddr.offset = BYTES;
    COMPARE("beyond the remote memory", TUG_ERR_RANGE);
    p = good;
    p.result_laddr.offset = BYTES - 7;
    COMPARE("with the result beyond the local memory", TUG_ERR_RANGE);
    p = good;
    p.dest_proc = -5;
    COMPARE("to process -5", TUG_ERR_INVALID);
}

static void messages(void) {
    static unsigned char payload[20000];
    struct tug_am_params good = {.dest_proc = to,
                                 .handler = HANDLER,
                                 .payload = payload,
                                 .size_in_bytes = TUG_AM_MAX_PAYLOAD},
                         p = good;
#define AM(what, expected)                                                                         \
    REFUSED("a message " what, expected,                                                           \
            (p.on_local = ll_local(&record, NULL, 0), tug_try_am_async(context, &p)))
    p.size_in_bytes = (size_t)TUG_AM_MAX_LONG + 1;
    AM("of more than the most", TUG_ERR_INVALID);
    p.size_in_bytes = SIZE_MAX;
    AM("of SIZE_MAX bytes", TUG_ERR_INVALID);
    p.payload = NULL;
    p.size_in_bytes = sizeof payload;
    AM("of many bytes from nowhere", TUG_ERR_INVALID);
    p = good;
    p.size_in_bytes = sizeof payload;
    p.handler = NO_HANDLER;
    AM("that is long to no handler", TUG_ERR_INVALID);
    p.handler = TUG_AM_HANDLERS;
    AM("that is long to a handler behind the last", TUG_ERR_INVALID);
    p = good;
    p = good;
    p.handler = NO_HANDLER;
    AM("to no handler", TUG_ERR_INVALID);
    p.size_in_bytes = 0;
    AM("of no bytes to no handler", TUG_ERR_INVALID);
    p = good;
    p.handler = TUG_AM_HANDLERS;
    AM("to a handler behind the last", TUG_ERR_INVALID);
    p.handler = UINT_MAX;
    AM("to handler UINT_MAX", TUG_ERR_INVALID);
    p = good;
    p.dest_proc = check_nranks;
    AM("to a process behind the last", TUG_ERR_INVALID);
}

/* A key with any one bit turned is no key. Where memory is mapped a part of the key is not needed,
 * and may not be looked at: then it makes no difference. */
static void damaged_keys(void) {
    struct tug_key key;
    struct tug_read_params p = {.src_proc = to,
                                .src_raddr = {&key, mine},
                                .dest_laddr = {local.registration, 1024},
                                .size_in_bytes = 8};
    unsigned char *map = tug_mem_map(context, &remote.keys[to]);
    for (int bit = 0; bit < 6 * 64; bit++) {
        key = remote.keys[to];
        key.word[bit / 64] ^= (uint64_t)1 << bit % 64;
        memset(local.base + 600, LL_CANARY, 8);
        int rc = ll_read(context, to, &key, mine, local.registration, 600, 8);
        CHECK(rc == TUG_ERR_KEY ||
                  (rc == 0 && map != NULL && memcmp(local.base + 600, local.base + 512, 8) == 0),
              "bit %d of word %d turned: %s", bit % 64, bit / 64, tug_strerror(rc));
        /* With what is there: no difference again. */
        rc = ll_write(context, to, &key, mine, local.registration, 512, 8);
        CHECK(rc == TUG_ERR_KEY || (rc == 0 && map != NULL), "bit %d of word %d turned: %s",
              bit % 64, bit / 64, tug_strerror(rc));
        rc = ll_fetch(context, to, &key, mine, NULL, 0, 8, TUG_ADD, 0);
        CHECK(rc == TUG_ERR_KEY || rc == TUG_ERR_INVALID || (rc == 0 && map != NULL),
              "bit %d of word %d turned: %s", bit % 64, bit / 64, tug_strerror(rc));
        rc = ll_compare(context, to, &key, mine, NULL, 0, 8, 0, 0);
        CHECK(rc == TUG_ERR_KEY || rc == TUG_ERR_INVALID || (rc == 0 && map != NULL),
              "bit %d of word %d turned: %s", bit % 64, bit / 64, tug_strerror(rc));
        unsigned char *other_map = tug_mem_map(context, &key);
        CHECK(other_map == NULL || other_map == map, "bit %d of word %d turned: another mapping",
              bit % 64, bit / 64);
    }
    LL_GOOD(ll_read(context, to, &remote.keys[to], mine, local.registration, 576, 64));
    check_same(local.base + 576, 64, (uint64_t)check_rank, works_round, "damaged keys", __LINE__);
    memset(&key, 0, sizeof key);
    REFUSED("a key of nothing", TUG_ERR_KEY, tug_try_read_async(context, &p));
    /* Whole, but of another context, whose other end is alive. */
    tug_mem_key(of_other, &key);
    p.src_proc = check_rank;
    REFUSED("a key of another context", TUG_ERR_KEY, tug_try_read_async(context, &p));
}

/* The key of what was registered and is no longer; new registrations take the index over. */
static void ended_keys(void) {
    static unsigned char memory[2][LONG], block[LONG];
    struct tug_key key, theirs;
    tug_registration *registration, *of_block;
    MPI_Request request[2];
    int left = (check_rank + check_nranks - 1) % check_nranks;
    memset(memory, LL_CANARY, sizeof memory);
    memset(block, 0, sizeof block);
    LL_GOOD(tug_mem_register(context, block, sizeof block, &of_block));
    LL_GOOD(tug_mem_register(context, memory[0], sizeof memory[0], &registration));
    tug_mem_key(registration, &key);
    MUST(MPI_Irecv(&theirs, sizeof theirs, MPI_BYTE, to, 5, MPI_COMM_WORLD, &request[0]));
    MUST(MPI_Isend(&key, sizeof key, MPI_BYTE, left, 5, MPI_COMM_WORLD, &request[1]));
    ll_mpi_wait(context, &request[0]);
    ll_mpi_wait(context, &request[1]);
    LL_GOOD(ll_read(context, to, &theirs, 0, local.registration, 0, 8));
    ll_barrier(context);
    LL_GOOD(tug_mem_deregister(&registration));
    CHECK(registration == NULL, "the registration after its end");
    ll_barrier(context);
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < ll_rounds(TIMES, 20); i++)
            CHECK(ll_read(context, to, &theirs, 0, local.registration, 1024, 8) == TUG_ERR_KEY &&
                      ll_write(context, to, &theirs, 0, local.registration, 0, 200) ==
                          TUG_ERR_KEY &&
                      ll_fetch(context, to, &theirs, 0, NULL, 0, 8, TUG_ADD, 1) == TUG_ERR_KEY &&
                      ll_read(context, check_rank, &key, 0, local.registration, 1024, 8) ==
                          TUG_ERR_KEY,
                  "the key of an ended registration, round %d", again);
        CHECK(ll_read(context, to, &theirs, 0, of_block, 0, LONG) == TUG_ERR_KEY &&
                  ll_write(context, to, &theirs, 0, of_block, 0, LONG) == TUG_ERR_KEY &&
                  ll_read(context, to, &theirs, 8, of_block, 0, LONG - 8) == TUG_ERR_KEY,
              "long blocks with the key of an ended registration, round %d", again);
        ll_all(block, sizeof block, 0, "what was not read", __LINE__);
        untouched("keys of ended registrations");
        ll_barrier(context);
        if (again == 0)
            LL_GOOD(tug_mem_register(context, memory[1], sizeof memory[1], &registration));
        ll_barrier(context);
    }
    ll_all(memory, sizeof memory, LL_CANARY, "memory that is not registered", __LINE__);
    LL_GOOD(tug_mem_deregister(&registration));
    LL_GOOD(tug_mem_deregister(&of_block));
    works("ended keys");
}

/* Nobody need be told; and of several the first error is told. */
static void callbacks(void) {
    struct tug_counter counter = {0};
    uint64_t word = 0x1234567887654321u + (uint64_t)check_rank;
    struct tug_write_params w = {
        to, {&remote.keys[to], mine + 8}, {local.registration, 512}, 8, {NULL, NULL}, {NULL, NULL}};
    memcpy(local.base + 512, &word, 8);
    LL_TRY(context, tug_try_write_async(context, &w));
    for (double end = ll_now() + 20;;) {
        LL_GOOD(ll_read(context, to, &remote.keys[to], mine + 8, local.registration, 520, 8));
        if (memcmp(local.base + 520, &word, 8) == 0)
            break;
        CHECK(ll_now() < end, "a write without callbacks did not happen");
    }
    w.on_complete = (struct tug_callback){tug_counter_add, &counter};
    for (int i = 0; i < 10; i++) {
        w.dest_raddr.offset = i == 5 ? BYTES : mine + 8;
        LL_TRY(context, tug_try_write_async(context, &w));
    }
    int rc = tug_counter_wait(context, &counter, 10);
    CHECK(rc == TUG_ERR_RANGE && tug_counter_value(&counter) == 10, "a counter of %d and %s",
          (int)tug_counter_value(&counter), tug_strerror(rc));
    works("operations without callbacks");
}

/* ---- deregistration of memory in use ---- */

static void on_message(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    (void)c, (void)source, (void)payload, (void)bytes, (void)d;
}

/* Keeps its rank's engine busy, as a program must not. */
static void on_slow(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    (void)c, (void)source, (void)payload, (void)bytes, (void)d;
    usleep(30000);
}

static void used_memory(void) {
    enum { MUCH = 1 << 20 };
    static unsigned char memory[MUCH];
    static struct ll_memory far;
    tug_registration *registration;
    struct ll_record message = {0};
    int busy = 0;
    ll_make(context, &far, LL_REGISTERED, MUCH);
    memset(far.base, 0x5a, MUCH);
    ll_barrier(context);
    for (int round = 0; round < 3; round++) {
        LL_GOOD(tug_mem_register(context, memory, MUCH, &registration));
        message = (struct ll_record){0};
        record = (struct ll_record){0};
        struct tug_am_params slow = {to, SLOW, NULL, 0, {NULL, NULL}, ll_complete(&message)};
        struct tug_read_params read = {
            to, {&far.keys[to], 0}, {registration, 0}, MUCH, ll_complete(&record)};
        LL_TRY(context, tug_try_am_async(context, &slow));
        LL_TRY(context, tug_try_read_async(context, &read));
        for (;;) {
            int before = atomic_load(&record.completes);
            int rc = tug_mem_deregister(&registration);
            int after = atomic_load(&record.completes);
            CHECK(rc == 0 || rc == TUG_ERR_STATE, "deregistration of memory in use: %s",
                  tug_strerror(rc));
            CHECK(rc != 0 || after == 1, "memory in use was deregistered");
            CHECK(rc != TUG_ERR_STATE || registration != NULL, "refused, and yet gone");
            CHECK(rc == 0 || before == 0, "memory not in use could not be deregistered");
            busy += rc == TUG_ERR_STATE;
            if (rc == 0)
                break;
            if (busy > 3) {
                LL_GOOD(ll_finish(context, &record));
                tug_progress(context);
            }
        }
        ll_all(memory, MUCH, 0x5a, "read meanwhile", __LINE__);
        memset(memory, 0, MUCH);
        LL_GOOD(ll_finish(context, &message));
        ll_barrier(context);
    }
    if (check_rank == 0)
        printf("%d deregistrations of memory in use were refused\n", busy);
    /* By packets the other end has to take part, which is busy with the slow message. */
    if (check_nranks > 1 && strcmp(tug_context_transport(context, to, MUCH), "mpi") == 0)
        CHECK(busy > 0, "no deregistration was refused");
    ll_end(context, &far);
}

/* ---- what is not an operation ---- */

static void registrations(void) {
    static unsigned char memory[64];
    tug_registration *registration = NULL;
    int rc = tug_mem_register(context, NULL, 64, &registration);
    CHECK(rc == TUG_ERR_INVALID && registration == NULL, "registration of NULL: %s",
          tug_strerror(rc));
    rc = tug_mem_register(context, memory, SIZE_MAX, &registration);
    CHECK(rc == TUG_ERR_INVALID && registration == NULL, "registration of SIZE_MAX bytes: %s",
          tug_strerror(rc));
    /* No bytes may be registered or not; what is registered has no byte. */
    rc = tug_mem_register(context, memory, 0, &registration);
    CHECK(rc == 0 || (rc == TUG_ERR_INVALID && registration == NULL),
          "registration of no bytes: %s", tug_strerror(rc));
    if (rc == 0) {
        struct tug_key key;
        tug_mem_key(registration, &key);
        LL_GOOD(ll_read(context, check_rank, &key, 0, local.registration, 0, 0));
        CHECK(ll_read(context, check_rank, &key, 0, local.registration, 0, 1) == TUG_ERR_RANGE,
              "a read of memory without bytes");
        LL_GOOD(tug_mem_deregister(&registration));
    }
    rc = tug_am_register(context, TUG_AM_HANDLERS, on_message, NULL);
    CHECK(rc == TUG_ERR_INVALID, "handler 256: %s", tug_strerror(rc));
    works("registrations");
    /* A handler that was there and is no longer. */
    LL_GOOD(tug_am_register(context, NO_HANDLER, on_message, NULL));
    ll_barrier(context);
    LL_GOOD(ll_am(context, to, NO_HANDLER, NULL, 0));
    ll_barrier(context);
    LL_GOOD(tug_am_register(context, NO_HANDLER, NULL, NULL));
    ll_barrier(context);
    CHECK(ll_am(context, to, NO_HANDLER, NULL, 0) == TUG_ERR_INVALID, "an ended handler");
}

static void contexts(void) {
    tug_context *none = NULL;
    int rc = tug_context_create(MPI_COMM_NULL, &none);
    CHECK(rc == TUG_ERR_INVALID && none == NULL, "a context of no communicator: %s",
          tug_strerror(rc));
    if (check_nranks < 2)
        return;
    MPI_Comm half, both;
    MUST(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &half));
    MUST(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - check_rank % 2, 1, &both));
    rc = tug_context_create(both, &none);
    CHECK(rc == TUG_ERR_INVALID && none == NULL, "a context of an intercommunicator: %s",
          tug_strerror(rc));
    MUST(MPI_Comm_free(&both));
    MUST(MPI_Comm_free(&half));
}

static void run(void) {
    static unsigned char memory[BYTES];
    contexts();
    for (int kind = 0; kind < LL_KINDS; kind++) {
        other = ll_open(MPI_COMM_WORLD);
        context = ll_open(MPI_COMM_WORLD);
        LL_GOOD(tug_am_register(context, HANDLER, on_message, NULL));
        LL_GOOD(tug_am_register(context, SLOW, on_slow, NULL));
        LL_GOOD(tug_mem_register(other, memory, BYTES, &of_other));
        ll_make(context, &remote, (enum ll_kind)kind, BYTES);
        ll_make(context, &local, LL_REGISTERED, BYTES);
        memset(local.base, LL_CANARY, BYTES);
        memset(remote.base, LL_CANARY, BYTES);
        to = (check_rank + 1) % check_nranks;
        mine = (size_t)check_rank * SLOT;
        ll_barrier(context);
        works("nothing");
        reads();
        writes();
        atomics();
        compares();
        messages();
        damaged_keys();
        ended_keys();
        registrations();
        callbacks();
        used_memory();
        ll_barrier(context);
        /* Of the slot of its origin the first 64 bytes were written by what was right, no more. */
        size_t slot = (size_t)((check_rank + check_nranks - 1) % check_nranks) * SLOT;
        ll_all(remote.base, slot, LL_CANARY, "remote memory", __LINE__);
        ll_all(remote.base + slot + 64, BYTES - slot - 64, LL_CANARY, "remote memory", __LINE__);
        LL_GOOD(tug_mem_deregister(&of_other));
        ll_end(context, &local);
        ll_end(context, &remote);
        ll_close(&context);
        ll_close(&other);
    }
}

static int off(void) {
    tug_context *none = NULL;
    int rc = tug_context_create(MPI_COMM_WORLD, &none);
    CHECK(rc == TUG_ERR_STATE && none == NULL, "a context of a library that is off: %s",
          tug_strerror(rc));
    return check_end();
}

int main(int argc, char **argv) {
    tug_context *none = NULL;
    int rc = tug_context_create(MPI_COMM_WORLD, &none);
    if (rc != TUG_ERR_STATE || none != NULL) {
        fprintf(stderr, "WRONG: a context before MPI_Init: %s\n", tug_strerror(rc));
        return 1;
    }
    ll_begin(&argc, &argv, "llcl_errors");
    if (argc > 1 && strcmp(argv[1], "off") == 0)
        return off();
    run();
    return check_end();
}
