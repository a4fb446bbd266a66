/*
 * llcl_large: one operation of more than 2 GiB, or as much as a small machine has memory for.
 *
 * Rank 0 writes 2 GiB + 1 bytes to rank 1, which looks at every word of them, and reads them back.
 * Arguments: allocated or registered, the kind of memory at the far end; MiB instead of 2048.
 * Skipped without the memory: two blocks of that size, and a part of one for what the way needs.
 */
#include "llcl_check.h"
#include <sys/statvfs.h>

static size_t bytes = ((size_t)2 << 30) + 1;

/* In KiB, from /proc/meminfo; 0 if it is not told. */
static unsigned long available(void) {
    unsigned long kib = 0;
    char line[256];
    FILE *f = fopen("/proc/meminfo", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "MemAvailable: %lu kB", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    return kib;
}

static bool enough(void) {
    struct statvfs shm;
    unsigned long want = bytes / 1024 * 11 / 4, have = available();
    int yes = have >= want, all;
    if (!yes)
        printf("rank %d: %lu MiB are available of %lu\n", check_rank, have >> 10, want >> 10);
    if (yes &&
        (statvfs("/dev/shm", &shm) != 0 || shm.f_bavail * shm.f_frsize < bytes + (64 << 20))) {
        printf("rank %d: /dev/shm has too little room\n", check_rank);
        yes = 0;
    }
    MUST(MPI_Allreduce(&yes, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    return all;
}

/* A word a multiplication: this is about gigabytes. */
static uint64_t word(uint64_t i, uint64_t round) {
    return (i + check_seed) * 0x9e3779b97f4a7c15u + round;
}

static void fill(unsigned char *at, uint64_t round) {
    uint64_t *words = (uint64_t *)(void *)at;
    for (size_t i = 0; i < bytes / 8; i++)
        words[i] = word(i, round);
    at[bytes - 1] = (unsigned char)(0x33 + round);
}

static void check(const unsigned char *at, uint64_t round, const char *what) {
    const uint64_t *words = (const uint64_t *)(const void *)at;
    for (size_t i = 0; i < bytes / 8;) {
        size_t end = i + 4096 < bytes / 8 ? i + 4096 : bytes / 8;
        uint64_t wrong = 0;
        for (size_t k = i; k < end; k++)
            wrong |= words[k] ^ word(k, round);
        for (; wrong != 0 && i < end; i++)
            CHECK(words[i] == word(i, round), "%s: word %zu is 0x%llx, not 0x%llx", what, i,
                  (unsigned long long)words[i], (unsigned long long)word(i, round));
        i = end;
    }
    CHECK(at[bytes - 1] == (unsigned char)(0x33 + round), "%s: the last byte", what);
}

int main(int argc, char **argv) {
    struct ll_memory far, near;
    enum ll_kind kind =
        argc > 1 && strcmp(argv[1], "registered") == 0 ? LL_REGISTERED : LL_ALLOCATED;
    if (argc > 2)
        bytes = ((size_t)strtoul(argv[2], NULL, 10) << 20) + 1;
    ll_begin(&argc, &argv, "llcl_large");
    if (check_nranks != 2 || !enough()) {
        if (check_rank == 0)
            printf("skipped: wants two ranks and %zu MiB of memory\n", bytes / 4 * 11 >> 20);
        MPI_Finalize();
        return CHECK_SKIP;
    }
    tug_context *context = ll_open(MPI_COMM_WORLD);
    ll_make(context, &far, kind, check_rank == 1 ? bytes : 64);
    ll_make(context, &near, LL_REGISTERED, check_rank == 0 ? bytes : 64);
    if (check_rank == 0)
        printf("%zu bytes of %s memory by %s\n", bytes, ll_kind_name(kind),
               tug_mem_map(context, &far.keys[1]) != NULL
                   ? "loads and stores"
                   : tug_context_transport(context, 1, bytes));
    if (check_rank == 0) {
        fill(near.base, 1);
        double start = ll_now();
        LL_GOOD(ll_write(context, 1, &far.keys[1], 0, near.registration, 0, bytes));
        printf("written at %.2f GB/s\n", 1e-9 * (double)bytes / (ll_now() - start));
    }
    ll_barrier(context);
    if (check_rank == 1) {
        check(far.base, 1, "written");
        fill(far.base, 2);
    }
    ll_barrier(context);
    if (check_rank == 0) {
        double start = ll_now();
        LL_GOOD(ll_read(context, 1, &far.keys[1], 0, near.registration, 0, bytes));
        printf("read at %.2f GB/s\n", 1e-9 * (double)bytes / (ll_now() - start));
        check(near.base, 2, "read");
    }
    ll_barrier(context);
    ll_end(context, &near);
    ll_end(context, &far);
    ll_close(&context);
    return check_end();
}
