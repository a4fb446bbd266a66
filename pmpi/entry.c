/* The entries: MPI_X and PMPI_X of every call in the table.
 *
 * Tugboat stands at the PMPI level, inside MPI as tools see it. MPI_X leads to a profiling tool
 * that was loaded behind us, if it wraps X, and otherwise to our shim; PMPI_X always leads to our
 * shim, so a tool sees the program's calls whichever of the two was loaded first. The Fortran 2008
 * bindings call PMPI_X directly and are served by the same definitions.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>

#include "host/host.h"
#include "pmpi/shim.h"
#include "pmpi/verdict.h"
#include "tugboat/tugboat.h"

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

/* Our shim, or the same with a clock beside it. */
static struct next_table mine = {
#define TUG_CALL(Name, parameters, arguments) .Name = tug_shim_##Name,
#include "host/calls.def"
};

/* A tool's MPI_X behind us: one that is not another name for the host's PMPI_X. */
static void *find_next(const char *mpi_name, const void *host_function, void *shim) {
    void *address = dlsym(RTLD_NEXT, mpi_name);
    return address == host_function || tug_host_is_ours(address) ? shim : address;
}

static void resolve_once(void) {
    if (!tug_host_resolve())
        return;
#define TUG_CALL(Name, parameters, arguments)                                                      \
    *(void **)&next.Name = find_next("MPI_" #Name, *(void **)&tug_host.Name, *(void **)&mine.Name);
#include "host/calls.def"
}

static bool resolve(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, resolve_once);
    return tug_host_resolve();
}

#define TUG_CALL(Name, parameters, arguments)                                                      \
    TUG_API int MPI_##Name parameters {                                                            \
        return next.Name arguments;                                                                \
    }                                                                                              \
    TUG_API int PMPI_##Name parameters {                                                           \
        return mine.Name arguments;                                                                \
    }
#include "host/calls.def"

/* ---- timed, for the verdict ---- */

#define TUG_TIMED(CLASS, Name, parameters, arguments)                                              \
    static int timed_##Name parameters {                                                           \
        struct tug_timed timed = tug_timed_begin(TUG_TIME_##CLASS);                                \
        int result = tug_shim_##Name arguments;                                                    \
        tug_timed_end(TUG_TIME_##CLASS, timed);                                                    \
        return result;                                                                             \
    }
#include "pmpi/timed.def"
#undef TUG_TIMED

/* A tool behind us calls PMPI_X, which is timed. */
void tug_entries_time(void) {
#define TUG_TIMED(CLASS, Name, parameters, arguments)                                              \
    if (next.Name == tug_shim_##Name)                                                              \
        next.Name = timed_##Name;                                                                  \
    mine.Name = timed_##Name;
#include "pmpi/timed.def"
#undef TUG_TIMED
}
