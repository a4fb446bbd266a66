/* What Fortran needs beside the C entries; the MPIX_ names are in fortran_mpix.c.
 *
 * Nearly nothing: MPICH's mpif.h and `use mpi` call MPI_*, its mpi_f08 calls PMPI_*, and handles
 * are integers in all three. Open MPI's bindings call C's PMPI_*. What is here are the attributes
 * of windows, which the bindings of both read without coming by C's MPI_Win_get_attr: MPICH's by
 * one call of its own, Open MPI's out of the window itself.
 */
#include <dlfcn.h>
#include <stdbool.h>

#include "host/host.h"
#include "pmpi/shim.h"
#include "rma/window.h"
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
    static void *_Atomic host;
    win_get_attr *call;
    *(void **)&call = tug_host_find_once("MPII_Win_get_attr", &host);
    if (call == NULL)
        return MPI_ERR_OTHER;
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

typedef void win_get_attr(MPI_Fint *win, MPI_Fint *win_keyval, MPI_Aint *attribute_val,
                          MPI_Fint *flag, MPI_Fint *ierror);
TUG_API win_get_attr mpi_win_get_attr_, mpi_win_get_attr__, pmpi_win_get_attr_, pmpi_win_get_attr__;

/* That of mpi_f08 comes here too. */
void pmpi_win_get_attr_(MPI_Fint *win, MPI_Fint *win_keyval, MPI_Aint *attribute_val,
                        MPI_Fint *flag, MPI_Fint *ierror) {
    static win_get_attr *_Atomic host;
    win_get_attr *call = host;
    if (call == NULL) {
        *(void **)&call = dlsym(RTLD_NEXT, "pmpi_win_get_attr_");
        if (call == NULL) {
            *ierror = MPI_ERR_OTHER;
            return;
        }
        host = call;
    }
    call(win, win_keyval, attribute_val, flag, ierror);
    if (*ierror != MPI_SUCCESS || !*flag || tug_host_family() != TUG_FAMILY_BUILT_FOR)
        return;
    int key = *win_keyval, found = 0;
    void *value;
    bool in_place = key == MPI_WIN_BASE;
    if (!in_place && key != MPI_WIN_SIZE && key != MPI_WIN_DISP_UNIT &&
        key != MPI_WIN_CREATE_FLAVOR)
        return;
    MPI_Win c_win = tug_host.Win_f2c(*win);
    if (tug_window_find(c_win) == NULL ||
        tug_shim_Win_get_attr(c_win, key, &value, &found) != MPI_SUCCESS || !found)
        return;
    *attribute_val = in_place              ? (MPI_Aint)value
                     : key == MPI_WIN_SIZE ? *(MPI_Aint *)value
                                           : *(int *)value;
}

#define SAME(name)                                                                                 \
    void name(MPI_Fint *win, MPI_Fint *win_keyval, MPI_Aint *attribute_val, MPI_Fint *flag,        \
              MPI_Fint *ierror) {                                                                  \
        pmpi_win_get_attr_(win, win_keyval, attribute_val, flag, ierror);                          \
    }
SAME(mpi_win_get_attr_)
SAME(mpi_win_get_attr__)
SAME(pmpi_win_get_attr__)

#endif
