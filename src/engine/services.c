/* Services: what is looked after in every round of the driver. Holder only, but for serve and
 * unserve, which go through the ring. */
#include "base/clock.h"
#include "base/settings.h"
#include "engine/private.h"
#include "host/spin.h"

_Atomic uint32_t tug_attended_services;
_Atomic uint32_t tug_helped_services;
struct tug_bell tug_engine_own_bell;

static void update(struct tug_engine *engine, struct tug_service *service) {
    bool busy = service->busy(service);
    if (busy == service->state.was_busy)
        return;
    service->state.was_busy = busy;
    engine->nbusy += busy ? 1u : -1u;
    tug_completer_count(engine);
}

void tug_engine_service_changed(struct tug_service *service) {
    update(&tug_engine, service);
}

static bool is_dormant(const struct tug_engine *engine, const struct tug_service *service) {
    return service->state.with_jobs && engine->nactive == 0 && !service->state.was_busy;
}

/* Mostly it is the same: then other threads keep the cache line. */
static uint32_t change(_Atomic uint32_t *count, uint32_t to) {
    const uint32_t before = atomic_load_explicit(count, memory_order_relaxed);
    if (before != to)
        atomic_store(count, to);
    return before;
}

/* Without an offload thread it is the program's calls that get everything on. */
void tug_services_count(struct tug_engine *engine) {
    uint32_t all = 0, attended = 0, helped = tug_settings.progress == TUG_PROGRESS_CALLER;
    for (struct tug_service *service = engine->services; service; service = service->state.next) {
        const bool with_jobs = service->state.with_jobs, now = !with_jobs || engine->nactive > 0;
        all += now;
        attended += !with_jobs && service->attended;
        helped += now && (with_jobs || service->attended ||
                          (service->descriptor >= 0 && service->state.poll_inside == NULL));
    }
    change(&engine->nservices, all);
    change(&tug_helped_services, helped);
    const uint32_t before = change(&tug_attended_services, attended);
    if (attended != before)
        atomic_fetch_add(&tug_attendance, attended - before);
}

bool tug_services_poll(struct tug_engine *engine, bool more_comes) {
    bool moved = false;
    engine->left = false;
    for (struct tug_service *service = engine->services; service; service = service->state.next) {
        if (is_dormant(engine, service))
            continue;
        moved |= service->poll(service, more_comes);
        update(engine, service);
    }
    /* seq_cst: whatever callbacks wrote is seen by threads that push their wait and look once more;
     * pairs with that push, which the driver looks for after this */
    if (moved)
        atomic_thread_fence(memory_order_seq_cst);
    tug_engine_stir(engine, moved);
    return moved;
}

/* A packet can only be handled by a poll from outside the host. The offload thread must not rely on
 * this thread, and is woken, once a beat at most, as it may not be able to do much about it. */
static void leave_to_offload(struct tug_engine *engine) {
    const uint64_t now = tug_clock_ns();
    engine->left = true;
    tug_lease_end(&engine->news);
    if (now - engine->left_ns < TUG_TICK_NS)
        return;
    engine->left_ns = now;
    tug_engine_ring_offload(engine);
}

bool tug_services_poll_inside(struct tug_engine *engine, struct tug_service *service) {
    bool left = false;
    const bool moved = service->state.poll_inside(service, &left);
    update(engine, service);
    if (left && !engine->left)
        leave_to_offload(engine);
    return moved;
}

void tug_services_flush(struct tug_engine *engine) {
    for (struct tug_service *service = engine->services; service; service = service->state.next)
        service->flush(service);
}

/* Is that sleeper woken by the descriptor, if there is one? */
static bool descriptor_wakes(const struct tug_service *service, const struct tug_sleeper *sleeper) {
    return service->descriptor < 0 ||
           (service->state.watched && !atomic_load(&sleeper->lookout.lost));
}

/* A lookout may be lost: then the descriptor wakes one of the two less. */
static void count_lost(const struct tug_engine *engine, struct tug_service *service) {
    if (!service->state.watched || service->state.lost ||
        (!atomic_load(&engine->driver.lookout.lost) && !atomic_load(&engine->offload.lookout.lost)))
        return;
    service->state.lost = true;
    tug_stat_add(TUG_STAT_UNWATCHED, 1);
}

bool tug_services_arm(struct tug_engine *engine, const struct tug_sleeper *sleeper) {
    bool all = true;
    engine->seldom = false;
    for (struct tug_service *service = engine->services; service; service = service->state.next) {
        if (is_dormant(engine, service))
            continue;
        all &= descriptor_wakes(service, sleeper) && service->arm(service);
        engine->seldom |= service->seldom;
        count_lost(engine, service);
    }
    return all;
}

struct tug_bell *tug_engine_bell(const struct tug_engine *engine, bool *shared) {
    struct tug_bell *bell = NULL;
    *shared = engine->nactive > 0;
    for (const struct tug_service *service = engine->services; service;
         service = service->state.next) {
        if (service->bell == NULL || is_dormant(engine, service))
            continue;
        if (bell != NULL && service->bell != bell)
            return NULL;
        bell = service->bell;
        *shared |= service->bell_shared;
    }
    if (engine->services != NULL && bell == NULL)
        return NULL;
    for (const struct tug_job *job = engine->first; job != NULL; job = job->next) {
        if (job->bell == NULL || (bell != NULL && job->bell != bell))
            return NULL;
        bell = job->bell;
    }
    return bell;
}

/* Another service with the same descriptor, NULL: none. */
static const struct tug_service *companion(const struct tug_service *service) {
    const struct tug_service *other = tug_engine.services;
    while (other != NULL && (other == service || other->descriptor != service->descriptor ||
                             other->bell != service->bell))
        other = other->state.next;
    return other;
}

/* Both lookouts watch the descriptor, or neither. They are where a sleeper is that sleeps on its
 * own bell: beside another bell a descriptor wakes nobody. */
static bool watch_descriptor(struct tug_engine *engine, const struct tug_service *service) {
    if (service->descriptor < 0 || service->bell != &tug_engine_own_bell ||
        !tug_lookout_add(&engine->driver.lookout, service->descriptor))
        return false;
    if (tug_lookout_add(&engine->offload.lookout, service->descriptor))
        return true;
    tug_lookout_remove(&engine->driver.lookout, service->descriptor);
    return false;
}

/* What cannot be watched, for want of descriptors or memory, is polled at intervals. */
static void watch(struct tug_service *service) {
    struct tug_engine *engine = &tug_engine;
    const struct tug_service *other = companion(service);
    service->state.watched =
        other != NULL ? other->state.watched : watch_descriptor(engine, service);
    service->state.lost = false;
    if (service->descriptor >= 0 && !service->state.watched)
        tug_stat_add(TUG_STAT_UNWATCHED, 1);
    /* without the offload thread nobody hears the bell */
    service->attended |= !engine->has_thread || !descriptor_wakes(service, &engine->offload);
}

void tug_services_mute(struct tug_engine *engine, bool mute) {
    int last = -1;
    for (struct tug_service *service = engine->services; service; service = service->state.next) {
        if (service->state.watched && service->descriptor != last)
            tug_lookout_mute(&engine->offload.lookout, service->descriptor, mute);
        last = service->descriptor;
    }
    engine->muted = mute;
}

static void unwatch(const struct tug_service *service) {
    if (!service->state.watched || companion(service) != NULL)
        return;
    tug_lookout_remove(&tug_engine.driver.lookout, service->descriptor);
    tug_lookout_remove(&tug_engine.offload.lookout, service->descriptor);
}

static void add(void *argument) {
    struct tug_service *service = argument;
    service->state.was_busy = false;
    watch(service);
    service->state.next = tug_engine.services;
    tug_engine.services = service;
    tug_services_count(&tug_engine);
}

void tug_engine_serve(struct tug_service *service) {
    tug_engine_keep_quiet();
    tug_engine_call(add, service);
    if (service->attended) {
        tug_lookout_scan(&tug_engine.driver.lookout);
        tug_lookout_scan(&tug_engine.offload.lookout);
    }
    tug_engine_nudge(&tug_engine);
    tug_engine_ring_offload(&tug_engine);
}

/* The service is polled once before that: a quicker peer may have sent a packet already, which only
 * a service that has been polled takes, and which is in the way of packets for others on the same
 * connection. */
static void set_with_jobs(void *argument) {
    struct tug_service *service = argument;
    (void)tug_services_poll(&tug_engine, false);
    service->state.with_jobs = true;
    tug_services_count(&tug_engine);
}

void tug_engine_serve_with_jobs(struct tug_service *service) {
    tug_engine_call(set_with_jobs, service);
}

struct inside {
    struct tug_service *service;
    bool (*poll)(struct tug_service *service, bool *left);
};

bool tug_services_all_inside(const struct tug_engine *engine) {
    const struct tug_service *service = engine->services;
    while (service != NULL && (service->state.poll_inside != NULL || is_dormant(engine, service)))
        service = service->state.next;
    return service == NULL;
}

static void set_inside(void *argument) {
    const struct inside *inside = argument;
    inside->service->state.poll_inside = inside->poll;
    tug_services_count(&tug_engine);
}

void tug_engine_serve_inside(struct tug_service *service,
                             bool (*poll)(struct tug_service *service, bool *left)) {
    if (tug_spin_look_begin(tug_engine_look_inside))
        tug_engine_call(set_inside, &(struct inside){service, poll});
}

void tug_engine_serve_outside(struct tug_service *service) {
    if (service->state.poll_inside == NULL)
        return;
    service->state.poll_inside = NULL;
    tug_services_count(&tug_engine);
    tug_spin_look_end();
}

/* One that goes. */
struct leaving {
    struct tug_service *service;
    bool bell_stays; /* another has the same */
};

static void take_out(void *argument) {
    struct leaving *leaving = argument;
    struct tug_service *service = leaving->service;
    struct tug_service **at = &tug_engine.services;
    while (*at != service)
        at = &(*at)->state.next;
    *at = service->state.next;
    unwatch(service);
    tug_engine_serve_outside(service);
    for (const struct tug_service *other = tug_engine.services; other; other = other->state.next)
        leaving->bell_stays |= other->bell == service->bell;
    if (service->state.was_busy)
        tug_engine.nbusy--;
    tug_completer_count(&tug_engine);
    tug_services_count(&tug_engine);
}

void tug_engine_unserve(struct tug_service *service) {
    struct leaving leaving = {.service = service};
    tug_engine_call(take_out, &leaving);
    tug_engine_ring_offload(&tug_engine); /* it may sleep on the bell */
    /* or do so again, where another service has it: then it must still be found there */
    if (!leaving.bell_stays && service->bell != NULL)
        tug_engine_forget_bell(service->bell);
}
