/*
 * rma_lock_storm: locks of all kinds by several threads of every rank at once, more than there are
 * cores.
 *
 * Each thread has a window with its namesakes on the other ranks, in which it locks any target
 * exclusively or shared, or all of them; and there is one window for all threads, in which each
 * locks targets of its own, as a rank holds one lock of a target at a time. Under an exclusive lock
 * a thread adds one to each of a target's words, one after the other; whoever reads finds them
 * equal, in an epoch of MPI_Win_lock_all at the target itself too, by loads. In the end no count
 * may be lost.
 * Argument: threads (3).
 */
#include "win_kinds.h"
#include <pthread.h>

enum { MAX_THREADS = 8, NWORDS = 4, SIZE = 64 };

static int nthreads = 3, nturns;
static struct kind_win own[MAX_THREADS], common;

struct worker {
    int id;
    struct check_rng rng;
    int64_t *own, *common; /* [ranks] words counted at each target */
    pthread_t thread;
};

static void get_words(struct kind_win *w, int target, int64_t words[NWORDS]) {
    MUST(MPI_Get(words, NWORDS, MPI_INT64_T, target, kind_disp(w, target, 0), NWORDS, MPI_INT64_T,
                 w->win));
}

static void check_words(const int64_t words[NWORDS], const char *where) {
    for (int i = 1; i < NWORDS; i++)
        CHECK(words[i] == words[0], "%s: word %d is %lld, word 0 is %lld", where, i,
              (long long)words[i], (long long)words[0]);
}

static void linger(struct worker *me) {
    if (check_draw(&me->rng) % 8 == 0)
        sched_yield();
}

static void count_on(struct worker *me, struct kind_win *w, int target) {
    int64_t words[NWORDS];
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win));
    get_words(w, target, words);
    MUST(MPI_Win_flush(target, w->win));
    check_words(words, "exclusive");
    words[0]++;
    for (int i = 0; i < NWORDS; i++) {
        MUST(MPI_Put(&words[0], 1, MPI_INT64_T, target, kind_disp(w, target, (size_t)i * 8), 1,
                     MPI_INT64_T, w->win));
        linger(me);
        MUST(MPI_Win_flush(target, w->win));
    }
    MUST(MPI_Win_unlock(target, w->win));
}

static void read_one(struct worker *me, struct kind_win *w, int target) {
    int64_t words[NWORDS];
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win));
    linger(me);
    get_words(w, target, words);
    MUST(MPI_Win_unlock(target, w->win));
    check_words(words, "shared");
}

static void read_all(struct worker *me, struct kind_win *w) {
    int64_t words[NWORDS];
    MUST(MPI_Win_lock_all(0, w->win));
    for (int k = 0; k < check_nranks; k++) {
        int target = (check_rank + k) % check_nranks;
        get_words(w, target, words);
        MUST(MPI_Win_flush(target, w->win));
        check_words(words, "all");
        linger(me);
    }
    get_words(w, check_rank, words);
    MUST(MPI_Win_flush_all(w->win));
    check_words(words, "all, itself");
    MUST(MPI_Win_unlock_all(w->win));
}

static void *storm(void *argument) {
    struct worker *me = argument;
    struct kind_win *mine = &own[me->id];
    for (int turn = 0; turn < nturns; turn++) {
        uint64_t what = check_draw(&me->rng);
        int target = (int)(what >> 8 & 1023) % check_nranks;
        int other = target / nthreads * nthreads + me->id; /* nobody else's here */
        if (what % 8 < 2) {
            count_on(me, mine, target);
            me->own[target]++;
        } else if (what % 8 < 4) {
            read_one(me, mine, target);
        } else if (what % 8 < 6) {
            read_all(me, mine);
        } else if (other < check_nranks && what % 2) {
            count_on(me, &common, other);
            me->common[other]++;
        } else if (other < check_nranks) {
            read_one(me, &common, other);
        }
    }
    return NULL;
}

/* All counts of all ranks at this one have come to its words. */
static void check_total(struct kind_win *w, const int64_t *counted) {
    int64_t words[NWORDS], total = 0;
    MUST(MPI_Reduce_scatter_block(counted, &total, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, w->win));
    get_words(w, check_rank, words);
    MUST(MPI_Win_unlock(check_rank, w->win));
    check_words(words, "in the end");
    CHECK(words[0] == total, "%lld counted, %lld there", (long long)total, (long long)words[0]);
}

static void test_kind(enum kind kind) {
    struct worker workers[MAX_THREADS];
    const size_t n = (size_t)check_nranks;
    int64_t *common_counted = calloc(n, sizeof(int64_t));
    if (!kind_open(&common, kind, MPI_COMM_WORLD, SIZE, 8)) {
        free(common_counted);
        return;
    }
    for (int i = 0; i < nthreads; i++) {
        CHECK(kind_open(&own[i], kind, MPI_COMM_WORLD, SIZE, 8), "one but not another");
        workers[i] = (struct worker){
            .id = i, .own = calloc(n, sizeof(int64_t)), .common = calloc(n, sizeof(int64_t))};
        workers[i].rng.state = check_seed + (uint64_t)(check_rank * MAX_THREADS + i) * 7919u + 1;
    }
    check_barrier(MPI_COMM_WORLD);
    for (int i = 0; i < nthreads; i++)
        CHECK(pthread_create(&workers[i].thread, NULL, storm, &workers[i]) == 0, "no thread");
    for (int i = 0; i < nthreads; i++)
        pthread_join(workers[i].thread, NULL);
    check_barrier(MPI_COMM_WORLD);
    for (int i = 0; i < nthreads; i++) {
        check_total(&own[i], workers[i].own);
        for (size_t r = 0; r < n; r++)
            common_counted[r] += workers[i].common[r];
        free(workers[i].own);
        free(workers[i].common);
        kind_close(&own[i]);
    }
    check_total(&common, common_counted);
    free(common_counted);
    kind_close(&common);
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "rma_lock_storm");
    if (argc > 1)
        nthreads = atoi(argv[1]);
    CHECK(nthreads >= 1 && nthreads <= MAX_THREADS, "threads: 1 to %d", MAX_THREADS);
    nturns = check_rounds(150, 60);
    for (int kind = 0; kind < NKINDS; kind++)
        test_kind((enum kind)kind);
    return check_end();
}
