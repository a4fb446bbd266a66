/* A watcher: a thread of a transport's own, which sleeps in the kernel for news that ring no bell,
 * and rings the engine's. */
#ifndef TUG_TRANSPORT_WATCHER_H
#define TUG_TRANSPORT_WATCHER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/descriptors.h"

/* All zeros: none. */
struct tug_watcher {
    pthread_t thread;
    bool prepared, runs;
    struct tug_own stop; /* prepared: readable when the thread shall end */
    _Atomic bool ending; /* the thread shall end; it looks every TUG_OWN_LOOK_NS */
    _Atomic bool blind;  /* the thread has ended or cannot watch */
};

#define TUG_WATCHER_LOOK_MS ((int)(TUG_OWN_LOOK_NS / 1000000))

/* Makes `stop`, which is to be watched too. False: no descriptor. */
bool tug_watcher_prepare(struct tug_watcher *watcher);

/* Starts the thread, which gets no signals. False: it cannot be had. */
bool tug_watcher_start(struct tug_watcher *watcher, void *(*watch)(void *), void *argument);

/* Ends the thread if it runs. / Closes what was prepared. */
void tug_watcher_end(struct tug_watcher *watcher);
void tug_watcher_close(struct tug_watcher *watcher);

#endif
