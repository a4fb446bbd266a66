#include "cmd/kernel.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/descriptors.h"

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441 /* on all machines */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* A call with arguments that cannot be meant fails in another way where it is there. */
static bool is_refused(long result) {
    return result < 0 && (errno == ENOSYS || errno == EPERM || errno == EACCES);
}

static bool epoll_pwait2_refused(void) {
    return is_refused(syscall(SYS_epoll_pwait2, -1, NULL, 0, NULL, NULL, 0));
}

static bool sched_setattr_refused(void) {
    return is_refused(syscall(SYS_sched_setattr, 0, NULL, 0));
}

static bool getrandom_refused(void) {
    char byte;
    return is_refused(getrandom(&byte, 1, 0));
}

static bool opened(int descriptor) {
    if (descriptor >= 0)
        close(descriptor);
    return descriptor >= 0;
}

static bool memfd_refused(void) {
    return !opened(memfd_create("tugboat", MFD_CLOEXEC));
}

static bool epoll_refused(void) {
    return !opened(epoll_create1(EPOLL_CLOEXEC));
}

static bool bell_refused(void) {
    return !opened(tug_descriptor_bell());
}

static bool populate_refused(void) {
    const size_t bytes = 4096;
    // cppcheck-suppress invalidFunctionArg
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const bool refused = page == MAP_FAILED || madvise(page, bytes, MADV_POPULATE_WRITE) != 0;
    if (page != MAP_FAILED)
        munmap(page, bytes);
    return refused;
}

static const struct {
    bool (*refused)(void);
    const char *call, *since, *instead;
} calls[] = {
    {epoll_pwait2_refused, "epoll_pwait2", "Linux 5.11", "a sleep at sockets takes two calls"},
    {populate_refused, "madvise(MADV_POPULATE_WRITE)", "Linux 5.14",
     "pages of windows are touched one by one"},
    {sched_setattr_refused, "sched_setattr", "Linux 3.14",
     "where ranks compute, the offload thread may wait for its core"},
    {memfd_refused, "memfd_create", "Linux 3.17",
     "memory of MPI_Alloc_mem is the host's, and is copied through shared memory"},
    {getrandom_refused, "getrandom", "Linux 3.17", "/dev/urandom is read"},
    {epoll_refused, "epoll_create1", "Linux 2.6.27",
     "sockets are looked at every 50 to 200 us, LLCL goes by the host's messages"},
    {bell_refused, "a pipe by /proc/self/fd", "all", "sockets are looked at every 50 to 200 us"},
};

unsigned tug_kernel_refusals(void (*tell)(const char *call, const char *since,
                                          const char *instead)) {
    unsigned n = 0;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (!calls[i].refused())
            continue;
        n++;
        tell(calls[i].call, calls[i].since, calls[i].instead);
    }
    return n;
}
