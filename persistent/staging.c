#include "persistent/staging.h"

#include <stdlib.h>

#include "host/host.h"
#include "host/layout.h"
#include "tugboat/tugboat.h"

#define BEYOND_BOTTOM 64

/* MPICH 4.0.2 packs nothing from MPI_BOTTOM, which is NULL: the same data, seen from beyond. */
static int hold_from_beyond(struct tug_staging *staging, MPI_Datatype type) {
    MPI_Aint back = -BEYOND_BOTTOM;
    staging->buffer = (void *)BEYOND_BOTTOM; // NOLINT(performance-no-int-to-ptr)
    if (tug_host.Type_create_hindexed_block(1, 1, &back, type, &staging->type) != MPI_SUCCESS)
        return TUG_ERR_MPI;
    return tug_host.Type_commit(&staging->type) == MPI_SUCCESS ? 0 : TUG_ERR_MPI;
}

int tug_staging_init(struct tug_staging *staging, void *buffer, MPI_Count count,
                     MPI_Datatype type) {
    MPI_Count lb, packed;
    *staging = (struct tug_staging){.bytes = buffer, .buffer = buffer, .type = MPI_DATATYPE_NULL};
    staging->count = count;
    tug_host.Type_size_c(type, &staging->size);
    tug_host.Type_get_extent_c(type, &lb, &staging->extent);
    if (count == 0 || staging->size == 0 || tug_type_is_dense(type))
        return 0;
    int error =
        buffer == NULL ? hold_from_beyond(staging, type) : tug_type_hold(type, &staging->type);
    if (error)
        goto fail;
    error = TUG_ERR_UNSUPPORTED;
    if (tug_host.Pack_size_c(1, staging->type, MPI_COMM_SELF, &packed) != MPI_SUCCESS ||
        packed != staging->size)
        goto fail;
    error = TUG_ERR_NO_MEMORY;
    staging->bytes = malloc((size_t)(count * staging->size));
    if (staging->bytes == NULL)
        goto fail;
    return 0;

fail:
    staging->bytes = NULL;
    tug_staging_fini(staging);
    return error;
}

void tug_staging_fini(struct tug_staging *staging) {
    if (staging->type == MPI_DATATYPE_NULL)
        return;
    free(staging->bytes);
    tug_host.Type_free(&staging->type);
}

/* Where the elements from `converted` on lie in the program's memory. */
static unsigned char *next_element(const struct tug_staging *staging) {
    return (unsigned char *)staging->buffer + staging->converted * staging->extent;
}

int tug_staging_pack_to(struct tug_staging *staging, size_t bytes) {
    if (staging->type == MPI_DATATYPE_NULL || !staging->packs)
        return MPI_SUCCESS;
    MPI_Count upto = ((MPI_Count)bytes + staging->size - 1) / staging->size;
    MPI_Count elements = upto - staging->converted;
    if (elements <= 0)
        return MPI_SUCCESS;
    MPI_Count position = staging->converted * staging->size;
    int error = tug_host.Pack_c(next_element(staging), elements, staging->type, staging->bytes,
                                staging->count * staging->size, &position, MPI_COMM_SELF);
    staging->converted = upto;
    return error;
}

int tug_staging_unpack_to(struct tug_staging *staging, size_t bytes) {
    if (staging->type == MPI_DATATYPE_NULL || staging->packs)
        return MPI_SUCCESS;
    bool all = bytes / (size_t)staging->size >= (size_t)staging->count;
    MPI_Count upto = all ? staging->count : (MPI_Count)bytes / staging->size;
    MPI_Count elements = upto - staging->converted;
    if (elements <= 0)
        return MPI_SUCCESS;
    MPI_Count position = staging->converted * staging->size;
    int error = tug_host.Unpack_c(staging->bytes, staging->count * staging->size, &position,
                                  next_element(staging), elements, staging->type, MPI_COMM_SELF);
    staging->converted = upto;
    return error;
}
