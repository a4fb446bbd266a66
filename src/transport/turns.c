#include "transport/turns.h"

#include "transport/transport.h"

/* ---- the endpoint ---- */

static pthread_mutex_t homes = PTHREAD_MUTEX_INITIALIZER;

struct tug_turns *tug_turns_share(struct tug_turns **home,
                                  struct tug_turns *(*find)(struct tug_turns *there, void *d),
                                  void *d) {
    pthread_mutex_lock(&homes);
    struct tug_turns *turns = find(*home, d);
    if (turns != NULL) {
        turns->users++;
        turns->home = home;
        *home = turns;
    }
    pthread_mutex_unlock(&homes);
    return turns;
}

void tug_turns_release(struct tug_turns *turns) {
    pthread_mutex_lock(&homes);
    if (--turns->users == 0) {
        if (turns->home != NULL && *turns->home == turns)
            *turns->home = NULL;
        turns->close(turns);
    }
    pthread_mutex_unlock(&homes);
}

/* ---- who is there ---- */

void tug_turns_init(struct tug_turns *turns, void (*close)(struct tug_turns *turns)) {
    turns->close = close;
    pthread_mutex_init(&turns->lock, NULL);
}

void tug_turns_fini(struct tug_turns *turns) {
    tug_watcher_remove(&turns->watch);
    pthread_mutex_destroy(&turns->lock);
    tug_table_fini(&turns->wires);
}

bool tug_turns_enter(struct tug_turns *turns, struct tug_turn *turn) {
    const uint64_t id = turn->wire->fabric->id;
    if (tug_table_find(&turns->wires, id) != NULL || !tug_table_add(&turns->wires, id, turn->wire))
        return false;
    pthread_mutex_lock(&turns->lock);
    turn->entered = true;
    turn->next = turns->first;
    turns->first = turn;
    pthread_mutex_unlock(&turns->lock);
    return true;
}

void tug_turns_leave(struct tug_turns *turns, struct tug_turn *turn) {
    struct tug_turn **at = &turns->first;
    tug_table_remove(&turns->wires, turn->wire->fabric->id);
    pthread_mutex_lock(&turns->lock);
    while (*at != turn)
        at = &(*at)->next;
    *at = turn->next;
    turn->entered = turn->rung = false;
    pthread_mutex_unlock(&turns->lock);
}

/* ---- polling ---- */

void tug_turns_serve_others(struct tug_turns *turns, const struct tug_turn *looked) {
    if (!turns->came)
        return;
    turns->came = false;
    for (struct tug_turn *turn = turns->first; turn != NULL; turn = turn->next) {
        struct tug_fabric *fabric = turn->wire->fabric;
        if (turn != looked && turn->came && fabric->served != NULL)
            fabric->served(fabric);
    }
}

bool tug_turns_end(struct tug_turns *turns, struct tug_turn *turn) {
    tug_turns_serve_others(turns, turn);
    const bool came = turn->came;
    turn->polls = turns->polls;
    turn->came = false;
    return came;
}

/* ---- ringing ---- */

/* Each bell once, where neighbours in the list have one. */
static void ring_those(struct tug_turns *turns, bool all) {
    const struct tug_bell *last = NULL;
    pthread_mutex_lock(&turns->lock);
    for (const struct tug_turn *turn = turns->first; turn != NULL; turn = turn->next) {
        const struct tug_fabric *fabric = turn->wire->fabric;
        if (!all && !turn->rung)
            continue;
        if (fabric->bell != last)
            tug_bell_ring(fabric->bell, fabric->bell_shared);
        last = fabric->bell;
    }
    pthread_mutex_unlock(&turns->lock);
}

void tug_turns_ring(struct tug_turns *turns) {
    ring_those(turns, true);
}

static bool ring(struct tug_watch *its, uint32_t events) {
    (void)events;
    ring_those((struct tug_turns *)its, false);
    return false;
}

static bool is_begun(struct tug_turns *turns, int descriptor) {
    if (atomic_load(&turns->begun))
        return true;
    if (descriptor < 0)
        return false;
    turns->watch = (struct tug_watch){.descriptor = descriptor, .news = ring};
    if (!tug_watcher_add(&turns->watch))
        return false;
    /* release: who sees it in tug_turns_arm() sees the watch */
    atomic_store_explicit(&turns->begun, true, memory_order_release);
    return true;
}

int tug_turns_descriptor(struct tug_turns *turns, struct tug_turn *turn, int descriptor,
                         bool watch) {
    if (!watch || !is_begun(turns, descriptor))
        return descriptor;
    pthread_mutex_lock(&turns->lock);
    turn->rung = true;
    pthread_mutex_unlock(&turns->lock);
    return -1;
}

bool tug_turns_arm(struct tug_turns *turns) {
    return !atomic_load_explicit(&turns->begun, memory_order_acquire) ||
           tug_watcher_arm(&turns->watch);
}
