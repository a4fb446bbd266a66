/* Blocking broadcasts that repeat (TUGBOAT_BCAST=auto): after a few MPI_Bcast of the same root and
 * size on a communicator a schedule is kept for them, and the later ones run it.
 *
 * MPI orders the collective calls on a communicator, and root and size are the same on all its
 * ranks: so is what is kept, without a word between them. Under MPI's rules for collectives.
 */
#ifndef TUG_PERSISTENT_REPEAT_H
#define TUG_PERSISTENT_REPEAT_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

struct tug_request;

#define TUG_REPEATS_KEPT 8   /* of a communicator; the oldest goes */
#define TUG_REPEATS_BEFORE 4 /* calls that are the host's */

struct tug_repeats {
    struct tug_repeat {
        struct tug_request *request; /* NULL: not yet */
        uint64_t bytes;              /* 0: unused */
        int root;
        unsigned calls;
        bool refused; /* no schedule can be had */
    } kept[TUG_REPEATS_KEPT];
    unsigned next; /* to be replaced */
};

/* True if the broadcast has been done here, with its error in *error; false if it is the host's,
 * which also reports wrong arguments. The same on all ranks of the communicator. */
bool tug_repeat_bcast(void *buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm,
                      int *error);

/* Lets go of all that is kept. Local. */
void tug_repeats_drop(struct tug_repeats *repeats);

#endif
