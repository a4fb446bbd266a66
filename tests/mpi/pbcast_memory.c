/*
 * pbcast_memory: broadcasts out of every kind of memory.
 *
 * Buffers are the heap's, of MPI_Alloc_mem, or of windows of all ranks, of half of them and of one;
 * the root's and the others' of different kinds; whole, and a part of more. The root writes the
 * next content as soon as its wait is over, the others look at theirs as late as they can. Memory
 * is given back between two requests, and before its request is. Ten thousand requests, exchanges
 * of growing sizes among them, leave no
 * descriptors, mappings and memory behind.
 */
#include "check.h"

#include <dirent.h>
#include <time.h>

enum { HEAP, ALLOC_MEM, WINDOW, HALF, SELF, KINDS, INSIDE = 4160, MOST = 3 << 19 };

static const int sizes[] = {5000, 65535, 65536, 262144 + 17, MOST};

struct memory {
    int kind;
    unsigned char *base;
    MPI_Win win;
};

static MPI_Comm half;

/* Collective, the same bytes; every rank names its kind: the windows are made by all that could. */
static struct memory allocate(int kind, size_t bytes) {
    const MPI_Comm comms[KINDS] = {
        [WINDOW] = MPI_COMM_WORLD, [HALF] = half, [SELF] = MPI_COMM_SELF};
    struct memory memory = {kind, NULL, MPI_WIN_NULL};
    if (kind == HEAP)
        memory.base = malloc(bytes);
    else if (kind == ALLOC_MEM)
        MUST(MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory.base));
    else
        MUST(MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, comms[kind], &memory.base,
                              &memory.win));
    CHECK(memory.base != NULL, "no memory");
    return memory;
}

static void release(struct memory *memory) {
    if (memory->kind == HEAP)
        free(memory->base);
    else if (memory->kind == ALLOC_MEM)
        MUST(MPI_Free_mem(memory->base));
    else
        MUST(MPI_Win_free(&memory->win));
}

/* Runs of one request, back to back. */
static void broadcast(unsigned char *buffer, int bytes, int root, int runs) {
    MPI_Request request;
    MUST(MPI_Bcast_init(buffer, bytes, MPI_BYTE, root, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int run = 0; run < runs; run++) {
        if (check_rank == root)
            check_fill(buffer, (size_t)bytes, (uint64_t)root, (uint64_t)run);
        else
            memset(buffer, 0x3c, (size_t)bytes);
        MUST(MPI_Start(&request));
        check_wait(&request);
        if (check_rank != root)
            check_same(buffer, (size_t)bytes, (uint64_t)root, (uint64_t)run, "run", __LINE__);
    }
    MUST(MPI_Request_free(&request));
}

/* mine: the kind of this rank. */
static void test_kind(int mine, int root) {
    struct memory memory = allocate(mine, MOST + INSIDE + 64);
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
        memset(memory.base, 0xee, MOST + INSIDE + 64);
        int inside = i % 2 ? INSIDE + i : 0;
        broadcast(memory.base + inside, sizes[i], root, check_rounds(4, 3));
        for (int j = 0; j < 64; j++)
            CHECK(memory.base[inside + sizes[i] + j] == 0xee, "beside %d bytes", sizes[i]);
        CHECK(inside == 0 || memory.base[inside - 1] == 0xee, "beside %d bytes", sizes[i]);
    }
    release(&memory);
}

/* Windows are made by all of their communicator's ranks or by none. */
static void test_kinds(void) {
    for (int kind = 0; kind < KINDS; kind++)
        test_kind(kind, kind % check_nranks);
    bool even = check_rank % 2 == 0;
    test_kind(even ? ALLOC_MEM : HEAP, 0);
    test_kind(even ? HEAP : ALLOC_MEM, 0);
    test_kind(even ? HALF : SELF, 0);
    test_kind(even ? SELF : HALF, check_nranks - 1);
}

/* Types with gaps: at the root (nothing to be lent), at the others. */
static void test_types(void) {
    enum { N = 40000 };
    struct memory memory = allocate(ALLOC_MEM, 2 * N * sizeof(int));
    int *words = (int *)memory.base;
    MPI_Datatype gaps;
    MUST(MPI_Type_vector(N, 1, 2, MPI_INT, &gaps));
    MUST(MPI_Type_commit(&gaps));
    for (int with = 0; with < 2; with++) {
        bool root = check_rank == 0, mine = root == (with == 0);
        MPI_Request request;
        MUST(MPI_Bcast_init(words, mine ? 1 : N, mine ? gaps : MPI_INT, 0, MPI_COMM_WORLD,
                            MPI_INFO_NULL, &request));
        for (int run = 0; run < 3; run++) {
            for (int i = 0; i < 2 * N; i++)
                words[i] = root ? i / (mine ? 2 : 1) * 3 + run : -1;
            MUST(MPI_Start(&request));
            check_wait(&request);
            for (int i = 0; i < N; i++)
                CHECK(words[mine ? 2 * i : i] == 3 * i + run, "element %d, run %d", i, run);
        }
        MUST(MPI_Request_free(&request));
    }
    MUST(MPI_Type_free(&gaps));
    release(&memory);
}

/* Two requests on one buffer, and two buffers in one piece of memory; started together. */
static void test_shared(void) {
    enum { N = 100000 };
    struct memory memory = allocate(ALLOC_MEM, 3 * N);
    MPI_Request requests[3];
    for (int i = 0; i < 3; i++)
        MUST(MPI_Bcast_init(memory.base + (i < 2 ? i : 1) * N, N, MPI_BYTE, 0, MPI_COMM_WORLD,
                            MPI_INFO_NULL, &requests[i]));
    for (int run = 0; run < check_rounds(20, 5); run++)
        for (int last = 1; last < 3; last++) {
            MPI_Request pair[2] = {requests[0], requests[last]};
            for (int i = 0; i < 2; i++)
                if (check_rank == 0)
                    check_fill(memory.base + i * N, N, (uint64_t)last, (uint64_t)(2 * run + i));
            MUST(MPI_Startall(2, pair));
            MUST(MPI_Waitall(2, pair, MPI_STATUSES_IGNORE));
            for (int i = 0; i < 2; i++)
                check_same(memory.base + i * N, N, (uint64_t)last, (uint64_t)(2 * run + i), "both",
                           __LINE__);
        }
    for (int i = 0; i < 3; i++)
        MUST(MPI_Request_free(&requests[i]));
    release(&memory);
}

/* The memory goes before the request; a reader comes half a second late. */
static void test_lifetimes(void) {
    enum { N = 200000 };
    for (int kind = ALLOC_MEM; kind <= WINDOW; kind++) {
        struct memory memory = allocate(kind, N);
        MPI_Request request;
        MUST(MPI_Bcast_init(memory.base, N, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        if (check_rank == 0)
            check_fill(memory.base, N, 7, (uint64_t)kind);
        else
            nanosleep(&(struct timespec){.tv_nsec = 500000000 / check_nranks}, NULL);
        MUST(MPI_Start(&request));
        check_wait(&request);
        if (check_rank == 0)
            memset(memory.base, 0, N); /* it is mine again */
        else
            check_same(memory.base, N, 7, (uint64_t)kind, "late", __LINE__);
        release(&memory);
        check_barrier(MPI_COMM_WORLD);
        MUST(MPI_Request_free(&request));
        memory = allocate(kind, N);
        broadcast(memory.base, N, 0, 2);
        release(&memory);
    }
}

struct footprint {
    int descriptors, mappings, resident_kib;
};

static struct footprint look(void) {
    struct footprint f = {0};
    char line[512];
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder) != NULL)
        f.descriptors++;
    closedir(folder);
    FILE *file = fopen("/proc/self/maps", "re");
    while (fgets(line, sizeof line, file))
        f.mappings++;
    fclose(file);
    file = fopen("/proc/self/status", "re");
    while (fgets(line, sizeof line, file))
        sscanf(line, "VmRSS: %d", &f.resident_kib);
    fclose(file);
    return f;
}

/* Sizes as they come, for what is kept for one and taken again for another. */
static void exchange(int cycle) {
    int n = 1 << cycle % 14;
    MPI_Request request;
    int *blocks = calloc((size_t)n * (size_t)check_nranks, 2 * sizeof *blocks);
    CHECK(blocks != NULL, "no memory");
    int *in = blocks + (size_t)n * (size_t)check_nranks;
    MUST(MPI_Alltoall_init(blocks, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                           &request));
    for (int r = 0; r < check_nranks; r++)
        blocks[(r + 1) * n - 1] = check_rank * 100 + r + cycle;
    MUST(MPI_Start(&request));
    check_wait(&request);
    for (int r = 0; r < check_nranks; r++)
        CHECK(in[(r + 1) * n - 1] == r * 100 + check_rank + cycle, "cycle %d", cycle);
    MUST(MPI_Request_free(&request));
    free(blocks);
}

static void test_leaks(int cycles) {
    enum { N = 65536, WARM = 300 }; /* every size of exchange() has been there by then */
    struct footprint before = {0};
    for (int i = 0; i < cycles + WARM; i++) {
        MPI_Request request;
        struct memory memory = allocate(i % 8 < 4 ? ALLOC_MEM : HEAP, (size_t)N << i % 4);
        MUST(MPI_Bcast_init(memory.base, N, MPI_BYTE, i % check_nranks, MPI_COMM_WORLD,
                            MPI_INFO_NULL, &request));
        if (i % 100 == 0) {
            memory.base[N - 1] = (unsigned char)check_rank;
            MUST(MPI_Start(&request));
            check_wait(&request);
            CHECK(memory.base[N - 1] == i % check_nranks, "cycle %d", i);
        }
        if (i % 3)
            MUST(MPI_Request_free(&request));
        release(&memory);
        if (i % 3 == 0)
            MUST(MPI_Request_free(&request));
        if (i % 20 == 0)
            exchange(i / 20);
        if (i == WARM)
            before = look();
    }
    struct footprint after = look();
    CHECK(after.descriptors <= before.descriptors + 4, "%d descriptors, then %d",
          before.descriptors, after.descriptors);
    CHECK(after.mappings <= before.mappings + 20, "%d mappings, then %d", before.mappings,
          after.mappings);
    CHECK(after.resident_kib <= before.resident_kib + 4096, "%d KiB, then %d", before.resident_kib,
          after.resident_kib);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "pbcast_memory");
    MUST(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &half));
    test_kinds();
    test_types();
    test_shared();
    test_lifetimes();
    test_leaks(argc > 1 ? atoi(argv[1]) : 300);
    MUST(MPI_Comm_free(&half));
    return check_end();
}
