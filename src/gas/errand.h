/* Errands: what must be done as the holder of the baton, soon, and cannot be refused.
 *
 * An errand is part of what it is for; nothing is allocated. Posted by any thread, it is run at
 * once if the baton is free, else from the ring. Where the ring is full it is put aside, as are
 * those that the holder could not carry out for want of room: a service of the engine's tries them
 * again in every round.
 *
 * Threading: post from any thread, the rest by the holder.
 */
#ifndef TUG_GAS_ERRAND_H
#define TUG_GAS_ERRAND_H

#include "engine/engine.h"

struct tug_errand {
    void (*run)(struct tug_errand *errand);
    struct tug_errand *next;
};

struct tug_errands {
    struct tug_service service;
    struct tug_errand *_Atomic aside; /* a stack: those that met a full ring */
    struct tug_errand *first, *last;  /* those to be tried again */
};

/* Beginning and end, on the program's thread. */
void tug_errands_open(struct tug_errands *errands);
void tug_errands_close(struct tug_errands *errands);

/* Runs it, now or soon. It is not posted again before it runs. */
void tug_errands_post(struct tug_errands *errands, struct tug_errand *errand);

/* There was no room for what it does: runs it again in the next round. Holder only. */
void tug_errands_retry(struct tug_errands *errands, struct tug_errand *errand);

#endif
