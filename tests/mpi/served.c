/*
 * served: what a process of a node knows of another's attention (llcl/llcl.h: tug_peer_serves),
 * while that one computes, waits, is in and out of the library, and has long waited and sleeps.
 *
 * Linked with the library's inside. Rank 0 looks, rank 1 does what a word in memory of both says.
 */
#include "check.h"
#include "llcl/llcl.h"
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#define WAITS 20

/* Step 2 * n + 1 is the n-th wait, then come those in and out; what is between computes. */
enum { COMPUTE, WAIT, FLUSH = 2 * WAITS + 1, SLEEP = FLUSH + 2 * WAITS, END };

static _Atomic int *wanted, *reached; /* in memory of both */
static MPI_Win created;

static bool is_over(void *step) {
    return atomic_load(wanted) > *(int *)step;
}

static void begin(int step) {
    while (atomic_load(wanted) < step)
        sched_yield();
    atomic_store(reached, step);
}

static void compute(int step) {
    begin(step);
    while (!is_over(&step))
        sched_yield();
}

static void wait(tug_context *context, int step) {
    begin(step);
    tug_wait(context, is_over, &step);
}

/* In and out, with nothing to wait for. */
static void flush(int step) {
    begin(step);
    while (!is_over(&step))
        MUST(MPI_Win_flush(0, created));
}

static void go_on(int step) {
    atomic_store(wanted, step);
    while (atomic_load(reached) < step)
        sched_yield();
}

/* In so many looks, 50 us apart. */
static int count_served(const tug_context *context, int looks) {
    int served = 0;
    for (int i = 0; i < looks; i++) {
        served += tug_peer_serves(context, 1);
        usleep(50);
    }
    return served;
}

/* It does one thing and then computes, again and again. */
static void look_often(const tug_context *context, int step, const char *what) {
    int seen = 0; /* it may have no core, on a busy machine */
    for (int i = 0; i < WAITS; i++) {
        go_on(step + 2 * i);
        for (int k = 0; k < 10000 && !tug_peer_serves(context, 1); k++)
            usleep(50);
        seen += tug_peer_serves(context, 1) || count_served(context, 1000) > 0;
        go_on(step + 2 * i + 1);
        usleep(50); /* who has just been here is taken to be back soon */
        CHECK(count_served(context, 100) == 0, "a process that computes again looks for packets");
    }
    CHECK(seen > 0, "a process that %s does not look for packets", what);
}

static void look(const tug_context *context) {
    go_on(COMPUTE);
    CHECK(count_served(context, 1000) == 0, "a process that computes looks for packets");
    look_often(context, WAIT, "waits");
    look_often(context, FLUSH, "flushes");
    go_on(SLEEP);
    sleep(1);
    const int served = count_served(context, 10000);
    CHECK(served < 2000, "one that has long slept looks in %d of 10000 cases", served);
    go_on(END);
}

/* Memory of both processes. */
static MPI_Win share(void) {
    MPI_Win win;
    MPI_Aint bytes;
    int unit;
    MUST(MPI_Win_allocate_shared(check_rank == 0 ? 4096 : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                                 &wanted, &win));
    MUST(MPI_Win_shared_query(win, 0, &bytes, &unit, &wanted));
    reached = wanted + 1;
    if (check_rank == 0) {
        atomic_store(wanted, -1);
        atomic_store(reached, -1);
    }
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    return win;
}

int main(int argc, char **argv) {
    static char memory[4096];
    tug_context *context = NULL;
    check_begin(&argc, &argv, "served");
    MPI_Win win = share();
    CHECK(tug_context_create(MPI_COMM_WORLD, &context) == 0, "no context");
    MUST(MPI_Win_create(memory, sizeof(memory), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &created));
    MUST(MPI_Win_lock_all(MPI_MODE_NOCHECK, created));
    if (check_rank == 0) {
        look(context);
    } else if (check_rank == 1) {
        compute(COMPUTE);
        for (int i = 0; i < WAITS; i++) {
            wait(context, WAIT + 2 * i);
            compute(WAIT + 2 * i + 1);
        }
        for (int i = 0; i < WAITS; i++) {
            flush(FLUSH + 2 * i);
            compute(FLUSH + 2 * i + 1);
        }
        wait(context, SLEEP);
        begin(END);
    }
    MUST(MPI_Win_unlock_all(created));
    MUST(MPI_Win_free(&created));
    CHECK(tug_context_free(&context) == 0, "the context is not freed");
    MUST(MPI_Win_free(&win));
    return check_end();
}
