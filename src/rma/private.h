/* What the files of windows share beside their headers. */
#ifndef TUG_RMA_PRIVATE_H
#define TUG_RMA_PRIVATE_H

#include "rma/window.h"

/* Makes a window ours. NULL: without memory for it, it stays the host's alone. */
struct tug_window *tug_window_adopt(MPI_Win win);

/* The window gets no lane of ours: the host's is as it was before tug_window_adopt(). NULL: nothing
 * to undo. */
void tug_window_give_back(struct tug_window *window);

#endif
