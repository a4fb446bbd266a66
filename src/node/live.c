#include "node/live.h"

#include <pthread.h>
#include <stddef.h>

#define WAYS 4

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the own list's free entries */

static struct tug_live *entry_of(struct tug_live *list, uint64_t context, uint64_t id, int way) {
    const uint32_t index = (uint32_t)id;
    return &list[(index + (uint32_t)(context >> 16 * way)) % TUG_LIVE];
}

struct tug_live *tug_live_publish(struct tug_live *list, uint64_t context, uint64_t id,
                                  const struct tug_offer *offer) {
    struct tug_live *entry = NULL;
    pthread_mutex_lock(&lock);
    for (int way = 0; list != NULL && entry == NULL && way < WAYS; way++) {
        entry = entry_of(list, context, id, way);
        if (atomic_load(&entry->context) != 0)
            entry = NULL;
    }
    if (entry != NULL)
        atomic_store(&entry->context, context);
    pthread_mutex_unlock(&lock);
    if (entry == NULL)
        return NULL;
    entry->offer = *offer;
    atomic_store(&entry->id, id);
    return entry;
}

bool tug_live_withdraw(struct tug_live *entry) {
    if (entry == NULL)
        return true;
    const uint64_t id = atomic_exchange(&entry->id, 0);
    if (atomic_load(&entry->attachers) == 0)
        return true;
    atomic_store(&entry->id, id);
    return false;
}

void tug_live_restore(struct tug_live *entry, uint64_t id) {
    if (entry != NULL)
        atomic_store(&entry->id, id);
}

void tug_live_end(struct tug_live *entry) {
    if (entry == NULL)
        return;
    atomic_store(&entry->id, 0);
    /* last: it may be another's at once */
    atomic_store(&entry->context, 0);
}

struct tug_live *tug_live_attach(struct tug_live *list, uint64_t context, uint64_t id) {
    for (int way = 0; list != NULL && way < WAYS; way++) {
        struct tug_live *entry = entry_of(list, context, id, way);
        /* relaxed: a first look, which spares the others' entries the two writes */
        if (atomic_load_explicit(&entry->id, memory_order_relaxed) != id)
            continue;
        atomic_fetch_add(&entry->attachers, 1);
        if (atomic_load(&entry->id) == id && atomic_load(&entry->context) == context)
            return entry;
        atomic_fetch_sub(&entry->attachers, 1);
    }
    return NULL;
}

void tug_live_detach(struct tug_live *entry) {
    atomic_fetch_sub(&entry->attachers, 1);
}

void tug_live_spoil(struct tug_live *entry) {
    atomic_store(&entry->id, 0);
}
