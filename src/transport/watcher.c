#include "transport/watcher.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/list.h"
#include "base/signals.h"

#define LOOK_MS ((int)(TUG_OWN_LOOK_NS / 1000000))
#define STOP 0 /* what the set knows `stop` by; watches by their addresses */

struct tug_watcher tug_watcher = {.changing = PTHREAD_MUTEX_INITIALIZER,
                                  .lock = PTHREAD_MUTEX_INITIALIZER,
                                  .set = -1,
                                  .stop = TUG_OWN_NONE};

static bool holds(void) {
    return tug_own_set(tug_watcher.set, &tug_watcher.stop, EPOLLIN, STOP);
}

static bool control(int how, struct tug_watch *watch, uint32_t events) {
    struct epoll_event event = {.events = events | EPOLLONESHOT,
                                .data.u64 = (uint64_t)(uintptr_t)watch};
    return epoll_ctl(tug_watcher.set, how, watch->descriptor, &event) == 0;
}

/* ---- the thread ---- */

/* With the lock. One whose descriptor the program has closed is in no set any more. */
static void tell(struct tug_watch *watch, uint32_t events) {
    if (watch->news(watch, events))
        (void)control(EPOLL_CTL_MOD, watch, EPOLLIN);
}

/* Those among them that have events; without events, all. */
static void tell_each(const struct epoll_event *events, int n) {
    pthread_mutex_lock(&tug_watcher.lock);
    for (struct tug_watch *watch = tug_watcher.watches; watch != NULL; watch = watch->next) {
        for (int i = 0; i < n; i++)
            if (events[i].data.u64 == (uint64_t)(uintptr_t)watch)
                tell(watch, events[i].events);
        if (n <= 0)
            tell(watch, 0);
    }
    pthread_mutex_unlock(&tug_watcher.lock);
}

static void *watch_main(void *argument) {
    struct epoll_event events[8];
    (void)argument;
    (void)prctl(PR_SET_NAME, "tugboat", 0, 0, 0);
    while (!atomic_load(&tug_watcher.ending) && holds()) {
        const int n = epoll_wait(tug_watcher.set, events, 8, LOOK_MS);
        if (n < 0 && errno != EINTR)
            break;
        tell_each(events, n);
    }
    /* seq_cst, before the bells: who was armed before that looks again, and who arms later sees it
     */
    atomic_store(&tug_watcher.blind, true);
    tell_each(NULL, 0);
    return NULL;
}

static bool open_set(void) {
    struct epoll_event stop = {.events = EPOLLIN, .data.u64 = STOP};
    tug_watcher.stop = tug_own_keep(tug_descriptor_bell());
    tug_watcher.set = tug_own_keep(epoll_create1(EPOLL_CLOEXEC)).number;
    return tug_watcher.set >= 0 && tug_watcher.stop.number >= 0 &&
           epoll_ctl(tug_watcher.set, EPOLL_CTL_ADD, tug_watcher.stop.number, &stop) == 0;
}

static void close_set(void) {
    if (tug_watcher.set >= 0 && (tug_watcher.stop.number < 0 || holds()))
        tug_descriptor_close(tug_watcher.set);
    tug_watcher.set = -1;
    tug_own_close(&tug_watcher.stop);
}

static bool start(void) {
    sigset_t all, before;
    bool runs = false;
    atomic_store(&tug_watcher.ending, false);
    atomic_store(&tug_watcher.blind, false);
    tug_signals_of_program(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    runs = open_set() && pthread_create(&tug_watcher.thread, NULL, watch_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!runs)
        close_set();
    return runs;
}

static void end(void) {
    atomic_store(&tug_watcher.ending, true);
    tug_own_ring(&tug_watcher.stop);
    pthread_join(tug_watcher.thread, NULL);
    close_set();
}

/* ---- watches ---- */

bool tug_watcher_sees(void) {
    return !atomic_load(&tug_watcher.blind);
}

bool tug_watcher_arm(struct tug_watch *watch) {
    return holds() && control(EPOLL_CTL_MOD, watch, EPOLLIN) && tug_watcher_sees();
}

bool tug_watcher_add(struct tug_watch *watch) {
    pthread_mutex_lock(&tug_watcher.changing);
    const bool runs = tug_watcher.watches != NULL || start();
    watch->watched = runs && tug_watcher_sees() && holds() && control(EPOLL_CTL_ADD, watch, 0);
    if (watch->watched) {
        pthread_mutex_lock(&tug_watcher.lock);
        watch->next = tug_watcher.watches;
        tug_watcher.watches = watch;
        pthread_mutex_unlock(&tug_watcher.lock);
    } else if (runs && tug_watcher.watches == NULL) {
        end();
    }
    pthread_mutex_unlock(&tug_watcher.changing);
    return watch->watched;
}

static void take_out(struct tug_watch *watch) {
    pthread_mutex_lock(&tug_watcher.lock);
    TUG_LIST_TAKE_OUT(tug_watcher.watches, watch);
    pthread_mutex_unlock(&tug_watcher.lock);
    watch->watched = false;
    if (holds())
        (void)control(EPOLL_CTL_DEL, watch, 0);
}

void tug_watcher_remove(struct tug_watch *watch) {
    if (!watch->watched)
        return;
    pthread_mutex_lock(&tug_watcher.changing);
    take_out(watch);
    if (tug_watcher.watches == NULL)
        end();
    pthread_mutex_unlock(&tug_watcher.changing);
}
