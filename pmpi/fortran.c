/* What Fortran needs beside the C entries; the MPIX_ names are in fortran_mpix.c.
 *
 * Nearly nothing: MPICH's mpif.h and `use mpi` call MPI_*, its mpi_f08 calls PMPI_*, and handles
 * are integers in all three. Here is one host-internal call through which its bindings read window
 * attributes without coming by MPI_Win_get_attr. Open MPI's bindings call PMPI_*, and ask the host
 * for the integer of a handle and back: for requests of ours, which are no objects of the host, the
 * answer is here.
 */
#include <dlfcn.h>

#include "host/host.h"
#include "persistent/request.h"
#include "pmpi/shim.h"
#include "pmpi/window.h"
#include "tugboat/tugboat.h"

#ifndef OPEN_MPI

/* How MPICH 4.0 asks for an attribute's value. */
enum attr_type { ATTR_PTR = 0, ATTR_AINT = 1 };
#define KEYVAL_IN_FORTRAN 1 /* predefined keys are C's plus this */

typedef int win_get_attr(MPI_Win win, int win_keyval, void *attribute_val, int *flag,
                         enum attr_type type);
TUG_API win_get_attr MPII_Win_get_attr;

int MPII_Win_get_attr(MPI_Win win, int win_keyval, void *attribute_val, int *flag,
                      enum attr_type type) {
    static win_get_attr *_Atomic host;
    win_get_attr *call = host;
    if (call == NULL) {
        *(void **)&call = tug_host_find("MPII_Win_get_attr");
        if (call == NULL)
            return MPI_ERR_OTHER;
        host = call;
    }
    int error = call(win, win_keyval, attribute_val, flag, type);
    struct tug_window *window = tug_window_find(win);
    if (error != MPI_SUCCESS || window == NULL || !window->own_geometry || type != ATTR_AINT)
        return error;
    MPI_Aint *value = attribute_val;
    switch (win_keyval - KEYVAL_IN_FORTRAN) {
    case MPI_WIN_BASE:
        *value = (MPI_Aint)window->base;
        break;
    case MPI_WIN_SIZE:
        *value = window->size;
        break;
    case MPI_WIN_DISP_UNIT:
        *value = window->disp_unit;
        break;
    default:
        break;
    }
    return error;
}

#else

/* The host counts its own from 0. */
#define FIRST_OF_OURS 0x40000000

TUG_API MPI_Fint MPI_Request_c2f(MPI_Request request);
TUG_API MPI_Fint PMPI_Request_c2f(MPI_Request request);
TUG_API MPI_Request MPI_Request_f2c(MPI_Fint request);
TUG_API MPI_Request PMPI_Request_f2c(MPI_Fint request);

MPI_Fint PMPI_Request_c2f(MPI_Request request) {
    if (tug_request_is_ours(request))
        return FIRST_OF_OURS + (MPI_Fint)tug_request_index(request);
    return tug_host_resolve() ? tug_host.Request_c2f(request) : -1;
}

MPI_Request PMPI_Request_f2c(MPI_Fint request) {
    if (request >= FIRST_OF_OURS &&
        (uint32_t)(request - FIRST_OF_OURS) < atomic_load(&tug_request_limit))
        return tug_request_handle((uint32_t)(request - FIRST_OF_OURS));
    return tug_host_resolve() ? tug_host.Request_f2c(request) : NULL;
}

MPI_Fint MPI_Request_c2f(MPI_Request request) {
    return PMPI_Request_c2f(request);
}

MPI_Request MPI_Request_f2c(MPI_Fint request) {
    return PMPI_Request_f2c(request);
}

#endif
