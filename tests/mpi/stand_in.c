/*
 * stand_in: a library that answers as some other MPI does.
 *
 * It says what STAND_IN_SAYS holds, and without that does not say its name. Three kinds:
 *
 *   (none)        a small MPI of its own, whose handles are addresses, with an object by which
 * those of MPICH's binary interface are known ABI           the same without OVER          in front
 * of the real host, which serves all calls: only the name is another OVER and ABI  likewise, and
 * MPI_Init comes from here, a library of another file name
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#define BOTH(Name, parameters, arguments)                                                          \
    API int PMPI_##Name parameters;                                                                \
    API int MPI_##Name parameters;                                                                 \
    int MPI_##Name parameters {                                                                    \
        return PMPI_##Name arguments;                                                              \
    }                                                                                              \
    int PMPI_##Name parameters

BOTH(Get_library_version, (char *version, int *length), (version, length)) {
    const char *says = getenv("STAND_IN_SAYS");
    if (says == NULL)
        return 15;
    strcpy(version, says);
    *length = (int)strlen(says);
    return 0;
}

#ifdef OVER
#ifdef ABI
BOTH(Init, (int *argc, char ***argv), (argc, argv)) {
    int (*host)(int *, char ***);
    *(void **)&host = dlsym(RTLD_NEXT, "PMPI_Init");
    return host(argc, argv);
}
#endif
#else
#ifndef ABI
API int *MPI_UNWEIGHTED;
#endif

#define WINDOW ((void *)0x123456789abcdef0)

static void must_be(int right, const char *call) {
    if (!right) {
        fprintf(stderr, "WRONG: %s has other arguments than the program passed\n", call);
        abort();
    }
}

BOTH(Init, (int *argc, char ***argv), (argc, argv)) {
    must_be(argc != NULL && argv != NULL, "MPI_Init");
    return 0;
}

BOTH(Win_create, (void *base, long size, int unit, void *info, void *comm, void **win),
     (base, size, unit, info, comm, win)) {
    must_be(size == 1L << 40 && unit == 8 && info == NULL && comm == base, "MPI_Win_create");
    *win = WINDOW;
    return 0;
}

BOTH(Win_fence, (int assertion, void *win), (assertion, win)) {
    must_be(assertion == 7 && win == WINDOW, "MPI_Win_fence");
    return 0;
}

BOTH(Win_free, (void **win), (win)) {
    must_be(*win == WINDOW, "MPI_Win_free");
    return 0;
}

BOTH(Finalize, (void), ()) {
    return 0;
}
#endif
