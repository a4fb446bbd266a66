/* Data as MPI describes it: address, count, datatype; and how to move it within this process.
 *
 * What a datatype means is the host's business: anything but a run of one basic type is packed and
 * unpacked by it. Two things it does not do, for which the datatypes are walked: MPICH 4.0.2 packs
 * nothing from MPI_BOTTOM, which is NULL, and no host packs part of an item. Any thread.
 */
#ifndef TUG_HOST_LAYOUT_H
#define TUG_HOST_LAYOUT_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/datatype.h"
#include "host/device.h"
#include "host/handles.h"

struct tug_data {
    void *address;
    MPI_Count count;
    MPI_Datatype type;
    /* found by tug_data_describe() */
    size_t bytes;   /* of data, without gaps */
    MPI_Aint first; /* offset from address of the lowest byte that is touched */
    MPI_Aint end;   /* offset from address of the byte behind the highest */
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

/* True where NULL cannot be the data's address: it is MPI_BOTTOM only to types with addresses of
 * their own. What is no data may be anywhere. The type is a valid one. */
bool tug_data_lacks_address(const struct tug_data *data);

/* Copies one into the other, as many bytes as both have. MPI_SUCCESS, or the host's error (memory
 * for packing, for one). */
int tug_data_move(const struct tug_data *to, const struct tug_data *from, MPI_Comm comm);

/* Copies data of which one side lies in a device's memory, at most `most` bytes: run by run, by the
 * device's runtime. MPI_ERR_BUFFER: it refuses. */
int tug_data_move_device(const struct tug_data *to, const struct tug_data *from, size_t most);

/* A walk's run, what is left of it. */
struct tug_run {
    struct tug_walk walk;
    MPI_Aint at;
    size_t left;
};

/* False: the type cannot be walked. */
bool tug_run_begin(struct tug_run *run, const struct tug_data *data, enum tug_walk_mode mode);

/* True if there is some of it. */
static inline bool tug_run_refill(struct tug_run *run) {
    return run->left > 0 || tug_walk_next(&run->walk, SIZE_MAX, &run->at, &run->left);
}

static inline void tug_run_consume(struct tug_run *run, size_t units, size_t unit) {
    run->at += (MPI_Aint)(units * unit);
    run->left -= units;
}

/* Where a run of data is, which may be described from MPI_BOTTOM. */
static inline unsigned char *tug_run_address(const void *base, MPI_Aint at) {
    return (unsigned char *)((uintptr_t)base + (uintptr_t)at); // NOLINT(performance-no-int-to-ptr)
}

/* True if the data begin in memory of a device. */
static inline bool tug_data_is_device(const struct tug_data *data) {
    return data->bytes > 0 && tug_is_device(tug_run_address(data->address, data->first));
}

/* ---- of valid datatypes ---- */

/* The one predefined type that all of it is made of, or MPI_DATATYPE_NULL. */
MPI_Datatype tug_type_element(MPI_Datatype type);

/* Bytes of data in an item. */
size_t tug_type_bytes(MPI_Datatype type);

/* True if items lie one after another, each a plain block of bytes in order. */
bool tug_type_is_dense(MPI_Datatype type);

/* A type like it with a life of its own, to be freed; MPI_DATATYPE_NULL without. 0 or TUG_ERR_MPI.
 */
int tug_type_hold(MPI_Datatype type, MPI_Datatype *held);

#endif
