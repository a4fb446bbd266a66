#include "node/view.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/seqlock.h"
#include "node/live.h"
#include "node/neighbour.h"

struct view {
    struct tug_seqlock version; /* of the next three */
    _Atomic uint64_t id;        /* of the registration; 0: none */
    _Atomic uint64_t context;
    unsigned char *_Atomic address; /* of its first byte; NULL: it cannot be had */
    struct tug_offer offer;         /* of what is mapped; under the lock */
};

struct tug_views {
    struct view views[TUG_LIVE]; /* by the index of the entry */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* making views */

static void drop(struct view *view) {
    if (atomic_load_explicit(&view->address, memory_order_relaxed) != NULL)
        tug_lent_unshare(&view->offer);
}

static void make(struct view *view, uint64_t context, uint64_t id, const struct tug_offer *offer) {
    drop(view);
    view->offer = *offer;
    unsigned char *address = tug_lent_share(offer);
    tug_seqlock_begin(&view->version);
    atomic_store_explicit(&view->id, id, memory_order_relaxed);
    atomic_store_explicit(&view->context, context, memory_order_relaxed);
    atomic_store_explicit(&view->address, address, memory_order_relaxed);
    tug_seqlock_end(&view->version);
}

/* True: *address says where it is, or that it cannot be had. */
static bool find(const struct view *view, uint64_t context, uint64_t id, unsigned char **address) {
    const uint32_t version = tug_seqlock_read(&view->version);
    const bool found = atomic_load_explicit(&view->id, memory_order_relaxed) == id &&
                       atomic_load_explicit(&view->context, memory_order_relaxed) == context;
    *address = atomic_load_explicit(&view->address, memory_order_relaxed);
    return tug_seqlock_holds(&view->version, version) && found;
}

static struct tug_views *views_of(struct tug_neighbour *neighbour) {
    /* acquire: pairs with the release below */
    struct tug_views *views = atomic_load_explicit(&neighbour->views, memory_order_acquire);
    if (views != NULL)
        return views;
    pthread_mutex_lock(&lock);
    views = atomic_load_explicit(&neighbour->views, memory_order_relaxed);
    if (views == NULL)
        views = calloc(1, sizeof(*views));
    atomic_store_explicit(&neighbour->views, views, memory_order_release);
    pthread_mutex_unlock(&lock);
    return views;
}

unsigned char *tug_view_address(struct tug_neighbour *neighbour, const struct tug_live *entry,
                                uint64_t id) {
    struct tug_views *views = entry->offer.name != 0 ? views_of(neighbour) : NULL;
    if (views == NULL)
        return NULL;
    /* relaxed: it stays while the caller is attached, who has seen it */
    const uint64_t context = atomic_load_explicit(&entry->context, memory_order_relaxed);
    struct view *view = &views->views[entry - neighbour->live];
    unsigned char *address;
    if (find(view, context, id, &address))
        return address;
    pthread_mutex_lock(&lock);
    if (!find(view, context, id, &address))
        make(view, context, id, &entry->offer);
    pthread_mutex_unlock(&lock);
    return atomic_load_explicit(&view->address, memory_order_relaxed);
}

void tug_views_drop(struct tug_neighbour *neighbour) {
    struct tug_views *views = atomic_load(&neighbour->views);
    for (uint32_t i = 0; views != NULL && i < TUG_LIVE; i++)
        drop(&views->views[i]);
    free(views);
}

size_t tug_views_footprint(void) {
    return sizeof(struct tug_views);
}
