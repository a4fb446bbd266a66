/*
 * libtugboat.so of an installation for two MPIs: holds the library for each of them, and every
 * exported name jumps through a table to that for the MPI of the process.
 *
 * A program is linked with this library, or it is preloaded where the MPI of the program is not
 * known yet, as behind a script. The table leads to this file until the first call, which sees the
 * MPI loaded, whoever loaded it. From then on a call costs one more indirect jump: 2.45 ns instead
 * of 2.17 for tug_version().
 *
 * Both libraries are in this one object, under names of their own, because each finds the host by
 * RTLD_NEXT and itself by its object: from an object that is opened late neither would be right. An
 * IFUNC would save the jump, but decides while the loader relocates, before the MPI is there. A
 * filter (DT_FILTER) names one library only, when it is linked.
 *
 * Threads: any may call first, one decides.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pick/pick.h"

enum { MPICH, OPENMPI, UNDECIDED };

static pthread_once_t once = PTHREAD_ONCE_INIT;

static int look_at(struct dl_phdr_info *info, size_t size, void *argument) {
    static const char *const names[][2] = {{"libmpich.so", "libmpi.so.12"},
                                           {"libmpi.so.40", "libopen-rte.so"}};
    const char *slash = info->dlpi_name != NULL ? strrchr(info->dlpi_name, '/') : NULL;
    int *which = argument;
    (void)size;
    for (int i = 0; slash != NULL && i < UNDECIDED; i++)
        for (int j = 0; j < 2; j++)
            if (strncmp(slash + 1, names[i][j], strlen(names[i][j])) == 0)
                *which = i;
    return *which != UNDECIDED;
}

/* By an object that each has; an MPI that was opened for one library alone shows its file only. A
 * program without a loaded MPI can be one of MPICH's: handles of Open MPI are objects of its
 * library. */
static int decide(void) {
    int which = UNDECIDED;
    if (dlsym(RTLD_NEXT, "ompi_mpi_comm_world") != NULL)
        return OPENMPI;
    if (dlsym(RTLD_NEXT, "MPI_UNWEIGHTED") != NULL)
        return MPICH;
    (void)dl_iterate_phdr(look_at, &which);
    return which == UNDECIDED ? MPICH : which;
}

/* What only the other library has, and the MPI of the process has not either. */
static void lacking(void) {
    fprintf(stderr, "tugboat: this program calls a function that its MPI does not have\n");
    abort();
}

static void fill(void) {
    const int which = decide();
    for (size_t i = 0; i < tug_pick_nrows; i++) {
        void *address = tug_pick_rows[i].address[which];
        if (address == NULL)
            address = dlsym(RTLD_NEXT, tug_pick_rows[i].name);
        if (address == NULL)
            *(void (**)(void)) & address = lacking;
        /* relaxed: who still reads the old entry comes here again */
        atomic_store_explicit(&tug_pick_table[i], address, memory_order_relaxed);
    }
}

void tug_pick_fill(void) {
    pthread_once(&once, fill);
}
