/* Helping and waiting. */
#include <sched.h>
#include <time.h>

#include "llcl/private.h"

/* What a waiter waits for can come true outside of the engine (on mapped memory operations end on
 * the caller's thread): the longest sleep before it looks again. */
#define NAP_NS 1000000

struct look {
    tug_context *context;
    bool moved;
};

static void poll_direct(void *argument) {
    struct look *look = argument;
    look->moved = tug_context_poll(look->context);
}

void tug_progress(tug_context *context) {
    tug_company_pause();
    atomic_store_explicit(&context->fabric.flush_wanted, true, memory_order_relaxed);
    if (context->drive == TUG_DRIVE_ENGINE) {
        tug_engine_help();
        return;
    }
    struct look look = {.context = context};
    tug_context_call(context, poll_direct, &look);
}

static void wait_direct(tug_context *context, bool (*done)(void *), void *d) {
    const struct timespec nap = {.tv_nsec = 50000};
    struct tug_backoff backoff = {0};
    while (!done(d)) {
        struct look look = {.context = context};
        tug_context_call(context, poll_direct, &look);
        if (look.moved)
            tug_backoff_reset(&backoff);
        else if (!tug_backoff_step(&backoff))
            (void)nanosleep(&nap, NULL);
    }
}

static inline void wait_for(tug_context *context, bool (*done)(void *d), void *d,
                            void (*engine_wait)(bool (*)(void *), void *, int64_t)) {
    tug_company_pause();
    if (done(d)) {
        if (context->drive == TUG_DRIVE_ENGINE)
            tug_engine_pass();
        return;
    }
    atomic_store_explicit(&context->fabric.flush_wanted, true, memory_order_relaxed);
    if (context->drive == TUG_DRIVE_ENGINE)
        engine_wait(done, d, NAP_NS);
    else
        wait_direct(context, done, d);
}

void tug_wait(tug_context *context, bool (*done)(void *d), void *d) {
    wait_for(context, done, d, tug_engine_wait);
}

/* ---- counters ---- */

void tug_counter_add(void *pointer, int status) {
    struct tug_counter *counter = pointer;
    int none = 0;
    if (__builtin_expect(status != 0, 0))
        (void)__atomic_compare_exchange_n(&counter->status, &none, status, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED);
    /* seq_cst: waiters set WAIT before they look, see tug_engine_wait() */
    (void)__atomic_fetch_add(&counter->completed, 1, __ATOMIC_SEQ_CST);
}

void tug_counter_add_many(void *pointer, uint64_t n) {
    struct tug_counter *counter = pointer;
    (void)__atomic_fetch_add(&counter->completed, n, __ATOMIC_SEQ_CST); /* as above */
}

uint64_t tug_counter_value(const struct tug_counter *counter) {
    return __atomic_load_n(&counter->completed, __ATOMIC_SEQ_CST);
}

struct target {
    const struct tug_counter *counter;
    uint64_t target;
};

static bool reached(void *argument) {
    const struct target *target = argument;
    return tug_counter_value(target->counter) >= target->target;
}

int tug_counter_wait(tug_context *context, struct tug_counter *counter, uint64_t target) {
    struct target what = {counter, target};
    wait_for(context, reached, &what, tug_engine_wait_public);
    return __atomic_load_n(&counter->status, __ATOMIC_RELAXED);
}
