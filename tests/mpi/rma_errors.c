/*
 * rma_errors: an invalid one-sided call says so at once, by the right class, and does nothing.
 *
 * For every flavour of window and every call: wrong ranks, counts, datatypes, operations, windows,
 * calls outside of epochs. The class is checked at the call and under a handler, which has to be
 * called once; the next synchronisation has nothing more to say. Then all ranks compare all of
 * their memory, buffers included: not a byte may have changed, and the window still works. A window
 * in a lane of ours also refuses what lies beyond a target's memory, by its rank's own size and
 * unit, and data that do not fit where they go. The host MPI does not look: it is not asked.
 */
#include "lane.h"
#include "win_kinds.h"

enum { WORDS = 32, SIZE = 8 * WORDS, NBUFFER = 8, MAX_RANKS = 16 };

#define L MPI_INT64_T

static int64_t from[NBUFFER], into[NBUFFER], other[NBUFFER];
static MPI_Datatype uncommitted, before, spread, record;
static MPI_Op user_op;
static MPI_Errhandler handler;
static int handled, handled_class, ncases;
static bool at_once; /* false: the lane may say it at the next synchronisation */
static uint64_t round_now;

static void on_error(MPI_Win *win, int *code, ...) {
    (void)win;
    handled++;
    MUST(MPI_Error_class(*code, &handled_class));
}

static void add_up(void *in, void *inout, int *n, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *n; i++)
        ((int64_t *)inout)[i] += ((int64_t *)in)[i];
}

static int class_of(int code) {
    int class;
    MUST(MPI_Error_class(code, &class));
    return class;
}

/* The call gives the class, with a handler that returns and with one of ours; `sync` is the next
 * synchronisation. */
#define WRONG_WITH(want, call, sync)                                                               \
    do {                                                                                           \
        for (int own = 0; own < 2; own++) {                                                        \
            MUST(MPI_Win_set_errhandler(win, own ? handler : MPI_ERRORS_RETURN));                  \
            handled = handled_class = 0;                                                           \
            int code = class_of(call), later = class_of(sync);                                     \
            if (!at_once && code == MPI_SUCCESS) {                                                 \
                code = later;                                                                      \
                later = MPI_SUCCESS;                                                               \
            }                                                                                      \
            CHECK(code == (want), "%s: class %d, not %d (%s)", #call, code, want, #want);          \
            CHECK(later == MPI_SUCCESS, "%s: another error follows, class %d", #call, later);      \
            CHECK(!own || (handled == 1 && handled_class == code),                                 \
                  "%s: the handler was called %d times, class %d", #call, handled, handled_class); \
        }                                                                                          \
        MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_ARE_FATAL));                                   \
        ncases++;                                                                                  \
    } while (0)
#define WRONG(want, call) WRONG_WITH(want, call, MPI_Win_flush_all(win))

/* ---- arguments ---- */

/* Rank, count, datatype and displacement of one call, whose arguments stand for themselves. */
static void wrong_put_get(MPI_Win win, int t, MPI_Aint d) {
    MPI_Request r;
    int far = check_nranks;
    WRONG(MPI_ERR_RANK, MPI_Put(from, 1, L, far, d, 1, L, win));
    WRONG(MPI_ERR_RANK, MPI_Put(from, 1, L, -5, d, 1, L, win));
    WRONG(MPI_ERR_RANK, MPI_Get(into, 1, L, far, d, 1, L, win));
    WRONG(MPI_ERR_COUNT, MPI_Put(from, -1, L, t, d, 1, L, win));
    WRONG(MPI_ERR_COUNT, MPI_Put(from, 1, L, t, d, -1, L, win));
    WRONG(MPI_ERR_COUNT, MPI_Get(into, -1, L, t, d, 1, L, win));
    WRONG(MPI_ERR_COUNT, MPI_Get(into, 1, L, t, d, -7, L, win));
    WRONG(MPI_ERR_TYPE, MPI_Put(from, 1, MPI_DATATYPE_NULL, t, d, 1, L, win));
    WRONG(MPI_ERR_TYPE, MPI_Put(from, 1, L, t, d, 1, MPI_DATATYPE_NULL, win));
    WRONG(MPI_ERR_TYPE, MPI_Put(from, 1, uncommitted, t, d, 2, L, win));
    WRONG(MPI_ERR_TYPE, MPI_Put(from, 2, L, t, d, 1, uncommitted, win));
    WRONG(MPI_ERR_TYPE, MPI_Get(into, 1, uncommitted, t, d, 2, L, win));
    WRONG(MPI_ERR_TYPE, MPI_Get(into, 2, L, t, d, 1, uncommitted, win));
    WRONG(MPI_ERR_RANK, MPI_Rput(from, 1, L, far, d, 1, L, win, &r));
    WRONG(MPI_ERR_COUNT, MPI_Rget(into, -1, L, t, d, 1, L, win, &r));
    WRONG(MPI_ERR_TYPE, MPI_Rput(from, 1, L, t, d, 1, uncommitted, win, &r));
}

static void wrong_accumulate(MPI_Win win, int t, MPI_Aint d) {
    MPI_Request r;
    int far = check_nranks;
    WRONG(MPI_ERR_RANK, MPI_Accumulate(from, 1, L, far, d, 1, L, MPI_SUM, win));
    WRONG(MPI_ERR_COUNT, MPI_Accumulate(from, -1, L, t, d, 1, L, MPI_SUM, win));
    WRONG(MPI_ERR_TYPE, MPI_Accumulate(from, 1, MPI_DATATYPE_NULL, t, d, 1, L, MPI_SUM, win));
    WRONG(MPI_ERR_TYPE, MPI_Accumulate(from, 2, L, t, d, 1, uncommitted, MPI_SUM, win));
    WRONG(MPI_ERR_OP, MPI_Accumulate(from, 1, L, t, d, 1, L, MPI_OP_NULL, win));
    WRONG(MPI_ERR_OP, MPI_Accumulate(from, 1, L, t, d, 1, L, user_op, win));
    WRONG(MPI_ERR_RANK, MPI_Get_accumulate(from, 1, L, into, 1, L, far, d, 1, L, MPI_SUM, win));
    WRONG(MPI_ERR_COUNT, MPI_Get_accumulate(from, 1, L, into, -1, L, t, d, 1, L, MPI_SUM, win));
    WRONG(MPI_ERR_COUNT, MPI_Get_accumulate(from, -1, L, into, 1, L, t, d, 1, L, MPI_SUM, win));
    WRONG(MPI_ERR_TYPE,
          MPI_Get_accumulate(from, 1, L, into, 1, MPI_DATATYPE_NULL, t, d, 1, L, MPI_SUM, win));
    WRONG(MPI_ERR_OP, MPI_Get_accumulate(from, 1, L, into, 1, L, t, d, 1, L, MPI_OP_NULL, win));
    WRONG(MPI_ERR_OP, MPI_Get_accumulate(from, 1, L, into, 1, L, t, d, 1, L, user_op, win));
    WRONG(MPI_ERR_OP, MPI_Raccumulate(from, 1, L, t, d, 1, L, MPI_OP_NULL, win, &r));
    WRONG(MPI_ERR_RANK,
          MPI_Rget_accumulate(from, 1, L, into, 1, L, far, d, 1, L, MPI_SUM, win, &r));
    WRONG(MPI_ERR_RANK, MPI_Fetch_and_op(from, into, L, far, d, MPI_SUM, win));
    WRONG(MPI_ERR_TYPE, MPI_Fetch_and_op(from, into, MPI_DATATYPE_NULL, t, d, MPI_SUM, win));
    WRONG(MPI_ERR_TYPE, MPI_Fetch_and_op(from, into, uncommitted, t, d, MPI_SUM, win));
    WRONG(MPI_ERR_OP, MPI_Fetch_and_op(from, into, L, t, d, MPI_OP_NULL, win));
    WRONG(MPI_ERR_RANK, MPI_Compare_and_swap(from, into, other, L, far, d, win));
    WRONG(MPI_ERR_TYPE, MPI_Compare_and_swap(from, into, other, MPI_DATATYPE_NULL, t, d, win));
}

/* ---- epochs ---- */

/* An epoch with nothing in it. */
static int epoch(MPI_Win win, int t) {
    int locked = MPI_Win_lock(MPI_LOCK_SHARED, t, 0, win), unlocked = MPI_Win_unlock(t, win);
    return locked != MPI_SUCCESS ? locked : unlocked;
}

#define NO_EPOCH(call) WRONG_WITH(MPI_ERR_RMA_SYNC, call, epoch(win, t))
#define OTHER_EPOCH(call) WRONG_WITH(MPI_ERR_RMA_SYNC, call, MPI_SUCCESS)

static void wrong_epochs(MPI_Win win, int t, MPI_Aint d) {
    MPI_Request r;
    NO_EPOCH(MPI_Put(from, 1, L, t, d, 1, L, win));
    NO_EPOCH(MPI_Get(into, 1, L, t, d, 1, L, win));
    NO_EPOCH(MPI_Accumulate(from, 1, L, t, d, 1, L, MPI_SUM, win));
    NO_EPOCH(MPI_Get_accumulate(from, 1, L, into, 1, L, t, d, 1, L, MPI_SUM, win));
    NO_EPOCH(MPI_Fetch_and_op(from, into, L, t, d, MPI_SUM, win));
    NO_EPOCH(MPI_Compare_and_swap(from, into, other, L, t, d, win));
    NO_EPOCH(MPI_Rput(from, 1, L, t, d, 1, L, win, &r));
    NO_EPOCH(MPI_Rget(into, 1, L, t, d, 1, L, win, &r));
    NO_EPOCH(MPI_Raccumulate(from, 1, L, t, d, 1, L, MPI_SUM, win, &r));
    NO_EPOCH(MPI_Rget_accumulate(from, 1, L, into, 1, L, t, d, 1, L, MPI_SUM, win, &r));
    NO_EPOCH(MPI_Win_flush(t, win));
    NO_EPOCH(MPI_Win_flush_local(t, win));
    NO_EPOCH(MPI_Win_flush_all(win));
    NO_EPOCH(MPI_Win_flush_local_all(win));
    NO_EPOCH(MPI_Win_unlock(t, win));
    NO_EPOCH(MPI_Win_unlock_all(win));
    NO_EPOCH(MPI_Win_complete(win));
    int s = (t + 1) % check_nranks;
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, t, 0, win));
    if (s != t && lane_is_ours(win)) { /* a lock of another target is no permission */
        OTHER_EPOCH(MPI_Put(from, 1, L, s, d, 1, L, win));
        OTHER_EPOCH(MPI_Get(into, 1, L, s, d, 1, L, win));
        OTHER_EPOCH(MPI_Accumulate(from, 1, L, s, d, 1, L, MPI_SUM, win));
        OTHER_EPOCH(MPI_Fetch_and_op(from, into, L, s, d, MPI_SUM, win));
        OTHER_EPOCH(MPI_Win_flush(s, win));
        OTHER_EPOCH(MPI_Win_unlock(s, win)); /* an assertion fails in the host */
    }
    MUST(MPI_Win_unlock(t, win));
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, t, 0, win));
    OTHER_EPOCH(MPI_Win_lock(MPI_LOCK_SHARED, t, 0, win));
    OTHER_EPOCH(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, t, 0, win));
    OTHER_EPOCH(MPI_Win_lock_all(0, win));
    OTHER_EPOCH(MPI_Win_fence(0, win));
    MUST(MPI_Win_unlock(t, win));
    MUST(MPI_Win_lock_all(0, win));
    OTHER_EPOCH(MPI_Win_lock_all(0, win));
    OTHER_EPOCH(MPI_Win_lock(MPI_LOCK_SHARED, t, 0, win));
    OTHER_EPOCH(MPI_Win_unlock(t, win));
    MUST(MPI_Win_unlock_all(win));
    NO_EPOCH(MPI_Put(from, 1, L, t, d, 1, L, win));
}

/* ---- beyond a target's memory ---- */

/* nwords of memory at the target, in units of `unit` bytes (8 divides or is divided by them). */
static void wrong_range(MPI_Win win, int t, MPI_Aint nwords, MPI_Aint unit) {
    const MPI_Aint end = nwords * 8 / unit, word = 8 / unit > 0 ? 8 / unit : 1;
    const int all = (int)nwords;
    MPI_Request r;
    WRONG(MPI_ERR_RMA_RANGE, MPI_Put(from, 1, L, t, end, 1, L, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Put(from, 8, MPI_BYTE, t, end, 8, MPI_BYTE, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Put(from, 1, MPI_BYTE, t, end, 1, MPI_BYTE, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Put(from, 1, L, t, (MPI_Aint)1 << 61, 1, L, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Put(from, 1, L, t, PTRDIFF_MAX, 1, L, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Put(from, 1, L, t, PTRDIFF_MAX / unit, 1, L, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Put(from, 2, L, t, 0, 1, before, win)); /* begins before it */
    WRONG(MPI_ERR_RMA_RANGE, MPI_Get(into, 1, L, t, end, 1, L, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Get(into, 2, L, t, 0, 1, before, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Accumulate(from, 1, L, t, end, 1, L, MPI_SUM, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Fetch_and_op(from, into, L, t, end, MPI_REPLACE, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Fetch_and_op(NULL, into, L, t, end, MPI_NO_OP, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Compare_and_swap(from, into, other, L, t, end, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Rput(from, 1, L, t, end, 1, L, win, &r));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Rget(into, 1, L, t, end, 1, L, win, &r));
    if (nwords == 0 || unit > 8)
        return;
    WRONG(MPI_ERR_RMA_RANGE, MPI_Put(from, 2, L, t, end - word, 2, L, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Get(into, 2, L, t, end - word, 2, L, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Put(from, 2, L, t, end - word, 1, spread, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Put(from, 2, L, t, end - word, 1, before, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Accumulate(from, 2, L, t, end - word, 1, spread, MPI_SUM, win));
    WRONG(MPI_ERR_RMA_RANGE,
          MPI_Get_accumulate(from, 2, L, into, 2, L, t, end - word, 2, L, MPI_SUM, win));
    WRONG(MPI_ERR_RMA_RANGE,
          MPI_Get_accumulate(NULL, 0, L, into, 2, L, t, end - word, 2, L, MPI_NO_OP, win));
    /* More than the target has, from its beginning: it must not begin to write. */
    static int64_t many[(MAX_RANKS + 1) * WORDS];
    CHECK(all + 1 < (MAX_RANKS + 1) * WORDS, "too much memory");
    memset(many, 0x5c, sizeof many);
    WRONG(MPI_ERR_RMA_RANGE, MPI_Put(many, all + 1, L, t, 0, all + 1, L, win));
    WRONG(MPI_ERR_RMA_RANGE, MPI_Accumulate(many, all + 1, L, t, 0, all + 1, L, MPI_REPLACE, win));
    WRONG(MPI_ERR_RMA_RANGE,
          MPI_Get_accumulate(many, all + 1, L, many, all + 1, L, t, 0, all + 1, L, MPI_SUM, win));
    for (size_t i = 0; i < sizeof many; i++)
        CHECK(((char *)many)[i] == 0x5c, "byte %zu of a result was written", i);
    if (all < 3)
        return;
    WRONG(MPI_ERR_TRUNCATE, MPI_Put(from, 3, L, t, 0, 2, L, win));
    WRONG(MPI_ERR_TRUNCATE, MPI_Put(from, 2, L, t, 0, 1, record, win));
    WRONG(MPI_ERR_TRUNCATE, MPI_Rput(from, 3, L, t, 0, 2, L, win, &r));
    WRONG(MPI_ERR_TRUNCATE, MPI_Get(into, 1, L, t, 0, 2, L, win));
    WRONG(MPI_ERR_TRUNCATE, MPI_Rget(into, 1, spread, t, 0, 3, L, win, &r));
    WRONG(MPI_ERR_TRUNCATE, MPI_Accumulate(from, 3, L, t, 0, 2, L, MPI_SUM, win));
    WRONG(MPI_ERR_TRUNCATE, MPI_Accumulate(from, 3, L, t, 0, 1, spread, MPI_SUM, win));
    WRONG(MPI_ERR_TRUNCATE, MPI_Get_accumulate(from, 2, L, into, 1, L, t, 0, 2, L, MPI_SUM, win));
    WRONG(MPI_ERR_TRUNCATE, MPI_Get_accumulate(from, 3, L, into, 3, L, t, 0, 2, L, MPI_SUM, win));
    WRONG(MPI_ERR_TRUNCATE, MPI_Get_accumulate(NULL, 0, L, into, 1, L, t, 0, 2, L, MPI_NO_OP, win));
}

/* ---- windows ---- */

/* Before and after the invalid calls: all that nobody may touch. */
static void fill_all(MPI_Win win, void *base, size_t size) {
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win));
    check_fill(base, size, (uint64_t)check_rank, ++round_now);
    MUST(MPI_Win_unlock(check_rank, win));
    check_fill(from, sizeof from, 100, round_now);
    check_fill(into, sizeof into, 101, round_now);
    check_fill(other, sizeof other, 102, round_now);
    check_barrier(MPI_COMM_WORLD);
}

static void same_all(MPI_Win win, void *base, size_t size) {
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    check_same(base, size, (uint64_t)check_rank, round_now, "window", __LINE__);
    MUST(MPI_Win_unlock(check_rank, win));
    check_same(from, sizeof from, 100, round_now, "origin", __LINE__);
    check_same(into, sizeof into, 101, round_now, "result", __LINE__);
    check_same(other, sizeof other, 102, round_now, "other result", __LINE__);
    check_barrier(MPI_COMM_WORLD);
}

static void still_works(struct kind_win *w) {
    int64_t mine = check_rank + 4711;
    int right = (w->rank + 1) % w->nranks, left = (w->rank + w->nranks - 1) % w->nranks;
    MUST(MPI_Win_lock_all(0, w->win));
    MUST(MPI_Put(&mine, 1, L, right, kind_disp(w, right, 8), 1, L, w->win));
    MUST(MPI_Win_unlock_all(w->win));
    check_barrier(w->comm);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, w->rank, 0, w->win));
    CHECK(((int64_t *)(void *)w->base)[1] == left + 4711, "the window does not work any more");
    MUST(MPI_Win_unlock(w->rank, w->win));
}

static void test_arguments(struct kind_win *w) {
    at_once = !lane_is(w->win, "native");
    fill_all(w->win, w->base, w->size);
    for (int i = 0; i < check_rounds(w->nranks, 1); i++) {
        int t = (w->rank + 1 + i) % w->nranks;
        MPI_Aint disp = kind_disp(w, t, 16);
        MUST(MPI_Win_lock_all(0, w->win));
        wrong_put_get(w->win, t, disp);
        wrong_accumulate(w->win, t, disp);
        MUST(MPI_Win_unlock_all(w->win));
        wrong_epochs(w->win, t, disp);
        if (!lane_is_ours(w->win) || w->kind == KIND_DYNAMIC)
            continue;
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, t, 0, w->win));
        wrong_range(w->win, t, WORDS, w->disp_unit);
        MUST(MPI_Win_unlock(t, w->win));
    }
    same_all(w->win, w->base, w->size);
    still_works(w);
}

/* Of `kind`, every rank's memory and unit its own. Every third rank has none. */
static void test_uneven(enum kind kind) {
    static const int units[4] = {8, 1, 4, 2};
    size_t nwords[MAX_RANKS], size;
    void *memory = NULL;
    MPI_Win win;
    for (int r = 0; r < check_nranks; r++)
        nwords[r] = r % 3 == 1 ? 0 : (size_t)(r + 1) * WORDS / 2;
    size = 8 * nwords[check_rank];
    if (kind == KIND_CREATE) {
        CHECK(posix_memalign(&memory, 64, size + 64) == 0, "no memory");
        MUST(MPI_Win_create(size ? memory : NULL, (MPI_Aint)size, units[check_rank % 4],
                            MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    } else {
        void *base;
        MUST(MPI_Win_allocate((MPI_Aint)size, units[check_rank % 4], MPI_INFO_NULL, MPI_COMM_WORLD,
                              &base, &win));
        memory = base;
    }
    if (lane_is_ours(win)) {
        at_once = true;
        fill_all(win, memory, size);
        MUST(MPI_Win_lock_all(0, win));
        for (int t = 0; t < check_nranks; t++)
            wrong_range(win, t, (MPI_Aint)nwords[t], units[t % 4]);
        MUST(MPI_Win_unlock_all(win));
        same_all(win, memory, size);
    }
    MUST(MPI_Win_free(&win));
    if (kind == KIND_CREATE)
        free(memory);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "rma_errors");
    CHECK(check_nranks <= MAX_RANKS, "at most %d ranks", MAX_RANKS);
    MUST(MPI_Type_vector(2, 1, 2, L, &uncommitted));
    MUST(MPI_Type_create_indexed_block(2, 1, (int[]){-1, 1}, L, &before));
    MUST(MPI_Type_commit(&before));
    MUST(MPI_Type_vector(2, 1, 2, L, &spread));
    MUST(MPI_Type_commit(&spread));
    MUST(MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8},
                                (MPI_Datatype[]){L, MPI_INT32_T}, &record));
    MUST(MPI_Type_commit(&record));
    MUST(MPI_Op_create(add_up, 1, &user_op));
    MUST(MPI_Win_create_errhandler(on_error, &handler));
    for (int kind = 0; kind < NKINDS; kind++) {
        struct kind_win w;
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, SIZE, 8))
            continue;
        test_arguments(&w);
        kind_close(&w);
        if (check_rank == 0)
            printf("%s: %d cases\n", kind_names[kind], ncases);
    }
    test_uneven(KIND_ALLOCATE);
    test_uneven(KIND_CREATE);
    MUST(MPI_Type_free(&uncommitted));
    MUST(MPI_Type_free(&before));
    MUST(MPI_Type_free(&spread));
    MUST(MPI_Type_free(&record));
    MUST(MPI_Op_free(&user_op));
    MUST(MPI_Errhandler_free(&handler));
    return check_end();
}
