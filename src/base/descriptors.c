#include "base/descriptors.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#define STEP 1024

/* The program's soft limit, 0: not known yet. Who comes first notes it, before it is raised. */
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
    const rlim_t own = atomic_load(&program);
    if ((rlim_t)descriptor < own / 2 || (rlim_t)descriptor >= own)
        return descriptor;
    int lifted = fcntl(descriptor, F_DUPFD_CLOEXEC, (int)own);
    if (lifted < 0 && tug_descriptors_raise())
        lifted = fcntl(descriptor, F_DUPFD_CLOEXEC, (int)own);
    if (lifted < 0)
        return descriptor;
    close(descriptor);
    return lifted;
}
