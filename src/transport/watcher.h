/* A watcher: a thread of a transport's own, which sleeps in the kernel for news that ring no bell,
 * and rings the engine's. */
#ifndef TUG_TRANSPORT_WATCHER_H
#define TUG_TRANSPORT_WATCHER_H

#include <pthread.h>
#include <stdbool.h>

/* All zeros: none. */
struct tug_watcher {
    pthread_t thread;
    bool prepared, runs;
    int stop; /* prepared: readable when the thread shall end */
};

/* Makes `stop`, which is to be watched too. False: no descriptor. */
bool tug_watcher_prepare(struct tug_watcher *watcher);

/* Starts the thread, which gets no signals. False: it cannot be had. */
bool tug_watcher_start(struct tug_watcher *watcher, void *(*watch)(void *), void *argument);

/* Ends what was prepared, and the thread if it runs. */
void tug_watcher_stop(struct tug_watcher *watcher);

#endif
