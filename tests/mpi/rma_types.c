/*
 * rma_types: does every byte end where the datatypes on either side say, and no other?
 *
 * Datatypes made at random, in one level or two, are known here by the places of their elements,
 * found without MPI. Each operation is done to a window and, by those places, to a model of the
 * window and of the buffers; then all of them are compared, gaps too. Fence, post-start and lock
 * epochs take turns; in the latter half of the operations return requests.
 * At the end: how MPI_Win_allocate_shared lays out memory, seen by loads.
 */
#include "lane.h"
#include "win_kinds.h"

enum { MOST = 4096, NREGIONS = 3, REGION = 1 << 15, MAX_RUNS = 2 };

static struct check_rng rng;

static int draw(int below) {
    return (int)(check_draw(&rng) % (uint64_t)below);
}

/* ---- datatypes ---- */

/* What a datatype repeats: a predefined type, or a record of two. */
struct unit {
    MPI_Datatype type;
    MPI_Aint extent;
    struct {
        MPI_Aint at, length;
    } runs[MAX_RUNS];
    char sums; /* how MPI_SUM adds: i, l, s, d; 0: there is no sum */
};

struct shape {
    MPI_Datatype type;
    MPI_Aint lb, extent;
    bool derived;
    bool plain; /* a run of one predefined type */
    int n;
    MPI_Aint at[MOST]; /* of each unit, in the order of the datatype */
};

enum { INT, LONG, SHORT, DOUBLE, BYTE, PAIR, RECORD, NUNITS };
static struct unit units[NUNITS];

static void make_units(void) {
    MPI_Datatype record, parts[] = {MPI_INT32_T, MPI_DOUBLE};
    MUST(MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8}, parts, &record));
    MUST(MPI_Type_commit(&record));
    units[INT] = (struct unit){MPI_INT32_T, 4, {{0, 4}}, 'i'};
    units[LONG] = (struct unit){MPI_INT64_T, 8, {{0, 8}}, 'l'};
    units[SHORT] = (struct unit){MPI_INT16_T, 2, {{0, 2}}, 's'};
    units[DOUBLE] = (struct unit){MPI_DOUBLE, 8, {{0, 8}}, 'd'};
    units[BYTE] = (struct unit){MPI_BYTE, 1, {{0, 1}}, 0};
    units[PAIR] = (struct unit){MPI_DOUBLE_INT, 16, {{0, 8}, {8, 4}}, 0};
    units[RECORD] = (struct unit){record, 16, {{0, 4}, {8, 8}}, 0};
}

static struct shape *shape_of_unit(const struct unit *unit) {
    struct shape *s = calloc(1, sizeof(*s));
    s->type = unit->type;
    s->extent = unit->extent;
    s->plain = unit->runs[1].length == 0;
    s->n = 1;
    return s;
}

static void shape_free(struct shape *s) {
    if (s->derived)
        MUST(MPI_Type_free(&s->type));
    free(s);
}

/* The shape of `copies` of inner, each so many bytes from the beginning. */
static struct shape *shape_of_copies(const struct shape *inner, int copies,
                                     const MPI_Aint *places) {
    struct shape *s = calloc(1, sizeof(*s));
    CHECK(copies * inner->n <= MOST, "%d elements", copies * inner->n);
    for (int i = 0; i < copies; i++)
        for (int j = 0; j < inner->n; j++)
            s->at[s->n++] = places[i] + inner->at[j];
    return s;
}

static void shuffle(int *values, int n) {
    for (int i = n - 1; i > 0; i--) {
        int j = draw(i + 1), v = values[i];
        values[i] = values[j];
        values[j] = v;
    }
}

/* Blocks in any order, a gap of one inner extent between some. */
static int draw_blocks(int *lengths, int *displacements, bool equal) {
    int n = 1 + draw(4), order[4] = {0, 1, 2, 3}, starts[4], next = draw(2);
    for (int i = 0; i < n; i++)
        lengths[i] = equal && i > 0 ? lengths[0] : 1 + draw(2);
    for (int i = 0; i < n; i++) {
        starts[i] = next;
        next += 2 + draw(2); /* no block is longer than two */
    }
    shuffle(order, n);
    for (int i = 0; i < n; i++)
        displacements[i] = starts[order[i]];
    return n;
}

static int places_of_blocks(int n, const int *lengths, const int *displacements, MPI_Aint extent,
                            MPI_Aint *places) {
    int copies = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < lengths[i]; j++)
            places[copies++] = (displacements[i] + j) * extent;
    return copies;
}

/* This process's elements of an array of 2 dimensions dealt out to 2 by 2 processes, block-cyclic.
 */
static int places_of_darray(const int *sizes, const int *block, int rank, MPI_Aint extent,
                            MPI_Aint *places) {
    int n = 0;
    for (int i = 0; i < sizes[0]; i++)
        for (int j = 0; j < sizes[1]; j++)
            if (i / block[0] % 2 == rank / 2 && j / block[1] % 2 == rank % 2)
                places[n++] = (i * sizes[1] + j) * extent;
    return n;
}

enum make {
    CONTIGUOUS,
    VECTOR,
    HVECTOR,
    INDEXED,
    INDEXED_BLOCK,
    HINDEXED,
    STRUCT,
    SUBARRAY,
    DARRAY,
    RESIZED,
    DUP,
    NMAKES
};

/* A new datatype of copies of inner. No two elements of it overlap, however often it is repeated:
 * no extent is less than what its elements span. */
static struct shape *derive(const struct shape *inner, enum make make) {
    MPI_Datatype type, old = inner->type;
    MPI_Aint places[64], extent = inner->extent, bytes[4];
    int lengths[4], displacements[4],
        n = draw_blocks(lengths, displacements, make == INDEXED_BLOCK);
    int copies = places_of_blocks(n, lengths, displacements, extent, places);
    for (int i = 0; i < n; i++)
        bytes[i] = displacements[i] * extent;
    switch (make) {
    case CONTIGUOUS:
        copies = 1 + draw(6);
        for (int i = 0; i < copies; i++)
            places[i] = i * extent;
        MUST(MPI_Type_contiguous(copies, old, &type));
        break;
    case VECTOR:
    case HVECTOR: {
        int count = 1 + draw(4), length = 1 + draw(3);
        MPI_Aint stride = length + draw(3);
        if (make == HVECTOR && draw(2))
            stride = -stride;
        copies = count * length;
        for (int i = 0; i < copies; i++)
            places[i] = (i / length * stride + i % length) * extent;
        if (make == VECTOR)
            MUST(MPI_Type_vector(count, length, (int)stride, old, &type));
        else
            MUST(MPI_Type_create_hvector(count, length, stride * extent, old, &type));
        break;
    }
    case INDEXED:
        MUST(MPI_Type_indexed(n, lengths, displacements, old, &type));
        break;
    case INDEXED_BLOCK:
        MUST(MPI_Type_create_indexed_block(n, lengths[0], displacements, old, &type));
        break;
    case HINDEXED:
        MUST(MPI_Type_create_hindexed(n, lengths, bytes, old, &type));
        break;
    case STRUCT:
        MUST(
            MPI_Type_create_struct(n, lengths, bytes, (MPI_Datatype[]){old, old, old, old}, &type));
        break;
    case SUBARRAY: {
        int sizes[2] = {2 + draw(4), 2 + draw(4)}, sub[2], start[2];
        for (int i = 0; i < 2; i++) {
            sub[i] = 1 + draw(sizes[i]);
            start[i] = draw(sizes[i] - sub[i] + 1);
        }
        copies = sub[0] * sub[1];
        for (int i = 0; i < copies; i++)
            places[i] = ((start[0] + i / sub[1]) * sizes[1] + start[1] + i % sub[1]) * extent;
        MUST(MPI_Type_create_subarray(2, sizes, sub, start, MPI_ORDER_C, old, &type));
        break;
    }
    case DARRAY: {
        int sizes[2] = {4 + draw(3), 4 + draw(3)}, block[2] = {1 + draw(2), 1 + draw(2)};
        int rank = draw(4), cyclic[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC};
        copies = places_of_darray(sizes, block, rank, extent, places);
        MUST(MPI_Type_create_darray(4, rank, 2, sizes, cyclic, block, (int[]){2, 2}, MPI_ORDER_C,
                                    old, &type));
        break;
    }
    case RESIZED:
        copies = 1;
        places[0] = 0;
        MUST(MPI_Type_create_resized(old, inner->lb - 8 * draw(3), extent + 8 * draw(3), &type));
        break;
    default:
        copies = 1;
        places[0] = 0;
        MUST(MPI_Type_dup(old, &type));
    }
    struct shape *s = shape_of_copies(inner, copies, places);
    s->type = type;
    s->derived = true;
    MUST(MPI_Type_get_extent(type, &s->lb, &s->extent));
    return s;
}

static struct shape *draw_shape(const struct unit *unit) {
    struct shape *inner = shape_of_unit(unit);
    for (int level = draw(3); level > 0; level--) {
        struct shape *outer = derive(inner, (enum make)draw(NMAKES));
        shape_free(inner);
        inner = outer;
    }
    if (inner->derived)
        MUST(MPI_Type_commit(&inner->type));
    return inner;
}

/* ---- data: a shape, repeated, in a buffer ---- */

struct data {
    struct shape *shape;
    int count;
    MPI_Aint origin;       /* where it begins, in bytes from the buffer's beginning */
    unsigned char *buffer; /* of REGION bytes */
    unsigned char *model;
};

/* The span of all units of a data from its beginning. */
static void data_span(const struct data *d, const struct unit *unit, MPI_Aint *low,
                      MPI_Aint *high) {
    *low = *high = 0;
    for (int i = 0; i < d->count * d->shape->n; i++) {
        MPI_Aint at = i / d->shape->n * d->shape->extent + d->shape->at[i % d->shape->n];
        *low = at < *low ? at : *low;
        *high = at + unit->extent > *high ? at + unit->extent : *high;
    }
}

/* False if it does not fit. */
static bool data_place(struct data *d, const struct unit *unit) {
    MPI_Aint low, high;
    data_span(d, unit, &low, &high);
    MPI_Aint room = (REGION - (high - low)) / 16;
    d->origin = (-low + 15) / 16 * 16 + 16 * (room > 8 ? draw(4) : 0);
    return d->origin + high <= REGION;
}

static unsigned char *data_unit(const struct data *d, unsigned char *from, int i) {
    return from + d->origin + i / d->shape->n * d->shape->extent + d->shape->at[i % d->shape->n];
}

static void unit_add(const struct unit *unit, unsigned char *to, const unsigned char *from) {
    union {
        int32_t i;
        int64_t l;
        int16_t s;
        double d;
    } a, b;
    memcpy(&a, to, (size_t)unit->extent);
    memcpy(&b, from, (size_t)unit->extent);
    if (unit->sums == 'd')
        a.d += b.d;
    else if (unit->sums == 'i')
        a.i = (int32_t)((uint32_t)a.i + (uint32_t)b.i);
    else if (unit->sums == 'l')
        a.l = (int64_t)((uint64_t)a.l + (uint64_t)b.l);
    else
        a.s = (int16_t)(a.s + b.s);
    memcpy(to, &a, (size_t)unit->extent);
}

static void unit_copy(const struct unit *unit, unsigned char *to, const unsigned char *from) {
    for (int r = 0; r < MAX_RUNS; r++)
        memcpy(to + unit->runs[r].at, from + unit->runs[r].at, (size_t)unit->runs[r].length);
}

/* Any bytes will do but for doubles, which must be numbers whose sums are exact. */
static void data_fill(struct data *d, const struct unit *unit, uint64_t who, uint64_t round) {
    check_fill(d->buffer, REGION, who, round);
    for (int i = 0; unit->sums == 'd' && i < d->count * d->shape->n; i++) {
        double value = (double)(check_word(who, round, (uint64_t)i) >> 40);
        memcpy(data_unit(d, d->buffer, i), &value, 8);
    }
    memcpy(d->model, d->buffer, REGION);
}

/* ---- operations ---- */

enum call { PUT, GET, ACCUMULATE, GET_ACCUMULATE };

struct operation {
    enum call call;
    MPI_Op op;
    const struct unit *unit;
    struct data origin, result, target;
    MPI_Request request;
};

static struct operation operations[NREGIONS];
static unsigned char memory[NREGIONS][5]
                           [REGION]; /* of origin, result, and their models; window's */

static int gcd(int a, int b) {
    return b == 0 ? a : gcd(b, a % b);
}

/* Draws an operation whose sides have the same number of units, which may be none. */
static void draw_operation(struct operation *o) {
    do {
        if (o->origin.shape) {
            shape_free(o->origin.shape);
            shape_free(o->result.shape);
            shape_free(o->target.shape);
        }
        o->call = (enum call)draw(4);
        o->unit = &units[draw(o->call >= ACCUMULATE ? RECORD : NUNITS)];
        o->op = o->call == GET_ACCUMULATE && draw(3) == 0 ? MPI_NO_OP
                : o->unit->sums && draw(2)                ? MPI_SUM
                                                          : MPI_REPLACE;
        o->origin.shape = draw_shape(o->unit);
        o->result.shape = draw_shape(o->unit);
        o->target.shape = draw_shape(o->unit);
        int a = o->origin.shape->n, b = o->target.shape->n, c = o->result.shape->n;
        int common = a / gcd(a, b) * b;
        common = common / gcd(common, c) * c * draw(3);
        o->origin.count = common / a;
        o->target.count = common / b;
        o->result.count = common / c;
    } while (o->target.count * o->target.shape->n > MOST || !data_place(&o->origin, o->unit) ||
             !data_place(&o->result, o->unit) || !data_place(&o->target, o->unit));
}

/* What the operation does to the models. */
static void do_model(struct operation *o) {
    for (int i = 0; i < o->target.count * o->target.shape->n; i++) {
        unsigned char *target = data_unit(&o->target, o->target.model, i);
        unsigned char *origin = data_unit(&o->origin, o->origin.model, i);
        if (o->call == GET_ACCUMULATE)
            unit_copy(o->unit, data_unit(&o->result, o->result.model, i), target);
        if (o->call == GET)
            unit_copy(o->unit, origin, target);
        else if (o->call == PUT || o->op == MPI_REPLACE)
            unit_copy(o->unit, target, origin);
        else if (o->op == MPI_SUM)
            unit_add(o->unit, target, origin);
    }
}

#define ORIGIN o->origin.buffer + o->origin.origin, o->origin.count, o->origin.shape->type
#define RESULT o->result.buffer + o->result.origin, o->result.count, o->result.shape->type
#define TARGET target, disp, o->target.count, o->target.shape->type

static void do_window(struct operation *o, struct kind_win *w, int region, bool request) {
    int target = (w->rank + 1) % w->nranks;
    MPI_Aint disp = kind_disp(w, target, (size_t)region * REGION + (size_t)o->target.origin);
    o->request = MPI_REQUEST_NULL;
    if (o->call == PUT && !request)
        MUST(MPI_Put(ORIGIN, TARGET, w->win));
    else if (o->call == PUT)
        MUST(MPI_Rput(ORIGIN, TARGET, w->win, &o->request));
    else if (o->call == GET && !request)
        MUST(MPI_Get(ORIGIN, TARGET, w->win));
    else if (o->call == GET)
        MUST(MPI_Rget(ORIGIN, TARGET, w->win, &o->request));
    else if (o->call == ACCUMULATE && !request)
        MUST(MPI_Accumulate(ORIGIN, TARGET, o->op, w->win));
    else if (o->call == ACCUMULATE)
        MUST(MPI_Raccumulate(ORIGIN, TARGET, o->op, w->win, &o->request));
    else if (!request)
        MUST(MPI_Get_accumulate(ORIGIN, RESULT, TARGET, o->op, w->win));
    else
        MUST(MPI_Rget_accumulate(ORIGIN, RESULT, TARGET, o->op, w->win, &o->request));
}

static void same(const unsigned char *got, const unsigned char *want, const struct operation *o,
                 const char *where) {
    static const char *const calls[] = {"put", "get", "accumulate", "get_accumulate"};
    for (int i = 0; i < REGION; i++)
        CHECK(got[i] == want[i],
              "%s of %d units of type %d (op %x): byte %d of the %s is %d, not %d", calls[o->call],
              o->target.count * o->target.shape->n, (int)(o->unit - units),
              (unsigned)(uintptr_t)o->op, i, where, got[i], want[i]);
}

/* ---- epochs ---- */

enum epoch { FENCE, START, EXCLUSIVE, SHARED, ALL, NEPOCHS };

static void epoch_begin(struct kind_win *w, enum epoch epoch, MPI_Group from, MPI_Group to) {
    int right = (w->rank + 1) % w->nranks;
    if (epoch == FENCE) {
        MUST(MPI_Win_fence(0, w->win));
    } else if (epoch == START) {
        MUST(MPI_Win_post(from, 0, w->win));
        MUST(MPI_Win_start(to, 0, w->win));
    } else if (epoch == ALL) {
        MUST(MPI_Win_lock_all(0, w->win));
    } else {
        MUST(
            MPI_Win_lock(epoch == SHARED ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, right, 0, w->win));
    }
}

static void epoch_end(struct kind_win *w, enum epoch epoch) {
    if (epoch == FENCE) {
        MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
    } else if (epoch == START) {
        MUST(MPI_Win_complete(w->win));
        MUST(MPI_Win_wait(w->win));
    } else if (epoch == ALL) {
        MUST(MPI_Win_flush_all(w->win));
        MUST(MPI_Win_unlock_all(w->win));
    } else {
        MUST(MPI_Win_unlock((w->rank + 1) % w->nranks, w->win));
    }
}

/* A request of MPICH 4.0.2 over UCX for a get of derived datatypes is complete at once, and the
 * data are there after the next flush only. */
static bool is_plain(const struct operation *o) {
    return o->call != GET || (o->origin.shape->plain && o->target.shape->plain);
}

/* Completes the requests one way or another: then what was fetched is here. */
static void finish_requests(bool direct) {
    MPI_Request requests[NREGIONS];
    int how = draw(3), done;
    for (int k = 0; k < NREGIONS; k++)
        requests[k] = operations[k].request;
    if (how == 0)
        MUST(MPI_Waitall(NREGIONS, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; how == 1 && k < NREGIONS; k++)
        MUST(MPI_Wait(&requests[k], MPI_STATUS_IGNORE));
    for (int k = 0; how == 2 && k < NREGIONS; k++)
        for (done = 0; !done;)
            MUST(MPI_Test(&requests[k], &done, MPI_STATUS_IGNORE));
    for (int k = 0; k < NREGIONS; k++) {
        struct operation *o = &operations[k];
        CHECK(requests[k] == MPI_REQUEST_NULL, "request %d is left", k);
        if (o->request != MPI_REQUEST_NULL && (direct || is_plain(o))) {
            same(o->origin.buffer, o->origin.model, o, "origin, at once");
            same(o->result.buffer, o->result.model, o, "result, at once");
        }
    }
}

/* One epoch of operations in regions of their own, from this rank to the right. */
static void test_epoch(struct kind_win *w, enum epoch epoch, uint64_t round, MPI_Group from,
                       MPI_Group to) {
    bool passive = epoch >= EXCLUSIVE;
    unsigned char *window = (unsigned char *)w->base;
    int right = (w->rank + 1) % w->nranks, left = (w->rank + w->nranks - 1) % w->nranks;
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w->rank, 0, w->win));
    for (int k = 0; k < NREGIONS; k++) {
        struct operation *o = &operations[k];
        memset(o, 0, sizeof(*o));
        draw_operation(o);
        uint64_t who = (uint64_t)(w->rank * NREGIONS + k);
        o->origin.buffer = memory[k][0];
        o->origin.model = memory[k][1];
        o->result.buffer = memory[k][2];
        o->result.model = memory[k][3];
        o->target.buffer = o->target.model = memory[k][4];
        data_fill(&o->origin, o->unit, who, 3 * round);
        data_fill(&o->result, o->unit, who, 3 * round + 1);
        data_fill(&o->target, o->unit, who, 3 * round + 2);
    }
    for (int k = 0; k < NREGIONS; k++)
        MUST(MPI_Sendrecv(memory[k][4], REGION, MPI_BYTE, right, k, window + k * REGION, REGION,
                          MPI_BYTE, left, k, w->comm, MPI_STATUS_IGNORE));
    MUST(MPI_Win_unlock(w->rank, w->win));
    check_barrier(w->comm);
    epoch_begin(w, epoch, from, to);
    for (int k = 0; k < NREGIONS; k++) {
        do_window(&operations[k], w, k, passive && draw(2));
        do_model(&operations[k]);
    }
    finish_requests(lane_is_direct(w->win));
    epoch_end(w, epoch);
    if (passive)
        check_barrier(w->comm);
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w->rank, 0, w->win));
    for (int k = 0; k < NREGIONS; k++) {
        static unsigned char now[REGION];
        struct operation *o = &operations[k];
        same(o->origin.buffer, o->origin.model, o, "origin");
        same(o->result.buffer, o->result.model, o, "result");
        MUST(MPI_Sendrecv(window + k * REGION, REGION, MPI_BYTE, left, k, now, REGION, MPI_BYTE,
                          right, k, w->comm, MPI_STATUS_IGNORE));
        same(now, o->target.model, o, "window");
        shape_free(o->origin.shape);
        shape_free(o->result.shape);
        shape_free(o->target.shape);
    }
    MUST(MPI_Win_unlock(w->rank, w->win));
    check_barrier(w->comm);
}

/* ---- shared memory ---- */

/* One after another, unless the program does not care; and every rank sees every other's. */
static void test_layout(bool anyhow) {
    char *mine, *base, *end = NULL;
    MPI_Aint size = 24 + 40 * (check_rank % 3), all;
    MPI_Info info;
    MPI_Win win;
    int unit;
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "alloc_shared_noncontig", anyhow ? "true" : "false"));
    MUST(MPI_Win_allocate_shared(size, 1 << check_rank % 4, info, MPI_COMM_WORLD, &mine, &win));
    MUST(MPI_Info_free(&info));
    MUST(MPI_Win_fence(0, win));
    check_fill(mine, (size_t)size, (uint64_t)check_rank, 5 + anyhow);
    MUST(MPI_Win_fence(0, win));
    for (int r = 0; r < check_nranks; r++) {
        MUST(MPI_Win_shared_query(win, r, &all, &unit, &base));
        CHECK(all == 24 + 40 * (r % 3) && unit == 1 << r % 4, "rank %d: size %ld, unit %d", r,
              (long)all, unit);
        CHECK(anyhow || r == 0 || base == end, "rank %d is %ld bytes off", r, (long)(base - end));
        CHECK(r != check_rank || base == mine, "my memory is elsewhere");
        check_same(base, (size_t)all, (uint64_t)r, 5 + anyhow, __FILE__, __LINE__);
        end = base + all;
    }
    MUST(MPI_Win_shared_query(win, MPI_PROC_NULL, &all, &unit, &base));
    check_same(base, 24, 0, 5 + anyhow, __FILE__, __LINE__);
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Win_free(&win));
}

/* Ranks that bring nothing have no address, to nobody; every `every`th rank brings some. */
static void test_empty(bool anyhow, int every) {
    char *mine, *base, *attribute, *first = NULL;
    MPI_Info info;
    MPI_Win win;
    MPI_Aint size;
    int unit, flag;
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "alloc_shared_noncontig", anyhow ? "true" : "false"));
    MUST(MPI_Win_allocate_shared((check_rank + 1) % every ? 0 : 40, 4, info, MPI_COMM_WORLD, &mine,
                                 &win));
    MUST(MPI_Info_free(&info));
    MUST(MPI_Win_get_attr(win, MPI_WIN_BASE, &attribute, &flag));
    CHECK(flag && attribute == mine, "%p is not %p", (void *)attribute, (void *)mine);
    for (int r = 0; r < check_nranks; r++) {
        bool some = (r + 1) % every == 0;
        MUST(MPI_Win_shared_query(win, r, &size, &unit, &base));
        CHECK(size == (some ? 40 : 0), "rank %d: size %ld", r, (long)size);
        /* of nothing, MPICH 4.2.1 alone tells no unit */
        CHECK(unit == 4 || (!some && unit == 0), "rank %d: unit %d", r, unit);
        CHECK((base != NULL) == some, "rank %d of %ld bytes is at %p", r, (long)size, (void *)base);
        CHECK(r != check_rank || base == mine, "my memory is elsewhere");
        first = first == NULL ? base : first;
    }
    MUST(MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &base));
    CHECK(base == first && size == (first == NULL ? 0 : 40), "%p, size %ld", (void *)base,
          (long)size);
    CHECK(unit == 4 || (size == 0 && unit == 0), "unit %d", unit);
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Put(NULL, 0, MPI_INT, (check_rank + 1) % check_nranks, 0, 0, MPI_INT, win));
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
    uint64_t round = 0;
    check_begin(&argc, &argv, "rma_types");
    int right = (check_rank + 1) % check_nranks, left = (check_rank + check_nranks - 1);
    MPI_Group world, from, to;
    left %= check_nranks;
    rng.state = (uint64_t)check_rank << 32;
    make_units();
    MUST(MPI_Comm_group(MPI_COMM_WORLD, &world));
    MUST(MPI_Group_incl(world, 1, &left, &from));
    MUST(MPI_Group_incl(world, 1, &right, &to));
    for (int kind = 0; kind < KIND_DYNAMIC; kind++) {
        struct kind_win w;
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, NREGIONS * REGION, 16))
            continue;
        for (int i = 0; i < check_rounds(8 * NEPOCHS, NEPOCHS); i++)
            test_epoch(&w, (enum epoch)(i % NEPOCHS), ++round, from, to);
        kind_close(&w);
        if (kind == KIND_SHARED)
            for (int anyhow = 0; anyhow < 2; anyhow++) {
                test_layout(anyhow);
                test_empty(anyhow, 2);
                test_empty(anyhow, check_nranks + 1);
            }
        if (check_rank == 0)
            printf("%s\n", kind_names[kind]);
    }
    MUST(MPI_Group_free(&world));
    MUST(MPI_Group_free(&from));
    MUST(MPI_Group_free(&to));
    MUST(MPI_Type_free(&units[RECORD].type));
    return check_end();
}
