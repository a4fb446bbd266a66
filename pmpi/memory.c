/* MPI_Alloc_mem and MPI_Free_mem: memory that the node's other ranks can be let into (lent.h). What
 * is small, what comes with wishes in an info object, and what cannot be had is the host's to give.
 *
 * Any thread.
 */
#include "host/host.h"
#include "host/level.h"
#include "node/lent.h"
#include "pmpi/shim.h"

int tug_shim_Alloc_mem(MPI_Aint size, MPI_Info info, void *baseptr) {
    if (tug_level.active && size >= (MPI_Aint)TUG_LENT_LEAST && info == MPI_INFO_NULL &&
        baseptr != NULL) {
        void *memory = tug_lent_allocate((size_t)size);
        if (memory != NULL) {
            *(void **)baseptr = memory;
            return MPI_SUCCESS;
        }
    }
    return tug_host.Alloc_mem(size, info, baseptr);
}

int tug_shim_Free_mem(void *base) {
    return tug_lent_free(base) ? MPI_SUCCESS : tug_host.Free_mem(base);
}
