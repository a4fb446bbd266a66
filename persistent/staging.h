/* The message of a collective as bytes in order, whatever the datatype.
 *
 * All ranks cut the message into the same segments of bytes, though each may describe it by another
 * datatype. Contiguous data is used where it lies. Anything else goes through a buffer of the
 * message's size: the host packs elements just before their segment leaves, and unpacks them just
 * after it has come.
 */
#ifndef TUG_PERSISTENT_STAGING_H
#define TUG_PERSISTENT_STAGING_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

struct tug_staging {
    unsigned char *bytes; /* the message: the program's buffer, or ours */
    bool packs;   /* this rank has the data and packs them; the others unpack. Set before the first
                     run */
    void *buffer; /* the program's */
    MPI_Datatype type; /* of one element, ours; MPI_DATATYPE_NULL: contiguous */
    MPI_Count count;
    MPI_Count extent;
    MPI_Count size;      /* packed, of one element */
    MPI_Count converted; /* elements packed or unpacked in this run */
};

/* Describes count elements of type at buffer; holds its own reference to the datatype. 0,
 * TUG_ERR_NO_MEMORY, TUG_ERR_UNSUPPORTED (the host packs with overhead), TUG_ERR_MPI. */
int tug_staging_init(struct tug_staging *staging, void *buffer, MPI_Count count, MPI_Datatype type);
void tug_staging_fini(struct tug_staging *staging);

static inline void tug_staging_start(struct tug_staging *staging) {
    staging->converted = 0;
}

/* Packs the first `bytes` bytes of the message, as far as they are not yet, if this rank has the
 * data. 0 or an MPI error. */
int tug_staging_pack_to(struct tug_staging *staging, size_t bytes);

/* The first `bytes` bytes have arrived (more than there are: all): unpacks the elements that are
 * complete. 0 or an MPI error. */
int tug_staging_unpack_to(struct tug_staging *staging, size_t bytes);

#endif
