/*
 * reduction: what the library does to memory for every pair of operation and predefined type, and
 * which pairs it has. The oracle is MPI_Reduce_local of the host.
 *
 * Contents are random, with many equal elements, zeros of both signs, infinities and NaN; our
 * vectors lie aligned and not. What is a type's own is compared bit by bit, except that a NaN is a
 * NaN; the gaps of pairs have to stay.
 */
#include "check.h"
#include "host/reduction.h"
#include <float.h>
#include <math.h>

enum { MOST = 1000, LARGEST = 32, NTYPES_MADE = 300, NOPS_MADE = 40 };

enum kind { NONE, I8, I16, I32, I64, U8, U16, U32, U64, BOOL, FLOAT, DOUBLE, LONG_DOUBLE, QUAD };

static const size_t widths[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 1, 4, 8, sizeof(long double), 16};

/* One field, or two: the second one at the larger of the widths. */
static const struct type {
    MPI_Datatype handle;
    const char *name;
    enum kind fields[2];
} types[] = {
#define TYPE(name, ...)                                                                            \
    {                                                                                              \
        name, #name, {                                                                             \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
    TYPE(MPI_CHAR, I8),
    TYPE(MPI_SIGNED_CHAR, I8),
    TYPE(MPI_UNSIGNED_CHAR, U8),
    TYPE(MPI_SHORT, I16),
    TYPE(MPI_UNSIGNED_SHORT, U16),
    TYPE(MPI_INT, I32),
    TYPE(MPI_UNSIGNED, U32),
    TYPE(MPI_LONG, I64),
    TYPE(MPI_UNSIGNED_LONG, U64),
    TYPE(MPI_LONG_LONG, I64),
    TYPE(MPI_UNSIGNED_LONG_LONG, U64),
    TYPE(MPI_INT8_T, I8),
    TYPE(MPI_INT16_T, I16),
    TYPE(MPI_INT32_T, I32),
    TYPE(MPI_INT64_T, I64),
    TYPE(MPI_UINT8_T, U8),
    TYPE(MPI_UINT16_T, U16),
    TYPE(MPI_UINT32_T, U32),
    TYPE(MPI_UINT64_T, U64),
    TYPE(MPI_AINT, I64),
    TYPE(MPI_COUNT, I64),
    TYPE(MPI_OFFSET, I64),
    TYPE(MPI_INTEGER, I32),
    TYPE(MPI_INTEGER1, I8),
    TYPE(MPI_INTEGER2, I16),
    TYPE(MPI_INTEGER4, I32),
    TYPE(MPI_INTEGER8, I64),
    TYPE(MPI_INTEGER16, I64, I64),
    TYPE(MPI_WCHAR, I32),
    TYPE(MPI_CHARACTER, I8),
    TYPE(MPI_BYTE, I8),
    TYPE(MPI_PACKED, I8),
    TYPE(MPI_C_BOOL, BOOL),
    TYPE(MPI_CXX_BOOL, BOOL),
    TYPE(MPI_LOGICAL, I32),
    TYPE(MPI_FLOAT, FLOAT),
    TYPE(MPI_DOUBLE, DOUBLE),
    TYPE(MPI_LONG_DOUBLE, LONG_DOUBLE),
    TYPE(MPI_REAL, FLOAT),
    TYPE(MPI_DOUBLE_PRECISION, DOUBLE),
    TYPE(MPI_REAL4, FLOAT),
    TYPE(MPI_REAL8, DOUBLE),
    TYPE(MPI_REAL16, QUAD),
    TYPE(MPI_C_FLOAT_COMPLEX, FLOAT, FLOAT),
    TYPE(MPI_C_DOUBLE_COMPLEX, DOUBLE, DOUBLE),
    TYPE(MPI_C_LONG_DOUBLE_COMPLEX, LONG_DOUBLE, LONG_DOUBLE),
    TYPE(MPI_CXX_FLOAT_COMPLEX, FLOAT, FLOAT),
    TYPE(MPI_CXX_DOUBLE_COMPLEX, DOUBLE, DOUBLE),
    TYPE(MPI_CXX_LONG_DOUBLE_COMPLEX, LONG_DOUBLE, LONG_DOUBLE),
    TYPE(MPI_COMPLEX, FLOAT, FLOAT),
    TYPE(MPI_DOUBLE_COMPLEX, DOUBLE, DOUBLE),
    TYPE(MPI_COMPLEX8, FLOAT, FLOAT),
    TYPE(MPI_COMPLEX16, DOUBLE, DOUBLE),
    TYPE(MPI_COMPLEX32, QUAD, QUAD),
    TYPE(MPI_FLOAT_INT, FLOAT, I32),
    TYPE(MPI_DOUBLE_INT, DOUBLE, I32),
    TYPE(MPI_LONG_INT, I64, I32),
    TYPE(MPI_SHORT_INT, I16, I32),
    TYPE(MPI_LONG_DOUBLE_INT, LONG_DOUBLE, I32),
    TYPE(MPI_2INT, I32, I32),
    TYPE(MPI_2INTEGER, I32, I32),
    TYPE(MPI_2REAL, FLOAT, FLOAT),
    TYPE(MPI_2DOUBLE_PRECISION, DOUBLE, DOUBLE),
};

static const struct op {
    MPI_Op handle;
    const char *name;
} ops[] = {
#define OP(name)                                                                                   \
    { name, #name }
    OP(MPI_MAX),    OP(MPI_MIN),    OP(MPI_SUM),     OP(MPI_PROD),  OP(MPI_LAND),
    OP(MPI_LOR),    OP(MPI_LXOR),   OP(MPI_BAND),    OP(MPI_BOR),   OP(MPI_BXOR),
    OP(MPI_MAXLOC), OP(MPI_MINLOC), OP(MPI_REPLACE), OP(MPI_NO_OP),
};

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static struct check_rng rng;

static size_t offset_of(const struct type *type, int field) {
    size_t first = widths[type->fields[0]], second = widths[type->fields[1]];
    return field == 0 ? 0 : first > second ? first : second;
}

static double draw_number(void) {
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN};
    uint64_t word = check_draw(&rng);
    switch (word % 4) {
    case 0:
        return special[word / 4 % COUNT_OF(special)];
    case 1:
        return (double)(word / 4 % 5) - 2;
    default:
        return (double)(int64_t)word / 3e15;
    }
}

#define STORE(T, value)                                                                            \
    do {                                                                                           \
        T stored = (T)(value);                                                                     \
        memcpy(field, &stored, sizeof stored);                                                     \
    } while (0)

static void draw_field(enum kind kind, void *field) {
    uint64_t word = check_draw(&rng);
    uint64_t bits = word % 2 ? check_draw(&rng) : word / 2 % 3;
    double number = draw_number();
    switch (kind) {
    case FLOAT:
        STORE(float, number);
        break;
    case DOUBLE:
        STORE(double, number);
        break;
    case LONG_DOUBLE:
        STORE(long double, (long double)number / 3);
        break;
    case QUAD: /* any bytes */
        break;
    case BOOL: /* C has no other; MPICH 4.2.1 takes them for what C says, 4.0.2 for bytes */
        STORE(unsigned char, bits & 1);
        break;
    case U8:
    case U16:
    case U32:
    case U64: /* MPICH 4.0.2 compares unsigned integers as signed ones (its issue 6083) */
        bits &= ~(UINT64_C(1) << (8 * widths[kind] - 1));
        memcpy(field, &bits, widths[kind]);
        break;
    default:
        memcpy(field, &bits, widths[kind]);
    }
}

static void draw_vector(const struct type *type, size_t extent, char *vector) {
    check_fill(vector, MOST * extent, 0, rng.state);
    for (size_t i = 0; i < MOST; i++) {
        for (int f = 0; f < 2; f++)
            draw_field(type->fields[f], vector + i * extent + offset_of(type, f));
    }
}

static bool is_nan(enum kind kind, const void *field) {
    float single;
    double twice;
    long double longest;
    switch (kind) {
    case FLOAT:
        return isnan(*(float *)memcpy(&single, field, sizeof single));
    case DOUBLE:
        return isnan(*(double *)memcpy(&twice, field, sizeof twice));
    case LONG_DOUBLE:
        return isnan(*(long double *)memcpy(&longest, field, sizeof longest));
    default:
        return false;
    }
}

static bool is_same(enum kind kind, const void *ours, const void *host) {
    size_t used = kind == LONG_DOUBLE && LDBL_MANT_DIG == 64 ? 10 : widths[kind];
    return memcmp(ours, host, used) == 0 || (is_nan(kind, ours) && is_nan(kind, host));
}

/* What the host makes of it; it has no MPI_REPLACE and MPI_NO_OP here. */
static void reduce_by_host(const struct type *type, const struct op *op, size_t extent,
                           char *target, const char *origin, size_t n) {
    if (op->handle == MPI_NO_OP)
        return;
    if (op->handle != MPI_REPLACE) {
        MUST(MPI_Reduce_local(origin, target, (int)n, type->handle, op->handle));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        for (int f = 0; f < 2; f++) {
            size_t at = i * extent + offset_of(type, f);
            memcpy(target + at, origin + at, widths[type->fields[f]]);
        }
    }
}

static void compare(const struct type *type, const struct op *op, size_t n, size_t shift) {
    _Alignas(16) static char origin[MOST * LARGEST], host[MOST * LARGEST], ours[MOST * LARGEST];
    static char from[MOST * LARGEST + 1], to[MOST * LARGEST + 1];
    MPI_Aint lb, extent;
    MUST(MPI_Type_get_extent(type->handle, &lb, &extent));
    size_t size = (size_t)extent, bytes = MOST * size;
    draw_vector(type, size, origin);
    draw_vector(type, size, host);
    memcpy(from + shift, origin, bytes);
    memcpy(to + shift, host, bytes);
    tug_reduction_find(op->handle, type->handle)(to + shift, from + shift, n);
    memcpy(ours, to + shift, bytes);
    reduce_by_host(type, op, size, host, origin, n);
    for (size_t i = 0; i < MOST; i++) {
        for (int f = 0; f < 2; f++) {
            size_t at = i * size + offset_of(type, f);
            CHECK(is_same(type->fields[f], ours + at, host + at), "%s, %s: [%zu of %zu].%d",
                  op->name, type->name, i, n, f);
            memcpy(ours + at, host + at, widths[type->fields[f]]); /* leaves the gaps */
        }
    }
    CHECK(memcmp(ours, host, bytes) == 0, "%s, %s: a gap of %zu pairs", op->name, type->name, n);
}

static bool is_logic_on_reals(const struct type *type, const struct op *op) {
    return type->fields[0] >= FLOAT && type->fields[1] == NONE &&
           (op->handle == MPI_LAND || op->handle == MPI_LOR || op->handle == MPI_LXOR);
}

static bool host_has(const struct type *type, const struct op *op) {
    _Alignas(16) char target[LARGEST] = {0}, origin[LARGEST] = {0};
    if (op->handle == MPI_REPLACE || op->handle == MPI_NO_OP)
        return true;
    /* Not in MPI. MPICH 4.0.2 accepts it, and then aborts (C) or does nothing (Fortran). */
    if (is_logic_on_reals(type, op))
        return false;
    return MPI_Reduce_local(origin, target, 1, type->handle, op->handle) == MPI_SUCCESS;
}

/* MPICH 4.0.2 takes the sixteen bytes of an MPI_REAL16 for as many integers. */
static bool host_is_right(const struct type *type, const struct op *op) {
    return type->fields[0] != QUAD || op->handle == MPI_REPLACE || op->handle == MPI_NO_OP;
}

/* The host cannot tell: all bits set are the largest unsigned integer, and less than 0 signed. */
static void test_sign(const struct type *type) {
    const char zeros[8] = {0};
    char ones[8], largest[8];
    enum kind kind = type->fields[0];
    tug_reduction reduce = tug_reduction_find(MPI_MAX, type->handle);
    if (reduce == NULL || kind < I8 || kind > U64)
        return;
    memset(ones, -1, sizeof ones);
    memcpy(largest, ones, sizeof ones);
    reduce(largest, zeros, 1);
    CHECK(memcmp(largest, kind >= U8 ? ones : zeros, widths[kind]) == 0, "%s: sign", type->name);
}

static bool test_pair(const struct type *type, const struct op *op) {
    const size_t lengths[] = {1, 7, MOST};
    tug_reduction reduce = tug_reduction_find(op->handle, type->handle);
    if (type->handle == MPI_DATATYPE_NULL || !host_has(type, op)) {
        CHECK(reduce == NULL, "%s, %s: the host has none", op->name, type->name);
        return false;
    }
    CHECK(reduce != NULL, "%s, %s: the host has it", op->name, type->name);
    for (size_t i = 0; i < COUNT_OF(lengths) && host_is_right(type, op); i++) {
        compare(type, op, lengths[i], 0);
        compare(type, op, lengths[i], 1);
    }
    return true;
}

static void nothing(void *in, void *inout, int *len, MPI_Datatype *type) {
    (void)in, (void)inout, (void)len, (void)type;
}

/* Enough of them to share every small index with the predefined ones. */
static void test_user_defined(void) {
    MPI_Datatype types_made[NTYPES_MADE];
    MPI_Op ops_made[NOPS_MADE];
    for (int i = 0; i < NTYPES_MADE; i++) {
        MUST(MPI_Type_dup(i % 2 ? MPI_INT : MPI_DOUBLE_INT, &types_made[i]));
        for (size_t o = 0; o < COUNT_OF(ops); o++)
            CHECK(tug_reduction_find(ops[o].handle, types_made[i]) == NULL, "%s, derived type %d",
                  ops[o].name, i);
    }
    for (int i = 0; i < NOPS_MADE; i++) {
        MUST(MPI_Op_create(nothing, 1, &ops_made[i]));
        for (size_t t = 0; t < COUNT_OF(types); t++)
            CHECK(tug_reduction_find(ops_made[i], types[t].handle) == NULL,
                  "user's operation %d, %s", i, types[t].name);
    }
    for (int i = 0; i < NTYPES_MADE; i++)
        MUST(MPI_Type_free(&types_made[i]));
    for (int i = 0; i < NOPS_MADE; i++)
        MUST(MPI_Op_free(&ops_made[i]));
}

int main(int argc, char **argv) {
    int npairs = 0;
    check_begin(&argc, &argv, "reduction");
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MUST(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        for (size_t o = 0; o < COUNT_OF(ops); o++)
            npairs += test_pair(&types[t], &ops[o]);
        test_sign(&types[t]);
    }
    printf("%d pairs of operation and type\n", npairs);
    test_user_defined();
    return check_end();
}
