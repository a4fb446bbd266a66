/*
 * llcl_contract: what llcl.h promises of try_ calls, by counting what they do.
 *
 * The allocator's functions and those of mutexes and sockets are this program's: while a thread is
 * inside a try_ call they are counted. Reads, writes, atomics, messages and calls of several sizes
 * go to each process, to allocated, registered and lent memory, one by one and many before a wait.
 *   - After tug_mem_open() of a key, and after long data both ways, operations on it lock nothing
 *     and make no connections. They allocate nothing but buffers of packets, which are large, and
 *     words for long operations.
 *   - Over verbs the host MPI, by whose messages connections are made, is looked at: what it locks
 *     and allocates itself is not counted then.
 *   - A key that is none, and one that has ended, cannot be opened.
 */
#define _GNU_SOURCE /* dladdr */
#include "llcl_check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HANDLER = 9, CALL = 9, AREA = 256 * 1024, LONG = 4096, MANY = 100 };

#define BUFFER_LEAST 4096

static _Thread_local bool inside;
static _Thread_local unsigned nsmall, nlocked, nsockets;
static _Thread_local void *locker; /* in the function that locked last */

static bool by_verbs;

/* Is that address in a function of the host MPI, or of UCX below it? */
static bool is_of_host(const void *address) {
    Dl_info info;
    return dladdr(address, &info) != 0 &&
           (strstr(info.dli_fname, "/libmpi") != NULL || strstr(info.dli_fname, "/libuc") != NULL);
}

static bool counts(const void *caller) {
    return inside && !(by_verbs && is_of_host(caller));
}

static void count(size_t bytes, const void *caller) {
    nsmall += bytes < BUFFER_LEAST && counts(caller);
}

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);

void *malloc(size_t bytes) {
    count(bytes, __builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes) {
    count(n * bytes, __builtin_return_address(0));
    return __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes) {
    count(bytes, __builtin_return_address(0));
    return __libc_realloc(old, bytes);
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    static int (*real)(pthread_mutex_t *);
    if (real == NULL)
        real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    if (counts(__builtin_return_address(0))) {
        nlocked++;
        locker = __builtin_return_address(0);
    }
    return real(mutex);
}

int socket(int domain, int type, int protocol) {
    static int (*real)(int, int, int);
    if (real == NULL)
        real = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
    nsockets += inside;
    return real(domain, type, protocol);
}

static tug_context *context;
static struct ll_memory memory[LL_KINDS + 1]; /* the last is lent */
static struct tug_counter counter;
static uint64_t started;

static void on_message(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    (void)c, (void)source, (void)payload, (void)bytes, (void)d;
}

static void on_call(tug_context *c, struct tug_caller caller, const void *payload, size_t bytes,
                    void *d) {
    (void)d;
    tug_answer(c, caller, payload, bytes);
}

static const char *locked_by(void) {
    Dl_info info;
    if (nlocked == 0 || dladdr(locker, &info) == 0)
        return "-";
    return info.dli_sname != NULL ? info.dli_sname : info.dli_fname;
}

#define TRY(what, call)                                                                            \
    do {                                                                                           \
        bool taken;                                                                                \
        do {                                                                                       \
            nsmall = nlocked = nsockets = 0;                                                       \
            inside = true;                                                                         \
            taken = (call);                                                                        \
            inside = false;                                                                        \
            CHECK((nsmall == 0 || bytes > LONG) && nlocked == 0 && nsockets == 0,                  \
                  "%s of %zu bytes to %d: %u allocations, %u locks (%s), %u sockets", what, bytes, \
                  to, nsmall, nlocked, locked_by(), nsockets);                                     \
            if (!taken)                                                                            \
                tug_progress(context);                                                             \
        } while (!taken);                                                                          \
        started++;                                                                                 \
    } while (0)

static void start_all(int to, struct ll_memory *m, size_t bytes) {
    static unsigned char answers[MANY][4096];
    const struct tug_callback count = {tug_counter_add, &counter};
    const struct tug_remote_address there = {&m->keys[to], AREA * (size_t)check_rank};
    const struct tug_local_address here = {m->registration, AREA * (size_t)(LL_MAX_RANKS - 1)};
    struct tug_read_params read = {to, there, here, bytes, count};
    struct tug_write_params write = {to, there, here, bytes, {NULL, NULL}, count};
    TRY("write", tug_try_write_async(context, &write));
    TRY("read", tug_try_read_async(context, &read));
    if (bytes > 4096)
        return;
    struct tug_am_params am = {to, HANDLER, m->base, bytes, {NULL, NULL}, count};
    TRY("message", tug_try_am_async(context, &am));
    struct tug_call_params call = {to,    CALL,         m->base, bytes, answers[started % MANY],
                                   bytes, {NULL, NULL}, count};
    TRY("call", tug_try_call_async(context, &call));
    if (bytes != 8)
        return;
    struct tug_fetch_and_op_params fetch = {to, there, here, 8, TUG_ADD, 1, count};
    TRY("addition", tug_try_fetch_and_op_async(context, &fetch));
}

static void round_of_all(void) {
    static const size_t sizes[] = {8, 1000, 4096, 20000, AREA};
    for (int to = 0; to < check_nranks; to++)
        for (int kind = 0; kind <= LL_KINDS; kind++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                start_all(to, &memory[kind], sizes[i]);
                CHECK(tug_counter_wait(context, &counter, started) == 0, "an operation");
                for (int n = 0; n < (sizes[i] > 4096 ? 4 : MANY / 5); n++)
                    start_all(to, &memory[kind], sizes[i]);
                CHECK(tug_counter_wait(context, &counter, started) == 0, "operations");
            }
}

/* Memory of MPI_Alloc_mem, of which others of the node make views. */
static void make_lent(struct ll_memory *m, size_t bytes) {
    m->kind = LL_ALLOCATED; /* without guards */
    m->bytes = bytes;
    MUST(MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &m->base));
    memset(m->base, 0, bytes);
    LL_GOOD(tug_mem_register(context, m->base, bytes, &m->registration));
    ll_keys(context, m);
}

/* Over TCP a second connection follows, which is made and accepted by whoever drives the engine. */
static void exchange_long(void) {
    const struct tug_callback count = {tug_counter_add, &counter};
    for (int i = 0; i < 10; i++) {
        for (int to = 0; to < check_nranks; to++, started++) {
            struct tug_write_params write = {to,
                                             {&memory[0].keys[to], AREA * (size_t)check_rank},
                                             {memory[0].registration, 0},
                                             AREA,
                                             {NULL, NULL},
                                             count};
            while (!tug_try_write_async(context, &write))
                tug_progress(context);
        }
        CHECK(tug_counter_wait(context, &counter, started) == 0, "long writes");
        usleep(20000);
        ll_barrier(context);
    }
}

static void check_refused(void) {
    static uint64_t word;
    tug_registration *registration;
    struct tug_key key;
    LL_GOOD(tug_mem_register(context, &word, sizeof word, &registration));
    tug_mem_key(registration, &key);
    LL_GOOD(tug_mem_open(context, &key));
    key.word[3]++;
    CHECK(tug_mem_open(context, &key) == TUG_ERR_KEY, "a damaged key");
    key.word[3]--;
    LL_GOOD(tug_mem_deregister(&registration));
    CHECK(tug_mem_open(context, &key) == TUG_ERR_KEY, "a key that has ended");
    CHECK(tug_mem_open(context, NULL) == TUG_ERR_KEY, "no key");
}

int main(int argc, char **argv) {
    const size_t bytes = AREA * (size_t)LL_MAX_RANKS;
    ll_begin(&argc, &argv, "llcl_contract");
    const char *transports = getenv("TUGBOAT_TRANSPORTS");
    by_verbs = transports != NULL && strstr(transports, "verbs") != NULL;
    context = ll_open(MPI_COMM_WORLD);
    LL_GOOD(tug_am_register(context, HANDLER, on_message, NULL));
    LL_GOOD(tug_call_register(context, CALL, on_call, NULL));
    for (int kind = 0; kind < LL_KINDS; kind++)
        ll_make(context, &memory[kind], (enum ll_kind)kind, bytes);
    make_lent(&memory[LL_KINDS], bytes);
    for (int to = 0; to < check_nranks; to++)
        for (int kind = 0; kind <= LL_KINDS; kind++)
            LL_GOOD(tug_mem_open(context, &memory[kind].keys[to]));
    ll_barrier(context);
    exchange_long();
    for (int i = 0; i < 2; i++)
        round_of_all();
    check_refused();
    ll_barrier(context);
    for (int kind = 0; kind <= LL_KINDS; kind++)
        ll_end(context, &memory[kind]);
    MUST(MPI_Free_mem(memory[LL_KINDS].base));
    ll_close(&context);
    return check_end();
}
