#include "engine/waiters.h"

#include "base/stats.h"
#include "base/trace.h"

/* beside TUG_LOOK_* in `turn` */
#define LEAVING 16u /* take out the threads that are leaving */
#define BUSY 32u    /* a thread has the list */
#define PARKED ((unsigned)TUG_LOOK_SINGLY | TUG_LOOK_ALL)

/* what a wait adds to `out` */
#define ONE_SHARED ((uint64_t)1)
#define ONE_PRIVATE ((uint64_t)1 << 16)
#define ONE_SUSPENDED ((uint64_t)1 << 32)
#define PRIVATE(out) ((out) >> 16 & UINT16_MAX)

/* The thread may go when the word has changed. The call of the kernel may then wake another sleeper
 * at this address for nothing, which every user of a futex bears. */
static void ring(struct tug_waiter *wait) {
    if (tug_bell_ring(&((struct tug_parked *)wait)->bell, false)) {
        tug_stat_add(TUG_STAT_WAKES, 1);
        tug_trace_count(TUG_TRACE_WAITER_WAKES, 1);
    }
}

static bool is_parked(const struct tug_waiter *wait) {
    return wait->wake == ring;
}

static uint64_t one_of(const struct tug_waiter *wait) {
    if (!is_parked(wait))
        return ONE_SUSPENDED;
    return wait->done != NULL ? ONE_SHARED : ONE_PRIVATE;
}

void tug_waiters_add(struct tug_waiters *waiters, struct tug_waiter *wait) {
    atomic_fetch_add(&waiters->out, one_of(wait)); /* seq_cst, before the caller's second look */
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
    atomic_fetch_sub(&waiters->out, one_of(wait));
    return wait;
}

/* It no longer counts when it is woken: a thread that finds no wait left may remove the hooks of
 * user-level threads. */
static void wake(struct tug_waiters *waiters, struct tug_waiter **at) {
    struct tug_waiter *wait = take_out(waiters, at);
    wait->wake(wait);
}

static bool is_one_coming(struct tug_waiters *waiters) {
    return atomic_load(&waiters->coming) > 0;
}

/* The same of a parked wait with a done(): its thread is coming. */
static void call(struct tug_waiters *waiters, struct tug_waiter **at) {
    ((struct tug_parked *)*at)->coming = true;
    atomic_fetch_add(&waiters->coming, 1);
    wake(waiters, at);
}

static void call_heir(struct tug_waiters *waiters) {
    struct tug_waiter **at = &waiters->first;
    while (*at != NULL && one_of(*at) != ONE_SHARED)
        at = &(*at)->next;
    if (*at != NULL && !is_one_coming(waiters))
        call(waiters, at);
}

static bool is_leaving(const struct tug_waiter *wait) {
    return is_parked(wait) && atomic_load(&((const struct tug_parked *)wait)->leaving);
}

/* One round. False: some were held back. */
static bool look_round(struct tug_waiters *waiters, unsigned how) {
    bool all = true;
    take_in(waiters);
    for (struct tug_waiter **at = &waiters->first; *at != NULL;) {
        struct tug_waiter *wait = *at;
        const bool shared = one_of(wait) == ONE_SHARED;
        const bool looked_at = how & (is_parked(wait) ? PARKED : TUG_LOOK_SUSPENDED);
        const bool held_back =
            looked_at && shared && !(how & TUG_LOOK_ALL) && is_one_coming(waiters);
        all &= !held_back;
        if ((how & LEAVING) && is_leaving(wait))
            wake(waiters, at);
        else if (!looked_at || held_back || (wait->done != NULL && !wait->done(wait->argument)))
            at = &wait->next;
        else if (shared)
            call(waiters, at);
        else
            wake(waiters, at);
    }
    if (how & TUG_LOOK_HEIR)
        call_heir(waiters);
    return all;
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
    if ((how & (PARKED | TUG_LOOK_SUSPENDED)) == TUG_LOOK_SINGLY && PRIVATE(out) == 0 &&
        is_one_coming(waiters))
        return (uint32_t)out == 0; /* no wait would be woken */
    return !(atomic_fetch_or(&waiters->turn, BUSY | how) & BUSY) && look_on(waiters);
}

uint32_t tug_waiters_park(struct tug_waiters *waiters, struct tug_parked *parked,
                          bool (*done)(void *), void *argument) {
    *parked = (struct tug_parked){.wait = {.done = done, .argument = argument, .wake = ring}};
    const uint32_t key = tug_bell_prepare(&parked->bell);
    tug_waiters_add(waiters, &parked->wait);
    return key;
}

/* acquire: the thread that has rung reads the wait no more */
static bool was_rung(const struct tug_parked *parked, uint32_t key) {
    return atomic_load_explicit(&parked->bell.word, memory_order_acquire) != key;
}

/* The caller has the list. */
static void leave_list(struct tug_waiters *waiters, const struct tug_waiter *wait) {
    struct tug_waiter **at = &waiters->first;
    take_in(waiters);
    while (*at != wait)
        at = &(*at)->next;
    (void)take_out(waiters, at);
}

/* By this thread, or else by the one that has the list: that one rings. */
static void leave(struct tug_waiters *waiters, struct tug_parked *parked, uint32_t key) {
    uint32_t none = 0;
    if (atomic_compare_exchange_strong(&waiters->turn, &none, BUSY)) {
        if (!was_rung(parked, key))
            leave_list(waiters, &parked->wait);
        (void)look_on(waiters);
        return;
    }
    atomic_store(&parked->leaving, true); /* seq_cst, before the look is asked for */
    (void)tug_waiters_look(waiters, LEAVING);
    while (!was_rung(parked, key))
        (void)tug_bell_wait(&parked->bell, key, -1, false);
}

void tug_waiters_unpark(struct tug_waiters *waiters, struct tug_parked *parked, uint32_t key) {
    if (!was_rung(parked, key))
        leave(waiters, parked, key);
    if (parked->coming)
        atomic_fetch_sub(&waiters->coming, 1);
}
