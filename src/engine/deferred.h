/* Deferred work: what must be done soon by the holder of the baton, and cannot be refused.
 *
 * Such work is a member of what it is done for; nothing is allocated. Posted by any thread, it is
 * run at once if the baton is free, else from the ring. Where the ring is full it is put aside, as
 * are those that the holder could not carry out for want of room: a service of the engine's tries
 * them again in every round.
 *
 * Threading: post from any thread, the rest by the holder.
 */
#ifndef TUG_ENGINE_DEFERRED_H
#define TUG_ENGINE_DEFERRED_H

#include "engine/service.h"

struct tug_deferred {
    void (*run)(struct tug_deferred *work);
    struct tug_deferred *next;
};

struct tug_deferred_list {
    struct tug_service service;
    struct tug_deferred *_Atomic aside; /* a stack: work that met a full ring */
    struct tug_deferred *first, *last;  /* work to be tried again */
};

/* Beginning and end, on the program's thread. */
void tug_deferred_open(struct tug_deferred_list *deferred);
void tug_deferred_close(struct tug_deferred_list *deferred);

/* Runs it, now or soon. It is not posted again before it runs. */
void tug_deferred_post(struct tug_deferred_list *deferred, struct tug_deferred *work);

/* There was no room for what it does: runs it again in the next round. Holder only. */
void tug_deferred_retry(struct tug_deferred_list *deferred, struct tug_deferred *work);

#endif
