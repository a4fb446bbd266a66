/* Taken windows: the table of handles, error handlers, what is asked of them, their end. */
#include "rma/window.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "engine/engine.h"
#include "engine/host_progress.h"
#include "host/wait_group.h"
#include "host/host.h"
#include "host/report.h"
#include "rma/direct.h"
#include "rma/private.h"
#include "rma/remote.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tug_window *oldest, *newest;

/* ---- the table ---- */

struct tug_window_entry tug_window_entries[TUG_WINDOW_ENTRIES];

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

/* The handle's entry, or the empty one that is to be it; NULL: neither. With the lock. */
static struct tug_window_entry *entry_of(MPI_Win win) {
    uint32_t key = tug_window_key(win);
    for (unsigned looks = 0; looks < TUG_WINDOW_ENTRIES; looks++) {
        struct tug_window_entry *entry = &tug_window_entries[key];
        MPI_Win handle = atomic_load_explicit(&entry->handle, memory_order_relaxed);
        if (handle == win || !handle)
            return entry;
        key = (key + 1) % TUG_WINDOW_ENTRIES;
    }
    return NULL;
}

/* Handles come back as windows come and go, but a program may see as many different ones as there
 * are entries: then the window stays the host's. */
static bool table_set(struct tug_window *window) {
    pthread_mutex_lock(&table_lock);
    struct tug_window_entry *entry = entry_of(window->handle);
    if (entry != NULL) {
        atomic_store_explicit(&entry->handle, window->handle, memory_order_relaxed);
        /* release: pairs with the acquire in tug_window_find */
        atomic_store_explicit(&entry->window, window, memory_order_release);
    }
    pthread_mutex_unlock(&table_lock);
    return entry != NULL;
}

/* The host may have given the handle to a new window of another thread already: only ours goes. */
static void table_clear(struct tug_window *window) {
    pthread_mutex_lock(&table_lock);
    struct tug_window_entry *entry = entry_of(window->handle);
    struct tug_window *expected = window;
    if (entry != NULL)
        atomic_compare_exchange_strong(&entry->window, &expected, NULL);
    pthread_mutex_unlock(&table_lock);
}

static void list_add(struct tug_window *window) {
    pthread_mutex_lock(&list_lock);
    window->older = newest;
    *(newest != NULL ? &newest->newer : &oldest) = window;
    newest = window;
    pthread_mutex_unlock(&list_lock);
}

static void list_remove(struct tug_window *window) {
    pthread_mutex_lock(&list_lock);
    *(window->older != NULL ? &window->older->newer : &oldest) = window->newer;
    *(window->newer != NULL ? &window->newer->older : &newest) = window->older;
    pthread_mutex_unlock(&list_lock);
}

/* ---- error handlers ---- */

static void init_recursive(pthread_mutex_t *lock) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

/* Gives the host's window the program's handler, for a call of the host's that is to report by
 * itself. */
static void lend_handler(struct tug_window *window) {
    pthread_mutex_lock(&window->lock);
    tug_host.Win_set_errhandler(window->handle, window->errhandler);
}

/* The program's handler may have been called, and may have freed the window. */
static void take_handler_back(MPI_Win handle, struct tug_window *window) {
    if (tug_window_find(handle) != window)
        return;
    tug_host.Win_set_errhandler(handle, MPI_ERRORS_RETURN);
    pthread_mutex_unlock(&window->lock);
}

/* The functions of handlers. Their handles are given again by the host, and noted again then. */
static struct handler {
    MPI_Errhandler handle;
    MPI_Win_errhandler_function *function;
} * handlers;
static size_t nhandlers;

/* Those of the C++ bindings are of another type, and called by the host alone. */
static bool has_cxx_bindings(void) {
    return dlsym(RTLD_DEFAULT, "MPIR_Call_errhandler_function") != NULL;
}

void tug_window_note_handler(MPI_Errhandler handle, MPI_Win_errhandler_function *function) {
    size_t i = 0;
    if (has_cxx_bindings())
        return;
    pthread_mutex_lock(&list_lock);
    while (i < nhandlers && handlers[i].handle != handle)
        i++;
    struct handler *all = handlers;
    if (i == nhandlers && (all = realloc(handlers, (i + 1) * sizeof(*all))) != NULL) {
        handlers = all;
        nhandlers++;
    }
    if (all != NULL)
        handlers[i] = (struct handler){handle, function};
    pthread_mutex_unlock(&list_lock);
}

static MPI_Win_errhandler_function *function_of(MPI_Errhandler handle) {
    MPI_Win_errhandler_function *function = NULL;
    pthread_mutex_lock(&list_lock);
    for (size_t i = 0; i < nhandlers && function == NULL; i++)
        if (handlers[i].handle == handle)
            function = handlers[i].function;
    pthread_mutex_unlock(&list_lock);
    return function;
}

int tug_window_raise(struct tug_window *window, int error) {
    if (window->errhandler == MPI_ERRORS_RETURN)
        return error;
    MPI_Win handle = window->handle;
    MPI_Win_errhandler_function *function = function_of(window->errhandler);
    if (function != NULL) { /* which may throw or jump: nothing is held, and nothing follows */
        int code = error;
        function(&handle, &code);
        return error;
    }
    lend_handler(window);
    tug_report_win(handle, window->errhandler, error);
    take_handler_back(handle, window);
    return error;
}

int tug_window_set_errhandler(struct tug_window *window, MPI_Errhandler errhandler) {
    MPI_Win win = window->handle;
    lend_handler(window);
    int error = tug_host.Win_set_errhandler(win, errhandler);
    if (error == MPI_SUCCESS) {
        MPI_Errhandler old = window->errhandler;
        /* reading it back gives us a reference: the program may free its handle */
        tug_host.Win_get_errhandler(win, &window->errhandler);
        tug_host.Errhandler_free(&old);
    }
    take_handler_back(win, window);
    return error;
}

int tug_window_get_errhandler(struct tug_window *window, MPI_Errhandler *errhandler) {
    MPI_Win win = window->handle;
    lend_handler(window);
    int error = tug_host.Win_get_errhandler(win, errhandler);
    take_handler_back(win, window);
    return error;
}

/* ---- taking ---- */

static struct tug_window *make(void) {
    struct tug_window *window = calloc(1, sizeof(*window));
    if (window != NULL)
        init_recursive(&window->lock);
    return window;
}

struct tug_window *tug_window_new(int nranks) {
    struct tug_window *window = make();
    if (window == NULL || tug_epochs_init(&window->epochs, nranks))
        return window;
    tug_window_delete(window);
    return NULL;
}

void tug_window_delete(struct tug_window *window) {
    if (window == NULL)
        return;
    pthread_mutex_destroy(&window->lock);
    tug_epochs_fini(&window->epochs);
    free(window->geometry);
    free(window);
}

bool tug_window_take(struct tug_window *window, MPI_Win win) {
    window->handle = win;
    tug_host.Win_get_errhandler(win, &window->errhandler);
    if (!table_set(window)) {
        tug_host.Errhandler_free(&window->errhandler);
        return false;
    }
    tug_host.Win_set_errhandler(win, MPI_ERRORS_RETURN);
    list_add(window);
    tug_stat_add(TUG_STAT_WINDOW_TAKEN, 1);
    return true;
}

struct tug_window *tug_window_adopt(MPI_Win win) {
    struct tug_window *window = make();
    if (window == NULL || tug_window_take(window, win))
        return window;
    tug_window_delete(window);
    return NULL;
}

/* No call finds it by its handle any more: the host's window is gone, or the host's alone. */
static void disown(struct tug_window *window) {
    table_clear(window);
    list_remove(window);
    tug_host.Errhandler_free(&window->errhandler);
}

void tug_window_give_back(struct tug_window *window) {
    if (window == NULL)
        return;
    tug_host.Win_set_errhandler(window->handle, window->errhandler);
    disown(window);
    tug_window_delete(window);
}

static void window_release(struct tug_window *window) {
    if (window->lane != NULL)
        window->lane->release(window);
    else
        tug_engine_attend(-1);
    if (window->wait_group != NULL)
        tug_wait_group_leave(window->wait_group);
    tug_window_delete(window);
}

/* ---- asking ---- */

bool tug_window_attaches(const struct tug_window *window) {
    return window->remote != NULL && window->remote->attachments != NULL;
}

static MPI_Aint size_at(const struct tug_window *window, int rank) {
    return window->direct != NULL ? window->direct->targets[rank].size
                                  : window->remote->targets[rank].size;
}

/* Whom MPI_PROC_NULL stands for: the first rank that has memory, this one if none has. */
static int first_with_memory(const struct tug_window *window) {
    const bool mapped = window->direct != NULL;
    const int nranks = mapped ? window->direct->nranks : window->remote->nranks;
    for (int rank = 0; rank < nranks; rank++)
        if (size_at(window, rank) != 0)
            return rank;
    return mapped ? window->direct->rank : window->remote->rank;
}

/* The host, which knows nothing of the memory in a lane of ours, has allowed the question. Until
 * MPI 4.1 only windows of MPI_Win_allocate_shared are asked for, which are never in the packet
 * lane. There the memory of others is not to be loaded from or stored to: it counts as none,
 * of the first rank that has any, too. */
void tug_window_query(const struct tug_window *window, int rank, MPI_Aint *size,
                      MPI_Aint *disp_unit, void *baseptr) {
    if (rank == MPI_PROC_NULL)
        rank = first_with_memory(window);
    if (window->direct != NULL) {
        const struct tug_direct *direct = window->direct;
        *size = direct->targets[rank].size;
        *disp_unit = direct->targets[rank].disp_unit;
        *(void **)baseptr = direct->targets[rank].base;
    } else {
        const bool own = rank == window->remote->rank;
        *size = own ? window->size : 0;
        *disp_unit = window->remote->targets[rank].disp_unit;
        *(void **)baseptr = own ? window->base : NULL;
    }
}

/* ---- the end ---- */

/* The host's window is gone. */
static void let_go(struct tug_window *window) {
    disown(window);
    window_release(window);
}

/* Waits until all ranks have called MPI_Win_free; a rank that waits serves the others. The flush is
 * for the fence's own messages. */
static int meet_in(struct tug_window *window) {
    const int error = window->lane->fence(window);
    const int last = window->lane->flush_all(window, false);
    return error != MPI_SUCCESS ? error : last;
}

/* The meeting's error, when the window is gone: a handler may jump out, and nothing follows. */
static void let_go_and_raise(struct tug_window *window, int error) {
    MPI_Win handle = window->handle;
    MPI_Win_errhandler_function *const function = function_of(window->errhandler);
    const bool fatal = window->errhandler == MPI_ERRORS_ARE_FATAL;
    let_go(window);
    if (function != NULL)
        function(&handle, &error);
    else if (fatal)
        tug_report_win(handle, MPI_ERRORS_ARE_FATAL, error);
}

/* Before the ranks meet, all operations are complete at their targets, since a peer frees its
 * memory right after that; and the attributes' delete callbacks have run, as in the host. If one
 * refuses, there is still a window. */
int tug_window_free(struct tug_window *window, MPI_Win *win) {
    const bool ours = window->lane != NULL;
    if (ours && tug_epochs_busy(&window->epochs))
        return tug_window_raise(window, MPI_ERR_RMA_SYNC);
    tug_engine_drain();
    int result = tug_window_settle(window, MPI_SUCCESS);
    if (ours) {
        const int flushed = tug_window_report(window, window->lane->flush_all(window, false));
        result = result != MPI_SUCCESS ? result : flushed;
    }
    /* from here on the program's handler again: the host may report an open epoch */
    tug_host.Win_set_errhandler(*win, window->errhandler);
    const int error = tug_host.Win_free(win);
    if (error != MPI_SUCCESS) {
        tug_host.Win_set_errhandler(window->handle, MPI_ERRORS_RETURN);
        return error;
    }
    table_clear(window); /* the host may give the handle to another window while the ranks meet */
    const int last = ours ? meet_in(window) : MPI_SUCCESS;
    if (last != MPI_SUCCESS)
        let_go_and_raise(window, last);
    else
        let_go(window);
    return result != MPI_SUCCESS ? result : last;
}

void tug_window_free_left_over(void) {
    for (struct tug_window *window = oldest, *next; window != NULL; window = next) {
        MPI_Win handle = window->handle;
        next = window->newer;
        tug_engine_drain();
        if (window->lane != NULL && tug_epochs_busy(&window->epochs))
            continue;
        if (window->lane != NULL)
            (void)window->lane->flush_all(window, false);
        if (tug_host.Win_free(&handle) != MPI_SUCCESS) /* an open epoch: it stays */
            continue;
        if (window->lane != NULL)
            (void)meet_in(window);
        let_go(window);
    }
}
