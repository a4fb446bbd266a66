/*
 * rma_lock_turns: do locks exclude one another, whatever takes them?
 *
 * Where cards take locks, they share them with the owner's engine, which grants them to those who
 * could not get them by card: so epochs of all kinds follow one another at random, at all ranks,
 * one's own too. Under an exclusive lock a rank adds one to two words of the target, by gets and
 * puts, by fetching operations of 8 bytes or of 4 (which cards do not do), or, at itself, by loads
 * and stores; under a shared one it finds them equal. Some epochs have no operations, or one that
 * goes with its lock. Now and then all ranks lock all of each other and meet inside the epoch: none
 * of them may wait for another's shared lock. At the end no count may be missing.
 */
#include "win_kinds.h"

enum {
    BYTES = 64,
    RANKS_MOST = 8,
    MEET = 16,
    COUNT = 0,
    TWIN = 8,
    SMALL = 16,
    TURNS = 400,
    FEW = 100
};

static struct kind_win w;
static int64_t counted[RANKS_MOST], small[RANKS_MOST];
static struct check_rng rng;

static MPI_Aint at(int target, size_t place) {
    return kind_disp(&w, target, place);
}

static void get(int target, int64_t words[2]) {
    MUST(MPI_Get(words, 2, MPI_INT64_T, target, at(target, COUNT), 2, MPI_INT64_T, w.win));
    MUST(MPI_Win_flush(target, w.win));
    CHECK(words[0] == words[1], "%lld and %lld at rank %d", (long long)words[0],
          (long long)words[1], target);
}

static void add_by_puts(int target) {
    int64_t words[2];
    get(target, words);
    words[0]++;
    MUST(MPI_Put(&words[0], 1, MPI_INT64_T, target, at(target, COUNT), 1, MPI_INT64_T, w.win));
    if (check_draw(&rng) % 4 == 0)
        MUST(MPI_Win_flush(target, w.win));
    MUST(MPI_Put(&words[0], 1, MPI_INT64_T, target, at(target, TWIN), 1, MPI_INT64_T, w.win));
}

static void add_by_fetches(int target) {
    const int64_t one = 1;
    int64_t was[2];
    MUST(MPI_Fetch_and_op(&one, &was[0], MPI_INT64_T, target, at(target, COUNT), MPI_SUM, w.win));
    MUST(MPI_Fetch_and_op(&one, &was[1], MPI_INT64_T, target, at(target, TWIN), MPI_SUM, w.win));
    MUST(MPI_Win_flush(target, w.win));
    CHECK(was[0] == was[1], "fetched %lld and %lld", (long long)was[0], (long long)was[1]);
}

static void add_here(void) {
    volatile int64_t *words = (volatile int64_t *)w.base;
    MUST(MPI_Win_sync(w.win));
    const int64_t was = words[0];
    CHECK(was == words[1], "%lld and %lld here", (long long)was, (long long)words[1]);
    words[0] = was + 1;
    words[1] = was + 1;
    MUST(MPI_Win_sync(w.win));
}

static void add(int target) {
    const uint64_t how = check_draw(&rng) % 3;
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w.win));
    if (target == check_rank && how > 0)
        add_here();
    else if (how == 0)
        add_by_fetches(target);
    else
        add_by_puts(target);
    MUST(MPI_Win_unlock(target, w.win));
    counted[target]++;
}

/* One 4-byte operation, in the message of its lock. */
static void add_small(int target) {
    const int32_t one = 1;
    MUST(MPI_Win_lock(check_draw(&rng) % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0,
                      w.win));
    MUST(MPI_Accumulate(&one, 1, MPI_INT32_T, target, at(target, SMALL), 1, MPI_INT32_T, MPI_SUM,
                        w.win));
    MUST(MPI_Win_unlock(target, w.win));
    small[target]++;
}

static void look(int target) {
    int64_t words[2];
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w.win));
    get(target, words);
    MUST(MPI_Win_unlock(target, w.win));
}

static void pass(int target) {
    MUST(MPI_Win_lock(check_draw(&rng) % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0,
                      w.win));
    MUST(MPI_Win_unlock(target, w.win));
}

static void look_everywhere(bool meets) {
    int64_t words[2];
    MUST(MPI_Win_lock_all(0, w.win));
    for (int k = 0; k < check_nranks; k++) {
        get((check_rank + k) % check_nranks, words);
        if (meets)
            check_barrier(MPI_COMM_WORLD);
    }
    MUST(MPI_Win_unlock_all(w.win));
}

static void turn(void) {
    const int target = (int)(check_draw(&rng) % (uint64_t)check_nranks);
    switch (check_draw(&rng) % 8) {
    case 0:
    case 1:
    case 2:
        add(target);
        break;
    case 3:
        add_small(target);
        break;
    case 4:
    case 5:
        look(target);
        break;
    case 6:
        pass(target);
        break;
    default:
        look_everywhere(false);
    }
}

static void check_total(void) {
    int64_t all[RANKS_MOST], all_small[RANKS_MOST], words[2];
    int32_t smalls;
    MUST(MPI_Allreduce(counted, all, check_nranks, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
    MUST(MPI_Allreduce(small, all_small, check_nranks, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, w.win));
    get(check_rank, words);
    memcpy(&smalls, w.base + SMALL, sizeof smalls);
    MUST(MPI_Win_unlock(check_rank, w.win));
    CHECK(words[0] == all[check_rank], "%lld counted, %lld there", (long long)all[check_rank],
          (long long)words[0]);
    CHECK(smalls == all_small[check_rank], "%lld small ones counted, %d there",
          (long long)all_small[check_rank], smalls);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "rma_lock_turns");
    CHECK(check_nranks <= RANKS_MOST, "too many ranks");
    const int turns = check_rounds(TURNS, FEW);
    rng = (struct check_rng){check_seed + ((uint64_t)check_rank << 32)};
    for (int kind = 0; kind < NKINDS; kind++) {
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, BYTES, 1))
            continue;
        memset(counted, 0, sizeof counted);
        memset(small, 0, sizeof small);
        for (int i = 0; i < turns; i++) {
            turn();
            if (i % MEET > 0)
                continue;
            check_barrier(MPI_COMM_WORLD); /* nobody waits for an exclusive lock */
            look_everywhere(true);
        }
        check_barrier(MPI_COMM_WORLD);
        check_total();
        check_barrier(MPI_COMM_WORLD);
        kind_close(&w);
    }
    return check_end();
}
