#include "transport/watcher.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

bool tug_watcher_prepare(struct tug_watcher *watcher) {
    watcher->stop = eventfd(0, EFD_CLOEXEC);
    watcher->prepared = watcher->stop >= 0;
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

void tug_watcher_stop(struct tug_watcher *watcher) {
    const uint64_t one = 1;
    while (watcher->runs && write(watcher->stop, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    if (watcher->runs)
        pthread_join(watcher->thread, NULL);
    if (watcher->prepared)
        close(watcher->stop);
    watcher->prepared = watcher->runs = false;
}
