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

#ifndef UFFD_USER_MODE_ONLY /* Linux 5.11: a process without privileges may have one with it */
#define UFFD_USER_MODE_ONLY 1
#endif

/* The last one only says how old the kernel is: before Linux 5.15 the first of two threads that
 * unmap ends the time of both in which tug_unmap_watch_sees() is false. */
#ifndef UFFD_FEATURE_EXACT_ADDRESS
#define UFFD_FEATURE_EXACT_ADDRESS (1 << 11)
#endif
#define FEATURES                                                                                   \
    (UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE |       \
     UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EXACT_ADDRESS)

pthread_mutex_t tug_unmap_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    pthread_mutex_t changing; /* tug_unmap_watch_begin() and _end() hold it */
    unsigned users;
    struct tug_own reports; /* the userfaultfd */
    struct tug_own stop;    /* readable when the thread shall end */
    pthread_t thread;
    void (*gone)(uintptr_t first, uintptr_t end);
} watch = {.changing = PTHREAD_MUTEX_INITIALIZER, .reports = TUG_OWN_NONE, .stop = TUG_OWN_NONE};

/* ---- the thread ---- */

/* After mremap() the kernel goes on watching the range at its new address, which no caller has
 * asked for. */
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
    default: /* a fault, which cannot be since no page is protected */
        break;
    }
}

/* Takes the lock first: to read a report lets the caller of munmap() go on. */
static void take_reports(void) {
    struct uffd_msg report;
    pthread_mutex_lock(&tug_unmap_lock);
    while (read(watch.reports.number, &report, sizeof(report)) == (ssize_t)sizeof(report))
        take_report(&report);
    pthread_mutex_unlock(&tug_unmap_lock);
}

/* Until the thread is stopped, or the descriptors do not work any more. */
static void watch_on(void) {
    struct pollfd from[] = {{.fd = watch.reports.number, .events = POLLIN},
                            {.fd = watch.stop.number, .events = POLLIN}};
    for (;;) {
        const int n = poll(from, 2, (int)(TUG_OWN_LOOK_NS / 1000000));
        const bool fails = n < 0 && errno != EINTR;
        if (fails || !tug_own_holds(&watch.reports) || !tug_own_holds(&watch.stop) ||
            (n > 0 && from[1].revents != 0))
            return;
        if (n > 0 && (from[0].revents & POLLIN))
            take_reports();
    }
}

/* Reports that no thread reads would keep the program waiting: they end with the thread. */
static void *watch_main(void *argument) {
    (void)argument;
    (void)prctl(PR_SET_NAME, "tugboat", 0, 0, 0);
    watch_on();
    pthread_mutex_lock(&tug_unmap_lock);
    if (tug_own_holds(&watch.reports))
        tug_descriptor_close(watch.reports.number);
    watch.reports = (struct tug_own)TUG_OWN_NONE;
    pthread_mutex_unlock(&tug_unmap_lock);
    return NULL;
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

static bool start(void (*gone)(uintptr_t first, uintptr_t end)) {
    sigset_t all, before;
    watch.gone = gone;
    watch.stop = tug_own_keep(tug_descriptor_bell());
    bool runs = watch.stop.number >= 0 && open_reports();
    tug_signals_of_program(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    runs = runs && pthread_create(&watch.thread, NULL, watch_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!runs) {
        tug_own_close(&watch.reports);
        tug_own_close(&watch.stop);
    }
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
        tug_own_close(&watch.stop);
    }
    pthread_mutex_unlock(&watch.changing);
}

/* ---- ranges ---- */

/* Is that mapping of the list in /proc shared, and not the library's? */
static bool is_others(const char *line) {
    char rights[8] = "";
    return sscanf(line, "%*s %7s", rights) == 1 && rights[3] == 's' &&
           strstr(line, " /memfd:tugboat") == NULL;
}

/* Does shared memory lie in the range that is not the library's? True also where /proc cannot be
 * read. */
static bool is_shared(uintptr_t first, uintptr_t end) {
    char line[512];
    uint64_t from, to;
    bool shared = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && !shared && fgets(line, sizeof(line), maps) != NULL)
        shared = sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2 && from < end &&
                 first < to && is_others(line);
    if (maps != NULL)
        fclose(maps);
    return shared || maps == NULL;
}

bool tug_unmap_watch_add(uintptr_t first, uintptr_t end) {
    const int kept_errno = errno;
    struct uffdio_register range = {.range = {first, end - first}, .mode = UFFDIO_REGISTER_MODE_WP};
    bool added = !is_shared(first, end); /* without the lock: it allocates memory */
    pthread_mutex_lock(&tug_unmap_lock);
    added = added && tug_own_holds(&watch.reports) &&
            ioctl(watch.reports.number, UFFDIO_REGISTER, &range) == 0;
    pthread_mutex_unlock(&tug_unmap_lock);
    errno = kept_errno;
    return added;
}

/* Asks the kernel to fill in the pages of an empty range. It refuses with EAGAIN while watched
 * memory changes, and otherwise with EINVAL, since the range is empty. */
bool tug_unmap_watch_sees(void) {
    const int kept_errno = errno;
    struct uffdio_zeropage none = {.range = {0, 0}};
    const bool refused = ioctl(watch.reports.number, UFFDIO_ZEROPAGE, &none) < 0;
    const bool sees = refused && errno == EINVAL;
    errno = kept_errno;
    return sees;
}
