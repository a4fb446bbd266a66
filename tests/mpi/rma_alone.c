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

static MPI_Aint at(int word) {
    return word; /* the unit is 8 */
}

static int64_t draw_ticket(struct kind_win *w, int target) {
    int64_t got = -1;
    MUST(MPI_Fetch_and_op(ones, &got, MPI_INT64_T, target, at(COUNTER), MPI_SUM, w->win));
    MUST(MPI_Win_flush(target, w->win));
    return got;
}

static int64_t swap(struct kind_win *w, int target, int64_t expected, int64_t wanted) {
    int64_t got = -1;
    MUST(MPI_Compare_and_swap(&wanted, &expected, &got, MPI_INT64_T, target, at(SWAPPED), w->win));
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
        MUST(MPI_Accumulate(ones, n, t, target, at(first), n, t, MPI_SUM, w->win));
    else if (how == FETCH)
        MUST(MPI_Get_accumulate(ones, n, t, was, n, t, target, at(first), n, t, MPI_SUM, w->win));
    else if (how == REQUEST)
        MUST(MPI_Raccumulate(ones, n, t, target, at(first), n, t, MPI_SUM, w->win, &request));
    else
        MUST(MPI_Rget_accumulate(ones, n, t, was, n, t, target, at(first), n, t, MPI_SUM, w->win,
                                 &request));
    if (how >= REQUEST)
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MUST(MPI_Win_flush(target, w->win));
}

/* ---- nobody answers ---- */

static void read_only(struct kind_win *w, int target, int n, int64_t value) {
    MUST(MPI_Get_accumulate(NULL, 0, MPI_INT64_T, was, n, MPI_INT64_T, target, at(FIRST), n,
                            MPI_INT64_T, MPI_NO_OP, w->win));
    MUST(MPI_Win_flush(target, w->win));
    for (int i = 0; i < n; i++)
        CHECK(was[i] == value, "word %d of rank %d is %lld, not %lld", i, target, (long long)was[i],
              (long long)value);
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
}

/* Rank 0 has begun with a lock of each: what a first use costs is over. */
static void go_alone(struct kind_win *w) {
    const bool alone = can_go_alone(w);
    for (int r = 1; check_rank == 0 && r < check_nranks; r++) {
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, r, 0, w->win));
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
    MUST(MPI_Get(&word, 1, MPI_INT64_T, target, at(GUARDED), 1, MPI_INT64_T, w->win));
    MUST(MPI_Win_flush(target, w->win));
    word++;
    MUST(MPI_Put(&word, 1, MPI_INT64_T, target, at(GUARDED), 1, MPI_INT64_T, w->win));
    MUST(MPI_Win_unlock(target, w->win));
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
    for (int kind = 0; kind < KIND_SHARED; kind++) {
        struct kind_win w;
        CHECK(kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, WORDS * sizeof(int64_t), 8), "window");
        go_alone(&w);
        kind_clear(&w);
        mix(&w, check_rounds(100, 30));
        kind_close(&w);
    }
    return check_end();
}
