/* Services: what the engine polls in every round. Each LLCL context with transports to peers is
 * one.
 *
 * This is the contract of transports; that of callers is in engine.h. A service has peers to answer
 * even if no operation of this process is outstanding. Functions of a service run with the baton
 * held; they may enter and commit commands, which never block.
 */
#ifndef TUG_ENGINE_SERVICE_H
#define TUG_ENGINE_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/park.h"

struct tug_service;

/* What the engine keeps of a service. Holder of the baton only. */
struct tug_service_state {
    bool with_jobs; /* tug_engine_serve_with_jobs() */
    bool was_busy;  /* the last answer of busy() */
    bool watched;   /* the lookouts have the descriptor */
    bool lost;      /* one of the lookouts is lost, and that has been counted */
    bool (*poll_inside)(struct tug_service *service, bool *left); /* tug_engine_serve_inside() */
    struct tug_service *next;
};

/* What its owner fills in. */
struct tug_service {
    /* Makes progress without waiting. Returns true if anything moved. more_comes: the holder is
     * about to begin more operations, so packets that are not full had better wait. */
    bool (*poll)(struct tug_service *service, bool more_comes);
    /* A batch of commands has been executed: sends the packets that they began. */
    void (*flush)(struct tug_service *service);
    /* True while an operation of this process is outstanding: a thread drives until it is not. */
    bool (*busy)(struct tug_service *service);
    /* The calling thread is about to sleep at the bell, which is prepared. Makes news ring it and
     * returns true; the thread polls once more before it sleeps. False: news do not ring, and the
     * service is polled at intervals. */
    bool (*arm)(struct tug_service *service);
    struct tug_bell *bell; /* &tug_engine_own_bell: only the descriptor shows news; NULL: there are
                              no news from outside */
    bool bell_shared;      /* other processes ring it, too */
    int descriptor;        /* readable while there are news, once armed; -1: none */
    bool seldom;   /* set by arm(): rare messages come without ringing, so that a sleeper has
                      to poll now and then */
    bool attended; /* no event wakes a sleeper for this service, so it has to be polled. The
                      engine sets it, too, if it has no offload thread or cannot watch the
                      descriptor */
    struct tug_service_state state;
};

/* The bell of services that no thread rings: the driver sleeps at a bell of its own. */
extern struct tug_bell tug_engine_own_bell;

/* The service is polled in every round from now on / never again. Not in callbacks. */
void tug_engine_serve(struct tug_service *service);
void tug_engine_unserve(struct tug_service *service);

/* From now on the service is polled only while a job or an operation of its own is outstanding:
 * no peer waits for its answers otherwise. Not in callbacks. */
void tug_engine_serve_with_jobs(struct tug_service *service);

/* From now on a thread that waits inside the host calls `poll`, if the host makes that possible.
 * poll does what the service's own poll does, but it calls neither the host nor the program, as
 * that thread may hold locks of the host's. *left: something is left to the offload thread.
 * tug_engine_serve_outside() ends it (holder only). */
void tug_engine_serve_inside(struct tug_service *service,
                             bool (*poll)(struct tug_service *service, bool *left));
void tug_engine_serve_outside(struct tug_service *service);

/* Are there any services? Any thread. */
bool tug_engine_serves(void);

/* From now on a thread that waits stores in *until the time until which it polls (CLOCK_MONOTONIC,
 * ns), some microseconds ahead, again and again, and 0 before it sleeps. Peers read it. So no
 * peer relies for long on a thread that the kernel has stopped. Memory that stays until the process
 * ends. Any thread. */
void tug_engine_show_looking(_Atomic uint64_t *until);

/* Services whose news end no sleep: they have to be polled. */
extern _Atomic uint32_t tug_attended_services;

/* Those, services with a descriptor that cannot be polled from inside the host, and services with
 * jobs while a job is outstanding; one more if there is no offload thread. While the count is
 * positive, a thread that waits in the host polls services, too: the offload thread may get no core
 * beside it. */
extern _Atomic uint32_t tug_helped_services;

static inline bool tug_engine_wants_help(void) {
    return atomic_load_explicit(&tug_helped_services, memory_order_relaxed) > 0;
}

/* ---- for the holder of the baton ---- */

/* Polls every service, for a holder that has handed over many operations and has waited for none:
 * peers are answered, and the holder needs no offload thread yet. more_comes: it is about to hand
 * over more, and what it has handed over may wait for that; if nothing follows, the offload
 * thread's next beat sends it. Not in callbacks. */
void tug_engine_look(bool more_comes);

/* The answer of the service's busy() may have changed. The engine itself asks after every round. */
void tug_engine_service_changed(struct tug_service *service);

/* The holder has started an operation of the service, which may be busy by that. */
static inline void tug_engine_service_began(struct tug_service *service) {
    if (!service->state.was_busy)
        tug_engine_service_changed(service);
}

/* Call before a packet is sent through a descriptor at which the offload thread sleeps. The answer
 * then does not wake the offload thread while the holder has the baton: the thread would take the
 * core from the holder (36 us of the 280 that a put and a flush to a rank on the same core took).
 */
void tug_engine_before_send(void);

/* True while the holder advances a job: operations that the job starts need no command. Set to
 * false, and then to what it was, around polls, which call functions of others; tug_engine_look()
 * does so. */
bool tug_engine_in_job(void);
bool tug_engine_set_in_job(bool is);

#endif
