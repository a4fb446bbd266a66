#include "base/descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

#define STEP 1024
#define NUMBERS_MOST 4096

/* ---- numbers ---- */

/* The soft limit as the program left it; 0: not known yet. The first caller reads it, before it is
 * raised. */
static _Atomic rlim_t program;

static bool limit(struct rlimit *now) {
    rlim_t unknown = 0;
    if (getrlimit(RLIMIT_NOFILE, now) != 0)
        return false;
    atomic_compare_exchange_strong(&program, &unknown, now->rlim_cur);
    return true;
}

bool tug_descriptors_raise(void) {
    struct rlimit now;
    if (!limit(&now) || now.rlim_cur >= now.rlim_max)
        return false;
    now.rlim_cur = now.rlim_max - now.rlim_cur > STEP ? now.rlim_cur + STEP : now.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &now) == 0;
}

int tug_descriptor_lift(int descriptor) {
    struct rlimit now;
    if (descriptor < 0 || !limit(&now))
        return descriptor;
    const rlim_t all = atomic_load(&program);
    const int high = (int)(all < NUMBERS_MOST ? all : NUMBERS_MOST) / 4 * 3;
    if (descriptor >= high)
        return descriptor;
    int lifted = fcntl(descriptor, F_DUPFD_CLOEXEC, high);
    if (lifted < 0 && errno == EMFILE && tug_descriptors_raise())
        lifted = fcntl(descriptor, F_DUPFD_CLOEXEC, high);
    if (lifted < 0)
        return descriptor;
    close(descriptor);
    return lifted;
}

void tug_descriptors_prepare(void) {
    int highest = tug_descriptor_lift(open("/", O_PATH | O_CLOEXEC));
    if (highest >= 0)
        close(highest);
}

/* ---- the program's, and the host's ---- */

static bool begins_with_one(const char *path, const char *const beginnings[]) {
    for (; *beginnings != NULL; beginnings++)
        if (strncmp(path, *beginnings, strlen(*beginnings)) == 0)
            return true;
    return false;
}

bool tug_descriptor_of(const char *const beginnings[], char *path, size_t bytes) {
    const int kept_errno = errno;
    DIR *all = opendir("/proc/self/fd");
    bool found = false;
    for (const struct dirent *one; all != NULL && !found && (one = readdir(all)) != NULL;) {
        const ssize_t length = readlinkat(dirfd(all), one->d_name, path, bytes - 1);
        path[length > 0 ? length : 0] = '\0';
        found = length > 0 && begins_with_one(path, beginnings);
    }
    if (all != NULL)
        closedir(all);
    errno = kept_errno;
    return found;
}

/* ---- ours ---- */

struct tug_own tug_own_note(int descriptor) {
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        return (struct tug_own)TUG_OWN_NONE;
    return (struct tug_own){.number = descriptor, .device = status.st_dev, .inode = status.st_ino};
}

/* The inodes of those that are kept, by number; 0: none is. Higher numbers stay open in a child. */
#define KEPT 16384
static _Atomic uint64_t kept[KEPT];
static _Atomic int kept_least = KEPT;

/* In the child of a fork: a connection ends for its peer when the parent closes it or ends, and
 * what the program has opened at such a number meanwhile stays. */
static void close_kept(void) {
    struct stat status;
    for (int i = atomic_load(&kept_least); i < KEPT; i++) {
        const uint64_t inode = atomic_exchange(&kept[i], 0);
        if (inode != 0 && fstat(i, &status) == 0 && status.st_ino == inode)
            close(i);
    }
}

static void hook_forks(void) {
    (void)pthread_atfork(NULL, NULL, close_kept);
}

static void keep(const struct tug_own *own) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int least = atomic_load(&kept_least);
    if (own->number < 0 || own->number >= KEPT)
        return;
    pthread_once(&once, hook_forks);
    atomic_store(&kept[own->number], own->inode);
    while (own->number < least && !atomic_compare_exchange_weak(&kept_least, &least, own->number))
        ;
}

struct tug_own tug_own_keep(int descriptor) {
    const struct tug_own own = tug_own_note(tug_descriptor_lift(descriptor));
    keep(&own);
    return own;
}

void tug_descriptor_close(int descriptor) {
    if (descriptor < 0)
        return;
    if (descriptor < KEPT)
        atomic_store(&kept[descriptor], 0);
    close(descriptor);
}

static void tell_closed(int number) {
    tug_warn_once("the program has closed descriptor %d, which was the library's: what went by it "
                  "goes another way or has failed; let the program close only what it has opened, "
                  "or do it before MPI_Init",
                  number);
}

bool tug_own_holds(const struct tug_own *own) {
    struct stat status;
    if (own->number < 0)
        return false;
    if (fstat(own->number, &status) == 0 && status.st_dev == own->device &&
        status.st_ino == own->inode)
        return true;
    tell_closed(own->number);
    return false;
}

bool tug_own_set(int set, const struct tug_own *member, uint32_t events, uint64_t data) {
    struct epoll_event event = {.events = events, .data.u64 = data};
    if (set < 0 || !tug_own_holds(member))
        return false;
    /* nobody else has that file, so no other set has it either */
    if (epoll_ctl(set, EPOLL_CTL_MOD, member->number, &event) == 0)
        return true;
    tell_closed(set);
    return false;
}

void tug_own_close(struct tug_own *own) {
    if (tug_own_holds(own))
        tug_descriptor_close(own->number);
    own->number = -1;
}

uint64_t tug_own_tick(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- bells ---- */

int tug_descriptor_bell(void) {
    int ends[2];
    char path[32];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
    const int bell = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    close(ends[0]);
    close(ends[1]);
    return bell;
}

/* A pipe that is full rings already. */
void tug_own_ring(const struct tug_own *bell) {
    if (tug_own_holds(bell))
        (void)!write(bell->number, "", 1);
}

void tug_own_silence(const struct tug_own *bell) {
    char rings[64];
    while (tug_own_holds(bell) && read(bell->number, rings, sizeof(rings)) == sizeof(rings))
        ;
}
