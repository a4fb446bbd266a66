/*
 * rma_nothing: a call that moves nothing is no error, whatever types are named on its sides.
 *
 * Every one-sided call with counts that take elements, on every flavour of window and under every
 * kind of epoch, for every pair of types: a count of 0, or a type of no bytes. Nothing is changed
 * anywhere. What is wrong even so stays an error: the rank, the type, the operation, no epoch.
 * Persistent collectives and partitioned messages of nothing likewise.
 */
#include "lane.h"
#include "win_kinds.h"

enum { BYTES = 64, NTYPES = 5, NOPS = 4 };

static MPI_Datatype types[NTYPES], uncommitted;
static MPI_Op user_op;
static const char *const type_names[NTYPES] = {"none", "one", "int", "double", "record"};
static char from[BYTES], into[BYTES];

static int class_of(int code) {
    int class;
    MUST(MPI_Error_class(code, &class));
    return class;
}

static void add_up(void *in, void *inout, int *n, MPI_Datatype *type) {
    (void)in, (void)inout, (void)n, (void)type;
}

/* ---- one-sided calls ---- */

enum call { PUT, GET, ACC, GETACC, RPUT, RGET, RACC, RGETACC, NCALLS };

static const char *const call_names[NCALLS] = {"put",  "get",  "accumulate",  "get_accumulate",
                                               "rput", "rget", "raccumulate", "rget_accumulate"};

/* What one side names, and how the call is made: it has no bytes on either side. */
struct nothing {
    int origin_count, target_count;
    MPI_Datatype origin, target;
    MPI_Op op;
    int rank;
    MPI_Aint disp;
};

/* The call, with counts of type int or MPI_Count. */
#define MAKE(suffix, count_t)                                                                      \
    static int make##suffix(enum call call, const struct nothing *n, MPI_Win win,                  \
                            MPI_Request *r) {                                                      \
        const count_t mine = n->origin_count, its = n->target_count;                               \
        MPI_Datatype a = n->origin, b = n->target;                                                 \
        switch (call) {                                                                            \
        case PUT:                                                                                  \
            return MPI_Put##suffix(from, mine, a, n->rank, n->disp, its, b, win);                  \
        case GET:                                                                                  \
            return MPI_Get##suffix(into, mine, a, n->rank, n->disp, its, b, win);                  \
        case ACC:                                                                                  \
            return MPI_Accumulate##suffix(from, mine, a, n->rank, n->disp, its, b, n->op, win);    \
        case GETACC:                                                                               \
            return MPI_Get_accumulate##suffix(from, mine, a, into, its, b, n->rank, n->disp, its,  \
                                              b, n->op, win);                                      \
        case RPUT:                                                                                 \
            return MPI_Rput##suffix(from, mine, a, n->rank, n->disp, its, b, win, r);              \
        case RGET:                                                                                 \
            return MPI_Rget##suffix(into, mine, a, n->rank, n->disp, its, b, win, r);              \
        case RACC:                                                                                 \
            return MPI_Raccumulate##suffix(from, mine, a, n->rank, n->disp, its, b, n->op, win,    \
                                           r);                                                     \
        default:                                                                                   \
            return MPI_Rget_accumulate##suffix(from, mine, a, into, its, b, n->rank, n->disp, its, \
                                               b, n->op, win, r);                                  \
        }                                                                                          \
    }
MAKE(, int)
#if CHECK_HAS_LARGE_COUNTS
MAKE(_c, MPI_Count)
#else
#define make_c make
#endif

static int make_and_wait(bool large, enum call call, const struct nothing *n, MPI_Win win) {
    MPI_Request r = MPI_REQUEST_NULL;
    int code = large ? make_c(call, n, win, &r) : make(call, n, win, &r);
    return code == MPI_SUCCESS ? MPI_Wait(&r, MPI_STATUS_IGNORE) : code;
}

static void moves_nothing(const struct nothing *n, MPI_Win win, const char *a, const char *b) {
    for (int call = 0; call < NCALLS; call++)
        for (int large = 0; large < 2; large++) {
            int class = class_of(make_and_wait(large, (enum call)call, n, win));
            CHECK(class == MPI_SUCCESS, "%s of %d x %s at %d x %s: class %d", call_names[call],
                  n->origin_count, a, n->target_count, b, class);
        }
}

/* All pairs of types; of those without bytes there may be one. */
static void every_pair(const struct kind_win *w, int rank, MPI_Op op) {
    for (int a = 0; a < NTYPES; a++)
        for (int b = 0; b < NTYPES; b++)
            for (int some = 0; some < 4; some++) {
                struct nothing n = {.origin_count = some % 2,
                                    .target_count = some / 2,
                                    .origin = types[a],
                                    .target = types[b],
                                    .op = op,
                                    .rank = rank,
                                    .disp =
                                        w->addresses != NULL && rank >= 0 ? w->addresses[rank] : 0};
                if ((n.origin_count == 0 || a == 0) && (n.target_count == 0 || b == 0))
                    moves_nothing(&n, w->win, type_names[a], type_names[b]);
            }
}

static void is_wrong(int want, enum call call, struct nothing n, MPI_Win win) {
    int class = class_of(make_and_wait(false, call, &n, win));
    CHECK(class == want, "%s of nothing: class %d, not %d", call_names[call], class, want);
}

static void wrong_even_so(const struct kind_win *w) {
    const MPI_Aint disp = w->addresses != NULL ? w->addresses[0] : 0;
    const struct nothing right = {0, 0, MPI_INT, MPI_DOUBLE, MPI_SUM, 0, disp};
    struct nothing n = right;
    for (int call = 0; call < NCALLS; call++) {
        n.rank = check_nranks;
        is_wrong(MPI_ERR_RANK, (enum call)call, n, w->win);
        n = right;
        n.origin = uncommitted;
        is_wrong(MPI_ERR_TYPE, (enum call)call, n, w->win);
        n = right;
        n.target = MPI_DATATYPE_NULL;
        is_wrong(MPI_ERR_TYPE, (enum call)call, n, w->win);
        n = right;
        n.origin_count = -1;
        is_wrong(MPI_ERR_COUNT, (enum call)call, n, w->win);
        n = right;
        if (call == ACC || call == GETACC || call == RACC || call == RGETACC) {
            n.op = MPI_OP_NULL;
            is_wrong(MPI_ERR_OP, (enum call)call, n, w->win);
            n.op = user_op;
            is_wrong(MPI_ERR_OP, (enum call)call, n, w->win);
            n = right;
        }
    }
}

static void no_epoch(const struct kind_win *w) {
    struct nothing n = {0, 0, MPI_INT, MPI_DOUBLE, MPI_SUM, 0, 0};
    for (int call = 0; call < NCALLS; call++)
        is_wrong(MPI_ERR_RMA_SYNC, (enum call)call, n, w->win);
}

static void test_window(enum kind kind) {
    const MPI_Op ops[NOPS] = {MPI_SUM, MPI_BAND, MPI_MINLOC, MPI_REPLACE};
    struct kind_win w;
    if (!kind_open(&w, kind, MPI_COMM_WORLD, BYTES, 4))
        return;
    memset(w.base, 1, BYTES);
    MUST(MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN));
    no_epoch(&w);
    MUST(MPI_Win_fence(0, w.win));
    every_pair(&w, (check_rank + 1) % check_nranks, MPI_SUM);
    MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    MUST(MPI_Win_lock_all(0, w.win));
    for (int op = 0; op < NOPS; op++)
        every_pair(&w, check_rank % 2 == 0 ? check_nranks - 1 : 0, ops[op]);
    every_pair(&w, MPI_PROC_NULL, MPI_SUM);
    wrong_even_so(&w);
    MUST(MPI_Win_unlock_all(w.win));
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win));
    every_pair(&w, 0, MPI_SUM);
    MUST(MPI_Win_unlock(0, w.win));
    check_barrier(MPI_COMM_WORLD);
    for (int i = 0; i < BYTES; i++)
        CHECK(w.base[i] == 1 && into[i] == 0, "byte %d has changed", i);
    kind_close(&w);
}

/* ---- requests ---- */

static void run(MPI_Request r) {
    for (int round = 0; round < 2; round++) {
        MUST(MPI_Start(&r));
        MUST(MPI_Wait(&r, MPI_STATUS_IGNORE));
    }
    MUST(MPI_Request_free(&r));
}

/* Not MPI_Allgather_init: MPICH 4.0.2 alone ends in an assertion of its datatypes there. */
static void test_persistent(MPI_Datatype a, MPI_Datatype b) {
    const int none[16] = {0};
    MPI_Request r;
    MUST(MPI_Alltoall_init(from, 0, a, into, 0, b, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    run(r);
    MUST(MPI_Allgatherv_init(from, 0, a, into, none, none, b, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    run(r);
    MUST(MPI_Scatter_init(from, 0, a, into, 0, b, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    run(r);
    MUST(MPI_Bcast_init(into, 0, check_rank == 0 ? a : b, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    run(r);
}

#if CHECK_HAS_SESSIONS
static void test_partitioned(MPI_Datatype a, MPI_Datatype b, int partitions) {
    const int to = (check_rank + 1) % check_nranks;
    const int by = (check_rank + check_nranks - 1) % check_nranks;
    MPI_Request r[2];
    MUST(MPI_Psend_init(from, partitions, 0, a, to, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &r[0]));
    MUST(MPI_Precv_init(into, 2, 0, b, by, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &r[1]));
    for (int round = 0; round < 2; round++) {
        MUST(MPI_Startall(2, r));
        for (int i = 0; i < partitions; i++)
            MUST(MPI_Pready(i, r[0]));
        MUST(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    }
    MUST(MPI_Request_free(&r[0]));
    MUST(MPI_Request_free(&r[1]));
}
#endif

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "rma_nothing");
    CHECK(check_nranks <= 16, "at most 16 ranks");
    MUST(MPI_Type_contiguous(0, MPI_INT, &types[0]));
    MUST(MPI_Type_contiguous(1, MPI_INT, &types[1]));
    types[2] = MPI_INT;
    types[3] = MPI_DOUBLE;
    MUST(MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8},
                                (MPI_Datatype[]){MPI_INT, MPI_DOUBLE}, &types[4]));
    MUST(MPI_Type_vector(2, 1, 2, MPI_INT, &uncommitted));
    MUST(MPI_Op_create(add_up, 1, &user_op));
    MUST(MPI_Type_commit(&types[0]));
    MUST(MPI_Type_commit(&types[1]));
    MUST(MPI_Type_commit(&types[4]));
    for (int kind = 0; kind < NKINDS; kind++)
        test_window((enum kind)kind);
    for (int a = 0; a < NTYPES; a++)
        for (int b = 0; b < NTYPES; b++) {
            test_persistent(types[a], types[b]);
#if CHECK_HAS_SESSIONS
            test_partitioned(types[a], types[b], 2);
            test_partitioned(types[a], types[b], 4);
#endif
        }
    for (int t = 0; t < NTYPES; t++)
        if (t < 2 || t == 4)
            MUST(MPI_Type_free(&types[t]));
    MUST(MPI_Type_free(&uncommitted));
    MUST(MPI_Op_free(&user_op));
    return check_end();
}
