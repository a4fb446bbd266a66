/* The engine's life in an MPI process: brought up by the first that calls for it, with the host to
 * progress; down before MPI ends. */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/private.h"
#include "host/host.h"
#include "host/level.h"
#include "host/spin.h"
#include "tugboat/tugboat.h"

/* Testing a request that never completes is a progress call that needs no communicator. */
static MPI_Request poll_handle;

static int poll_query(void *state, MPI_Status *status) {
    (void)state;
    (void)status;
    return MPI_SUCCESS;
}

static int poll_free(void *state) {
    (void)state;
    return MPI_SUCCESS;
}

static int poll_cancel(void *state, int complete) {
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

static void end_polls(void) {
    tug_host.Grequest_complete(poll_handle);
    tug_host.Wait(&poll_handle, MPI_STATUS_IGNORE);
}

void tug_engine_poll_host(void) {
    int flag;
    MPI_Request handle = poll_handle;
    tug_spin_vain = 0;
    if (!tug_engine_enter_host())
        return;
    tug_host.Test(&handle, &flag, MPI_STATUS_IGNORE);
    tug_engine_leave_host();
}

void tug_engine_keep_functions(void) {
    if (tug_level.active && tug_level.requested < MPI_THREAD_MULTIPLE)
        tug_engine_reserve_host();
}

static void child_of_fork(void) {
    tug_engine_forked();
    tug_level.active = false;
}

static bool start(void) {
    static bool hooked;
    if (tug_host.Grequest_start(poll_query, poll_free, poll_cancel, NULL, &poll_handle) !=
        MPI_SUCCESS)
        return false;
    int error = tug_engine_start(tug_engine_poll_host);
    if (error) {
        tug_warn_once("the engine does not start (%s): all calls pass through; look at the limits "
                      "on threads and memory (ulimit -u, -v, or the container's)",
                      tug_strerror(error));
        end_polls();
        return false;
    }
    if (!hooked) {
        atexit(tug_engine_abandon);
        pthread_atfork(NULL, NULL, child_of_fork);
    }
    hooked = true;
    return true;
}

bool tug_engine_bring_up(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool refused;
    if (tug_level.own_level)
        tug_level_note_passed();
    if (!tug_level.active || tug_engine_running())
        return tug_level.active;
    pthread_mutex_lock(&lock);
    bool started = !refused && (tug_engine_running() || start());
    refused = !started;
    pthread_mutex_unlock(&lock);
    return started;
}

void tug_engine_bring_down(void) {
    if (!tug_engine_running())
        return;
    tug_engine_stop();
    end_polls();
}
