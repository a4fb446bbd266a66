/* Making windows: all ranks find together which lane of ours a new one gets, if any (window.h).
 *
 * Behind a window in a lane of ours lies one of the host's for the handle, with name, attributes,
 * info and error handler. It is over next to nothing and of this rank alone: the host meets four
 * times to make a window of several ranks and twice to free it, and not at all for this one.
 *
 * The ranks meet once and exchange what each can do. If all can use the packet lane, no second
 * meeting is needed.
 *
 * Collective over the window's communicator, under MPI's rules. The results are MPI's: errors have
 * gone through the communicator's handler.
 */
#ifndef TUG_RMA_CREATE_H
#define TUG_RMA_CREATE_H

#include <mpi.h>
#include <stdbool.h>

/* A call that makes a window. */
struct tug_creation {
    /* the host's own, over so many bytes; which checks the arguments */
    int (*host_call)(const struct tug_creation *, MPI_Aint size);
    int flavor; /* MPI_WIN_FLAVOR_* */
    void *base; /* created ones: the program's memory */
    MPI_Aint size;
    MPI_Aint disp_unit;
    MPI_Info info;
    MPI_Comm comm;
    bool alone;    /* the communicator has one rank, which waits for nobody */
    void *baseptr; /* allocated ones */
    MPI_Win *win;
};

int tug_window_make(const struct tug_creation *c);

#endif
