/*
 * rma_in_place: windows of MPI_Win_create over ordinary memory, which a library may share where it
 * lies (info tugboat_share_in_place).
 *
 * Memory of malloc and mmap, beginning and ending anywhere, keeps its contents when the window is
 * made and freed, and what is beside it too; afterwards it can be grown, freed, and inherited by a
 * child. Memory that must not be moved is served all the same: of malloc's heap, locked, shared, of
 * a file, kept out of forks, with another thread in the process, in two windows at once, on the
 * stack. "in-place": what may be moved is in the direct lane, and what may not is not.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { N = 100000 }; /* ints of a window */
static bool expects;
static int step =
    4; /* MPICH 4.0.2 alone misplaces windows at other addresses than multiples of 16 */

static int value_of(int rank, int i) {
    return (int)((check_seed + (unsigned)rank * 7919u + (unsigned)i * 13u) % 1000003u);
}

static void is_in_lane(MPI_Win win, bool direct) {
    char lane[MPI_MAX_INFO_VAL + 1] = "";
    MPI_Info info;
    int there;
    MUST(MPI_Win_get_info(win, &info));
    MPI_Info_get(info, "tugboat_lane", MPI_MAX_INFO_VAL, lane, &there);
    MUST(MPI_Info_free(&info));
    CHECK(!expects || (strcmp(lane, "direct") == 0) == direct, "lane %s, direct %d", lane, direct);
}

static MPI_Win make(int *base, int n) {
    MPI_Info info;
    MPI_Win win;
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "tugboat_share_in_place", "true"));
    MUST(MPI_Win_create(base, (MPI_Aint)n * (MPI_Aint)sizeof(int), sizeof(int), info,
                        MPI_COMM_WORLD, &win));
    MUST(MPI_Info_free(&info));
    return win;
}

static void fill(int *base, int n) {
    for (int i = 0; i < n; i++)
        base[i] = value_of(check_rank, i);
}

static void is_kept(const int *base, int n, int except) {
    for (int i = 0; i < n; i++)
        CHECK(i == except || base[i] == value_of(check_rank, i), "value %d is %d", i, base[i]);
}

/* The left neighbour's number comes to the last place; the right one's middle is read, and its last
 * place counted at. */
static void use(MPI_Win win, int *base, int n, int filled_from) {
    const int right = (check_rank + 1) % check_nranks;
    const int left = (check_rank + check_nranks - 1) % check_nranks;
    int mine = 1000 + check_rank, got = -1, one = 1, before = -1;
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Put(&mine, 1, MPI_INT, right, n - 1, 1, MPI_INT, win));
    MUST(MPI_Get(&got, 1, MPI_INT, right, n / 2, 1, MPI_INT, win));
    MUST(MPI_Win_fence(0, win));
    CHECK(got == value_of(right, n / 2 - filled_from), "got %d", got);
    CHECK(base[n - 1] == 1000 + left, "put %d", base[n - 1]);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 100; i++)
        MUST(MPI_Fetch_and_op(&one, &before, MPI_INT, right, n - 1, MPI_SUM, win));
    MUST(MPI_Win_flush_all(win));
    MUST(MPI_Win_unlock_all(win));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Win_fence(0, win));
    CHECK(base[n - 1] == 1100 + left, "counted %d", base[n - 1]);
}

/* A window over `base`: `direct` if it may be moved. */
static void see(int *base, int n, bool direct) {
    fill(base, n);
    MPI_Win win = make(base, n);
    is_in_lane(win, direct);
    is_kept(base, n, -1);
    use(win, base, n, 0);
    is_kept(base, n, n - 1);
    MUST(MPI_Win_free(&win));
    is_kept(base, n, n - 1);
}

static void *map(size_t bytes, int how) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, how, -1, 0);
    CHECK(memory != MAP_FAILED, "no memory");
    return memory;
}

/* What was in a window is the program's, as if nothing had been. */
static void child_has_its_own(int *base) {
    int status = -1;
    const int before = base[0];
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        bool same = base[0] == before;
        base[0] = before + 1;
        _exit(same ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
          "the child ended with status %d", status);
    CHECK(base[0] == before, "the child has written into its parent");
}

static void of_malloc(void) {
    for (int i = 1; i < 4; i++) {
        const int shift = i * step;
        int *memory = malloc((2 * N + 10) * sizeof(int));
        CHECK(memory != NULL, "no memory");
        memory[0] = memory[shift + N] = -7;
        see(memory + shift, N, true);
        CHECK(memory[0] == -7 && memory[shift + N] == -7, "what is beside");
        child_has_its_own(memory);
        memory = realloc(memory, 40 * N * sizeof(int));
        CHECK(memory != NULL, "no memory");
        is_kept(memory + shift, N - 1, -1);
        memory[39 * N] = 1;
        free(memory);
    }
}

static void of_mmap(void) {
    const size_t bytes = 2 * N * sizeof(int);
    int *memory = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS);
    see(memory, N, true);
    see(memory + 3 * step, N, true);
    see(memory + 2000, 10, true);
    CHECK(mlock(memory, 4096) != 0 || munlock(memory, 4096) == 0, "locks");
    if (mlock(memory, bytes) == 0) {
        see(memory, N, false);
        MUST(munlock(memory, bytes));
    }
    MUST(madvise(memory, bytes, MADV_DONTFORK));
    see(memory, N, false);
    MUST(madvise(memory, bytes, MADV_DOFORK));
    see(memory, N, true);
    MUST(munmap(memory, bytes));
    memory = map(bytes, MAP_SHARED | MAP_ANONYMOUS);
    see(memory, N, false);
    MUST(munmap(memory, bytes));
}

/* One rank's memory may not be moved: the others' is not either. */
static void of_some(void) {
    int *memory = map(N * sizeof(int), MAP_PRIVATE | MAP_ANONYMOUS);
    if (check_rank == 0)
        MUST(madvise(memory, N * sizeof(int), MADV_DONTFORK));
    see(memory, N, false);
    child_has_its_own(check_rank == 0 ? (int *)&check_nranks : memory);
    MUST(munmap(memory, N * sizeof(int)));
}

static void of_heap_and_stack(void) {
    int here[1000];
    int *small = malloc(1000 * sizeof(int));
    CHECK(small != NULL, "no memory");
    see(small, 1000, false);
    see(here, 1000, false);
    free(small);
}

/* A second window over some of it, which outlives the first. */
static void twice(void) {
    int *memory = map(N * sizeof(int), MAP_PRIVATE | MAP_ANONYMOUS);
    fill(memory, N);
    MPI_Win first = make(memory, N), second = make(memory + 100, N - 100);
    is_in_lane(first, true);
    is_in_lane(second, false);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Win_free(&first));
    is_kept(memory, N, -1);
    use(second, memory + 100, N - 100, -100);
    is_kept(memory, N, N - 1);
    MUST(MPI_Win_free(&second));
    is_kept(memory, N, N - 1);
    MUST(munmap(memory, N * sizeof(int)));
}

static pthread_barrier_t begun;
static _Atomic int ending;
static int *counted;

/* Stores all the time: none of it may be lost when the window goes. */
static void *count(void *argument) {
    (void)argument;
    pthread_barrier_wait(&begun);
    for (int i = 1; !ending; i++)
        for (int k = 1; k < N - 1; k += 997)
            if (__atomic_exchange_n(&counted[k], i, __ATOMIC_RELAXED) != i - 1)
                return &counted[k];
    return NULL;
}

/* A thread that is there when the window is made, or comes while it lives. */
static void beside_a_thread(bool comes_late) {
    pthread_t thread;
    void *lost;
    counted = map(N * sizeof(int), MAP_PRIVATE | MAP_ANONYMOUS);
    fill(counted, N);
    for (int k = 1; k < N - 1; k += 997)
        counted[k] = 0;
    ending = 0;
    pthread_barrier_init(&begun, NULL, 2);
    if (!comes_late)
        CHECK(pthread_create(&thread, NULL, count, NULL) == 0, "no thread");
    MPI_Win win = make(counted, N);
    is_in_lane(win, comes_late);
    if (comes_late)
        CHECK(pthread_create(&thread, NULL, count, NULL) == 0, "no thread");
    pthread_barrier_wait(&begun);
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Win_free(&win));
    usleep(2000);
    ending = 1;
    pthread_join(thread, &lost);
    CHECK(lost == NULL, "a store of another thread is lost");
    CHECK(counted[N - 1] == value_of(check_rank, N - 1), "the last value is %d", counted[N - 1]);
    child_has_its_own(counted);
    counted = mremap(counted, N * sizeof(int), 40 * N * sizeof(int), MREMAP_MAYMOVE);
    CHECK(counted != MAP_FAILED && counted[39 * N] == 0, "grown");
    counted[39 * N] = 1;
    MUST(munmap(counted, 40 * N * sizeof(int)));
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "rma_in_place");
    expects = argc > 1 && strcmp(argv[1], "in-place") == 0;
    step = expects ? 1 : step;
    CHECK(mallopt(M_MMAP_THRESHOLD, 65536) == 1, "blocks have pages of their own");
    of_malloc();
    of_mmap();
    of_some();
    of_heap_and_stack();
    twice();
    beside_a_thread(false);
    beside_a_thread(true);
    check_end();
    return 0;
}
