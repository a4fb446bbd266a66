/* One-sided operations whose buffers here may lie in memory of a device (host/staged.h).
 *
 * The lanes of ours load and store what an operation reads and fetches into; what lies in a device
 * is staged. Such an operation is complete at this rank when its call returns: the lane is flushed.
 * Any thread; only where tug_has_devices().
 */
#ifndef TUG_RMA_STAGED_H
#define TUG_RMA_STAGED_H

#include <mpi.h>

#include "rma/rma.h"

/* Which of an operation's fields are set. */
enum tug_rma_family {
    TUG_RMA_PUT,
    TUG_RMA_GET,
    TUG_RMA_ACC,
    TUG_RMA_GETACC,
    TUG_RMA_FOP,
    TUG_RMA_CAS
};

/* Does an operation by its lane's function, on other buffers if some are a device's; then it makes
 * the request too, and o->request is NULL. What `lane` returns, or the error of a copy. */
int tug_staged_operation(struct tug_rma *o, enum tug_rma_family family,
                         int (*lane)(const struct tug_rma *));

#endif
