/*
 * dlopened: a program that is not linked with MPI and opens it, or something that is, at run time.
 *
 *   dlopened mpi LIBMPI      opens the MPI library itself with RTLD_LOCAL, all calls by dlsym
 *   dlopened plugin PLUGIN   opens a plugin that is linked with MPI with RTLD_LOCAL and runs its
 *                            plugin_main: the way of interpreters such as Python
 *
 * Under a preload the library comes before an MPI that it cannot see in the global scope; it has
 * to find it there, or to stay out of the way.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *opened;

static void *find(const char *name) {
    void *address = dlsym(opened, name);
    if (address == NULL) {
        fprintf(stderr, "WRONG: no %s: %s\n", name, dlerror());
        exit(1);
    }
    return address;
}

/* The call named, typed by its own declaration. */
#define CALL(name) (*(__typeof__(&name))find(#name))

#define MUST_BE(cond, what)                                                                        \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "WRONG rank %d: %s\n", rank, what);                                    \
            CALL(MPI_Abort)(MPI_COMM_WORLD, 1);                                                    \
        }                                                                                          \
    } while (0)

#ifdef OPEN_MPI
/* Its handles are addresses in the library: who is not linked with it has none. */
static int use_mpi(int argc, char **argv) {
    (void)argc, (void)argv;
    return 2;
}
#else
static int use_mpi(int argc, char **argv) {
    int rank = -1, nranks = 0;
    MPI_Win win;
    MPI_Request request;
    long *base, mine, sent = 0;
    CALL(MPI_Init)(&argc, &argv);
    CALL(MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
    CALL(MPI_Comm_size)(MPI_COMM_WORLD, &nranks);
    int right = (rank + 1) % nranks, left = (rank + nranks - 1) % nranks;
    mine = 100 + rank;
    MUST_BE(CALL(MPI_Win_allocate)(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win) == 0, "win");
    CALL(MPI_Win_fence)(0, win);
    MUST_BE(CALL(MPI_Put)(&mine, 1, MPI_LONG, right, 2, 1, MPI_LONG, win) == 0, "put");
    CALL(MPI_Win_fence)(0, win);
    MUST_BE(base[2] == 100 + left, "what was put is not there");
    CALL(MPI_Win_free)(&win);
    CALL(MPI_Bcast_init)(&sent, 1, MPI_LONG, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < 5; i++) {
        sent = rank == 0 ? 7 + i : 0;
        CALL(MPI_Start)(&request);
        CALL(MPI_Wait)(&request, MPI_STATUS_IGNORE);
        MUST_BE(sent == 7 + i, "what was broadcast is not there");
    }
    CALL(MPI_Request_free)(&request);
    CALL(MPI_Finalize)();
    if (rank == 0)
        printf("right\n");
    return 0;
}
#endif

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    opened = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    if (opened == NULL) {
        fprintf(stderr, "WRONG: %s\n", dlerror());
        return 1;
    }
    if (strcmp(argv[1], "mpi") == 0)
        return use_mpi(argc, argv);
    int (*plugin_main)(int, char **) = (int (*)(int, char **))find("plugin_main");
    return plugin_main(argc - 2, argv + 2);
}
