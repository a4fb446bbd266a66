/* MPI_Alloc_mem and MPI_Free_mem: memory that the node's other ranks can be let into (lent.h). What
 * is small, what comes with wishes in an info object, and what cannot be had is the host's to give;
 * so is what has room for a huge page, where the kernel gives the host's memory huge pages that it
 * does not give to ours. Peers reach that by cross-memory attach.
 *
 * Any thread.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "host/level.h"
#include "node/lent.h"
#include "pmpi/shim.h"

#define HUGE_PAGES "/sys/kernel/mm/transparent_hugepage/"

static size_t lent_most; /* this and more is the host's */

static bool read_line(const char *path, char *line, int bytes) {
    FILE *file = fopen(path, "re");
    const bool read = file != NULL && fgets(line, bytes, file) != NULL;
    if (file != NULL)
        (void)fclose(file);
    return read;
}

/* When the kernel gives huge pages, as the word in brackets says: 0 never, 1 if madvise() asks for
 * them, 2 by itself. `unknown` if the file cannot be read. */
static int eagerness(const char *path, int unknown) {
    char line[128];
    if (!read_line(path, line, sizeof(line)))
        return unknown;
    if (strstr(line, "[never]") != NULL || strstr(line, "[deny]") != NULL)
        return 0;
    return strstr(line, "[madvise]") != NULL || strstr(line, "[advise]") != NULL ? 1 : 2;
}

/* A container may hide these files: then the host's memory loses nothing. */
static void find_most(void) {
    char line[32];
    lent_most = SIZE_MAX;
    if (eagerness(HUGE_PAGES "shmem_enabled", 0) >= eagerness(HUGE_PAGES "enabled", 2))
        return;
    const bool read = read_line(HUGE_PAGES "hpage_pmd_size", line, sizeof(line));
    lent_most = read ? strtoul(line, NULL, 10) : (size_t)2 << 20;
}

static bool is_to_be_lent(MPI_Aint size) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (size < (MPI_Aint)TUG_LENT_LEAST)
        return false;
    pthread_once(&once, find_most);
    return (size_t)size < lent_most;
}

int tug_shim_Alloc_mem(MPI_Aint size, MPI_Info info, void *baseptr) {
    if (tug_level.active && is_to_be_lent(size) && info == MPI_INFO_NULL && baseptr != NULL) {
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
