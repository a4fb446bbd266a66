/* The MPIX_ names of persistent collectives. MPIX_X leads to a tool behind us that wraps it, or to
 * our shim, PMPIX_X to our shim: as entry.c has it for MPI_X. Where the host is not the one we are
 * built for both lead to the host's.
 */
#include "tugboat/mpix.h"

#include <dlfcn.h>
#include <stddef.h>

#include "host/host.h"
#include "pmpi/shim.h"

#define TUG_CALL_COLLECTIVE_INIT(KIND, Name, parameters, arguments) int(*Name) parameters;
struct mpix_table {
#include "host/calls.def"
};

#define TUG_CALL_COLLECTIVE_INIT(KIND, Name, parameters, arguments) .Name = tug_shim_##Name,
static struct mpix_table mine = {
#include "host/calls.def"
};

#define TUG_CALL_COLLECTIVE_INIT(KIND, Name, parameters, arguments) .Name = tug_shim_##Name,
static struct mpix_table next = {
#include "host/calls.def"
};

static void resolve(void **ours, void **first, bool step_aside, const char *extension,
                    const char *profiled, const char *standard) {
    void *host = tug_host_find(profiled), *tool = dlsym(RTLD_NEXT, extension);
    if (step_aside) {
        host = host != NULL ? host : tug_host_find(standard);
        *ours = tug_or_lacking(host);
    }
    *first = tool == host || tug_host_is_ours(tool) ? *ours : tool;
}

void tug_mpix_resolve(bool step_aside) {
#define TUG_CALL_COLLECTIVE_INIT(KIND, Name, parameters, arguments)                                \
    resolve((void **)&mine.Name, (void **)&next.Name, step_aside, "MPIX_" #Name, "PMPIX_" #Name,   \
            "PMPI_" #Name);
#include "host/calls.def"
}

#define TUG_CALL_COLLECTIVE_INIT(KIND, Name, parameters, arguments)                                \
    int MPIX_##Name parameters {                                                                   \
        return next.Name arguments;                                                                \
    }                                                                                              \
    int PMPIX_##Name parameters {                                                                  \
        return mine.Name arguments;                                                                \
    }
#include "host/calls.def"
