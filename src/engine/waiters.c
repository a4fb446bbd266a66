#include "engine/waiters.h"

#include <sched.h>

#include "base/stats.h"
#include "base/trace.h"

#define BUSY 8u /* a thread has the list; beside TUG_LOOK_* */

/* The thread reads the word, and may go from here on: to wake a dead bell wakes no thread. */
static void ring(struct tug_waiter *wait) {
    if (tug_bell_ring(&((struct tug_parked *)wait)->bell, false)) {
        tug_stat_add(TUG_STAT_WAKES, 1);
        tug_trace_count(TUG_TRACE_WAITER_WAKES, 1);
    }
}

static bool is_parked(const struct tug_waiter *wait) {
    return wait->wake == ring;
}

/* A thread that is woken for its condition, or for the baton, and on which others rely then. */
static bool is_single(const struct tug_waiter *wait) {
    return is_parked(wait) && wait->done != NULL;
}

#define NOT_SINGLY ((uint64_t)1 << 32)

static uint64_t size_of(const struct tug_waiter *wait) {
    return is_single(wait) ? 1 : 1 + NOT_SINGLY;
}

static void push(struct tug_waiters *waiters, struct tug_waiter *wait) {
    atomic_fetch_add(&waiters->out, size_of(wait)); /* seq_cst, before the caller's second look */
    struct tug_waiter *next = atomic_load_explicit(&waiters->pushed, memory_order_relaxed);
    do
        wait->next = next;
    while (!atomic_compare_exchange_weak(&waiters->pushed, &next, wait)); /* releases *wait */
}

/* What was pushed goes to the end of the list: threads that are woken singly have their turns. */
static void take_in(struct tug_waiters *waiters) {
    struct tug_waiter **end = &waiters->first;
    while (*end != NULL)
        end = &(*end)->next;
    *end = atomic_exchange(&waiters->pushed, NULL);
}

static struct tug_waiter *take_out(struct tug_waiters *waiters, struct tug_waiter **at) {
    struct tug_waiter *wait = *at;
    *at = wait->next;
    atomic_fetch_sub(&waiters->out, size_of(wait));
    return wait;
}

static bool is_one_coming(struct tug_waiters *waiters) {
    return atomic_load(&waiters->coming) > 0;
}

static void wake(struct tug_waiters *waiters, struct tug_waiter **at) {
    struct tug_waiter *wait = take_out(waiters, at);
    if (is_single(wait))
        atomic_fetch_add(&waiters->coming, 1);
    else if (!is_parked(wait))
        atomic_fetch_sub(&waiters->suspended, 1);
    wait->wake(wait);
}

static void wake_heir(struct tug_waiters *waiters) {
    struct tug_waiter **at = &waiters->first;
    while (*at != NULL && !is_single(*at))
        at = &(*at)->next;
    if (*at != NULL && !is_one_coming(waiters))
        wake(waiters, at);
}

/* One round. */
static bool look_round(struct tug_waiters *waiters, unsigned how) {
    bool left = false;
    take_in(waiters);
    for (struct tug_waiter **at = &waiters->first; *at != NULL;) {
        struct tug_waiter *wait = *at;
        const bool held_back = !(how & TUG_LOOK_ALL) && is_single(wait) && is_one_coming(waiters);
        left |= held_back;
        if (held_back || (wait->done != NULL && !wait->done(wait->argument)))
            at = &wait->next;
        else
            wake(waiters, at);
    }
    if (how & TUG_LOOK_HEIR)
        wake_heir(waiters);
    return !left;
}

/* Rounds until no more looks are asked for; then puts the list down. */
static bool look_on(struct tug_waiters *waiters) {
    bool all = true;
    uint32_t busy;
    do {
        /* seq_cst: what was true and pushed before a look was asked for is seen in its round */
        const uint32_t how = atomic_exchange(&waiters->turn, BUSY);
        if (how != BUSY)
            all = look_round(waiters, how);
        busy = BUSY;
        /* releases the list to the next thread that looks */
    } while (!atomic_compare_exchange_strong(&waiters->turn, &busy, 0));
    return all;
}

bool tug_waiters_look(struct tug_waiters *waiters, unsigned how) {
    const uint64_t out = atomic_load(&waiters->out);
    if (!(how & TUG_LOOK_ALL) && out < NOT_SINGLY && is_one_coming(waiters))
        return out == 0; /* no wait would be woken */
    return !(atomic_fetch_or(&waiters->turn, BUSY | how) & BUSY) && look_on(waiters);
}

void tug_waiters_add(struct tug_waiters *waiters, struct tug_waiter *wait) {
    atomic_fetch_add(&waiters->suspended, 1);
    push(waiters, wait);
}

uint32_t tug_waiters_park(struct tug_waiters *waiters, struct tug_parked *parked,
                          bool (*done)(void *), void *argument) {
    *parked = (struct tug_parked){.wait = {.done = done, .argument = argument, .wake = ring}};
    const uint32_t key = tug_bell_prepare(&parked->bell);
    push(waiters, &parked->wait);
    return key;
}

/* acquire: the thread that has rung reads the wait no more */
static bool was_rung(const struct tug_parked *parked, uint32_t key) {
    return atomic_load_explicit(&parked->bell.word, memory_order_acquire) != key;
}

static void leave_list(struct tug_waiters *waiters, const struct tug_waiter *wait) {
    struct tug_waiter **at = &waiters->first;
    take_in(waiters);
    while (*at != wait)
        at = &(*at)->next;
    (void)take_out(waiters, at);
}

void tug_waiters_unpark(struct tug_waiters *waiters, struct tug_parked *parked, uint32_t key) {
    bool listed = true;
    while (listed && !was_rung(parked, key)) {
        uint32_t none = 0;
        if (!atomic_compare_exchange_strong(&waiters->turn, &none, BUSY)) {
            sched_yield();
            continue;
        }
        if (!was_rung(parked, key)) {
            leave_list(waiters, &parked->wait);
            listed = false;
        }
        (void)look_on(waiters);
    }
    if (listed && is_single(&parked->wait))
        atomic_fetch_sub(&waiters->coming, 1);
}
