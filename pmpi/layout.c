#include "pmpi/layout.h"

#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "pmpi/datatype.h"

/* ---- where its bytes are ---- */

MPI_Datatype tug_type_element(MPI_Datatype type) {
    if (tug_type_is_basic(type))
        return type;
    const struct tug_flat *flat = tug_flat_get(type);
    return flat != NULL ? flat->element : MPI_DATATYPE_NULL;
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

bool tug_data_describe_derived(struct tug_data *data, MPI_Comm comm) {
    MPI_Count bytes, size, first, end, extent;
    /* the one question that a bad handle or an uncommitted type answers with an error, on comm */
    if (tug_host.Pack_size_c(data->count, data->type, comm, &bytes) != MPI_SUCCESS)
        return false;
    const struct tug_flat *flat = tug_flat_get(data->type);
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

int tug_data_move(const struct tug_data *to, const struct tug_data *from, MPI_Comm comm) {
    if (to->bytes == 0)
        return MPI_SUCCESS;
    if (from->contiguous && to->contiguous) {
        memmove(to->address, from->address, to->bytes);
        return MPI_SUCCESS;
    }
    if (to->contiguous)
        return pack(from, to->address, comm);
    if (from->contiguous)
        return unpack(to, from->address, comm);
    void *packed = malloc(from->bytes);
    if (packed == NULL)
        return MPI_ERR_NO_MEM;
    int error = pack(from, packed, comm);
    if (error == MPI_SUCCESS)
        error = unpack(to, packed, comm);
    free(packed);
    return error;
}
