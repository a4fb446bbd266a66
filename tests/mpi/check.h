/*
 * check.h: what every MPI test program shares.
 *
 * A program checks data with CHECK and return codes with MUST. The first thing that is wrong is
 * printed with rank, place and values, and ends the whole job with a non-zero status; there is no
 * counting of failures, so no test passes by forgetting to look at the count.
 * Contents are a pure function of (seed, writer, round, index), so that any rank can tell what
 * any byte must be without being sent it. The seed is printed, and read back from CHECK_SEED.
 * Threads: CHECK may be called from any thread; check_begin and check_end from the main one.
 */
#ifndef TUG_TESTS_MPI_CHECK_H
#define TUG_TESTS_MPI_CHECK_H

#include <mpi.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mpi4.h"

#define CHECK_SKIP 77

/* MPICH's MPI_STATUSES_IGNORE is (MPI_Status *)1, which gcc takes for an array of no length. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread" /* Open MPI's MPI_UNWEIGHTED is (int *)2 */
#endif

static int check_rank = -1;
static int check_nranks = 0;
static uint64_t check_seed = 20261121;

__attribute__((format(printf, 3, 4), noreturn, unused)) static void
check_fail(const char *file, int line, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *name = strrchr(file, '/');
    fprintf(stderr, "WRONG rank %d of %d, %s:%d: %s\n", check_rank, check_nranks,
            name ? name + 1 : file, line, text);
    fflush(stderr);
    /* MPICH's launcher (4.0.2) drops what it has not forwarded yet when a job is aborted: 6 of 60
     * jobs ended without a word on a busy machine, with this moment 1. */
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

#define CHECK(cond, ...)                                                                           \
    do {                                                                                           \
        if (!(cond))                                                                               \
            check_fail(__FILE__, __LINE__, __VA_ARGS__);                                           \
    } while (0)

/* An MPI call that has to succeed, also where an error handler returns. */
#define MUST(call)                                                                                 \
    do {                                                                                           \
        int must_rc = (call);                                                                      \
        if (must_rc != MPI_SUCCESS)                                                                \
            check_fail(__FILE__, __LINE__, "%s gave error code %d", #call, must_rc);               \
    } while (0)

/*
 * A wait that gives its core away. Ranks of the host MPI spin through each other's time slices when
 * they outnumber the cores, at 8 ms a barrier.
 */
__attribute__((unused)) static void check_wait(MPI_Request *request) {
    int done = 0;
    for (;;) {
        MUST(MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done)
            return;
        sched_yield();
    }
}

__attribute__((unused)) static void check_barrier(MPI_Comm comm) {
    MPI_Request request;
    MUST(MPI_Ibarrier(comm, &request));
    check_wait(&request);
}

/* Fewer rounds where every synchronisation costs milliseconds: more than two ranks, or CHECK_FEW is
 * set, as it is where the network card is emulated. */
__attribute__((unused)) static int check_rounds(int full, int few) {
    return check_nranks > 2 || getenv("CHECK_FEW") != NULL ? few : full;
}

__attribute__((unused)) static void check_note(const char *program) {
    const char *seed = getenv("CHECK_SEED");
    if (seed && *seed)
        check_seed = strtoull(seed, NULL, 0);
    MUST(MPI_Comm_rank(MPI_COMM_WORLD, &check_rank));
    MUST(MPI_Comm_size(MPI_COMM_WORLD, &check_nranks));
    if (check_rank == 0)
        printf("%s: %d ranks, CHECK_SEED=%llu\n", program, check_nranks,
               (unsigned long long)check_seed);
}

__attribute__((unused)) static void check_begin(int *argc, char ***argv, const char *program) {
    MUST(MPI_Init(argc, argv));
    check_note(program);
}

/* Skips unless MPI_THREAD_MULTIPLE is granted. */
__attribute__((unused)) static void check_begin_threads(int *argc, char ***argv,
                                                        const char *program) {
    int provided;
    MUST(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided));
    check_note(program);
    if (provided < MPI_THREAD_MULTIPLE) {
        if (check_rank == 0)
            printf("skipped: MPI_THREAD_MULTIPLE is not provided\n");
        MPI_Finalize();
        exit(CHECK_SKIP);
    }
}

/* Zeroed memory at 64 bytes; with CHECK_MEMORY=lent such as the node's other ranks can map. */
__attribute__((unused)) static void *check_memory(size_t bytes) {
    const char *kind = getenv("CHECK_MEMORY");
    const size_t least = 65536;
    void *memory = NULL;
    if (kind != NULL && strcmp(kind, "lent") == 0)
        MUST(MPI_Alloc_mem((MPI_Aint)(bytes > least ? bytes : least), MPI_INFO_NULL, &memory));
    else
        memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    CHECK(memory != NULL, "no memory");
    return memset(memory, 0, bytes);
}

__attribute__((unused)) static void check_memory_free(void *memory) {
    const char *kind = getenv("CHECK_MEMORY");
    if (kind != NULL && strcmp(kind, "lent") == 0)
        MUST(MPI_Free_mem(memory));
    else
        free(memory);
}

__attribute__((unused)) static int check_end(void) {
    check_barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        printf("right\n");
    fflush(stdout);
    MUST(MPI_Finalize());
    return 0;
}

/* One 64-bit word of content (splitmix64 of its coordinates). */
__attribute__((unused)) static uint64_t check_word(uint64_t writer, uint64_t round,
                                                   uint64_t index) {
    uint64_t x = check_seed + writer * 0x9e3779b97f4a7c15u + round * 0xbf58476d1ce4e5b9u +
                 index * 0x94d049bb133111ebu;
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

__attribute__((unused)) static uint8_t check_byte(uint64_t writer, uint64_t round, uint64_t index) {
    return (uint8_t)(check_word(writer, round, index / 8) >> (8 * (index % 8)));
}

__attribute__((unused)) static void check_fill(void *buf, size_t n, uint64_t writer,
                                               uint64_t round) {
    uint8_t *b = buf;
    for (size_t i = 0; i + 8 <= n; i += 8) {
        uint64_t w = check_word(writer, round, i / 8);
        memcpy(b + i, &w, 8);
    }
    for (size_t i = n / 8 * 8; i < n; i++)
        b[i] = check_byte(writer, round, i);
}

/* Compares with what check_fill(n, writer, round) would have written. */
__attribute__((unused)) static void check_same(const void *buf, size_t n, uint64_t writer,
                                               uint64_t round, const char *what, int line) {
    const uint8_t *b = buf;
    for (size_t i = 0; i < n; i++) {
        uint64_t w = check_word(writer, round, i / 8);
        if (i % 8 == 0 && i + 8 <= n && memcmp(b + i, &w, 8) == 0) {
            i += 7;
            continue;
        }
        uint8_t want = (uint8_t)(w >> (8 * (i % 8)));
        if (b[i] != want)
            check_fail(what, line,
                       "byte %zu of %zu is 0x%02x, not 0x%02x (writer %llu, round %llu)", i, n,
                       b[i], want, (unsigned long long)writer, (unsigned long long)round);
    }
}

/* Numbers for choices a program makes; every rank that starts from one seed makes the same. */
struct check_rng {
    uint64_t state;
};

__attribute__((unused)) static uint64_t check_draw(struct check_rng *rng) {
    return check_word(0xd1ce, 0, rng->state++);
}

/* ---- measuring ---- */

static int check_by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Sorts them, and returns the one in the middle. */
__attribute__((unused)) static double check_median(double *values, size_t n) {
    qsort(values, n, sizeof *values, check_by_value);
    return values[n / 2];
}

#endif
