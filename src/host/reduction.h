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
#include <string.h>

#include "base/copy.h"

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

/* What accumulates and fetching operations do to elements that lie together in memory. */
struct tug_update {
    tug_reduction reduce;
    const void *origin;  /* NULL: nothing is changed */
    const void *compare; /* what the element, which is one, must be to be changed; NULL: anything */
    void *result;        /* NULL: nothing is fetched */
    size_t n, extent;    /* elements, and the bytes from one to the next */
    size_t bytes;        /* that are fetched */
};

/* Does it: true if elements may have changed. Who calls sees to atomicity. */
static inline __attribute__((always_inline)) bool tug_update_apply(void *memory,
                                                                   const struct tug_update *u) {
    const bool changes =
        u->origin != NULL && (u->compare == NULL || memcmp(memory, u->compare, u->extent) == 0);
    if (u->result != NULL)
        tug_copy(u->result, memory, u->bytes);
    if (changes)
        u->reduce(memory, u->origin, u->n);
    return changes;
}

/* Of the elements behind the first `done`, the next n. */
static inline struct tug_update tug_update_part(const struct tug_update *u, size_t done, size_t n) {
    struct tug_update part = *u;
    const size_t before = done * u->extent, fetched = n * u->extent;
    part.n = n;
    part.bytes = u->bytes - before < fetched ? u->bytes - before : fetched;
    if (u->origin != NULL)
        part.origin = (const unsigned char *)u->origin + before;
    if (u->result != NULL)
        part.result = (unsigned char *)u->result + before;
    return part;
}

#endif
