#include "transport/watcher.h"

#include <signal.h>

bool tug_watcher_prepare(struct tug_watcher *watcher) {
    watcher->stop = tug_own_keep(tug_descriptor_bell());
    atomic_store(&watcher->ending, false);
    atomic_store(&watcher->blind, false);
    watcher->prepared = watcher->stop.number >= 0;
    return watcher->prepared;
}

bool tug_watcher_start(struct tug_watcher *watcher, void *(*watch)(void *), void *argument) {
    sigset_t all, before;
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    watcher->runs = pthread_create(&watcher->thread, NULL, watch, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return watcher->runs;
}

void tug_watcher_end(struct tug_watcher *watcher) {
    atomic_store(&watcher->ending, true);
    if (!watcher->runs)
        return;
    tug_own_ring(&watcher->stop);
    pthread_join(watcher->thread, NULL);
    watcher->runs = false;
}

void tug_watcher_close(struct tug_watcher *watcher) {
    tug_watcher_end(watcher);
    if (watcher->prepared)
        tug_own_close(&watcher->stop);
    watcher->prepared = false;
}
