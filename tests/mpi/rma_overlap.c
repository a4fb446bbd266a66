/*
 * rma_overlap: many windows, in odd places.
 *
 * Windows that share memory, with each other and with windows of other kinds, used one after the
 * other; window memory loaded and stored by its rank within lock_all, with MPI_Win_sync between; a
 * window's memory as the buffer of operations on it; dozens of windows open at once, which come and
 * go in any order; windows of halves of the ranks, of the ranks in reverse, of one rank alone, at
 * the same time and with different sizes, also while the other ranks wait; ranks without memory.
 * Where registrations of memory overlap, the host MPI of Debian 12 addresses such windows wrongly
 * unless UCX is kept from caching them (see win_unaligned): the tug heals that.
 */
#include "lane.h"
#include "win_kinds.h"

enum { MAX_RANKS = 16, WORDS = 32, BYTES = 8 * WORDS, MANY = 24 };

static struct check_rng rng; /* in step on all ranks */

static uint64_t draw(uint64_t below) {
    return check_draw(&rng) % below;
}

static int right_of(const struct kind_win *w) {
    return (w->rank + 1) % w->nranks;
}

static int left_of(const struct kind_win *w) {
    return (w->rank + w->nranks - 1) % w->nranks;
}

/* Puts to the right within an epoch of its own. */
static void put_at(struct kind_win *w, size_t offset, size_t n, uint64_t who, uint64_t round) {
    char from[BYTES];
    int right = right_of(w);
    check_fill(from, n, who, round);
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, w->win));
    MUST(MPI_Put(from, (int)n, MPI_CHAR, right, kind_disp(w, right, offset), (int)n, MPI_CHAR,
                 w->win));
    MUST(MPI_Win_unlock(right, w->win));
}

static void see_at(struct kind_win *w, size_t offset, size_t n, uint64_t who, uint64_t round,
                   int line) {
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, w->rank, 0, w->win));
    check_same(w->base + offset, n, who, round, __FILE__, line);
    MUST(MPI_Win_unlock(w->rank, w->win));
}

/* ---- shared memory ---- */

/* Windows of MPI_Win_create over parts of another window's memory, which overlap: what one of them
 * writes the others read. One is used at a time; between, the ranks meet. */
static void test_same_memory(struct kind_win *w) {
    enum { NPARTS = 4 };
    static const size_t begins[NPARTS] = {0, 64, 32, 128}, ends[NPARTS] = {BYTES, BYTES, 192, 160};
    struct kind_win parts[NPARTS];
    if (w->kind == KIND_DYNAMIC)
        return;
    for (int i = 0; i < NPARTS; i++) {
        parts[i] = (struct kind_win){.kind = KIND_CREATE, .comm = w->comm, .rank = w->rank};
        parts[i].nranks = w->nranks;
        parts[i].disp_unit = 1;
        parts[i].base = w->base + begins[i];
        parts[i].size = ends[i] - begins[i];
        MUST(MPI_Win_create(parts[i].base, (MPI_Aint)parts[i].size, 1, MPI_INFO_NULL, w->comm,
                            &parts[i].win));
    }
    for (uint64_t round = 1; round <= (uint64_t)check_rounds(20, 3); round++) {
        int writer = (int)draw(NPARTS + 1), reader = (int)draw(NPARTS + 1);
        const size_t from = 128, n = 32; /* bytes that all have */
        struct kind_win *a = writer < NPARTS ? &parts[writer] : w;
        struct kind_win *b = reader < NPARTS ? &parts[reader] : w;
        char got[BYTES];
        put_at(a, from - (size_t)(a->base - w->base), n, (uint64_t)w->rank, round);
        check_barrier(w->comm);
        see_at(b, from - (size_t)(b->base - w->base), n, (uint64_t)left_of(w), round, __LINE__);
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, right_of(w), 0, b->win));
        MUST(MPI_Get(got, (int)n, MPI_CHAR, right_of(w),
                     kind_disp(b, right_of(w), from - (size_t)(b->base - w->base)), (int)n,
                     MPI_CHAR, b->win));
        MUST(MPI_Win_unlock(right_of(w), b->win));
        check_same(got, n, (uint64_t)w->rank, round, __FILE__, __LINE__);
        check_barrier(w->comm);
    }
    for (int i = 0; i < NPARTS; i++)
        MUST(MPI_Win_free(&parts[(i + 1) % NPARTS].win));
    put_at(w, 0, BYTES, (uint64_t)w->rank, 99); /* it has survived them */
    check_barrier(w->comm);
    see_at(w, 0, BYTES, (uint64_t)left_of(w), 99, __LINE__);
}

/* ---- loads and stores ---- */

static void meet(struct kind_win *w) {
    MUST(MPI_Win_sync(w->win));
    check_barrier(w->comm);
    MUST(MPI_Win_sync(w->win));
}

/* Within one long lock_all: stores that others get, puts that are loaded, sums of both. */
static void test_loads_and_stores(struct kind_win *w) {
    volatile uint64_t *mine = (volatile uint64_t *)(void *)w->base;
    int right = right_of(w), left = left_of(w), *model, flag;
    uint64_t add = 3, got[WORDS / 2], out[WORDS / 2];
    MUST(MPI_Win_get_attr(w->win, MPI_WIN_MODEL, &model, &flag));
    if (!flag || *model != MPI_WIN_UNIFIED)
        return;
    MUST(MPI_Win_lock_all(0, w->win));
    for (uint64_t round = 1; round <= (uint64_t)check_rounds(50, 4); round++) {
        /* The first half of the words is stored by its rank, the second put by the left one. */
        for (int i = 0; i < WORDS / 2; i++) {
            mine[i] = check_word((uint64_t)w->rank, round, (uint64_t)i);
            out[i] = check_word((uint64_t)w->rank, round, (uint64_t)i + 1000);
        }
        meet(w);
        MUST(MPI_Get(got, WORDS / 2, MPI_UINT64_T, right, kind_disp(w, right, 0), WORDS / 2,
                     MPI_UINT64_T, w->win));
        MUST(MPI_Put(out, WORDS / 2, MPI_UINT64_T, right, kind_disp(w, right, BYTES / 2), WORDS / 2,
                     MPI_UINT64_T, w->win));
        MUST(MPI_Win_flush(right, w->win));
        MUST(MPI_Accumulate(&add, 1, MPI_UINT64_T, right, kind_disp(w, right, BYTES - 8), 1,
                            MPI_UINT64_T, MPI_SUM, w->win));
        MUST(MPI_Win_flush_all(w->win));
        check_same(got, sizeof got, (uint64_t)right, round, "stored, then got", __LINE__);
        meet(w);
        for (int i = 0; i < WORDS / 2; i++) {
            uint64_t want = check_word((uint64_t)left, round, (uint64_t)i + 1000);
            want += i + 1 == WORDS / 2 ? add : 0;
            CHECK(mine[WORDS / 2 + i] == want, "round %d: word %d was put and is not there",
                  (int)round, i);
        }
        meet(w);
    }
    MUST(MPI_Win_unlock_all(w->win));
}

/* The buffers of operations lie in the window itself. */
static void test_own_buffers(struct kind_win *w) {
    uint64_t *mine = (uint64_t *)(void *)w->base;
    int right = right_of(w), left = left_of(w);
    MUST(MPI_Win_fence(0, w->win));
    check_fill(mine, BYTES / 4, (uint64_t)w->rank, 7);
    MUST(MPI_Win_fence(0, w->win));
    MUST(MPI_Put(mine, BYTES / 4, MPI_CHAR, right, kind_disp(w, right, BYTES / 4), BYTES / 4,
                 MPI_CHAR, w->win));
    MUST(MPI_Get(mine + WORDS / 2, BYTES / 4, MPI_CHAR, left, kind_disp(w, left, 0), BYTES / 4,
                 MPI_CHAR, w->win));
    MUST(MPI_Put(mine, BYTES / 4, MPI_CHAR, w->rank, kind_disp(w, w->rank, BYTES * 3 / 4),
                 BYTES / 4, MPI_CHAR, w->win));
    MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
    check_same(mine, BYTES / 4, (uint64_t)w->rank, 7, __FILE__, __LINE__);
    check_same(mine + WORDS / 4, BYTES / 4, (uint64_t)left, 7, __FILE__, __LINE__);
    check_same(mine + WORDS / 2, BYTES / 4, (uint64_t)left, 7, __FILE__, __LINE__);
    check_same(mine + WORDS * 3 / 4, BYTES / 4, (uint64_t)w->rank, 7, __FILE__, __LINE__);
    check_barrier(w->comm);
}

/* ---- many ---- */

static MPI_Comm halves, reversed;

/* This rank is in all of them. */
static MPI_Comm pick_comm(uint64_t kind) {
    return kind == 0 ? MPI_COMM_WORLD : kind == 1 ? halves : kind == 2 ? reversed : MPI_COMM_SELF;
}

/* Every window's content belongs to the window, its rank there and the round. */
static uint64_t content_of(int window, int world_rank) {
    return (uint64_t)(window * MAX_RANKS + world_rank);
}

static int world_rank_of(const struct kind_win *w, int rank) {
    int world_rank;
    MPI_Group group, world;
    MUST(MPI_Win_get_group(w->win, &group));
    MUST(MPI_Comm_group(MPI_COMM_WORLD, &world));
    MUST(MPI_Group_translate_ranks(group, 1, &rank, world, &world_rank));
    MUST(MPI_Group_free(&group));
    MUST(MPI_Group_free(&world));
    return world_rank;
}

/* All windows are locked and written before any of them is unlocked. */
static void write_all(struct kind_win *windows, int n, uint64_t round) {
    static char from[MANY][BYTES];
    for (int i = 0; i < n; i++) {
        int right = right_of(&windows[i]);
        check_fill(from[i], BYTES, content_of(i, check_rank), round);
        MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, windows[i].win));
        MUST(MPI_Put(from[i], BYTES, MPI_CHAR, right, kind_disp(&windows[i], right, 0), BYTES,
                     MPI_CHAR, windows[i].win));
    }
    for (int i = 0; i < n; i++)
        MUST(MPI_Win_unlock(right_of(&windows[n - 1 - i]), windows[n - 1 - i].win));
}

static void test_many(void) {
    static struct kind_win windows[MANY];
    int n = 0, most = check_rounds(MANY, 8), nlocal;
    MPI_Comm node;
    MUST(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    MUST(MPI_Comm_size(node, &nlocal));
    MUST(MPI_Comm_free(&node));
    bool one_node = nlocal == check_nranks;
    MUST(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &halves));
    MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &reversed));
    for (uint64_t round = 1; round <= (uint64_t)check_rounds(12, 3); round++) {
        /* Some go, from anywhere in the middle; then others come. */
        for (int i = n - 1; i >= 0; i--)
            if (draw(2)) {
                kind_close(&windows[i]);
                windows[i] = windows[--n];
            }
        while (n < most) {
            enum kind kind = (enum kind)draw(NKINDS);
            MPI_Comm comm = pick_comm(draw(4));
            if (kind == KIND_SHARED && !one_node)
                kind = KIND_ALLOCATE;
            CHECK(kind_open(&windows[n++], kind, comm, BYTES + 16 * draw(64), 1), "no %s window",
                  kind_names[kind]);
        }
        write_all(windows, n, round);
        check_barrier(MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            see_at(&windows[i], 0, BYTES,
                   content_of(i, world_rank_of(&windows[i], left_of(&windows[i]))), round,
                   __LINE__);
        check_barrier(MPI_COMM_WORLD);
    }
    while (n > 0)
        kind_close(&windows[--n]);
    MUST(MPI_Comm_free(&halves));
    MUST(MPI_Comm_free(&reversed));
}

/* Some ranks make, use and free windows while the others wait for a message: those take no part. */
static void test_without_the_others(struct kind_win *everybody) {
    bool takes_part = everybody->rank % 2 == 0;
    MPI_Request request;
    MPI_Comm some;
    int done = 0;
    MUST(MPI_Comm_split(everybody->comm, takes_part, everybody->rank, &some));
    MUST(MPI_Irecv(NULL, 0, MPI_CHAR, 0, 1, everybody->comm, &request));
    for (int round = 0; takes_part && round < 3; round++) {
        struct kind_win w;
        if (!kind_open(&w, everybody->kind, some, BYTES, 1))
            break;
        put_at(&w, 0, BYTES, (uint64_t)w.rank, 200 + (uint64_t)round);
        check_barrier(some);
        see_at(&w, 0, BYTES, (uint64_t)left_of(&w), 200 + (uint64_t)round, __LINE__);
        kind_close(&w);
    }
    if (takes_part)
        check_barrier(some);
    for (int r = 0; everybody->rank == 0 && r < everybody->nranks; r++)
        MUST(MPI_Send(NULL, 0, MPI_CHAR, r, 1, everybody->comm));
    while (!done) {
        MUST(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        sched_yield();
    }
    MUST(MPI_Comm_free(&some));
}

/* Memory and unit of each rank are its own; some have none. */
static void test_uneven(bool created) {
    int unit = 1 << check_rank % 4;
    size_t size = check_rank % 3 == 1 ? 0 : BYTES * (size_t)(1 + check_rank);
    void *base = NULL;
    char from[BYTES];
    MPI_Win win;
    if (created && size > 0)
        CHECK(posix_memalign(&base, 64, size) == 0, "no memory");
    if (created)
        MUST(MPI_Win_create(base, (MPI_Aint)size, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    else
        MUST(MPI_Win_allocate((MPI_Aint)size, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    MUST(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
    for (int t = 0; t < check_nranks; t++) {
        size_t there = t % 3 == 1 ? 0 : BYTES * (size_t)(1 + t), n = BYTES / 16;
        if (there == 0)
            n = 0;
        check_fill(from, n, (uint64_t)check_rank, (uint64_t)t);
        /* at the end of its memory, in its unit */
        MUST(MPI_Put(from, (int)n, MPI_CHAR, t,
                     n ? (MPI_Aint)(there - n * (size_t)(check_rank + 1)) / (1 << t % 4) : 0,
                     (int)n, MPI_CHAR, win));
        MUST(MPI_Win_fence(0, win)); /* the buffer is used again */
    }
    MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    for (int r = 0; r < check_nranks && size > 0; r++)
        check_same((char *)base + size - BYTES / 16 * (size_t)(r + 1), BYTES / 16, (uint64_t)r,
                   (uint64_t)check_rank, __FILE__, __LINE__);
    MUST(MPI_Win_free(&win));
    if (created)
        free(base);
}

int main(int argc, char **argv) {
    static void (*const tests[])(struct kind_win *) = {test_same_memory, test_loads_and_stores,
                                                       test_own_buffers, test_without_the_others};
    check_begin(&argc, &argv, "rma_overlap");
    CHECK(check_nranks <= MAX_RANKS, "at most %d ranks", MAX_RANKS);
    for (int kind = 0; kind < NKINDS; kind++) {
        struct kind_win w;
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, BYTES, 8))
            continue;
        for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
            tests[i](&w);
            kind_clear(&w);
        }
        kind_close(&w);
        if (check_rank == 0)
            printf("%s\n", kind_names[kind]);
    }
    test_many();
    test_uneven(false);
    test_uneven(true);
    return check_end();
}
