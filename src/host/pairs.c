#include "host/pairs.h"

#include "host/host.h"

bool tug_is_pair(MPI_Datatype type) {
    return type == MPI_FLOAT_INT || type == MPI_DOUBLE_INT || type == MPI_LONG_INT ||
           type == MPI_SHORT_INT || type == MPI_LONG_DOUBLE_INT;
}

/* The host refuses to free a pair, so the types are kept until it ends. They have no elements: of
 * others it would say at its end that they are left. */
void tug_pairs_reserve(void) {
    MPI_Datatype type;
    do {
        if (tug_host.Type_contiguous(0, MPI_BYTE, &type) != MPI_SUCCESS)
            return;
    } while (tug_is_pair(type));
    tug_host.Type_free(&type);
}
