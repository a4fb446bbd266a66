#include "host/layout.h"

#include <stdlib.h>
#include <string.h>

#include "host/device.h"
#include "host/host.h"
#include "tugboat/tugboat.h"

/* ---- where its bytes are ---- */

MPI_Datatype tug_type_element(MPI_Datatype type) {
    if (tug_type_is_basic(type))
        return type;
    const struct tug_flat *flat = tug_flat_get(type);
    return flat != NULL ? flat->element : MPI_DATATYPE_NULL;
}

size_t tug_type_bytes(MPI_Datatype type) {
    MPI_Count size = 0;
    tug_host.Type_size_c(type, &size);
    return (size_t)size;
}

bool tug_type_is_dense(MPI_Datatype type) {
    if (tug_type_is_basic(type))
        return true;
    const struct tug_flat *flat = tug_flat_get(type);
    return flat != NULL && flat->contiguous;
}

/* Not MPI_Type_dup: that would run the program's attribute callbacks. */
int tug_type_hold(MPI_Datatype type, MPI_Datatype *held) {
    *held = MPI_DATATYPE_NULL;
    if (tug_host.Type_contiguous(1, type, held) != MPI_SUCCESS)
        return TUG_ERR_MPI;
    return tug_host.Type_commit(held) == MPI_SUCCESS ? 0 : TUG_ERR_MPI;
}

/* The bounds of one item as the host tells them: too wide where parts of it are there no times. */
static void ask_host(MPI_Datatype type, MPI_Count *size, MPI_Count *first, MPI_Count *end,
                     MPI_Count *extent) {
    MPI_Count lb;
    tug_host.Type_size_c(type, size);
    tug_host.Type_get_true_extent_c(type, first, end);
    *end += *first;
    tug_host.Type_get_extent_c(type, &lb, extent);
}

/* The one question that a bad handle or an uncommitted type answers with an error, on comm. *flat:
 * the type's tree, if it has one. */
static bool may_be_used(const struct tug_data *data, MPI_Comm comm, const struct tug_flat **flat) {
    MPI_Count bytes;
    if (tug_host.Pack_size_c(data->count, data->type, comm, &bytes) != MPI_SUCCESS)
        return false;
    *flat = tug_flat_get(data->type);
    if (*flat != NULL)
        tug_flat_remember(data->type, *flat);
    return true;
}

bool tug_data_describe_derived(struct tug_data *data, MPI_Comm comm) {
    MPI_Count size, first, end, extent;
    const struct tug_flat *flat = tug_flat_known(data->type);
    if (flat == NULL && !may_be_used(data, comm, &flat))
        return false;
    data->contiguous = flat != NULL && flat->contiguous;
    if (flat != NULL) {
        size = (MPI_Count)flat->size;
        first = flat->first;
        end = flat->end;
        extent = flat->extent;
    } else {
        ask_host(data->type, &size, &first, &end, &extent);
    }
    MPI_Count last = data->count > 0 ? (data->count - 1) * extent : 0;
    data->bytes = (size_t)(data->count * size);
    data->first = (MPI_Aint)(first + (last < 0 ? last : 0));
    data->end = (MPI_Aint)(end + (last > 0 ? last : 0));
    return true;
}

bool tug_data_lacks_address(const struct tug_data *data) {
    MPI_Count first = 0, extent;
    if (data->bytes == 0 || tug_type_is_predefined(data->type))
        return data->bytes > 0;
    const struct tug_flat *flat = tug_flat_known(data->type);
    if (flat != NULL)
        first = flat->first_told;
    else
        tug_host.Type_get_true_extent_c(data->type, &first, &extent);
    return first == 0;
}

/* ---- moving ---- */

static int pack(const struct tug_data *from, void *to, MPI_Comm comm) {
    MPI_Count position = 0;
    return tug_host.Pack_c(from->address, from->count, from->type, to, (MPI_Count)from->bytes,
                           &position, comm);
}

static int unpack(const struct tug_data *to, const void *from, MPI_Comm comm) {
    MPI_Count position = 0;
    return tug_host.Unpack_c(from, (MPI_Count)to->bytes, &position, to->address, to->count,
                             to->type, comm);
}

bool tug_run_begin(struct tug_run *run, const struct tug_data *data, enum tug_walk_mode mode) {
    const struct tug_flat *flat = tug_flat_get(data->type);
    if (flat == NULL)
        return false;
    tug_walk_begin(&run->walk, flat, (size_t)data->count, mode);
    run->left = 0;
    return true;
}

static bool copy_here(void *to, const void *from, size_t bytes) {
    memmove(to, from, bytes);
    return true;
}

/* The first bytes of data, `most` of them. */
static int move_runs(const struct tug_data *to, const struct tug_data *from, size_t most,
                     bool (*copy)(void *to, const void *from, size_t bytes)) {
    struct tug_run source, sink;
    if (!tug_run_begin(&source, from, TUG_WALK_BYTES) || !tug_run_begin(&sink, to, TUG_WALK_BYTES))
        return MPI_ERR_NO_MEM;
    while (most > 0 && tug_run_refill(&source) && tug_run_refill(&sink)) {
        size_t bytes = source.left < sink.left ? source.left : sink.left;
        bytes = bytes < most ? bytes : most;
        if (!copy(tug_run_address(to->address, sink.at), tug_run_address(from->address, source.at),
                  bytes))
            return MPI_ERR_BUFFER;
        most -= bytes;
        tug_run_consume(&source, bytes, 1);
        tug_run_consume(&sink, bytes, 1);
    }
    return MPI_SUCCESS;
}

int tug_data_move(const struct tug_data *to, const struct tug_data *from, MPI_Comm comm) {
    const size_t bytes = from->bytes < to->bytes ? from->bytes : to->bytes;
    if (bytes == 0)
        return MPI_SUCCESS;
    if (from->contiguous && to->contiguous) {
        memmove(to->address, from->address, bytes);
        return MPI_SUCCESS;
    }
    if (from->bytes != to->bytes || from->address == NULL || to->address == NULL)
        return move_runs(to, from, bytes, copy_here);
    if (to->contiguous)
        return pack(from, to->address, comm);
    if (from->contiguous)
        return unpack(to, from->address, comm);
    void *packed = malloc(bytes);
    if (packed == NULL)
        return MPI_ERR_NO_MEM;
    int error = pack(from, packed, comm);
    if (error == MPI_SUCCESS)
        error = unpack(to, packed, comm);
    free(packed);
    return error;
}

int tug_data_move_device(const struct tug_data *to, const struct tug_data *from, size_t most) {
    return move_runs(to, from, most, tug_device_copy);
}
