/*
 * llcl_check.h: what the LLCL test programs share beside check.h.
 *
 * A record watches the callbacks of one operation: each at most once, on_local before on_complete,
 * and on_local makes the source unusable at once, so that data read from it later are seen to be
 * wrong. Memory is made in two kinds, from tug_mem_allocate() and registered (with guards around
 * it), and its keys are known to all ranks.
 * With TUGBOAT_PROGRESS=caller nobody but the calls themselves progresses a context: then waiting
 * in MPI helps as well (ll_help); otherwise it must not be necessary, and is not done. Threads:
 * callbacks on any; everything else on the caller's.
 */
#ifndef TUG_TESTS_MPI_LLCL_CHECK_H
#define TUG_TESTS_MPI_LLCL_CHECK_H

#include "check.h"
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <tugboat/llcl.h>
#include <unistd.h>

#define LL_UNUSED __attribute__((unused))

enum { LL_MAX_RANKS = 64, LL_GUARD = 128, LL_CANARY = 0xa5, LL_SPOILT = 0xee };

static bool ll_help;
static bool ll_slow; /* more than two ranks, or others want the cores: agreed */

LL_UNUSED static double ll_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Does the setting allow this way? */
LL_UNUSED static bool ll_way(const char *way) {
    const char *ways = getenv("TUGBOAT_TRANSPORTS");
    size_t length = strlen(way);
    if (ways == NULL || *ways == 0)
        return true;
    for (const char *at = ways; (at = strstr(at, way)) != NULL; at += length)
        if ((at == ways || at[-1] == ',') && (at[length] == 0 || at[length] == ','))
            return true;
    return false;
}

LL_UNUSED static tug_context *ll_open(MPI_Comm comm) {
    tug_context *context = NULL;
    const char *progress = getenv("TUGBOAT_PROGRESS");
    int rc = tug_context_create(comm, &context);
    CHECK(rc == 0 && context != NULL, "tug_context_create: %s", tug_strerror(rc));
    CHECK(check_nranks <= LL_MAX_RANKS, "at most %d ranks", LL_MAX_RANKS);
    ll_help = progress != NULL && strcmp(progress, "caller") == 0;
    return context;
}

LL_UNUSED static void ll_close(tug_context **context) {
    int rc = tug_context_free(context);
    CHECK(rc == 0 && *context == NULL, "tug_context_free: %s", tug_strerror(rc));
}

/* ---- waiting in MPI ---- */

LL_UNUSED static void ll_pause(tug_context *context) {
    if (ll_help && context != NULL)
        tug_progress(context);
    sched_yield();
}

LL_UNUSED static void ll_mpi_wait(tug_context *context, MPI_Request *request) {
    for (int done = 0;;) {
        MUST(MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done)
            return;
        ll_pause(context);
    }
}

LL_UNUSED static void ll_barrier(tug_context *context) {
    MPI_Request request;
    MUST(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    ll_mpi_wait(context, &request);
}

/* Tells `to`, is told by `from`. */
LL_UNUSED static void ll_note(tug_context *context, int to, int from) {
    MPI_Request send, receive;
    MUST(MPI_Irecv(NULL, 0, MPI_BYTE, from, 77, MPI_COMM_WORLD, &receive));
    MUST(MPI_Isend(NULL, 0, MPI_BYTE, to, 77, MPI_COMM_WORLD, &send));
    ll_mpi_wait(context, &receive);
    ll_mpi_wait(context, &send);
}

/* Finds out how long it takes to hear of one another: where a wait costs a time slice of everybody
 * who wants the core, thousands of them in a row take minutes. So they do where CHECK_FEW says it.
 */
LL_UNUSED static void ll_pace(void) {
    check_barrier(MPI_COMM_WORLD);
    double start = ll_now();
    for (int i = 0; i < 20; i++)
        check_barrier(MPI_COMM_WORLD);
    int slow = check_rounds(0, 1) || ll_now() - start > 20 * 300e-6, any;
    MUST(MPI_Allreduce(&slow, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    ll_slow = any;
    if (check_rank == 0 && !check_rounds(0, 1) && ll_slow)
        printf("others want the cores: fewer rounds\n");
}

LL_UNUSED static void ll_begin(int *argc, char ***argv, const char *program) {
    check_begin(argc, argv, program);
    ll_pace();
}

LL_UNUSED static int ll_rounds(int full, int few) {
    return ll_slow ? few : full;
}

/* ---- memory ---- */

enum ll_kind { LL_ALLOCATED, LL_REGISTERED, LL_KINDS };

struct ll_memory {
    enum ll_kind kind;
    tug_registration *registration;
    unsigned char *base;
    size_t bytes;
    unsigned char *block; /* registered: with a guard before and behind */
    struct tug_key keys[LL_MAX_RANKS];
};

LL_UNUSED static const char *ll_kind_name(enum ll_kind kind) {
    return kind == LL_ALLOCATED ? "allocated" : "registered";
}

LL_UNUSED static void ll_keys(tug_context *context, struct ll_memory *m) {
    MPI_Request request;
    struct tug_key mine;
    tug_mem_key(m->registration, &mine);
    MUST(MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, m->keys, sizeof mine, MPI_BYTE,
                        MPI_COMM_WORLD, &request));
    ll_mpi_wait(context, &request);
}

/* Collective over MPI_COMM_WORLD, of which the context is. */
LL_UNUSED static void ll_make(tug_context *context, struct ll_memory *m, enum ll_kind kind,
                              size_t bytes) {
    int rc;
    *m = (struct ll_memory){.kind = kind, .bytes = bytes};
    if (kind == LL_ALLOCATED) {
        rc = tug_mem_allocate(context, bytes, &m->registration);
        CHECK(rc == 0, "tug_mem_allocate(%zu): %s", bytes, tug_strerror(rc));
        m->base = tug_mem_address(m->registration);
        CHECK((uintptr_t)m->base % 4096 == 0, "allocated at %p", (void *)m->base);
        for (size_t i = 0; i < bytes; i += i < 64 ? 1 : 61)
            CHECK(m->base[i] == 0, "byte %zu of new memory is 0x%02x", i, m->base[i]);
    } else {
        /* At 8 but not at 16: what the host's windows stumble on. */
        m->block = aligned_alloc(64, (bytes + 2 * LL_GUARD + 8 + 63) / 64 * 64);
        CHECK(m->block != NULL, "no %zu bytes", bytes);
        if (bytes >> 30 > 0) /* a million page faults are no part of any test */
            madvise((void *)(((uintptr_t)m->block + 4095) & ~(uintptr_t)4095), bytes - 4096,
                    MADV_HUGEPAGE);
        memset(m->block, LL_CANARY, LL_GUARD + 8);
        m->base = m->block + LL_GUARD + 8;
        memset(m->base, 0, bytes);
        memset(m->base + bytes, LL_CANARY, LL_GUARD);
        rc = tug_mem_register(context, m->base, bytes, &m->registration);
        CHECK(rc == 0, "tug_mem_register(%zu): %s", bytes, tug_strerror(rc));
    }
    CHECK(tug_mem_address(m->registration) == m->base && tug_mem_size(m->registration) == bytes,
          "address and size of a registration");
    ll_keys(context, m);
}

LL_UNUSED static void ll_all(const void *at, size_t n, uint8_t value, const char *what, int line) {
    const uint8_t *b = at;
    for (size_t i = 0; i < n; i++)
        if (b[i] != value)
            check_fail(what, line, "byte %zu of %zu is 0x%02x, not 0x%02x", i, n, b[i], value);
}

LL_UNUSED static void ll_guards(const struct ll_memory *m) {
    if (m->kind == LL_REGISTERED) {
        ll_all(m->block, LL_GUARD + 8, LL_CANARY, "before registered memory", __LINE__);
        ll_all(m->base + m->bytes, LL_GUARD, LL_CANARY, "behind registered memory", __LINE__);
    }
}

/* Nothing is under way in it any more. Its owner may have to hear of that: a moment is allowed. */
LL_UNUSED static void ll_end(tug_context *context, struct ll_memory *m) {
    int rc;
    ll_guards(m);
    for (double end = ll_now() + 5; (rc = tug_mem_deregister(&m->registration)) == TUG_ERR_STATE;) {
        CHECK(ll_now() < end, "memory that nobody uses cannot be deregistered");
        tug_progress(context);
        sched_yield();
    }
    CHECK(rc == 0 && m->registration == NULL, "tug_mem_deregister: %s", tug_strerror(rc));
    free(m->block);
}

/* ---- operations ---- */

struct ll_record {
    _Atomic int locals, completes;
    int status;
    bool has_local;
    unsigned char *spoil; /* in on_local */
    size_t spoil_bytes;
};

LL_UNUSED static void ll_on_local(void *d, int status) {
    struct ll_record *r = d;
    CHECK(atomic_load(&r->completes) == 0, "on_local after on_complete, status %d", status);
    CHECK(atomic_fetch_add(&r->locals, 1) == 0, "on_local twice");
    if (r->spoil != NULL)
        memset(r->spoil, LL_SPOILT, r->spoil_bytes);
}

LL_UNUSED static void ll_on_complete(void *d, int status) {
    struct ll_record *r = d;
    CHECK(!r->has_local || atomic_load(&r->locals) == 1, "on_complete before on_local");
    r->status = status;
    CHECK(atomic_fetch_add(&r->completes, 1) == 0, "on_complete twice");
}

LL_UNUSED static struct tug_callback ll_local(struct ll_record *r, void *spoil, size_t bytes) {
    r->has_local = true;
    r->spoil = spoil;
    r->spoil_bytes = bytes;
    return (struct tug_callback){ll_on_local, r};
}

LL_UNUSED static struct tug_callback ll_complete(struct ll_record *r) {
    return (struct tug_callback){ll_on_complete, r};
}

LL_UNUSED static bool ll_done(void *d) {
    struct ll_record *r = d;
    return atomic_load(&r->completes) != 0;
}

LL_UNUSED static int ll_finish(tug_context *context, struct ll_record *r) {
    tug_wait(context, ll_done, r);
    return r->status;
}

/* Once only, to the end of the program. */
LL_UNUSED static void ll_once(const struct ll_record *records, size_t n) {
    for (size_t i = 0; i < n; i++)
        CHECK(atomic_load(&records[i].completes) == 1 &&
                  atomic_load(&records[i].locals) == records[i].has_local,
              "operation %zu: on_local %d times, on_complete %d times", i,
              atomic_load(&records[i].locals), atomic_load(&records[i].completes));
}

#define LL_TRY(context, call)                                                                      \
    do {                                                                                           \
        while (!(call))                                                                            \
            tug_progress(context);                                                                 \
    } while (0)

#define LL_GOOD(call)                                                                              \
    do {                                                                                           \
        int good_rc = (call);                                                                      \
        CHECK(good_rc == 0, "%s: %s", #call, tug_strerror(good_rc));                               \
    } while (0)

LL_UNUSED static int ll_write(tug_context *context, int process, const struct tug_key *key,
                              size_t offset, tug_registration *local, size_t at, size_t bytes) {
    struct ll_record r = {0};
    struct tug_write_params p = {process, {key, offset}, {local, at},
                                 bytes,   {NULL, NULL},  ll_complete(&r)};
    LL_TRY(context, tug_try_write_async(context, &p));
    return ll_finish(context, &r);
}

LL_UNUSED static int ll_read(tug_context *context, int process, const struct tug_key *key,
                             size_t offset, tug_registration *local, size_t at, size_t bytes) {
    struct ll_record r = {0};
    struct tug_read_params p = {process, {key, offset}, {local, at}, bytes, ll_complete(&r)};
    LL_TRY(context, tug_try_read_async(context, &p));
    return ll_finish(context, &r);
}

LL_UNUSED static int ll_fetch(tug_context *context, int process, const struct tug_key *key,
                              size_t offset, tug_registration *local, size_t at, size_t bytes,
                              enum tug_atomic_op op, uint64_t operand) {
    struct ll_record r = {0};
    struct tug_fetch_and_op_params p = {process, {key, offset}, {local, at},    bytes,
                                        op,      operand,       ll_complete(&r)};
    LL_TRY(context, tug_try_fetch_and_op_async(context, &p));
    return ll_finish(context, &r);
}

LL_UNUSED static int ll_compare(tug_context *context, int process, const struct tug_key *key,
                                size_t offset, tug_registration *local, size_t at, size_t bytes,
                                uint64_t expected, uint64_t desired) {
    struct ll_record r = {0};
    struct tug_compare_and_swap_params p = {process,  {key, offset}, {local, at},    bytes,
                                            expected, desired,       ll_complete(&r)};
    LL_TRY(context, tug_try_compare_and_swap_async(context, &p));
    return ll_finish(context, &r);
}

LL_UNUSED static int ll_am(tug_context *context, int process, unsigned handler, const void *payload,
                           size_t bytes) {
    struct ll_record r = {0};
    struct tug_am_params p = {process, handler, payload, bytes, {NULL, NULL}, ll_complete(&r)};
    LL_TRY(context, tug_try_am_async(context, &p));
    return ll_finish(context, &r);
}

#endif
