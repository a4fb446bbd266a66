/* fork() while a device has memory of this process pinned.
 *
 * Before Linux 5.12 a fork leaves pinned pages to be copied by whoever writes first, and a parent
 * that does goes on with the copy, while the device keeps the page: data go astray. libibverbs
 * keeps registered pages out of children there (ibv_fork_init; their neighbours on the same page
 * with them), and does nothing where the kernel copies such pages for the child at the fork. As UCX
 * does: it is tried, and where it fails (somebody has registered memory without it before) a fork
 * is warned of. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "transport/verbs/private.h"

static atomic_int open_devices;

void tug_verbs_count_open(int change) {
    (void)atomic_fetch_add(&open_devices, change);
}

/* Before a fork that nothing has been done for. */
static void warn(void) {
    if (atomic_load(&open_devices) > 0)
        tug_warn_once("verbs: this process forks, and libibverbs cannot keep its pinned memory "
                      "(ibv_fork_init has failed), so data may go astray: do not fork, or leave "
                      "verbs out of TUGBOAT_TRANSPORTS");
}

/* libibverbs keeps pages out of children, and must know that some of them are huge: it would ask
 * the kernel for a part of one, and refuse the registration. */
static void prepare(void) {
    (void)setenv("RDMAV_HUGEPAGES_SAFE", "1", 0);
    const int error = tug_ibv.fork_init();
    if (error == 0)
        return;
    tug_log(TUG_VERBOSE_INFO, "verbs: ibv_fork_init: %s: a fork is not safe", strerror(error));
    (void)pthread_atfork(warn, NULL, NULL);
}

void tug_verbs_prepare_fork(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
}

#define FORK_UNNEEDED 2 /* IBV_FORK_UNNEEDED, which headers before libibverbs 36 do not have */

bool tug_verbs_fork_copies(void) {
    return tug_ibv.is_fork_initialized != NULL && tug_ibv.is_fork_initialized() == FORK_UNNEEDED;
}
