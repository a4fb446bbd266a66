/*
 * rma_derived: equal signatures, any two layouts: does every element find its place?
 *
 * Datatypes of a given number of elements are nested at random from every constructor (vector,
 * indexed, struct, subarray, darray, resized, ...), with gaps, negative strides, blocks of nothing
 * and of thousands of runs; their elements' places are worked out here without MPI. All ranks draw
 * the operations of all ranks from one seed, so that origin and target each compare with a model of
 * their own. Each origin has a region at every target; what it does there is either a chain of
 * accumulates of one predefined type, which MPI keeps in order, or operations with flushes between.
 */
#include "win_kinds.h"

enum { REGION = 1 << 17, MOST_OPS = 4, MAX_RANKS = 4, DEEPEST = 5 };

static struct check_rng rng; /* in step on all ranks */

static int draw(int below) {
    return (int)(check_draw(&rng) % (uint64_t)below);
}

/* ---- predefined types ---- */

enum { I16, I32, I64, U32, U64, F32, F64, BYTE, PAIR, NUNITS };

static const struct {
    MPI_Datatype type;
    int extent;
} units[NUNITS] = {{MPI_INT16_T, 2},  {MPI_INT32_T, 4},  {MPI_INT64_T, 8},
                   {MPI_UINT32_T, 4}, {MPI_UINT64_T, 8}, {MPI_FLOAT, 4},
                   {MPI_DOUBLE, 8},   {MPI_BYTE, 1},     {MPI_DOUBLE_INT, 16}};

static void unit_copy(int unit, unsigned char *to, const unsigned char *from) {
    memcpy(to, from, unit == PAIR ? 12 : (size_t)units[unit].extent);
}

/* Anything goes for integers; sums of floating-point numbers must be exact. */
static void fill(unsigned char *to, int unit, uint64_t who, uint64_t round) {
    check_fill(to, REGION, who, round);
    for (size_t i = 0; unit == PAIR && i < REGION / 16; i++) {
        double value = to[16 * i] % 8;
        memcpy(to + 16 * i, &value, 8);
    }
    for (size_t i = 0; unit == F64 && i < REGION / 8; i++) {
        double value = (signed char)to[8 * i];
        memcpy(to + 8 * i, &value, 8);
    }
    for (size_t i = 0; unit == F32 && i < REGION / 4; i++) {
        float value = (signed char)to[4 * i];
        memcpy(to + 4 * i, &value, 4);
    }
}

#define APPLY(c_type, a, b)                                                                        \
    do {                                                                                           \
        c_type x, y;                                                                               \
        memcpy(&x, a, sizeof x);                                                                   \
        memcpy(&y, b, sizeof y);                                                                   \
        x = op == MPI_SUM    ? (c_type)(x + y)                                                     \
            : op == MPI_PROD ? (c_type)(x * y)                                                     \
            : op == MPI_MAX  ? (x > y ? x : y)                                                     \
                             : (x < y ? x : y);                                                     \
        memcpy(a, &x, sizeof x);                                                                   \
    } while (0)

static void apply_pair(unsigned char *to, const unsigned char *from, bool largest) {
    double a, b;
    int i, j;
    memcpy(&a, to, 8);
    memcpy(&b, from, 8);
    memcpy(&i, to + 8, 4);
    memcpy(&j, from + 8, 4);
    if ((largest ? b > a : b < a) || (a == b && j < i))
        memcpy(to, from, 12);
}

static void unit_apply(int unit, MPI_Op op, unsigned char *to, const unsigned char *from) {
    if (op == MPI_NO_OP)
        return;
    if (op == MPI_REPLACE) {
        unit_copy(unit, to, from);
        return;
    }
    for (int i = 0; (op == MPI_BXOR || op == MPI_BAND || op == MPI_BOR) && i < units[unit].extent;
         i++)
        to[i] = (unsigned char)(op == MPI_BXOR   ? to[i] ^ from[i]
                                : op == MPI_BAND ? to[i] & from[i]
                                                 : to[i] | from[i]);
    if (op != MPI_SUM && op != MPI_PROD && op != MPI_MAX && op != MPI_MIN) {
        if (unit == PAIR)
            apply_pair(to, from, op == MPI_MAXLOC);
        return;
    }
    bool wraps = op == MPI_SUM || op == MPI_PROD;
    if (unit == F64)
        APPLY(double, to, from);
    else if (unit == F32)
        APPLY(float, to, from);
    else if (unit == U64 || (unit == I64 && wraps))
        APPLY(uint64_t, to, from);
    else if (unit == U32 || (unit == I32 && wraps))
        APPLY(uint32_t, to, from);
    else if (unit == I64)
        APPLY(int64_t, to, from);
    else if (unit == I32)
        APPLY(int32_t, to, from);
    else
        APPLY(int16_t, to, from);
}

/* Unsigned maxima are left out: those of MPICH 4.0.2 compare as signed. */
static MPI_Op draw_op(int unit, bool fetches) {
    static const MPI_Op all[] = {MPI_SUM, MPI_BXOR, MPI_BAND, MPI_BOR, MPI_MAX, MPI_MIN};
    static const MPI_Op reals[] = {MPI_SUM, MPI_MAX, MPI_MIN};
    int kind = draw(6);
    if (kind == 0 || (kind == 1 && !fetches))
        return MPI_REPLACE;
    if (kind == 1)
        return MPI_NO_OP;
    if (unit == PAIR)
        return draw(2) ? MPI_MAXLOC : MPI_MINLOC;
    if (unit == BYTE)
        return all[1 + draw(3)];
    if (unit == F32 || unit == F64)
        return reals[draw(3)];
    if (unit == U32 || unit == U64)
        return draw(5) ? all[draw(4)] : MPI_PROD;
    return all[draw(6)];
}

/* ---- datatypes and where their elements lie ---- */

struct element {
    MPI_Aint at;
    int unit;
};

struct shape {
    MPI_Datatype type;
    MPI_Aint lb, extent;
    bool derived;
    int n;
    struct element *elements; /* in the order of the datatype */
};

static struct shape *shape_new(int n) {
    struct shape *s = calloc(1, sizeof *s);
    s->elements = malloc(sizeof *s->elements * (size_t)(n > 0 ? n : 1));
    s->n = n;
    return s;
}

static struct shape *shape_of_unit(int unit) {
    struct shape *s = shape_new(1);
    s->type = units[unit].type;
    s->extent = units[unit].extent;
    s->elements[0] = (struct element){0, unit};
    return s;
}

static void shape_free(struct shape *s) {
    if (s == NULL)
        return;
    if (s->derived)
        MUST(MPI_Type_free(&s->type));
    free(s->elements);
    free(s);
}

static int divisor(int n) {
    int some[64], found = 0;
    for (int d = 1; d <= n && found < 64; d++)
        if (n % d == 0)
            some[found++] = d;
    return some[draw(found)];
}

/* n copies in blocks, those in any order: lengths, displacements (in inner extents) and the
 * copies' places. Equal blocks of `length` each, or unequal ones (0) that may be empty. */
static int draw_blocks(int n, int length, int *lengths, int *displacements, MPI_Aint *places,
                       MPI_Aint extent) {
    int nblocks = length ? n / length : 1 + draw(6), next = draw(2), left = n;
    for (int i = 0; i < nblocks; i++) {
        lengths[i] = length ? length : i + 1 == nblocks ? left : draw(left + 1);
        left -= lengths[i];
        displacements[i] = next;
        next += lengths[i] + draw(3) / 2;
    }
    for (int i = nblocks - 1; i > 0 && draw(3); i--) {
        int j = draw(i + 1), l = lengths[i], d = displacements[i];
        lengths[i] = lengths[j];
        displacements[i] = displacements[j];
        lengths[j] = l;
        displacements[j] = d;
    }
    for (int i = 0, k = 0; i < nblocks; i++)
        for (int j = 0; j < lengths[i]; j++)
            places[k++] = (displacements[i] + j) * extent;
    return nblocks;
}

static MPI_Datatype make_vector(const struct shape *in, int n, bool bytes, MPI_Aint *places) {
    MPI_Datatype type;
    int length = divisor(n), count = n / length, stride = length + draw(3);
    if (draw(4) == 0)
        stride = -stride;
    for (int i = 0; i < n; i++)
        places[i] = ((MPI_Aint)(i / length) * stride + i % length) * in->extent;
    if (bytes)
        MUST(MPI_Type_create_hvector(count, length, stride * in->extent, in->type, &type));
    else
        MUST(MPI_Type_vector(count, length, stride, in->type, &type));
    return type;
}

static MPI_Datatype make_blocks(const struct shape *in, int n, int how, MPI_Aint *places) {
    size_t room = (size_t)n + 8;
    int *lengths = malloc(sizeof(int) * room), *displacements = malloc(sizeof(int) * room);
    MPI_Aint *bytes = malloc(sizeof(MPI_Aint) * room);
    MPI_Datatype *types = malloc(sizeof(MPI_Datatype) * room), type;
    int length = how >= 3 ? divisor(n) : 0;
    int nblocks = draw_blocks(n, length, lengths, displacements, places, in->extent);
    for (int i = 0; i < nblocks; i++) {
        bytes[i] = displacements[i] * in->extent;
        types[i] = in->type;
    }
    if (how == 0)
        MUST(MPI_Type_indexed(nblocks, lengths, displacements, in->type, &type));
    else if (how == 1)
        MUST(MPI_Type_create_hindexed(nblocks, lengths, bytes, in->type, &type));
    else if (how == 2)
        MUST(MPI_Type_create_struct(nblocks, lengths, bytes, types, &type));
    else if (how == 3)
        MUST(MPI_Type_create_indexed_block(nblocks, length, displacements, in->type, &type));
    else
        MUST(MPI_Type_create_hindexed_block(nblocks, length, bytes, in->type, &type));
    free(lengths);
    free(displacements);
    free(bytes);
    free(types);
    return type;
}

/* Part of an array of two dimensions; the latter runs fastest in C, the former in Fortran. */
static MPI_Datatype make_subarray(const struct shape *in, int n, MPI_Aint *places) {
    MPI_Datatype type;
    int d = divisor(n), sub[2] = {d, n / d}, sizes[2], start[2], fast = draw(2), slow = !fast;
    for (int i = 0; i < 2; i++) {
        start[i] = draw(3);
        sizes[i] = sub[i] + start[i] + draw(2);
    }
    for (int i = 0; i < n; i++)
        places[i] =
            ((MPI_Aint)(start[slow] + i / sub[fast]) * sizes[fast] + start[fast] + i % sub[fast]) *
            in->extent;
    MUST(MPI_Type_create_subarray(2, sizes, sub, start, fast ? MPI_ORDER_C : MPI_ORDER_FORTRAN,
                                  in->type, &type));
    return type;
}

/* One process's share of an array dealt out to 2 by 2, in blocks or cyclically. */
static MPI_Datatype make_darray(const struct shape *in, int n, MPI_Aint *places) {
    MPI_Datatype type;
    int d = divisor(n), share[2] = {d, n / d}, sizes[2] = {2 * d, 2 * (n / d)}, rank = draw(4);
    int at[2] = {rank / 2, rank % 2}, how[2], dealt[2];
    for (int i = 0; i < 2; i++) {
        how[i] = draw(2) ? MPI_DISTRIBUTE_BLOCK : MPI_DISTRIBUTE_CYCLIC;
        dealt[i] = MPI_DISTRIBUTE_DFLT_DARG;
    }
    for (int i = 0; i < n; i++) {
        int index[2] = {i / share[1], i % share[1]};
        for (int k = 0; k < 2; k++)
            index[k] =
                how[k] == MPI_DISTRIBUTE_BLOCK ? at[k] * share[k] + index[k] : 2 * index[k] + at[k];
        places[i] = ((MPI_Aint)index[0] * sizes[1] + index[1]) * in->extent;
    }
    MUST(MPI_Type_create_darray(4, rank, 2, sizes, how, dealt, (int[]){2, 2}, MPI_ORDER_C, in->type,
                                &type));
    return type;
}

/* n copies of inner, which is used up. No two elements overlap, which MPI wants of what is written:
 * all of an item lies between its bounds, but for records. */
static struct shape *derive(struct shape *in, int n) {
    struct shape *s = shape_new(n * in->n);
    MPI_Aint *places = calloc((size_t)n, sizeof *places);
    int make = draw(n == 1 ? 12 : 10);
    if (make == 0) {
        for (int i = 0; i < n; i++)
            places[i] = i * in->extent;
        MUST(MPI_Type_contiguous(n, in->type, &s->type));
    } else if (make <= 2) {
        s->type = make_vector(in, n, make == 2, places);
    } else if (make <= 7) {
        s->type = make_blocks(in, n, make - 3, places);
    } else if (make == 8) {
        s->type = make_subarray(in, n, places);
    } else if (make == 9) {
        s->type = make_darray(in, n, places);
    } else if (make == 10) {
        int before = 16 * draw(3);
        MUST(MPI_Type_create_resized(in->type, in->lb - before, in->extent + before + 16 * draw(3),
                                     &s->type));
    } else {
        MUST(MPI_Type_dup(in->type, &s->type));
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < in->n; j++) {
            s->elements[i * in->n + j] = in->elements[j];
            s->elements[i * in->n + j].at += places[i];
        }
    s->derived = true;
    MUST(MPI_Type_get_extent(s->type, &s->lb, &s->extent));
    free(places);
    shape_free(in);
    return s;
}

static struct shape *draw_shape(int unit, int n) {
    struct shape *s = shape_of_unit(unit);
    for (int depth = draw(3); n > 1 || depth < 2; depth++) {
        int copies = depth >= DEEPEST ? n : divisor(n);
        s = derive(s, copies);
        n /= copies;
    }
    return s;
}

/* Fields of several predefined types, each laid out at random. */
static struct shape *draw_record(const int *kinds, const int *numbers, int nfields) {
    struct shape *fields[4], *s;
    MPI_Datatype types[4], loose;
    MPI_Aint places[4], next = 0;
    int ones[4] = {1, 1, 1, 1}, n = 0;
    for (int i = 0; i < nfields; i++) {
        fields[i] = draw_shape(kinds[i], numbers[i]);
        types[i] = fields[i]->type;
        places[i] = (next - fields[i]->lb + 31) / 16 * 16; /* the sum may be negative by < 16 */
        next = places[i] + fields[i]->lb + fields[i]->extent;
        n += fields[i]->n;
    }
    s = shape_new(n);
    n = 0;
    for (int i = 0; i < nfields; i++)
        for (int j = 0; j < fields[i]->n; j++) {
            s->elements[n] = fields[i]->elements[j];
            s->elements[n++].at += places[i];
        }
    MUST(MPI_Type_create_struct(nfields, ones, places, types, &loose));
    MUST(MPI_Type_get_extent(loose, &s->lb, &s->extent));
    s->extent = (s->extent + 15) / 16 * 16;
    MUST(MPI_Type_create_resized(loose, s->lb, s->extent, &s->type));
    MUST(MPI_Type_free(&loose));
    s->derived = true;
    for (int i = 0; i < nfields; i++)
        shape_free(fields[i]);
    return s;
}

/* ---- operations ---- */

struct side {
    struct shape *shape;
    int count;
    MPI_Aint start; /* of the first item, in its region or buffer */
    unsigned char *buffer, *model;
};

enum call { PUT, GET, ACCUMULATE, GET_ACCUMULATE };

struct operation {
    enum call call;
    MPI_Op op;
    int target;
    struct side origin, result, to;
};

static MPI_Aint element_at(const struct side *s, int i) {
    return s->start + i / s->shape->n * s->shape->extent + s->shape->elements[i % s->shape->n].at;
}

static int element_unit(const struct side *s, int i) {
    return s->shape->elements[i % s->shape->n].unit;
}

/* Puts the elements somewhere into a region; false if they do not fit. */
static bool side_place(struct side *s, const struct shape *shape) {
    MPI_Aint low = 0, high = 0;
    s->start = 0;
    for (int i = 0; i < s->count * shape->n; i++) {
        MPI_Aint at = element_at(s, i), end = at + units[element_unit(s, i)].extent;
        low = at < low ? at : low;
        high = end > high ? end : high;
    }
    s->start = (-low + 15) / 16 * 16;
    MPI_Aint room = (REGION - high - s->start) / 16;
    if (room < 0)
        return false;
    s->start += 16 * draw((int)room + 1);
    return true;
}

/* Do two of the placed elements overlap? Records of several items may. */
static bool side_overlaps(const struct side *s) {
    static bool taken[REGION];
    memset(taken, 0, sizeof taken);
    for (int i = 0; i < s->count * s->shape->n; i++) {
        bool *at = taken + element_at(s, i);
        for (int k = 0; k < units[element_unit(s, i)].extent; k++) {
            if (at[k])
                return true;
            at[k] = true;
        }
    }
    return false;
}

static void operation_free(struct operation *o) {
    shape_free(o->origin.shape);
    shape_free(o->result.shape);
    shape_free(o->to.shape);
    o->origin.shape = o->result.shape = o->to.shape = NULL;
}

/* One signature, laid out thrice. */
static bool draw_sides(struct operation *o, int unit, bool mixed) {
    static const int numbers[] = {1, 1, 2, 3, 4, 6, 7, 12, 24, 30, 60, 96, 120, 360, 1024, 2520};
    struct side *sides[3] = {&o->origin, &o->result, &o->to};
    int kinds[4], each[4], nfields = 1 + draw(4);
    int n = numbers[draw(draw(3) ? 12 : 16)], count = draw(12) ? 1 + draw(3) : 0;
    for (int i = 0; i < nfields; i++) {
        kinds[i] = draw(NUNITS);
        each[i] = numbers[draw(10)];
    }
    bool fits = true;
    for (int i = 0; i < 3; i++) {
        int items = divisor(n);
        sides[i]->shape = mixed ? draw_record(kinds, each, nfields) : draw_shape(unit, n / items);
        sides[i]->count = mixed ? count : count ? items : 0;
        if (sides[i]->shape->derived)
            MUST(MPI_Type_commit(&sides[i]->shape->type));
        fits &= side_place(sides[i], sides[i]->shape);
    }
    return fits;
}

static void draw_operation(struct operation *o, int unit, bool chain) {
    bool fits;
    do {
        operation_free(o);
        o->call = (enum call)(chain ? ACCUMULATE + draw(2) : draw(4));
        o->op = draw_op(unit, o->call == GET_ACCUMULATE);
        /* Any bytes may be moved, but not to where sums must be exact. */
        bool mixes = unit != F32 && unit != F64 && unit != PAIR;
        fits = draw_sides(o, unit, mixes && o->call < ACCUMULATE && draw(2));
        /* MPI forbids it where a put or a get writes: what would be there is not said */
        if (fits && o->call < ACCUMULATE)
            fits = !side_overlaps(o->call == PUT ? &o->to : &o->origin);
    } while (!fits);
}

/* What the operation does, to the models. */
static void do_model(struct operation *o) {
    for (int i = 0; i < o->to.count * o->to.shape->n; i++) {
        int unit = element_unit(&o->to, i);
        unsigned char *to = o->to.model + element_at(&o->to, i);
        unsigned char *from = o->origin.model + element_at(&o->origin, i);
        if (o->call == GET_ACCUMULATE)
            unit_copy(unit, o->result.model + element_at(&o->result, i), to);
        if (o->call == GET)
            unit_copy(unit, from, to);
        else if (o->call == PUT)
            unit_copy(unit, to, from);
        else
            unit_apply(unit, o->op, to, from);
    }
}

static void do_window(const struct operation *o, const struct kind_win *w) {
    void *from = o->origin.buffer + o->origin.start, *result = o->result.buffer + o->result.start;
    MPI_Datatype origin = o->origin.shape->type, to = o->to.shape->type;
    int n = o->origin.count, t = o->target, m = o->to.count;
    MPI_Aint disp = kind_disp(w, t, (size_t)w->rank * REGION + (size_t)o->to.start);
    if (o->call == PUT)
        MUST(MPI_Put(from, n, origin, t, disp, m, to, w->win));
    else if (o->call == GET)
        MUST(MPI_Get(from, n, origin, t, disp, m, to, w->win));
    else if (o->call == ACCUMULATE)
        MUST(MPI_Accumulate(from, n, origin, t, disp, m, to, o->op, w->win));
    else
        MUST(MPI_Get_accumulate(from, n, origin, result, o->result.count, o->result.shape->type, t,
                                disp, m, to, o->op, w->win));
}

/* ---- rounds ---- */

static unsigned char models[MAX_RANKS][MAX_RANKS][REGION]; /* [target][origin] */
static unsigned char scratch[2][REGION];                   /* others' origins and results */
static unsigned char buffers[MOST_OPS][4][REGION];
static int units_drawn[MAX_RANKS];

static void same(const unsigned char *got, const unsigned char *want, const char *what, int origin,
                 const struct operation *o) {
    if (memcmp(got, want, REGION) == 0)
        return;
    for (int i = 0; i < REGION; i++)
        CHECK(got[i] == want[i], "%s, origin %d, call %d, op %x: byte %d is %d, not %d", what,
              origin, o ? (int)o->call : -1, o ? (unsigned)(uintptr_t)o->op : 0, i, got[i],
              want[i]);
}

enum epoch { FENCE, LOCK, ALL, ALL_CHAIN, NEPOCHS };

static struct operation ops[MAX_RANKS][MOST_OPS];
static int nops[MAX_RANKS];

/* Draws what `origin` does, and fills its regions at all targets in the models. */
static void draw_origin(const struct kind_win *w, int origin, enum epoch epoch, uint64_t round) {
    int unit = draw(NUNITS);
    nops[origin] = 1 + draw(MOST_OPS);
    for (int t = 0; t < w->nranks; t++)
        fill(models[t][origin], unit, (uint64_t)(t * MAX_RANKS + origin), round);
    for (int k = 0; k < nops[origin]; k++) {
        struct operation *o = &ops[origin][k];
        draw_operation(o, unit, epoch == FENCE || epoch == ALL_CHAIN);
        o->target = draw(w->nranks);
        o->to.model = models[o->target][origin];
    }
    units_drawn[origin] = unit;
}

/* Gives an operation its buffers; those of others have no more than a model of the origin's. */
static void give_buffers(struct operation *o, int origin, int k, bool mine, uint64_t round) {
    for (int i = 0; i < 2; i++) {
        struct side *s = i ? &o->result : &o->origin;
        uint64_t who = 1000 + 2 * (uint64_t)(origin * MOST_OPS + k) + (uint64_t)i;
        s->model = mine ? buffers[k][i] : scratch[i];
        s->buffer = mine ? buffers[k][2 + i] : NULL;
        if (mine || i == 0)
            fill(s->model, units_drawn[origin], who, round);
        if (mine)
            memcpy(s->buffer, s->model, REGION);
    }
}

static void run_mine(struct kind_win *w, enum epoch epoch) {
    if (epoch == FENCE)
        MUST(MPI_Win_fence(0, w->win));
    if (epoch >= ALL)
        MUST(MPI_Win_lock_all(0, w->win));
    for (int k = 0; k < nops[w->rank]; k++) {
        const struct operation *o = &ops[w->rank][k];
        if (epoch == LOCK)
            MUST(MPI_Win_lock(k % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, o->target, 0, w->win));
        do_window(o, w);
        if (epoch == LOCK)
            MUST(MPI_Win_unlock(o->target, w->win));
        if (epoch == ALL)
            MUST(MPI_Win_flush(o->target, w->win));
    }
    if (epoch >= ALL)
        MUST(MPI_Win_unlock_all(w->win));
    if (epoch == FENCE)
        MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
}

static void test_round(struct kind_win *w, enum epoch epoch, uint64_t round) {
    const int me = w->rank;
    for (int origin = 0; origin < w->nranks; origin++)
        draw_origin(w, origin, epoch, round);
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, w->win));
    for (int origin = 0; origin < w->nranks; origin++)
        memcpy(w->base + (size_t)origin * REGION, models[me][origin], REGION);
    MUST(MPI_Win_unlock(me, w->win));
    for (int k = 0; k < nops[me]; k++)
        give_buffers(&ops[me][k], me, k, true, round);
    check_barrier(w->comm);
    run_mine(w, epoch);
    for (int origin = 0; origin < w->nranks; origin++)
        for (int k = 0; k < nops[origin]; k++) {
            struct operation *o = &ops[origin][k];
            if (origin != me)
                give_buffers(o, origin, k, false, round);
            do_model(o);
            if (origin == me) {
                same(o->origin.buffer, o->origin.model, "origin", me, o);
                same(o->result.buffer, o->result.model, "result", me, o);
            }
        }
    check_barrier(w->comm);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w->win));
    for (int origin = 0; origin < w->nranks; origin++)
        same((unsigned char *)w->base + (size_t)origin * REGION, models[me][origin], "window",
             origin, nops[origin] == 1 ? &ops[origin][0] : NULL);
    MUST(MPI_Win_unlock(me, w->win));
    for (int origin = 0; origin < w->nranks; origin++)
        for (int k = 0; k < nops[origin]; k++)
            operation_free(&ops[origin][k]);
}

int main(int argc, char **argv) {
    uint64_t round = 0;
    check_begin(&argc, &argv, "rma_derived");
    CHECK(check_nranks <= MAX_RANKS, "at most %d ranks", MAX_RANKS);
    for (int kind = 0; kind < NKINDS; kind++) {
        static const int displacement_units[NKINDS] = {16, 1, 2, 1};
        struct kind_win w;
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, (size_t)check_nranks * REGION,
                       displacement_units[kind]))
            continue;
        for (int i = 0; i < check_rounds(50 * NEPOCHS, 3 * NEPOCHS); i++)
            test_round(&w, (enum epoch)(i % NEPOCHS), ++round);
        kind_close(&w);
        if (check_rank == 0)
            printf("%s\n", kind_names[kind]);
    }
    return check_end();
}
