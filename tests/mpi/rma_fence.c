/*
 * rma_fence: epochs between fences, with every assertion that is true, in several windows at once.
 *
 * For each window the ranks draw from one seed what happens between its next two fences: puts,
 * gets, accumulates, stores by each rank into its own memory, an epoch of locks, or nothing; and
 * who does it to whom. The fences say by their assertions what follows from that:
 * MPI_MODE_NOPRECEDE and NOSUCCEED where no rank communicates, NOSTORE where this rank has not
 * stored, NOPUT where nobody will write to it. Each of them is given, or not, at random. Windows
 * take turns, so that epochs of one begin and end within those of others. Some ranks are late: what
 * the others do to their windows must not come before their own fence. Every rank has a model of
 * its memory in every window and compares after each fence; what a get has fetched is looked at
 * after the fence that ends it.
 */
#include "win_kinds.h"
#include <time.h>

enum { MAX_RANKS = 4, MAX_WINDOWS = 4, NWORDS = 16 };

/* A rank's memory: for each origin words to put to and words to add to, then words of its own. */
enum { SLOT = 8 * NWORDS, ADDED = MAX_RANKS * SLOT, OWN = ADDED + SLOT, SIZE = OWN + SLOT };

enum phase { NOTHING, PUTS, GETS, ACCUMULATES, MIXED, STORES, LOCKS, NPHASES };

struct window {
    struct kind_win w;
    enum phase phase; /* since the last fence, and until the next */
    bool edges[MAX_RANKS][MAX_RANKS];
    uint64_t round;
    uint64_t model[SIZE / 8];
    uint64_t own[MAX_RANKS][NWORDS]; /* everybody's */
    uint64_t puts[MAX_RANKS][NWORDS], adds[MAX_RANKS][NWORDS], gots[MAX_RANKS][NWORDS];
};

static struct check_rng rng; /* in step on all ranks */
static struct window windows[MAX_WINDOWS];
static int nwindows;

static uint64_t draw(uint64_t below) {
    return check_draw(&rng) % below;
}

static bool communicates(enum phase phase) {
    return phase >= PUTS && phase <= MIXED;
}

static bool does_put(enum phase phase) {
    return phase == PUTS || phase == MIXED || phase == LOCKS;
}

static bool does_add(enum phase phase) {
    return phase == ACCUMULATES || phase == MIXED;
}

static bool does_get(enum phase phase) {
    return phase == GETS || phase == MIXED;
}

static uint64_t word_of(const struct window *v, int origin, int target, int kind, int i) {
    int which = (int)(v - windows);
    return check_word((uint64_t)((which * MAX_RANKS + origin) * MAX_RANKS + target) * 4 +
                          (uint64_t)kind,
                      v->round, (uint64_t)i);
}

static void dawdle(const struct window *v) {
    uint64_t word = word_of(v, v->w.rank, 0, 3, 7);
    if (word % 16 == 0)
        nanosleep(&(struct timespec){0, (long)(word / 16 % 1000) * 1000}, NULL);
}

/* The assertions that are true, some of them. Those that all ranks have to give or none come from
 * the common seed. */
static int assertions(const struct window *v, enum phase before, enum phase after, uint64_t common,
                      uint64_t mine) {
    bool target = false; /* of what comes */
    int assert = 0;
    for (int r = 0; r < v->w.nranks; r++)
        target |= v->edges[r][v->w.rank];
    if (!communicates(before) && (common & 1))
        assert |= MPI_MODE_NOPRECEDE;
    if (!communicates(after) && ((common & 2) || after == LOCKS))
        assert |= MPI_MODE_NOSUCCEED;
    if (before != STORES && !does_get(before) && (mine & 1))
        assert |= MPI_MODE_NOSTORE;
    if (!(target && (does_put(after) || does_add(after))) && (mine & 2))
        assert |= MPI_MODE_NOPUT;
    return assert;
}

/* ---- what happens in a phase ---- */

static void put(struct window *v, int t) {
    MPI_Aint disp = kind_disp(&v->w, t, (size_t)v->w.rank * SLOT);
    for (int i = 0; i < NWORDS; i++)
        v->puts[t][i] = word_of(v, v->w.rank, t, 0, i);
    if (v->round % 2)
        MUST(MPI_Put(v->puts[t], NWORDS, MPI_UINT64_T, t, disp, NWORDS, MPI_UINT64_T, v->w.win));
    for (int i = 0; i < NWORDS && v->round % 2 == 0; i++)
        MUST(MPI_Put(&v->puts[t][i], 1, MPI_UINT64_T, t, disp + i * 8 / v->w.disp_unit, 1,
                     MPI_UINT64_T, v->w.win));
}

static void add(struct window *v, int t) {
    for (int i = 0; i < NWORDS; i++)
        v->adds[t][i] = word_of(v, v->w.rank, t, 1, i);
    MUST(MPI_Accumulate(v->adds[t], NWORDS, MPI_UINT64_T, t, kind_disp(&v->w, t, ADDED), NWORDS,
                        MPI_UINT64_T, MPI_SUM, v->w.win));
}

static void store(struct window *v) {
    uint64_t *own = (uint64_t *)(void *)(v->w.base + OWN);
    for (int i = 0; i < NWORDS; i++)
        own[i] = word_of(v, v->w.rank, v->w.rank, 2, i);
}

static void run_phase(struct window *v) {
    if (v->phase == STORES)
        store(v);
    for (int t = 0; t < v->w.nranks; t++) {
        if (!v->edges[v->w.rank][t])
            continue;
        if (v->phase == LOCKS)
            MUST(MPI_Win_lock(MPI_LOCK_SHARED, t, 0, v->w.win));
        if (does_put(v->phase))
            put(v, t);
        if (does_add(v->phase))
            add(v, t);
        if (does_get(v->phase)) {
            memset(v->gots[t], 0x44, SLOT);
            MUST(MPI_Get(v->gots[t], NWORDS, MPI_UINT64_T, t, kind_disp(&v->w, t, OWN), NWORDS,
                         MPI_UINT64_T, v->w.win));
        }
        if (v->phase == LOCKS)
            MUST(MPI_Win_unlock(t, v->w.win));
    }
}

/* The same, to the models of all ranks that this one has. */
static void model_phase(struct window *v) {
    const int me = v->w.rank;
    for (int r = 0; r < v->w.nranks; r++)
        for (int i = 0; i < NWORDS; i++) {
            if (v->phase == STORES)
                v->own[r][i] = word_of(v, r, r, 2, i);
            if (v->edges[r][me] && does_put(v->phase))
                v->model[r * NWORDS + i] = word_of(v, r, me, 0, i);
            if (v->edges[r][me] && does_add(v->phase))
                v->model[ADDED / 8 + i] += word_of(v, r, me, 1, i);
        }
    memcpy(v->model + OWN / 8, v->own[me], SLOT);
}

static void compare(struct window *v) {
    const volatile uint64_t *memory = (const volatile uint64_t *)(void *)v->w.base;
    for (int i = 0; i < SIZE / 8; i++)
        CHECK(memory[i] == v->model[i], "window %d (%s), round %d, phase %d: word %d is wrong",
              (int)(v - windows), kind_names[v->w.kind], (int)v->round, (int)v->phase, i);
    for (int t = 0; t < v->w.nranks; t++)
        for (int i = 0; i < NWORDS && does_get(v->phase) && v->edges[v->w.rank][t]; i++)
            CHECK(v->gots[t][i] == v->own[t][i], "window %d, round %d: got word %d of rank %d",
                  (int)(v - windows), (int)v->round, i, t);
    memset(v->puts, 0xee, sizeof v->puts); /* complete here as well */
    memset(v->adds, 0xee, sizeof v->adds);
}

/* Ends what happened in a window and draws what happens next. Between two fences of which the first
 * begins an epoch, others may be writing while this rank looks: it compares before it goes there.
 */
static void step(struct window *v, bool last) {
    enum phase before = v->phase, after = last ? NOTHING : (enum phase)draw(NPHASES);
    uint64_t common = draw(4), mine = draw(256) >> 2 * v->w.rank;
    bool next[MAX_RANKS][MAX_RANKS];
    for (int o = 0; o < v->w.nranks; o++)
        for (int t = 0; t < v->w.nranks; t++)
            next[o][t] = draw(3) > 0;
    run_phase(v);
    dawdle(v);
    model_phase(v);
    if (before == LOCKS)
        check_barrier(v->w.comm); /* a fence that ends no epoch need not be one */
    if (communicates(before) || before == LOCKS) {
        /* A fence alone between them: after it the memory holds what the model has, and stays so
         * until the fence that opens the next epoch. */
        MUST(MPI_Win_fence(
            assertions(v, before, NOTHING, before == LOCKS ? common | 1 : common, mine), v->w.win));
        compare(v);
        before = NOTHING;
    } else {
        compare(v);
    }
    memcpy(v->edges, next, sizeof next);
    MUST(MPI_Win_fence(assertions(v, before, after, common, mine >> 1), v->w.win));
    v->phase = after;
    v->round++;
}

static void open_windows(void) {
    static const int units[MAX_WINDOWS] = {8, 1, 4, 1};
    nwindows = 0;
    for (int kind = 0; kind < NKINDS; kind++) {
        struct window *v = &windows[nwindows];
        memset(v, 0, sizeof *v);
        if (kind_open(&v->w, (enum kind)kind, MPI_COMM_WORLD, SIZE, units[kind])) {
            v->round = 1;
            nwindows++;
        }
    }
}

/* Back to back in a ring: each fence ends one epoch and begins the next. */
static void test_ring(struct window *v) {
    int right = (v->w.rank + 1) % v->w.nranks;
    int left = (v->w.rank + v->w.nranks - 1) % v->w.nranks;
    uint64_t from[2], got;
    MUST(MPI_Win_fence(MPI_MODE_NOPRECEDE, v->w.win));
    for (uint64_t i = 0; i < (uint64_t)check_rounds(200, 6); i++) {
        /* Two places in turn: the neighbour looks at one while the other is written. */
        size_t at = (size_t)(i % 2) * 8;
        from[i % 2] = check_word((uint64_t)v->w.rank, i, 55);
        MUST(MPI_Put(&from[i % 2], 1, MPI_UINT64_T, right, kind_disp(&v->w, right, at), 1,
                     MPI_UINT64_T, v->w.win));
        MUST(MPI_Win_fence(MPI_MODE_NOSTORE, v->w.win));
        got = *(volatile uint64_t *)(void *)(v->w.base + at);
        CHECK(got == check_word((uint64_t)left, i, 55), "ring, step %d", (int)i);
    }
    MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, v->w.win));
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "rma_fence");
    CHECK(check_nranks <= MAX_RANKS, "at most %d ranks", MAX_RANKS);
    open_windows();
    for (int i = 0; i < check_rounds(600, 25) * nwindows; i++)
        step(&windows[draw((uint64_t)nwindows)], false);
    for (int i = 0; i < nwindows; i++) {
        step(&windows[i], true);
        step(&windows[i], true);
    }
    for (int i = 0; i < nwindows; i++) {
        test_ring(&windows[i]);
        kind_close(&windows[i].w);
    }
    return check_end();
}
