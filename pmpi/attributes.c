/* Attributes of MPI_COMM_SELF: programs have things done when MPI ends in their delete callbacks,
 * which MPI_Finalize calls before anything else of MPI ends, the last one set first.
 *
 * There windows are used and freed, and requests started. MPICH 4.0.2 takes itself for
 * single-threaded when it calls them, and the engine could not be in it at that time. So we know
 * what the program has set there, and delete it before we end, and before the host does. What
 * Fortran sets (other than by mpi_f08) does not come by here: the host calls those callbacks, when
 * the engine has ended.
 *
 * Any thread.
 */
#include "pmpi/attributes.h"

#include <pthread.h>
#include <stdlib.h>

#include "host/host.h"
#include "pmpi/shim.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int *keys; /* in the order of their setting */
static size_t nkeys, capacity;

static void forget(int key) {
    size_t kept = 0;
    for (size_t i = 0; i < nkeys; i++)
        if (keys[i] != key)
            keys[kept++] = keys[i];
    nkeys = kept;
}

static bool knows(int key) {
    for (size_t i = 0; i < nkeys; i++)
        if (keys[i] == key)
            return true;
    return false;
}

/* Without memory for it, it is the host's to delete. */
static void note_set(MPI_Comm comm, int key) {
    if (comm != MPI_COMM_SELF)
        return;
    pthread_mutex_lock(&lock);
#ifdef OPEN_MPI
    forget(key); /* one that is set again is new, MPICH leaves it where it is */
#endif
    if (nkeys == capacity) {
        size_t more = capacity + 16;
        int *grown = realloc(keys, more * sizeof(*grown));
        if (grown != NULL) {
            keys = grown;
            capacity = more;
        }
    }
    if (nkeys < capacity && !knows(key))
        keys[nkeys++] = key;
    pthread_mutex_unlock(&lock);
}

static void note_deleted(MPI_Comm comm, int key) {
    if (comm != MPI_COMM_SELF)
        return;
    pthread_mutex_lock(&lock);
    forget(key);
    pthread_mutex_unlock(&lock);
}

/* The last one set, and takes it off the list. */
static bool take_last(int *key) {
    pthread_mutex_lock(&lock);
    bool some = nkeys > 0;
    if (some)
        *key = keys[--nkeys];
    pthread_mutex_unlock(&lock);
    return some;
}

void tug_attributes_finalize(void) {
    for (int key; take_last(&key);)
        if (tug_host.Comm_delete_attr(MPI_COMM_SELF, key) != MPI_SUCCESS)
            break; /* the host finds out too, and says it */
}

#define TAKE_SETTING(Name, parameters, arguments)                                                  \
    int tug_shim_##Name parameters {                                                               \
        int error = tug_host.Name arguments;                                                       \
        if (error == MPI_SUCCESS)                                                                  \
            note_set(comm, keyval);                                                                \
        return error;                                                                              \
    }
#define TAKE_DELETING(Name, parameters, arguments)                                                 \
    int tug_shim_##Name parameters {                                                               \
        int error = tug_host.Name arguments;                                                       \
        if (error == MPI_SUCCESS)                                                                  \
            note_deleted(comm, keyval);                                                            \
        return error;                                                                              \
    }
#define TUG_CALL_SETTING TAKE_SETTING
#define TUG_CALL_DELETING TAKE_DELETING
#include "host/calls.def"
