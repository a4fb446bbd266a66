/* The watcher of the tcp wires: one thread a process, for the wires of all its contexts. It sleeps
 * at their epoll sets and rings the bell of one that has become readable, once for each time that
 * it was armed.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/stats.h"
#include "transport/packets/wire_tcp_private.h"

enum { STOP = 1 }; /* no wire's address */

struct tug_tcp_watch tug_tcp_watch_all = {
    .changes = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER, .set = -1};

static bool holds(const struct tug_tcp_watch *watch) {
    return tug_own_set(watch->set, &watch->watcher.stop, EPOLLIN, STOP);
}

/* NULL: all. One that is not among them any more is not touched. */
static void ring(struct tug_tcp_watch *watch, const struct tcp_wire *which) {
    pthread_mutex_lock(&watch->lock);
    for (struct tcp_wire *tcp = watch->wires; tcp != NULL; tcp = tcp->next_watched)
        if (which == NULL || tcp == which)
            tug_bell_ring(tcp->wire.fabric->bell, tcp->wire.fabric->bell_shared);
    pthread_mutex_unlock(&watch->lock);
}

static void *watch_main(void *argument) {
    struct tug_tcp_watch *watch = argument;
    struct epoll_event event;
    while (!atomic_load(&watch->watcher.ending) && holds(watch)) {
        int n = epoll_wait(watch->set, &event, 1, TUG_WATCHER_LOOK_MS);
        if (n < 0 && errno != EINTR)
            break;
        /* without news too: what the program has closed brings none */
        if (n <= 0)
            ring(watch, NULL);
        else if (event.data.u64 != STOP)
            ring(watch, event.data.ptr);
    }
    /* seq_cst, before the bells: who was armed before that looks again, and who arms later sees it
     */
    atomic_store(&watch->watcher.blind, true);
    ring(watch, NULL);
    return NULL;
}

bool tug_tcp_watch_arm(struct tcp_wire *tcp) {
    struct tug_tcp_watch *watch = &tug_tcp_watch_all;
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = tcp};
    if (holds(watch) && epoll_ctl(watch->set, EPOLL_CTL_MOD, tcp->set, &event) == 0 &&
        !atomic_load(&watch->watcher.blind))
        return true;
    if (!tcp->unwatched)
        tug_stat_add(TUG_STAT_UNWATCHED, 1);
    tcp->unwatched = true;
    return false;
}

/* An epoll set with what stops the watcher in it. */
static bool open_set(struct tug_tcp_watch *watch) {
    struct epoll_event stop = {.events = EPOLLIN, .data.u64 = STOP};
    watch->set = tug_descriptor_lift(epoll_create1(EPOLL_CLOEXEC));
    return watch->set >= 0 &&
           epoll_ctl(watch->set, EPOLL_CTL_ADD, watch->watcher.stop.number, &stop) == 0;
}

/* There is no wire any more. */
static void end(struct tug_tcp_watch *watch) {
    tug_watcher_end(&watch->watcher);
    if (holds(watch))
        close(watch->set);
    watch->set = -1;
    tug_watcher_close(&watch->watcher);
}

static bool begin(struct tug_tcp_watch *watch) {
    if (tug_watcher_prepare(&watch->watcher) && open_set(watch) &&
        tug_watcher_start(&watch->watcher, watch_main, watch))
        return true;
    end(watch);
    return false;
}

static bool add(struct tug_tcp_watch *watch, struct tcp_wire *tcp) {
    struct epoll_event event = {.events = EPOLLONESHOT, .data.ptr = tcp};
    if (!holds(watch) || epoll_ctl(watch->set, EPOLL_CTL_ADD, tcp->set, &event) != 0)
        return false;
    pthread_mutex_lock(&watch->lock);
    tcp->next_watched = watch->wires;
    watch->wires = tcp;
    pthread_mutex_unlock(&watch->lock);
    return true;
}

bool tug_tcp_watch_begin(struct tcp_wire *tcp) {
    struct tug_tcp_watch *watch = &tug_tcp_watch_all;
    pthread_mutex_lock(&watch->changes);
    if (!tcp->watched && (watch->wires != NULL || begin(watch))) {
        tcp->watched = add(watch, tcp);
        if (watch->wires == NULL)
            end(watch);
    }
    pthread_mutex_unlock(&watch->changes);
    return tcp->watched;
}

void tug_tcp_watch_end(struct tcp_wire *tcp) {
    struct tug_tcp_watch *watch = &tug_tcp_watch_all;
    if (!tcp->watched)
        return;
    pthread_mutex_lock(&watch->changes);
    pthread_mutex_lock(&watch->lock);
    struct tcp_wire **at = &watch->wires;
    while (*at != tcp)
        at = &(*at)->next_watched;
    *at = tcp->next_watched;
    pthread_mutex_unlock(&watch->lock);
    if (holds(watch))
        (void)epoll_ctl(watch->set, EPOLL_CTL_DEL, tcp->set, NULL);
    if (watch->wires == NULL)
        end(watch);
    pthread_mutex_unlock(&watch->changes);
    tcp->watched = false;
}
