/* The process's watcher (transport/watcher.h) at the completion queue's descriptor, for those views
 * whose engine sleeps on a bell, since peers of the node ring it too. */
#include "transport/ofi/private.h"

/* Each bell once, where neighbours in the list have one. */
static bool ring(struct tug_watch *its, uint32_t events) {
    struct tug_ofi_watch *watch = (struct tug_ofi_watch *)its;
    const struct tug_bell *last = NULL;
    (void)events;
    pthread_mutex_lock(&watch->lock);
    for (struct tug_ofi_view *view = watch->views; view != NULL; view = view->next_watched) {
        const struct tug_fabric *fabric = view->wire.fabric;
        if (fabric->bell != last)
            tug_bell_ring(fabric->bell, fabric->bell_shared);
        last = fabric->bell;
    }
    pthread_mutex_unlock(&watch->lock);
    return false;
}

static bool begin(struct tug_ofi_endpoint *endpoint) {
    if (atomic_load(&endpoint->watched))
        return true;
    if (endpoint->descriptor < 0)
        return false;
    endpoint->watch.watch = (struct tug_watch){.descriptor = endpoint->descriptor, .news = ring};
    if (!tug_watcher_add(&endpoint->watch.watch))
        return false;
    /* release: who sees it in tug_ofi_arm() sees the watch */
    atomic_store_explicit(&endpoint->watched, true, memory_order_release);
    return true;
}

bool tug_ofi_watch_begin(struct tug_ofi_view *view) {
    struct tug_ofi_watch *watch = &view->endpoint->watch;
    if (view->watched || !begin(view->endpoint))
        return view->watched;
    pthread_mutex_lock(&watch->lock);
    view->watched = true;
    view->next_watched = watch->views;
    watch->views = view;
    pthread_mutex_unlock(&watch->lock);
    return true;
}

void tug_ofi_watch_leave(struct tug_ofi_view *view) {
    struct tug_ofi_watch *watch = &view->endpoint->watch;
    if (!view->watched)
        return;
    pthread_mutex_lock(&watch->lock);
    struct tug_ofi_view **at = &watch->views;
    while (*at != view)
        at = &(*at)->next_watched;
    *at = view->next_watched;
    view->watched = false;
    pthread_mutex_unlock(&watch->lock);
}
