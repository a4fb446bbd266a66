/* Three layers: kernels, one for each operation of each arithmetic (signed 32-bit, double complex,
 * ...); rows of kernels, one for each arithmetic, indexed by the operation; slots, one for each
 * type, that name a row.
 *
 * A slot keeps the handle as well: derived types share the slots of predefined ones.
 *
 * Integers are added and multiplied without sign: the same bits, and no overflow is undefined.
 * Pairs of operation and type that the host has beyond MPI's table (MPI_CHAR as an integer) are
 * here too, except logic on floating point: the host accepts it, and then aborts or does nothing.
 *
 * Results are the host's to the bit, except where MPICH 4.0.2 is wrong: it finds the maximum and
 * the minimum of unsigned integers as if they were signed (its issue 6083), and takes the sixteen
 * bytes of an MPI_REAL16 for as many integers.
 */
#include "host/reduction.h"

#include <complex.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#include "host/handles.h"

#ifndef __clang__
/* gcc 12 vectorises no loop of unknown length at -O2. */
#pragma GCC optimize("O3")
#endif

/* --- kernels ---------------------------------------------------------------------------------- */

#define ANYWHERE __attribute__((aligned(1), may_alias))

/* a is the target's element, b the origin's. */
#define KERNEL(name, T, result)                                                                    \
    static void name(void *target, const void *origin, size_t n) {                                 \
        typedef T element ANYWHERE;                                                                \
        element *to = target;                                                                      \
        const element *from = origin;                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            T a = to[i], b = from[i];                                                              \
            to[i] = (T)(result);                                                                   \
        }                                                                                          \
    }

/* If neither is greater (zeros, NaN), the origin's is taken: so does the host. */
#define ORDER(name, T)                                                                             \
    KERNEL(max_##name, T, (a > b ? a : b))                                                         \
    KERNEL(min_##name, T, (a < b ? a : b))

/* 1u: narrow types would be multiplied as int. */
#define BITS(name, T)                                                                              \
    KERNEL(sum_##name, T, (a + b))                                                                 \
    KERNEL(prod_##name, T, (1u * a * b))                                                           \
    KERNEL(land_##name, T, (a != 0 && b != 0))                                                     \
    KERNEL(lor_##name, T, (a != 0 || b != 0))                                                      \
    KERNEL(lxor_##name, T, ((a != 0) != (b != 0)))                                                 \
    KERNEL(band_##name, T, (a & b))                                                                \
    KERNEL(bor_##name, T, (a | b))                                                                 \
    KERNEL(bxor_##name, T, (a ^ b))

#define REAL(name, T)                                                                              \
    ORDER(name, T)                                                                                 \
    KERNEL(sum_##name, T, (a + b))                                                                 \
    KERNEL(prod_##name, T, (a * b))

/* C's product recovers infinities from NaN; for Fortran and C++ the host takes the bare formula. */
#define COMPLEX(name, part, T)                                                                     \
    static void sum_##name(void *target, const void *origin, size_t n) {                           \
        sum_##part(target, origin, 2 * n);                                                         \
    }                                                                                              \
    KERNEL(c_prod_##name, T, (a * b))                                                              \
    KERNEL(prod_##name, T,                                                                         \
           __builtin_complex(__real__(a) * __real__(b) - __imag__(a) * __imag__(b),                \
                             __real__(a) * __imag__(b) + __imag__(a) * __real__(b)))

/* The gaps between and behind value and index are not the type's, and are left alone. */
#define PAIR_KERNEL(name, T, I, statements)                                                        \
    static void name(void *target, const void *origin, size_t n) {                                 \
        typedef T value ANYWHERE;                                                                  \
        typedef I index ANYWHERE;                                                                  \
        struct pair {                                                                              \
            T value;                                                                               \
            I index;                                                                               \
        };                                                                                         \
        for (size_t i = 0; i < n; i++) {                                                           \
            char *to = (char *)target + i * sizeof(struct pair);                                   \
            const char *from = (const char *)origin + i * sizeof(struct pair);                     \
            value *a = (value *)to;                                                                \
            index *a_at = (index *)(to + offsetof(struct pair, index));                            \
            T b = *(const value *)from;                                                            \
            I b_at = *(const index *)(from + offsetof(struct pair, index));                        \
            statements                                                                             \
        }                                                                                          \
    }

#define TAKE                                                                                       \
    *a = b;                                                                                        \
    *a_at = b_at;
#define TAKE_IF(better)                                                                            \
    if (better) {                                                                                  \
        TAKE                                                                                       \
    } else if (*a == b) {                                                                          \
        *a_at = *a_at < b_at ? *a_at : b_at;                                                       \
    }

#define PAIR(name, T, I)                                                                           \
    PAIR_KERNEL(maxloc_##name, T, I, TAKE_IF(b > *a))                                              \
    PAIR_KERNEL(minloc_##name, T, I, TAKE_IF(b < *a))                                              \
    PAIR_KERNEL(replace_##name, T, I, TAKE)

#define REPLACE(name, T)                                                                           \
    static void replace_##name(void *target, const void *origin, size_t n) {                       \
        if (n > 0)                                                                                 \
            memmove(target, origin, n * sizeof(T));                                                \
    }

static void no_op(void *target, const void *origin, size_t n) {
    (void)target, (void)origin, (void)n;
}

/* --- rows ------------------------------------------------------------------------------------- */

#define ROW(name, ...)                                                                             \
    static const tug_reduction name[TUG_OPS] = {                                                   \
        [TUG_OP_REPLACE] = replace_##name, [TUG_OP_NO_OP] = no_op, __VA_ARGS__};
#define ROW_ORDER(name) [TUG_OP_MAX] = max_##name, [TUG_OP_MIN] = min_##name
#define ROW_RING(name) [TUG_OP_SUM] = sum_##name, [TUG_OP_PROD] = prod_##name
#define ROW_LOGIC(name)                                                                            \
    [TUG_OP_LAND] = land_##name, [TUG_OP_LOR] = lor_##name, [TUG_OP_LXOR] = lxor_##name
#define ROW_BITS(name)                                                                             \
    [TUG_OP_BAND] = band_##name, [TUG_OP_BOR] = bor_##name, [TUG_OP_BXOR] = bxor_##name

#define PLAIN_ROW(name, T, ...)                                                                    \
    REPLACE(name, T)                                                                               \
    ROW(name, __VA_ARGS__)
#define INTEGER_ROW(name, T, bits)                                                                 \
    ORDER(name, T)                                                                                 \
    PLAIN_ROW(name, T, ROW_ORDER(name), ROW_RING(bits), ROW_LOGIC(bits), ROW_BITS(bits))
#define INTEGER_ROWS(i, u, I, U)                                                                   \
    BITS(u, U)                                                                                     \
    INTEGER_ROW(i, I, u)                                                                           \
    INTEGER_ROW(u, U, u)
#define REAL_ROW(name, T)                                                                          \
    REAL(name, T)                                                                                  \
    PLAIN_ROW(name, T, ROW_ORDER(name), ROW_RING(name))
#define COMPLEX_ROWS(name, part, T)                                                                \
    COMPLEX(name, part, T)                                                                         \
    PLAIN_ROW(name, T, ROW_RING(name))                                                             \
    PLAIN_ROW(c_##name, T, [TUG_OP_SUM] = sum_##name, [TUG_OP_PROD] = c_prod_##name)
#define PAIR_ROW(name, T, I)                                                                       \
    PAIR(name, T, I)                                                                               \
    ROW(name, [TUG_OP_MAXLOC] = maxloc_##name, [TUG_OP_MINLOC] = minloc_##name)

/* Fortran's REAL*16, which is no long double on x86. */
#ifdef __SIZEOF_FLOAT128__
typedef __float128 quad;
#else
typedef long double quad;
#endif

INTEGER_ROWS(i8, u8, int8_t, uint8_t)
INTEGER_ROWS(i16, u16, int16_t, uint16_t)
INTEGER_ROWS(i32, u32, int32_t, uint32_t)
INTEGER_ROWS(i64, u64, int64_t, uint64_t)
REAL_ROW(f32, float)
REAL_ROW(f64, double)
REAL_ROW(long_double, long double)
REAL_ROW(f128, quad)
COMPLEX_ROWS(complex32, f32, float complex)
COMPLEX_ROWS(complex64, f64, double complex)
COMPLEX_ROWS(long_complex, long_double, long double complex)
PAIR_ROW(float_int, float, int)
PAIR_ROW(double_int, double, int)
PAIR_ROW(long_int, long, int)
PAIR_ROW(short_int, short, int)
PAIR_ROW(long_double_int, long double, int)
PAIR_ROW(two_ints, int, int)
PAIR_ROW(two_floats, float, float)
PAIR_ROW(two_doubles, double, double)
PLAIN_ROW(bool8, uint8_t, ROW_LOGIC(u8))
PLAIN_ROW(bool32, uint32_t, ROW_LOGIC(u32))
PLAIN_ROW(byte, uint8_t, ROW_BITS(u8))
PLAIN_ROW(packed, char)
PLAIN_ROW(wide_char, wchar_t)
PLAIN_ROW(complex128, quad[2])

/* --- slots ------------------------------------------------------------------------------------ */

#define SIGNED_OR_NOT(T, bits) ((T)-1 < 1 ? i##bits : u##bits)
#define INTEGER(T)                                                                                 \
    (sizeof(T) == 8   ? SIGNED_OR_NOT(T, 64)                                                       \
     : sizeof(T) == 4 ? SIGNED_OR_NOT(T, 32)                                                       \
     : sizeof(T) == 2 ? SIGNED_OR_NOT(T, 16)                                                       \
                      : SIGNED_OR_NOT(T, 8))

struct slot {
    const tug_reduction *row;
    MPI_Datatype type;
};

/* Types that the host lacks are all MPI_DATATYPE_NULL. */
#define SLOT_OF(type, row)                                                                         \
    { (type) == MPI_DATATYPE_NULL ? NULL : (row), (type) }

#ifndef OPEN_MPI

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"

#define INDEX(type) ((uint32_t)(type) >> 31 << 7 | ((uint32_t)(type)&127)) /* tug_type_slot() */
static const struct slot slots[TUG_TYPE_SLOTS] = {
#define TUG_TYPE(type, row) [INDEX(type)] = SLOT_OF(type, row),
#include "host/types.def"
};

#pragma GCC diagnostic pop

void tug_reduction_learn(void) {}

#else /* handles are no constants */

static struct slot slots[TUG_TYPE_SLOTS];

void tug_reduction_learn(void) {
#define TUG_TYPE(type, row) slots[tug_type_slot(type)] = (struct slot)SLOT_OF(type, row);
#include "host/types.def"
}

#endif

tug_reduction tug_reduction_find(MPI_Op op, MPI_Datatype type) {
    const struct slot *slot = &slots[tug_type_slot(type)];
    enum tug_op_number number = tug_op_number(op);
    return slot->type != type || !slot->row ? NULL : slot->row[number];
}

bool tug_reduction_compares(MPI_Datatype type) {
    return tug_reduction_find(MPI_BAND, type) != NULL ||
           (tug_reduction_find(MPI_LAND, type) != NULL &&
            tug_reduction_find(MPI_SUM, type) == NULL);
}
