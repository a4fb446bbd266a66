/* Making windows: the host makes its own, and then all ranks find together which lane of ours the
 * new one gets, if any (window.h).
 *
 * Collective over the window's communicator, under MPI's rules. The results are MPI's: errors have
 * gone through the communicator's handler.
 */
#ifndef TUG_RMA_CREATE_H
#define TUG_RMA_CREATE_H

#include <mpi.h>
#include <stdbool.h>

/* The communicator that the host's window is made on. Open MPI 4.1 has no one-sided communication
 * between nodes but over devices that do it themselves: over TCP it makes no window, and says
 * MPI_ERR_WIN; and so it does for created windows of one rank. The packet lane wants of the host's
 * window no more than the handle, with name, attributes, info and error handler: a window on
 * MPI_COMM_SELF will do. The first attempt is on a communicator of ours, so that the program's
 * handler does not see it fail. */
struct tug_attempt {
    MPI_Comm given, on;
    bool on_self; /* `on` is MPI_COMM_SELF */
};

struct tug_attempt tug_attempt_begin(MPI_Comm comm);

/* `error` is what came of it. True: there is another one to make. On all ranks alike. */
bool tug_attempt_again(struct tug_attempt *attempt, int error);

/* Makes the host's window on MPI_COMM_SELF. Open MPI allocates its memory: it makes none there over
 * the program's. */
int tug_attempt_self(MPI_Info info, MPI_Win *win);

/* The host has made a window over the program's memory, or not (`error`): finds its lane. */
int tug_window_take_created(int error, const struct tug_attempt *attempt, void *base, MPI_Aint size,
                            MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win *win);

/* The host has made a dynamic window, or not (`error`): finds its lane. */
int tug_window_take_dynamic(int error, const struct tug_attempt *attempt, MPI_Info info,
                            MPI_Comm comm, MPI_Win *win);

/* A call that allocates a window's memory: MPI_Win_allocate or MPI_Win_allocate_shared. */
struct tug_allocation {
    int (*host_call)(const struct tug_allocation *, MPI_Aint size);
    bool shared;
    MPI_Aint size;
    MPI_Aint disp_unit;
    MPI_Info info;
    MPI_Comm comm;
    void *baseptr;
    MPI_Win *win;
};

int tug_window_allocate(const struct tug_allocation *a);

#endif
