/*
 * stand_in_program: a program of an MPI whose handles are addresses, see stand_in.c, which checks
 * what arrives there. It calls whichever comes first, as the linker would have it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *find(const char *name) {
    void *address = dlsym(RTLD_DEFAULT, name);
    if (address == NULL) {
        fprintf(stderr, "WRONG: there is no %s\n", name);
        exit(1);
    }
    return address;
}

int main(int argc, char **argv) {
    int (*init)(int *, char ***), (*win_fence)(int, void *), (*win_free)(void **),
        (*finalize)(void);
    int (*win_create)(void *, long, int, void *, void *, void **);
    void *win;
    *(void **)&init = find("MPI_Init");
    *(void **)&win_create = find("MPI_Win_create");
    *(void **)&win_fence = find("MPI_Win_fence");
    *(void **)&win_free = find("MPI_Win_free");
    *(void **)&finalize = find("MPI_Finalize");
    if (init(&argc, &argv) != 0 || win_create(&win, 1L << 40, 8, NULL, &win, &win) != 0 ||
        win_fence(7, win) != 0 || win_free(&win) != 0 || finalize() != 0)
        return 1;
    printf("right\n");
    return 0;
}
