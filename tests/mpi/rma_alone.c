/*
 * rma_alone: accumulates and fetching operations next to a target that does not look.
 *
 * Rank 0 stops all other processes of its node (SIGSTOP) and does each kind of operation on their
 * memory, one at a time: where the kernel allows cross-memory attach, nothing may wait for them.
 * Then all ranks work on the same elements of all, themselves among them, while some compute and
 * some wait in a barrier, so that some operations go as messages and some do not, and what plain
 * gets and puts count under exclusive locks is counted from the node and from others: totals are
 * exact.
 */
#define _GNU_SOURCE /* process_vm_readv */
#include "lane.h"
#include "stopped.h"
#include "win_kinds.h"
#include <time.h>
#include <unistd.h>

enum {
    RANKS = STOPPED_RANKS,
    COUNTER,
    SWAPPED,
    GUARDED,
    FIRST = 16,
    LONG = 20000,
    WORDS = FIRST + LONG
};

static struct check_rng rng;
static int64_t ones[WORDS], was[WORDS];

static bool is_near(int rank) {
    return stopped_pids[rank] != 0;
}

/* Has rank 0 others on its node, in a lane of ours, and may it reach their memory? */
static bool can_go_alone(struct kind_win *w) {
    int can = lane_is_ours(w->win), near = 0;
    for (int r = 1; r < check_nranks; r++)
        near += is_near(r);
    return stopped_reachable() && can && near > 0;
}

/* ---- the operations ---- */

static MPI_Aint at(struct kind_win *w, int target, int word) {
    return kind_disp(w, target, 8 * (size_t)word);
}

static int64_t draw_ticket(struct kind_win *w, int target) {
    int64_t got = -1;
    MUST(
        MPI_Fetch_and_op(ones, &got, MPI_INT64_T, target, at(w, target, COUNTER), MPI_SUM, w->win));
    MUST(MPI_Win_flush(target, w->win));
    return got;
}

static int64_t swap(struct kind_win *w, int target, int64_t expected, int64_t wanted) {
    int64_t got = -1;
    MUST(MPI_Compare_and_swap(&wanted, &expected, &got, MPI_INT64_T, target, at(w, target, SWAPPED),
                              w->win));
    MUST(MPI_Win_flush(target, w->win));
    return got;
}

static void count_by_swaps(struct kind_win *w, int target) {
    int64_t expected = 0, got;
    while ((got = swap(w, target, expected, expected + 1)) != expected)
        expected = got;
}

enum how { PLAIN, FETCH, REQUEST, REQUEST_FETCH, NHOWS };

static void add(struct kind_win *w, int target, int first, int n, enum how how) {
    MPI_Request request;
    const MPI_Datatype t = MPI_INT64_T;
    if (how == PLAIN)
        MUST(MPI_Accumulate(ones, n, t, target, at(w, target, first), n, t, MPI_SUM, w->win));
    else if (how == FETCH)
        MUST(MPI_Get_accumulate(ones, n, t, was, n, t, target, at(w, target, first), n, t, MPI_SUM,
                                w->win));
    else if (how == REQUEST)
        MUST(MPI_Raccumulate(ones, n, t, target, at(w, target, first), n, t, MPI_SUM, w->win,
                             &request));
    else
        MUST(MPI_Rget_accumulate(ones, n, t, was, n, t, target, at(w, target, first), n, t, MPI_SUM,
                                 w->win, &request));
    if (how >= REQUEST)
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MUST(MPI_Win_flush(target, w->win));
}

/* ---- nobody answers ---- */

static void read_only(struct kind_win *w, int target, int n, int64_t value) {
    MUST(MPI_Get_accumulate(NULL, 0, MPI_INT64_T, was, n, MPI_INT64_T, target, at(w, target, FIRST),
                            n, MPI_INT64_T, MPI_NO_OP, w->win));
    MUST(MPI_Win_flush(target, w->win));
    for (int i = 0; i < n; i++)
        CHECK(was[i] == value, "word %d of rank %d is %lld, not %lld", i, target, (long long)was[i],
              (long long)value);
}

/* Many small ones to a flush. */
enum { MANY = 800, EVERY = 3, PIECES = 100 };

static void put_many(struct kind_win *w, int target, int n, int64_t base) {
    static int64_t words[MANY], back[MANY];
    for (int i = 0; i < n; i++) {
        words[i] = base + i;
        MUST(MPI_Put(&words[i], 1, MPI_INT64_T, target, at(w, target, FIRST + EVERY * i), 1,
                     MPI_INT64_T, w->win));
    }
    MUST(MPI_Win_flush(target, w->win));
    memset(back, 0, sizeof back);
    for (int i = n - 1; i >= 0; i--) /* downwards, and some twice */
        for (int twice = 0; twice <= (i % 7 == 0); twice++)
            MUST(MPI_Get(&back[i], 1, MPI_INT64_T, target, at(w, target, FIRST + EVERY * i), 1,
                         MPI_INT64_T, w->win));
    MUST(MPI_Win_flush_local(target, w->win));
    CHECK(memcmp(words, back, (size_t)n * sizeof(int64_t)) == 0, "%d words came back wrong", n);
    memset(back, 0, sizeof back);
    for (int i = 0; i < n; i++) /* upwards: with the gaps between them */
        MUST(MPI_Get(&back[i], 1, MPI_INT64_T, target, at(w, target, FIRST + EVERY * i), 1,
                     MPI_INT64_T, w->win));
    MUST(MPI_Win_flush(target, w->win));
    CHECK(memcmp(words, back, (size_t)n * sizeof(int64_t)) == 0, "%d words came back wrong", n);
}

/* A pattern of theirs from one piece here, and into another pattern. */
static void put_derived(struct kind_win *w, int target) {
    static int64_t words[PIECES], back[4 * PIECES];
    MPI_Datatype theirs, ours;
    MUST(MPI_Type_vector(PIECES, 1, EVERY, MPI_INT64_T, &theirs));
    MUST(MPI_Type_vector(PIECES / 2, 2, 4, MPI_INT64_T, &ours));
    MUST(MPI_Type_commit(&theirs));
    MUST(MPI_Type_commit(&ours));
    for (int i = 0; i < PIECES; i++)
        words[i] = 77000 + i;
    memset(back, 0, sizeof back);
    MUST(MPI_Put(words, PIECES, MPI_INT64_T, target, at(w, target, FIRST + 1), 1, theirs, w->win));
    MUST(MPI_Win_flush(target, w->win));
    MUST(MPI_Get(back, 1, ours, target, at(w, target, FIRST + 1), 1, theirs, w->win));
    MUST(MPI_Win_flush(target, w->win));
    for (int i = 0; i < 2 * PIECES; i++)
        CHECK(back[i] == (i % 4 < 2 ? words[i / 4 * 2 + i % 4] : 0), "derived word %d is %lld", i,
              (long long)back[i]);
    MUST(MPI_Type_free(&theirs));
    MUST(MPI_Type_free(&ours));
}

/* On a few elements, again and again: each sees what those before it have left. */
static void combine_many(struct kind_win *w, int target, int n) {
    static int64_t got[MANY], swapped[MANY];
    static const int64_t three = 3, zero;
    const int word = FIRST + 2, elements = 5;
    static int64_t expected[MANY];
    for (int e = 0; e < elements; e++)
        MUST(MPI_Accumulate(&zero, 1, MPI_INT64_T, target, at(w, target, word + EVERY * e), 1,
                            MPI_INT64_T, MPI_REPLACE, w->win));
    for (int i = 0; i < n; i++) {
        const MPI_Aint there = at(w, target, word + EVERY * (i % elements));
        expected[i] = 6 * (i / elements) + i / elements; /* each round adds 3, 3 and 1 */
        MUST(
            MPI_Accumulate(&three, 1, MPI_INT64_T, target, there, 1, MPI_INT64_T, MPI_SUM, w->win));
        swapped[i] = expected[i] + 4;
        const int64_t compare = expected[i] + 3;
        MUST(MPI_Compare_and_swap(&swapped[i], &compare, &got[i], MPI_INT64_T, target, there,
                                  w->win));
        MUST(MPI_Fetch_and_op(&three, &got[i], MPI_INT64_T, target, there, MPI_SUM, w->win));
    }
    MUST(MPI_Win_flush(target, w->win));
    for (int i = 0; i < n; i++)
        CHECK(got[i] == expected[i] + 4, "operation %d of %d fetched %lld, not %lld", i, n,
              (long long)got[i], (long long)expected[i] + 4);
}

/* Of a few bytes each, next to one another. */
static void combine_bytes(struct kind_win *w, int target) {
    static const int32_t one32 = 1;
    static const uint8_t one8 = 1;
    int32_t words[4] = {0};
    const MPI_Aint unit = w->disp_unit == 1 ? 4 : 0; /* else the second half cannot be named */
    MUST(MPI_Accumulate(words, 4, MPI_INT32_T, target, at(w, target, FIRST), 4, MPI_INT32_T,
                        MPI_REPLACE, w->win));
    MUST(MPI_Win_flush(target, w->win));
    for (int i = 0; i < 10; i++) {
        MUST(MPI_Accumulate(&one32, 1, MPI_INT32_T, target, at(w, target, FIRST), 1, MPI_INT32_T,
                            MPI_SUM, w->win));
        MUST(MPI_Accumulate(&one32, 1, MPI_INT32_T, target, at(w, target, FIRST) + unit, 1,
                            MPI_INT32_T, MPI_SUM, w->win));
        MUST(MPI_Accumulate(&one8, 1, MPI_UINT8_T, target, at(w, target, FIRST + 1), 1, MPI_UINT8_T,
                            MPI_SUM, w->win));
    }
    MUST(MPI_Win_flush(target, w->win));
    MUST(MPI_Get(words, 4, MPI_INT32_T, target, at(w, target, FIRST), 4, MPI_INT32_T, w->win));
    MUST(MPI_Win_flush(target, w->win));
    CHECK(words[0] == (unit ? 10 : 20) && words[1] == (unit ? 10 : 0) && words[2] == 10 &&
              words[3] == 0,
          "%d %d %d %d", words[0], words[1], words[2], words[3]);
}

static void do_many(struct kind_win *w, int target) {
    static const int numbers[] = {2, 3, 64, 65, MANY};
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win));
    for (int i = 0; i < 5; i++) {
        put_many(w, target, numbers[i], 1000 * i);
        CHECK(!stopped_late, "%d puts waited for rank %d", numbers[i], target);
    }
    put_derived(w, target);
    CHECK(!stopped_late, "puts of a derived type waited for rank %d", target);
    combine_bytes(w, target);
    for (int i = 0; i < 4 && lane_is_ours(w->win); i++) /* the host may count on one operation */
        combine_many(w, target, numbers[i]);
    CHECK(!stopped_late, "many operations waited for rank %d", target);
    MUST(MPI_Win_unlock(target, w->win));
}

static void do_all(struct kind_win *w, int target) {
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win));
    for (int i = 0; i < 100; i++) {
        CHECK(draw_ticket(w, target) == i, "ticket %d", i);
        CHECK(swap(w, target, i, i + 1) == i && swap(w, target, i, i + 1) == i + 1, "swap %d", i);
        CHECK(!stopped_late, "an operation waited for rank %d", target);
    }
    for (int how = 0; how < NHOWS; how++) {
        read_only(w, target, LONG, how);
        add(w, target, FIRST, LONG, (enum how)how);
        CHECK(!stopped_late, "accumulate %d waited for rank %d", how, target);
    }
    read_only(w, target, LONG, NHOWS);
    MUST(MPI_Win_unlock(target, w->win));
    do_many(w, target);
}

/* Rank 0 has begun with a lock of each and a look at its memory: what a first use costs is over. */
static void go_alone(struct kind_win *w) {
    const bool alone = can_go_alone(w);
    for (int r = 1; check_rank == 0 && r < check_nranks; r++) {
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, r, 0, w->win));
        MUST(MPI_Get(was, 1, MPI_INT64_T, r, at(w, r, 0), 1, MPI_INT64_T, w->win));
        MUST(MPI_Win_unlock(r, w->win));
    }
    check_barrier(MPI_COMM_WORLD);
    if (check_rank == 0 && alone) {
        stopped_begin();
        usleep(50000); /* nobody is taken for one who looks */
    }
    for (int r = 1; check_rank == 0 && r < check_nranks; r++)
        if (is_near(r) || !alone)
            do_all(w, r);
    if (check_rank == 0 && alone) {
        stopped_end();
    }
    check_barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        printf("%s: %s\n", kind_names[w->kind], alone ? "alone" : "not alone");
}

/* ---- both ways at once ---- */

static void compute(double seconds) {
    const double end = MPI_Wtime() + seconds;
    while (MPI_Wtime() < end)
        continue;
}

static void work(struct kind_win *w, int64_t (*added)[WORDS]) {
    int target = (int)(check_draw(&rng) % (uint64_t)check_nranks);
    int n = check_draw(&rng) % 4 ? 1 : 1 + (int)(check_draw(&rng) % LONG);
    int first = FIRST + (int)(check_draw(&rng) % (uint64_t)(LONG - n + 1));
    switch (check_draw(&rng) % 3) {
    case 0:
        (void)draw_ticket(w, target);
        added[target][COUNTER]++;
        break;
    case 1:
        count_by_swaps(w, target);
        added[target][SWAPPED]++;
        break;
    default:
        add(w, target, first, n, (enum how)(check_draw(&rng) % NHOWS));
        for (int i = 0; i < n; i++)
            added[target][first + i]++;
    }
}

/* Of any number of ranks that do it at once, none is lost: they exclude one another. */
static void count_guarded(struct kind_win *w, int target) {
    int64_t word = -1;
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win));
    MUST(MPI_Get(&word, 1, MPI_INT64_T, target, at(w, target, GUARDED), 1, MPI_INT64_T, w->win));
    MUST(MPI_Win_flush(target, w->win));
    word++;
    MUST(MPI_Put(&word, 1, MPI_INT64_T, target, at(w, target, GUARDED), 1, MPI_INT64_T, w->win));
    MUST(MPI_Win_unlock(target, w->win));
}

#define WITHOUT_CALLS 0.4 /* seconds */

/* What nobody flushes comes all the same: rank 0 puts and computes, and the last rank, which
 * computes too, sees it before rank 0 is back. */
static void put_and_leave(struct kind_win *w) {
    const int target = check_nranks - 1, last = FIRST + 3;
    const int64_t words[4] = {1, 2, 3, 4};
    double back = 0, seen = 0;
    if (check_nranks < 2)
        return;
    check_barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win));
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < 4 - (round == 2); i++)
                MUST(MPI_Put(&words[i], 1, MPI_INT64_T, target,
                             at(w, target, (round == 2 ? FIRST + 1 : FIRST + 9) + i), 1,
                             MPI_INT64_T, w->win));
            if (round < 2)
                MUST(MPI_Win_flush(target, w->win));
        }
        compute(WITHOUT_CALLS);
        back = MPI_Wtime();
        MUST(MPI_Win_unlock(target, w->win));
        MUST(MPI_Send(&back, 1, MPI_DOUBLE, target, 0, MPI_COMM_WORLD));
    } else if (check_rank == target) {
        volatile int64_t *word = (volatile int64_t *)(void *)w->base + last;
        const double end = MPI_Wtime() + 2 * WITHOUT_CALLS;
        while (*word != 3 && seen < end)
            seen = MPI_Wtime();
        MUST(MPI_Recv(&back, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(seen < back || !lane_is_ours(w->win), "puts lay for %g s",
              WITHOUT_CALLS + seen - back);
    }
    check_barrier(MPI_COMM_WORLD);
}

static void mix(struct kind_win *w, int rounds) {
    static int64_t added[RANKS][WORDS];
    memset(added, 0, sizeof added);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 10; i++) {
            int target = (int)(check_draw(&rng) % (uint64_t)check_nranks);
            count_guarded(w, target);
            added[target][GUARDED]++;
        }
        check_barrier(MPI_COMM_WORLD);
        MUST(MPI_Win_lock_all(0, w->win));
        for (int i = 0; i < 10; i++)
            work(w, added);
        MUST(MPI_Win_unlock_all(w->win));
        if ((round + check_rank) % 3 == 0)
            compute(0.001);
        check_barrier(MPI_COMM_WORLD);
    }
    MUST(MPI_Allreduce(MPI_IN_PLACE, added, check_nranks * WORDS, MPI_INT64_T, MPI_SUM,
                       MPI_COMM_WORLD));
    const int64_t *words = (const int64_t *)(const void *)w->base;
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, w->win));
    for (int i = 0; i < WORDS; i++)
        CHECK(words[i] == added[check_rank][i], "word %d is %lld, not %lld", i, (long long)words[i],
              (long long)added[check_rank][i]);
    MUST(MPI_Win_unlock(check_rank, w->win));
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "rma_alone");
    stopped_meet();
    rng.state = (uint64_t)check_rank << 40;
    for (int i = 0; i < WORDS; i++)
        ones[i] = 1;
    for (int kind = 0; kind < NKINDS; kind++) {
        struct kind_win w;
        if (kind == KIND_SHARED)
            continue;
        CHECK(kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, WORDS * sizeof(int64_t), 8), "window");
        go_alone(&w);
        kind_clear(&w);
        put_and_leave(&w);
        kind_clear(&w);
        mix(&w,
            lane_is_ours(w.win) ? check_rounds(100, 30) : 10); /* the host's takes 0.2 s a round */
        kind_close(&w);
    }
    return check_end();
}
