/* What Fortran needs beside the C entries.
 *
 * Nearly nothing: mpif.h and `use mpi` call MPI_*, mpi_f08 calls PMPI_*, and handles are integers
 * in all three. Here are the MPIX_ names, and one host-internal call through which MPICH's Fortran
 * bindings read window attributes without coming by MPI_Win_get_attr.
 */
#include <dlfcn.h>

#include "host/host.h"
#include "pmpi/shim.h"
#include "pmpi/window.h"
#include "tugboat/mpix.h"

/* MPI_BOTTOM is the address of a common block in Fortran; the bindings keep it in these variables.
 */
static void *translate_bottom(void *buffer) {
    static const char *const names[] = {"MPIR_F_MPI_BOTTOM", "MPIR_F08_MPI_BOTTOM"};
    void **classic = dlsym(RTLD_DEFAULT, names[0]);
    void *f08 = dlsym(RTLD_DEFAULT, names[1]);
    return (classic != NULL && buffer == *classic) || (f08 != NULL && buffer == f08) ? MPI_BOTTOM
                                                                                     : buffer;
}

typedef void bcast_init(void *buffer, const MPI_Fint *count, const MPI_Fint *datatype,
                        const MPI_Fint *root, const MPI_Fint *comm, const MPI_Fint *info,
                        MPI_Fint *request, MPI_Fint *ierror);
TUG_API bcast_init mpix_bcast_init_, mpix_bcast_init__, pmpix_bcast_init_, pmpix_bcast_init__;

/* MPIX_BCAST_INIT(BUFFER, COUNT, DATATYPE, ROOT, COMM, INFO, REQUEST, IERROR); types of mpi_f08
 * have the representation of an integer. IERROR may be absent (a null pointer). */
void pmpix_bcast_init_(void *buffer, const MPI_Fint *count, const MPI_Fint *datatype,
                       const MPI_Fint *root, const MPI_Fint *comm, const MPI_Fint *info,
                       MPI_Fint *request, MPI_Fint *ierror) {
    int error = PMPIX_Bcast_init(translate_bottom(buffer), *count, (MPI_Datatype)*datatype, *root,
                                 (MPI_Comm)*comm, (MPI_Info)*info, (MPI_Request *)request);
    if (ierror != NULL)
        *ierror = error;
}

#define ALSO(name)                                                                                 \
    void name(void *buffer, const MPI_Fint *count, const MPI_Fint *datatype, const MPI_Fint *root, \
              const MPI_Fint *comm, const MPI_Fint *info, MPI_Fint *request, MPI_Fint *ierror) {   \
        pmpix_bcast_init_(buffer, count, datatype, root, comm, info, request, ierror);             \
    }
ALSO(mpix_bcast_init_)
ALSO(mpix_bcast_init__)
ALSO(pmpix_bcast_init__)

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
