/* The host's own persistent collective as one more way to do ours: where it is right, and where it
 * makes no difference to the program but in time. */
#ifndef TUG_PERSISTENT_RIVAL_H
#define TUG_PERSISTENT_RIVAL_H

#include <stdbool.h>

#include "persistent/collective.h"

struct tug_team;

/* The host's requests of these kinds do what they should from the second start on. (Others may on
 * some topologies.) */
bool tug_rival_is_right(enum tug_collective_kind kind);

/* Does any order of the operation on so many ranks give the same bits? */
bool tug_rival_has_one_result(MPI_Op op, MPI_Datatype type, int nranks);

/* True if runs of ours may be the host's: it is right, it gives the same bits, and its waits, which
 * spin, do not keep the cores from other ranks. What others say of the same call may differ. */
bool tug_rival_may_run(const struct tug_collective *call, const struct tug_team *team);

#endif
