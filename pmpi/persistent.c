/* Persistent collectives are ours where we can serve the communicator, on all its ranks alike; else
 * they stay the host's, and the engine looks after the host's progress while such a request exists.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/settings.h"
#include "base/stats.h"
#include "engine/engine.h"
#include "engine/host_progress.h"
#include "host/device.h"
#include "host/handles.h"
#include "host/host.h"
#include "host/level.h"
#include "host/participants.h"
#include "node/team.h"
#include "persistent/collective.h"
#include "pmpi/describe.h"
#include "pmpi/shim.h"
#include "request/request.h"

/* ---- the host's persistent collectives ---- */

/* Their handles, so that freeing one ends the engine's attendance. A short unordered list under a
 * lock: creating and freeing are not hot; nwatched lets every other MPI_Request_free pass by. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static MPI_Request *watched;
static size_t capacity;
static _Atomic size_t nwatched;

static void watch(MPI_Request request) {
    if (!tug_level.active || !tug_engine_bring_up())
        return;
    pthread_mutex_lock(&lock);
    size_t count = atomic_load(&nwatched);
    if (count == capacity) {
        size_t more = capacity ? 2 * capacity : 64;
        MPI_Request *grown = realloc(watched, more * sizeof(*grown));
        if (grown ==
            NULL) { /* unwatched, it progresses when the program calls MPI, as without us */
            pthread_mutex_unlock(&lock);
            return;
        }
        watched = grown;
        capacity = more;
    }
    watched[count] = request;
    atomic_store(&nwatched, count + 1);
    pthread_mutex_unlock(&lock);
    tug_engine_attend(1);
}

static void unwatch(MPI_Request request) {
    bool found = false;
    pthread_mutex_lock(&lock);
    size_t count = atomic_load(&nwatched);
    for (size_t i = 0; i < count && !found; i++)
        if (watched[i] == request) {
            watched[i] = watched[count - 1];
            atomic_store(&nwatched, count - 1);
            found = true;
        }
    pthread_mutex_unlock(&lock);
    if (found)
        tug_engine_attend(-1);
}

int tug_shim_Request_free(MPI_Request *request) {
    if (request != NULL && TUG_UNLIKELY(tug_request_is_ours(*request))) {
        struct tug_request *mine = tug_request_find(*request);
        if (mine != NULL) {
            tug_request_release(mine);
            *request = MPI_REQUEST_NULL;
            return MPI_SUCCESS;
        }
    } else if (request != NULL && TUG_UNLIKELY(atomic_load(&nwatched) > 0)) {
        unwatch(*request);
    }
    return tug_team_request_free(request);
}

/* ---- ours ---- */

/* What has become of the host's request, which it has made: ours has taken its place on all ranks,
 * or on none; then the engine attends to it. */
static int settle(int error, struct tug_request *mine, MPI_Request *request) {
    if (error == 0) {
        *request = mine->handle;
        tug_stat_add(TUG_STAT_PERSISTENT_TAKEN, 1);
    } else {
        watch(*request);
        tug_stat_add(TUG_STAT_PERSISTENT_PASSED, 1);
    }
    return MPI_SUCCESS;
}

static bool reduces(enum tug_collective_kind kind) {
    return kind >= TUG_COLLECTIVE_REDUCE && kind <= TUG_COLLECTIVE_REDUCE_SCATTER;
}

/* The program's operations may run on the engine's thread if the program itself may be in MPI on
 * several: it then expects them at any time. A program with one thread in MPI would be surprised by
 * an operation beside its own code. */
static int take(int error, const struct tug_collective *call, MPI_Request *request) {
    if (error != MPI_SUCCESS)
        return error;
    struct tug_request *mine = NULL;
    tug_device_look();
    struct tug_collective described = *call;
    described.runs_user_code =
        tug_level.requested == MPI_THREAD_MULTIPLE || tug_settings.progress == TUG_PROGRESS_CALLER;
    if (reduces(call->kind) && tug_op_is_programs(call->op))
        tug_engine_keep_functions();
    error = !tug_all_take_part(call->comm) || tug_collective_create(&described, request, &mine);
    return settle(error, mine, request);
}

#define TUG_CALL_COLLECTIVE_INIT(KIND, Name, parameters, arguments)                                \
    int tug_shim_##Name parameters {                                                               \
        const struct tug_collective call = {                                                       \
            .kind = TUG_COLLECTIVE_##KIND, DESCRIBE_##KIND, .comm = comm};                         \
        return take(tug_host.Name arguments, &call, request);                                      \
    }
#include "host/calls.def"
