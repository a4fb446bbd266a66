/*
 * rma_basic: is every byte where the one-sided calls say it is?
 *
 * For each flavour of window: put and get under every kind of synchronisation, the accumulate
 * family as counters whose every intermediate value is accounted for, derived datatypes on either
 * side, nothing at all (count 0, MPI_PROC_NULL), and displacement units.
 * Layout of a window: NSLOT bytes for every origin rank, at origin * NSLOT.
 */
#include "lane.h"
#include "win_kinds.h"

enum { NSLOT = 1024, MAX_RANKS = 16 };

/* Every rank puts its content into its slot at every rank, synchronised as `how` says. */
enum how {
    EXCLUSIVE,
    SHARED,
    LOCK_ALL,
    FLUSH,
    FLUSH_LOCAL,
    FLUSH_ALL,
    FLUSH_LOCAL_ALL,
    FENCE,
    NHOW
};

static void put_everywhere(struct kind_win *w, enum how how, const char *from) {
    for (int i = 0; i < w->nranks; i++) {
        int target = (w->rank + i) % w->nranks;
        MPI_Aint disp = kind_disp(w, target, (size_t)w->rank * NSLOT);
        if (how <= SHARED)
            MUST(MPI_Win_lock(how == SHARED ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0,
                              w->win));
        for (int part = 0; part < 4; part++)
            MUST(MPI_Put(from + part * NSLOT / 4, NSLOT / 4, MPI_BYTE, target,
                         disp + part * NSLOT / 4 / w->disp_unit, NSLOT / 4, MPI_BYTE, w->win));
        if (how == FLUSH)
            MUST(MPI_Win_flush(target, w->win));
        if (how == FLUSH_LOCAL)
            MUST(MPI_Win_flush_local(target, w->win));
        if (how <= SHARED)
            MUST(MPI_Win_unlock(target, w->win));
    }
}

static void get_everywhere(struct kind_win *w, int round) {
    char got[MAX_RANKS][NSLOT];
    MUST(MPI_Win_lock_all(0, w->win));
    for (int target = 0; target < w->nranks; target++) {
        memset(got, 0x5a, sizeof got);
        for (int origin = 0; origin < w->nranks; origin++)
            MUST(MPI_Get(got[origin], NSLOT, MPI_BYTE, target,
                         kind_disp(w, target, (size_t)origin * NSLOT), NSLOT, MPI_BYTE, w->win));
        if (target % 2)
            MUST(MPI_Win_flush(target, w->win));
        else
            MUST(MPI_Win_flush_local_all(w->win));
        for (int origin = 0; origin < w->nranks; origin++)
            check_same(got[origin], NSLOT, (uint64_t)origin, (uint64_t)round, __FILE__, __LINE__);
    }
    MUST(MPI_Win_unlock_all(w->win));
}

static void see_own(struct kind_win *w, int round) {
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, w->rank, 0, w->win));
    for (int origin = 0; origin < w->nranks; origin++)
        check_same(w->base + (size_t)origin * NSLOT, NSLOT, (uint64_t)origin, (uint64_t)round,
                   __FILE__, __LINE__);
    MUST(MPI_Win_unlock(w->rank, w->win));
}

static void test_put_get(struct kind_win *w) {
    for (int how = 0; how < NHOW; how++) {
        char from[NSLOT];
        int round = 100 * (int)w->kind + how;
        check_fill(from, NSLOT, (uint64_t)w->rank, (uint64_t)round);
        if (how == FENCE)
            MUST(MPI_Win_fence(MPI_MODE_NOPRECEDE, w->win));
        else if (how >= LOCK_ALL)
            MUST(MPI_Win_lock_all(how == FLUSH ? MPI_MODE_NOCHECK : 0, w->win));
        put_everywhere(w, (enum how)how, from);
        if (how == FLUSH_ALL)
            MUST(MPI_Win_flush_all(w->win));
        if (how == FLUSH_LOCAL_ALL)
            MUST(MPI_Win_flush_local_all(w->win));
        /* Local completion: the origin's buffer may be used again at once. */
        if (how < FENCE)
            if (how != LOCK_ALL)
                memset(from, 0xee, NSLOT);
        if (how == FENCE)
            MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
        else if (how >= LOCK_ALL)
            MUST(MPI_Win_unlock_all(w->win));
        check_barrier(w->comm);
        see_own(w, round);
        get_everywhere(w, round);
        kind_clear(w);
    }
}

/* Between fences a rank also reads and writes its own memory directly. */
static void test_fence(struct kind_win *w) {
    int left = (w->rank + w->nranks - 1) % w->nranks, right = (w->rank + 1) % w->nranks;
    uint64_t got;
    MUST(MPI_Win_fence(0, w->win));
    for (uint64_t round = 0; round < (uint64_t)check_rounds(20, 4); round++) {
        uint64_t mine = check_word((uint64_t)w->rank, round, 7);
        MUST(MPI_Put(&mine, 1, MPI_UINT64_T, right, kind_disp(w, right, 0), 1, MPI_UINT64_T,
                     w->win));
        MUST(MPI_Win_fence(MPI_MODE_NOPUT, w->win));
        memcpy(&got, w->base, 8);
        CHECK(got == check_word((uint64_t)left, round, 7), "round %d: put", (int)round);
        got += 1;
        memcpy(w->base + NSLOT / 2, &got, 8);
        MUST(MPI_Win_fence(0, w->win));
        MUST(MPI_Get(&got, 1, MPI_UINT64_T, right, kind_disp(w, right, NSLOT / 2), 1, MPI_UINT64_T,
                     w->win));
        MUST(MPI_Win_fence(0, w->win));
        CHECK(got == mine + 1, "round %d: get", (int)round);
    }
    MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
}

/* Post-start-complete-wait: every rank is exposed to both neighbours, then to everybody.
 * MPICH 4.0.2 only counts posts, and takes that of a rank which is a round ahead for one of this
 * round: then it waits for ever for the missing one (see rma_pscw). */
static void test_pscw(struct kind_win *w) {
    bool strict = lane_is_packet(w->win);
    MPI_Group all, peers;
    int ranks[2] = {(w->rank + w->nranks - 1) % w->nranks, (w->rank + 1) % w->nranks};
    MUST(MPI_Comm_group(w->comm, &all));
    MUST(MPI_Group_incl(all, ranks[0] == ranks[1] ? 1 : 2, ranks, &peers));
    for (uint64_t round = 0; round < (uint64_t)check_rounds(10, 4); round++) {
        MPI_Group who = round % 2 ? all : peers;
        int npeers;
        uint64_t mine = check_word((uint64_t)w->rank, round, 3);
        MUST(MPI_Group_size(who, &npeers));
        MUST(MPI_Win_post(who, 0, w->win));
        MUST(MPI_Win_start(who, 0, w->win));
        for (int i = 0; i < npeers; i++) {
            int target = i;
            if (who == peers)
                target = ranks[i];
            MUST(MPI_Put(&mine, 1, MPI_UINT64_T, target,
                         kind_disp(w, target, (size_t)w->rank * NSLOT), 1, MPI_UINT64_T, w->win));
        }
        MUST(MPI_Win_complete(w->win));
        if (round % 3 == 0) {
            int done = 0;
            while (!done)
                MUST(MPI_Win_test(w->win, &done));
        } else {
            MUST(MPI_Win_wait(w->win));
        }
        for (int i = 0; i < npeers; i++) {
            int origin = who == peers ? ranks[i] : i;
            uint64_t got;
            memcpy(&got, w->base + (size_t)origin * NSLOT, 8);
            CHECK(got == check_word((uint64_t)origin, round, 3), "round %d, origin %d", (int)round,
                  origin);
        }
        if (!strict)
            check_barrier(w->comm);
    }
    MUST(MPI_Group_free(&peers));
    MUST(MPI_Group_free(&all));
    check_barrier(w->comm);
}

/* All ranks add to one counter at rank 0; together they must have seen every value once. */
static void test_counter(struct kind_win *w, bool exclusive) {
    int each = check_rounds(40, 6), total = each * w->nranks;
    int64_t one = 1, add[2] = {1, 2}, was, seen[2];
    int *mine = calloc((size_t)total, sizeof *mine);
    kind_clear(w);
    if (!exclusive)
        MUST(MPI_Win_lock_all(0, w->win));
    for (int i = 0; i < each; i++) {
        int64_t which = i % 3;
        if (exclusive)
            MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win));
        if (which == 0) {
            MUST(MPI_Fetch_and_op(&one, &was, MPI_INT64_T, 0, kind_disp(w, 0, 0), MPI_SUM, w->win));
        } else if (which == 1) {
            MUST(MPI_Get_accumulate(&one, 1, MPI_INT64_T, &was, 1, MPI_INT64_T, 0,
                                    kind_disp(w, 0, 0), 1, MPI_INT64_T, MPI_SUM, w->win));
        } else {
            int64_t expect = -1, next;
            was = 0;
            do {
                expect = was;
                next = expect + 1;
                MUST(MPI_Compare_and_swap(&next, &expect, &was, MPI_INT64_T, 0, kind_disp(w, 0, 0),
                                          w->win));
                MUST(MPI_Win_flush(0, w->win));
            } while (was != expect);
        }
        MUST(MPI_Win_flush(0, w->win));
        CHECK(was >= 0 && was < total, "fetched %lld of %d", (long long)was, total);
        mine[was]++;
        MUST(MPI_Accumulate(add, 2, MPI_INT64_T, 0, kind_disp(w, 0, 64), 2, MPI_INT64_T, MPI_SUM,
                            w->win));
        if (exclusive)
            MUST(MPI_Win_unlock(0, w->win));
    }
    if (!exclusive)
        MUST(MPI_Win_unlock_all(w->win));
    MUST(MPI_Allreduce(MPI_IN_PLACE, mine, total, MPI_INT, MPI_SUM, w->comm));
    for (int i = 0; i < total; i++)
        CHECK(mine[i] == 1, "value %d was fetched %d times", i, mine[i]);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win));
    MUST(MPI_Get(seen, 2, MPI_INT64_T, 0, kind_disp(w, 0, 64), 2, MPI_INT64_T, w->win));
    MUST(MPI_Win_unlock(0, w->win));
    CHECK(seen[0] == total && seen[1] == 2 * total, "sums %lld %lld of %d", (long long)seen[0],
          (long long)seen[1], total);
    free(mine);
    check_barrier(w->comm);
}

/* Fetch_and_op with MPI_NO_OP is an atomic read, with MPI_REPLACE an exchange. */
static void test_swap(struct kind_win *w) {
    int32_t mine = (int32_t)check_word((uint64_t)w->rank, 11, 0), was = 1, read = 2;
    int target = (w->rank + 1) % w->nranks;
    size_t at = (size_t)w->rank * NSLOT;
    kind_clear(w);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win));
    MUST(MPI_Fetch_and_op(&mine, &was, MPI_INT32_T, target, kind_disp(w, target, at), MPI_REPLACE,
                          w->win));
    MUST(MPI_Win_flush(target, w->win));
    MUST(MPI_Fetch_and_op(NULL, &read, MPI_INT32_T, target, kind_disp(w, target, at), MPI_NO_OP,
                          w->win));
    MUST(MPI_Win_unlock(target, w->win));
    CHECK(was == 0 && read == mine, "exchange gave %d, read %d, put %d", was, read, mine);
    check_barrier(w->comm);
}

/* Every second int, scattered over there; read back as a struct; checked at the target. */
static void test_derived(struct kind_win *w) {
    enum { N = 32 };
    int target = (w->rank + 1) % w->nranks, left = (w->rank + w->nranks - 1) % w->nranks;
    int lengths[3] = {3, 1, 2}, places[3] = {20, 2, 10}, out[2 * N], in[2 * N];
    size_t at = (size_t)w->rank * NSLOT;
    MPI_Datatype vector, indexed, parts[2] = {MPI_INT, MPI_BYTE}, record;
    MPI_Aint offsets[2] = {0, 12};
    kind_clear(w);
    MUST(MPI_Type_vector(N, 1, 2, MPI_INT, &vector));
    MUST(MPI_Type_commit(&vector));
    MUST(MPI_Type_indexed(3, lengths, places, MPI_INT, &indexed));
    MUST(MPI_Type_commit(&indexed));
    MUST(MPI_Type_create_struct(2, (int[]){2, 4}, offsets, parts, &record));
    MUST(MPI_Type_commit(&record));
    for (int i = 0; i < 2 * N; i++)
        out[i] = w->rank * 1000 + i;
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win));
    /* strided here, dense there */
    MUST(MPI_Put(out, 1, vector, target, kind_disp(w, target, at), N, MPI_INT, w->win));
    /* dense here, scattered there */
    MUST(MPI_Put(out, 6, MPI_INT, target, kind_disp(w, target, at + 256), 1, indexed, w->win));
    MUST(MPI_Accumulate(out, 6, MPI_INT, target, kind_disp(w, target, at + 512), 1, indexed,
                        MPI_SUM, w->win));
    MUST(MPI_Accumulate(out, 1, indexed, target, kind_disp(w, target, at + 640), 6, MPI_INT,
                        MPI_SUM, w->win));
    MUST(MPI_Put(out, 2, record, target, kind_disp(w, target, at + 768), 2, record, w->win));
    MUST(MPI_Win_flush(target, w->win));
    memset(in, 0x11, sizeof in);
    MUST(MPI_Get(in, 1, vector, target, kind_disp(w, target, at), N, MPI_INT, w->win));
    MUST(MPI_Win_unlock(target, w->win));
    for (int i = 0; i < 2 * N; i++)
        CHECK(in[i] == (i % 2 ? 0x11111111 : w->rank * 1000 + i), "got[%d] is %d", i, in[i]);
    check_barrier(w->comm);

    const char *slot = w->base + (size_t)left * NSLOT;
    const int *dense = (const int *)(const void *)slot;
    int expect[3][64] = {{0}};
    char bytes[64] = {0};
    for (int i = 0, n = 0; i < 3; i++)
        for (int j = 0; j < lengths[i]; j++, n++) {
            expect[0][places[i] + j] = left * 1000 + n;
            expect[2][n] = left * 1000 + places[i] + j;
        }
    int outs[8];
    for (int i = 0; i < 8; i++)
        outs[i] = left * 1000 + i;
    for (int i = 0; i < 2; i++) {
        memcpy(bytes + 16 * i, (char *)outs + 16 * i, 8);
        memcpy(bytes + 16 * i + 12, (char *)outs + 16 * i + 12, 4);
    }
    for (int i = 0; i < N; i++)
        CHECK(dense[i] == left * 1000 + 2 * i, "vector put: [%d] is %d", i, dense[i]);
    CHECK(memcmp(slot + 256, expect[0], 128) == 0, "indexed put is wrong");
    CHECK(memcmp(slot + 512, expect[0], 128) == 0, "indexed accumulate is wrong");
    CHECK(memcmp(slot + 640, expect[2], 128) == 0, "accumulate from indexed is wrong");
    CHECK(memcmp(slot + 768, bytes, 64) == 0, "struct put is wrong");
    MUST(MPI_Type_free(&vector));
    MUST(MPI_Type_free(&indexed));
    MUST(MPI_Type_free(&record));
    check_barrier(w->comm);
}

static void test_nothing(struct kind_win *w) {
    int32_t x = -1, cmp = 0, res = 77;
    kind_clear(w);
    MUST(MPI_Win_lock_all(0, w->win));
    MUST(MPI_Put(&x, 1, MPI_INT32_T, MPI_PROC_NULL, 0, 1, MPI_INT32_T, w->win));
    MUST(MPI_Get(&x, 1, MPI_INT32_T, MPI_PROC_NULL, 0, 1, MPI_INT32_T, w->win));
    MUST(MPI_Accumulate(&x, 1, MPI_INT32_T, MPI_PROC_NULL, 0, 1, MPI_INT32_T, MPI_SUM, w->win));
    MUST(MPI_Get_accumulate(&x, 1, MPI_INT32_T, &res, 1, MPI_INT32_T, MPI_PROC_NULL, 0, 1,
                            MPI_INT32_T, MPI_SUM, w->win));
    MUST(MPI_Fetch_and_op(&x, &res, MPI_INT32_T, MPI_PROC_NULL, 0, MPI_SUM, w->win));
    MUST(MPI_Compare_and_swap(&x, &cmp, &res, MPI_INT32_T, MPI_PROC_NULL, 0, w->win));
    for (int t = 0; t < w->nranks; t++) {
        MPI_Aint disp = kind_disp(w, t, 0);
        MUST(MPI_Put(&x, 0, MPI_INT32_T, t, disp, 0, MPI_INT32_T, w->win));
        MUST(MPI_Get(&x, 0, MPI_INT32_T, t, disp, 0, MPI_INT32_T, w->win));
        MUST(MPI_Accumulate(&x, 0, MPI_INT32_T, t, disp, 0, MPI_INT32_T, MPI_SUM, w->win));
        MUST(MPI_Get_accumulate(&x, 0, MPI_INT32_T, &res, 0, MPI_INT32_T, t, disp, 0, MPI_INT32_T,
                                MPI_SUM, w->win));
    }
    MUST(MPI_Win_sync(w->win));
    MUST(MPI_Win_unlock_all(w->win));
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, MPI_PROC_NULL, 0, w->win));
    MUST(MPI_Win_unlock(MPI_PROC_NULL, w->win));
    CHECK(x == -1 && res == 77, "nothing was to be moved: %d %d", x, res);
    check_barrier(w->comm);
    for (size_t i = 0; i < w->size; i++)
        CHECK(w->base[i] == 0, "byte %zu of the window was written", i);
    check_barrier(w->comm);
}

int main(int argc, char **argv) {
    static const int units[] = {1, 8, 4, 16};
    check_begin(&argc, &argv, "rma_basic");
    CHECK(check_nranks <= MAX_RANKS, "at most %d ranks", MAX_RANKS);
    for (int kind = 0; kind < NKINDS; kind++)
        for (int u = 0; u < check_rounds(4, 1); u++) {
            struct kind_win w;
            if (u > 0 && (kind == KIND_DYNAMIC || (kind == KIND_SHARED && u > 1)))
                continue;
            if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, (size_t)check_nranks * NSLOT,
                           units[u]))
                continue;
            test_put_get(&w);
            kind_clear(&w);
            test_fence(&w);
            test_pscw(&w);
            if (u < 2) {
                test_counter(&w, false);
                test_counter(&w, true);
                test_swap(&w);
                test_derived(&w);
                test_nothing(&w);
            }
            kind_close(&w);
            if (check_rank == 0)
                printf("%s, displacement unit %d\n", kind_names[kind], units[u]);
        }
    return check_end();
}
