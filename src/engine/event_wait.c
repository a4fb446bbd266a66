#include "engine/event_wait.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/log.h"
#include "base/sockets.h"

enum { NEWS, BELL };

static bool watch(int set, int descriptor, uint32_t how, uint32_t what) {
    struct epoll_event event = {.events = how, .data.u64 = what};
    return epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

/* An epoll set is readable while it has events. ppoll() has a finer limit than epoll_wait(), and
 * epoll_pwait2() is not on every kernel and in every container. */
static int await(int set, struct epoll_event *events, int most, int64_t limit_ns) {
    const struct timespec limit = {.tv_sec = limit_ns / 1000000000,
                                   .tv_nsec = limit_ns % 1000000000};
    struct pollfd readable = {.fd = set, .events = POLLIN};
    return ppoll(&readable, 1, &limit, NULL) > 0 ? epoll_wait(set, events, most, 0) : 0;
}

void tug_lookout_open(struct tug_lookout *lookout) {
    lookout->set = tug_own_keep(epoll_create1(EPOLL_CLOEXEC)).number;
    lookout->bell = tug_own_keep(tug_descriptor_bell());
    atomic_store(&lookout->sees, false);
    atomic_store(&lookout->ours, 0);
    atomic_store(&lookout->lost, false);
    if (lookout->set >= 0 && lookout->bell.number >= 0 &&
        watch(lookout->set, lookout->bell.number, EPOLLIN, BELL))
        return;
    tug_descriptor_close(lookout->set);
    lookout->set = -1;
    tug_own_close(&lookout->bell);
}

/* Is the set still ours? If not, the lookout is of no more use. */
static bool holds(struct tug_lookout *lookout) {
    if (lookout->set < 0 || atomic_load(&lookout->lost))
        return false;
    if (tug_own_set(lookout->set, &lookout->bell, EPOLLIN, BELL))
        return true;
    atomic_store(&lookout->lost, true);
    atomic_store(&lookout->sees, false);
    atomic_store(&lookout->ours, 0);
    return false;
}

void tug_lookout_close(struct tug_lookout *lookout) {
    if (holds(lookout))
        tug_descriptor_close(lookout->set);
    atomic_store(&lookout->sees, false);
    tug_own_close(&lookout->bell);
    lookout->set = -1;
}

/* ---- what a lookout sees ---- */

static void watch_host(int set, void *d) {
    struct tug_lookout *lookout = d;
    /* one that is watched already is refused */
    if (watch(lookout->set, set, EPOLLIN | EPOLLET, NEWS))
        tug_log(TUG_VERBOSE_DEBUG, "news of the host are watched for at descriptor %d", set);
    atomic_store(&lookout->sees, true);
}

void tug_lookout_scan(struct tug_lookout *lookout) {
    if (holds(lookout))
        tug_sockets_each_set(watch_host, lookout);
}

bool tug_lookout_add(struct tug_lookout *lookout, int descriptor) {
    if (!holds(lookout) || !watch(lookout->set, descriptor, EPOLLIN, NEWS))
        return false;
    atomic_fetch_add(&lookout->ours, 1);
    return true;
}

void tug_lookout_remove(struct tug_lookout *lookout, int descriptor) {
    if (holds(lookout) && epoll_ctl(lookout->set, EPOLL_CTL_DEL, descriptor, NULL) == 0)
        atomic_fetch_sub(&lookout->ours, 1);
}

void tug_lookout_mute(struct tug_lookout *lookout, int descriptor, bool mute) {
    struct epoll_event event = {.events = mute ? 0 : EPOLLIN, .data.u64 = NEWS};
    /* where the set is not ours any more it does not have the descriptor */
    if (lookout->set >= 0)
        (void)epoll_ctl(lookout->set, EPOLL_CTL_MOD, descriptor, &event);
}

/* ---- sleeping there ---- */

bool tug_lookout_sleep(struct tug_lookout *lookout, int64_t limit_ns) {
    struct epoll_event events[8];
    bool news = false;
    if (limit_ns < 0 || limit_ns > TUG_OWN_LOOK_NS)
        limit_ns = TUG_OWN_LOOK_NS;
    const int n = holds(lookout) ? await(lookout->set, events, 8, limit_ns) : 0;
    for (int i = 0; i < n; i++) {
        if (events[i].data.u32 == NEWS)
            news = true;
        else
            tug_own_silence(&lookout->bell);
    }
    return news;
}

void tug_lookout_ring(struct tug_lookout *lookout) {
    tug_own_ring(&lookout->bell);
}

/* ---- sleepers ---- */

/* If the word has not changed, its S was set the whole time: a ringer that clears S also increments
 * the count in the word. */
static void stand(struct tug_sleeper *sleeper, struct tug_bell *bell, uint32_t key) {
    if (sleeper->stands_at == bell && sleeper->stands_with == key) {
        tug_stand_fence(&sleeper->stand);
        return;
    }
    sleeper->stands_at = bell;
    sleeper->stands_with = key;
    tug_stand_begin(&sleeper->stand);
}

struct tug_prepared tug_sleeper_prepare(struct tug_sleeper *sleeper, struct tug_bell *bell,
                                        bool shared) {
    if (bell == NULL)
        bell = &sleeper->own, shared = false;
    /* seq_cst, before the sleeper's second look: a ringer that reads the old bell has made its
     * change before that look */
    atomic_store(&sleeper->asleep_on, (uintptr_t)bell | shared);
    const uint32_t key = tug_bell_prepare(bell);
    if (shared)
        stand(sleeper, bell, key);
    return (struct tug_prepared){bell, key, shared};
}

enum tug_trace_why tug_sleeper_sleep(struct tug_sleeper *sleeper,
                                     const struct tug_prepared *prepared, bool watch,
                                     int64_t limit_ns) {
    bool news = false;
    if (!watch || prepared->bell != &sleeper->own || !tug_lookout_useful(&sleeper->lookout)) {
        if (prepared->shared)
            limit_ns = tug_stand_limit(&sleeper->stand, limit_ns);
        return tug_bell_wait(prepared->bell, prepared->key, limit_ns, prepared->shared)
                   ? TUG_TRACE_BY_RUNG
                   : TUG_TRACE_BY_LIMIT;
    }
    /* seq_cst, Dekker: pairs with the ringer, which changes the word and then reads this */
    atomic_store(&sleeper->out, true);
    if (atomic_load(&prepared->bell->word) == prepared->key)
        news = tug_lookout_sleep(&sleeper->lookout, limit_ns);
    atomic_store(&sleeper->out, false);
    if (news)
        return TUG_TRACE_BY_NEWS;
    /* relaxed: nothing hangs on it */
    return atomic_load_explicit(&prepared->bell->word, memory_order_relaxed) != prepared->key
               ? TUG_TRACE_BY_RUNG
               : TUG_TRACE_BY_LIMIT;
}

bool tug_sleeper_ring(struct tug_sleeper *sleeper) {
    atomic_fetch_add(&sleeper->ringing, 1);
    uintptr_t where = atomic_load(&sleeper->asleep_on);
    struct tug_bell *bell = (struct tug_bell *)(where & ~(uintptr_t)1); /* NOLINT: tagged pointer */
    bool rang = bell != NULL && tug_bell_ring(bell, where & 1);
    if (rang && atomic_load(&sleeper->out))
        tug_lookout_ring(&sleeper->lookout);
    atomic_fetch_sub(&sleeper->ringing, 1);
    return rang;
}

void tug_sleeper_forget(struct tug_sleeper *sleeper, struct tug_bell *bell) {
    /* seq_cst on both sides: a ringer that read the old bell is counted in ringing */
    uintptr_t where = atomic_load(&sleeper->asleep_on);
    if ((where & ~(uintptr_t)1) == (uintptr_t)bell)
        (void)atomic_compare_exchange_strong(&sleeper->asleep_on, &where, (uintptr_t)&sleeper->own);
    while (atomic_load(&sleeper->ringing) > 0)
        sched_yield();
}
