/* Helping and waiting. */
#include "base/settings.h"
#include "engine/waiters.h"
#include "llcl/private.h"
#include "transport/lone.h"
#include "transport/packets/packets.h"

/* What a waiter waits for can come true outside of the engine (on mapped memory operations end on
 * the caller's thread): the longest sleep before it looks again. */
#define NAP_NS 2000000

static void execute_ask(struct tug_command *command) {
    tug_context_ask(command->payload.pointers[0]);
}

/* Has what rests asked for. As a command, since whoever drives sleeps as if nothing was out. */
static void ask(tug_context *context) {
    struct tug_ticket ticket;
    if (tug_engine_enter_helping(&ticket) == TUG_ENTRY_BATON) {
        tug_context_ask(context);
        tug_engine_leave();
        return;
    }
    ticket.cell->execute = execute_ask;
    ticket.cell->payload.pointers[0] = context;
    tug_engine_commit(&ticket);
}

void tug_progress(tug_context *context) {
    tug_burst_end();
    if (atomic_load_explicit(&context->fabric.resting, memory_order_relaxed) > 0)
        ask(context);
    atomic_store_explicit(&context->fabric.flush_wanted, true, memory_order_relaxed);
    tug_engine_poll();
}

/* ---- by user-level threads ---- */

static struct tug_wait_hooks hooks;
static bool hooked;

struct user_thread {
    struct tug_waiter wait; /* first */
    void *self;
};

int tug_wait_hooks_set(const struct tug_wait_hooks *wanted) {
    if (wanted != NULL && (wanted->self == NULL || wanted->block == NULL || wanted->wake == NULL))
        return TUG_ERR_INVALID;
    if (tug_settings.progress == TUG_PROGRESS_CALLER)
        return TUG_ERR_UNSUPPORTED;
    if (tug_engine_has_suspended())
        return TUG_ERR_STATE;
    hooked = wanted != NULL;
    if (hooked)
        hooks = *wanted;
    return 0;
}

static void wake(struct tug_waiter *wait) {
    hooks.wake(hooks.d, ((struct user_thread *)wait)->self);
}

/* False: the caller is no user-level thread. */
static bool suspend(bool (*done)(void *d), void *d) {
    struct user_thread thread = {.self = hooks.self(hooks.d)};
    if (thread.self == NULL)
        return false;
    while (!done(d)) {
        thread.wait = (struct tug_waiter){.done = done, .argument = d, .wake = wake};
        tug_engine_suspend(&thread.wait);
        hooks.block(hooks.d, thread.self);
    }
    return true;
}

/* ---- waiting ---- */

/* ends: done() depends on the end of an operation; operations of this context do not rest during
 * the wait. */
static inline void wait_for(tug_context *context, bool (*done)(void *d), void *d, unsigned how,
                            bool ends) {
    struct tug_fabric *fabric = &context->fabric;
    if (done(d)) {
        tug_burst_end();
        tug_engine_pass();
        return;
    }
    if (ends) {
        /* seq_cst: pairs with the thread that lets something rest, and looks whether one waits */
        (void)atomic_fetch_add(&fabric->awaiting, 1);
        if (atomic_load(&fabric->resting) > 0)
            ask(context);
    }
    tug_burst_end();
    if (done(d)) {
        tug_engine_pass();
    } else {
        atomic_store_explicit(&fabric->flush_wanted, true, memory_order_relaxed);
        if (__builtin_expect(!hooked, 1) || !(how & TUG_WAIT_PUBLIC) || !suspend(done, d))
            tug_engine_wait(done, d, NAP_NS, how);
    }
    if (ends)
        (void)atomic_fetch_sub_explicit(&fabric->awaiting, 1, memory_order_relaxed);
}

bool tug_context_test(tug_context *context, bool (*done)(void *d), void *d) {
    if (!done(d)) {
        tug_progress(context);
        return false;
    }
    tug_burst_end();
    return true;
}

struct look {
    tug_context *context;
    bool (*done)(void *d);
    void *d;
};

/* Answers of the node (lone.h) are taken without the baton, which another may have. */
static bool collect_and_look(void *pointer) {
    const struct look *look = pointer;
    (void)tug_lone_collect(&look->context->fabric);
    return look->done(look->d);
}

void tug_wait(tug_context *context, bool (*done)(void *d), void *d) {
    if (__builtin_expect(!hooked, 1)) {
        tug_context_wait(context, done, d, 0);
        return;
    }
    wait_for(context, done, d, TUG_WAIT_PUBLIC, true);
    if (hooks.self(hooks.d) == NULL)
        tug_engine_comes_back();
}

void tug_context_wait(tug_context *context, bool (*done)(void *d), void *d, unsigned how) {
    struct look look = {context, done, d};
    if (context->fabric.lone != NULL)
        wait_for(context, collect_and_look, &look, how, true);
    else
        wait_for(context, done, d, how, true);
}

void tug_context_replies(tug_context *context, bool soon) {
    atomic_store_explicit(&context->fabric.replies, soon, memory_order_relaxed);
}

/* ---- lost processes ---- */

uint32_t tug_context_lost(const tug_context *context) {
    /* acquire: pairs with the release in tug_stream_lose() */
    return atomic_load_explicit(&context->fabric.lost, memory_order_acquire);
}

struct loss {
    const tug_context *context;
    uint32_t process;
    bool lost;
};

static void look_for_loss(void *argument) {
    struct loss *loss = argument;
    loss->lost = tug_packets_has_lost(loss->context->fabric.packets, loss->process);
}

bool tug_context_has_lost(tug_context *context, int process) {
    struct loss loss = {.context = context, .process = (uint32_t)process};
    tug_engine_call(look_for_loss, &loss);
    return loss.lost;
}

/* ---- counters ---- */

void tug_counter_add(void *pointer, int status) {
    struct tug_counter *counter = pointer;
    int none = 0;
    if (__builtin_expect(status != 0, 0))
        (void)__atomic_compare_exchange_n(&counter->status, &none, status, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED);
    /* seq_cst: threads that wait push their wait before they look */
    (void)__atomic_fetch_add(&counter->completed, 1, __ATOMIC_SEQ_CST);
}

void tug_counter_add_many(void *pointer, uint64_t n) {
    struct tug_counter *counter = pointer;
    (void)__atomic_fetch_add(&counter->completed, n, __ATOMIC_SEQ_CST); /* as above */
}

uint64_t tug_counter_value(const struct tug_counter *counter) {
    return __atomic_load_n(&counter->completed, __ATOMIC_SEQ_CST);
}

bool tug_counter_reached(void *argument) {
    const struct tug_counter_goal *goal = argument;
    return tug_counter_value(goal->counter) >= goal->value;
}

int tug_counter_wait(tug_context *context, struct tug_counter *counter, uint64_t target) {
    struct tug_counter_goal goal = {counter, target};
    wait_for(context, tug_counter_reached, &goal, TUG_WAIT_PUBLIC, true);
    return __atomic_load_n(&counter->status, __ATOMIC_RELAXED);
}

/* ---- signals ---- */

uint64_t tug_signal_value(const uint64_t *signal) {
    return __atomic_load_n(signal, __ATOMIC_SEQ_CST); /* as counters */
}

struct signal_goal {
    const uint64_t *signal;
    uint64_t least;
};

static bool signal_reached(void *argument) {
    const struct signal_goal *goal = argument;
    return tug_signal_value(goal->signal) >= goal->least;
}

void tug_signal_wait(tug_context *context, const uint64_t *signal, uint64_t least) {
    struct signal_goal goal = {signal, least};
    wait_for(context, signal_reached, &goal, TUG_WAIT_PUBLIC, false);
}
