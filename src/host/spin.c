#include "host/spin.h"

#include <sched.h>

#include "base/hook.h"
#include "host/host.h"

#define VAIN_MOST 20 /* a cache miss or two may yet bring it */

_Thread_local uint32_t tug_spin_vain;

static struct tug_hook hook;
static bool (*is_busy)(void);

typedef unsigned progress_function(void *worker); /* UCX's, the number of events */

static unsigned progress(void *worker) {
    unsigned events = ((progress_function *)hook.original)(worker);
    if (events > 0)
        tug_spin_vain = 0;
    else if (++tug_spin_vain > VAIN_MOST && !is_busy())
        sched_yield();
    return events;
}

bool tug_spin_yield(bool (*busy)(void)) {
    is_busy = busy;
    return hook.slot != NULL || tug_hook_place(&hook, tug_host_find("PMPI_Init"),
                                               "ucp_worker_progress", (void *)progress);
}

void tug_spin_restore(void) {
    tug_hook_remove(&hook);
}
