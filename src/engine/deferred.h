/* Deferred work: what must be done soon by the holder of the baton, and cannot be refused.
 *
 * Such work is a member of what it is done for; nothing is allocated. Any thread pushes it onto a
 * stack, and runs the stack at once if the baton is free; else a command has the holder run it. A
 * service of the engine's runs the stack in every round, too: work that met a full ring, and work
 * that the holder could not carry out, as there was no room.
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
    struct tug_deferred *_Atomic posted; /* a stack */
};

/* Beginning and end, on the program's thread. */
void tug_deferred_open(struct tug_deferred_list *deferred);
void tug_deferred_close(struct tug_deferred_list *deferred);

/* Runs it, now or soon. It is not posted again before it runs. */
void tug_deferred_post(struct tug_deferred_list *deferred, struct tug_deferred *work);

/* There was no room for what it does: runs it again in the next round. Holder only. */
void tug_deferred_retry(struct tug_deferred_list *deferred, struct tug_deferred *work);

#endif
