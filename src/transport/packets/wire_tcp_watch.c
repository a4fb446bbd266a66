/* The watcher of the endpoint: a thread that sleeps at its epoll set and rings the bells of the
 * views when it has become readable, once for each time that it was armed.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/stats.h"
#include "transport/packets/wire_tcp_private.h"

enum { NEWS, STOP };

static bool holds(const struct tug_tcp_watch *watch) {
    return tug_own_set(watch->set, &watch->watcher.stop, EPOLLIN, STOP);
}

/* Each bell once, where neighbours in the list have one. */
static void ring(struct tug_tcp_watch *watch) {
    const struct tug_bell *last = NULL;
    pthread_mutex_lock(&watch->lock);
    for (struct tug_tcp_view *view = watch->views; view != NULL; view = view->next_watched) {
        const struct tug_fabric *fabric = view->wire.fabric;
        if (fabric->bell != last)
            tug_bell_ring(fabric->bell, fabric->bell_shared);
        last = fabric->bell;
    }
    pthread_mutex_unlock(&watch->lock);
}

static void *watch_main(void *argument) {
    struct tug_tcp_watch *watch = argument;
    struct epoll_event event;
    while (!atomic_load(&watch->watcher.ending) && holds(watch)) {
        int n = epoll_wait(watch->set, &event, 1, TUG_WATCHER_LOOK_MS);
        if (n < 0 && errno != EINTR)
            break;
        /* without news too: what the program has closed brings none */
        if (n <= 0 || event.data.u64 != STOP)
            ring(watch);
    }
    /* seq_cst, before the bell: who was armed before that looks again, and who arms later sees it
     */
    atomic_store(&watch->watcher.blind, true);
    ring(watch);
    return NULL;
}

bool tug_tcp_watch_arm(struct tug_tcp_endpoint *endpoint) {
    struct tug_tcp_watch *watch = &endpoint->watch;
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = NEWS};
    if (holds(watch) && epoll_ctl(watch->set, EPOLL_CTL_MOD, endpoint->set, &event) == 0 &&
        !atomic_load(&watch->watcher.blind))
        return true;
    if (!endpoint->unwatched)
        tug_stat_add(TUG_STAT_UNWATCHED, 1);
    endpoint->unwatched = true;
    return false;
}

/* An epoll set with the endpoint's in it, and what stops the watcher. */
static bool open_set(struct tug_tcp_watch *watch, int watched) {
    struct epoll_event stop = {.events = EPOLLIN, .data.u64 = STOP};
    struct epoll_event news = {.events = EPOLLONESHOT, .data.u64 = NEWS};
    watch->set = tug_descriptor_lift(epoll_create1(EPOLL_CLOEXEC));
    return watch->set >= 0 &&
           epoll_ctl(watch->set, EPOLL_CTL_ADD, watch->watcher.stop.number, &stop) == 0 &&
           epoll_ctl(watch->set, EPOLL_CTL_ADD, watched, &news) == 0;
}

void tug_tcp_watch_end(struct tug_tcp_endpoint *endpoint) {
    struct tug_tcp_watch *watch = &endpoint->watch;
    tug_watcher_end(&watch->watcher);
    if (watch->watcher.prepared && holds(watch))
        close(watch->set);
    watch->set = -1;
    tug_watcher_close(&watch->watcher);
}

static bool begin(struct tug_tcp_endpoint *endpoint) {
    struct tug_tcp_watch *watch = &endpoint->watch;
    if (atomic_load(&endpoint->watched))
        return true;
    if (!tug_watcher_prepare(&watch->watcher) || !open_set(watch, endpoint->set) ||
        !tug_watcher_start(&watch->watcher, watch_main, watch)) {
        tug_tcp_watch_end(endpoint);
        return false;
    }
    /* release: who sees it in tug_tcp_arm() sees the set */
    atomic_store_explicit(&endpoint->watched, true, memory_order_release);
    return true;
}

bool tug_tcp_watch_begin(struct tug_tcp_view *view) {
    struct tug_tcp_watch *watch = &view->endpoint->watch;
    if (view->watched || !begin(view->endpoint))
        return view->watched;
    pthread_mutex_lock(&watch->lock);
    view->watched = true;
    view->next_watched = watch->views;
    watch->views = view;
    pthread_mutex_unlock(&watch->lock);
    return true;
}

void tug_tcp_watch_leave(struct tug_tcp_view *view) {
    struct tug_tcp_watch *watch = &view->endpoint->watch;
    if (!view->watched)
        return;
    pthread_mutex_lock(&watch->lock);
    struct tug_tcp_view **at = &watch->views;
    while (*at != view)
        at = &(*at)->next_watched;
    *at = view->next_watched;
    view->watched = false;
    pthread_mutex_unlock(&watch->lock);
}
