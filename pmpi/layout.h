/* Data as MPI describes it: address, count, datatype; and how to move it within this process.
 *
 * What a datatype means is the host's business: anything but a run of one basic type is packed and
 * unpacked by it. Any thread.
 */
#ifndef TUG_PMPI_LAYOUT_H
#define TUG_PMPI_LAYOUT_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/handles.h"

struct tug_data {
    void *address;
    MPI_Count count;
    MPI_Datatype type;
    /* found by tug_data_describe() */
    size_t bytes;   /* of data, without gaps */
    MPI_Aint first; /* offset of the lowest byte touched from address, */
    MPI_Aint end;   /* and of the one behind the highest */
    bool contiguous;
};

bool tug_data_describe_derived(struct tug_data *data, MPI_Comm comm);

/* Fills in what address, count and type mean. False if count or type are such that the host would
 * refuse them. comm: any, with MPI_ERRORS_RETURN. */
static inline bool tug_data_describe(struct tug_data *data, MPI_Comm comm) {
    if (__builtin_expect(data->count < 0, 0))
        return false;
    if (__builtin_expect(!tug_type_is_basic(data->type), 0))
        return tug_data_describe_derived(data, comm);
    data->bytes = (size_t)data->count * tug_type_basic_size(data->type);
    data->first = 0;
    data->end = (MPI_Aint)data->bytes;
    data->contiguous = true;
    return true;
}

/* Copies one into the other; both have the same bytes. MPI_SUCCESS, or the host's error (memory for
 * packing, for one). */
int tug_data_move(const struct tug_data *to, const struct tug_data *from, MPI_Comm comm);

/* The one predefined type that all of a valid datatype is made of, or MPI_DATATYPE_NULL. */
MPI_Datatype tug_type_element(MPI_Datatype type);

#endif
