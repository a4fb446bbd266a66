/* What the process's watcher (transport/watcher.h) does for the endpoint: it sleeps at its epoll
 * set and rings the bells of the views when that has become readable, once for each time that it
 * was armed.
 */
#include <stddef.h>

#include "base/stats.h"
#include "transport/tcp/private.h"

/* Each bell once, where neighbours in the list have one. */
static bool ring(struct tug_watch *its, uint32_t events) {
    struct tug_tcp_watch *watch = (struct tug_tcp_watch *)its;
    const struct tug_bell *last = NULL;
    (void)events;
    pthread_mutex_lock(&watch->lock);
    for (struct tug_tcp_view *view = watch->views; view != NULL; view = view->next_watched) {
        const struct tug_fabric *fabric = view->wire.fabric;
        if (fabric->bell != last)
            tug_bell_ring(fabric->bell, fabric->bell_shared);
        last = fabric->bell;
    }
    pthread_mutex_unlock(&watch->lock);
    return false;
}

bool tug_tcp_watch_arm(struct tug_tcp_endpoint *endpoint) {
    if (tug_watcher_arm(&endpoint->watch.watch))
        return true;
    if (!endpoint->unwatched)
        tug_stat_add(TUG_STAT_UNWATCHED, 1);
    endpoint->unwatched = true;
    return false;
}

static bool begin(struct tug_tcp_endpoint *endpoint) {
    if (atomic_load(&endpoint->watched))
        return true;
    endpoint->watch.watch = (struct tug_watch){.descriptor = endpoint->set, .news = ring};
    if (!tug_watcher_add(&endpoint->watch.watch))
        return false;
    /* release: who sees it in tug_tcp_arm() sees the watch */
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
