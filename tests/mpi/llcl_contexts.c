/*
 * llcl_contexts: contexts as objects.
 *
 * Of communicators that split, reverse or duplicate the world and are freed at once; several at a
 * time, each with its own memory, handlers and traffic; one that is freed with operations under way
 * and registrations left; many one after the other, which leave no file or mapping behind; and
 * beside windows and persistent broadcasts, which share the engine.
 */
#include "llcl_check.h"
#include <dirent.h>

enum { BYTES = 20000, OUT = 200, HANDLER = 9 };

/* A context with memory that its own ranks know. */
struct part {
    tug_context *context;
    MPI_Comm comm;
    tug_registration *registration;
    struct tug_key keys[LL_MAX_RANKS];
    unsigned char *base;
    int rank, size;
    _Atomic int came;
};

static void on_message(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    struct part *p = d;
    int said;
    CHECK(c == p->context && bytes == sizeof said, "a message of %zu bytes", bytes);
    memcpy(&said, payload, sizeof said);
    CHECK(source == said, "rank %d of its context says that it is %d", source, said);
    atomic_fetch_add(&p->came, 1);
}

/* Takes comm over. */
static void open_part(struct part *p, MPI_Comm comm) {
    MPI_Comm given;
    struct tug_key key;
    *p = (struct part){.comm = comm};
    MUST(MPI_Comm_dup(comm, &given));
    LL_GOOD(tug_context_create(given, &p->context));
    MUST(MPI_Comm_free(&given));
    MUST(MPI_Comm_rank(comm, &p->rank));
    MUST(MPI_Comm_size(comm, &p->size));
    CHECK(tug_context_rank(p->context) == p->rank && tug_context_size(p->context) == p->size,
          "rank and size of a context");
    LL_GOOD(tug_mem_allocate(p->context, BYTES * (size_t)p->size, &p->registration));
    p->base = tug_mem_address(p->registration);
    tug_mem_key(p->registration, &key);
    MUST(MPI_Allgather(&key, sizeof key, MPI_BYTE, p->keys, sizeof key, MPI_BYTE, comm));
    LL_GOOD(tug_am_register(p->context, HANDLER, on_message, p));
    check_barrier(comm);
}

/* Everybody to everybody, with nothing but the context's own help to wait. */
static void use_part(struct part *p, uint64_t round) {
    static unsigned char source[BYTES];
    tug_registration *local;
    struct tug_counter counter = {0};
    uint64_t started = 0;
    check_fill(source, BYTES, (uint64_t)p->rank, round);
    LL_GOOD(tug_mem_register(p->context, source, BYTES, &local));
    for (int to = 0; to < p->size; to++) {
        struct tug_write_params w = {to,           {&p->keys[to], (size_t)p->rank * BYTES},
                                     {local, 0},   BYTES,
                                     {NULL, NULL}, {tug_counter_add, &counter}};
        struct tug_am_params m = {
            to, HANDLER, &p->rank, sizeof p->rank, {NULL, NULL}, {tug_counter_add, &counter}};
        LL_TRY(p->context, tug_try_write_async(p->context, &w));
        LL_TRY(p->context, tug_try_am_async(p->context, &m));
        started += 2;
    }
    LL_GOOD(tug_counter_wait(p->context, &counter, started));
    LL_GOOD(tug_mem_deregister(&local));
}

static void wait_part(struct part *p, MPI_Comm comm) {
    MPI_Request request;
    MUST(MPI_Ibarrier(comm, &request));
    ll_mpi_wait(p->context, &request);
}

static void check_part(struct part *p, uint64_t round, int messages) {
    for (int from = 0; from < p->size; from++)
        check_same(p->base + (size_t)from * BYTES, BYTES, (uint64_t)from, round, "a context's",
                   __LINE__);
    CHECK(atomic_load(&p->came) == messages * p->size, "%d messages came", atomic_load(&p->came));
}

static void close_part(struct part *p) {
    ll_close(&p->context); /* with its registration */
    if (p->comm != MPI_COMM_WORLD)
        MUST(MPI_Comm_free(&p->comm));
}

static void kinds(void) {
    struct part p;
    MPI_Comm comms[4] = {MPI_COMM_WORLD, MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_SELF};
    MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &comms[1]));
    MUST(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &comms[2]));
    MUST(MPI_Comm_dup(MPI_COMM_SELF, &comms[3]));
    for (int i = 0; i < 4; i++) {
        open_part(&p, comms[i]);
        use_part(&p, 1);
        wait_part(&p, p.comm);
        check_part(&p, 1, 1);
        close_part(&p);
    }
}

/* A callback of one context starts an operation of another, whose callback starts one of the
 * first: to and fro. */
struct relay {
    struct part *parts;
    tug_registration *locals[2];
    int left;
    _Atomic int late, done;
};

static void relay_next(void *d, int status);

static bool relay_try(struct relay *r) {
    struct part *p = &r->parts[r->left % 2];
    int to = (p->rank + 1) % p->size;
    struct tug_write_params w = {to,
                                 {&p->keys[to], (size_t)p->rank * BYTES},
                                 {r->locals[r->left % 2], 0},
                                 64,
                                 {NULL, NULL},
                                 {relay_next, r}};
    struct tug_am_params m = {to, HANDLER, &p->rank, sizeof p->rank, {NULL, NULL}, {relay_next, r}};
    return r->left % 3 ? tug_try_write_async(p->context, &w) : tug_try_am_async(p->context, &m);
}

static void relay_next(void *d, int status) {
    struct relay *r = d;
    CHECK(status == 0, "a relay: %s", tug_strerror(status));
    if (--r->left == 0)
        atomic_store(&r->done, 1);
    else if (!relay_try(r))
        atomic_store(&r->late, 1);
}

static void crossing(struct part parts[2]) {
    static unsigned char source[64];
    struct relay r = {.parts = parts, .left = ll_rounds(2000, 200)};
    MPI_Request request;
    int done = 0;
    for (int i = 0; i < 2; i++)
        LL_GOOD(tug_mem_register(parts[i].context, source, sizeof source, &r.locals[i]));
    atomic_store(&r.late, 1);
    while (!atomic_load(&r.done)) {
        if (atomic_exchange(&r.late, 0) && !relay_try(&r))
            atomic_store(&r.late, 1);
        tug_progress(parts[0].context);
        tug_progress(parts[1].context);
    }
    MUST(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    while (!done) {
        MUST(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        tug_progress(parts[0].context);
        tug_progress(parts[1].context);
        sched_yield();
    }
    for (int i = 0; i < 2; i++)
        LL_GOOD(tug_mem_deregister(&r.locals[i]));
}

/* All at the same time, of the same ranks, with the same handler's id. */
static void several(void) {
    enum { PARTS = 4 };
    static struct part parts[PARTS];
    for (int i = 0; i < PARTS; i++) {
        MPI_Comm comm;
        MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 ? -check_rank : check_rank, &comm));
        open_part(&parts[i], comm);
    }
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < PARTS; i++) {
            use_part(&parts[i], (uint64_t)(round * 10 + i));
            wait_part(&parts[i], parts[i].comm);
        }
        for (int i = 0; i < PARTS; i++)
            check_part(&parts[i], (uint64_t)(round * 10 + i), round);
        check_barrier(MPI_COMM_WORLD);
    }
    crossing(&parts[0]);
    for (int i = 0; i < PARTS; i++)
        close_part(&parts[i]);
}

/* The end waits for what is under way, here and elsewhere. */
static void freed_while_busy(void) {
    static unsigned char source[OUT][64], target[LL_MAX_RANKS][OUT][64];
    static struct ll_record records[OUT];
    struct tug_key key, keys[LL_MAX_RANKS];
    tug_registration *far, *near;
    int to = (check_rank + 1) % check_nranks;
    int from = (check_rank + check_nranks - 1) % check_nranks;
    memset(records, 0, sizeof records);
    memset(target, 0, sizeof target);
    tug_context *context = ll_open(MPI_COMM_WORLD);
    LL_GOOD(tug_mem_register(context, target, sizeof target, &far));
    LL_GOOD(tug_mem_register(context, source, sizeof source, &near));
    tug_mem_key(far, &key);
    MUST(MPI_Allgather(&key, sizeof key, MPI_BYTE, keys, sizeof key, MPI_BYTE, MPI_COMM_WORLD));
    for (int i = 0; i < OUT; i++) {
        size_t offset = ((size_t)check_rank * OUT + (size_t)i) * 64;
        check_fill(source[i], 64, (uint64_t)check_rank, (uint64_t)i);
        struct tug_write_params w = {to,
                                     {&keys[to], offset},
                                     {near, (size_t)i * 64},
                                     64,
                                     ll_local(&records[i], NULL, 0),
                                     ll_complete(&records[i])};
        LL_TRY(context, tug_try_write_async(context, &w));
    }
    ll_close(&context);
    ll_once(records, OUT);
    for (int i = 0; i < OUT; i++) {
        CHECK(records[i].status == 0, "a write: %s", tug_strerror(records[i].status));
        check_same(target[from][i], 64, (uint64_t)from, (uint64_t)i, "written before the end",
                   __LINE__);
    }
}

static int entries(const char *path) {
    int n = 0;
    DIR *dir = opendir(path);
    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

static int mappings(void) {
    int n = 0, c;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f != NULL && (c = fgetc(f)) != EOF)
        n += c == '\n';
    if (f != NULL)
        fclose(f);
    return n;
}

static void many(void) {
    int files = 0, maps = 0, threads = 0, rounds = ll_rounds(20, 4);
    for (int i = 0; i < rounds; i++) {
        struct part p;
        open_part(&p, MPI_COMM_WORLD);
        use_part(&p, (uint64_t)i);
        wait_part(&p, MPI_COMM_WORLD);
        check_part(&p, (uint64_t)i, 1);
        close_part(&p);
        if (i == rounds / 2 - 1) {
            files = entries("/proc/self/fd");
            maps = mappings();
            threads = entries("/proc/self/task");
        }
    }
    CHECK(entries("/proc/self/fd") <= files, "%d files are open after contexts, %d before",
          entries("/proc/self/fd"), files);
    /* The heap grows by mappings now and then. */
    CHECK(mappings() <= maps + 4, "%d mappings are left after contexts, %d before", mappings(),
          maps);
    CHECK(entries("/proc/self/task") <= threads, "threads are left after contexts");
}

/* Takes what communicators the host has left, but for a few. */
static int take_communicators(MPI_Comm taken[], int most, int spare) {
    int n = 0, good = 1;
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    while (n < most && good) {
        int mine = MPI_Comm_dup(MPI_COMM_WORLD, &taken[n]) == MPI_SUCCESS;
        MUST(MPI_Allreduce(&mine, &good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
        n += mine;
    }
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    for (int i = 0; i < spare; i++)
        MUST(MPI_Comm_free(&taken[--n]));
    return n;
}

/* What contexts have from a communicator that was freed before them goes with the last of them: the
 * host does not run out of communicators. They end in any order, while the others go on. */
static void outlived(void) {
    enum { TAKEN = 2100, SPARE = 24, ROUNDS = 20 };
    static MPI_Comm taken[TAKEN];
    tug_context *contexts[3];
    MPI_Comm comm;
    int n = take_communicators(taken, TAKEN, SPARE);
    for (int round = 0; round < ROUNDS; round++) {
        MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        const int nopen = round % 3 + 1;
        for (int i = 0; i < nopen; i++)
            LL_GOOD(tug_context_create(comm, &contexts[i]));
        MUST(MPI_Comm_free(&comm));
        for (int i = 0; i < nopen; i++)
            ll_close(&contexts[(i + round) % nopen]);
    }
    for (int i = 0; i < n; i++)
        MUST(MPI_Comm_free(&taken[i]));
}

static void beside_windows(void) {
    static unsigned char buf[50000];
    MPI_Request request;
    MPI_Win win;
    int64_t *base, one = 1;
    int right = (check_rank + 1) % check_nranks;
    struct part p;
    open_part(&p, MPI_COMM_WORLD);
    MUST(MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    memset(base, 0, 64);
    MUST(MPI_Bcast_init(buf, sizeof buf, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    check_barrier(MPI_COMM_WORLD);
    for (int round = 1; round <= 5; round++) {
        memset(buf, 0, sizeof buf);
        if (check_rank == 0)
            check_fill(buf, sizeof buf, 50, (uint64_t)round);
        MUST(MPI_Start(&request));
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
        MUST(MPI_Accumulate(&one, 1, MPI_INT64_T, right, 0, 1, MPI_INT64_T, MPI_SUM, win));
        use_part(&p, (uint64_t)round);
        MUST(MPI_Win_unlock(right, win));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        check_same(buf, sizeof buf, 50, (uint64_t)round, "broadcast", __LINE__);
        wait_part(&p, MPI_COMM_WORLD);
        check_part(&p, (uint64_t)round, round);
        wait_part(&p, MPI_COMM_WORLD);
    }
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win));
    CHECK(base[0] == 5, "accumulates: %lld", (long long)base[0]);
    MUST(MPI_Win_unlock(check_rank, win));
    MUST(MPI_Win_free(&win));
    MUST(MPI_Request_free(&request));
    close_part(&p);
}

static void run(void) {
    const char *progress = getenv("TUGBOAT_PROGRESS");
    ll_help = progress != NULL && strcmp(progress, "caller") == 0;
    kinds();
    freed_while_busy();
    many();
    outlived();
    beside_windows();
    several();
}

int main(int argc, char **argv) {
    ll_begin(&argc, &argv, "llcl_contexts");
    run();
    return check_end();
}
