/*
 * llcl_suspend: user-level threads wait by the hooks of tug_wait_hooks_set().
 *
 * A fibre is here a POSIX thread with a condition variable, and the fibres of a worker share its
 * one turn to run: block() passes the turn on, and takes it again after wake(). So a wait that
 * keeps its worker's turn keeps all others from running, as it would with real ones.
 *   - A fibre waits for a signal that a fibre of the same worker asks for later: with hooks that
 *     ends. The signal comes from another process by a plain atomic where memory is mapped, of
 *     which nobody tells the engine.
 *   - Many fibres read, add, call, and compare.
 *   - A thread that is no fibre waits beside them as ever.
 *   - Each block has one wake, and each wake was for one who was to block.
 * Arguments: rounds of each fibre (automatic).
 */
#include "llcl_check.h"
#include <pthread.h>

enum { WORKERS = 2, FIBRES = 12, CALL = 5, WORDS = 64 };

struct worker {
    pthread_mutex_t turn;
};

struct fibre {
    int id;
    struct worker *worker;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool wake;                  /* has come, and was not taken */
    _Atomic unsigned suspended; /* times in block() */
    unsigned char *words;       /* its part of the staging memory */
    size_t at;
};

static struct worker workers[WORKERS];
static struct fibre fibres[FIBRES];
static _Thread_local struct fibre *me;
static _Atomic uint64_t blocks, wakes;
static tug_context *context;
static struct ll_memory memory[LL_KINDS], staging;
static int nrounds;

static void *self(void *d) {
    CHECK(d == workers, "what the hooks are called with");
    return me;
}

static void block(void *d, void *pointer) {
    struct fibre *fibre = pointer;
    (void)d;
    CHECK(fibre == me, "a fibre blocks another");
    atomic_fetch_add(&blocks, 1);
    atomic_fetch_add(&fibre->suspended, 1);
    pthread_mutex_unlock(&fibre->worker->turn);
    pthread_mutex_lock(&fibre->lock);
    while (!fibre->wake)
        pthread_cond_wait(&fibre->woken, &fibre->lock);
    fibre->wake = false;
    pthread_mutex_unlock(&fibre->lock);
    pthread_mutex_lock(&fibre->worker->turn);
    atomic_fetch_sub(&fibre->suspended, 1);
}

static void wake(void *d, void *pointer) {
    struct fibre *fibre = pointer;
    (void)d;
    atomic_fetch_add(&wakes, 1);
    pthread_mutex_lock(&fibre->lock);
    CHECK(!fibre->wake, "a second wake for one block");
    fibre->wake = true;
    pthread_cond_signal(&fibre->woken);
    pthread_mutex_unlock(&fibre->lock);
}

static const struct tug_wait_hooks hooks = {self, block, wake, workers};

static void answer(tug_context *c, struct tug_caller caller, const void *payload, size_t bytes,
                   void *d) {
    uint64_t value;
    (void)d;
    CHECK(bytes == sizeof value, "a call of %zu bytes", bytes);
    memcpy(&value, payload, sizeof value);
    value = ~value;
    tug_answer(c, caller, &value, sizeof value);
}

/* One of each, with a wait for each. */
static void work(struct fibre *fibre, int round) {
    const int peer = (check_rank + fibre->id + round) % check_nranks;
    struct tug_counter counter = {0};
    struct ll_memory *m = &memory[round % LL_KINDS];
    const size_t own = sizeof(uint64_t) * (size_t)(FIBRES * check_rank + fibre->id);
    uint64_t value = (uint64_t)round << 32 | (uint64_t)fibre->id, got = 0;
    memcpy(fibre->words, &value, sizeof value);
    CHECK(ll_write(context, peer, &m->keys[peer], own, staging.registration, fibre->at, 8) == 0,
          "a write");
    CHECK(ll_read(context, peer, &m->keys[peer], own, staging.registration, fibre->at + 8, 8) == 0,
          "a read");
    memcpy(&got, fibre->words + 8, sizeof got);
    CHECK(got == value, "read %llx, not %llx", (unsigned long long)got, (unsigned long long)value);
    struct tug_call_params call = {peer, CALL,         &value, sizeof value,
                                   &got, sizeof value, {0},    {tug_counter_add, &counter}};
    LL_TRY(context, tug_try_call_async(context, &call));
    CHECK(tug_counter_wait(context, &counter, 1) == 0 && got == ~value, "a call");
    CHECK(ll_fetch(context, peer, &m->keys[peer], m->bytes - 8, NULL, 0, 8, TUG_ADD, 1) == 0,
          "an addition");
}

/* The words of a worker's first fibre and its last: the first waits for what the last asks for. */
static uint64_t *signal_of(int worker) {
    return (uint64_t *)(memory[LL_ALLOCATED].base + memory[LL_ALLOCATED].bytes - 64) + worker;
}

static void ask_for_signal(struct fibre *fibre, int worker) {
    const int to = (check_rank + 1) % check_nranks;
    struct ll_memory *m = &memory[LL_ALLOCATED];
    struct tug_counter counter = {0};
    struct tug_write_signal_params p = {
        .dest_proc = to,
        .dest_raddr = {&m->keys[to], 8u * FIBRES * (unsigned)check_nranks},
        .src_laddr = {staging.registration, fibre->at},
        .size_in_bytes = 8,
        .signal_raddr = {&m->keys[to], m->bytes - 64 + 8 * (size_t)worker},
        .value = 1,
        .on_complete = {tug_counter_add, &counter}};
    LL_TRY(context, tug_try_write_signal_async(context, &p));
    CHECK(tug_counter_wait(context, &counter, 1) == 0, "a signal");
}

static void *run(void *argument) {
    struct fibre *fibre = argument;
    const int worker = fibre->id % WORKERS;
    me = fibre;
    pthread_mutex_lock(&fibre->worker->turn);
    if (fibre->id < WORKERS) {
        tug_signal_wait(context, signal_of(worker), 1);
        CHECK(tug_signal_value(signal_of(worker)) == 1, "the signal");
    }
    for (int round = 0; round < nrounds; round++)
        work(fibre, round);
    if (fibre->id >= FIBRES - WORKERS) {
        /* the other has the same worker, and would keep it if its wait did */
        while (atomic_load(&fibres[worker].suspended) == 0 &&
               tug_signal_value(signal_of(worker)) == 0) {
            pthread_mutex_unlock(&fibre->worker->turn);
            sched_yield();
            pthread_mutex_lock(&fibre->worker->turn);
        }
        ask_for_signal(fibre, worker);
    }
    pthread_mutex_unlock(&fibre->worker->turn);
    return NULL;
}

static void run_fibres(void) {
    pthread_t handles[FIBRES];
    for (int i = 0; i < WORKERS; i++)
        pthread_mutex_init(&workers[i].turn, NULL);
    for (int i = 0; i < FIBRES; i++) {
        struct fibre *fibre = &fibres[i];
        *fibre = (struct fibre){.id = i, .worker = &workers[i % WORKERS], .at = (size_t)i * WORDS};
        fibre->words = staging.base + fibre->at;
        pthread_mutex_init(&fibre->lock, NULL);
        pthread_cond_init(&fibre->woken, NULL);
    }
    for (int i = 0; i < FIBRES; i++)
        CHECK(pthread_create(&handles[i], NULL, run, &fibres[i]) == 0, "no thread");
    /* no fibre */
    for (int i = 0; i < 20; i++)
        CHECK(ll_fetch(context, i % check_nranks, &memory[LL_REGISTERED].keys[i % check_nranks],
                       memory[LL_REGISTERED].bytes - 8, NULL, 0, 8, TUG_ADD, 1) == 0,
              "an addition of a thread");
    for (int i = 0; i < FIBRES; i++)
        pthread_join(handles[i], NULL);
}

/* What all have added up, at this process. */
static void compare_sums(void) {
    uint64_t sum = 0, expected = 20, got;
    for (int kind = 0; kind < LL_KINDS; kind++) {
        memcpy(&got, memory[kind].base + memory[kind].bytes - 8, sizeof got);
        sum += got;
    }
    expected += (uint64_t)nrounds * FIBRES;
    expected *= (uint64_t)check_nranks;
    MUST(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == expected, "%llu additions, not %llu", (unsigned long long)sum,
          (unsigned long long)expected);
}

static bool never(void *d) {
    return atomic_load((_Atomic int *)d) != 0;
}

/* A fibre that waits for what only a store makes true. */
static void *run_store(void *argument) {
    struct fibre *fibre = &fibres[0];
    me = fibre;
    pthread_mutex_lock(&fibre->worker->turn);
    tug_wait(context, never, argument);
    pthread_mutex_unlock(&fibre->worker->turn);
    return NULL;
}

static void check_states(void) {
    _Atomic int flag = 0;
    pthread_t handle;
    struct tug_wait_hooks part = hooks;
    part.wake = NULL;
    CHECK(tug_wait_hooks_set(&part) == TUG_ERR_INVALID, "hooks without wake");
    CHECK(pthread_create(&handle, NULL, run_store, &flag) == 0, "no thread");
    while (atomic_load(&fibres[0].suspended) == 0)
        sched_yield();
    CHECK(tug_wait_hooks_set(NULL) == TUG_ERR_STATE, "hooks removed while a fibre waits");
    atomic_store(&flag, 1);
    pthread_join(handle, NULL);
    LL_GOOD(tug_wait_hooks_set(NULL));
    CHECK(ll_fetch(context, check_rank, &memory[0].keys[check_rank], memory[0].bytes - 8, NULL, 0,
                   8, TUG_ADD, 0) == 0,
          "an addition without hooks");
}

static void check_caller(void) {
    CHECK(tug_wait_hooks_set(&hooks) == TUG_ERR_UNSUPPORTED, "hooks with nobody to wake");
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "llcl_suspend");
    ll_pace();
    nrounds = argc > 1 ? atoi(argv[1]) : ll_rounds(200, 20);
    context = ll_open(MPI_COMM_WORLD);
    if (ll_help) {
        check_caller();
        ll_close(&context);
        return check_end();
    }
    LL_GOOD(tug_call_register(context, CALL, answer, NULL));
    for (int kind = 0; kind < LL_KINDS; kind++)
        ll_make(context, &memory[kind], (enum ll_kind)kind,
                8u * FIBRES * (unsigned)check_nranks + 128);
    ll_make(context, &staging, LL_ALLOCATED, FIBRES * WORDS);
    ll_barrier(context);
    LL_GOOD(tug_wait_hooks_set(&hooks));
    run_fibres();
    ll_barrier(context);
    compare_sums();
    check_states();
    CHECK(atomic_load(&blocks) == atomic_load(&wakes), "%llu blocks, %llu wakes",
          (unsigned long long)atomic_load(&blocks), (unsigned long long)atomic_load(&wakes));
    CHECK(atomic_load(&blocks) > 0, "no fibre was blocked");
    if (check_rank == 0)
        printf("%d rounds, %llu waits of fibres\n", nrounds,
               (unsigned long long)atomic_load(&blocks));
    ll_barrier(context);
    for (int kind = 0; kind < LL_KINDS; kind++)
        ll_end(context, &memory[kind]);
    ll_end(context, &staging);
    ll_close(&context);
    return check_end();
}
