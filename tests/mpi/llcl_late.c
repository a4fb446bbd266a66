/*
 * llcl_late: writes with a signal whose ends nobody waits for soon.
 *
 * Rank 0 writes to rank 1 again and again; rank 1 waits for each signal and finds the data in
 * place. The ends come when they are asked for: by a wait for them, by one that began before the
 * operation, by looks (tug_progress()), by the end of the memory, by the end of the context. With a
 * number as its argument: so many writes to a rank that computes, each when the one before has
 * come. llcl_late.sh counts what that has cost.
 */
#include "llcl_check.h"
#include <fcntl.h>
#include <pthread.h>

enum { ROUNDS = 2000, SLOTS = 8, PLACE = 1 << 16, CAME = SLOTS * PLACE, BYTES = CAME + 8 };

static tug_context *context;
static struct ll_memory remote, local;
static struct tug_counter ends;
static uint64_t started;  /* by this process, in all */
static uint64_t expected; /* signals at this one */

static uint64_t *came(void) {
    return (uint64_t *)(remote.base + CAME);
}

/* `bytes` bytes for rank 1, with the number of the write in front. */
static void write_one(size_t bytes) {
    const size_t at = started % SLOTS * PLACE;
    memcpy(local.base + at, &started, sizeof started);
    struct tug_write_signal_params p = {.dest_proc = 1,
                                        .dest_raddr = {&remote.keys[1], at},
                                        .src_laddr = {local.registration, at},
                                        .size_in_bytes = bytes,
                                        .signal_raddr = {&remote.keys[1], CAME},
                                        .value = 1,
                                        .on_complete = {tug_counter_add, &ends},
                                        .late = true};
    LL_TRY(context, tug_try_write_signal_async(context, &p));
    started++;
}

static void take_one(void) {
    uint64_t number;
    tug_signal_wait(context, came(), expected + 1);
    memcpy(&number, remote.base + expected % SLOTS * PLACE, sizeof number);
    CHECK(number >= expected && (number - expected) % SLOTS == 0, "write %d has the data of %d",
          (int)expected, (int)number);
    expected++;
}

/* What is long stays where it is until it has gone. */
static void write_many(size_t bytes, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        if (check_rank == 1)
            take_one();
        if (check_rank != 0)
            continue;
        if (bytes > 8 && i % SLOTS == 0)
            LL_GOOD(tug_counter_wait(context, &ends, started));
        write_one(bytes);
    }
    ll_barrier(context);
}

/* A word that both have, without the library: the nodes are not real ones. */
static _Atomic uint64_t *shared_word(void) {
    char name[] = "/tmp/llcl_late.XXXXXX";
    int file = check_rank == 0 ? mkstemp(name) : -1;
    CHECK(check_rank != 0 || ftruncate(file, 4096) == 0, "no file");
    MUST(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (check_rank != 0)
        file = open(name, O_RDWR);
    void *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(file >= 0 && word != MAP_FAILED, "no shared memory");
    close(file);
    check_barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        unlink(name);
    return word;
}

/* Nobody waits in the library, or in the host, meanwhile. */
static void write_in_step(uint64_t n) {
    _Atomic uint64_t *taken = shared_word();
    for (uint64_t i = 0; i < n; i++) {
        if (check_rank == 0)
            write_one(8);
        while (check_rank == 0 ? atomic_load(taken) <= i : tug_signal_value(came()) <= i)
            sched_yield();
        if (check_rank == 1)
            atomic_store(taken, i + 1);
    }
    munmap((void *)taken, 4096);
}

static void all_come(const char *how) {
    CHECK(tug_counter_value(&ends) == started && ends.status == 0, "%s: %d ends of %d, %s", how,
          (int)tug_counter_value(&ends), (int)started, tug_strerror(ends.status));
}

static void *wait_for_one(void *goal) {
    LL_GOOD(tug_counter_wait(context, &ends, *(uint64_t *)goal));
    return NULL;
}

/* The waiter is there before what it waits for, and nobody else looks. */
static void wait_ahead(void) {
    pthread_t waiter;
    uint64_t goal = started + 1;
    CHECK(pthread_create(&waiter, NULL, wait_for_one, &goal) == 0, "no thread");
    usleep(20000);
    write_one(8);
    pthread_join(waiter, NULL);
    all_come("a wait that began before");
}

static void ask_in_every_way(void) {
    write_one(8);
    LL_GOOD(tug_counter_wait(context, &ends, started));
    all_come("a wait");
    wait_ahead();
    write_one(8);
    while (tug_counter_value(&ends) < started)
        tug_progress(context);
    all_come("looks");
    write_one(PLACE);
    while (tug_mem_deregister(&local.registration) == TUG_ERR_STATE)
        usleep(1000);
    LL_GOOD(tug_counter_wait(context, &ends, started)); /* where the write was over before */
    all_come("the end of the memory");
}

int main(int argc, char **argv) {
    ll_begin(&argc, &argv, "llcl_late");
    context = ll_open(MPI_COMM_WORLD);
    ll_make(context, &remote, LL_REGISTERED, BYTES);
    ll_make(context, &local, LL_REGISTERED, BYTES);
    *came() = 0;
    ll_barrier(context);
    if (argc > 1) {
        write_in_step((uint64_t)atoi(argv[1]));
    } else {
        write_many(8, ROUNDS);
        write_many(PLACE, ROUNDS / 10);
        if (check_rank == 0)
            ask_in_every_way();
        for (int i = 0; i < 4 && check_rank == 1; i++)
            take_one();
        if (check_rank == 0 && local.registration == NULL)
            CHECK(tug_mem_register(context, local.base, BYTES, &local.registration) == 0, "memory");
        write_many(8, 1); /* which the context's end asks for */
    }
    ll_end(context, &local);
    ll_end(context, &remote);
    ll_close(&context);
    if (check_rank == 0)
        all_come("the end of the context");
    return check_end();
}
