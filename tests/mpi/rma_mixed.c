/*
 * rma_mixed: do accumulates of 8-byte integers lose nothing, whatever their lengths?
 *
 * All ranks add to the words of all ranks, their own included: one word by MPI_Fetch_and_op, by
 * MPI_Compare_and_swap, by accumulates with and without a request; some words; or so many that a
 * network card does not do them. In a round a share of the operations is long: none, those of one
 * rank from some moment on, or those of all ranks from the beginning. Each round has a window of
 * its own, whose first long operation may so come at any moment, from one rank or several. At the
 * end of a round each word must be the sum of what was added to it. Then one rank's operations on
 * one word, of all kinds, must have happened in their order.
 */
#include "win_kinds.h"

enum { WORDS = 64, FEW = 16, BYTES = WORDS * 8, PLACES = 2, TOGETHER = 64, RANKS_MOST = 8 };

static struct kind_win w;
static int64_t added[RANKS_MOST][WORDS]; /* by this rank, of each rank */
static int64_t ones[WORDS];
static struct check_rng rng;

static uint64_t draw(uint64_t below) {
    return check_draw(&rng) % below;
}

/* ---- operations ---- */

static void note(int target, size_t first, int n) {
    for (int i = 0; i < n; i++)
        added[target][first + (size_t)i]++;
}

static int64_t fetch(int target, size_t word, MPI_Op op) {
    int64_t was = -1;
    MUST(MPI_Fetch_and_op(ones, &was, MPI_INT64_T, target, kind_disp(&w, target, 8 * word), op,
                          w.win));
    MUST(MPI_Win_flush(target, w.win));
    return was;
}

static void swap(int target, size_t word) {
    int64_t expected = fetch(target, word, MPI_NO_OP), was = expected;
    do {
        const int64_t wanted = expected = was, next = wanted + 1;
        MUST(MPI_Compare_and_swap(&next, &expected, &was, MPI_INT64_T, target,
                                  kind_disp(&w, target, 8 * word), w.win));
        MUST(MPI_Win_flush(target, w.win));
    } while (was != expected);
}

static void add(int target, size_t first, int n, bool fetches, bool with_request) {
    const MPI_Aint disp = kind_disp(&w, target, 8 * first);
    int64_t was[WORDS];
    MPI_Request request;
    memset(was, 0xff, sizeof was);
    if (fetches && with_request)
        MUST(MPI_Rget_accumulate(ones, n, MPI_INT64_T, was, n, MPI_INT64_T, target, disp, n,
                                 MPI_INT64_T, MPI_SUM, w.win, &request));
    else if (fetches)
        MUST(MPI_Get_accumulate(ones, n, MPI_INT64_T, was, n, MPI_INT64_T, target, disp, n,
                                MPI_INT64_T, MPI_SUM, w.win));
    else if (with_request)
        MUST(MPI_Raccumulate(ones, n, MPI_INT64_T, target, disp, n, MPI_INT64_T, MPI_SUM, w.win,
                             &request));
    else
        MUST(MPI_Accumulate(ones, n, MPI_INT64_T, target, disp, n, MPI_INT64_T, MPI_SUM, w.win));
    if (with_request)
        check_wait(&request);
    else if (fetches)
        MUST(MPI_Win_flush(target, w.win));
    for (int i = 0; i < n && fetches; i++)
        CHECK(was[i] >= 0, "element %d of %d was %lld", i, n, (long long)was[i]);
}

/* Many at one word, which go together. */
static void add_many(int target, size_t word) {
    for (int i = 0; i < TOGETHER; i++)
        MUST(MPI_Accumulate(ones, 1, MPI_INT64_T, target, kind_disp(&w, target, 8 * word), 1,
                            MPI_INT64_T, MPI_SUM, w.win));
    MUST(MPI_Win_flush(target, w.win));
    added[target][word] += TOGETHER;
}

/* most: of elements. */
static void step(int most) {
    const int target = (int)draw((uint64_t)w.nranks), n = 1 + (int)draw((uint64_t)most);
    const size_t first = draw(n > WORDS - PLACES ? 1 : PLACES); /* all operations meet */
    const uint64_t kind = draw(6);
    if (kind == 0) {
        CHECK(fetch(target, first, MPI_SUM) >= 0, "a word is negative");
        note(target, first, 1);
    } else if (kind == 1) {
        swap(target, first);
        note(target, first, 1);
    } else if (kind <= 3) {
        add_many(target, first);
    } else {
        add(target, first, n, kind == 4, draw(3) == 0);
        note(target, first, n);
    }
}

/* ---- rounds ---- */

enum { NONE_LONG, ONE_LONG, ALL_LONG, NROUNDS };

static void check_sums(void) {
    static int64_t sums[RANKS_MOST][WORDS];
    MUST(MPI_Allreduce(added, sums, w.nranks * WORDS, MPI_INT64_T, MPI_SUM, w.comm));
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w.rank, 0, w.win));
    for (int i = 0; i < WORDS; i++) {
        int64_t word;
        memcpy(&word, w.base + 8 * i, 8);
        CHECK(word == sums[w.rank][i], "word %d is %lld, not %lld", i, (long long)word,
              (long long)sums[w.rank][i]);
    }
    MUST(MPI_Win_unlock(w.rank, w.win));
    check_barrier(w.comm);
}

static void run_round(int round, int nsteps, int who) {
    const int from = round == ALL_LONG                    ? 0
                     : round == ONE_LONG && w.rank == who ? (int)draw((uint64_t)nsteps)
                                                          : nsteps;
    memset(added, 0, sizeof added);
    MUST(MPI_Win_lock_all(0, w.win));
    for (int i = 0; i < nsteps; i++)
        step(i < from ? FEW : WORDS);
    MUST(MPI_Win_unlock_all(w.win));
    check_barrier(w.comm);
    check_sums();
}

/* One rank at one word of another, without a flush. long_one: an operation on many words between.
 */
static void run_in_order(bool long_one) {
    const int target = (w.rank + 1) % w.nranks;
    const MPI_Aint disp = kind_disp(&w, target, 0);
    const int64_t next[2] = {4, 9};
    const int64_t compare[2] = {3, 3};
    int64_t was[5];
    kind_clear(&w);
    MUST(MPI_Win_lock_all(0, w.win));
    for (int i = 0; i < 2; i++)
        MUST(MPI_Fetch_and_op(ones, &was[i], MPI_INT64_T, target, disp, MPI_SUM, w.win));
    MUST(MPI_Accumulate(ones, long_one ? WORDS : 1, MPI_INT64_T, target, disp, long_one ? WORDS : 1,
                        MPI_INT64_T, MPI_SUM, w.win));
    MUST(MPI_Compare_and_swap(&next[0], &compare[0], &was[2], MPI_INT64_T, target, disp, w.win));
    MUST(MPI_Compare_and_swap(&next[1], &compare[1], &was[3], MPI_INT64_T, target, disp, w.win));
    MUST(MPI_Fetch_and_op(NULL, &was[4], MPI_INT64_T, target, disp, MPI_NO_OP, w.win));
    MUST(MPI_Accumulate(ones, 1, MPI_INT64_T, target, disp, 1, MPI_INT64_T, MPI_SUM, w.win));
    MUST(MPI_Win_unlock_all(w.win));
    CHECK(was[0] == 0 && was[1] == 1 && was[2] == 3 && was[3] == 4 && was[4] == 4,
          "%lld, %lld, %lld, %lld, %lld", (long long)was[0], (long long)was[1], (long long)was[2],
          (long long)was[3], (long long)was[4]);
    check_barrier(w.comm);
}

/* One rank alone needs a long accumulate, while the others are about to free the window. */
static void run_last(int who) {
    MUST(MPI_Win_lock_all(0, w.win));
    if (w.rank == who)
        MUST(MPI_Accumulate(ones, WORDS, MPI_INT64_T, (who + 1) % w.nranks,
                            kind_disp(&w, (who + 1) % w.nranks, 0), WORDS, MPI_INT64_T, MPI_SUM,
                            w.win));
    MUST(MPI_Win_unlock_all(w.win));
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "rma_mixed");
    CHECK(check_nranks <= RANKS_MOST, "%d ranks at most", RANKS_MOST);
    rng = (struct check_rng){check_seed + ((uint64_t)check_rank << 32)};
    for (int i = 0; i < WORDS; i++)
        ones[i] = 1;
    const int nsteps = check_rounds(100, 200), repeats = 2;
    for (int kind = 0; kind < NKINDS; kind++)
        for (int i = 0; i < repeats * NROUNDS; i++) {
            if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, BYTES, 8))
                continue;
            run_round(i % NROUNDS, nsteps, i % check_nranks);
            run_in_order(false);
            run_in_order(true);
            kind_close(&w);
            CHECK(kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, BYTES, 8), "no window");
            run_last(i % check_nranks);
            kind_close(&w);
        }
    return check_end();
}
