/*
 * huge_pages: memory of MPI_Alloc_mem has huge pages where memory of mmap() has them.
 *
 * Memory of either kind is advised to have huge pages, and stored to. Where the kernel gives mmap()
 * none (by its setting, or because memory is in pieces), there is nothing to compare with: skipped.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "check.h"

enum { BYTES = 32 << 20, HUGE = 2 << 20 };

/* KiB of these bytes that lie in huge pages. */
static size_t count_huge(const void *memory) {
    const uintptr_t from = (uintptr_t)memory, to = from + BYTES;
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[512];
    size_t begin, end, kib, huge = 0;
    bool inside = false;
    CHECK(file != NULL, "no /proc/self/smaps");
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%zx-%zx ", &begin, &end) == 2)
            inside = begin < to && from < end;
        else if (inside && (sscanf(line, "AnonHugePages: %zu", &kib) == 1 ||
                            sscanf(line, "ShmemPmdMapped: %zu", &kib) == 1))
            huge += kib;
    }
    fclose(file);
    return huge;
}

static size_t store(void *memory) {
    const uintptr_t from = ((uintptr_t)memory + HUGE - 1) / HUGE * HUGE;
    (void)madvise((void *)from, BYTES - HUGE, MADV_HUGEPAGE);
    memset(memory, 1, BYTES);
    return count_huge(memory);
}

int main(int argc, char **argv) {
    void *memory;
    check_begin(&argc, &argv, "huge_pages");
    void *mapped = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED, "mmap");
    const size_t expected = store(mapped);
    munmap(mapped, BYTES);
    MUST(MPI_Alloc_mem(BYTES, MPI_INFO_NULL, &memory));
    const size_t found = store(memory);
    printf("%zu KiB in huge pages, %zu of memory of mmap()\n", found, expected);
    CHECK(found > 0 || expected < (BYTES - 2 * HUGE) / 1024, "%zu KiB in huge pages, not %zu",
          found, expected);
    MPI_Win win; /* without one the library leaves the memory to the host */
    MUST(MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MUST(MPI_Win_free(&win));
    MUST(MPI_Free_mem(memory));
    if (expected == 0) {
        if (check_rank == 0)
            printf("skipped: the kernel gives no huge pages\n");
        MPI_Finalize();
        return CHECK_SKIP;
    }
    return check_end();
}
