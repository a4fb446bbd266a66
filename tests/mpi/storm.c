/*
 * storm: windows and persistent collectives while signals interrupt every wait.
 *
 * Before MPI starts, while connections are tried, and at the end, too. After the arguments of
 * storm.h stands the transport that contexts of the library have to name between the ranks; without
 * one the library may be away.
 */
#include <dlfcn.h>

#include "storm.h"
#include "win_kinds.h"

enum { ROUNDS = 6, WORDS = 20000, SHORT = 16 };

static int64_t source[WORDS], sums[WORDS], told[SHORT];

static int64_t word(int64_t writer, int64_t round, int64_t i) {
    return writer * 1000003 + round * 1009 + i;
}

static void check_words(const int64_t *at, int n, int64_t writer, int64_t round, const char *what) {
    for (int i = 0; i < n; i++)
        CHECK(at[i] == word(writer, round, i), "%s, round %d, word %d: %lld", what, (int)round, i,
              (long long)at[i]);
}

/* Each rank writes much to the next, and counts itself at rank 0. */
static void use_window(struct kind_win *w, int64_t round) {
    const int next = (check_rank + 1) % check_nranks,
              before = (check_rank + check_nranks - 1) % check_nranks;
    const int64_t one = 1;
    int64_t count = -1;
    MUST(MPI_Win_lock_all(0, w->win));
    MUST(MPI_Put(source, WORDS, MPI_INT64_T, next, kind_disp(w, next, 8), WORDS, MPI_INT64_T,
                 w->win));
    MUST(MPI_Accumulate(&one, 1, MPI_INT64_T, 0, kind_disp(w, 0, 0), 1, MPI_INT64_T, MPI_SUM,
                        w->win));
    MUST(MPI_Win_flush_all(w->win));
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Get(&count, 1, MPI_INT64_T, 0, kind_disp(w, 0, 0), 1, MPI_INT64_T, w->win));
    MUST(MPI_Win_unlock_all(w->win));
    CHECK(count == (round + 1) * check_nranks, "%s, round %d: counted to %lld", kind_names[w->kind],
          (int)round, (long long)count);
    MUST(MPI_Win_fence(0, w->win));
    check_words((int64_t *)(void *)w->base + 1, WORDS, before, round, kind_names[w->kind]);
    MUST(MPI_Win_fence(0, w->win));
}

static void use_collectives(MPI_Request requests[2], int64_t round) {
    const int64_t n = check_nranks;
    if (check_rank == 0)
        for (int i = 0; i < SHORT; i++)
            told[i] = word(7, round, i);
    MUST(MPI_Startall(2, requests));
    MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    check_words(told, SHORT, 7, round, "broadcast");
    for (int i = 0; i < WORDS; i++) {
        const int64_t right = n * word(0, round, i) + n * (n - 1) / 2 * 1000003;
        CHECK(sums[i] == right, "sum, round %d, word %d: %lld", (int)round, i, (long long)sums[i]);
    }
}

/* As in tugboat/llcl.h: the program is not linked with the library. */
typedef int create_function(MPI_Comm comm, void **context);
typedef const char *transport_function(const void *context, int process, size_t bytes);
typedef int free_function(void **context);

static void check_transport(const char *right) {
    create_function *create;
    transport_function *transport;
    free_function *end;
    void *context = NULL;
    *(void **)&create = dlsym(RTLD_DEFAULT, "tug_context_create");
    *(void **)&transport = dlsym(RTLD_DEFAULT, "tug_context_transport");
    *(void **)&end = dlsym(RTLD_DEFAULT, "tug_context_free");
    CHECK(create != NULL && transport != NULL && end != NULL, "the library is not here");
    CHECK(create(MPI_COMM_WORLD, &context) == 0, "no context");
    const char *name = transport(context, (check_rank + 1) % check_nranks, 8);
    CHECK(strcmp(name, right) == 0, "the transport is %s, not %s", name, right);
    CHECK(end(&context) == 0, "tug_context_free");
}

int main(int argc, char **argv) {
    struct kind_win windows[2];
    MPI_Request requests[2];
    storm_begin(argc, argv);
    check_begin(&argc, &argv, "storm");
    if (argc > 3)
        check_transport(argv[3]);
    CHECK(kind_open(&windows[0], KIND_ALLOCATE, MPI_COMM_WORLD, 8 * (WORDS + 2), 8) &&
              kind_open(&windows[1], KIND_CREATE, MPI_COMM_WORLD, 8 * (WORDS + 2), 8),
          "no windows");
    MUST(MPI_Allreduce_init(source, sums, WORDS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD,
                            MPI_INFO_NULL, &requests[0]));
    MUST(MPI_Bcast_init(told, SHORT, MPI_INT64_T, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int k = 0; k < 2; k++)
        MUST(MPI_Win_fence(0, windows[k].win));
    for (int64_t round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WORDS; i++)
            source[i] = word(check_rank, round, i);
        for (int k = 0; k < 2; k++)
            use_window(&windows[k], round);
        use_collectives(requests, round);
    }
    for (int k = 0; k < 2; k++) {
        MUST(MPI_Request_free(&requests[k]));
        kind_close(&windows[k]);
    }
    return storm_end();
}
