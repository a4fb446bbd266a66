#include "base/unmap_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/log.h"
#include "base/signals.h"

#ifndef UFFD_USER_MODE_ONLY /* Linux 5.11: any user may have one */
#define UFFD_USER_MODE_ONLY 1
#endif

#define FEATURES                                                                                   \
    (UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE |       \
     UFFD_FEATURE_EVENT_REMAP)

pthread_mutex_t tug_unmap_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    pthread_mutex_t changing; /* held to begin and to end */
    unsigned users;
    struct tug_own reports; /* the userfaultfd */
    struct tug_own stop;    /* readable when the thread shall end */
    pthread_t thread;
    void (*gone)(uintptr_t first, uintptr_t end);
} watch = {.changing = PTHREAD_MUTEX_INITIALIZER, .reports = TUG_OWN_NONE, .stop = TUG_OWN_NONE};

/* ---- the thread ---- */

/* A range that has moved is watched at its new place, too, where nobody asked for it. */
static void take_report(const struct uffd_msg *report) {
    switch (report->event) {
    case UFFD_EVENT_REMAP: {
        struct uffdio_range there = {report->arg.remap.to, report->arg.remap.len};
        (void)ioctl(watch.reports.number, UFFDIO_UNREGISTER, &there);
        watch.gone((uintptr_t)report->arg.remap.from,
                   (uintptr_t)(report->arg.remap.from + report->arg.remap.len));
        break;
    }
    case UFFD_EVENT_REMOVE:
    case UFFD_EVENT_UNMAP:
        watch.gone((uintptr_t)report->arg.remove.start, (uintptr_t)report->arg.remove.end);
        break;
    default: /* a fault: of nothing that is protected */
        break;
    }
}

/* The lock is held before the report is read, which lets the caller of munmap() go on. */
static void take_reports(void) {
    struct uffd_msg report;
    pthread_mutex_lock(&tug_unmap_lock);
    while (read(watch.reports.number, &report, sizeof(report)) == (ssize_t)sizeof(report))
        take_report(&report);
    pthread_mutex_unlock(&tug_unmap_lock);
}

static void *watch_main(void *argument) {
    struct pollfd from[] = {{.fd = watch.reports.number, .events = POLLIN},
                            {.fd = watch.stop.number, .events = POLLIN}};
    (void)argument;
    (void)prctl(PR_SET_NAME, "tugboat", 0, 0, 0);
    for (;;) {
        const int n = poll(from, 2, (int)(TUG_OWN_LOOK_NS / 1000000));
        const bool fails = n < 0 && errno != EINTR;
        if (fails || !tug_own_holds(&watch.reports) || !tug_own_holds(&watch.stop) ||
            (n > 0 && from[1].revents != 0))
            return NULL;
        if (n > 0 && (from[0].revents & POLLIN))
            take_reports();
    }
}

/* ---- begin and end ---- */

static bool open_reports(void) {
    const int flags = O_CLOEXEC | O_NONBLOCK;
    struct uffdio_api api = {.api = UFFD_API, .features = FEATURES};
    long descriptor = syscall(SYS_userfaultfd, flags | UFFD_USER_MODE_ONLY);
    if (descriptor < 0 && errno == EINVAL)
        descriptor = syscall(SYS_userfaultfd, flags);
    watch.reports = tug_own_keep((int)descriptor);
    return watch.reports.number >= 0 && ioctl(watch.reports.number, UFFDIO_API, &api) == 0;
}

static void close_all(void) {
    tug_own_close(&watch.reports);
    tug_own_close(&watch.stop);
}

static bool start(void (*gone)(uintptr_t first, uintptr_t end)) {
    sigset_t all, before;
    watch.gone = gone;
    watch.stop = tug_own_keep(tug_descriptor_bell());
    bool runs = watch.stop.number >= 0 && open_reports();
    tug_signals_of_program(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    runs = runs && pthread_create(&watch.thread, NULL, watch_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!runs)
        close_all();
    return runs;
}

bool tug_unmap_watch_begin(void (*gone)(uintptr_t first, uintptr_t end)) {
    const int kept_errno = errno;
    pthread_mutex_lock(&watch.changing);
    const bool runs = watch.users > 0 || start(gone);
    watch.users += runs;
    pthread_mutex_unlock(&watch.changing);
    errno = kept_errno;
    return runs;
}

void tug_unmap_watch_end(void) {
    pthread_mutex_lock(&watch.changing);
    if (--watch.users == 0) {
        tug_own_ring(&watch.stop);
        pthread_join(watch.thread, NULL);
        close_all();
    }
    pthread_mutex_unlock(&watch.changing);
}

/* ---- ranges ---- */

/* Does a System V segment lie in the range? As it seems, where /proc cannot be read. */
static bool has_segment(uintptr_t first, uintptr_t end) {
    char line[512];
    uint64_t from, to;
    bool has = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && !has && fgets(line, sizeof(line), maps) != NULL)
        has = sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2 && from < end &&
              first < to && strstr(line, " /SYSV") != NULL;
    if (maps != NULL)
        fclose(maps);
    return has || maps == NULL;
}

bool tug_unmap_watch_add(uintptr_t first, uintptr_t end) {
    const int kept_errno = errno;
    struct uffdio_register range = {.range = {first, end - first}, .mode = UFFDIO_REGISTER_MODE_WP};
    const bool added = tug_own_holds(&watch.reports) && !has_segment(first, end) &&
                       ioctl(watch.reports.number, UFFDIO_REGISTER, &range) == 0;
    errno = kept_errno;
    return added;
}

/* While watched memory changes the kernel fills in no pages (EAGAIN); else it finds that the range
 * here has none (EINVAL). */
bool tug_unmap_watch_sees(void) {
    const int kept_errno = errno;
    struct uffdio_zeropage none = {.range = {0, 0}};
    const bool refused = ioctl(watch.reports.number, UFFDIO_ZEROPAGE, &none) < 0;
    const bool sees = refused && errno == EINVAL;
    errno = kept_errno;
    return sees;
}
