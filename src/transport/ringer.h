/* A ringer: what the process's watcher (watcher.h) does for an endpoint that several fabrics share.
 * It sleeps at the endpoint's descriptor and rings the fabrics' bells when that has become
 * readable, once for each time that it was armed. (They have one bell, unless the node's processes
 * share no memory but that of each context.)
 */
#ifndef TUG_TRANSPORT_RINGER_H
#define TUG_TRANSPORT_RINGER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "transport/watcher.h"

struct tug_fabric;

/* A fabric's part; all zeros: its bell is not rung. */
struct tug_rung {
    const struct tug_fabric *fabric;
    bool is_rung;
    struct tug_rung *next;
};

/* The endpoint's. */
struct tug_ringer {
    struct tug_watch watch; /* the first member */
    _Atomic bool begun;     /* the watcher sleeps at the descriptor; never reset */
    pthread_mutex_t lock;   /* protects the list, which the watcher reads */
    struct tug_rung *first;
};

void tug_ringer_init(struct tug_ringer *ringer);
void tug_ringer_fini(struct tug_ringer *ringer);

/* From begin to leave the fabric's bell is rung when the descriptor is readable, once for each arm.
 * False: it cannot be. begin: one thread at a time; leave: any thread. */
bool tug_ringer_begin(struct tug_ringer *ringer, int descriptor, struct tug_rung *rung,
                      const struct tug_fabric *fabric);
void tug_ringer_leave(struct tug_ringer *ringer, struct tug_rung *rung);

/* Sees to it that the next news ring, if any bell is to be rung at all. False: they cannot. Holder
 * only. */
bool tug_ringer_arm(struct tug_ringer *ringer);

#endif
