#include "engine/lookout.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

enum { NEWS, BELL };

static bool watch(int set, int descriptor, uint32_t how, uint32_t what) {
    struct epoll_event event = {.events = how, .data.u32 = what};
    return epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

/* glibc has epoll_pwait2 from 2.35, Linux from 5.11. */
static int await(int set, struct epoll_event *events, int most, int64_t limit_ns) {
    const struct timespec limit = {.tv_sec = limit_ns / 1000000000,
                                   .tv_nsec = limit_ns % 1000000000};
    return (int)syscall(SYS_epoll_pwait2, set, events, most, limit_ns < 0 ? NULL : &limit, NULL, 0);
}

void tug_lookout_open(struct tug_lookout *lookout) {
    struct epoll_event none;
    lookout->set = epoll_create1(EPOLL_CLOEXEC);
    lookout->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_store(&lookout->sees, false);
    if (lookout->set < 0 || lookout->bell < 0 ||
        !watch(lookout->set, lookout->bell, EPOLLIN, BELL) || await(lookout->set, &none, 1, 0) < 0)
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

static bool is_connected(int descriptor) {
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);
    return getpeername(descriptor, (struct sockaddr *)&address, &bytes) == 0 &&
           (address.ss_family == AF_INET || address.ss_family == AF_INET6);
}

/* Has an epoll set a connected socket among its members? The kernel lists them. */
static bool has_sockets(int set) {
    char path[64], line[256];
    int member;
    bool found = false;
    (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", set);
    FILE *list = fopen(path, "re");
    while (list != NULL && !found && fgets(line, sizeof(line), list) != NULL)
        found = sscanf(line, "tfd: %d", &member) == 1 && is_connected(member);
    if (list != NULL)
        (void)fclose(list);
    return found;
}

static bool is_epoll_set(int directory, const char *name) {
    char what[64];
    ssize_t bytes = readlinkat(directory, name, what, sizeof(what) - 1);
    if (bytes < 0)
        return false;
    what[bytes] = '\0';
    return strcmp(what, "anon_inode:[eventpoll]") == 0;
}

void tug_lookout_scan(struct tug_lookout *lookout) {
    DIR *directory = lookout->set < 0 ? NULL : opendir("/proc/self/fd");
    const struct dirent *entry;
    /* cppcheck-suppress readdirCalled ; the stream is this thread's own */
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        int descriptor = (int)strtol(entry->d_name, NULL, 10);
        if (entry->d_name[0] == '.' || descriptor == lookout->set ||
            !is_epoll_set(dirfd(directory), entry->d_name) || !has_sockets(descriptor))
            continue;
        /* one that is watched already is refused */
        if (watch(lookout->set, descriptor, EPOLLIN | EPOLLET, NEWS))
            tug_log(TUG_VERBOSE_DEBUG, "news of the host are watched for at descriptor %d",
                    descriptor);
        atomic_store(&lookout->sees, true);
    }
    if (directory != NULL)
        (void)closedir(directory);
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
