/* Windows: what the program calls to make, ask and free them. */
#include "host/host.h"
#include "pmpi/blocking.h"
#include "pmpi/shim.h"
#include "rma/create.h"
#include "rma/remote.h"
#include "rma/window.h"

/* ---- making ---- */

/* The host's call, which blocks, is its own function; the arguments are those of the creation. */
#define TAKE(Name, host_arguments, unit_t, parameters, ...)                                        \
    static int host_##Name(const struct tug_creation *c, MPI_Aint size) {                          \
        (void)size;                                                                                \
        if (!c->alone)                                                                             \
            tug_blocking_meet(c->comm);                                                            \
        return tug_host.Name host_arguments(unit_t);                                               \
    }                                                                                              \
    int tug_shim_##Name parameters {                                                               \
        return tug_window_make(&(struct tug_creation){                                             \
            .host_call = host_##Name, .info = info, .comm = comm, .win = win, __VA_ARGS__});       \
    }
#define OVER_MEMORY(unit_t) (c->base, size, (unit_t)c->disp_unit, c->info, c->comm, c->win)
#define ALLOCATED(unit_t) (size, (unit_t)c->disp_unit, c->info, c->comm, c->baseptr, c->win)
#define WITHOUT_MEMORY(unit_t) (c->info, c->comm, c->win)
#define TAKE_create(Name, unit_t, parameters)                                                      \
    TAKE(Name, OVER_MEMORY, unit_t, parameters, .flavor = MPI_WIN_FLAVOR_CREATE, .base = base,     \
         .size = size, .disp_unit = disp_unit)
#define TAKE_allocation(Name, its_flavor, unit_t, parameters)                                      \
    TAKE(Name, ALLOCATED, unit_t, parameters, .flavor = its_flavor, .size = size,                  \
         .disp_unit = disp_unit, .baseptr = baseptr)
#define ROW_Win_create(p, a) TAKE_create(Win_create, int, p)
#define ROW_Win_create_c(p, a) TAKE_create(Win_create_c, MPI_Aint, p)
#define ROW_Win_allocate(p, a) TAKE_allocation(Win_allocate, MPI_WIN_FLAVOR_ALLOCATE, int, p)
#define ROW_Win_allocate_c(p, a)                                                                   \
    TAKE_allocation(Win_allocate_c, MPI_WIN_FLAVOR_ALLOCATE, MPI_Aint, p)
#define ROW_Win_allocate_shared(p, a)                                                              \
    TAKE_allocation(Win_allocate_shared, MPI_WIN_FLAVOR_SHARED, int, p)
#define ROW_Win_allocate_shared_c(p, a)                                                            \
    TAKE_allocation(Win_allocate_shared_c, MPI_WIN_FLAVOR_SHARED, MPI_Aint, p)
#define ROW_Win_create_dynamic(p, a)                                                               \
    TAKE(Win_create_dynamic, WITHOUT_MEMORY, int, p, .flavor = MPI_WIN_FLAVOR_DYNAMIC,             \
         .base = MPI_BOTTOM, .disp_unit = 1)
#define TUG_CALL_CREATE(Name, parameters, arguments) ROW_##Name(parameters, arguments)
#include "host/calls.def"

/* ---- using ---- */

#define TUG_CALL_WINDOW_PLAIN(Name, parameters, arguments)                                         \
    int tug_shim_##Name parameters {                                                               \
        struct tug_window *window = tug_window_find(win);                                          \
        int error = tug_host.Name arguments;                                                       \
        return window == NULL ? error : tug_window_report(window, error);                          \
    }
#include "host/calls.def"

/* In the packet lane the host's window stays empty; it says what is wrong with arguments. */
int tug_shim_Win_attach(MPI_Win win, void *base, MPI_Aint size) {
    struct tug_window *window = tug_window_find(win);
    if (window == NULL)
        return tug_host.Win_attach(win, base, size);
    bool ours = tug_window_attaches(window) && size >= 0 && (base != NULL || size == 0);
    return tug_window_report(window, ours ? tug_remote_attach(window->remote, base, size)
                                          : tug_host.Win_attach(win, base, size));
}

int tug_shim_Win_detach(MPI_Win win, const void *base) {
    struct tug_window *window = tug_window_find(win);
    if (window == NULL)
        return tug_host.Win_detach(win, base);
    return tug_window_report(window, tug_window_attaches(window)
                                         ? tug_remote_detach(window->remote, base)
                                         : tug_host.Win_detach(win, base));
}

int tug_shim_Win_get_attr(MPI_Win win, int win_keyval, void *attribute_val, int *flag) {
    struct tug_window *window = tug_window_find(win);
    int error = tug_host.Win_get_attr(win, win_keyval, attribute_val, flag);
    if (window == NULL)
        return error;
    if (error == MPI_SUCCESS && window->lane != NULL && win_keyval == MPI_WIN_CREATE_FLAVOR)
        *(void **)attribute_val = &window->flavor;
    if (error == MPI_SUCCESS && window->own_geometry) {
        if (win_keyval == MPI_WIN_BASE)
            *(void **)attribute_val = window->base;
        else if (win_keyval == MPI_WIN_SIZE)
            *(void **)attribute_val = &window->size;
        else if (win_keyval == MPI_WIN_DISP_UNIT)
            *(void **)attribute_val = &window->disp_unit_int;
    }
    return tug_window_report(window, error);
}

int tug_shim_Win_get_group(MPI_Win win, MPI_Group *group) {
    struct tug_window *window = tug_window_find(win);
    int error = window != NULL && window->lane != NULL && group != NULL
                    ? tug_host.Comm_group(window->comm, group)
                    : tug_host.Win_get_group(win, group);
    return window == NULL ? error : tug_window_report(window, error);
}

int tug_shim_Win_get_info(MPI_Win win, MPI_Info *info_used) {
    struct tug_window *window = tug_window_find(win);
    int error = tug_host.Win_get_info(win, info_used);
    if (window == NULL)
        return error;
    if (error == MPI_SUCCESS) {
        tug_host.Info_set(*info_used, "tugboat_lane",
                          window->lane != NULL ? window->lane->name : "native");
        tug_host.Info_set(*info_used, "tugboat_lane_reason", window->reason);
    }
    return tug_window_report(window, error);
}

#define SHARED_QUERY(Name, unit_t)                                                                 \
    int tug_shim_##Name(MPI_Win win, int rank, MPI_Aint *size, unit_t *disp_unit, void *baseptr) { \
        struct tug_window *window = tug_window_find(win);                                          \
        MPI_Aint unit;                                                                             \
        int asked = window == NULL ? rank : tug_window_host_rank(window, rank);                    \
        int error = tug_host.Name(win, asked, size, disp_unit, baseptr);                           \
        if (window == NULL)                                                                        \
            return error;                                                                          \
        if (error == MPI_SUCCESS && window->lane != NULL) {                                        \
            tug_window_query(window, rank, size, &unit, baseptr);                                  \
            *disp_unit = (unit_t)unit;                                                             \
        }                                                                                          \
        return tug_window_report(window, error);                                                   \
    }
SHARED_QUERY(Win_shared_query, int)
SHARED_QUERY(Win_shared_query_c, MPI_Aint)

int tug_shim_Win_free(MPI_Win *win) {
    struct tug_window *window = win == NULL ? NULL : tug_window_find(*win);
    return window == NULL ? tug_host.Win_free(win) : tug_window_free(window, win);
}

/* ---- error handlers ---- */

int tug_shim_Win_create_errhandler(MPI_Win_errhandler_function *win_errhandler_fn,
                                   MPI_Errhandler *errhandler) {
    const int error = tug_host.Win_create_errhandler(win_errhandler_fn, errhandler);
    if (error == MPI_SUCCESS)
        tug_window_note_handler(*errhandler, win_errhandler_fn);
    return error;
}

int tug_shim_Win_set_errhandler(MPI_Win win, MPI_Errhandler errhandler) {
    struct tug_window *window = tug_window_find(win);
    return window == NULL ? tug_host.Win_set_errhandler(win, errhandler)
                          : tug_window_set_errhandler(window, errhandler);
}

int tug_shim_Win_get_errhandler(MPI_Win win, MPI_Errhandler *errhandler) {
    struct tug_window *window = tug_window_find(win);
    return window == NULL ? tug_host.Win_get_errhandler(win, errhandler)
                          : tug_window_get_errhandler(window, errhandler);
}

int tug_shim_Win_call_errhandler(MPI_Win win, int errorcode) {
    struct tug_window *window = tug_window_find(win);
    if (window == NULL)
        return tug_host.Win_call_errhandler(win, errorcode);
    (void)tug_window_raise(window, errorcode);
    return MPI_SUCCESS;
}
