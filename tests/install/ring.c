/* A put around a ring. LINKED: also calls the library, and looks that it is in the process once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#ifdef LINKED
#include <tugboat/tugboat.h>

static int count(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)size;
    *(int *)argument += strstr(info->dlpi_name, "libtugboat") != NULL;
    return 0;
}
#endif

int main(int argc, char **argv) {
    int rank, ranks, *memory, value;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Win_allocate(16, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_fence(0, window);
    value = rank + 7;
    MPI_Put(&value, 1, MPI_INT, (rank + 1) % ranks, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    const int right = ranks == 2 && *memory == (rank + ranks - 1) % ranks + 7;
    MPI_Win_free(&window);
    MPI_Finalize();
    const char *also = "";
#ifdef LINKED
    int libraries = 0;
    dl_iterate_phdr(count, &libraries);
    also = libraries == 1 && tug_version()[0] != '\0' ? ", once" : ", but not one library";
#endif
    printf("%s data%s\n", right ? "right" : "wrong", also);
    return !right;
}
