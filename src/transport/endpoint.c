#include "transport/endpoint.h"

#include <stdlib.h>

#include "base/list.h"
#include "engine/engine.h"
#include "transport/transport.h"

/* ---- the endpoint ---- */

static pthread_mutex_t homes = PTHREAD_MUTEX_INITIALIZER;

struct tug_endpoint *tug_endpoint_share(struct tug_endpoint **home, const void *of,
                                        struct tug_endpoint *(*make)(void *d), void *d) {
    pthread_mutex_lock(&homes);
    struct tug_endpoint *endpoint = *home;
    while (endpoint != NULL && (endpoint->of != of || atomic_load(&endpoint->lost)))
        endpoint = endpoint->next;
    if (endpoint == NULL && (endpoint = make(d)) != NULL) {
        endpoint->of = of;
        endpoint->home = home;
        endpoint->next = *home;
        *home = endpoint;
    }
    if (endpoint != NULL)
        endpoint->users++;
    pthread_mutex_unlock(&homes);
    return endpoint;
}

void tug_endpoint_release(struct tug_endpoint *endpoint) {
    pthread_mutex_lock(&homes);
    if (--endpoint->users == 0) {
        if (endpoint->home != NULL)
            TUG_LIST_TAKE_OUT(*endpoint->home, endpoint);
        endpoint->kind->close(endpoint);
    }
    pthread_mutex_unlock(&homes);
}

void tug_endpoint_init(struct tug_endpoint *endpoint, const struct tug_endpoint_kind *kind) {
    endpoint->kind = kind;
    endpoint->descriptor = -1;
    pthread_mutex_init(&endpoint->lock, NULL);
}

void tug_endpoint_fini(struct tug_endpoint *endpoint) {
    tug_watcher_remove(&endpoint->watch);
    pthread_mutex_destroy(&endpoint->lock);
    tug_table_fini(&endpoint->wires);
}

/* ---- wires ---- */

void tug_endpoint_add(struct tug_endpoint *endpoint, struct tug_wire *wire,
                      const struct tug_transport *row, struct tug_fabric *fabric,
                      uint32_t packet_bytes) {
    wire->row = row;
    wire->fabric = fabric;
    wire->pool.bytes = packet_bytes;
    wire->endpoint = endpoint;
    endpoint->users++;
}

bool tug_endpoint_enter(struct tug_wire *wire) {
    struct tug_endpoint *endpoint = wire->endpoint;
    const uint64_t id = wire->fabric->id;
    if (tug_table_find(&endpoint->wires, id) != NULL || !tug_table_add(&endpoint->wires, id, wire))
        return false;
    if (endpoint->kind->enter != NULL && !endpoint->kind->enter(wire)) {
        tug_table_remove(&endpoint->wires, id);
        return false;
    }
    pthread_mutex_lock(&endpoint->lock);
    wire->entered = true;
    wire->next = endpoint->first;
    endpoint->first = wire;
    pthread_mutex_unlock(&endpoint->lock);
    return true;
}

static void enter(void *wire) {
    (void)tug_endpoint_enter(wire);
}

bool tug_endpoint_call_enter(struct tug_wire *wire) {
    tug_engine_call(enter, wire);
    return wire->entered;
}

void tug_endpoint_take_out(struct tug_wire *wire) {
    struct tug_endpoint *endpoint = wire->endpoint;
    if (!wire->entered)
        return;
    if (endpoint->kind->leave != NULL)
        endpoint->kind->leave(wire);
    tug_table_remove(&endpoint->wires, wire->fabric->id);
    pthread_mutex_lock(&endpoint->lock);
    TUG_LIST_TAKE_OUT(endpoint->first, wire);
    wire->entered = wire->rung = false;
    pthread_mutex_unlock(&endpoint->lock);
}

static void take_out(void *wire) {
    tug_endpoint_take_out(wire);
}

void tug_endpoint_leave(struct tug_wire *wire) {
    if (wire->entered)
        tug_engine_call(take_out, wire);
}

void tug_endpoint_close_wire(void *state) {
    struct tug_wire *wire = state;
    struct tug_endpoint *endpoint = wire->endpoint;
    tug_endpoint_leave(wire);
    if (endpoint->kind->close_wire != NULL)
        endpoint->kind->close_wire(wire);
    tug_endpoint_release(endpoint);
    tug_pool_fini(&wire->pool);
    free(wire);
}

/* ---- polling ---- */

bool tug_endpoint_look(struct tug_endpoint *endpoint) {
    endpoint->look = false;
    const bool moved = endpoint->kind->poll(endpoint);
    endpoint->polls++;
    return moved;
}

void tug_endpoint_serve_others(struct tug_endpoint *endpoint, const struct tug_wire *looked) {
    if (!endpoint->came)
        return;
    endpoint->came = false;
    for (struct tug_wire *wire = endpoint->first; wire != NULL; wire = wire->next)
        if (wire != looked && wire->came && wire->fabric->served != NULL)
            wire->fabric->served(wire->fabric);
}

/* From inside the host, what comes may be for any of the wires: may all be handed it? */
static bool are_internal(const struct tug_endpoint *endpoint) {
    const struct tug_wire *wire = endpoint->first;
    while (wire != NULL && wire->internal)
        wire = wire->next;
    return wire == NULL;
}

bool tug_endpoint_poll(void *state) {
    struct tug_wire *wire = state;
    struct tug_endpoint *endpoint = wire->endpoint;
    bool moved = false;
    if (wire->inside && !(wire->ready && are_internal(endpoint)))
        return false; /* a thread that waits outside polls the others, or they are polled soon */
    if (!wire->ready) {
        wire->ready = true;
        if (endpoint->kind->ready != NULL)
            endpoint->kind->ready(wire);
    }
    if (wire == endpoint->first || wire->polls == endpoint->polls || endpoint->look) {
        endpoint->inside = wire->inside;
        moved = tug_endpoint_look(endpoint);
        wire->left = endpoint->left;
        endpoint->inside = endpoint->left = false;
    }
    tug_endpoint_serve_others(endpoint, wire);
    moved |= wire->came;
    wire->polls = endpoint->polls;
    wire->came = false;
    return moved;
}

/* ---- ringing ---- */

/* Each bell once, where neighbours in the list have one. */
static void ring_those(struct tug_endpoint *endpoint, bool all) {
    const struct tug_bell *last = NULL;
    pthread_mutex_lock(&endpoint->lock);
    for (const struct tug_wire *wire = endpoint->first; wire != NULL; wire = wire->next) {
        const struct tug_fabric *fabric = wire->fabric;
        if (!all && !wire->rung)
            continue;
        if (fabric->bell != last)
            tug_bell_ring(fabric->bell, fabric->bell_shared);
        last = fabric->bell;
    }
    pthread_mutex_unlock(&endpoint->lock);
}

void tug_endpoint_ring(struct tug_endpoint *endpoint) {
    ring_those(endpoint, true);
}

static bool ring(struct tug_watch *its, uint32_t events) {
    (void)events;
    ring_those((struct tug_endpoint *)its, false);
    return false;
}

static bool is_begun(struct tug_endpoint *endpoint) {
    if (atomic_load(&endpoint->begun))
        return true;
    if (endpoint->descriptor < 0)
        return false;
    endpoint->watch = (struct tug_watch){.descriptor = endpoint->descriptor, .news = ring};
    if (!tug_watcher_add(&endpoint->watch))
        return false;
    /* release: a thread that sees it in tug_endpoint_arm() sees the watch */
    atomic_store_explicit(&endpoint->begun, true, memory_order_release);
    return true;
}

int tug_endpoint_descriptor(struct tug_wire *wire, bool watch) {
    struct tug_endpoint *endpoint = wire->endpoint;
    if (!watch || !is_begun(endpoint))
        return endpoint->descriptor;
    pthread_mutex_lock(&endpoint->lock);
    wire->rung = true;
    pthread_mutex_unlock(&endpoint->lock);
    return -1;
}

bool tug_endpoint_arm(struct tug_endpoint *endpoint) {
    return !atomic_load_explicit(&endpoint->begun, memory_order_acquire) ||
           tug_watcher_arm(&endpoint->watch);
}
