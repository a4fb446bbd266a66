/* Streams from inside; for far.c, far_open.c and far_run.c alone. */
#ifndef TUG_PERSISTENT_FAR_PRIVATE_H
#define TUG_PERSISTENT_FAR_PRIVATE_H

#include <pthread.h>

#include "persistent/far.h"

/* What another process writes. Each on a cache line of its own. */
struct tug_landing {
    uint64_t numbers[TUG_FAR_SLOTS]; /* how often the slot has been filled */
    unsigned char slots[];           /* [TUG_FAR_SLOTS] x slot_bytes */
} __attribute__((aligned(64)));

struct tug_place {
    struct tug_key key;
    uint64_t at;
};

struct tug_gate {
    uint64_t read; /* segments */
    unsigned char gap[56];
    struct {
        uint64_t number; /* position + 1 of the last offer */
        struct tug_place place;
    } __attribute__((aligned(64))) offers[TUG_FAR_SLOTS];
} __attribute__((aligned(64)));

/* On its way to the writer. */
struct tug_far_offer {
    struct tug_place place;
    uint64_t number; /* that the writer has there, when it has come */
};

/* Memory that landings and gates are cut from. */
struct tug_far_block {
    struct tug_far_block *next;
    unsigned char *memory;
    tug_registration *registration;
};

/* A registration whose request is gone. */
struct tug_far_parting {
    struct tug_far_parting *next;
    struct tug_far_memory memory;
};

/* A team's. */
struct tug_far {
    tug_context *context; /* NULL: MPI has ended */
    struct tug_counter ended;
    struct tug_far_block *blocks;
    pthread_mutex_t lock;
    struct tug_far_parting *partings; /* with the lock */
};

/* Ends the registrations that nothing uses any more. */
void tug_far_reap(struct tug_far *far);

#endif
