/*
 * rma_pscw: post, start, complete and wait, with any groups.
 *
 * In every round a graph says who accesses whom: a ring, all to all, one target, one origin, pairs
 * that know nothing of each other, nobody, or edges at random. Every rank posts to its origins and
 * starts to its targets, or, where edges only go upwards, starts first. Along an edge go a put, a
 * get of what the target stored before it posted, and accumulates that all origins of a target make
 * to the same words. Rounds follow each other without any other synchronisation; some ranks are
 * late. All ranks draw the graphs from one seed, so each knows what it has to find.
 * MPICH 4.0.2 only counts the posts that come, and takes one of a rank that is ahead for one it is
 * waiting for: where the epochs are the host's, a barrier stands between different graphs.
 * Argument: "strict" leaves it out in every lane.
 */
#include "lane.h"
#include "win_kinds.h"
#include <stddef.h>
#include <time.h>

enum { MAX_RANKS = 8, NWORDS = 8, SLOT = NWORDS * 8, TAG = 3 };

/* What a rank's window holds: a slot for each origin, sums, and what it offers to be read. */
struct place {
    uint64_t slots[MAX_RANKS][NWORDS];
    uint64_t sums[NWORDS];
    uint64_t offered[NWORDS];
};

static struct check_rng rng; /* in step on all ranks */
static uint64_t sums[NWORDS];

static uint64_t draw(uint64_t below) {
    return check_draw(&rng) % below;
}

enum shape { RING, ALL, ONE_TARGET, ONE_ORIGIN, PAIRS, NOBODY, ANY, UPWARDS, NSHAPES };

static bool edges[MAX_RANKS][MAX_RANKS]; /* [origin][target] */

static void draw_graph(enum shape shape, int n) {
    int one = (int)draw((uint64_t)n);
    for (int o = 0; o < n; o++)
        for (int t = 0; t < n; t++) {
            bool any = draw(2);
            edges[o][t] = shape == RING         ? t == (o + 1) % n
                          : shape == ALL        ? true
                          : shape == ONE_TARGET ? t == one
                          : shape == ONE_ORIGIN ? o == one
                          : shape == PAIRS      ? t == (o ^ 1)
                          : shape == NOBODY     ? false
                          : shape == ANY        ? any
                                                : any && o < t;
        }
}

/* The ranks that access `rank`, or that it accesses. Some lists come backwards. */
static MPI_Group group_of(const struct kind_win *w, int rank, bool origins, int *members, int *n) {
    MPI_Group all, some;
    bool backwards = check_word((uint64_t)rank, rng.state, 1) % 2;
    *n = 0;
    for (int i = 0; i < w->nranks; i++) {
        int r = backwards ? w->nranks - 1 - i : i;
        if (origins ? edges[r][rank] : edges[rank][r])
            members[(*n)++] = r;
    }
    MUST(MPI_Win_get_group(w->win, &all));
    MUST(MPI_Group_incl(all, *n, members, &some));
    MUST(MPI_Group_free(&all));
    return some;
}

static uint64_t share_of(int origin, int target, uint64_t round, int word) {
    return check_word((uint64_t)(origin * MAX_RANKS + target), round, (uint64_t)word + 100);
}

/* Some ranks are late now and then. */
static void dawdle(const struct kind_win *w, uint64_t round, int where) {
    uint64_t word = check_word((uint64_t)w->rank, round, (uint64_t)where + 999);
    if (word % 16 == 0)
        nanosleep(&(struct timespec){0, (long)(word / 16 % 2000) * 1000}, NULL);
    else if (word % 4 == 0)
        sched_yield();
}

static void post(struct kind_win *w, MPI_Group origins, uint64_t round, int assert) {
    struct place *mine = (struct place *)(void *)w->base;
    for (int i = 0; i < NWORDS; i++)
        mine->offered[i] = check_word((uint64_t)w->rank, round, (uint64_t)i);
    dawdle(w, round, 0);
    MUST(MPI_Win_post(origins, assert, w->win));
}

/* An access epoch towards the targets. */
static void access_all(struct kind_win *w, MPI_Group targets, const int *members, int n,
                       uint64_t round, int assert) {
    static uint64_t puts[MAX_RANKS][NWORDS], adds[MAX_RANKS][NWORDS], twos[NWORDS];
    uint64_t got[MAX_RANKS][NWORDS], was[MAX_RANKS], zero[1] = {0};
    MUST(MPI_Win_start(targets, assert, w->win));
    dawdle(w, round, 1);
    for (int k = 0; k < n; k++) {
        int t = members[k];
        for (int i = 0; i < NWORDS; i++) {
            puts[k][i] = share_of(w->rank, t, round, NWORDS + i);
            adds[k][i] = share_of(w->rank, t, round, i);
            twos[i] = 2;
        }
        MPI_Aint slot = kind_disp(w, t, offsetof(struct place, slots) + (size_t)w->rank * SLOT);
        MPI_Aint sum = kind_disp(w, t, offsetof(struct place, sums));
        if (round % 2)
            MUST(MPI_Put(puts[k], NWORDS, MPI_UINT64_T, t, slot, NWORDS, MPI_UINT64_T, w->win));
        for (int i = 0; i < NWORDS && round % 2 == 0; i++)
            MUST(MPI_Put(&puts[k][i], 1, MPI_UINT64_T, t, slot + i * 8 / w->disp_unit, 1,
                         MPI_UINT64_T, w->win));
        MUST(MPI_Accumulate(adds[k], NWORDS, MPI_UINT64_T, t, sum, NWORDS, MPI_UINT64_T, MPI_SUM,
                            w->win));
        memset(got[k], 0x77, SLOT);
        MUST(MPI_Get(got[k], NWORDS, MPI_UINT64_T, t,
                     kind_disp(w, t, offsetof(struct place, offered)), NWORDS, MPI_UINT64_T,
                     w->win));
        MUST(MPI_Fetch_and_op(zero, &was[k], MPI_UINT64_T, t, sum, MPI_SUM, w->win));
        MUST(MPI_Accumulate(twos, NWORDS, MPI_UINT64_T, t, sum, NWORDS, MPI_UINT64_T, MPI_SUM,
                            w->win));
    }
    MUST(MPI_Win_complete(w->win));
    for (int k = 0; k < n; k++) {
        check_same(got[k], SLOT, (uint64_t)members[k], round, "what a target offered", __LINE__);
        memset(puts[k], 0xee, SLOT); /* the buffers are ours again */
        memset(adds[k], 0xee, SLOT);
    }
}

static void wait_all(struct kind_win *w, const int *members, int n, uint64_t round) {
    struct place *mine = (struct place *)(void *)w->base;
    int done = 0;
    dawdle(w, round, 2);
    if (round % 3 == 0) {
        while (!done) {
            MUST(MPI_Win_test(w->win, &done));
            if (!done)
                sched_yield();
        }
    } else {
        MUST(MPI_Win_wait(w->win));
    }
    for (int k = 0; k < n; k++)
        for (int i = 0; i < NWORDS; i++) {
            uint64_t want = share_of(members[k], w->rank, round, NWORDS + i);
            CHECK(mine->slots[members[k]][i] == want, "round %d: put %d of origin %d", (int)round,
                  i, members[k]);
            sums[i] += share_of(members[k], w->rank, round, i) + 2;
        }
    for (int i = 0; i < NWORDS; i++)
        CHECK(mine->sums[i] == sums[i], "round %d: sum %d of %d origins is off by %lld", (int)round,
              i, n, (long long)(mine->sums[i] - sums[i]));
}

/* One epoch of everybody. nocheck: all have posted before anybody starts. */
static void run_round(struct kind_win *w, uint64_t round, bool start_first, bool nocheck) {
    int norigins, ntargets, origins[MAX_RANKS], targets[MAX_RANKS];
    MPI_Group from = group_of(w, w->rank, true, origins, &norigins);
    MPI_Group to = group_of(w, w->rank, false, targets, &ntargets);
    int assert = nocheck ? MPI_MODE_NOCHECK : 0;
    if (start_first)
        access_all(w, to, targets, ntargets, round, assert);
    post(w, from, round, assert | (norigins == 0 ? MPI_MODE_NOPUT : 0));
    if (nocheck)
        check_barrier(w->comm);
    if (!start_first)
        access_all(w, to, targets, ntargets, round, assert);
    wait_all(w, origins, norigins, round);
    MUST(MPI_Group_free(&from));
    MUST(MPI_Group_free(&to));
}

/* An access epoch here while an exposure epoch of another window is open, and the other way. */
static void test_two_windows(struct kind_win *a, uint64_t round) {
    struct kind_win b;
    int right = (a->rank + 1) % a->nranks, left = (a->rank + a->nranks - 1) % a->nranks;
    uint64_t mine = check_word((uint64_t)a->rank, round, 5), got[2];
    MPI_Group all, to, from;
    CHECK(kind_open(&b, a->kind, a->comm, a->size, a->disp_unit), "no second window");
    MUST(MPI_Comm_group(a->comm, &all));
    MUST(MPI_Group_incl(all, 1, &right, &to));
    MUST(MPI_Group_incl(all, 1, &left, &from));
    MUST(MPI_Win_post(from, 0, a->win));
    MUST(MPI_Win_start(to, 0, a->win));
    MUST(MPI_Win_post(to, 0, b.win));
    MUST(MPI_Win_start(from, 0, b.win));
    MUST(MPI_Put(&mine, 1, MPI_UINT64_T, right, kind_disp(a, right, 0), 1, MPI_UINT64_T, a->win));
    MUST(MPI_Put(&mine, 1, MPI_UINT64_T, left, kind_disp(&b, left, 8), 1, MPI_UINT64_T, b.win));
    MUST(MPI_Win_complete(a->win));
    MUST(MPI_Win_complete(b.win));
    MUST(MPI_Win_wait(b.win));
    MUST(MPI_Win_wait(a->win));
    memcpy(&got[0], a->base, 8);
    memcpy(&got[1], b.base + 8, 8);
    CHECK(got[0] == check_word((uint64_t)left, round, 5), "the left one's put");
    CHECK(got[1] == check_word((uint64_t)right, round, 5), "the right one's put");
    MUST(MPI_Group_free(&all));
    MUST(MPI_Group_free(&to));
    MUST(MPI_Group_free(&from));
    kind_close(&b);
}

int main(int argc, char **argv) {
    uint64_t round = 0;
    check_begin(&argc, &argv, "rma_pscw");
    bool strict_always = argc > 1 && strcmp(argv[1], "strict") == 0;
    CHECK(check_nranks <= MAX_RANKS, "at most %d ranks", MAX_RANKS);
    for (int kind = 0; kind < NKINDS; kind++) {
        struct kind_win w;
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, sizeof(struct place), 8))
            continue;
        memset(sums, 0, sizeof sums);
        bool strict = strict_always || lane_is_packet(w.win);
        for (int i = 0; i < check_rounds(40, 2) * NSHAPES; i++) {
            enum shape shape = (enum shape)(i % NSHAPES);
            if (shape == PAIRS && w.nranks % 2)
                shape = RING;
            draw_graph(shape, w.nranks);
            for (uint64_t more = draw(4) + 1; more > 0; more--)
                run_round(&w, ++round, shape == UPWARDS && draw(2),
                          shape != UPWARDS && draw(4) == 0);
            if (!strict)
                check_barrier(w.comm);
        }
        test_two_windows(&w, ++round);
        kind_close(&w);
        if (check_rank == 0)
            printf("%s\n", kind_names[kind]);
    }
    return check_end();
}
