#include "host/farewell.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "base/hook.h"
#include "host/host.h"
#include "host/polite.h"

#define WORKERS 64 /* as many as MPICH makes at most */

/* UCX's functions. A worker is a pointer, a status 0 or less. */
typedef int create_function(void *context, const void *parameters, void **worker);
typedef void destroy_function(void *worker);
typedef unsigned progress_function(void *worker);
typedef ssize_t read_function(int fd, void *buffer, size_t bytes);

static struct tug_hook create_hook, destroy_hook, read_hook;
static progress_function *progress;
static bool prepared;
static void *_Atomic workers[WORKERS]; /* NULL: no worker */
static _Thread_local bool closing;

/* A worker for which there is no room is not progressed here. */
static int create(void *context, const void *parameters, void **worker) {
    int status = ((create_function *)create_hook.original)(context, parameters, worker);
    for (size_t i = 0; i < WORKERS && status == 0; i++) {
        void *none = NULL;
        if (atomic_compare_exchange_strong(&workers[i], &none, *worker))
            break;
    }
    return status;
}

static void destroy(void *worker) {
    for (size_t i = 0; i < WORKERS; i++) {
        void *this_one = worker;
        if (atomic_compare_exchange_strong(&workers[i], &this_one, NULL))
            break;
    }
    ((destroy_function *)destroy_hook.original)(worker);
}

static unsigned progress_all(void) {
    unsigned events = 0;
    for (size_t i = 0; i < WORKERS; i++) {
        void *worker = atomic_load(&workers[i]);
        if (worker != NULL)
            events += progress(worker);
    }
    return events;
}

/* Sleeps longer and longer, since peers may come late; events begin the naps anew, since peers
 * close then: a peer that closes waits for a few of the longest. A signal ends a nap; other errors
 * of ppoll() are left to the read() that follows. */
static void wait_until_readable(int fd) {
    struct pollfd look = {.fd = fd, .events = POLLIN};
    long nap_ns = 0;
    int ready;
    while ((ready = ppoll(&look, 1, &(struct timespec){0, nap_ns}, NULL)) == 0 ||
           (ready < 0 && errno == EINTR)) {
        bool news = progress_all() > 0;
        nap_ns = news ? 0 : nap_ns < TUG_NAP_LEAST_NS ? TUG_NAP_LEAST_NS : 2 * nap_ns;
        nap_ns = nap_ns < TUG_NAP_MOST_NS ? nap_ns : TUG_NAP_MOST_NS;
    }
}

/* A descriptor that does not block is read at once. */
static ssize_t wait_and_read(int fd, void *buffer, size_t bytes) {
    if (closing && !(fcntl(fd, F_GETFL) & O_NONBLOCK))
        wait_until_readable(fd);
    return ((read_function *)read_hook.original)(fd, buffer, bytes);
}

static bool place_all(void) {
    const void *inside = tug_host_find("PMPI_Init");
    *(void **)&progress = tug_host_find("ucp_worker_progress");
    return progress != NULL &&
           tug_hook_set(&destroy_hook, inside, "ucp_worker_destroy", (void *)destroy) &&
           tug_hook_set(&create_hook, inside, "ucp_worker_create", (void *)create) &&
           tug_hook_set(&read_hook, inside, "read", (void *)wait_and_read);
}

static void prepare(void) {
    prepared = place_all();
    if (prepared)
        return;
    tug_hook_remove(&create_hook);
    tug_hook_remove(&destroy_hook);
}

bool tug_farewell_prepare(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
    return prepared;
}

void tug_farewell_begin(void) {
    closing = prepared;
}

void tug_farewell_end(void) {
    closing = false;
}
