#include "transport/ringer.h"

#include "transport/transport.h"

/* Each bell once, where neighbours in the list have one. */
static bool ring(struct tug_watch *its, uint32_t events) {
    struct tug_ringer *ringer = (struct tug_ringer *)its;
    const struct tug_bell *last = NULL;
    (void)events;
    pthread_mutex_lock(&ringer->lock);
    for (const struct tug_rung *rung = ringer->first; rung != NULL; rung = rung->next) {
        const struct tug_fabric *fabric = rung->fabric;
        if (fabric->bell != last)
            tug_bell_ring(fabric->bell, fabric->bell_shared);
        last = fabric->bell;
    }
    pthread_mutex_unlock(&ringer->lock);
    return false;
}

void tug_ringer_init(struct tug_ringer *ringer) {
    pthread_mutex_init(&ringer->lock, NULL);
}

void tug_ringer_fini(struct tug_ringer *ringer) {
    tug_watcher_remove(&ringer->watch);
    pthread_mutex_destroy(&ringer->lock);
}

static bool is_begun(struct tug_ringer *ringer, int descriptor) {
    if (atomic_load(&ringer->begun))
        return true;
    if (descriptor < 0)
        return false;
    ringer->watch = (struct tug_watch){.descriptor = descriptor, .news = ring};
    if (!tug_watcher_add(&ringer->watch))
        return false;
    /* release: who sees it in tug_ringer_arm() sees the watch */
    atomic_store_explicit(&ringer->begun, true, memory_order_release);
    return true;
}

bool tug_ringer_begin(struct tug_ringer *ringer, int descriptor, struct tug_rung *rung,
                      const struct tug_fabric *fabric) {
    if (rung->is_rung || !is_begun(ringer, descriptor))
        return rung->is_rung;
    pthread_mutex_lock(&ringer->lock);
    *rung = (struct tug_rung){.fabric = fabric, .is_rung = true, .next = ringer->first};
    ringer->first = rung;
    pthread_mutex_unlock(&ringer->lock);
    return true;
}

void tug_ringer_leave(struct tug_ringer *ringer, struct tug_rung *rung) {
    if (!rung->is_rung)
        return;
    pthread_mutex_lock(&ringer->lock);
    struct tug_rung **at = &ringer->first;
    while (*at != rung)
        at = &(*at)->next;
    *at = rung->next;
    rung->is_rung = false;
    pthread_mutex_unlock(&ringer->lock);
}

bool tug_ringer_arm(struct tug_ringer *ringer) {
    return !atomic_load_explicit(&ringer->begun, memory_order_acquire) ||
           tug_watcher_arm(&ringer->watch);
}
