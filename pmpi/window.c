/* Windows: what the program calls to make, ask and free them. */
#include "host/host.h"
#include "host/spin.h"
#include "pmpi/blocking.h"
#include "pmpi/shim.h"
#include "rma/create.h"
#include "rma/remote.h"
#include "rma/window.h"

/* ---- making ---- */

/* All ranks do it together, see host/spin.h. */
#define TOGETHER(call)                                                                             \
    ({                                                                                             \
        tug_spin_meeting_begin(tug_engine_driving);                                                \
        int result = (call);                                                                       \
        tug_spin_meeting_end();                                                                    \
        result;                                                                                    \
    })

/* Makes the host's window: declares `attempt` and its `error`. */
#define MAKE_HOSTS(Name, arguments)                                                                \
    struct tug_attempt attempt;                                                                    \
    int error;                                                                                     \
    tug_blocking_meet(comm);                                                                       \
    attempt = tug_attempt_begin(comm);                                                             \
    do {                                                                                           \
        comm = attempt.on;                                                                         \
        error = attempt.on_self ? tug_attempt_self(info, win) : TOGETHER(tug_host.Name arguments); \
    } while (tug_attempt_again(&attempt, error));                                                  \
    comm = attempt.given;

#define TAKE_Win_create(Name, parameters, arguments)                                               \
    int tug_shim_##Name parameters {                                                               \
        MAKE_HOSTS(Name, arguments)                                                                \
        return TOGETHER(                                                                           \
            tug_window_take_created(error, &attempt, base, size, disp_unit, info, comm, win));     \
    }
#define TAKE_allocation(Name, is_shared, unit_t, parameters)                                       \
    static int host_##Name(const struct tug_allocation *a, MPI_Aint size) {                        \
        return tug_host.Name(size, (unit_t)a->disp_unit, a->info, a->comm, a->baseptr, a->win);    \
    }                                                                                              \
    int tug_shim_##Name parameters {                                                               \
        tug_blocking_meet(comm);                                                                   \
        return TOGETHER(tug_window_allocate(&(struct tug_allocation){                              \
            host_##Name, is_shared, size, disp_unit, info, comm, baseptr, win}));                  \
    }
#define TAKE_Win_create_dynamic(Name, parameters, arguments)                                       \
    int tug_shim_##Name parameters {                                                               \
        MAKE_HOSTS(Name, arguments)                                                                \
        return TOGETHER(tug_window_take_dynamic(error, &attempt, info, comm, win));                \
    }
#define ROW_Win_create(...) TAKE_Win_create(Win_create, __VA_ARGS__)
#define ROW_Win_create_c(...) TAKE_Win_create(Win_create_c, __VA_ARGS__)
#define ROW_Win_allocate(p, a) TAKE_allocation(Win_allocate, false, int, p)
#define ROW_Win_allocate_c(p, a) TAKE_allocation(Win_allocate_c, false, MPI_Aint, p)
#define ROW_Win_allocate_shared(p, a) TAKE_allocation(Win_allocate_shared, true, int, p)
#define ROW_Win_allocate_shared_c(p, a) TAKE_allocation(Win_allocate_shared_c, true, MPI_Aint, p)
#define ROW_Win_create_dynamic(...) TAKE_Win_create_dynamic(Win_create_dynamic, __VA_ARGS__)
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
    if (error == MPI_SUCCESS && window->on_self && win_keyval == MPI_WIN_CREATE_FLAVOR)
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
    int error = window != NULL && window->on_self && group != NULL
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
        int error = tug_host.Name(win, rank, size, disp_unit, baseptr);                            \
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
