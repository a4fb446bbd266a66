/* What an accumulate does to memory: target = target op origin, for every predefined operation and
 * type, on vectors.
 *
 * MPI_Reduce_local would do the same, but takes the host's lock and a tenth of a microsecond; a
 * fetch_and_op on a node takes a tenth of that. Plain loops, which compilers vectorise; who calls
 * sees to atomicity.
 */
#ifndef TUG_HOST_REDUCTION_H
#define TUG_HOST_REDUCTION_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

/* target[i] = target[i] op origin[i], i < n elements of the type. The vectors are the same or do
 * not overlap; they need not be aligned to more than 1 byte (MPI windows may count bytes). */
typedef void (*tug_reduction)(void *target, const void *origin, size_t n);

/* Where the host's handles are no constants: makes the table that is asked below. Once MPI is up,
 * and before anybody asks; again changes nothing. */
void tug_reduction_learn(void);

/* The function for a predefined operation on a predefined type, MPI_REPLACE and MPI_NO_OP among
 * them; NULL if neither MPI nor the host defines the pair, or op or type is no predefined one.
 * Thread safe, never blocks, does not call MPI, takes a nanosecond. Complex and pair types, long
 * double, Fortran and C++ types that the host MPI has are included. */
tug_reduction tug_reduction_find(MPI_Op op, MPI_Datatype type);

/* True for the types that MPI_Compare_and_swap takes: integers, bytes and logicals. */
bool tug_reduction_compares(MPI_Datatype type);

#endif
