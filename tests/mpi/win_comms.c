/*
 * win_comms: windows on communicators that come and go.
 *
 *     win_comms [kept]
 *
 * Communicators of the same ranks in the same order, in the reverse order, and of some of the ranks
 * are made, have a window of every flavour, perhaps a persistent broadcast, and go again: each new
 * window works, and is like new. A window outlives its communicator; two communicators of the same
 * ranks live at once; threads of a rank make and free theirs at once. With "kept" what the ranks of
 * a node share is mapped once for all communicators of the same ranks, and memory of MPI_Alloc_mem
 * once for all windows over it; and no rank waits for the others to free such a communicator.
 */
#include <pthread.h>

#include "win_kinds.h"

enum { N = 64, BYTES = 8 * N };

static uint64_t round_number;

/* Every rank puts to the next one of the communicator. */
static void use(struct kind_win *w, uint64_t round) {
    const int right = (w->rank + 1) % w->nranks, left = (w->rank + w->nranks - 1) % w->nranks;
    uint64_t out[N];
    check_fill(out, sizeof out, (uint64_t)w->rank, round);
    MUST(MPI_Win_fence(0, w->win));
    MUST(MPI_Put(out, N, MPI_UINT64_T, right, kind_disp(w, right, 0), N, MPI_UINT64_T, w->win));
    MUST(MPI_Win_fence(0, w->win));
    check_same(w->base, sizeof out, (uint64_t)left, round, "a put", __LINE__);
}

/* It has no name, the handler that the host gives it, and its communicator's ranks. */
static void is_like_new(const struct kind_win *w) {
    char name[MPI_MAX_OBJECT_NAME];
    int length, n, own;
    MPI_Errhandler handler;
    MPI_Group group;
    MUST(MPI_Win_get_name(w->win, name, &length));
    CHECK(length == 0, "a new window is called %s", name);
    MUST(MPI_Win_get_errhandler(w->win, &handler));
    CHECK(handler == MPI_ERRORS_ARE_FATAL, "a new window's error handler");
    MUST(MPI_Win_get_group(w->win, &group));
    MUST(MPI_Group_size(group, &n));
    MUST(MPI_Group_rank(group, &own));
    CHECK(n == w->nranks && own == w->rank, "rank %d of %d, not %d of %d", own, n, w->rank,
          w->nranks);
    MUST(MPI_Group_free(&group));
}

static void broadcast(MPI_Comm comm, uint64_t round) {
    MPI_Request request;
    uint64_t words[N];
    int rank;
    MUST(MPI_Comm_rank(comm, &rank));
    memset(words, 0, sizeof words);
    MUST(MPI_Bcast_init(words, N, MPI_UINT64_T, 0, comm, MPI_INFO_NULL, &request));
    if (rank == 0)
        check_fill(words, sizeof words, 0, round);
    MUST(MPI_Start(&request));
    check_wait(&request);
    check_same(words, sizeof words, 0, round, "a broadcast", __LINE__);
    MUST(MPI_Request_free(&request));
}

/* The communicator has a window of each flavour, and goes. */
static void live(MPI_Comm comm, bool broadcasts) {
    for (int kind = 0; kind < NKINDS; kind++) {
        struct kind_win w;
        round_number++;
        if (!kind_open(&w, (enum kind)kind, comm, BYTES, 8))
            continue;
        is_like_new(&w);
        use(&w, round_number);
        MUST(MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN));
        if (kind == KIND_CREATE)
            MUST(MPI_Win_set_name(w.win, "named"));
        kind_close(&w);
    }
    if (broadcasts)
        broadcast(comm, ++round_number);
    MUST(MPI_Comm_free(&comm));
}

static void test_come_and_go(int rounds) {
    for (int i = 0; i < rounds; i++) {
        MPI_Comm same, reverse, some;
        MUST(MPI_Comm_dup(MPI_COMM_WORLD, &same));
        live(same, i % 3 == 1);
        MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &reverse));
        live(reverse, false);
        MUST(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &some));
        live(some, i % 3 == 2);
    }
}

/* Two of the same ranks at once, and a window that outlives its communicator. */
static void test_at_once(int rounds) {
    for (int i = 0; i < rounds; i++) {
        MPI_Comm comms[2];
        struct kind_win w[2];
        for (int c = 0; c < 2; c++) {
            MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comms[c]));
            (void)kind_open(&w[c], c == 0 ? KIND_CREATE : KIND_ALLOCATE, comms[c], BYTES, 8);
        }
        for (int c = 0; c < 2; c++) {
            w[c].comm = MPI_COMM_WORLD;
            if (i % 2 == 0)
                MUST(MPI_Comm_free(&comms[c]));
            use(&w[c], ++round_number);
        }
        for (int c = 0; c < 2; c++) {
            kind_close(&w[c]);
            if (i % 2 != 0)
                MUST(MPI_Comm_free(&comms[c]));
        }
    }
}

struct worker {
    MPI_Comm parent;
    uint64_t first;
    int rounds;
};

static void *work(void *argument) {
    const struct worker *worker = argument;
    for (int i = 0; i < worker->rounds; i++) {
        MPI_Comm comm;
        struct kind_win w;
        MUST(MPI_Comm_dup(worker->parent, &comm));
        (void)kind_open(&w, i % 2 == 0 ? KIND_CREATE : KIND_ALLOCATE, comm, BYTES, 8);
        use(&w, worker->first + (uint64_t)i);
        kind_close(&w);
        MUST(MPI_Comm_free(&comm));
    }
    return NULL;
}

static void test_threads(int rounds) {
    enum { THREADS = 3 };
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        workers[t] = (struct worker){.first = 1000000 * (uint64_t)(t + 1), .rounds = rounds};
        MUST(MPI_Comm_dup(MPI_COMM_WORLD, &workers[t].parent));
    }
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, work, &workers[t]) == 0, "no thread");
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        MUST(MPI_Comm_free(&workers[t].parent));
    }
}

/* A sum of where shared memory is mapped, and which. */
static uint64_t mapped_shared(void) {
    char line[512];
    uint64_t sum = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "no /proc/self/maps");
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long from, to, offset, inode;
        char rights[5], device[16];
        if (sscanf(line, "%lx-%lx %4s %lx %15s %lu", &from, &to, rights, &offset, device, &inode) ==
                6 &&
            rights[3] == 's')
            sum += (from ^ to) * 31 + inode * 0x9e3779b97f4a7c15u;
    }
    fclose(maps);
    return sum;
}

static void test_kept(void) {
    uint64_t first = 0;
    for (int i = 0; i < 6; i++) {
        MPI_Comm comm;
        struct kind_win w;
        MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        CHECK(kind_open(&w, KIND_CREATE, comm, BYTES, 8), "no window");
        const uint64_t now = mapped_shared();
        first = i < 2 ? now : first;
        CHECK(now == first, "communicator %d has other shared memory than the one before", i);
        kind_close(&w);
        MUST(MPI_Comm_free(&comm));
    }
}

/* What a smaller communicator's windows need of the first one of all ranks stays with it; from the
 * second on all ranks have the same again. */
static void test_kept_beside(void) {
    uint64_t first = 0;
    MPI_Comm some;
    MUST(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &some));
    for (int i = 0; i < 12; i++) {
        MPI_Comm comm;
        struct kind_win w;
        MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        CHECK(kind_open(&w, KIND_CREATE, comm, BYTES, 8), "no window");
        if (i == 0 && check_rank % 2 == 0) {
            struct kind_win small;
            CHECK(kind_open(&small, KIND_CREATE, some, BYTES, 8), "no window");
            kind_close(&small);
        }
        const uint64_t now = mapped_shared();
        first = i < 3 ? now : first;
        CHECK(now == first, "communicator %d has other shared memory than the one before", i);
        kind_close(&w);
        MUST(MPI_Comm_free(&comm));
    }
    MUST(MPI_Comm_free(&some));
}

/* A communicator whose like has been kept before goes without waiting for the others. */
static void test_goes_alone(void) {
    for (int i = 0; i < 4; i++) {
        MPI_Comm comm;
        struct kind_win w;
        int word = i;
        MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        CHECK(kind_open(&w, KIND_CREATE, comm, BYTES, 8), "no window");
        kind_close(&w);
        if (i > 1 && check_rank > 0)
            MUST(MPI_Recv(&word, 1, MPI_INT, check_rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MUST(MPI_Comm_free(&comm));
        if (i > 1 && check_rank + 1 < check_nranks)
            MUST(MPI_Send(&word, 1, MPI_INT, check_rank + 1, 0, MPI_COMM_WORLD));
    }
}

/* Windows that a name, an attribute or an info has been given take each other's place. */
static void test_kept_windows(void) {
    uint64_t first = 0;
    int key;
    MPI_Info info;
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "no_locks", "false"));
    MUST(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &key, NULL));
    for (int i = 0; i < 12; i++) {
        MPI_Win win;
        void *memory;
        MUST(MPI_Win_allocate(BYTES, 1, i % 2 ? info : MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                              &win));
        MUST(MPI_Win_set_name(win, "named"));
        if (check_rank == 0)
            MUST(MPI_Win_set_attr(win, key, &first));
        const uint64_t now = mapped_shared();
        first = i < 3 ? now : first;
        CHECK(now == first, "window %d has other memory mapped than the one before", i);
        MUST(MPI_Win_free(&win));
    }
    MUST(MPI_Win_free_keyval(&key));
    MUST(MPI_Info_free(&info));
}

static void test_kept_views(void) {
    enum { LENT = 1 << 20 };
    uint64_t first = 0;
    void *memory;
    MUST(MPI_Alloc_mem(LENT, MPI_INFO_NULL, &memory));
    for (int i = 0; i < 6; i++) {
        MPI_Win win;
        MUST(MPI_Win_create(memory, LENT, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        MUST(MPI_Win_free(&win));
        const uint64_t now = mapped_shared();
        first = i < 2 ? now : first;
        CHECK(now == first, "window %d has left other memory mapped than the one before", i);
    }
    MUST(MPI_Free_mem(memory));
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "win_comms");
    if (argc > 1 && strcmp(argv[1], "kept") == 0) {
        test_kept();
        test_goes_alone();
        test_kept_beside();
        test_kept_windows();
        test_kept_views();
        return check_end();
    }
    test_come_and_go(check_rounds(6, 3));
    test_at_once(check_rounds(6, 4));
    test_threads(check_rounds(20, 6));
    return check_end();
}
