/*
 * rma_accumulate: every predefined type with every op that the standard allows for it.
 *
 * Each rank accumulates into a vector at the right neighbour, fetches with get_accumulate and with
 * fetch_and_op, and compares with what plain C gives for the same numbers. Numbers are small, so
 * floating-point results are exact. MPI_MINLOC and MPI_MAXLOC run on their pair types.
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

/* One tester for a C type: target a, origin b. `groups` are the ops it has. */
#define TESTER(NAME, T, GROUPS)                                                                    \
    static T NAME##_apply(enum op op, T a, T b) {                                                  \
        switch (op) {                                                                              \
            GROUPS case REPLACE : return b;                                                        \
        case NO_OP:                                                                                \
            return a;                                                                              \
        default:                                                                                   \
            CHECK(false, "op %d is not for this type", (int)op);                                   \
        }                                                                                          \
    }                                                                                              \
    static void NAME##_test(MPI_Datatype type, const char *what, enum op op) {                     \
        T first[N], second[N], was[N], now[N], expect[N], single;                                  \
        MPI_Aint disp = kind_disp(&w, right, (size_t)check_rank * SLOT);                           \
        for (int i = 0; i < N; i++) {                                                              \
            first[i] = (T)((i * 5 + check_rank) % 11);                                             \
            second[i] = (T)((i * 3 + 2) % 7);                                                      \
            expect[i] = NAME##_apply(op, first[i], second[i]);                                     \
        }                                                                                          \
        memset(was, 0x77, sizeof was);                                                             \
        MUST(MPI_Accumulate(first, N, type, right, disp, N, type, MPI_REPLACE, w.win));            \
        if (op != NO_OP)                                                                           \
            MUST(MPI_Accumulate(second, N, type, right, disp, N, type, handle(op), w.win));        \
        MUST(MPI_Get_accumulate(second, N, type, was, N, type, right, disp, N, type, handle(op),   \
                                w.win));                                                           \
        MUST(MPI_Fetch_and_op(second, &single, type, right, disp, handle(op), w.win));             \
        MUST(MPI_Get_accumulate(NULL, 0, type, now, N, type, right, disp, N, type, MPI_NO_OP,      \
                                w.win));                                                           \
        MUST(MPI_Win_flush(right, w.win));                                                         \
        for (int i = 0; i < N; i++) {                                                              \
            T twice = NAME##_apply(op, expect[i], second[i]);                                      \
            T after = i == 0 ? NAME##_apply(op, twice, second[0]) : twice;                         \
            CHECK(was[i] == expect[i], "%s, op %d: [%d] before get_accumulate", what, (int)op, i); \
            CHECK(now[i] == after, "%s, op %d: [%d] at the end", what, (int)op, i);                \
            if (i == 0)                                                                            \
                CHECK(single == twice, "%s, op %d: fetch_and_op", what, (int)op);                  \
        }                                                                                          \
    }

/* Types as the standard groups them: C integer, floating point, logical, complex, byte. */
#define INTEGER(NAME, T) TESTER(NAME, T, ARITHMETIC(T) ORDER(T) LOGIC(T) BITS(T))
INTEGER(i8, int8_t)
INTEGER(u8, uint8_t)
INTEGER(i16, int16_t)
INTEGER(u16, uint16_t)
INTEGER(i32, int32_t)
INTEGER(u32, uint32_t)
INTEGER(i64, int64_t)
INTEGER(u64, uint64_t)
TESTER(f32, float, ARITHMETIC(float) ORDER(float))
TESTER(f64, double, ARITHMETIC(double) ORDER(double))
TESTER(f80, long double, ARITHMETIC(long double) ORDER(long double))
TESTER(c32, float complex, ARITHMETIC(float complex))
TESTER(c64, double complex, ARITHMETIC(double complex))
TESTER(boolean, bool, LOGIC(bool))
TESTER(byte, uint8_t, BITS(uint8_t))

#define ALL(NAME, TYPE, FROM, TO)                                                                  \
    do {                                                                                           \
        for (int op = FROM; op <= TO; op++)                                                        \
            NAME##_test(TYPE, #TYPE, (enum op)op);                                                 \
        NAME##_test(TYPE, #TYPE, REPLACE);                                                         \
        NAME##_test(TYPE, #TYPE, NO_OP);                                                           \
    } while (0)

static void test_types(void) {
    ALL(i8, MPI_INT8_T, SUM, BXOR);
    ALL(i8, MPI_SIGNED_CHAR, SUM, BXOR);
    ALL(u8, MPI_UINT8_T, SUM, BXOR);
    ALL(u8, MPI_UNSIGNED_CHAR, SUM, BXOR);
    ALL(i16, MPI_SHORT, SUM, BXOR);
    ALL(u16, MPI_UINT16_T, SUM, BXOR);
    ALL(i32, MPI_INT, SUM, BXOR);
    ALL(i32, MPI_INT32_T, SUM, BXOR);
    ALL(u32, MPI_UNSIGNED, SUM, BXOR);
    ALL(i64, MPI_LONG, SUM, BXOR);
    ALL(i64, MPI_INT64_T, SUM, BXOR);
    ALL(i64, MPI_AINT, SUM, MAX);
    ALL(i64, MPI_COUNT, SUM, MAX);
    ALL(i64, MPI_OFFSET, SUM, MAX);
    ALL(u64, MPI_UNSIGNED_LONG_LONG, SUM, BXOR);
    ALL(u64, MPI_UINT64_T, SUM, BXOR);
    ALL(f32, MPI_FLOAT, SUM, MAX);
    ALL(f64, MPI_DOUBLE, SUM, MAX);
    ALL(f80, MPI_LONG_DOUBLE, SUM, MAX);
    ALL(c32, MPI_C_FLOAT_COMPLEX, SUM, PROD);
    ALL(c64, MPI_C_DOUBLE_COMPLEX, SUM, PROD);
    ALL(boolean, MPI_C_BOOL, LAND, LXOR);
    ALL(byte, MPI_BYTE, BAND, BXOR);
}

/* Pairs: every rank offers its value and rank, at the last rank the extremes have to stay. */
static void test_pairs(void) {
    struct pair {
        double value;
        int index;
    } mine = {10.0 * ((check_rank * 7) % 5), check_rank}, got[2];
    struct ints {
        int value, index;
    } mine2 = {(check_rank * 7) % 5, check_rank}, got2;
    int last = check_nranks - 1;
    MPI_Aint extent = sizeof(struct pair);
    kind_clear(&w);
    struct pair start[2] = {{-1e9, -1}, {1e9, -1}};
    struct ints start2 = {1000, -1};
    MUST(MPI_Win_lock_all(0, w.win));
    if (check_rank == 0) {
        MUST(MPI_Put(start, 2, MPI_DOUBLE_INT, last, kind_disp(&w, last, 0), 2, MPI_DOUBLE_INT,
                     w.win));
        MUST(MPI_Put(&start2, 1, MPI_2INT, last, kind_disp(&w, last, 256), 1, MPI_2INT, w.win));
        MUST(MPI_Win_flush(last, w.win));
    }
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Accumulate(&mine, 1, MPI_DOUBLE_INT, last, kind_disp(&w, last, 0), 1, MPI_DOUBLE_INT,
                        MPI_MAXLOC, w.win));
    MUST(MPI_Accumulate(&mine, 1, MPI_DOUBLE_INT, last, kind_disp(&w, last, (size_t)extent), 1,
                        MPI_DOUBLE_INT, MPI_MINLOC, w.win));
    MUST(MPI_Accumulate(&mine2, 1, MPI_2INT, last, kind_disp(&w, last, 256), 1, MPI_2INT,
                        MPI_MINLOC, w.win));
    MUST(MPI_Win_flush(last, w.win));
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Get(got, 2, MPI_DOUBLE_INT, last, kind_disp(&w, last, 0), 2, MPI_DOUBLE_INT, w.win));
    MUST(MPI_Get(&got2, 1, MPI_2INT, last, kind_disp(&w, last, 256), 1, MPI_2INT, w.win));
    MUST(MPI_Win_unlock_all(w.win));
    int most = 0, least = 0;
    for (int r = 1; r < check_nranks; r++) {
        most = (r * 7) % 5 > (most * 7) % 5 ? r : most;
        least = (r * 7) % 5 < (least * 7) % 5 ? r : least;
    }
    CHECK(got[0].index == most && got[0].value == 10.0 * ((most * 7) % 5), "MAXLOC: %d",
          got[0].index);
    CHECK(got[1].index == least && got[1].value == 10.0 * ((least * 7) % 5), "MINLOC: %d",
          got[1].index);
    CHECK(got2.index == least && got2.value == (least * 7) % 5, "2INT MINLOC: %d", got2.index);
    check_barrier(MPI_COMM_WORLD);
}

/* Compare-and-swap on every size it has. */
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
    return check_end();
}
