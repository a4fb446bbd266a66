#include "pmpi/layout.h"

#include <stdlib.h>
#include <string.h>

#include "host/host.h"

/* ---- what a type is made of ---- */

struct contents {
    int combiner, nintegers, naddresses, ntypes;
    int *integers;
    MPI_Aint *addresses;
    MPI_Datatype *types;
};

static void contents_release(struct contents *contents) {
    for (int i = 0; i < contents->ntypes; i++)
        if (!tug_type_is_basic(contents->types[i])) {
            int combiner, integers, addresses, types;
            tug_host.Type_get_envelope(contents->types[i], &integers, &addresses, &types,
                                       &combiner);
            if (combiner != MPI_COMBINER_NAMED)
                tug_host.Type_free(&contents->types[i]);
        }
    free(contents->integers);
    free(contents->addresses);
    free(contents->types);
}

/* Opens a type that is not a named one. False without memory. */
static bool contents_get(MPI_Datatype type, struct contents *contents) {
    contents->integers = malloc(((size_t)contents->nintegers + 1) * sizeof(int));
    contents->addresses = malloc(((size_t)contents->naddresses + 1) * sizeof(MPI_Aint));
    contents->types = malloc(((size_t)contents->ntypes + 1) * sizeof(MPI_Datatype));
    if (contents->integers != NULL && contents->addresses != NULL && contents->types != NULL &&
        tug_host.Type_get_contents(type, contents->nintegers, contents->naddresses,
                                   contents->ntypes, contents->integers, contents->addresses,
                                   contents->types) == MPI_SUCCESS)
        return true;
    contents->ntypes = 0;
    contents_release(contents);
    return false;
}

MPI_Datatype tug_type_element(MPI_Datatype type) {
    struct contents contents;
    if (tug_type_is_basic(type))
        return type;
    tug_host.Type_get_envelope(type, &contents.nintegers, &contents.naddresses, &contents.ntypes,
                               &contents.combiner);
    if (contents.combiner == MPI_COMBINER_NAMED)
        return type; /* a pair */
    if (contents.ntypes == 0 || !contents_get(type, &contents))
        return MPI_DATATYPE_NULL;
    MPI_Datatype element = tug_type_element(contents.types[0]);
    for (int i = 1; i < contents.ntypes; i++)
        if (tug_type_element(contents.types[i]) != element)
            element = MPI_DATATYPE_NULL;
    contents_release(&contents);
    return element;
}

/* ---- where its bytes are ---- */

/* True for what is packed as it lies: a pair without gaps, a row or a copy of a basic type. */
static bool lies_packed(MPI_Datatype type) {
    struct contents contents;
    tug_host.Type_get_envelope(type, &contents.nintegers, &contents.naddresses, &contents.ntypes,
                               &contents.combiner);
    if (contents.combiner == MPI_COMBINER_NAMED)
        return true;
    if (contents.combiner != MPI_COMBINER_CONTIGUOUS && contents.combiner != MPI_COMBINER_DUP)
        return false;
    if (!contents_get(type, &contents))
        return false;
    bool basic = tug_type_is_basic(contents.types[0]);
    contents_release(&contents);
    return basic;
}

bool tug_data_describe_derived(struct tug_data *data, MPI_Comm comm) {
    MPI_Count bytes, size, low, true_extent, lb, extent;
    /* the one question that a bad handle or an uncommitted type answers with an error, on comm */
    if (tug_host.Pack_size_c(data->count, data->type, comm, &bytes) != MPI_SUCCESS)
        return false;
    tug_host.Type_size_c(data->type, &size);
    tug_host.Type_get_true_extent_c(data->type, &low, &true_extent);
    tug_host.Type_get_extent_c(data->type, &lb, &extent);
    MPI_Count last = data->count > 0 ? (data->count - 1) * extent : 0;
    data->bytes = (size_t)(data->count * size);
    data->first = (MPI_Aint)(low + (last < 0 ? last : 0));
    data->end = (MPI_Aint)(low + true_extent + (last > 0 ? last : 0));
    data->contiguous = low == 0 && size == true_extent && size == extent && lies_packed(data->type);
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
