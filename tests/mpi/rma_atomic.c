/*
 * rma_atomic: do atomic operations happen one after another, whoever makes them?
 *
 * Several threads of all ranks work on the same words at once (MPI_THREAD_MULTIPLE): tickets drawn
 * by fetching sums and by compare-and-swap, a cell whose value is exchanged, bits that are flipped;
 * a lock made of compare-and-swap around a plain read-modify-write; long accumulates that overlap
 * each other and single ones; and a race for the largest pair. Each is such that one lost or torn
 * update leaves a trace.
 * Argument: number of threads (3).
 */
#include "win_kinds.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum {
    MAX_THREADS = 8,
    NGUARDED = 3,
    NBULK = 4096,
    NTYPES = 3,
    NPAIRS = 3,
    MOST_TICKETS = 1 << 14
};

struct pair { /* MPI_DOUBLE_INT */
    double value;
    int index;
};

/* What lies at every rank. */
struct place {
    uint64_t wide;   /* tickets below bit 32, sums nobody fetches above */
    uint32_t narrow; /* the same, bit 16 */
    uint32_t swapped;
    uint64_t cell, bits;
    int32_t lock, unused;
    int64_t guarded[NGUARDED];
    struct pair best[NPAIRS];
    int64_t longs[NBULK];
    double doubles[NBULK];
    int32_t ints[NBULK];
};

struct worker {
    struct kind_win *w;
    int id, nsteps;
    struct check_rng rng;
    int64_t added[NTYPES][NBULK];
    struct pair best[NPAIRS];
};

static int nthreads = 3;
static struct worker workers[MAX_THREADS];

static void run_threads(struct kind_win *w, int nsteps, void *(*body)(void *)) {
    pthread_t threads[MAX_THREADS];
    static uint64_t runs;
    runs++;
    for (int i = 0; i < nthreads; i++) {
        uint64_t who = (uint64_t)(w->rank * MAX_THREADS + i);
        workers[i] = (struct worker){w, i, nsteps, {(runs << 40) + (who << 20)}, {{0}}, {{0, 0}}};
        CHECK(pthread_create(&threads[i], NULL, body, &workers[i]) == 0, "no thread");
    }
    for (int i = 0; i < nthreads; i++)
        pthread_join(threads[i], NULL);
    check_barrier(w->comm);
}

static uint64_t draw(struct worker *me, uint64_t below) {
    return check_draw(&me->rng) % below;
}

/* Fetches what was there and applies op, by either of the calls that do. */
static void fetch(struct worker *me, int target, size_t offset, MPI_Datatype type, MPI_Op op,
                  const void *operand, void *was) {
    MPI_Aint disp = kind_disp(me->w, target, offset);
    if (draw(me, 2))
        MUST(MPI_Fetch_and_op(operand, was, type, target, disp, op, me->w->win));
    else
        MUST(MPI_Get_accumulate(operand, 1, type, was, 1, type, target, disp, 1, type, op,
                                me->w->win));
    MUST(MPI_Win_flush(target, me->w->win));
}

static uint64_t fetch_wide(struct worker *me, int target, size_t offset, MPI_Op op,
                           uint64_t operand) {
    uint64_t was = UINT64_MAX;
    fetch(me, target, offset, MPI_UINT64_T, op, &operand, &was);
    return was;
}

static uint32_t fetch_narrow(struct worker *me, int target, size_t offset, MPI_Op op,
                             uint32_t operand) {
    uint32_t was = UINT32_MAX;
    fetch(me, target, offset, MPI_UINT32_T, op, &operand, &was);
    return was;
}

/* ---- single words ---- */

enum { WIDE, NARROW, SWAPPED, CELL, NCOUNTED };
static atomic_int seen[NCOUNTED][MOST_TICKETS]; /* how often this rank has got each value */
static atomic_int unfetched[2];                 /* sums that were not fetched */

static void see(int counter, uint64_t value) {
    CHECK(value < MOST_TICKETS, "counter %d gave %llu", counter, (unsigned long long)value);
    atomic_fetch_add(&seen[counter][value], 1);
}

static void draw_wide(struct worker *me, int target, int64_t *last) {
    const uint64_t high = (uint64_t)1 << 32;
    size_t at = offsetof(struct place, wide);
    uint64_t kind = draw(me, 4);
    if (kind == 0) {
        MUST(MPI_Accumulate(&high, 1, MPI_UINT64_T, target, kind_disp(me->w, target, at), 1,
                            MPI_UINT64_T, MPI_SUM, me->w->win));
        MUST(MPI_Win_flush(target, me->w->win));
        atomic_fetch_add(&unfetched[WIDE], 1);
        return;
    }
    uint64_t was = fetch_wide(me, target, at, kind == 1 ? MPI_NO_OP : MPI_SUM, 1) % high;
    CHECK((int64_t)was > *last, "the wide counter went from %lld to %lld", (long long)*last,
          (long long)was);
    if (kind > 1) {
        see(WIDE, was);
        *last = (int64_t)was;
    }
}

static void draw_narrow(struct worker *me, int target, int64_t *last) {
    const uint32_t high = 1u << 16;
    size_t at = offsetof(struct place, narrow);
    uint64_t kind = draw(me, 4);
    if (kind == 0) {
        MUST(MPI_Accumulate(&high, 1, MPI_UINT32_T, target, kind_disp(me->w, target, at), 1,
                            MPI_UINT32_T, MPI_SUM, me->w->win));
        MUST(MPI_Win_flush(target, me->w->win));
        atomic_fetch_add(&unfetched[NARROW], 1);
        return;
    }
    uint32_t was = fetch_narrow(me, target, at, kind == 1 ? MPI_NO_OP : MPI_SUM, 1) % high;
    CHECK(was > *last, "the narrow counter went from %lld to %u", (long long)*last, was);
    if (kind > 1) {
        see(NARROW, was);
        *last = was;
    }
}

static uint32_t swap(struct worker *me, int target, size_t offset, uint32_t expected,
                     uint32_t wanted) {
    uint32_t was = UINT32_MAX;
    MUST(MPI_Compare_and_swap(&wanted, &expected, &was, MPI_UINT32_T, target,
                              kind_disp(me->w, target, offset), me->w->win));
    MUST(MPI_Win_flush(target, me->w->win));
    return was;
}

static void draw_swapped(struct worker *me, int target, int64_t *last) {
    size_t at = offsetof(struct place, swapped);
    uint32_t expected = (uint32_t)(*last + 1), was;
    while ((was = swap(me, target, at, expected, expected + 1)) != expected) {
        CHECK(was > expected, "the swapped counter went from %u to %u", expected, was);
        expected = was;
        sched_yield();
    }
    see(SWAPPED, was);
    *last = was;
}

static void *mix(void *arg) {
    struct worker *me = arg;
    int far = me->w->nranks - 1, who = me->w->rank * nthreads + me->id;
    int64_t last[NCOUNTED] = {-1, -1, -1, -1};
    uint64_t bit = (uint64_t)1 << who, flipped = 0;
    for (int i = 0; i < me->nsteps; i++)
        switch (draw(me, 5)) {
        case 0:
            draw_wide(me, far, &last[WIDE]);
            break;
        case 1:
            draw_narrow(me, 0, &last[NARROW]);
            break;
        case 2:
            draw_swapped(me, far, &last[SWAPPED]);
            break;
        case 3: /* tokens: every one that is put in comes out once, or stays */
            see(CELL, fetch_wide(me, 0, offsetof(struct place, cell), MPI_REPLACE,
                                 (uint64_t)(who * me->nsteps + i + 1)));
            break;
        default: {
            bool reads = draw(me, 3) == 0;
            uint64_t was = fetch_wide(me, far, offsetof(struct place, bits),
                                      reads ? MPI_NO_OP : MPI_BXOR, bit);
            CHECK((was & bit) == flipped, "step %d: another's flip has changed bit %d", i, who);
            flipped ^= reads ? 0 : bit;
        }
        }
    return NULL;
}

/* A counter of n tickets gave out 0 to n-1, each once. */
static void check_tickets(const int *got, uint64_t n, const char *name) {
    for (uint64_t v = 0; v < MOST_TICKETS; v++)
        CHECK(got[v] == (v < n), "%s: ticket %llu of %llu was drawn %d times", name,
              (unsigned long long)v, (unsigned long long)n, got[v]);
}

static void test_words(struct kind_win *w, int nsteps) {
    static int got[NCOUNTED][MOST_TICKETS];
    int high[2];
    struct place first, last;
    memset(seen, 0, sizeof seen);
    memset(unfetched, 0, sizeof unfetched);
    CHECK(w->nranks * nthreads * nsteps < MOST_TICKETS && w->nranks * nthreads <= 64, "too many");
    run_threads(w, nsteps, mix);
    MUST(MPI_Get(&first, sizeof first, MPI_BYTE, 0, kind_disp(w, 0, 0), sizeof first, MPI_BYTE,
                 w->win));
    MUST(MPI_Get(&last, sizeof last, MPI_BYTE, w->nranks - 1, kind_disp(w, w->nranks - 1, 0),
                 sizeof last, MPI_BYTE, w->win));
    MUST(MPI_Win_flush_all(w->win));
    if (w->rank == 0)
        see(CELL, first.cell);
    MUST(MPI_Allreduce(seen, got, NCOUNTED * MOST_TICKETS, MPI_INT, MPI_SUM, w->comm));
    MUST(MPI_Allreduce(unfetched, high, 2, MPI_INT, MPI_SUM, w->comm));
    check_tickets(got[WIDE], last.wide & UINT32_MAX, "wide");
    check_tickets(got[NARROW], first.narrow & UINT16_MAX, "narrow");
    check_tickets(got[SWAPPED], last.swapped, "swapped");
    CHECK(last.wide >> 32 == (uint64_t)high[0] && first.narrow >> 16 == (uint32_t)high[1],
          "sums nobody fetched: %u and %u of %d and %d", (unsigned)(last.wide >> 32),
          first.narrow >> 16, high[0], high[1]);
    CHECK(got[CELL][0] == 1, "the cell's first value came out %d times", got[CELL][0]);
    for (int i = 0; i < MOST_TICKETS; i++)
        CHECK(got[CELL][i] <= 1, "token %d came out %d times", i, got[CELL][i]);
}

/* ---- a lock ---- */

static void *guard(void *arg) {
    struct worker *me = arg;
    int far = me->w->nranks - 1;
    size_t lock = offsetof(struct place, lock);
    MPI_Aint disp = kind_disp(me->w, 0, offsetof(struct place, guarded));
    for (int i = 0; i < me->nsteps; i++) {
        int64_t words[NGUARDED] = {-1, -1, -1};
        const uint32_t unlocked = 0;
        while (swap(me, far, lock, 0, 1) != 0)
            sched_yield();
        MUST(MPI_Get(words, NGUARDED, MPI_INT64_T, 0, disp, NGUARDED, MPI_INT64_T, me->w->win));
        MUST(MPI_Win_flush(0, me->w->win));
        for (int j = NGUARDED - 1; j >= 0; j--) {
            CHECK(words[j] == words[0], "word %d is %lld, word 0 is %lld", j, (long long)words[j],
                  (long long)words[0]);
            words[j]++;
        }
        MUST(MPI_Put(words, NGUARDED, MPI_INT64_T, 0, disp, NGUARDED, MPI_INT64_T, me->w->win));
        MUST(MPI_Win_flush(0, me->w->win));
        if (i % 2) {
            CHECK(swap(me, far, lock, 1, 0) == 1, "step %d: the lock was not mine", i);
        } else {
            MUST(MPI_Accumulate(&unlocked, 1, MPI_UINT32_T, far, kind_disp(me->w, far, lock), 1,
                                MPI_UINT32_T, MPI_REPLACE, me->w->win));
            MUST(MPI_Win_flush(far, me->w->win));
        }
    }
    return NULL;
}

static void test_lock(struct kind_win *w, int nsteps) {
    int64_t words[NGUARDED], all = (int64_t)w->nranks * nthreads * nsteps;
    run_threads(w, nsteps, guard);
    MUST(MPI_Get(words, NGUARDED, MPI_INT64_T, 0, kind_disp(w, 0, offsetof(struct place, guarded)),
                 NGUARDED, MPI_INT64_T, w->win));
    MUST(MPI_Win_flush(0, w->win));
    for (int j = 0; j < NGUARDED; j++)
        CHECK(words[j] == all, "word %d is %lld after %lld turns", j, (long long)words[j],
              (long long)all);
}

/* ---- long accumulates ---- */

union bulk {
    int64_t longs[NBULK];
    double doubles[NBULK];
    int32_t ints[NBULK];
};

static const struct {
    size_t offset, size;
} bulk_types[NTYPES] = {{offsetof(struct place, longs), 8},
                        {offsetof(struct place, doubles), 8},
                        {offsetof(struct place, ints), 4}};

static MPI_Datatype bulk_type(int t) {
    return t == 0 ? MPI_INT64_T : t == 1 ? MPI_DOUBLE : MPI_INT32_T;
}

static int64_t bulk_load(const union bulk *b, int t, int i) {
    return t == 0 ? b->longs[i] : t == 1 ? (int64_t)b->doubles[i] : b->ints[i];
}

static void bulk_store(union bulk *b, int t, int i, int value) {
    if (t == 0)
        b->longs[i] = value;
    else if (t == 1)
        b->doubles[i] = value;
    else
        b->ints[i] = value;
}

static void *add(void *arg) {
    struct worker *me = arg;
    static union bulk outs[MAX_THREADS], wases[MAX_THREADS];
    union bulk *out = &outs[me->id], *was = &wases[me->id];
    int far = me->w->nranks - 1;
    for (int step = 0; step < me->nsteps; step++) {
        int t = (int)draw(me, NTYPES);
        int n = draw(me, 2) ? 1 : 1 + (int)draw(me, NBULK);
        int first = (int)draw(me, (uint64_t)(NBULK - n + 1)), value = 1 + (int)draw(me, 9);
        bool fetches = draw(me, 3) == 0;
        MPI_Datatype type = bulk_type(t);
        MPI_Aint disp =
            kind_disp(me->w, far, bulk_types[t].offset + (size_t)first * bulk_types[t].size);
        for (int i = 0; i < n; i++)
            bulk_store(out, t, i, value + i % 3);
        if (fetches)
            MUST(MPI_Get_accumulate(out, n, type, was, n, type, far, disp, n, type, MPI_SUM,
                                    me->w->win));
        else
            MUST(MPI_Accumulate(out, n, type, far, disp, n, type, MPI_SUM, me->w->win));
        MUST(MPI_Win_flush(far, me->w->win));
        for (int i = 0; i < n; i++) {
            int64_t *added = &me->added[t][first + i];
            CHECK(!fetches || bulk_load(was, t, i) >= *added,
                  "type %d, element %d: fetched %lld after adding %lld", t, first + i,
                  (long long)bulk_load(was, t, i), (long long)*added);
            *added += value + i % 3;
        }
    }
    return NULL;
}

static void test_bulk(struct kind_win *w, int nsteps) {
    static int64_t sums[NTYPES][NBULK];
    static union bulk got;
    int far = w->nranks - 1;
    run_threads(w, nsteps, add);
    memset(sums, 0, sizeof sums);
    for (int i = 0; i < nthreads; i++)
        for (int j = 0; j < NTYPES * NBULK; j++)
            sums[j / NBULK][j % NBULK] += workers[i].added[j / NBULK][j % NBULK];
    MUST(MPI_Allreduce(MPI_IN_PLACE, sums, NTYPES * NBULK, MPI_INT64_T, MPI_SUM, w->comm));
    for (int t = 0; t < NTYPES; t++) {
        MUST(MPI_Get(&got, NBULK, bulk_type(t), far, kind_disp(w, far, bulk_types[t].offset), NBULK,
                     bulk_type(t), w->win));
        MUST(MPI_Win_flush(far, w->win));
        for (int i = 0; i < NBULK; i++)
            CHECK(bulk_load(&got, t, i) == sums[t][i], "type %d, element %d is %lld, not %lld", t,
                  i, (long long)bulk_load(&got, t, i), (long long)sums[t][i]);
    }
}

/* ---- pairs ---- */

static bool beats(struct pair a, struct pair b) { /* as MPI_MAXLOC has it */
    return a.value > b.value || (a.value == b.value && a.index < b.index);
}

static void *race(void *arg) {
    struct worker *me = arg;
    for (int step = 0; step < me->nsteps; step++) {
        struct pair mine[NPAIRS], was[NPAIRS];
        int first = (int)draw(me, NPAIRS), n = 1 + (int)draw(me, (uint64_t)(NPAIRS - first));
        bool fetches = draw(me, 2);
        MPI_Aint disp =
            kind_disp(me->w, 0, offsetof(struct place, best) + (size_t)first * sizeof(struct pair));
        for (int i = 0; i < n; i++)
            mine[i] = (struct pair){(double)draw(me, 40 + (uint64_t)step), (int)draw(me, 1000)};
        if (fetches)
            MUST(MPI_Get_accumulate(mine, n, MPI_DOUBLE_INT, was, n, MPI_DOUBLE_INT, 0, disp, n,
                                    MPI_DOUBLE_INT, MPI_MAXLOC, me->w->win));
        else
            MUST(MPI_Accumulate(mine, n, MPI_DOUBLE_INT, 0, disp, n, MPI_DOUBLE_INT, MPI_MAXLOC,
                                me->w->win));
        MUST(MPI_Win_flush(0, me->w->win));
        for (int i = 0; i < n; i++) {
            struct pair *best = &me->best[first + i];
            CHECK(!fetches || !beats(*best, was[i]),
                  "pair %d: fetched (%g, %d) after it was (%g, %d)", first + i, was[i].value,
                  was[i].index, best->value, best->index);
            if (fetches)
                *best = was[i];
            if (beats(mine[i], *best))
                *best = mine[i];
        }
    }
    return NULL;
}

static void test_pairs(struct kind_win *w, int nsteps) {
    struct pair best[NPAIRS] = {{0, 0}}, got[NPAIRS];
    run_threads(w, nsteps, race);
    for (int i = 0; i < nthreads; i++)
        for (int p = 0; p < NPAIRS; p++)
            if (beats(workers[i].best[p], best[p]))
                best[p] = workers[i].best[p];
    MUST(MPI_Allreduce(MPI_IN_PLACE, best, NPAIRS, MPI_DOUBLE_INT, MPI_MAXLOC, w->comm));
    MUST(MPI_Get(got, NPAIRS, MPI_DOUBLE_INT, 0, kind_disp(w, 0, offsetof(struct place, best)),
                 NPAIRS, MPI_DOUBLE_INT, w->win));
    MUST(MPI_Win_flush(0, w->win));
    for (int p = 0; p < NPAIRS; p++)
        CHECK(got[p].value == best[p].value && got[p].index == best[p].index,
              "pair %d is (%g, %d), not (%g, %d)", p, got[p].value, got[p].index, best[p].value,
              best[p].index);
}

int main(int argc, char **argv) {
    static const struct {
        void (*run)(struct kind_win *, int);
        int many, few;
    } tests[] = {
        {test_words, 300, 20}, {test_lock, 30, 3}, {test_bulk, 50, 4}, {test_pairs, 100, 8}};
    check_begin_threads(&argc, &argv, "rma_atomic");
    if (argc > 1)
        nthreads = atoi(argv[1]);
    CHECK(nthreads >= 1 && nthreads <= MAX_THREADS, "1 to %d threads", MAX_THREADS);
    for (int kind = 0; kind < KIND_DYNAMIC; kind++) {
        struct kind_win w;
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, sizeof(struct place), 4))
            continue;
        for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
            MUST(MPI_Win_lock_all(0, w.win));
            tests[i].run(&w, check_rounds(tests[i].many, tests[i].few));
            MUST(MPI_Win_unlock_all(w.win));
            kind_clear(&w);
        }
        kind_close(&w);
        if (check_rank == 0)
            printf("%s\n", kind_names[kind]);
    }
    return check_end();
}
