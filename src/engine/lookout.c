#include "engine/lookout.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sockets.h"

enum { NEWS, BELL };

static bool watch(int set, int descriptor, uint32_t how, uint32_t what) {
    struct epoll_event event = {.events = how, .data.u32 = what};
    return epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441 /* on all machines */
#endif

/* glibc has epoll_pwait2 from 2.35, Linux from 5.11, and a container may refuse it. Then it takes
 * two calls, of which the first waits as exactly: an epoll set is readable while it has events. */
static int await(int set, struct epoll_event *events, int most, int64_t limit_ns) {
    static _Atomic bool refused;
    const struct timespec limit = {.tv_sec = limit_ns / 1000000000,
                                   .tv_nsec = limit_ns % 1000000000};
    const struct timespec *const or_none = limit_ns < 0 ? NULL : &limit;
    if (!atomic_load_explicit(&refused, memory_order_relaxed)) {
        int n = (int)syscall(SYS_epoll_pwait2, set, events, most, or_none, NULL, 0);
        if (n >= 0 || (errno != ENOSYS && errno != EPERM))
            return n;
        atomic_store_explicit(&refused, true, memory_order_relaxed);
    }
    struct pollfd readable = {.fd = set, .events = POLLIN};
    int n = ppoll(&readable, 1, or_none, NULL);
    return n > 0 ? epoll_wait(set, events, most, 0) : n;
}

void tug_lookout_open(struct tug_lookout *lookout) {
    lookout->set = epoll_create1(EPOLL_CLOEXEC);
    lookout->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_store(&lookout->sees, false);
    atomic_store(&lookout->ours, 0);
    if (lookout->set < 0 || lookout->bell < 0 || !watch(lookout->set, lookout->bell, EPOLLIN, BELL))
        tug_lookout_close(lookout);
}

void tug_lookout_close(struct tug_lookout *lookout) {
    atomic_store(&lookout->sees, false);
    if (lookout->set >= 0)
        close(lookout->set);
    if (lookout->bell >= 0)
        close(lookout->bell);
    lookout->set = lookout->bell = -1;
}

/* ---- finding ---- */

static void watch_host(int set, void *d) {
    struct tug_lookout *lookout = d;
    /* one that is watched already is refused */
    if (watch(lookout->set, set, EPOLLIN | EPOLLET, NEWS))
        tug_log(TUG_VERBOSE_DEBUG, "news of the host are watched for at descriptor %d", set);
    atomic_store(&lookout->sees, true);
}

void tug_lookout_scan(struct tug_lookout *lookout) {
    if (lookout->set >= 0)
        tug_sockets_each_set(watch_host, lookout);
}

bool tug_lookout_add(struct tug_lookout *lookout, int descriptor) {
    if (lookout->set < 0 || !watch(lookout->set, descriptor, EPOLLIN, NEWS))
        return false;
    atomic_fetch_add(&lookout->ours, 1);
    return true;
}

void tug_lookout_remove(struct tug_lookout *lookout, int descriptor) {
    if (lookout->set >= 0 && epoll_ctl(lookout->set, EPOLL_CTL_DEL, descriptor, NULL) == 0)
        atomic_fetch_sub(&lookout->ours, 1);
}

/* ---- sleeping ---- */

bool tug_lookout_sleep(struct tug_lookout *lookout, int64_t limit_ns) {
    struct epoll_event events[8];
    bool news = false;
    int n = await(lookout->set, events, 8, limit_ns);
    for (int i = 0; i < n; i++) {
        uint64_t times;
        if (events[i].data.u32 == NEWS)
            news = true;
        else
            (void)!read(lookout->bell, &times, sizeof(times));
    }
    return news;
}

void tug_lookout_ring(struct tug_lookout *lookout) {
    const uint64_t one = 1;
    (void)!write(lookout->bell, &one, sizeof(one));
}
