#include "host/spin.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/hook.h"
#include "base/settings.h"
#include "host/host.h"

/* Three numbers that are not the engine's (engine/plan.h), for they count calls of the host's
 * progress function and not looks of ours. So many calls that found nothing come before the first
 * look elsewhere, and before the core is given away: as long as a few cache misses. A call that is
 * over soon has not paid for a look (a barrier of 0.34 us took 0.40 with a first look after four).
 * Of so many that follow each looks, for where something was found there is soon more (a get of 8
 * bytes and a flush: 0.52 us, 0.55 without); from then on every so many of them look. */
#define VAIN_MOST 20
#define VAIN_SOON 32
#define VAIN_A_LOOK 4

_Thread_local uint32_t tug_spin_vain;

static struct tug_hook hook;
static bool (*is_busy)(void);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the hook and what follows */
static bool lacks_call;
static bool always;
static unsigned meetings;
static unsigned lookers;
static bool (*_Atomic look_elsewhere)(void);
static _Atomic bool yields;

typedef unsigned progress_function(void *worker); /* UCX's, the number of events */

/* Is it time for a look, after so many calls that found nothing? */
static inline bool is_time(uint32_t vain) {
    return vain >= VAIN_MOST && (vain < VAIN_MOST + VAIN_SOON || vain % VAIN_A_LOOK == 0);
}

static unsigned progress(void *worker) {
    unsigned events = ((progress_function *)hook.original)(worker);
    if (events > 0) {
        tug_spin_vain = 0;
        return events;
    }
    bool (*look)(void) = atomic_load_explicit(&look_elsewhere, memory_order_relaxed);
    if (is_time(++tug_spin_vain) && look != NULL && look())
        tug_spin_vain = VAIN_MOST;
    else if (tug_spin_vain > VAIN_MOST && yields && !is_busy())
        sched_yield();
    return 0;
}

/* With the lock. */
static void adjust(void) {
    yields = always || (meetings > 0 && tug_settings.wait != TUG_WAIT_NATIVE);
    if (!yields && lookers == 0)
        tug_hook_remove(&hook);
    else if (!hook.is_set && !lacks_call)
        lacks_call = !tug_hook_set(&hook, tug_host_find("PMPI_Init"), "ucp_worker_progress",
                                   (void *)progress);
}

bool tug_spin_look_begin(bool (*look)(void)) {
    pthread_mutex_lock(&lock);
    lookers++;
    adjust();
    const bool is_set = hook.is_set;
    if (is_set)
        atomic_store(&look_elsewhere, look);
    else
        lookers--;
    pthread_mutex_unlock(&lock);
    return is_set;
}

void tug_spin_look_end(void) {
    pthread_mutex_lock(&lock);
    if (--lookers == 0)
        atomic_store(&look_elsewhere, NULL);
    adjust();
    pthread_mutex_unlock(&lock);
}

bool tug_spin_yield(bool (*busy)(void)) {
    pthread_mutex_lock(&lock);
    is_busy = busy;
    always = true;
    adjust();
    bool is_set = hook.is_set;
    pthread_mutex_unlock(&lock);
    return is_set;
}

void tug_spin_restore(void) {
    pthread_mutex_lock(&lock);
    always = false;
    adjust();
    pthread_mutex_unlock(&lock);
}

void tug_spin_meeting_begin(bool (*busy)(void)) {
    pthread_mutex_lock(&lock);
    is_busy = busy;
    meetings++;
    adjust();
    pthread_mutex_unlock(&lock);
}

void tug_spin_meeting_end(void) {
    pthread_mutex_lock(&lock);
    meetings--;
    adjust();
    pthread_mutex_unlock(&lock);
}
