/* Streams from inside; for far.c, far_open.c and far_run.c alone. */
#ifndef TUG_PERSISTENT_FAR_PRIVATE_H
#define TUG_PERSISTENT_FAR_PRIVATE_H

#include <pthread.h>

#include "persistent/far.h"

/* What another process writes. Each on a cache line of its own. */
struct tug_landing {
    uint64_t words[TUG_FAR_SLOTS];
    unsigned char slots[]; /* [TUG_FAR_SLOTS] x slot_bytes */
} __attribute__((aligned(64)));

struct tug_gate {
    uint64_t read; /* segments */
    unsigned char gap[56];
    struct {
        uint64_t number; /* position + 1 of the last offer */
        struct tug_far_place place;
    } __attribute__((aligned(64))) offers[TUG_FAR_SLOTS];
} __attribute__((aligned(64)));

/* On its way to the writer. */
struct tug_far_offer {
    struct tug_far_place place;
    uint64_t number; /* that the writer has there, when it has come */
};

/* Memory on a list. */
struct tug_far_kept {
    struct tug_far_kept *next;
    struct tug_far_memory memory;
};

/* A team's. */
struct tug_far {
    tug_context *context; /* NULL: MPI has ended */
    struct tug_counter ended;
    struct tug_far_kept *blocks; /* that landings and gates are cut from */
    pthread_mutex_t lock;
    struct tug_far_kept *partings; /* with the lock: registrations whose request is gone */
};

/* Ends the registrations that nothing uses any more. */
void tug_far_reap(struct tug_far *far);

#endif
