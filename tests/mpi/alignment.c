/* mpi_minimum_memory_alignment: memory of MPI_Alloc_mem, MPI_Win_allocate and
 * MPI_Win_allocate_shared begins where the program wants it to, on every rank, up to a page
 * (MPI_Alloc_mem: also beyond).
 *
 * MPICH 4.0.2 alone keeps it for MPI_Alloc_mem only: with the argument "host" windows are not
 * looked at. */
#include "check.h"

static bool host_alone;

static bool is_at(const void *memory, long alignment) {
    return (uintptr_t)memory % (uintptr_t)alignment == 0;
}

static MPI_Info wish(long alignment) {
    MPI_Info info;
    char text[24];
    snprintf(text, sizeof(text), "%ld", alignment);
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "mpi_minimum_memory_alignment", text));
    MUST(MPI_Info_set(info, "alloc_shared_noncontig", "true"));
    return info;
}

static void allocated(MPI_Aint bytes, long alignment) {
    MPI_Info info = wish(alignment);
    char *memory;
    MUST(MPI_Alloc_mem(bytes, info, &memory));
    CHECK(is_at(memory, alignment), "%ld bytes at %p, wanted at %ld", (long)bytes, (void *)memory,
          alignment);
    memset(memory, 1, (size_t)bytes);
    MUST(MPI_Free_mem(memory));
    MUST(MPI_Info_free(&info));
}

/* Every rank puts its number behind the last byte but one of its right neighbour. */
static void in_window(bool shared, MPI_Aint bytes, long alignment) {
    MPI_Info info = wish(alignment);
    MPI_Win win;
    char *memory;
    const char mine = (char)(check_rank + 1);
    const int right = (check_rank + 1) % check_nranks;
    const int left = (check_rank + check_nranks - 1) % check_nranks;
    if (shared)
        MUST(MPI_Win_allocate_shared(bytes, 1, info, MPI_COMM_WORLD, &memory, &win));
    else
        MUST(MPI_Win_allocate(bytes, 1, info, MPI_COMM_WORLD, &memory, &win));
    CHECK(host_alone || is_at(memory, alignment), "window: %ld bytes at %p, wanted at %ld",
          (long)bytes, (void *)memory, alignment);
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Put(&mine, 1, MPI_CHAR, right, bytes - 1, 1, MPI_CHAR, win));
    MUST(MPI_Win_fence(0, win));
    CHECK(memory[bytes - 1] == left + 1, "rank %d's put has not arrived", left);
    MUST(MPI_Win_free(&win));
    MUST(MPI_Info_free(&info));
}

int main(int argc, char **argv) {
    MPI_Comm node;
    int here;
    check_begin(&argc, &argv, "alignment");
    host_alone = argc > 1 && strcmp(argv[1], "host") == 0;
    MUST(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    MUST(MPI_Comm_size(node, &here));
    MUST(MPI_Comm_free(&node));
    for (long alignment = 1; alignment <= 1 << 16; alignment *= 4) {
        allocated(100, alignment);
        allocated(100000, alignment);
    }
    for (long alignment = 16; alignment <= 4096; alignment *= 4) {
        in_window(false, 1008, alignment);
        in_window(false, 10000, alignment);
        if (here == check_nranks)
            in_window(true, 1008, alignment);
        in_window(false, 1008, check_rank == 0 ? 16 : alignment);
    }
    return check_end();
}
