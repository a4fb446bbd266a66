/*
 * rma_lock_epochs: are the operations of an epoch of MPI_Win_lock done once, in order, under its
 * lock, whatever they are and whenever the lock is taken?
 *
 * Epochs of a few small operations on another node go to the target together with the lock and the
 * unlock; others, and those with a flush, take the lock first. Here they are mixed at random, on
 * all targets by all ranks at once. Each rank has words of its own at every target, of which it
 * knows what must be in them; and words of all, which each epoch raises by one under the exclusive
 * lock and whoever looks finds equal. A target that holds its own lock sees nothing of what waits.
 * Locks of several targets are taken in the order in which they are asked for, whatever the
 * operations are. Threads share an epoch.
 */
#include "lane.h"
#include "win_kinds.h"
#include <pthread.h>
#include <time.h>

enum {
    MAX_RANKS = 8,
    NWORDS = 6,  /* raised together */
    MINE = 512,  /* words of each origin */
    OWN_AT = 64, /* the first rank's, in words */
    SIZE = 8 * (OWN_AT + MAX_RANKS * MINE),
    PUTS = 256, /* of a rank's words are for puts, the others for accumulates */
    NTHREADS = 3,
    TAG = 3
};

static struct check_rng rng;
static int64_t known[MAX_RANKS][MINE]; /* what this rank has at each target */

static uint64_t draw(uint64_t below) {
    return check_draw(&rng) % below;
}

static MPI_Aint at(struct kind_win *w, int target, int word) {
    return kind_disp(w, target, (size_t)word * 8);
}

static MPI_Aint own_at(struct kind_win *w, int target, int word) {
    return at(w, target, OWN_AT + w->rank * MINE + word);
}

static void lock(struct kind_win *w, bool exclusive, int target) {
    MUST(MPI_Win_lock(exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, w->win));
}

static void unlock(struct kind_win *w, int target) {
    MUST(MPI_Win_unlock(target, w->win));
}

/* ---- operations on words of one's own ---- */

/* What an epoch has fetched, and what it must be. */
static struct {
    int64_t got[64], want[64];
    int n;
} fetched;

static void expect_fetched(const char *where) {
    for (int i = 0; i < fetched.n; i++)
        CHECK(fetched.got[i] == fetched.want[i], "%s: fetched %lld, not %lld", where,
              (long long)fetched.got[i], (long long)fetched.want[i]);
    fetched.n = 0;
}

static int64_t *fetch_into(int64_t want) {
    fetched.want[fetched.n] = want;
    fetched.got[fetched.n] = -1;
    return &fetched.got[fetched.n++];
}

/* Each word of the first half is put once in an epoch; of the second, accumulates keep their order.
 */
static void put_some(struct kind_win *w, int target, int word, int n) {
    static int64_t singles[64], several[PUTS];
    static unsigned next;
    int64_t *data = n > 1 ? several : &singles[next++ % 64]; /* an epoch has no more */
    for (int i = 0; i < n; i++)
        data[i] = known[target][word + i] = (int64_t)draw(1 << 30);
    MUST(MPI_Put(data, n, MPI_INT64_T, target, own_at(w, target, word), n, MPI_INT64_T, w->win));
    if (n > 1) /* before they are written again */
        MUST(MPI_Win_flush_local(target, w->win));
}

static void put_strided(struct kind_win *w, int target, int word) {
    int64_t data[6];
    MPI_Datatype type;
    MUST(MPI_Type_vector(3, 1, 2, MPI_INT64_T, &type));
    MUST(MPI_Type_commit(&type));
    for (int i = 0; i < 6; i++)
        data[i] = (int64_t)draw(1 << 30);
    for (int i = 0; i < 3; i++)
        known[target][word + 2 * i] = data[2 * i];
    MUST(MPI_Put(data, 1, type, target, own_at(w, target, word), 1, type, w->win));
    MUST(MPI_Win_flush_local(target, w->win));
    MUST(MPI_Type_free(&type));
}

static void operate(struct kind_win *w, int target, int put_word) {
    static int64_t operands[64], compares[64], next;
    static const MPI_Op ops[] = {MPI_SUM, MPI_REPLACE, MPI_BXOR, MPI_MAX};
    const int word = PUTS + (int)draw(MINE - PUTS - 8), what = (int)draw(8);
    int64_t *value = &known[target][word];
    int64_t *operand = &operands[next % 64], *compare = &compares[next++ % 64];
    MPI_Request request;
    const MPI_Op op = ops[draw(4)];
    *operand = (int64_t)draw(1000);
    const int64_t before = *value;
    const int64_t after = op == MPI_SUM       ? before + *operand
                          : op == MPI_REPLACE ? *operand
                          : op == MPI_BXOR    ? before ^ *operand
                          : before > *operand ? before
                                              : *operand;
    if (what == 0) {
        MUST(MPI_Accumulate(operand, 1, MPI_INT64_T, target, own_at(w, target, word), 1,
                            MPI_INT64_T, op, w->win));
        *value = after;
    } else if (what == 1) {
        MUST(MPI_Fetch_and_op(operand, fetch_into(before), MPI_INT64_T, target,
                              own_at(w, target, word), op, w->win));
        *value = after;
    } else if (what == 2) {
        *compare = draw(2) ? before : before + 1;
        MUST(MPI_Compare_and_swap(operand, compare, fetch_into(before), MPI_INT64_T, target,
                                  own_at(w, target, word), w->win));
        *value = *compare == before ? *operand : before;
    } else if (what == 3) {
        MUST(MPI_Get_accumulate(operand, 1, MPI_INT64_T, fetch_into(before), 1, MPI_INT64_T, target,
                                own_at(w, target, word), 1, MPI_INT64_T, op, w->win));
        *value = after;
    } else if (what == 4) {
        MUST(MPI_Fetch_and_op(NULL, fetch_into(before), MPI_INT64_T, target,
                              own_at(w, target, word), MPI_NO_OP, w->win));
    } else if (what == 5 && draw(4) == 0) {
        MUST(MPI_Raccumulate(operand, 1, MPI_INT64_T, target, own_at(w, target, word), 1,
                             MPI_INT64_T, op, w->win, &request));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        *value = after;
    } else if (what == 6 && draw(4) == 0) {
        put_strided(w, target, put_word);
    } else if (what == 7 && draw(4) == 0) {
        put_some(w, target, put_word, 8);
    } else {
        put_some(w, target, put_word, 1);
    }
}

static void flush_somehow(struct kind_win *w, int target) {
    switch (draw(3)) {
    case 0:
        MUST(MPI_Win_flush(target, w->win));
        break;
    case 1:
        MUST(MPI_Win_flush_all(w->win));
        break;
    default:
        MUST(MPI_Win_flush_local(target, w->win));
    }
}

/* ---- all ranks at all targets ---- */

/* Raises the words of all, and does so much on this rank's own. */
static void one_epoch(struct kind_win *w, int target) {
    static const int64_t one = 1;
    const int nops = (int)draw(4) ? (int)draw(4) : (int)draw(PUTS / 8);
    int64_t words[NWORDS];
    lock(w, true, target);
    for (int i = 0; i < NWORDS; i++)
        MUST(MPI_Fetch_and_op(&one, &words[i], MPI_INT64_T, target, at(w, target, i), MPI_SUM,
                              w->win));
    for (int i = 0; i < nops; i++) {
        operate(w, target, i * 8);
        if (draw(16) == 0)
            flush_somehow(w, target);
    }
    unlock(w, target);
    for (int i = 1; i < NWORDS; i++)
        CHECK(words[i] == words[0], "word %d was %lld, word 0 %lld", i, (long long)words[i],
              (long long)words[0]);
    expect_fetched("epoch");
}

static void look(struct kind_win *w, int target) {
    int64_t words[NWORDS], mine[4];
    const int word = (int)draw(MINE - 4);
    lock(w, draw(2), target);
    for (int i = 0; i < NWORDS; i++)
        MUST(MPI_Get(&words[i], 1, MPI_INT64_T, target, at(w, target, i), 1, MPI_INT64_T, w->win));
    MUST(MPI_Get(mine, 4, MPI_INT64_T, target, own_at(w, target, word), 4, MPI_INT64_T, w->win));
    unlock(w, target);
    for (int i = 1; i < NWORDS; i++)
        CHECK(words[i] == words[0], "word %d is %lld, word 0 %lld", i, (long long)words[i],
              (long long)words[0]);
    for (int i = 0; i < 4; i++)
        CHECK(mine[i] == known[target][word + i], "own word %d is %lld, not %lld", word + i,
              (long long)mine[i], (long long)known[target][word + i]);
}

static void test_mixed(struct kind_win *w) {
    int64_t turns[MAX_RANKS] = {0}, all[MAX_RANKS];
    memset(known, 0, sizeof known);
    for (int i = 0; i < check_rounds(400, 40); i++) {
        const int target = (int)(draw(2) ? draw((uint64_t)w->nranks) : 0);
        if (draw(3) == 0) {
            look(w, target);
        } else {
            one_epoch(w, target);
            turns[target]++;
        }
    }
    MUST(MPI_Allreduce(turns, all, MAX_RANKS, MPI_INT64_T, MPI_SUM, w->comm));
    for (int target = 0; target < w->nranks; target++) {
        int64_t words[NWORDS], mine[MINE];
        lock(w, false, target);
        MUST(MPI_Get(words, NWORDS, MPI_INT64_T, target, at(w, target, 0), NWORDS, MPI_INT64_T,
                     w->win));
        MUST(MPI_Get(mine, MINE, MPI_INT64_T, target, own_at(w, target, 0), MINE, MPI_INT64_T,
                     w->win));
        unlock(w, target);
        CHECK(words[0] == all[target], "target %d: %lld epochs of %lld", target,
              (long long)words[0], (long long)all[target]);
        for (int i = 0; i < MINE; i++)
            CHECK(mine[i] == known[target][i], "target %d, word %d: %lld, not %lld", target, i,
                  (long long)mine[i], (long long)known[target][i]);
    }
}

/* ---- a target that holds its own lock ---- */

/* Nothing comes meanwhile; all of it is there when those who have waited say so. */
static void test_held_back(struct kind_win *w) {
    static const int64_t one = 1;
    volatile int64_t *words = (volatile int64_t *)(void *)w->base;
    for (int round = 0; round < check_rounds(10, 3); round++) {
        if (w->rank == 0) {
            lock(w, true, 0);
            const int64_t before = words[0];
            check_barrier(w->comm);
            for (int i = 0; i < 20; i++) {
                nanosleep(&(struct timespec){0, 100000}, NULL);
                MUST(MPI_Win_sync(w->win));
                CHECK(words[0] == before && words[1] == before, "written under the target's lock");
            }
            unlock(w, 0);
        } else {
            check_barrier(w->comm);
            lock(w, round % 2, 0);
            for (int i = 0; i < 2; i++)
                MUST(MPI_Accumulate(&one, 1, MPI_INT64_T, 0, at(w, 0, i), 1, MPI_INT64_T, MPI_SUM,
                                    w->win));
            unlock(w, 0);
        }
        check_barrier(w->comm);
        if (w->rank == 0) {
            lock(w, false, 0);
            CHECK(words[0] == (round + 1) * (w->nranks - 1) && words[1] == words[0],
                  "round %d: %lld and %lld", round, (long long)words[0], (long long)words[1]);
            unlock(w, 0);
        }
    }
}

/* ---- several targets, and none ---- */

/* All ranks lock all targets in one order, and work on them in any: none may wait in a circle. */
static void test_several(struct kind_win *w) {
    static const int64_t one = 1;
    const int rounds = check_rounds(40, 5);
    for (int round = 0; round < rounds; round++) {
        int64_t before[MAX_RANKS][2];
        const int first = (int)draw((uint64_t)w->nranks);
        for (int t = 0; t < w->nranks; t++)
            lock(w, true, t);
        for (int k = 0; k < w->nranks; k++) {
            const int t = (first + k) % w->nranks;
            for (int i = 0; i < 2; i++)
                MUST(MPI_Fetch_and_op(&one, &before[t][i], MPI_INT64_T, t, at(w, t, i), MPI_SUM,
                                      w->win));
            if (draw(2))
                flush_somehow(w, t);
        }
        for (int k = 0; k < w->nranks; k++)
            unlock(w, (first + 2 * w->nranks - k) % w->nranks);
        for (int t = 0; t < w->nranks; t++)
            CHECK(before[t][0] == before[0][0] && before[t][1] == before[0][0],
                  "target %d: %lld and %lld, target 0: %lld", t, (long long)before[t][0],
                  (long long)before[t][1], (long long)before[0][0]);
    }
    check_barrier(w->comm);
    lock(w, false, w->rank);
    CHECK(*(volatile int64_t *)(void *)w->base == (int64_t)rounds * w->nranks, "epochs were lost");
    unlock(w, w->rank);
}

/* With nothing but a flush, or nothing at all. */
static void test_empty(struct kind_win *w) {
    for (int i = 0; i < check_rounds(50, 5); i++) {
        const int target = (int)draw((uint64_t)w->nranks);
        lock(w, draw(2), target);
        if (draw(2))
            flush_somehow(w, target);
        unlock(w, target);
    }
}

/* ---- errors ---- */

/* An operation behind the end of the memory fails at once, and those around it are done. */
static void test_errors(struct kind_win *w) {
    const int64_t one = 1;
    const int target = (w->rank + 1) % w->nranks;
    if (!lane_is_ours(w->win) || w->kind == KIND_DYNAMIC)
        return;
    MUST(MPI_Win_set_errhandler(w->win, MPI_ERRORS_RETURN));
    lock(w, true, target);
    for (int i = 0; i < 3; i++) {
        int class = MPI_SUCCESS, error;
        error = MPI_Put(&one, 1, MPI_INT64_T, target, i == 1 ? SIZE / 8 : own_at(w, target, i), 1,
                        MPI_INT64_T, w->win);
        if (error != MPI_SUCCESS)
            MUST(MPI_Error_class(error, &class));
        CHECK(class == (i == 1 ? MPI_ERR_RMA_RANGE : MPI_SUCCESS), "put %d: class %d", i, class);
    }
    unlock(w, target);
    CHECK(MPI_Win_unlock(target, w->win) != MPI_SUCCESS, "unlocked twice");
    MUST(MPI_Win_set_errhandler(w->win, MPI_ERRORS_ARE_FATAL));
    check_barrier(w->comm);
    lock(w, false, w->rank);
    const int left = (w->rank + w->nranks - 1) % w->nranks;
    const int64_t *words = (const int64_t *)(const void *)w->base + OWN_AT + left * MINE;
    CHECK(words[0] == 1 && words[1] == 0 && words[2] == 1, "%lld %lld %lld", (long long)words[0],
          (long long)words[1], (long long)words[2]);
    unlock(w, w->rank);
}

/* ---- threads ---- */

struct worker {
    struct kind_win *w;
    int id, target;
    pthread_t thread;
};

/* In an epoch that another thread has opened and ends: some operations wait, others do not. */
static void *work(void *argument) {
    static const int64_t one = 1;
    const struct worker *me = argument;
    struct kind_win *w = me->w;
    for (int i = 0; i < 20; i++) {
        MUST(MPI_Accumulate(&one, 1, MPI_INT64_T, me->target, at(w, me->target, me->id), 1,
                            MPI_INT64_T, MPI_SUM, w->win));
        if (i % 7 == me->id)
            MUST(MPI_Win_flush(me->target, w->win));
    }
    return NULL;
}

static void test_threads(struct kind_win *w) {
    const int rounds = check_rounds(20, 4);
    for (int round = 0; round < rounds; round++) {
        struct worker workers[NTHREADS];
        const int target = (w->rank + 1) % w->nranks;
        lock(w, round % 2, target);
        for (int i = 0; i < NTHREADS; i++) {
            workers[i] = (struct worker){.w = w, .id = i, .target = target};
            CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "no thread");
        }
        for (int i = 0; i < NTHREADS; i++)
            pthread_join(workers[i].thread, NULL);
        unlock(w, target);
    }
    check_barrier(w->comm);
    lock(w, false, w->rank);
    for (int i = 0; i < NTHREADS; i++)
        CHECK(((volatile int64_t *)(void *)w->base)[i] == 20 * rounds, "thread %d: %lld of %d", i,
              (long long)((volatile int64_t *)(void *)w->base)[i], 20 * rounds);
    unlock(w, w->rank);
}

int main(int argc, char **argv) {
    static void (*const tests[])(struct kind_win *) = {test_mixed, test_held_back, test_several,
                                                       test_empty, test_errors,    test_threads};
    check_begin_threads(&argc, &argv, "rma_lock_epochs");
    CHECK(check_nranks <= MAX_RANKS, "at most %d ranks", MAX_RANKS);
    rng.state = check_seed + ((uint64_t)check_rank << 32);
    for (int kind = 0; kind < NKINDS; kind++) {
        struct kind_win w;
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, SIZE, 8))
            continue;
        for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
            tests[i](&w);
            kind_clear(&w);
        }
        kind_close(&w);
    }
    return check_end();
}
