/*
 * rma_apps: what programs do with windows, by any number of ranks.
 *
 * A grid in a ring whose rows travel by fence, post-start-complete-wait and lock_all with flush,
 * against the whole grid computed by every rank; a hash table over all ranks, filled by
 * compare-and-swap and put, then read and counted in by fetch-and-add; a bag of tasks dealt out by
 * fetch-and-add, of which some take long. Nothing here costs a rank more than a few operations for
 * each of its neighbours or entries, so that hundreds of ranks can share two cores.
 *
 *     rma_apps [steps of the grid [entries of a rank [tasks of a rank]]]
 */
#include <sched.h>
#include <stddef.h>

#include "win_kinds.h"

enum { ROWS = 2, COLUMNS = 24 };

static int steps = 6, entries = 12, tasks = 8;

/* ---- a grid ---- */

enum { BY_FENCE, BY_PSCW, BY_FLUSH, NSYNCS };
static const char *const sync_names[NSYNCS] = {"fence", "pscw", "flush"};

/* Row r of the whole grid of n rows after one more step: each cell, and those above and below it.
 */
static void advance_row(const uint32_t *grid, int n, int r, uint32_t *next) {
    const uint32_t *above = grid + (r + n - 1) % n * COLUMNS, *here = grid + r * COLUMNS,
                   *below = grid + (r + 1) % n * COLUMNS;
    for (int c = 0; c < COLUMNS; c++)
        next[c] = above[c] + 3 * here[c] + 5 * below[c];
}

/* The two neighbours as a group, each once. */
static MPI_Group neighbours(int below, int above) {
    MPI_Group all, two;
    const int ranks[2] = {below, above};
    MUST(MPI_Comm_group(MPI_COMM_WORLD, &all));
    MUST(MPI_Group_incl(all, below == above ? 1 : 2, ranks, &two));
    MUST(MPI_Group_free(&all));
    return two;
}

/* Puts the first row where the rank above has room for what is below it, and the last row likewise.
 * The window: two halo rows for even steps, two for odd ones. */
static void put_rows(struct kind_win *w, const uint32_t *rows, int step, int above, int below) {
    const size_t at = (size_t)(step % 2) * 2 * COLUMNS * sizeof(uint32_t);
    MUST(MPI_Put(rows, COLUMNS, MPI_UINT32_T, above,
                 kind_disp(w, above, at + COLUMNS * sizeof(uint32_t)), COLUMNS, MPI_UINT32_T,
                 w->win));
    MUST(MPI_Put(rows + (ROWS - 1) * COLUMNS, COLUMNS, MPI_UINT32_T, below, kind_disp(w, below, at),
                 COLUMNS, MPI_UINT32_T, w->win));
}

/* The neighbours' rows have come when this returns. Who is a step ahead writes the other halo. */
static void exchange(struct kind_win *w, int sync, const uint32_t *rows, int step, int above,
                     int below, MPI_Group group) {
    if (sync == BY_PSCW) {
        MUST(MPI_Win_post(group, 0, w->win));
        MUST(MPI_Win_start(group, 0, w->win));
    }
    put_rows(w, rows, step, above, below);
    if (sync == BY_FENCE) {
        MUST(MPI_Win_fence(0, w->win));
    } else if (sync == BY_PSCW) {
        MUST(MPI_Win_complete(w->win));
        MUST(MPI_Win_wait(w->win));
    } else {
        MUST(MPI_Win_flush_all(w->win));
        check_barrier(MPI_COMM_WORLD);
        MUST(MPI_Win_sync(w->win));
    }
}

static void grid(enum kind kind, int sync) {
    struct kind_win w;
    const int n = check_nranks * ROWS, above = (check_rank + check_nranks - 1) % check_nranks,
              below = (check_rank + 1) % check_nranks;
    const size_t bytes = COLUMNS * sizeof(uint32_t);
    uint32_t *whole = calloc((size_t)n, bytes), *next = calloc((size_t)n, bytes);
    uint32_t mine[(ROWS + 2) * COLUMNS];
    MPI_Group group = neighbours(below, above);
    CHECK(whole != NULL && next != NULL, "no memory");
    for (int i = 0; i < n * COLUMNS; i++)
        whole[i] = (uint32_t)check_word(7, 0, (uint64_t)i);
    memcpy(mine + COLUMNS, whole + check_rank * ROWS * COLUMNS, ROWS * bytes);
    (void)kind_open(&w, kind, MPI_COMM_WORLD, 4 * bytes, 4);
    if (sync == BY_FENCE)
        MUST(MPI_Win_fence(0, w.win));
    else if (sync == BY_FLUSH)
        MUST(MPI_Win_lock_all(0, w.win));
    for (int step = 0; step < steps; step++) {
        exchange(&w, sync, mine + COLUMNS, step, above, below, group);
        const char *halo = w.base + (size_t)(step % 2) * 2 * bytes;
        memcpy(mine, halo, bytes);
        memcpy(mine + (ROWS + 1) * COLUMNS, halo + bytes, bytes);
        uint32_t fresh[ROWS * COLUMNS];
        for (int r = 0; r < ROWS; r++)
            advance_row(mine, ROWS + 2, r + 1, fresh + r * COLUMNS);
        memcpy(mine + COLUMNS, fresh, sizeof(fresh));
        for (int r = 0; r < n; r++)
            advance_row(whole, n, r, next + r * COLUMNS);
        memcpy(whole, next, (size_t)n * bytes);
        const uint32_t *want = whole + check_rank * ROWS * COLUMNS;
        for (int i = 0; i < ROWS * COLUMNS; i++)
            CHECK(fresh[i] == want[i], "%s by %s: step %d, cell %d is %u, not %u", kind_names[kind],
                  sync_names[sync], step, i, fresh[i], want[i]);
    }
    if (sync == BY_FENCE)
        MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    else if (sync == BY_FLUSH)
        MUST(MPI_Win_unlock_all(w.win));
    MUST(MPI_Group_free(&group));
    kind_close(&w);
    free(whole);
    free(next);
}

/* ---- a hash table ---- */

struct entry {
    uint64_t key, value, count; /* key 0: free */
};

static uint64_t key_of(int rank, int i) {
    return check_word((uint64_t)rank, 11, (uint64_t)i) | 1;
}

static uint64_t swap_key(struct kind_win *w, int owner, size_t at, uint64_t key) {
    const uint64_t none = 0;
    uint64_t was = 1;
    MUST(MPI_Compare_and_swap(&key, &none, &was, MPI_UINT64_T, owner, kind_disp(w, owner, at),
                              w->win));
    MUST(MPI_Win_flush(owner, w->win));
    return was;
}

/* The place of a key, which is put there if `make` and it is nowhere. *owner: the rank. */
static size_t find(struct kind_win *w, uint64_t key, int places, bool make, int *owner) {
    const uint64_t all = (uint64_t)places * (uint64_t)check_nranks;
    for (uint64_t probe = 0; probe < all; probe++) {
        const uint64_t place = (key / 2 + probe) % all;
        *owner = (int)(place / (uint64_t)places);
        const size_t at = place % (uint64_t)places * sizeof(struct entry);
        uint64_t there = 0;
        if (make) {
            there = swap_key(w, *owner, at, key);
        } else {
            MUST(MPI_Fetch_and_op(NULL, &there, MPI_UINT64_T, *owner, kind_disp(w, *owner, at),
                                  MPI_NO_OP, w->win));
            MUST(MPI_Win_flush(*owner, w->win));
        }
        if (there == key || (make && there == 0))
            return at;
        CHECK(there != 0, "key %llx is not in the table", (unsigned long long)key);
    }
    CHECK(false, "the table is full");
    return 0;
}

static void hash_table(enum kind kind) {
    struct kind_win w;
    const int places = 2 * entries;
    const int asked = (check_rank + check_nranks / 2 + 1) % check_nranks;
    const size_t bytes = (size_t)places * sizeof(struct entry);
    int owner;
    (void)kind_open(&w, kind, MPI_COMM_WORLD, bytes, 8);
    MUST(MPI_Win_lock_all(0, w.win));
    for (int i = 0; i < entries; i++) {
        const uint64_t key = key_of(check_rank, i), value = ~key;
        const size_t at = find(&w, key, places, true, &owner);
        MUST(MPI_Put(&value, 1, MPI_UINT64_T, owner,
                     kind_disp(&w, owner, at + offsetof(struct entry, value)), 1, MPI_UINT64_T,
                     w.win));
        MUST(MPI_Win_flush(owner, w.win));
    }
    check_barrier(MPI_COMM_WORLD);
    for (int i = 0; i < entries; i++) {
        const uint64_t key = key_of(asked, i), one = 1;
        uint64_t value = 0, before = 0;
        const size_t at = find(&w, key, places, false, &owner);
        MUST(MPI_Get(&value, 1, MPI_UINT64_T, owner,
                     kind_disp(&w, owner, at + offsetof(struct entry, value)), 1, MPI_UINT64_T,
                     w.win));
        MUST(MPI_Fetch_and_op(&one, &before, MPI_UINT64_T, owner,
                              kind_disp(&w, owner, at + offsetof(struct entry, count)), MPI_SUM,
                              w.win));
        MUST(MPI_Win_flush(owner, w.win));
        CHECK(value == ~key, "%s: the value of %llx is %llx", kind_names[kind],
              (unsigned long long)key, (unsigned long long)value);
        CHECK(before == 0, "%s: %llx was asked for %llu times before", kind_names[kind],
              (unsigned long long)key, (unsigned long long)before);
    }
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_unlock_all(w.win));
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, w.win));
    const struct entry *table = (const struct entry *)(const void *)w.base;
    uint64_t counted = 0, all = 0;
    for (int i = 0; i < places; i++)
        counted += table[i].key != 0 && table[i].count == 1;
    MUST(MPI_Win_unlock(check_rank, w.win));
    MUST(MPI_Allreduce(&counted, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
    CHECK(all == (uint64_t)entries * (uint64_t)check_nranks, "%s: %llu entries were counted in",
          kind_names[kind], (unsigned long long)all);
    kind_close(&w);
}

/* ---- a bag of tasks ---- */

/* The next task is a counter at the last rank, the result of each a word at the rank that it is
 * number of: whoever does it adds what every other rank knows. */
static void bag(enum kind kind) {
    struct kind_win w;
    const int keeper = check_nranks - 1;
    const uint64_t all = (uint64_t)tasks * (uint64_t)check_nranks;
    const size_t bytes = ((size_t)tasks + 2) / 2 * 2 * sizeof(uint64_t); /* see win_kinds.h */
    (void)kind_open(&w, kind, MPI_COMM_WORLD, bytes, 8);
    for (;;) {
        const uint64_t one = 1;
        uint64_t task;
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, keeper, 0, w.win));
        MUST(MPI_Fetch_and_op(&one, &task, MPI_UINT64_T, keeper,
                              kind_disp(&w, keeper, (size_t)tasks * sizeof(uint64_t)), MPI_SUM,
                              w.win));
        MUST(MPI_Win_unlock(keeper, w.win));
        if (task >= all)
            break;
        if (check_word(3, 0, task) % 16 == 0)
            for (int i = 0; i < 50; i++)
                sched_yield();
        const int owner = (int)(task % (uint64_t)check_nranks);
        const uint64_t result = check_word(5, 0, task);
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, owner, 0, w.win));
        MUST(MPI_Accumulate(&result, 1, MPI_UINT64_T, owner,
                            kind_disp(&w, owner, task / (uint64_t)check_nranks * sizeof(result)), 1,
                            MPI_UINT64_T, MPI_SUM, w.win));
        MUST(MPI_Win_unlock(owner, w.win));
    }
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, w.win));
    const uint64_t *results = (const uint64_t *)(const void *)w.base;
    for (int i = 0; i < tasks; i++) {
        const uint64_t task = (uint64_t)i * (uint64_t)check_nranks + (uint64_t)check_rank;
        CHECK(results[i] == check_word(5, 0, task), "%s: task %llu: %llx, not %llx",
              kind_names[kind], (unsigned long long)task, (unsigned long long)results[i],
              (unsigned long long)check_word(5, 0, task));
    }
    MUST(MPI_Win_unlock(check_rank, w.win));
    kind_close(&w);
}

int main(int argc, char **argv) {
    static const enum kind kinds[] = {KIND_ALLOCATE, KIND_CREATE, KIND_DYNAMIC};
    check_begin(&argc, &argv, "rma_apps");
    if (argc > 1)
        steps = atoi(argv[1]);
    if (argc > 2)
        entries = atoi(argv[2]);
    if (argc > 3)
        tasks = atoi(argv[3]);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        for (int sync = 0; sync < NSYNCS; sync++)
            grid(kinds[i], sync);
        hash_table(kinds[i]);
        bag(kinds[i]);
    }
    return check_end();
}
