/*
 * llcl_threads: many threads of all ranks do everything at once.
 *
 * Each thread has an area of its own at every rank and in both kinds of memory, in blocks, and
 * keeps what must be in it. It writes, reads, and does atomics on random parts of random blocks,
 * one operation a block at a time since no order is promised, some of them started by the callback
 * of the one before; it sends messages whose handler checks their sum. Every read is compared, and
 * in the end each owner's memory with what its origins say. Additions of all to common words are
 * summed up. The number of operations that are out is bounded by the thread, or by the library
 * where it says that there is no room.
 * Arguments: number of threads (4), operations of each (automatic).
 */
#include "llcl_check.h"
#include <pthread.h>

enum {
    THREADS_MOST = 16,
    BLOCKS = 12, /* the last is large */
    SMALL = 3072,
    LARGE = 80 * 1024 + 24,
    AREA = (BLOCKS - 1) * SMALL + LARGE,
    COMMON = 4096, /* common words stand before the areas */
    HANDLER = 11,
    PAYLOAD_MOST = 600,
};

static int nthreads = 4, noperations;
static tug_context *context;
static struct ll_memory memory[LL_KINDS];
static struct ll_memory staging;
static _Atomic uint64_t messages_sent[LL_MAX_RANKS], messages_came[LL_MAX_RANKS];
static _Atomic uint64_t added[LL_MAX_RANKS];
static _Atomic uint64_t retries;
static _Atomic int inside;
static uint64_t round_number;

/* What an operation that is out, or none, does with a block. */
enum state { FREE, OUT, READ_DONE, REREAD_LATE };

struct thread;

struct block {
    struct thread *thread;
    int index, to;
    enum ll_kind kind;
    size_t from, bytes; /* the part in use; from is in the block */
    _Atomic int state;
    bool then_read;
};

struct thread {
    int id;
    struct check_rng rng;
    struct block blocks[LL_MAX_RANKS][LL_KINDS][BLOCKS];
    unsigned char *shadow; /* [rank][kind] areas */
};

static struct thread threads[THREADS_MOST];

static size_t block_at(int index) {
    return (size_t)index * SMALL;
}

static size_t block_bytes(int index) {
    return index == BLOCKS - 1 ? LARGE : SMALL;
}

static size_t area_at(int rank, int thread) {
    return COMMON + (size_t)(rank * nthreads + thread) * AREA;
}

/* An area of staging for each (rank, kind) of each thread: blocks never share it. */
static size_t staging_at(const struct block *b) {
    size_t area = (size_t)((b->thread->id * check_nranks + b->to) * LL_KINDS + (int)b->kind);
    return area * AREA + block_at(b->index) + b->from;
}

static unsigned char *shadow_of(const struct block *b) {
    return b->thread->shadow + (size_t)(b->to * LL_KINDS + (int)b->kind) * AREA +
           block_at(b->index) + b->from;
}

static struct tug_remote_address remote_of(const struct block *b) {
    return (struct tug_remote_address){&memory[b->kind].keys[b->to],
                                       area_at(check_rank, b->thread->id) + block_at(b->index) +
                                           b->from};
}

static void on_written(void *d, int status);
static void on_read(void *d, int status);

static bool try_read(struct block *b) {
    struct tug_read_params p = {
        b->to, remote_of(b), {staging.registration, staging_at(b)}, b->bytes, {on_read, b}};
    return tug_try_read_async(context, &p);
}

static void on_read(void *d, int status) {
    struct block *b = d;
    CHECK(status == 0, "a read: %s", tug_strerror(status));
    CHECK(atomic_exchange(&b->state, READ_DONE) == OUT, "a read completed twice");
}

static void on_written(void *d, int status) {
    struct block *b = d;
    CHECK(status == 0, "a write: %s", tug_strerror(status));
    if (!b->then_read) {
        CHECK(atomic_exchange(&b->state, FREE) == OUT, "a write completed twice");
        return;
    }
    memset(staging.base + staging_at(b), LL_SPOILT, b->bytes);
    if (!try_read(b))
        CHECK(atomic_exchange(&b->state, REREAD_LATE) == OUT, "a write completed twice");
}

static bool try_write(struct block *b) {
    struct tug_write_params p = {b->to,    remote_of(b), {staging.registration, staging_at(b)},
                                 b->bytes, {NULL, NULL}, {on_written, b}};
    return tug_try_write_async(context, &p);
}

static void on_swapped(void *d, int status) {
    struct block *b = d;
    CHECK(status == 0, "an atomic: %s", tug_strerror(status));
    CHECK(atomic_exchange(&b->state, READ_DONE) == OUT, "an atomic completed twice");
}

/* Looks after a block: true if it is free now. */
static bool attend(struct block *b) {
    int state = atomic_load(&b->state);
    if (state == REREAD_LATE) {
        atomic_store(&b->state, OUT);
        if (!try_read(b))
            atomic_store(&b->state, REREAD_LATE);
        return false;
    }
    if (state != READ_DONE)
        return state == FREE;
    const unsigned char *got = staging.base + staging_at(b), *want = shadow_of(b);
    for (size_t i = 0; i < b->bytes; i++)
        CHECK(got[i] == want[i],
              "thread %d: byte %zu of %zu at %zu of block %d (%s, rank %d) is 0x%02x, not 0x%02x",
              b->thread->id, i, b->bytes, b->from, b->index, ll_kind_name(b->kind), b->to, got[i],
              want[i]);
    atomic_store(&b->state, FREE);
    return true;
}

static void choose_part(struct thread *t, struct block *b) {
    static const size_t some[] = {0, 1, 7, 8, 8, 8, 9, 23, 24, 25, 64, 200};
    uint64_t draw = check_draw(&t->rng);
    size_t most = block_bytes(b->index);
    if (draw % 4 != 0)
        b->bytes = some[check_draw(&t->rng) % (sizeof some / sizeof *some)];
    else
        b->bytes = check_draw(&t->rng) % (most + 1);
    b->from = check_draw(&t->rng) % (most - b->bytes + 1);
}

static bool write_block(struct thread *t, struct block *b) {
    choose_part(t, b);
    b->then_read = check_draw(&t->rng) % 4 == 0;
    check_fill(staging.base + staging_at(b), b->bytes, (uint64_t)t->id, check_draw(&t->rng));
    atomic_store(&b->state, OUT);
    /* The shadow first: the read in the callback is compared with it. */
    memcpy(shadow_of(b), staging.base + staging_at(b), b->bytes);
    while (!try_write(b)) {
        atomic_fetch_add(&retries, 1);
        tug_progress(context);
    }
    return true;
}

static bool read_block(struct thread *t, struct block *b) {
    choose_part(t, b);
    memset(staging.base + staging_at(b), LL_SPOILT, b->bytes);
    atomic_store(&b->state, OUT);
    if (try_read(b))
        return true;
    atomic_store(&b->state, FREE);
    return false;
}

/* Swaps a word of the block; the old one is compared like a read, with the shadow as it was. */
static bool swap_block(struct thread *t, struct block *b) {
    b->bytes = check_draw(&t->rng) % 2 ? 4 : 8;
    b->from = check_draw(&t->rng) % (block_bytes(b->index) / 8) * 8;
    uint64_t operand = check_draw(&t->rng);
    struct tug_fetch_and_op_params p = {.dest_proc = b->to,
                                        .dest_raddr = remote_of(b),
                                        .result_laddr = {staging.registration, staging_at(b)},
                                        .size_in_bytes = b->bytes,
                                        .op = TUG_SWAP,
                                        .operand = operand,
                                        .on_complete = {on_swapped, b}};
    atomic_store(&b->state, OUT);
    if (!tug_try_fetch_and_op_async(context, &p)) {
        atomic_store(&b->state, FREE);
        return false;
    }
    while (atomic_load(&b->state) != READ_DONE)
        tug_progress(context);
    CHECK(attend(b), "a block that is done");
    memcpy(shadow_of(b), &operand, b->bytes);
    return true;
}

/* Completions are awaited by the sum in the end. */
static void on_added(void *d, int status) {
    (void)d;
    CHECK(status == 0, "an addition: %s", tug_strerror(status));
}

static bool add_common(struct thread *t, int to) {
    uint64_t operand = check_draw(&t->rng) % 1000;
    struct tug_fetch_and_op_params p = {
        to, {&memory[LL_ALLOCATED].keys[to], 0}, {NULL, 0}, 8, TUG_ADD, operand, {on_added, NULL}};
    if (!tug_try_fetch_and_op_async(context, &p))
        return false;
    atomic_fetch_add(&added[to], operand);
    return true;
}

struct message {
    uint64_t bytes, sum, round;
    unsigned char data[PAYLOAD_MOST];
};

static uint64_t sum_of(const unsigned char *at, size_t n) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ at[i]) * 0x100000001b3u;
    return sum;
}

static void on_message(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    const struct message *m = payload;
    (void)d;
    CHECK(atomic_fetch_add(&inside, 1) == 0, "two handlers run at once");
    CHECK(c == context && source >= 0 && source < check_nranks, "a message from rank %d", source);
    CHECK(bytes == offsetof(struct message, data) + m->bytes, "a message of %zu bytes, not %zu",
          bytes, (size_t)m->bytes + offsetof(struct message, data));
    CHECK(m->round == round_number && m->sum == sum_of(m->data, m->bytes),
          "a message of round %llu, or its data", (unsigned long long)m->round);
    atomic_fetch_add(&messages_came[source], 1);
    atomic_fetch_sub(&inside, 1);
}

static void on_sent(void *d, int status) {
    CHECK(status == 0, "a message: %s", tug_strerror(status));
    free(d);
}

static bool send_message(struct thread *t, int to) {
    struct message *m = malloc(sizeof *m);
    CHECK(m != NULL, "no memory");
    m->bytes = check_draw(&t->rng) % 3 ? check_draw(&t->rng) % 32
                                       : check_draw(&t->rng) % (PAYLOAD_MOST + 1);
    m->round = round_number;
    check_fill(m->data, m->bytes, (uint64_t)t->id, check_draw(&t->rng));
    m->sum = sum_of(m->data, m->bytes);
    struct tug_am_params p = {
        to, HANDLER, m, offsetof(struct message, data) + m->bytes, {NULL, NULL}, {on_sent, m}};
    if (!tug_try_am_async(context, &p)) {
        free(m);
        return false;
    }
    atomic_fetch_add(&messages_sent[to], 1);
    return true;
}

static bool one_operation(struct thread *t) {
    int to = (int)(check_draw(&t->rng) % (uint64_t)check_nranks);
    enum ll_kind kind = (enum ll_kind)(check_draw(&t->rng) % LL_KINDS);
    uint64_t what = check_draw(&t->rng) % 16;
    /* The large block less often. */
    uint64_t index = check_draw(&t->rng) % (8 * BLOCKS);
    struct block *b = &t->blocks[to][kind][index < BLOCKS ? index : index % (BLOCKS - 1)];
    if (what < 2)
        return send_message(t, to);
    if (what < 4)
        return add_common(t, to);
    if (!attend(b))
        return false;
    if (what < 5)
        return swap_block(t, b);
    return what < 10 ? write_block(t, b) : read_block(t, b);
}

/* No operation is out. */
static bool settled(void *d) {
    struct thread *t = d;
    for (int to = 0; to < check_nranks; to++)
        for (int kind = 0; kind < LL_KINDS; kind++)
            for (int i = 0; i < BLOCKS; i++)
                if (atomic_load(&t->blocks[to][kind][i].state) == OUT)
                    return false;
    return true;
}

static void finish_all(struct thread *t) {
    for (bool all = false; !all;) {
        tug_wait(context, settled, t);
        all = true;
        for (int to = 0; to < check_nranks; to++)
            for (int kind = 0; kind < LL_KINDS; kind++)
                for (int i = 0; i < BLOCKS; i++)
                    all = attend(&t->blocks[to][kind][i]) && all;
        if (!all)
            tug_progress(context);
    }
}

static void *work(void *d) {
    struct thread *t = d;
    for (int done = 0; done < noperations;) {
        if (one_operation(t)) {
            done++;
        } else {
            atomic_fetch_add(&retries, 1);
            tug_progress(context);
        }
        /* Sometimes wait for all: sleeping and waking is part of the matter. */
        if (check_draw(&t->rng) % 512 == 0)
            finish_all(t);
    }
    finish_all(t);
    return NULL;
}

static void prepare(struct thread *t, int id) {
    *t = (struct thread){.id = id,
                         .rng = {(round_number << 40) + (uint64_t)(check_rank * 100 + id)},
                         .shadow = calloc((size_t)check_nranks * LL_KINDS, AREA)};
    t->rng.state <<= 20;
    CHECK(t->shadow != NULL, "no memory");
    for (int to = 0; to < check_nranks; to++)
        for (int kind = 0; kind < LL_KINDS; kind++)
            for (int i = 0; i < BLOCKS; i++)
                t->blocks[to][kind][i] =
                    (struct block){.thread = t, .index = i, .to = to, .kind = (enum ll_kind)kind};
}

static void all_to_all(uint64_t *out, uint64_t *in, int each) {
    MPI_Request request;
    MUST(MPI_Ialltoall(out, each, MPI_UINT64_T, in, each, MPI_UINT64_T, MPI_COMM_WORLD, &request));
    ll_mpi_wait(context, &request);
}

/* Each owner compares its memory with what the origins hold it to be. */
static void compare_areas(void) {
    size_t each = (size_t)nthreads * LL_KINDS;
    uint64_t *out = calloc((size_t)check_nranks * each, sizeof *out);
    uint64_t *in = calloc((size_t)check_nranks * each, sizeof *in);
    CHECK(out != NULL && in != NULL, "no memory");
    for (int to = 0; to < check_nranks; to++)
        for (int id = 0; id < nthreads; id++)
            for (int kind = 0; kind < LL_KINDS; kind++)
                out[(size_t)to * each + (size_t)(id * LL_KINDS + kind)] =
                    sum_of(threads[id].shadow + (size_t)(to * LL_KINDS + kind) * AREA, AREA);
    all_to_all(out, in, (int)each);
    for (int from = 0; from < check_nranks; from++)
        for (int id = 0; id < nthreads; id++)
            for (int kind = 0; kind < LL_KINDS; kind++)
                CHECK(in[(size_t)from * each + (size_t)(id * LL_KINDS + kind)] ==
                          sum_of(memory[kind].base + area_at(from, id), AREA),
                      "the area of thread %d of rank %d in %s memory", id, from,
                      ll_kind_name((enum ll_kind)kind));
    free(out);
    free(in);
}

static void compare_counts(void) {
    uint64_t out[LL_MAX_RANKS * 2], in[LL_MAX_RANKS * 2], sum = 0, word;
    for (int to = 0; to < check_nranks; to++) {
        out[2 * to] = atomic_exchange(&messages_sent[to], 0);
        out[2 * to + 1] = atomic_exchange(&added[to], 0);
    }
    all_to_all(out, in, 2);
    for (int from = 0; from < check_nranks; from++) {
        /* The last additions and messages may still be on their way. */
        for (double end = ll_now() + 20; atomic_load(&messages_came[from]) < in[2 * from];) {
            CHECK(ll_now() < end, "%llu messages of %llu came from rank %d",
                  (unsigned long long)atomic_load(&messages_came[from]),
                  (unsigned long long)in[2 * from], from);
            ll_pause(context);
        }
        CHECK(atomic_exchange(&messages_came[from], 0) == in[2 * from],
              "more messages than were sent came from rank %d", from);
        sum += in[2 * from + 1];
    }
    double end = ll_now() + 20;
    do {
        ll_pause(context);
        word = __atomic_load_n((uint64_t *)(void *)memory[LL_ALLOCATED].base, __ATOMIC_ACQUIRE);
        CHECK(word <= sum && ll_now() < end, "the common word is %llu, not %llu",
              (unsigned long long)word, (unsigned long long)sum);
    } while (word != sum);
}

static void run(void) {
    pthread_t handles[THREADS_MOST];
    round_number++;
    context = ll_open(MPI_COMM_WORLD);
    LL_GOOD(tug_am_register(context, HANDLER, on_message, NULL));
    for (int kind = 0; kind < LL_KINDS; kind++)
        ll_make(context, &memory[kind], (enum ll_kind)kind, area_at(check_nranks, 0));
    ll_make(context, &staging, (enum ll_kind)(round_number % 2),
            (size_t)nthreads * (size_t)check_nranks * LL_KINDS * AREA);
    for (int i = 0; i < nthreads; i++)
        prepare(&threads[i], i);
    ll_barrier(context);
    double start = ll_now();
    for (int i = 0; i < nthreads; i++)
        CHECK(pthread_create(&handles[i], NULL, work, &threads[i]) == 0, "no thread");
    for (int i = 0; i < nthreads; i++)
        pthread_join(handles[i], NULL);
    ll_barrier(context);
    if (check_rank == 0)
        printf("%d threads, %d operations each, %.2f s, no room or no free block %llu times\n",
               nthreads, noperations, ll_now() - start, (unsigned long long)atomic_load(&retries));
    compare_counts();
    ll_barrier(context);
    compare_areas();
    for (int i = 0; i < nthreads; i++)
        free(threads[i].shadow);
    for (int kind = 0; kind < LL_KINDS; kind++)
        ll_end(context, &memory[kind]);
    ll_end(context, &staging);
    ll_close(&context);
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "llcl_threads");
    ll_pace();
    if (argc > 1)
        nthreads = atoi(argv[1]);
    if (argc > 2)
        noperations = atoi(argv[2]);
    CHECK(nthreads >= 1 && nthreads <= THREADS_MOST, "1 to %d threads", THREADS_MOST);
    if (noperations == 0)
        noperations = ll_rounds(20000, 2000) / nthreads;
    for (int kind = 0; kind < LL_KINDS; kind++)
        run(); /* the sources' memory is of this kind and of that */
    return check_end();
}
