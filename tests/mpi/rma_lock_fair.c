/*
 * rma_lock_fair: who waits for a lock, for whom, and for how long?
 *
 * All ranks want one target's exclusive lock and count, in plain words, what only one at a time can
 * count; one writer among readers that never pause; shared locks that are held together; an
 * exclusive lock that waits for shared ones and shared ones that wait for it, with witnesses on
 * both sides; locks on oneself, where the memory is loaded and stored; locks of several windows and
 * targets held at once. Nobody may be kept out for ever: a window of ours gives every rank its
 * turns and the writer as well. The host MPI has no such ambition.
 */
#include "lane.h"
#include "win_kinds.h"
#include <time.h>

enum { NWORDS = 4, SIZE = 256, MAX_RANKS = 16, TAG = 5, FEW = 10 };
enum { COUNTERS = 0, WITNESSES = 64, TOKEN = 128 }; /* byte offsets */

static struct check_rng rng;
static bool ours, mapped;

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

static void lock(struct kind_win *w, bool exclusive, int target) {
    MUST(MPI_Win_lock(exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, w->win));
}

static int64_t read_word(struct kind_win *w, int target, size_t offset) {
    int64_t word = -1;
    MUST(MPI_Get(&word, 1, MPI_INT64_T, target, kind_disp(w, target, offset), 1, MPI_INT64_T,
                 w->win));
    MUST(MPI_Win_flush(target, w->win));
    return word;
}

static void write_word(struct kind_win *w, int target, size_t offset, int64_t word) {
    MUST(MPI_Put(&word, 1, MPI_INT64_T, target, kind_disp(w, target, offset), 1, MPI_INT64_T,
                 w->win));
    MUST(MPI_Win_flush(target, w->win));
}

/* Under the exclusive lock: adds one to each of the words, one after the other. Another in the same
 * place would be seen, or would lose a count. */
static void count_on(struct kind_win *w, int target) {
    if (target == w->rank) {
        volatile int64_t *words = (volatile int64_t *)(void *)(w->base + COUNTERS);
        int64_t before = words[0];
        for (int i = 0; i < NWORDS; i++) {
            CHECK(words[i] == before, "own word %d is %lld, not %lld", i, (long long)words[i],
                  (long long)before);
            words[i] = before + 1;
            if (i == 1 && check_draw(&rng) % 8 == 0)
                sched_yield();
        }
        return;
    }
    int64_t words[NWORDS];
    MUST(MPI_Get(words, NWORDS, MPI_INT64_T, target, kind_disp(w, target, COUNTERS), NWORDS,
                 MPI_INT64_T, w->win));
    MUST(MPI_Win_flush(target, w->win));
    for (int i = NWORDS - 1; i >= 0; i--) {
        CHECK(words[i] == words[0], "word %d is %lld, not %lld", i, (long long)words[i],
              (long long)words[0]);
        words[i]++;
    }
    for (int i = NWORDS - 1; i >= 0; i--)
        MUST(MPI_Put(&words[i], 1, MPI_INT64_T, target,
                     kind_disp(w, target, COUNTERS + 8 * (size_t)i), 1, MPI_INT64_T, w->win));
    MUST(MPI_Win_flush_local(target, w->win)); /* for the words are gone at the unlock */
}

static void expect_counted(struct kind_win *w, int target, int64_t turns) {
    check_barrier(w->comm);
    MUST(MPI_Allreduce(MPI_IN_PLACE, &turns, 1, MPI_INT64_T, MPI_SUM, w->comm));
    if (w->rank == target) {
        lock(w, false, target);
        for (int i = 0; i < NWORDS; i++) {
            int64_t word = ((volatile int64_t *)(void *)(w->base + COUNTERS))[i];
            CHECK(word == turns, "word %d is %lld after %lld turns", i, (long long)word,
                  (long long)turns);
        }
        MUST(MPI_Win_unlock(target, w->win));
    }
    check_barrier(w->comm);
}

/* ---- exclusive locks of all ranks ---- */

/* Everybody has had a few turns, and of those who are equally far from the lock each has had a
 * tenth of its share. In packets the target itself is nearer than all others: it takes the lock
 * many times while another's request is on its way. */
static bool is_fair(const struct kind_win *w, int target, const int *turns) {
    int sum = 0, n = 0;
    for (int r = 0; r < w->nranks; r++) {
        if (turns[r] < FEW)
            return false;
        if (r != target || mapped) {
            sum += turns[r];
            n++;
        }
    }
    for (int r = 0; r < w->nranks; r++)
        if ((r != target || mapped) && turns[r] * n * 10 < sum)
            return false;
    return true;
}

/* For so long; true if nobody was kept out. */
static bool take_turns(struct kind_win *w, int target, double seconds, int *turns) {
    int mine = 0, all[MAX_RANKS];
    check_barrier(w->comm);
    for (double end = MPI_Wtime() + seconds; MPI_Wtime() < end; mine++) {
        lock(w, true, target);
        count_on(w, target);
        MUST(MPI_Win_unlock(target, w->win));
    }
    check_barrier(w->comm);
    MUST(MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, w->comm));
    for (int r = 0; r < w->nranks && w->rank == 0; r++)
        printf("%s%d%s", r ? " " : "  turns: ", all[r], r + 1 == w->nranks ? "\n" : "");
    *turns += mine;
    return is_fair(w, target, all);
}

/* A rank that others keep from its core takes no turns either: it gets a longer time, as long as it
 * takes on a busy machine to run for a while. */
static void test_turns(struct kind_win *w) {
    int target = w->nranks - 1, turns = 0;
    bool fair = take_turns(w, target, 0.08, &turns);
    for (double seconds = 0.4; ours && !fair && seconds < 40; seconds *= 3)
        fair = take_turns(w, target, seconds, &turns);
    CHECK(fair || !ours, "some rank was kept out");
    expect_counted(w, target, turns);
}

/* ---- a writer among readers ---- */

/* The last rank writes so many times, the others read without a pause until it has. */
static void test_writer(struct kind_win *w) {
    int writer = w->nranks - 1, nwrites = check_rounds(30, 4), done = 0;
    int64_t reads = 0, last = 0;
    MPI_Request request;
    if (w->nranks < 2)
        return;
    MUST(MPI_Irecv(NULL, 0, MPI_CHAR, writer, TAG, w->comm, &request));
    if (w->rank == writer) {
        for (int i = 0; i < nwrites; i++) {
            lock(w, true, 0);
            count_on(w, 0);
            MUST(MPI_Win_unlock(0, w->win));
        }
        for (int r = 0; r < w->nranks; r++)
            MUST(MPI_Send(NULL, 0, MPI_CHAR, r, TAG, w->comm));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    /* The host MPI may starve the writer: there the readers give way in the end. */
    for (double end = MPI_Wtime() + 0.2; !done && w->rank != writer; reads++) {
        int64_t words[NWORDS];
        lock(w, false, 0);
        MUST(MPI_Get(words, NWORDS, MPI_INT64_T, 0, kind_disp(w, 0, COUNTERS), NWORDS, MPI_INT64_T,
                     w->win));
        MUST(MPI_Win_unlock(0, w->win));
        for (int i = 0; i < NWORDS; i++)
            CHECK(words[i] == words[0] && words[i] >= last, "read %lld in word %d, %lld in word 0",
                  (long long)words[i], i, (long long)words[0]);
        last = words[0];
        MUST(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        if (!done && !ours && MPI_Wtime() > end) {
            MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
            done = 1;
        }
    }
    expect_counted(w, 0, w->rank == writer ? nwrites : 0);
}

/* ---- who waits for whom ---- */

/* All but the last rank hold rank 0's lock together, and testify before they let go of it: the last
 * rank, which asks for it meanwhile, gets it when all have testified. */
static void test_exclusive_waits(struct kind_win *w) {
    int writer = w->nranks - 1, nreaders = w->nranks - 1;
    const int64_t one = 1;
    MPI_Comm readers;
    MUST(MPI_Comm_split(w->comm, w->rank == writer, 0, &readers));
    for (int round = 0; round < check_rounds(6, 2) && nreaders > 0; round++) {
        if (w->rank != writer) {
            lock(w, false, 0);
            int64_t before = read_word(w, 0, TOKEN); /* the lock is held, not just asked for */
            CHECK(before == round, "round %d: the token is %lld", round, (long long)before);
            check_barrier(readers); /* all hold it */
            if (w->rank == 0)
                MUST(MPI_Send(NULL, 0, MPI_CHAR, writer, TAG, w->comm));
            pause_ms(2 + w->rank);
            CHECK(read_word(w, 0, TOKEN) == before, "somebody wrote while the lock was shared");
            MUST(MPI_Accumulate(&one, 1, MPI_INT64_T, 0, kind_disp(w, 0, WITNESSES), 1, MPI_INT64_T,
                                MPI_SUM, w->win));
            MUST(MPI_Win_unlock(0, w->win));
        } else {
            MUST(MPI_Recv(NULL, 0, MPI_CHAR, 0, TAG, w->comm, MPI_STATUS_IGNORE));
            lock(w, true, 0);
            int64_t witnesses = read_word(w, 0, WITNESSES);
            CHECK(witnesses == (int64_t)nreaders * (round + 1),
                  "round %d: exclusive while %lld of %d readers had left", round,
                  (long long)witnesses - (int64_t)nreaders * round, nreaders);
            write_word(w, 0, TOKEN, round + 1);
            MUST(MPI_Win_unlock(0, w->win));
        }
        check_barrier(w->comm);
    }
    MUST(MPI_Comm_free(&readers));
}

/* Rank 0 holds the last rank's lock, then its own, and writes when the others have asked for it. */
static void test_shared_waits(struct kind_win *w) {
    for (int round = 0; round < check_rounds(6, 2); round++) {
        int target = round % 2 ? 0 : w->nranks - 1;
        if (w->rank == 0) {
            lock(w, true, target);
            int64_t before = read_word(w, target, TOKEN);
            check_barrier(w->comm); /* the others go for it */
            pause_ms(2);
            write_word(w, target, TOKEN, before + 1);
            pause_ms(1);
            write_word(w, target, WITNESSES, before + 1);
            MUST(MPI_Win_unlock(target, w->win));
        } else {
            check_barrier(w->comm);
            lock(w, round % 3 == 2, target);
            int64_t token = read_word(w, target, TOKEN), witness = read_word(w, target, WITNESSES);
            MUST(MPI_Win_unlock(target, w->win));
            CHECK(token == round / 2 + 1 && witness == token,
                  "round %d: read %lld and %lld while the lock was exclusive", round,
                  (long long)token, (long long)witness);
        }
        check_barrier(w->comm);
    }
}

/* ---- oneself, and many ---- */

/* Each rank holds its own lock while it stores; the others look on, shared. */
static void test_oneself(struct kind_win *w) {
    int64_t turns[MAX_RANKS] = {0};
    for (int i = 0; i < check_rounds(100, 5); i++) {
        int target = (int)(check_draw(&rng) % (uint64_t)w->nranks);
        if (i % 2 == 0)
            target = w->rank;
        lock(w, true, target);
        count_on(w, target);
        MUST(MPI_Win_unlock(target, w->win));
        turns[target]++;
    }
    for (int t = 0; t < w->nranks; t++)
        expect_counted(w, t, turns[t]);
}

/* Two windows, all targets: in one order everywhere, so that nobody waits in a circle. */
static void test_many(struct kind_win *w) {
    struct kind_win other;
    int64_t turns = 0;
    CHECK(kind_open(&other, w->kind, w->comm, w->size, w->disp_unit), "no second window");
    for (int round = 0; round < check_rounds(10, 2); round++, turns++) {
        for (int t = 0; t < w->nranks; t++) {
            lock(w, true, t);
            lock(&other, true, t);
        }
        for (int t = w->nranks - 1; t >= 0; t--) {
            count_on(w, t);
            count_on(&other, t);
        }
        for (int i = 0; i < w->nranks; i++) {
            int t = (i + round) % w->nranks;
            MUST(MPI_Win_unlock(t, round % 2 ? w->win : other.win));
            MUST(MPI_Win_unlock(t, round % 2 ? other.win : w->win));
        }
    }
    for (int t = 0; t < w->nranks; t++) {
        expect_counted(w, t, turns);
        expect_counted(&other, t, turns);
    }
    kind_close(&other);
}

int main(int argc, char **argv) {
    static void (*const tests[])(struct kind_win *) = {
        test_turns, test_writer, test_exclusive_waits, test_shared_waits, test_oneself, test_many};
    check_begin(&argc, &argv, "rma_lock_fair");
    CHECK(check_nranks <= MAX_RANKS, "at most %d ranks", MAX_RANKS);
    rng.state = (uint64_t)check_rank << 32;
    for (int kind = 0; kind < NKINDS; kind++) {
        struct kind_win w;
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, SIZE, 8))
            continue;
        ours = lane_is_ours(w.win);
        mapped = lane_is_direct(w.win);
        if (check_rank == 0)
            printf("%s%s\n", kind_names[kind], ours ? ", ours" : "");
        for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
            tests[i](&w);
            kind_clear(&w);
        }
        kind_close(&w);
    }
    return check_end();
}
