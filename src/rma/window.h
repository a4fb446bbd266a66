/* Windows that the shim has taken: what we know of them beside the host's handle.
 *
 * A window has a lane. Direct: all ranks have mapped its memory, see direct.h. Packet: operations
 * travel in packets and the target's engine applies them, see remote.h. Native: the host's window
 * does the work; the engine issues the operations and looks after its progress. Ours in all of them
 * are the error handler, and in the native lane two repairs:
 *
 * - The host's own handler on a taken window is MPI_ERRORS_RETURN, so that an operation that fails
 * in another thread's hands never runs the program's handler there. The program's handler is kept
 * here and called, through the host, by the thread whose call surfaces the error.
 * - MPICH 4.0.2 with UCX >= 1.13 (fixed in 4.1) addresses windows over memory that is not 16-byte
 *   aligned wrongly. Such a window is created again over the aligned memory around it, and
 * displacements are translated (healed). May go when 4.1 is the oldest host.
 *
 * Any thread may look up a window; its creation and its end are the program's to order.
 */
#ifndef TUG_RMA_WINDOW_H
#define TUG_RMA_WINDOW_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rma/epoch.h"

struct tug_window {
    MPI_Win handle;
    struct tug_direct *direct;         /* direct lane; NULL: another */
    struct tug_remote *remote;         /* packet lane; NULL: another */
    struct tug_node_sync *sync;        /* lanes of ours: memory that all ranks share; NULL: none */
    struct tug_wait_group *wait_group; /* entered while the window lives; NULL: on one node */
    const struct tug_lane *lane;       /* the lane of ours that it has; NULL: native */
    const char *reason;                /* why it is in its lane, in words */
    struct tug_epochs epochs;          /* lanes of ours */
    MPI_Comm comm; /* lanes of ours: private, of its ranks, with MPI_ERRORS_RETURN */
    struct tug_window *older, *newer; /* the open ones, in the order of their creation */
    int flavor;                    /* lanes of ours: what the program sees, MPI_WIN_CREATE_FLAVOR */
    bool healed;                   /* target displacements are translated by geometry[] */
    bool own_geometry;             /* base, size and disp_unit below are what the program sees */
    int nranks;                    /* healed: ranks of the window's group */
    struct tug_geometry *geometry; /* healed: of each target */
    void *base;
    MPI_Aint size;
    MPI_Aint disp_unit;
    int disp_unit_int;         /* the attribute's value is an int */
    MPI_Errhandler errhandler; /* the program's; we hold a reference */
    pthread_mutex_t lock;      /* the error handler's changes; recursive */
    _Atomic int deferred;      /* first error of an operation that returned before it was issued */
};

/* Where a target's memory begins in a healed window, whose displacements count bytes. */
struct tug_geometry {
    MPI_Aint disp_unit;
    MPI_Aint shift;
};

/* The taken windows by handle: an entry is where its hash says, or in one of those behind it, up to
 * an empty one. One that has been left keeps its handle, so that looking goes on, until the handle
 * comes back. Mostly that is two loads of one line. */
#define TUG_WINDOW_ENTRIES (1u << 14)
struct tug_window_entry {
    _Atomic MPI_Win handle; /* all bits 0, which is no window's: empty */
    struct tug_window *_Atomic window;
};
extern struct tug_window_entry tug_window_entries[TUG_WINDOW_ENTRIES];

static inline uint32_t tug_window_key(MPI_Win win) {
    return (uint32_t)((uint64_t)(uintptr_t)win * 0x9e3779b97f4a7c15u >> 50);
}

/* The taken window behind a handle, or NULL. */
static inline struct tug_window *tug_window_find(MPI_Win win) {
    uint32_t key = tug_window_key(win);
    for (unsigned looks = 0; looks < TUG_WINDOW_ENTRIES; looks++) {
        struct tug_window_entry *entry = &tug_window_entries[key];
        MPI_Win handle = atomic_load_explicit(&entry->handle, memory_order_relaxed);
        if (__builtin_expect(handle == win, 1)) /* acquire: pairs with the release in table_set */
            return atomic_load_explicit(&entry->window, memory_order_acquire);
        if (!handle)
            break;
        key = (key + 1) % TUG_WINDOW_ENTRIES;
    }
    return NULL;
}

/* Notes the failure of an operation whose call has returned; the first one stays. */
static inline void tug_window_defer(struct tug_window *window, int error) {
    int none = MPI_SUCCESS;
    if (__builtin_expect(error != MPI_SUCCESS, 0))
        atomic_compare_exchange_strong(&window->deferred, &none, error);
}

/* The program sets and reads its error handler. The host's answers. */
int tug_window_set_errhandler(struct tug_window *window, MPI_Errhandler errhandler);
int tug_window_get_errhandler(struct tug_window *window, MPI_Errhandler *errhandler);

/* True if memory is attached to it in a lane of ours. */
bool tug_window_attaches(const struct tug_window *window);

/* Of a window in a lane of ours: what MPI_Win_shared_query answers. The host has allowed the
 * question. */
void tug_window_query(const struct tug_window *window, int rank, MPI_Aint *size,
                      MPI_Aint *disp_unit, void *baseptr);

/* The rank that a call of the host's names on the host's window, which in a lane of ours is this
 * rank's alone: what is no rank of the window is none there either. */
static inline int tug_window_host_rank(const struct tug_window *window, int rank) {
    return window->lane != NULL && rank >= 0 && rank < window->epochs.nranks ? 0 : rank;
}

/* MPI_Win_free. Collective. */
int tug_window_free(struct tug_window *window, MPI_Win *win);

/* Frees the windows that the program has left over at the end of MPI, in the order of their
 * creation, which is the same on all ranks of each: MPICH 4.0.2 over UCX 1.13 aborts in
 * MPI_Finalize over a window that is still there. */
void tug_window_free_left_over(void);

/* The program has made an error handler for windows, of this function. */
void tug_window_note_handler(MPI_Errhandler handle, MPI_Win_errhandler_function *function);

/* Calls the program's error handler for the window. Returns the error if the handler returns. */
int tug_window_raise(struct tug_window *window, int error);

/* What a call on the window returns for the host's answer: an error goes through the handler. */
static inline int tug_window_report(struct tug_window *window, int error) {
    return __builtin_expect(error == MPI_SUCCESS, 1) ? MPI_SUCCESS
                                                     : tug_window_raise(window, error);
}

/* What a synchronisation call returns: its own error, or else the deferred one, through the
 * handler. */
static inline int tug_window_settle(struct tug_window *window, int error) {
    if (__builtin_expect(atomic_load_explicit(&window->deferred, memory_order_relaxed) != 0, 0)) {
        int deferred = atomic_exchange(&window->deferred, MPI_SUCCESS);
        error = error == MPI_SUCCESS ? deferred : error;
    }
    return tug_window_report(window, error);
}

/* The displacement the host needs for the program's target_disp. Healed windows only. */
static inline MPI_Aint tug_window_translate(const struct tug_window *window, int target_rank,
                                            MPI_Aint target_disp) {
    if (target_rank < 0 || target_rank >= window->nranks || target_disp < 0)
        return target_disp; /* the host says what is wrong */
    const struct tug_geometry *target = &window->geometry[target_rank];
    return target_disp * target->disp_unit + target->shift;
}

#endif
