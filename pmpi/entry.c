/* The entries: MPI_X and PMPI_X of every call in the table.
 *
 * Tugboat stands at the PMPI level, inside MPI as tools see it. MPI_X leads to a profiling tool
 * that was loaded behind us, if it wraps X, and otherwise to our shim; PMPI_X always leads to our
 * shim, so a tool sees the program's calls whichever of the two was loaded first. The Fortran 2008
 * bindings call PMPI_X directly and are served by the same definitions.
 *
 * A program may run on another MPI than the one this library is built for. Handles then have other
 * sizes than our shims believe, and the entries lead past them: an entry is a jump, which leaves
 * the arguments where they are. What the first call of all is given passes through a function that
 * is typed; it is MPI_Init or its like, whose arguments are the same everywhere.
 */

/* Calls of MPI 4.1. MPICH 4.2 declares them without the standard's const: its header declares
 * others here, and ours come from the table. */
#define MPI_Request_get_status_all MPI_Request_get_status_all_of_header
#define MPI_Request_get_status_any MPI_Request_get_status_any_of_header
#define MPI_Request_get_status_some MPI_Request_get_status_some_of_header
#define PMPI_Request_get_status_all PMPI_Request_get_status_all_of_header
#define PMPI_Request_get_status_any PMPI_Request_get_status_any_of_header
#define PMPI_Request_get_status_some PMPI_Request_get_status_some_of_header
#include <mpi.h>
#undef MPI_Request_get_status_all
#undef MPI_Request_get_status_any
#undef MPI_Request_get_status_some
#undef PMPI_Request_get_status_all
#undef PMPI_Request_get_status_any
#undef PMPI_Request_get_status_some

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/settings.h"
#include "host/host.h"
#include "pmpi/shim.h"
#include "tugboat/tugboat.h"

/* The host's header does not have them, or not by these names. */
#define TUG_CALL_NEWER(Name, parameters, arguments)                                                \
    TUG_API int MPI_##Name parameters;                                                             \
    TUG_API int PMPI_##Name parameters;
#include "host/calls.def"

struct next_table {
#define TUG_CALL(Name, parameters, arguments) int(*Name) parameters;
#include "host/calls.def"
};

static bool resolve(void);
static struct next_table next;

#define TUG_CALL(Name, parameters, arguments)                                                      \
    static int boot_##Name parameters {                                                            \
        return resolve() ? next.Name arguments : MPI_ERR_OTHER;                                    \
    }
#include "host/calls.def"

static struct next_table next = {
#define TUG_CALL(Name, parameters, arguments) .Name = boot_##Name,
#include "host/calls.def"
};

/* Our shims; where this library is not for the host, the host (step_aside). */
static struct next_table mine = {
#define TUG_CALL(Name, parameters, arguments) .Name = tug_shim_##Name,
#include "host/calls.def"
};

/* A tool's MPI_X behind us: one that is not another name for the host's PMPI_X. */
static void *find_next(const char *mpi_name, const void *host_function, void *shim) {
    void *address = dlsym(RTLD_NEXT, mpi_name);
    return address == host_function || tug_host_is_ours(address) ? shim : address;
}

static int lacking(void) {
    return MPI_ERR_OTHER;
}

void *tug_or_lacking(void *address) {
    int (*const stub)(void) = lacking;
    return address != NULL ? address : *(void *const *)&stub;
}

/* The host is none of ours: nothing comes by the shims. */
static void step_aside(void) {
    char reason[512];
#define TUG_CALL(Name, parameters, arguments)                                                      \
    *(void **)&mine.Name = tug_or_lacking(*(void **)&tug_host.Name);
#include "host/calls.def"
    if (tug_settings_load(reason, sizeof(reason)) != 0 || !tug_settings.enabled)
        return;
    const char *lacked = tug_host_lacks();
    if (tug_settings_first_of_job())
        tug_warn_once(
            "this library is built for %s, and the program runs on %s%s%s: all calls pass through; "
            "run it under the library that is built for this MPI (-DTUGBOAT_MPI)",
            TUG_HOST_BUILT_FOR_VERSION, tug_host_name(),
            lacked != NULL ? ", which has no MPI_" : "", lacked != NULL ? lacked : "");
}

static void resolve_once(void) {
    if (!tug_host_resolve())
        return;
    bool other = !tug_host_complete();
    if (other)
        step_aside();
    tug_mpix_resolve(other);
#define TUG_CALL(Name, parameters, arguments)                                                      \
    *(void **)&next.Name = find_next("MPI_" #Name, *(void **)&tug_host.Name, *(void **)&mine.Name);
#include "host/calls.def"
}

static bool resolve(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, resolve_once);
    return tug_host_resolve();
}

bool tug_entries_resolve(void) {
    return resolve();
}

#define TUG_CALL(Name, parameters, arguments)                                                      \
    TUG_API int MPI_##Name parameters {                                                            \
        return next.Name arguments;                                                                \
    }                                                                                              \
    TUG_API int PMPI_##Name parameters {                                                           \
        return mine.Name arguments;                                                                \
    }
#include "host/calls.def"
