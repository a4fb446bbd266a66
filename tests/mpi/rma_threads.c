/*
 * rma_threads: one-sided calls of several threads at once (MPI_THREAD_MULTIPLE).
 *
 * A put by one thread has to be complete after a flush by another; threads on windows of their
 * own must not disturb one another; threads on one window together lose no accumulate; and the
 * accumulates of one thread to one place are applied in the order it made them (the default
 * accumulate_ordering: rar, raw, war, waw).
 * Arguments: number of worker threads (4), and "flusher" for the one case on its own in which a
 * thread flushes without pause while the others use local flushes: the host MPI alone now and then
 * fails that, since its local flush clears the mark by which a whole flush knows what to do.
 */
#include "win_kinds.h"
#include <pthread.h>
#include <stdatomic.h>

enum { MAX_THREADS = 8, WORDS = 512 };

static int nthreads = 4;
static int nrounds;
static pthread_barrier_t meet;

struct worker {
    struct kind_win *w;
    int id, target;
};

static void run_threads(struct kind_win *w, int target, int n, void *(*body)(void *)) {
    pthread_t threads[MAX_THREADS];
    struct worker workers[MAX_THREADS];
    for (int i = 0; i < n; i++) {
        workers[i] = (struct worker){w, i, target};
        CHECK(pthread_create(&threads[i], NULL, body, &workers[i]) == 0, "no thread");
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

/* Slot of one thread of one origin rank. */
static MPI_Aint slot(const struct worker *me) {
    size_t at = ((size_t)me->w->rank * MAX_THREADS + (size_t)me->id) * WORDS * 8;
    return kind_disp(me->w, me->target, at);
}

static MPI_Aint words(const struct worker *me, int i) {
    return (MPI_Aint)i * 8 / me->w->disp_unit;
}

/* Threads put; then thread 0 alone flushes; then each reads another's words back. */
static void *put_and_other_flushes(void *arg) {
    struct worker *me = arg;
    static uint64_t out[MAX_THREADS][WORDS];
    for (int round = 0; round < nrounds; round++) {
        for (int i = 0; i < WORDS; i++) {
            uint64_t writer = (uint64_t)(me->w->rank * MAX_THREADS + me->id);
            out[me->id][i] = check_word(writer, (uint64_t)round, (uint64_t)i);
            MUST(MPI_Put(&out[me->id][i], 1, MPI_UINT64_T, me->target, slot(me) + words(me, i), 1,
                         MPI_UINT64_T, me->w->win));
        }
        pthread_barrier_wait(&meet);
        if (me->id == 0)
            MUST(MPI_Win_flush(me->target, me->w->win));
        pthread_barrier_wait(&meet);
        struct worker next = *me;
        next.id = (me->id + 1) % nthreads;
        uint64_t got[WORDS];
        MUST(MPI_Get(got, WORDS, MPI_UINT64_T, me->target, slot(&next), WORDS, MPI_UINT64_T,
                     me->w->win));
        MUST(MPI_Win_flush(me->target, me->w->win));
        check_same(got, sizeof got, (uint64_t)(me->w->rank * MAX_THREADS + next.id),
                   (uint64_t)round, "put, other flushes", __LINE__);
        pthread_barrier_wait(&meet);
    }
    return NULL;
}

static atomic_bool flusher_stops;

/* One thread flushes all the time while the others put, flush and check. */
static void *flush_meanwhile(void *arg) {
    struct worker *me = arg;
    uint64_t out[8], got[8];
    if (me->id == nthreads) {
        while (!atomic_load(&flusher_stops)) {
            MUST(MPI_Win_flush_all(me->w->win));
            sched_yield();
        }
        return NULL;
    }
    for (int round = 0; round < 10 * nrounds; round++) {
        uint64_t writer = (uint64_t)(me->w->rank * MAX_THREADS + me->id);
        check_fill(out, sizeof out, writer, 5000 + (uint64_t)round);
        MUST(MPI_Put(out, 8, MPI_UINT64_T, me->target, slot(me), 8, MPI_UINT64_T, me->w->win));
        MUST(MPI_Win_flush(me->target, me->w->win));
        MUST(MPI_Get(got, 8, MPI_UINT64_T, me->target, slot(me), 8, MPI_UINT64_T, me->w->win));
        MUST(MPI_Win_flush_local(me->target, me->w->win));
        check_same(got, sizeof got, writer, 5000 + (uint64_t)round, "flush meanwhile", __LINE__);
    }
    pthread_barrier_wait(&meet);
    if (me->id == 0)
        atomic_store(&flusher_stops, true);
    return NULL;
}

/* All threads of all ranks add to the same words at rank 0. */
static void *add_together(void *arg) {
    struct worker *me = arg;
    int64_t one[4] = {1, 1, 1, 1}, was, last = -1;
    for (int i = 0; i < 10 * nrounds; i++) {
        MUST(MPI_Accumulate(one, 4, MPI_INT64_T, 0, kind_disp(me->w, 0, 64), 4, MPI_INT64_T,
                            MPI_SUM, me->w->win));
        if (i % 10 == 9) {
            MUST(MPI_Fetch_and_op(one, &was, MPI_INT64_T, 0, kind_disp(me->w, 0, 0), MPI_SUM,
                                  me->w->win));
            MUST(MPI_Win_flush(0, me->w->win));
            CHECK(was > last, "a counter went from %lld to %lld", (long long)last, (long long)was);
            last = was;
        }
    }
    MUST(MPI_Win_flush(0, me->w->win));
    return NULL;
}

static void check_added(struct kind_win *w) {
    int64_t got[12] = {0}, calls = 10 * nrounds * nthreads * w->nranks;
    check_barrier(w->comm);
    MUST(MPI_Get(got, 12, MPI_INT64_T, 0, kind_disp(w, 0, 0), 12, MPI_INT64_T, w->win));
    MUST(MPI_Win_flush(0, w->win));
    CHECK(got[0] == calls / 10, "%lld fetches of %lld", (long long)got[0], (long long)calls / 10);
    for (int i = 8; i < 12; i++)
        CHECK(got[i] == calls, "word %d is %lld, not %lld", i, (long long)got[i], (long long)calls);
    check_barrier(w->comm);
}

/*
 * Accumulates of one thread to one place, with no flush between them: the last replace has to
 * stay (waw), reads in between have to see exactly what went before (raw, war, rar).
 */
static void *keep_order(void *arg) {
    struct worker *me = arg;
    enum { STEPS = 12 };
    for (int round = 0; round < 2 * nrounds; round++) {
        int64_t value[STEPS], seen[STEPS], two = 2, after[2];
        for (int i = 0; i < STEPS; i++) {
            value[i] = 1000 * round + i;
            MUST(MPI_Accumulate(&value[i], 1, MPI_INT64_T, me->target, slot(me), 1, MPI_INT64_T,
                                MPI_REPLACE, me->w->win));
            MUST(MPI_Get_accumulate(NULL, 0, MPI_INT64_T, &seen[i], 1, MPI_INT64_T, me->target,
                                    slot(me), 1, MPI_INT64_T, MPI_NO_OP, me->w->win));
            MUST(MPI_Accumulate(&two, 1, MPI_INT64_T, me->target, slot(me), 1, MPI_INT64_T, MPI_SUM,
                                me->w->win));
        }
        MUST(MPI_Fetch_and_op(&two, &after[0], MPI_INT64_T, me->target, slot(me), MPI_PROD,
                              me->w->win));
        MUST(MPI_Fetch_and_op(NULL, &after[1], MPI_INT64_T, me->target, slot(me), MPI_NO_OP,
                              me->w->win));
        MUST(MPI_Win_flush(me->target, me->w->win));
        for (int i = 0; i < STEPS; i++)
            CHECK(seen[i] == value[i], "round %d, step %d: read %lld after %lld was written", round,
                  i, (long long)seen[i], (long long)value[i]);
        int64_t last = value[STEPS - 1] + 2;
        CHECK(after[0] == last && after[1] == 2 * last, "round %d: %lld and %lld, not %lld", round,
              (long long)after[0], (long long)after[1], (long long)last);
    }
    return NULL;
}

/* A window for each thread; exclusive locks and flushes go their own ways. */
static struct kind_win own[MAX_THREADS];

static void *own_window(void *arg) {
    struct worker *me = arg;
    struct worker mine = {&own[me->id], me->id, me->target};
    uint64_t out[WORDS], got[WORDS];
    for (int round = 0; round < 2 * nrounds; round++) {
        uint64_t writer = (uint64_t)(mine.w->rank * MAX_THREADS + me->id);
        check_fill(out, sizeof out, writer, 9000 + (uint64_t)round);
        MUST(MPI_Win_lock(round % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, me->target, 0,
                          mine.w->win));
        MUST(MPI_Put(out, WORDS, MPI_UINT64_T, me->target, slot(&mine), WORDS, MPI_UINT64_T,
                     mine.w->win));
        MUST(MPI_Win_unlock(me->target, mine.w->win));
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, me->target, 0, mine.w->win));
        MUST(MPI_Get(got, WORDS, MPI_UINT64_T, me->target, slot(&mine), WORDS, MPI_UINT64_T,
                     mine.w->win));
        MUST(MPI_Win_unlock(me->target, mine.w->win));
        check_same(got, sizeof got, writer, 9000 + (uint64_t)round, "own window", __LINE__);
    }
    return NULL;
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "rma_threads");
    if (argc > 1)
        nthreads = atoi(argv[1]);
    bool flusher = argc > 2 && strcmp(argv[2], "flusher") == 0;
    CHECK(nthreads >= 1 && nthreads < MAX_THREADS, "1 to %d threads", MAX_THREADS - 1);
    nrounds = check_rounds(10, 2);
    pthread_barrier_init(&meet, NULL, (unsigned)nthreads);
    size_t bytes = (size_t)check_nranks * MAX_THREADS * WORDS * 8;
    int right = (check_rank + 1) % check_nranks;
    for (int kind = 0; kind < NKINDS; kind++) {
        struct kind_win w;
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, bytes, kind == KIND_CREATE ? 8 : 1))
            continue;
        MUST(MPI_Win_lock_all(0, w.win));
        if (flusher) {
            atomic_store(&flusher_stops, false);
            run_threads(&w, right, nthreads + 1, flush_meanwhile);
            MUST(MPI_Win_unlock_all(w.win));
            kind_close(&w);
            continue;
        }
        run_threads(&w, right, nthreads, put_and_other_flushes);
        run_threads(&w, right, nthreads, keep_order);
        MUST(MPI_Win_unlock_all(w.win));
        kind_clear(&w);
        MUST(MPI_Win_lock_all(0, w.win));
        run_threads(&w, 0, nthreads, add_together);
        check_added(&w);
        MUST(MPI_Win_unlock_all(w.win));
        kind_close(&w);
    }
    for (int i = 0; i < nthreads; i++)
        CHECK(kind_open(&own[i], KIND_ALLOCATE, MPI_COMM_WORLD, bytes, 1), "no window");
    run_threads(&own[0], right, nthreads, own_window);
    check_barrier(MPI_COMM_WORLD);
    for (int i = 0; i < nthreads; i++)
        kind_close(&own[i]);
    return check_end();
}
