/* Persistent collectives: the broadcast is ours where we can serve the communicator; the others
 * stay the host's, and the engine looks after the host's progress while such a request exists. */
#include <pthread.h>
#include <stdlib.h>

#include "base/stats.h"
#include "engine/engine.h"
#include "host/host.h"
#include "persistent/bcast.h"
#include "persistent/request.h"
#include "pmpi/shim.h"
#include "tugboat/mpix.h"

/* ---- the host's persistent collectives ---- */

/* Their handles, so that freeing one ends the engine's attendance. A short unordered list under a
 * lock: creating and freeing are not hot; nwatched lets every other MPI_Request_free pass by. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static MPI_Request *watched;
static size_t capacity;
static _Atomic size_t nwatched;

static void watch(MPI_Request request) {
    if (!tug_shim.active || !tug_shim_engine())
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

#define TUG_CALL_PERSISTENT_HOST(Name, parameters, arguments)                                      \
    int tug_shim_##Name parameters {                                                               \
        int error = tug_host.Name arguments;                                                       \
        if (error == MPI_SUCCESS)                                                                  \
            watch(*request);                                                                       \
        tug_stat_add(TUG_STAT_PERSISTENT_PASSED, 1);                                               \
        return error;                                                                              \
    }
#include "host/calls.def"

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
    return tug_host.Request_free(request);
}

/* ---- the broadcast ---- */

/* The host has accepted the arguments: *request is its persistent broadcast. Ours takes its place
 * if all ranks can; otherwise the host's stays and the engine attends to it. */
static int take_bcast(int error, void *buffer, MPI_Count count, MPI_Datatype datatype, int root,
                      MPI_Comm comm, MPI_Request *request) {
    if (error != MPI_SUCCESS || !tug_shim.active)
        return error;
    struct tug_request *mine = NULL;
    if (tug_shim_engine() && tug_bcast_create(buffer, count, datatype, root, comm, &mine) == 0) {
        tug_host.Request_free(request);
        *request = mine->handle;
        tug_stat_add(TUG_STAT_PERSISTENT_TAKEN, 1);
    } else {
        watch(*request);
        tug_stat_add(TUG_STAT_PERSISTENT_PASSED, 1);
    }
    return MPI_SUCCESS;
}

#define TUG_CALL_PERSISTENT(Name, parameters, arguments)                                           \
    int tug_shim_##Name parameters {                                                               \
        return take_bcast(tug_host.Name arguments, buffer, count, datatype, root, comm, request);  \
    }
#include "host/calls.def"

/* ---- the MPIX_ names, C and Fortran ---- */

int MPIX_Bcast_init(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm,
                    MPI_Info info, MPI_Request *request) {
    return PMPIX_Bcast_init(buffer, count, datatype, root, comm, info, request);
}

int PMPIX_Bcast_init(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm,
                     MPI_Info info, MPI_Request *request) {
    return tug_shim_Bcast_init(buffer, count, datatype, root, comm, info, request);
}

int MPIX_Bcast_init_c(void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                      MPI_Info info, MPI_Request *request) {
    return PMPIX_Bcast_init_c(buffer, count, datatype, root, comm, info, request);
}

int PMPIX_Bcast_init_c(void *buffer, MPI_Count count, MPI_Datatype datatype, int root,
                       MPI_Comm comm, MPI_Info info, MPI_Request *request) {
    return tug_shim_Bcast_init_c(buffer, count, datatype, root, comm, info, request);
}
