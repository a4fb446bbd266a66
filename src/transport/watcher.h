/* The watcher: the one thread of this process that sleeps at descriptors for those who sleep on a
 * bell, and has the bell rung (engine/event_wait.h).
 *
 * Transports have it watch descriptors of theirs, each by a *watch*. It sleeps at an epoll set in
 * which all of them are. It starts with the first watch and ends with the last. When it cannot
 * watch any more, since the program has closed its set, it is *blind*: all watches are told, none
 * can be armed, and none added before all of them have been removed.
 */
#ifndef TUG_TRANSPORT_WATCHER_H
#define TUG_TRANSPORT_WATCHER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/descriptors.h"

/* The transport's; all zeros: not watched. */
struct tug_watch {
    int descriptor;
    /* Called by the watcher: with what epoll has seen, once for each time that the watch was armed;
     * and with 0 each TUG_OWN_LOOK_NS or so, and when the watcher becomes blind, since what the
     * program has closed brings no news. Rings bells; may not add or remove. True: the watcher arms
     * it again. */
    bool (*news)(struct tug_watch *watch, uint32_t events);
    bool watched;
    struct tug_watch *next;
};

/* Adds a watch, not armed yet. False: no descriptor, memory or thread can be had. Any thread. */
bool tug_watcher_add(struct tug_watch *watch);

/* Removes it, if it was added: when this returns news() is not being called, nor ever will be. The
 * descriptor is still there. Any thread. */
void tug_watcher_remove(struct tug_watch *watch);

/* Has news() called when the descriptor is readable. False: it will not be, now or ever. Any
 * thread, not while it is being added or removed. */
bool tug_watcher_arm(struct tug_watch *watch);

/* Does it still see what is armed? seq_cst: who reads true before it sleeps will be rung if it
 * becomes blind. */
bool tug_watcher_sees(void);

/* For tests. */
struct tug_watcher {
    pthread_mutex_t changing;  /* held to add and remove, and so to start and end the thread */
    pthread_mutex_t lock;      /* protects the list, which the thread reads */
    struct tug_watch *watches; /* NULL: the thread does not run */
    pthread_t thread;
    int set;             /* our epoll set */
    struct tug_own stop; /* a member of it, readable when the thread shall end */
    _Atomic bool ending; /* the thread shall end; it looks every TUG_OWN_LOOK_NS */
    _Atomic bool blind;  /* the thread has ended */
};
extern struct tug_watcher tug_watcher;

#endif
