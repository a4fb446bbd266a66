/* What the files of windows share beside their headers. */
#ifndef TUG_RMA_PRIVATE_H
#define TUG_RMA_PRIVATE_H

#include "rma/window.h"

/* Makes a window ours. NULL: without memory for it, it stays the host's alone. */
struct tug_window *tug_window_adopt(MPI_Win win);

/* The two halves of that. A window of so many ranks without a handle, for a lane of ours; NULL
 * without memory. And its handle: false: it cannot be found by it. After true it is not deleted,
 * but given back. */
struct tug_window *tug_window_new(int nranks);
bool tug_window_take(struct tug_window *window, MPI_Win win);
void tug_window_delete(struct tug_window *window); /* or NULL */

/* The window gets no lane of ours: the host's is as it was before tug_window_adopt(). NULL: nothing
 * to undo. */
void tug_window_give_back(struct tug_window *window);

#endif
