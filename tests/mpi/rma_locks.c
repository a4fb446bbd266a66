/*
 * rma_locks: does a lock keep out whom it must, let in whom it may, and make nobody wait for ever?
 *
 * Exclusive locks around updates that would show another's interference; shared locks held by all
 * at once; who hammers on a lock gets a share of it; a rank that waits for a lock still receives
 * what is sent to it; memory that is polled; windows that come and go, on communicators that do not
 * stay and with ranks in reverse; ranks without memory and with displacement units of their own.
 * A window that says it is in the direct lane has to do what the host MPI's own do not: every rank
 * gets a tenth of its share of locks at least, and locks with MPI_MODE_NOCHECK leave no trace.
 */
#include "lane.h"
#include "win_kinds.h"
#include <time.h>

enum { NWORDS = 5, SLOT = 64, MAX_RANKS = 16, TAG = 7, BIG = 8 << 20 };

static struct check_rng rng;

static uint64_t draw(uint64_t below) {
    return check_draw(&rng) % below;
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

/* ---- exclusive and shared ---- */

static void see_pair(const int64_t *words, const char *what) {
    for (int i = 1; i < NWORDS; i++)
        CHECK(words[i] == words[0], "%s: word %d is %lld, word 0 is %lld", what, i,
              (long long)words[i], (long long)words[0]);
}

/* Adds one to every word, first to last or last to first, one message each. */
static void update(struct kind_win *w, int target) {
    int64_t words[NWORDS];
    MPI_Aint disp = kind_disp(w, target, 0);
    bool backwards = draw(2);
    MUST(MPI_Get(words, NWORDS, MPI_INT64_T, target, disp, NWORDS, MPI_INT64_T, w->win));
    MUST(MPI_Win_flush(target, w->win));
    see_pair(words, "exclusive");
    for (int i = 0; i < NWORDS; i++) {
        int at = backwards ? NWORDS - 1 - i : i;
        words[at]++;
        MUST(MPI_Put(&words[at], 1, MPI_INT64_T, target, kind_disp(w, target, (size_t)at * 8), 1,
                     MPI_INT64_T, w->win));
    }
    MUST(MPI_Win_flush_local(target, w->win));
}

static void update_own(struct kind_win *w) {
    volatile int64_t *words = (int64_t *)(void *)w->base;
    int64_t copy[NWORDS];
    for (int i = 0; i < NWORDS; i++)
        copy[i] = words[i];
    see_pair(copy, "own memory");
    for (int i = 0; i < NWORDS; i++)
        words[i]++;
}

/* On a window whose ranks all have had as many updates. */
static void exclude(struct kind_win *w, int64_t before) {
    int64_t updates[MAX_RANKS] = {0}, words[NWORDS];
    for (int i = 0; i < check_rounds(300, 15); i++) {
        int target = (int)draw(2) ? 0 : (int)draw((uint64_t)w->nranks);
        if (draw(3) == 0) {
            MUST(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win));
            MUST(MPI_Get(words, NWORDS, MPI_INT64_T, target, kind_disp(w, target, 0), NWORDS,
                         MPI_INT64_T, w->win));
            MUST(MPI_Win_unlock(target, w->win));
            see_pair(words, "shared");
            continue;
        }
        MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win));
        if (target == w->rank && draw(2))
            update_own(w);
        else
            update(w, target);
        MUST(MPI_Win_unlock(target, w->win));
        updates[target]++;
    }
    MUST(MPI_Allreduce(MPI_IN_PLACE, updates, MAX_RANKS, MPI_INT64_T, MPI_SUM, w->comm));
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, w->rank, 0, w->win));
    memcpy(words, w->base, sizeof words);
    MUST(MPI_Win_unlock(w->rank, w->win));
    see_pair(words, "at the end");
    CHECK(words[0] == before + updates[w->rank], "%lld after %lld and %lld updates",
          (long long)words[0], (long long)before, (long long)updates[w->rank]);
}

static void test_exclusion(struct kind_win *w) {
    exclude(w, 0);
}

/* Every rank holds the lock while it hears from all others that they do. */
static void test_together(struct kind_win *w) {
    for (int target = 0; target < w->nranks; target++) {
        char got[8];
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win));
        MUST(MPI_Get(got, 8, MPI_CHAR, target, kind_disp(w, target, 0), 8, MPI_CHAR, w->win));
        MUST(MPI_Win_flush(target, w->win)); /* the lock is held by now, not just asked for */
        check_barrier(w->comm);
        MUST(MPI_Win_unlock(target, w->win));
    }
}

/* While rank 0 holds everybody's lock, no update of another gets in. */
static void test_several(struct kind_win *w) {
    for (int round = 0; round < check_rounds(20, 2); round++) {
        int skip = (int)draw((uint64_t)w->nranks);
        for (int t = 0; t < w->nranks; t++) /* ascending: nobody waits for whom it blocks */
            MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, t, 0, w->win));
        for (int t = 0; t < w->nranks; t++)
            update(w, t);
        for (int i = 0; i < w->nranks; i++)
            MUST(MPI_Win_unlock((skip + i) % w->nranks, w->win));
    }
    check_barrier(w->comm);
    const int64_t *words = (const int64_t *)(const void *)w->base;
    int64_t updates = (int64_t)w->nranks * check_rounds(20, 2);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, w->rank, 0, w->win));
    see_pair(words, "several");
    CHECK(words[0] == updates, "%lld after %lld updates", (long long)words[0], (long long)updates);
    MUST(MPI_Win_unlock(w->rank, w->win));
}

/* The program itself sees to it that nobody else locks. In a window of its own: MPICH 4.0.2 counts
 * the unlock of a lock it did not take, and never grants an exclusive one at that target again. */
static void test_nocheck(struct kind_win *other) {
    int rounds = check_rounds(10, 3), right = (other->rank + 1) % other->nranks;
    int64_t words[NWORDS];
    struct kind_win w;
    CHECK(kind_open(&w, other->kind, other->comm, other->size, other->disp_unit), "no window");
    for (int round = 0; round < rounds; round++) {
        int target = (w.rank + round) % w.nranks;
        MUST(MPI_Win_lock(round % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target,
                          MPI_MODE_NOCHECK, w.win));
        update(&w, target);
        MUST(MPI_Win_unlock(target, w.win));
        check_barrier(w.comm);
    }
    MUST(MPI_Win_lock_all(MPI_MODE_NOCHECK, w.win));
    MUST(MPI_Get(words, NWORDS, MPI_INT64_T, right, kind_disp(&w, right, 0), NWORDS, MPI_INT64_T,
                 w.win));
    MUST(MPI_Win_unlock_all(w.win));
    see_pair(words, "nocheck");
    CHECK(words[0] == rounds, "%lld updates", (long long)words[0]);
    check_barrier(w.comm);
    if (lane_is_direct(w.win))
        exclude(&w, rounds);
    kind_close(&w);
}

/* All want the lock of rank 0 for so long. Adds everybody's turns up; true if they are shared out
 * fairly. */
static bool take_turns(struct kind_win *w, double seconds, int *sum) {
    int turns = 0, all[MAX_RANKS], ours = 0;
    bool fair = true;
    check_barrier(w->comm);
    for (double end = MPI_Wtime() + seconds; MPI_Wtime() < end; turns++) {
        MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win));
        update(w, 0);
        MUST(MPI_Win_unlock(0, w->win));
    }
    check_barrier(w->comm);
    MUST(MPI_Allgather(&turns, 1, MPI_INT, all, 1, MPI_INT, w->comm));
    for (int r = 0; r < w->nranks; r++)
        ours += all[r];
    for (int r = 0; r < w->nranks; r++) {
        if (w->rank == 0)
            printf("rank %d had the lock %d times of %d\n", r, all[r], ours);
        fair &= all[r] * w->nranks * 10 >= ours;
    }
    *sum += ours;
    return fair;
}

/* A rank that others keep from its core takes no turns either: it gets a longer time, as long as it
 * takes on a busy machine to run for a while. */
static void test_fairness(struct kind_win *w) {
    int sum = 0;
    bool fair = take_turns(w, 0.15, &sum);
    if (lane_is_direct(w->win)) {
        for (double seconds = 0.5; !fair && seconds < 45; seconds *= 3)
            fair = take_turns(w, seconds, &sum);
        CHECK(fair, "some rank has had less than a tenth of its share");
    }
    if (w->rank == 0) {
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win));
        CHECK(*(int64_t *)(void *)w->base == sum, "an update was lost");
        MUST(MPI_Win_unlock(0, w->win));
    }
}

/* ---- waiting ---- */

/* Rank 0 has the lock and sends before it lets go; rank 1 is waiting for the lock. */
static void test_wait_receives(struct kind_win *w) {
    static char big[BIG];
    for (int target = 0; target < w->nranks && w->nranks > 1; target++) {
        uint64_t round = 300 + (uint64_t)target;
        MPI_Request request;
        if (w->rank == 0) {
            check_fill(big, BIG, 0, round);
            MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win));
            update(w, target); /* it flushes: the lock is held */
            MUST(MPI_Send(NULL, 0, MPI_CHAR, 1, TAG, w->comm));
            pause_ms(2);
            MUST(MPI_Send(big, BIG, MPI_CHAR, 1, TAG, w->comm));
            MUST(MPI_Win_unlock(target, w->win));
        } else if (w->rank == 1) {
            MUST(MPI_Recv(NULL, 0, MPI_CHAR, 0, TAG, w->comm, MPI_STATUS_IGNORE));
            MUST(MPI_Irecv(big, BIG, MPI_CHAR, 0, TAG, w->comm, &request));
            MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win));
            update(w, target);
            MUST(MPI_Win_unlock(target, w->win));
            MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
            check_same(big, BIG, 0, round, __FILE__, __LINE__);
        }
        check_barrier(w->comm);
    }
}

static bool is_unified(struct kind_win *w) {
    int *model, flag;
    MUST(MPI_Win_get_attr(w->win, MPI_WIN_MODEL, &model, &flag));
    return flag && *model == MPI_WIN_UNIFIED;
}

/* Polls own memory. The host MPI wants to be called now and then for others' puts to arrive. */
static void await(struct kind_win *w, const volatile int64_t *word, int64_t value) {
    int flag;
    for (;;) {
        MUST(MPI_Win_sync(w->win));
        int64_t now = *word;
        CHECK(now <= value, "%lld came before %lld", (long long)now, (long long)value);
        if (now == value)
            break;
        MUST(MPI_Iprobe(MPI_ANY_SOURCE, TAG, w->comm, &flag, MPI_STATUS_IGNORE));
        sched_yield();
    }
    MUST(MPI_Win_sync(w->win));
}

/* A token and a cargo go round; every kind of flush makes a put visible before the token. */
static void test_polling(struct kind_win *w) {
    int right = (w->rank + 1) % w->nranks;
    const volatile int64_t *token = (const volatile int64_t *)(void *)w->base;
    const int64_t *cargo = (const int64_t *)(void *)(w->base + SLOT);
    if (!is_unified(w))
        return;
    MUST(MPI_Win_lock_all(0, w->win));
    for (int64_t round = 1; round <= check_rounds(200, 8); round++) {
        int64_t load[NWORDS], next = round;
        if (w->rank > 0)
            await(w, token, round);
        for (int i = 0; w->rank > 0 && i < NWORDS; i++)
            CHECK(cargo[i] == 1000 * round + i, "round %d: cargo %d is %lld", (int)round, i,
                  (long long)cargo[i]);
        for (int i = 0; i < NWORDS; i++)
            load[i] = 1000 * round + i;
        MUST(MPI_Put(load, NWORDS, MPI_INT64_T, right, kind_disp(w, right, SLOT), NWORDS,
                     MPI_INT64_T, w->win));
        if (round % 2)
            MUST(MPI_Win_flush(right, w->win));
        else
            MUST(MPI_Win_flush_all(w->win));
        MUST(MPI_Put(&next, 1, MPI_INT64_T, right, kind_disp(w, right, 0), 1, MPI_INT64_T, w->win));
        MUST(MPI_Win_flush(right, w->win));
        if (w->rank == 0)
            await(w, token, round);
    }
    MUST(MPI_Win_unlock_all(w->win));
}

/* The same by loads and stores into the neighbour's memory. */
static void test_storing(struct kind_win *w) {
    MPI_Aint size;
    int unit;
    int64_t *near;
    volatile int64_t *mine = (volatile int64_t *)(void *)w->base;
    MUST(MPI_Win_shared_query(w->win, (w->rank + 1) % w->nranks, &size, &unit, &near));
    CHECK(size == (MPI_Aint)w->size && unit == w->disp_unit, "size %ld, unit %d", (long)size, unit);
    MUST(MPI_Win_lock_all(0, w->win));
    for (int64_t round = 1; round <= check_rounds(200, 8); round++) {
        if (w->rank > 0) {
            await(w, mine, round);
            CHECK(mine[1] == -round, "round %d: %lld", (int)round, (long long)mine[1]);
        }
        near[1] = -round;
        MUST(MPI_Win_sync(w->win));
        *(volatile int64_t *)near = round;
        MUST(MPI_Win_sync(w->win));
        if (w->rank == 0)
            await(w, mine, round);
    }
    MUST(MPI_Win_unlock_all(w->win));
}

/* ---- windows that come and go ---- */

static void put_right(struct kind_win *w, int round) {
    char from[SLOT];
    int right = (w->rank + 1) % w->nranks, left = (w->rank + w->nranks - 1) % w->nranks;
    check_fill(from, SLOT, (uint64_t)w->rank, (uint64_t)round);
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, w->win));
    MUST(MPI_Put(from, SLOT, MPI_CHAR, right, kind_disp(w, right, 0), SLOT, MPI_CHAR, w->win));
    MUST(MPI_Win_unlock(right, w->win));
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, w->rank, 0, w->win));
    check_same(w->base, SLOT, (uint64_t)left, (uint64_t)round, __FILE__, __LINE__);
    MUST(MPI_Win_unlock(w->rank, w->win));
}

static void test_many_windows(enum kind kind) {
    for (int round = 0; round < check_rounds(100, 3); round++) {
        struct kind_win w;
        if (!kind_open(&w, kind, MPI_COMM_WORLD, SLOT + 16 * (size_t)draw(100), 8))
            return;
        put_right(&w, round);
        kind_close(&w);
    }
}

/* Ranks in reverse, on a communicator that is freed before the window. */
static void test_reversed(enum kind kind) {
    struct kind_win w;
    MPI_Comm comm;
    MPI_Group group, world;
    int zero = 0, first;
    MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &comm));
    bool open = kind_open(&w, kind, comm, SLOT, 1);
    MUST(MPI_Comm_free(&comm));
    if (!open)
        return;
    w.comm = MPI_COMM_WORLD;
    put_right(&w, 500);
    MUST(MPI_Win_get_group(w.win, &group));
    MUST(MPI_Comm_group(MPI_COMM_WORLD, &world));
    MUST(MPI_Group_translate_ranks(group, 1, &zero, world, &first));
    CHECK(first == check_nranks - 1, "rank 0 of the window is rank %d", first);
    MUST(MPI_Group_free(&group));
    MUST(MPI_Group_free(&world));
    kind_close(&w);
}

/* Odd ranks have no memory; every rank counts in its own unit. */
static void test_uneven(bool shared) {
    static const int units[] = {4, 1, 16, 2};
    int has = check_rank % 2 == 0, unit = units[check_rank % 4];
    MPI_Aint size = has ? 256 * (1 + check_rank) : 0;
    char *base, from[16], got[16];
    MPI_Win win;
    MPI_Comm node;
    int nlocal;
    MUST(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    MUST(MPI_Comm_size(node, &nlocal));
    MUST(MPI_Comm_free(&node));
    if (shared && nlocal < check_nranks)
        return;
    if (shared)
        MUST(MPI_Win_allocate_shared(size, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    else
        MUST(MPI_Win_allocate(size, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    for (int t = 0; t < check_nranks; t++) {
        int count = t % 2 ? 0 : 16; /* to those without memory, nothing */
        MPI_Aint disp = 16 * check_rank / units[t % 4];
        check_fill(from, 16, (uint64_t)check_rank, (uint64_t)t);
        memset(got, 0, 16);
        MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, t, 0, win));
        MUST(MPI_Put(from, count, MPI_CHAR, t, disp, count, MPI_CHAR, win));
        MUST(MPI_Win_flush(t, win));
        MUST(MPI_Get(got, count, MPI_CHAR, t, disp, count, MPI_CHAR, win));
        MUST(MPI_Win_unlock(t, win));
        check_same(got, (size_t)count, (uint64_t)check_rank, (uint64_t)t, __FILE__, __LINE__);
    }
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    for (int r = 0; has && r < check_nranks; r++)
        check_same(base + 16 * r, 16, (uint64_t)r, (uint64_t)check_rank, __FILE__, __LINE__);
    MUST(MPI_Win_unlock(check_rank, win));
    MUST(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
    static void (*const tests[])(struct kind_win *) = {
        test_exclusion,     test_together, test_several, test_nocheck,
        test_wait_receives, test_polling,  test_fairness};
    check_begin(&argc, &argv, "rma_locks");
    CHECK(check_nranks <= MAX_RANKS, "at most %d ranks", MAX_RANKS);
    rng.state = (uint64_t)check_rank << 32;
    for (int kind = 0; kind < KIND_DYNAMIC; kind++) {
        struct kind_win w;
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, 4 * SLOT, 8))
            continue;
        for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
            tests[i](&w);
            kind_clear(&w);
        }
        if (kind == KIND_SHARED)
            test_storing(&w);
        kind_close(&w);
        test_many_windows((enum kind)kind);
        test_reversed((enum kind)kind);
        if (check_rank == 0)
            printf("%s\n", kind_names[kind]);
    }
    test_uneven(false);
    test_uneven(true);
    return check_end();
}
