/* Reductions against scalar C, without an MPI: integers of each width and sign, floating point,
 * complex, logical and pair types, at every length around a vector's, at any address. The host MPI
 * as the oracle for all pairs of operation and type is in tests/mpi/reduction.c. */
#include <complex.h>
#include <limits.h>
#include <math.h>

#include "check.h"
#include "host/reduction.h"

#define MOST 70 /* more than four vectors of bytes and a rest */

static const size_t lengths[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, MOST};
#define NLENGTHS (sizeof lengths / sizeof lengths[0])

static uint64_t draw(void) {
    static uint64_t state = 20261121;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33 ^ state << 20;
}

/* Every length at every misalignment: the n elements as wanted, the bytes around them untouched. */
#define CASE(name, T, mpi_op, mpi_type, sample, wanted)                                            \
    static void name(void **state) {                                                               \
        (void)state;                                                                               \
        tug_reduction reduce = tug_reduction_find(mpi_op, mpi_type);                               \
        assert_non_null(reduce);                                                                   \
        for (size_t shift = 0; shift < sizeof(T); shift++) {                                       \
            for (size_t l = 0; l < NLENGTHS; l++) {                                                \
                unsigned char to[(MOST + 2) * sizeof(T)], from[sizeof to], expect[sizeof to];      \
                for (size_t i = 0; i < sizeof to; i++)                                             \
                    to[i] = from[i] = expect[i] = (unsigned char)draw();                           \
                for (size_t i = 0; i < lengths[l]; i++) {                                          \
                    T a = (T)(sample), b = (T)(sample), c = (T)(wanted);                           \
                    memcpy(to + shift + i * sizeof(T), &a, sizeof(T));                             \
                    memcpy(from + shift + i * sizeof(T), &b, sizeof(T));                           \
                    memcpy(expect + shift + i * sizeof(T), &c, sizeof(T));                         \
                }                                                                                  \
                reduce(to + shift, from + shift, lengths[l]);                                      \
                assert_memory_equal(to, expect, sizeof to);                                        \
            }                                                                                      \
        }                                                                                          \
    }

#define RANDOM draw()
#define FEW (draw() % 3) /* equal ones and zeros among them */
#define FRACTION ((double)(int64_t)draw() / 3.0)
#define COMPLEX_FRACTION (FRACTION + I * FRACTION)

#define CASES(X)                                                                                   \
    X(i8_max, int8_t, MPI_MAX, MPI_SIGNED_CHAR, RANDOM, a > b ? a : b)                             \
    X(u8_max, uint8_t, MPI_MAX, MPI_UNSIGNED_CHAR, RANDOM, a > b ? a : b)                          \
    X(u8_prod, uint8_t, MPI_PROD, MPI_UINT8_T, RANDOM, (a * b))                                    \
    X(char_min, char, MPI_MIN, MPI_CHAR, RANDOM, a < b ? a : b)                                    \
    X(i16_min, int16_t, MPI_MIN, MPI_SHORT, RANDOM, a < b ? a : b)                                 \
    X(u16_min, uint16_t, MPI_MIN, MPI_UNSIGNED_SHORT, RANDOM, a < b ? a : b)                       \
    X(u16_prod, uint16_t, MPI_PROD, MPI_UINT16_T, RANDOM, ((uint32_t)a * b))                       \
    X(i32_max, int32_t, MPI_MAX, MPI_INT, RANDOM, a > b ? a : b)                                   \
    X(i32_sum, int32_t, MPI_SUM, MPI_INTEGER, RANDOM, (uint32_t)a + (uint32_t)b)                   \
    X(u32_max, uint32_t, MPI_MAX, MPI_UNSIGNED, RANDOM, a > b ? a : b)                             \
    X(i32_land, int32_t, MPI_LAND, MPI_INT32_T, FEW, (a && b))                                     \
    X(i32_lxor, int32_t, MPI_LXOR, MPI_INT, FEW, !a != !b)                                         \
    X(i64_min, int64_t, MPI_MIN, MPI_AINT, RANDOM, a < b ? a : b)                                  \
    X(i64_sum, int64_t, MPI_SUM, MPI_COUNT, RANDOM, (uint64_t)a + (uint64_t)b)                     \
    X(i64_prod, int64_t, MPI_PROD, MPI_OFFSET, RANDOM, ((uint64_t)a * (uint64_t)b))                \
    X(u64_sum, uint64_t, MPI_SUM, MPI_UINT64_T, RANDOM, a + b)                                     \
    X(u64_min, uint64_t, MPI_MIN, MPI_UNSIGNED_LONG, RANDOM, a < b ? a : b)                        \
    X(u64_lor, uint64_t, MPI_LOR, MPI_UNSIGNED_LONG_LONG, FEW, a || b)                             \
    X(byte_band, uint8_t, MPI_BAND, MPI_BYTE, RANDOM, (a & b))                                     \
    X(i64_bor, int64_t, MPI_BOR, MPI_LONG_LONG, RANDOM, a | b)                                     \
    X(i16_bxor, int16_t, MPI_BXOR, MPI_INTEGER2, RANDOM, a ^ b)                                    \
    X(bool_lxor, uint8_t, MPI_LXOR, MPI_C_BOOL, FEW, !a != !b)                                     \
    X(logical_land, int32_t, MPI_LAND, MPI_LOGICAL, FEW, (a && b))                                 \
    X(float_sum, float, MPI_SUM, MPI_FLOAT, FRACTION, a + b)                                       \
    X(float_min, float, MPI_MIN, MPI_REAL, FRACTION, a < b ? a : b)                                \
    X(double_sum, double, MPI_SUM, MPI_DOUBLE, FRACTION, a + b)                                    \
    X(double_prod, double, MPI_PROD, MPI_DOUBLE_PRECISION, FRACTION, (a * b))                      \
    X(double_max, double, MPI_MAX, MPI_REAL8, FRACTION, a > b ? a : b)                             \
    X(complex_sum, float complex, MPI_SUM, MPI_C_COMPLEX, COMPLEX_FRACTION, a + b)                 \
    X(complex_prod, double complex, MPI_PROD, MPI_C_DOUBLE_COMPLEX, COMPLEX_FRACTION, (a * b))     \
    X(fortran_prod, double complex, MPI_PROD, MPI_DOUBLE_COMPLEX, COMPLEX_FRACTION, (a * b))       \
    X(wide_replace, int32_t, MPI_REPLACE, MPI_WCHAR, RANDOM, b)                                    \
    X(packed_replace, char, MPI_REPLACE, MPI_PACKED, RANDOM, b)                                    \
    X(complex_replace, double complex, MPI_REPLACE, MPI_CXX_DOUBLE_COMPLEX, FRACTION, b)           \
    X(double_no_op, double, MPI_NO_OP, MPI_DOUBLE, FRACTION, a)

CASES(CASE)

static void long_double_by_value(void **state) {
    (void)state;
    long double a[3] = {1.0L / 3, -2, 5}, b[3] = {2.0L / 7, -3, 4};
    tug_reduction_find(MPI_PROD, MPI_LONG_DOUBLE)(a, b, 3);
    assert_true(a[0] == 1.0L / 3 * (2.0L / 7) && a[1] == 6 && a[2] == 20);
    tug_reduction_find(MPI_MIN, MPI_LONG_DOUBLE)(a, b, 3);
    assert_true(a[0] == 1.0L / 3 * (2.0L / 7) && a[1] == -3 && a[2] == 4);
    tug_reduction_find(MPI_REPLACE, MPI_LONG_DOUBLE)(a, b, 3);
    assert_true(a[0] == b[0] && a[1] == b[1] && a[2] == b[2]);
}

#ifdef __SIZEOF_FLOAT128__
static void quad_by_value(void **state) {
    (void)state;
    __float128 third = (__float128)1 / 3, a[] = {third, third, -third}, b[] = {1, 3, third};
    tug_reduction_find(MPI_SUM, MPI_REAL16)(a, b, 1);
    tug_reduction_find(MPI_PROD, MPI_REAL16)(a + 1, b + 1, 1);
    tug_reduction_find(MPI_MAX, MPI_REAL16)(a + 2, b + 2, 1);
    assert_true(a[0] == third + 1 && a[1] == third * 3 && a[2] == third);
}
#endif

/* Pairs have gaps, whose bytes must stay. */
#define PAIR_CASE(name, T, Index, mpi_type)                                                        \
    static void name(void **state) {                                                               \
        (void)state;                                                                               \
        struct pair {                                                                              \
            T value;                                                                               \
            Index index;                                                                           \
        };                                                                                         \
        const struct pair ours[] = {{3, 5}, {3, 5}, {3, 5}, {3, 5}, {-1, 0}};                      \
        const struct pair theirs[] = {{4, 9}, {2, 1}, {3, 4}, {3, 6}, {-1, 0}};                    \
        const struct pair largest[] = {{4, 9}, {3, 5}, {3, 4}, {3, 5}, {-1, 0}};                   \
        const struct pair smallest[] = {{3, 5}, {2, 1}, {3, 4}, {3, 5}, {-1, 0}};                  \
        check_pairs(MPI_MAXLOC, mpi_type, ours, theirs, largest, sizeof(struct pair), sizeof(T),   \
                    offsetof(struct pair, index), sizeof(Index));                                  \
        check_pairs(MPI_MINLOC, mpi_type, ours, theirs, smallest, sizeof(struct pair), sizeof(T),  \
                    offsetof(struct pair, index), sizeof(Index));                                  \
        check_pairs(MPI_REPLACE, mpi_type, ours, theirs, theirs, sizeof(struct pair), sizeof(T),   \
                    offsetof(struct pair, index), sizeof(Index));                                  \
    }

#define NPAIRS 5

static void check_pairs(MPI_Op op, MPI_Datatype type, const void *ours, const void *theirs,
                        const void *wanted, size_t extent, size_t value, size_t at, size_t index) {
    unsigned char to[NPAIRS * 32 + 1], from[sizeof to], expect[sizeof to];
    tug_reduction reduce = tug_reduction_find(op, type);
    assert_non_null(reduce);
    memset(to, 0xa5, sizeof to);
    memset(from, 0x5a, sizeof from);
    memset(expect, 0xa5, sizeof expect);
    for (size_t i = 0; i < NPAIRS; i++) {
        size_t here = i * extent + 1, fields[][2] = {{0, value}, {at, index}};
        for (int f = 0; f < 2; f++) {
            size_t field = fields[f][0], size = fields[f][1];
            memcpy(to + here + field, (const char *)ours + i * extent + field, size);
            memcpy(from + here + field, (const char *)theirs + i * extent + field, size);
            memcpy(expect + here + field, (const char *)wanted + i * extent + field, size);
        }
    }
    reduce(to + 1, from + 1, NPAIRS);
    assert_memory_equal(to, expect, sizeof to);
}

#define PAIRS(X)                                                                                   \
    X(double_int, double, int, MPI_DOUBLE_INT)                                                     \
    X(float_int, float, int, MPI_FLOAT_INT)                                                        \
    X(long_int, long, int, MPI_LONG_INT)                                                           \
    X(short_int, short, int, MPI_SHORT_INT)                                                        \
    X(two_ints, int, int, MPI_2INT)                                                                \
    X(two_integers, int, int, MPI_2INTEGER)                                                        \
    X(two_reals, float, float, MPI_2REAL)                                                          \
    X(two_doubles, double, double, MPI_2DOUBLE_PRECISION)

PAIRS(PAIR_CASE)

static void zeros_infinities_and_nan(void **state) {
    (void)state;
    double to[] = {0.0, -0.0, NAN, 1.0}, from[] = {-0.0, 0.0, 1.0, NAN};
    tug_reduction_find(MPI_MAX, MPI_DOUBLE)(to, from, 4);
    assert_true(signbit(to[0]) && !signbit(to[1]) && to[2] == 1.0 && isnan(to[3]));
    double c[] = {INFINITY, INFINITY}, fortran[] = {INFINITY, INFINITY}, one[] = {1.0, 0.0};
    tug_reduction_find(MPI_PROD, MPI_C_DOUBLE_COMPLEX)(c, one, 1);
    tug_reduction_find(MPI_PROD, MPI_DOUBLE_COMPLEX)(fortran, one, 1);
    assert_true(isinf(c[0]) && isinf(c[1]) && isnan(fortran[0]) && isnan(fortran[1]));
}

static void a_vector_with_itself(void **state) {
    (void)state;
    uint64_t both[MOST];
    for (size_t i = 0; i < MOST; i++)
        both[i] = i;
    tug_reduction_find(MPI_SUM, MPI_UINT64_T)(both, both, MOST);
    tug_reduction_find(MPI_REPLACE, MPI_UINT64_T)(both, both, MOST);
    for (size_t i = 0; i < MOST; i++)
        assert_int_equal(both[i], 2 * i);
}

static void nothing_at_nowhere(void **state) {
    (void)state;
    const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_LAND, MPI_REPLACE, MPI_NO_OP};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        tug_reduction_find(ops[i], MPI_LONG)(NULL, NULL, 0);
    tug_reduction_find(MPI_MAXLOC, MPI_SHORT_INT)(NULL, NULL, 0);
    tug_reduction_find(MPI_REPLACE, MPI_SHORT_INT)(NULL, NULL, 0);
}

static void what_does_not_go_together(void **state) {
    (void)state;
    const struct {
        MPI_Op op;
        MPI_Datatype type;
    } pairs[] = {
        {MPI_SUM, MPI_BYTE},
        {MPI_MAX, MPI_C_BOOL},
        {MPI_BAND, MPI_C_BOOL},
        {MPI_SUM, MPI_LOGICAL},
        {MPI_BXOR, MPI_FLOAT},
        {MPI_LAND, MPI_DOUBLE},
        {MPI_MAX, MPI_C_COMPLEX},
        {MPI_LOR, MPI_DOUBLE_COMPLEX},
        {MPI_MINLOC, MPI_INT},
        {MPI_SUM, MPI_2INT},
        {MPI_MAX, MPI_DOUBLE_INT},
        {MPI_SUM, MPI_WCHAR},
        {MPI_BOR, MPI_PACKED},
        {MPI_REPLACE, MPI_LB},
        {MPI_OP_NULL, MPI_INT},
        {MPI_SUM, MPI_DATATYPE_NULL},
        {MPI_SUM, 0},
        {0, MPI_INT},
        {-1, MPI_INT},
        {MPI_SUM, -1},
        {MPI_SUM + 256, MPI_INT},
        {MPI_SUM, MPI_INT + 256},
        {MPI_MAXLOC, MPI_SHORT_INT + 256},
        {(MPI_Op)0x98000003, MPI_INT},
        {MPI_SUM, (MPI_Datatype)0xcc000005},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        assert_null(tug_reduction_find(pairs[i].op, pairs[i].type));
}

int main(void) {
#define AND_TEST(name, ...) , cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_double_by_value),
#ifdef __SIZEOF_FLOAT128__
        cmocka_unit_test(quad_by_value),
#endif
        cmocka_unit_test(zeros_infinities_and_nan),
        cmocka_unit_test(a_vector_with_itself),
        cmocka_unit_test(nothing_at_nowhere),
        cmocka_unit_test(what_does_not_go_together) CASES(AND_TEST) PAIRS(AND_TEST),
    };
    return cmocka_run_group_tests_name("reduction", tests, NULL, NULL);
}
