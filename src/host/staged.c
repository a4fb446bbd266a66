#include "host/staged.h"

#include <stdlib.h>

/* Room for the elements of the program's data. */
static int make_array(struct tug_staged *staged, MPI_Comm comm) {
    MPI_Datatype element = tug_type_element(staged->data.type);
    element = element == MPI_DATATYPE_NULL ? MPI_BYTE : element;
    const struct tug_flat *flat = tug_flat_get(element);
    if (flat == NULL)
        return MPI_ERR_NO_MEM;
    size_t n = staged->data.bytes / flat->element_size;
    struct tug_data array = {.count = (MPI_Count)n, .type = element};
    array.address = malloc(n * flat->element_extent);
    if (array.address == NULL)
        return MPI_ERR_NO_MEM;
    staged->array = array;
    return tug_data_describe(&staged->array, comm) ? MPI_SUCCESS : MPI_ERR_TYPE;
}

int tug_stage(struct tug_staged *staged, const void *address, MPI_Count count, MPI_Datatype type,
              bool reads, MPI_Comm comm) {
    staged->data = (struct tug_data){.address = (void *)address, .count = count, .type = type};
    staged->array = (struct tug_data){0};
    if (!tug_has_devices() || !tug_data_describe(&staged->data, comm) ||
        !tug_data_is_device(&staged->data))
        return MPI_SUCCESS;
    int error = make_array(staged, comm);
    if (error == MPI_SUCCESS && reads)
        error = tug_data_move_device(&staged->array, &staged->data, staged->data.bytes);
    return error;
}

int tug_staged_deliver(const struct tug_staged *staged, size_t bytes) {
    return tug_data_move_device(&staged->data, &staged->array, bytes);
}

void tug_staged_release(struct tug_staged *staged) {
    free(staged->array.address);
}
