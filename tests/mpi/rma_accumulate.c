/*
 * rma_accumulate: every predefined type with every operation that the standard allows for it.
 *
 * Each rank accumulates into a vector at the right neighbour, fetches with get_accumulate and with
 * fetch_and_op, and compares with what plain C gives for the same numbers. Numbers are small, so
 * floating-point results are exact. MPI_MINLOC and MPI_MAXLOC run on their pair types, and
 * compare-and-swap on words of every size. Long vectors are accumulated by all ranks at once.
 */
#include "win_kinds.h"
#include <complex.h>

enum { N = 7, SLOT = 512 };

static struct kind_win w;
static int right;

enum op { SUM, PROD, MIN, MAX, LAND, LOR, LXOR, BAND, BOR, BXOR, REPLACE, NO_OP, NOPS };

static MPI_Op handle(enum op op) {
    const MPI_Op handles[NOPS] = {MPI_SUM,  MPI_PROD, MPI_MIN, MPI_MAX,  MPI_LAND,    MPI_LOR,
                                  MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_REPLACE, MPI_NO_OP};
    return handles[op];
}

/* What the operations do, as cases of a switch: target a, origin b. */
#define ARITHMETIC(T)                                                                              \
    case SUM:                                                                                      \
        return (T)(a + b);                                                                         \
    case PROD:                                                                                     \
        return (T)(a * b);
#define ORDER(T)                                                                                   \
    case MIN:                                                                                      \
        return a < b ? a : b;                                                                      \
    case MAX:                                                                                      \
        return a > b ? a : b;
#define LOGIC(T)                                                                                   \
    case LAND:                                                                                     \
        return (T)(a && b);                                                                        \
    case LOR:                                                                                      \
        return (T)(a || b);                                                                        \
    case LXOR:                                                                                     \
        return (T)(!a != !b);
#define BITS(T)                                                                                    \
    case BAND:                                                                                     \
        return (T)(a & b);                                                                         \
    case BOR:                                                                                      \
        return (T)(a | b);                                                                         \
    case BXOR:                                                                                     \
        return (T)(a ^ b);

/* What a C type does with the elements of its vectors. */
struct c_type {
    void (*set)(void *vector, int i, int value);
    /* Element i of target becomes what op makes of it and of element i of origin. */
    void (*apply)(enum op op, void *target, const void *origin, int i);
    bool (*equal)(const void *one, const void *other, int i);
};

/* OPS: the cases of the groups of operations that the type has. */
#define C_TYPE(NAME, T, OPS)                                                                       \
    static T NAME##_result(enum op op, T a, T b) {                                                 \
        switch (op) {                                                                              \
            OPS case REPLACE : return b;                                                           \
        case NO_OP:                                                                                \
            return a;                                                                              \
        default:                                                                                   \
            CHECK(false, "op %d is not for this type", (int)op);                                   \
        }                                                                                          \
    }                                                                                              \
    static void NAME##_apply(enum op op, void *target, const void *origin, int i) {                \
        ((T *)target)[i] = NAME##_result(op, ((T *)target)[i], ((const T *)origin)[i]);            \
    }                                                                                              \
    static void NAME##_set(void *vector, int i, int value) {                                       \
        ((T *)vector)[i] = (T)value;                                                               \
    }                                                                                              \
    static bool NAME##_equal(const void *one, const void *other, int i) {                          \
        return ((const T *)one)[i] == ((const T *)other)[i];                                       \
    }                                                                                              \
    static const struct c_type NAME = {NAME##_set, NAME##_apply, NAME##_equal};

/* Types as the standard groups them: C integer, floating point, complex, logical, byte. */
#define INTEGER(NAME, T) C_TYPE(NAME, T, ARITHMETIC(T) ORDER(T) LOGIC(T) BITS(T))
INTEGER(i8, int8_t)
INTEGER(u8, uint8_t)
INTEGER(i16, int16_t)
INTEGER(u16, uint16_t)
INTEGER(i32, int32_t)
INTEGER(u32, uint32_t)
INTEGER(i64, int64_t)
INTEGER(u64, uint64_t)
C_TYPE(f32, float, ARITHMETIC(float) ORDER(float))
C_TYPE(f64, double, ARITHMETIC(double) ORDER(double))
C_TYPE(f80, long double, ARITHMETIC(long double) ORDER(long double))
C_TYPE(c32, float complex, ARITHMETIC(float complex))
C_TYPE(c64, double complex, ARITHMETIC(double complex))
C_TYPE(boolean, bool, LOGIC(bool))
C_TYPE(byte, uint8_t, BITS(uint8_t))

/* A predefined type, and the operations that it has beside REPLACE and NO_OP. */
struct tested {
    MPI_Datatype type;
    const char *name;
    const struct c_type *c;
    enum op first, last;
};

/* N elements of any type. */
struct vector {
    _Alignas(16) unsigned char at[N * 16];
};

/* What accumulate() fetches on its way. */
struct found {
    struct vector between; /* before the get_accumulate */
    struct vector single;  /* the first element, before the fetch_and_op */
    struct vector end;
};

/* Sets the slot of this rank at the right neighbour to start, then applies operand: to all elements
 * twice, and to the first one once more. */
static void accumulate(const struct tested *t, enum op op, const struct vector *start,
                       const struct vector *operand, struct found *found) {
    const MPI_Datatype type = t->type;
    const MPI_Aint disp = kind_disp(&w, right, (size_t)check_rank * SLOT);
    MUST(MPI_Accumulate(start, N, type, right, disp, N, type, MPI_REPLACE, w.win));
    if (op != NO_OP)
        MUST(MPI_Accumulate(operand, N, type, right, disp, N, type, handle(op), w.win));
    MUST(MPI_Get_accumulate(operand, N, type, &found->between, N, type, right, disp, N, type,
                            handle(op), w.win));
    MUST(MPI_Fetch_and_op(operand, &found->single, type, right, disp, handle(op), w.win));
    MUST(MPI_Get_accumulate(NULL, 0, type, &found->end, N, type, right, disp, N, type, MPI_NO_OP,
                            w.win));
    MUST(MPI_Win_flush(right, w.win));
}

static void test_op(const struct tested *t, enum op op) {
    const struct c_type *c = t->c;
    struct vector start, operand, expected;
    struct found found;
    memset(&found, 0x77, sizeof found);
    for (int i = 0; i < N; i++) {
        c->set(&start, i, (i * 5 + check_rank) % 11);
        c->set(&operand, i, (i * 3 + 2) % 7);
    }
    accumulate(t, op, &start, &operand, &found);
    expected = start;
    for (int i = 0; i < N; i++) {
        c->apply(op, &expected, &operand, i);
        CHECK(c->equal(&found.between, &expected, i), "%s, op %d: [%d] before get_accumulate",
              t->name, (int)op, i);
        c->apply(op, &expected, &operand, i);
        if (i == 0) {
            CHECK(c->equal(&found.single, &expected, 0), "%s, op %d: fetch_and_op", t->name,
                  (int)op);
            c->apply(op, &expected, &operand, 0);
        }
        CHECK(c->equal(&found.end, &expected, i), "%s, op %d: [%d] at the end", t->name, (int)op,
              i);
    }
}

static void test_types(void) {
#define TYPE(C, HANDLE, FIRST, LAST)                                                               \
    { HANDLE, #HANDLE, &C, FIRST, LAST }
    const struct tested types[] = {
        TYPE(i8, MPI_INT8_T, SUM, BXOR),
        TYPE(i8, MPI_SIGNED_CHAR, SUM, BXOR),
        TYPE(u8, MPI_UINT8_T, SUM, BXOR),
        TYPE(u8, MPI_UNSIGNED_CHAR, SUM, BXOR),
        TYPE(i16, MPI_SHORT, SUM, BXOR),
        TYPE(u16, MPI_UINT16_T, SUM, BXOR),
        TYPE(i32, MPI_INT, SUM, BXOR),
        TYPE(i32, MPI_INT32_T, SUM, BXOR),
        TYPE(u32, MPI_UNSIGNED, SUM, BXOR),
        TYPE(i64, MPI_LONG, SUM, BXOR),
        TYPE(i64, MPI_INT64_T, SUM, BXOR),
        TYPE(i64, MPI_AINT, SUM, MAX),
        TYPE(i64, MPI_COUNT, SUM, MAX),
        TYPE(i64, MPI_OFFSET, SUM, MAX),
        TYPE(u64, MPI_UNSIGNED_LONG_LONG, SUM, BXOR),
        TYPE(u64, MPI_UINT64_T, SUM, BXOR),
        TYPE(f32, MPI_FLOAT, SUM, MAX),
        TYPE(f64, MPI_DOUBLE, SUM, MAX),
        TYPE(f80, MPI_LONG_DOUBLE, SUM, MAX),
        TYPE(c32, MPI_C_FLOAT_COMPLEX, SUM, PROD),
        TYPE(c64, MPI_C_DOUBLE_COMPLEX, SUM, PROD),
        TYPE(boolean, MPI_C_BOOL, LAND, LXOR),
        TYPE(byte, MPI_BYTE, BAND, BXOR),
    };
#undef TYPE
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        for (int op = (int)types[i].first; op <= (int)types[i].last; op++)
            test_op(&types[i], (enum op)op);
        test_op(&types[i], REPLACE);
        test_op(&types[i], NO_OP);
    }
}

/* Pairs of a value and a rank. Each rank offers its own at the last rank: a maximum and a minimum
 * of MPI_DOUBLE_INT, and behind them a minimum of MPI_2INT. */
struct double_int {
    double value;
    int index;
};
struct two_ints {
    int value, index;
};
enum { MAXIMUM = 0, MINIMUM = sizeof(struct double_int), MINIMUM_INTS = 256 };

static int offered(int rank) {
    return (rank * 7) % 5;
}

static void begin_pairs(int last) {
    const struct double_int doubles[2] = {{-1e9, -1}, {1e9, -1}};
    const struct two_ints ints = {1000, -1};
    MUST(MPI_Put(doubles, 2, MPI_DOUBLE_INT, last, kind_disp(&w, last, MAXIMUM), 2, MPI_DOUBLE_INT,
                 w.win));
    MUST(MPI_Put(&ints, 1, MPI_2INT, last, kind_disp(&w, last, MINIMUM_INTS), 1, MPI_2INT, w.win));
    MUST(MPI_Win_flush(last, w.win));
}

static void offer_pairs(int last) {
    const struct double_int mine = {10.0 * offered(check_rank), check_rank};
    const struct two_ints ints = {offered(check_rank), check_rank};
    MUST(MPI_Accumulate(&mine, 1, MPI_DOUBLE_INT, last, kind_disp(&w, last, MAXIMUM), 1,
                        MPI_DOUBLE_INT, MPI_MAXLOC, w.win));
    MUST(MPI_Accumulate(&mine, 1, MPI_DOUBLE_INT, last, kind_disp(&w, last, MINIMUM), 1,
                        MPI_DOUBLE_INT, MPI_MINLOC, w.win));
    MUST(MPI_Accumulate(&ints, 1, MPI_2INT, last, kind_disp(&w, last, MINIMUM_INTS), 1, MPI_2INT,
                        MPI_MINLOC, w.win));
    MUST(MPI_Win_flush(last, w.win));
}

static void test_pairs(void) {
    const int last = check_nranks - 1;
    struct double_int got[2];
    struct two_ints ints;
    kind_clear(&w);
    MUST(MPI_Win_lock_all(0, w.win));
    if (check_rank == 0)
        begin_pairs(last);
    check_barrier(MPI_COMM_WORLD);
    offer_pairs(last);
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Get(got, 2, MPI_DOUBLE_INT, last, kind_disp(&w, last, MAXIMUM), 2, MPI_DOUBLE_INT,
                 w.win));
    MUST(MPI_Get(&ints, 1, MPI_2INT, last, kind_disp(&w, last, MINIMUM_INTS), 1, MPI_2INT, w.win));
    MUST(MPI_Win_unlock_all(w.win));
    int most = 0, least = 0; /* of equal values the one of the lowest rank stays */
    for (int r = 1; r < check_nranks; r++) {
        most = offered(r) > offered(most) ? r : most;
        least = offered(r) < offered(least) ? r : least;
    }
    CHECK(got[0].index == most && got[0].value == 10.0 * offered(most), "MAXLOC: %d", got[0].index);
    CHECK(got[1].index == least && got[1].value == 10.0 * offered(least), "MINLOC: %d",
          got[1].index);
    CHECK(ints.index == least && ints.value == offered(least), "2INT MINLOC: %d", ints.index);
    check_barrier(MPI_COMM_WORLD);
}

/* Compare-and-swap on words of every size. */
#define SWAP(T, TYPE)                                                                              \
    do {                                                                                           \
        T zero = 0, mine = (T)(check_rank + 5), other = 99, was[3];                                \
        MPI_Aint disp = kind_disp(&w, right, (size_t)check_rank * SLOT);                           \
        MUST(MPI_Accumulate(&zero, 1, TYPE, right, disp, 1, TYPE, MPI_REPLACE, w.win));            \
        MUST(MPI_Compare_and_swap(&mine, &zero, &was[0], TYPE, right, disp, w.win));               \
        MUST(MPI_Compare_and_swap(&other, &zero, &was[1], TYPE, right, disp, w.win));              \
        MUST(MPI_Compare_and_swap(&other, &mine, &was[2], TYPE, right, disp, w.win));              \
        MUST(MPI_Win_flush(right, w.win));                                                         \
        CHECK(was[0] == 0 && was[1] == mine && was[2] == mine, #TYPE ": %d %d %d", (int)was[0],    \
              (int)was[1], (int)was[2]);                                                           \
        MUST(MPI_Fetch_and_op(NULL, &was[0], TYPE, right, disp, MPI_NO_OP, w.win));                \
        MUST(MPI_Win_flush(right, w.win));                                                         \
        CHECK(was[0] == other, #TYPE ": %d", (int)was[0]);                                         \
    } while (0)

static void test_swaps(void) {
    SWAP(int8_t, MPI_INT8_T);
    SWAP(uint16_t, MPI_UINT16_T);
    SWAP(int32_t, MPI_INT);
    SWAP(uint32_t, MPI_UINT32_T);
    SWAP(int64_t, MPI_INT64_T);
    SWAP(uint64_t, MPI_UNSIGNED_LONG);
    SWAP(uint8_t, MPI_BYTE);
    SWAP(bool, MPI_C_BOOL);
}

/* Long vectors, contended by all ranks: no element may lose an addition. */
static void test_long(void) {
    enum { LONG = 20000 };
    struct kind_win big;
    int64_t *add = malloc(LONG * 8), *got = malloc(LONG * 8);
    CHECK(kind_open(&big, KIND_ALLOCATE, MPI_COMM_WORLD, LONG * 8, 8), "no window");
    for (int i = 0; i < LONG; i++)
        add[i] = i;
    MUST(MPI_Win_lock_all(0, big.win));
    for (int round = 0; round < 3; round++)
        MUST(MPI_Accumulate(add, LONG, MPI_INT64_T, 0, 0, LONG, MPI_INT64_T, MPI_SUM, big.win));
    MUST(MPI_Win_flush(0, big.win));
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Get_accumulate(NULL, 0, MPI_INT64_T, got, LONG, MPI_INT64_T, 0, 0, LONG, MPI_INT64_T,
                            MPI_NO_OP, big.win));
    MUST(MPI_Win_unlock_all(big.win));
    for (int64_t i = 0; i < LONG; i++)
        CHECK(got[i] == 3 * i * check_nranks, "[%d] is %lld", (int)i, (long long)got[i]);
    kind_close(&big);
    free(add);
    free(got);
}

/* A long run, then one element of it, again and again, in two types, at places that no word begins
 * at; every other column of a matrix; and all of it by request. What comes later is done later. */
static void test_long_order(void) {
    enum { LONG = 150001, COLUMN = 3000 };
    struct kind_win big;
    MPI_Datatype column;
    double *set = malloc(LONG * sizeof(*set));
    unsigned char *bytes = calloc(LONG, 1);
    MPI_Request requests[2];
    CHECK(kind_open(&big, KIND_CREATE, MPI_COMM_WORLD, (LONG + 1) * 8, 1), "no window");
    MUST(MPI_Type_vector(3, COLUMN, 2 * COLUMN, MPI_DOUBLE, &column));
    MUST(MPI_Type_commit(&column));
    MUST(MPI_Win_lock_all(0, big.win));
    for (int round = 0; round < 5; round++) {
        const double one = 0.5;
        for (int i = 0; i < LONG; i++)
            set[i] = i + round;
        MUST(MPI_Accumulate(set, LONG, MPI_DOUBLE, right, 3, LONG, MPI_DOUBLE, MPI_REPLACE,
                            big.win));
        for (int i = 0; i < 10; i++)
            MUST(MPI_Accumulate(&one, 1, MPI_DOUBLE, right, 3 + 8 * (LONG - 1 - i), 1, MPI_DOUBLE,
                                MPI_SUM, big.win));
        MUST(MPI_Raccumulate(set, 3 * COLUMN, MPI_DOUBLE, right, 3, 1, column, MPI_SUM, big.win,
                             &requests[0]));
        MUST(MPI_Raccumulate(bytes, LONG, MPI_UNSIGNED_CHAR, right, 0, LONG, MPI_UNSIGNED_CHAR,
                             MPI_BOR, big.win, &requests[1]));
        MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        MUST(MPI_Win_flush(right, big.win));
    }
    check_barrier(MPI_COMM_WORLD);
    for (int i = 0; i < LONG; i++) {
        const int row = i / (2 * COLUMN), in_row = i % (2 * COLUMN);
        double got, want = i + 4;
        memcpy(&got, (unsigned char *)big.base + 3 + 8 * (size_t)i, sizeof(got));
        if (row < 3 && in_row < COLUMN)
            want += row * COLUMN + in_row + 4;
        if (i >= LONG - 10)
            want += 0.5;
        CHECK(got == want, "[%d] is %g, not %g", i, got, want);
    }
    MUST(MPI_Win_unlock_all(big.win));
    MUST(MPI_Type_free(&column));
    kind_close(&big);
    free(set);
    free(bytes);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "rma_accumulate");
    right = (check_rank + 1) % check_nranks;
    for (int kind = 0; kind < NKINDS; kind++) {
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, (size_t)check_nranks * SLOT + SLOT, 1))
            continue;
        MUST(MPI_Win_lock_all(0, w.win));
        test_types();
        test_swaps();
        MUST(MPI_Win_unlock_all(w.win));
        test_pairs();
        kind_close(&w);
    }
    test_long();
    test_long_order();
    return check_end();
}
