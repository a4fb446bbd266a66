/* The host's own persistent collective as one more way to do ours: where it is right, and where it
 * makes no difference to the program but in time. The one table of kinds and shapes: whatever runs
 * the host's request in place of ours asks here. */
#ifndef TUG_PERSISTENT_RIVAL_H
#define TUG_PERSISTENT_RIVAL_H

#include <stdbool.h>

#include "persistent/collective.h"

struct tug_team;

/* Does any order of the operation on so many ranks give the same bits? */
bool tug_rival_has_one_result(MPI_Op op, MPI_Datatype type, int nranks);

/* True if the host's request is a valid candidate for runs of ours: kind and shape of the call are
 * known to be right, it gives the same bits, and its waits, which spin, do not keep the cores from
 * other ranks. Says nothing of the other ranks: they vote. */
bool tug_rival_may_run(const struct tug_collective *call, const struct tug_team *team);

#endif
