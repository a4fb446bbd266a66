/* Data of this rank's that lie in memory of a device, in plain memory for a while.
 *
 * What CPUs are to load and store is replaced by an array of its elements: what is read is copied
 * there before, what is written is copied back after, by the runtime of the device (device.h). One
 * run of a derived datatype is one copy. Any thread.
 */
#ifndef TUG_HOST_STAGED_H
#define TUG_HOST_STAGED_H

#include <mpi.h>
#include <stdbool.h>

#include "host/layout.h"

struct tug_staged {
    struct tug_data data;  /* the program's; not described where there are no devices */
    struct tug_data array; /* ours, used instead; address NULL: the program's data are used */
};

static inline bool tug_is_staged(const struct tug_staged *staged) {
    return staged->array.address != NULL;
}

/* Replaces data that lie in a device, and reads them if `reads`. What is no valid description is
 * left as it is, for others to refuse. comm: any, with MPI_ERRORS_RETURN. An error class:
 * MPI_ERR_NO_MEM, or MPI_ERR_BUFFER (the runtime refuses). To be released in any case. */
int tug_stage(struct tug_staged *staged, const void *address, MPI_Count count, MPI_Datatype type,
              bool reads, MPI_Comm comm);

/* Copies the first so many bytes of an array to where the program wants them. An error class. */
int tug_staged_deliver(const struct tug_staged *staged, size_t bytes);

void tug_staged_release(struct tug_staged *staged);

#endif
