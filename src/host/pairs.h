/* The predefined pairs of a value and an int (MPI_FLOAT_INT and the like), where the host loses
 * them.
 *
 * Seen with MPICH 4.2.1: when MPI starts once more after its end, the pairs are not there, and the
 * first five derived types that are made get their handles. MPI_Type_commit does nothing to a type
 * with such a handle. It cannot be used then, and MPI_Win_allocate and MPI_Win_allocate_shared,
 * which make such a type each time, stop with an assertion.
 */
#ifndef TUG_HOST_PAIRS_H
#define TUG_HOST_PAIRS_H

#include <mpi.h>
#include <stdbool.h>

/* True for MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_SHORT_INT and MPI_LONG_DOUBLE_INT. Does
 * not call MPI; any thread. */
bool tug_is_pair(MPI_Datatype type);

/* Sees to it that no type of the program or of the host gets the handle of a pair: takes those that
 * the host gives away. Nothing happens with a host that gives none away. The pairs stay unusable.
 * After each start of MPI but the first, before anybody else makes a type or a window. */
void tug_pairs_reserve(void);

#endif
