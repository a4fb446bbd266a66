/*
 * pcoll: every persistent collective but the broadcast gives what the host's own collective gives.
 *
 * Random requests: kind, datatypes (plain, with gaps, described differently by different ranks),
 * counts down to nothing, roots, operations (predefined, the program's, some that do not commute),
 * in place, int and large counts, communicators with their ranks in another order, Cartesian and
 * graph topologies. A batch of them is outstanding at a time, on several communicators, started in
 * another order by each rank, some ranks late; each is started several times with other data. The
 * right result is that of the host's non-blocking twin on a copy; whole buffers are compared, so
 * that nothing may be written between the elements or beyond.
 *
 * Arguments: "ours": requests are expected to be Tugboat's, and the kinds that MPICH 4.0.2 alone
 * does not do right are tested too. It does part of the copying of MPI_Gather_init, Scatter_init
 * and Allgather_init once and for all in the init call, its Neighbor_alltoallw_init and
 * Ineighbor_alltoallw mix neighbours up, and its Reduce_scatter_init and Ireduce_scatter copy
 * memory onto itself and abort. "threads": MPI_Init_thread
 * asks for MPI_THREAD_MULTIPLE, which lets Tugboat run the program's operations. "brief": few
 * batches.
 */
#include <unistd.h>

#include "check.h"

#define MOST 16 /* ranks */
#define BATCH 6
#define STARTS 3
#define BLOCKS (2 * MOST + 8)

enum kind {
    BARRIER,
    REDUCE,
    ALLREDUCE,
    SCAN,
    EXSCAN,
    REDUCE_SCATTER_BLOCK,
    REDUCE_SCATTER,
    ALLGATHERV,
    GATHERV,
    SCATTERV,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    NEIGHBOR_ALLGATHER,
    NEIGHBOR_ALLGATHERV,
    NEIGHBOR_ALLTOALL,
    NEIGHBOR_ALLTOALLV,
    NEIGHBOR_ALLTOALLW,
    GATHER,
    SCATTER,
    ALLGATHER,
    KINDS
};

enum how { ORACLE, INIT, INIT_C };

/* One side: blocks of units of two ints, described by one of three types. */
struct side {
    unsigned char *buffer, *oracle, *before;
    size_t bytes;
    MPI_Datatype type;
    int factor;    /* of the type in a unit */
    size_t extent; /* of a unit */
    int count;     /* of every block, in elements of the type */
    int counts[BLOCKS], displs[BLOCKS], byte_displs_int[BLOCKS];
    MPI_Aint byte_displs[BLOCKS];
    MPI_Count counts_large[BLOCKS];
    MPI_Aint displs_large[BLOCKS];
    MPI_Datatype types[BLOCKS];
};

struct request {
    enum kind kind;
    enum how how;
    int comm_index;
    MPI_Comm comm;
    int rank, n, root;
    bool in_place;
    struct side send, receive;
    int count;
    MPI_Datatype type; /* of a reduction */
    MPI_Op op;
    bool users;
    MPI_Request handle;
};

enum { WORLD, REVERSED, CART, GRAPH, COMMS };

static MPI_Comm comms[COMMS];
static MPI_Datatype unit_types[3], matrix_type;
static const int unit_factors[3] = {1, 1, 2};
static const size_t unit_extents[3] = {8, 20, 8};
static MPI_Op matrix_op, add_op;
static bool ours, threads, brief;
static struct check_rng shared, mine; /* the same on all ranks; the rank's own */

static int below(struct check_rng *rng, int n) {
    return (int)(check_draw(rng) % (uint64_t)n);
}

/* ---- operations of the program ---- */

/* 2 x 2 matrices: do not commute. */
static void multiply(void *in, void *inout, int *n, MPI_Datatype *type) {
    uint32_t *a = in, *b = inout;
    (void)type;
    for (int i = 0; i < *n; i++, a += 4, b += 4) {
        uint32_t c[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                         a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
        memcpy(b, c, sizeof c);
    }
}

static void add(void *in, void *inout, int *n, MPI_Datatype *type) {
    const uint64_t *a = in;
    uint64_t *b = inout;
    (void)type;
    for (int i = 0; i < *n; i++)
        b[i] += a[i];
}

static void draw_operation(struct request *r) {
    static const struct {
        MPI_Datatype type;
        MPI_Op op;
    } predefined[] = {{MPI_INT64_T, MPI_SUM},   {MPI_INT32_T, MPI_MAX},     {MPI_UINT8_T, MPI_BXOR},
                      {MPI_UINT16_T, MPI_PROD}, {MPI_2INT, MPI_MINLOC},     {MPI_INT64_T, MPI_MIN},
                      {MPI_INT32_T, MPI_LAND},  {MPI_SHORT_INT, MPI_MAXLOC}};
    int which = below(&shared, 11);
    r->users = which >= 8;
    if (which < 8) {
        r->type = predefined[which].type;
        r->op = predefined[which].op;
    } else {
        r->type = which == 8 ? MPI_UINT64_T : matrix_type;
        r->op = which == 8 ? add_op : matrix_op;
    }
}

/* ---- buffers ---- */

static void allocate(struct side *side, size_t bytes) {
    side->bytes = bytes + 16;
    side->buffer = malloc(3 * side->bytes);
    CHECK(side->buffer != NULL, "no memory");
    side->oracle = side->buffer + side->bytes;
    side->before = side->oracle + side->bytes;
}

/* nblocks blocks with gaps between them if there are lists; `units` says how many in each. */
static void lay_out(struct side *side, int nblocks, const int *units, bool listed) {
    int which = below(&mine, 3);
    size_t at = 0;
    side->type = unit_types[which];
    side->factor = unit_factors[which];
    side->extent = unit_extents[which];
    side->count = nblocks > 0 ? units[0] * side->factor : 0;
    for (int i = 0; i < nblocks; i++) {
        if (listed && nblocks > 1) /* the host's Iallgatherv of one rank looks at no displacement */
            at += (size_t)below(&mine, 3);
        side->counts[i] = units[i] * side->factor;
        side->displs[i] = (int)at * side->factor;
        side->byte_displs_int[i] = (int)(at * side->extent);
        side->byte_displs[i] = (MPI_Aint)(at * side->extent);
        side->counts_large[i] = side->counts[i];
        side->displs_large[i] = side->displs[i];
        side->types[i] = side->type;
        at += (size_t)units[i];
    }
    allocate(side, at * side->extent);
}

static void fill(struct request *r, int round) {
    struct side *sides[2] = {&r->send, &r->receive};
    for (int i = 0; i < 2; i++) {
        struct side *side = sides[i];
        if (r->type == MPI_SHORT_INT) { /* the gap of a pair is nobody's */
            memset(side->buffer, 0, side->bytes);
            for (size_t k = 0; k + 8 <= side->bytes; k += 8) {
                uint64_t word = check_word((uint64_t)check_rank, (uint64_t)(round * 2 + i), k);
                memcpy(side->buffer + k, &word, 2);
                memcpy(side->buffer + k + 4, (char *)&word + 4, 4);
            }
        } else {
            check_fill(side->buffer, side->bytes, (uint64_t)check_rank, (uint64_t)(round * 2 + i));
        }
        memcpy(side->oracle, side->buffer, side->bytes);
        memcpy(side->before, side->buffer, side->bytes);
    }
}

static void same(const struct request *r, const char *what, const unsigned char *got,
                 const unsigned char *want, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        CHECK(
            got[i] == want[i],
            "kind %d, communicator %d, root %d, %s, %d elements, in place %d, users' %d: byte %zu "
            "of %zu is %02x, not %02x",
            r->kind, r->comm_index, r->root, what, r->count, r->in_place, r->users, i, bytes,
            got[i], want[i]);
}

/* ---- the calls ---- */

#define CALL(Iname, Name, ...)                                                                     \
    do {                                                                                           \
        if (how == ORACLE)                                                                         \
            MUST(MPI_##Iname(__VA_ARGS__, r->comm, request));                                      \
        else if (how == INIT)                                                                      \
            MUST(MPI_##Name##_init(__VA_ARGS__, r->comm, MPI_INFO_NULL, request));                 \
        else                                                                                       \
            MUST(MPI_##Name##_init_c(__VA_ARGS__, r->comm, MPI_INFO_NULL, request));               \
    } while (0)

/* With lists: X(list) is the list of ints or the large one. */
#define INTS(list) list
#if CHECK_HAS_LARGE_COUNTS
#define LARGE(list) list##_large
#else
#define LARGE(list) list
#endif
#define CALL_V(Iname, Name, ARGUMENTS)                                                             \
    do {                                                                                           \
        if (how == ORACLE)                                                                         \
            MUST(MPI_##Iname(ARGUMENTS(INTS), r->comm, request));                                  \
        else if (how == INIT)                                                                      \
            MUST(MPI_##Name##_init(ARGUMENTS(INTS), r->comm, MPI_INFO_NULL, request));             \
        else                                                                                       \
            MUST(MPI_##Name##_init_c(ARGUMENTS(LARGE), r->comm, MPI_INFO_NULL, request));          \
    } while (0)

static void call_reduction(struct request *r, enum how how, const void *in, void *out,
                           MPI_Request *request) {
#define BLOCK_COUNTS(X) in, out, X(r->receive.counts), r->type, r->op
    switch (r->kind) {
    case REDUCE:
        CALL(Ireduce, Reduce, in, out, r->count, r->type, r->op, r->root);
        break;
    case ALLREDUCE:
        CALL(Iallreduce, Allreduce, in, out, r->count, r->type, r->op);
        break;
    case SCAN:
        CALL(Iscan, Scan, in, out, r->count, r->type, r->op);
        break;
    case EXSCAN:
        CALL(Iexscan, Exscan, in, out, r->count, r->type, r->op);
        break;
    case REDUCE_SCATTER_BLOCK:
        CALL(Ireduce_scatter_block, Reduce_scatter_block, in, out, r->count, r->type, r->op);
        break;
    default:
        CALL_V(Ireduce_scatter, Reduce_scatter, BLOCK_COUNTS);
    }
}

/* By way of an Allreduce. */
static void scatter_oracle(struct request *r) {
    MPI_Request request;
    MPI_Aint lb, extent;
    size_t begin = 0;
    const unsigned char *in = r->in_place ? r->receive.oracle : r->send.oracle;
    unsigned char *all = calloc(1, r->send.bytes);
    int total = 0;
    MUST(MPI_Type_get_extent(r->type, &lb, &extent));
    for (int i = 0; i < r->n; i++) {
        begin += i < r->rank ? (size_t)r->receive.counts[i] * (size_t)extent : 0;
        total += r->receive.counts[i];
    }
    MUST(MPI_Iallreduce(in, all, total, r->type, r->op, r->comm, &request));
    check_wait(&request);
    memcpy(r->receive.oracle, all + begin, (size_t)r->receive.counts[r->rank] * (size_t)extent);
    free(all);
}

/* By way of a Gatherv to each: MPICH 4.0.2 cuts the blocks of an Allgatherv by the extent of the
 * type as its own rank describes it, and hangs or mixes them up where ranks describe them
 * differently and they are long. */
static void gather_oracle(struct request *r) {
    const struct side *s = &r->send, *v = &r->receive;
    MPI_Aint lb, extent;
    MUST(MPI_Type_get_extent(v->type, &lb, &extent));
    const void *own = v->oracle + v->displs[r->rank] * extent;
    for (int root = 0; root < r->n; root++) {
        MPI_Request request;
        if (!r->in_place)
            MUST(MPI_Igatherv(s->oracle, s->count, s->type, v->oracle, v->counts, v->displs,
                              v->type, root, r->comm, &request));
        else
            MUST(MPI_Igatherv(root == r->rank ? MPI_IN_PLACE : own, v->counts[r->rank], v->type,
                              v->oracle, v->counts, v->displs, v->type, root, r->comm, &request));
        check_wait(&request);
    }
}

static void call_neighbours(struct request *r, enum how how, const void *in, void *out,
                            MPI_Request *request) {
    struct side *s = &r->send, *v = &r->receive;
#define ONE_EACH in, s->count, s->type, out, v->count, v->type
#define ALLGATHERV_LISTS(X) in, s->count, s->type, out, X(v->counts), X(v->displs), v->type
#define ALLTOALLV_LISTS(X)                                                                         \
    in, X(s->counts), X(s->displs), s->type, out, X(v->counts), X(v->displs), v->type
#define ALLTOALLW_LISTS(X)                                                                         \
    in, X(s->counts), s->byte_displs, s->types, out, X(v->counts), v->byte_displs, v->types
    switch (r->kind) {
    case NEIGHBOR_ALLGATHER:
        CALL(Ineighbor_allgather, Neighbor_allgather, ONE_EACH);
        break;
    case NEIGHBOR_ALLGATHERV:
        CALL_V(Ineighbor_allgatherv, Neighbor_allgatherv, ALLGATHERV_LISTS);
        break;
    case NEIGHBOR_ALLTOALL:
        CALL(Ineighbor_alltoall, Neighbor_alltoall, ONE_EACH);
        break;
    case NEIGHBOR_ALLTOALLV:
        CALL_V(Ineighbor_alltoallv, Neighbor_alltoallv, ALLTOALLV_LISTS);
        break;
    default:
        if (how == ORACLE) /* the types are alike */
            MUST(MPI_Ineighbor_alltoallv(ALLTOALLV_LISTS(INTS), r->comm, request));
        else
            CALL_V(Ineighbor_alltoallw, Neighbor_alltoallw, ALLTOALLW_LISTS);
    }
}

static void call_alltoallw(struct request *r, enum how how, const void *in, void *out,
                           MPI_Request *request) {
    struct side *s = &r->send, *v = &r->receive;
    if (how == ORACLE)
        MUST(MPI_Ialltoallw(in, s->counts, s->byte_displs_int, s->types, out, v->counts,
                            v->byte_displs_int, v->types, r->comm, request));
    else if (how == INIT || !CHECK_HAS_LARGE_COUNTS)
        MUST(MPI_Alltoallw_init(in, s->counts, s->byte_displs_int, s->types, out, v->counts,
                                v->byte_displs_int, v->types, r->comm, MPI_INFO_NULL, request));
#if CHECK_HAS_LARGE_COUNTS
    else
        MUST(MPI_Alltoallw_init_c(in, s->counts_large, s->byte_displs, s->types, out,
                                  v->counts_large, v->byte_displs, v->types, r->comm, MPI_INFO_NULL,
                                  request));
#endif
}

static void call_blocks(struct request *r, enum how how, const void *in, void *out,
                        MPI_Request *request) {
    struct side *s = &r->send, *v = &r->receive;
#define GATHERV_LISTS(X) ALLGATHERV_LISTS(X), r->root
#define SCATTERV_LISTS(X) in, X(s->counts), X(s->displs), s->type, out, v->count, v->type, r->root
    switch (r->kind) {
    case GATHER:
        CALL(Igather, Gather, ONE_EACH, r->root);
        break;
    case SCATTER:
        CALL(Iscatter, Scatter, ONE_EACH, r->root);
        break;
    case ALLGATHER:
        CALL(Iallgather, Allgather, ONE_EACH);
        break;
    case ALLGATHERV:
        CALL_V(Iallgatherv, Allgatherv, ALLGATHERV_LISTS);
        break;
    case GATHERV:
        CALL_V(Igatherv, Gatherv, GATHERV_LISTS);
        break;
    case SCATTERV:
        CALL_V(Iscatterv, Scatterv, SCATTERV_LISTS);
        break;
    case ALLTOALL:
        CALL(Ialltoall, Alltoall, ONE_EACH);
        break;
    case ALLTOALLV:
        CALL_V(Ialltoallv, Alltoallv, ALLTOALLV_LISTS);
        break;
    default:
        call_alltoallw(r, how, in, out, request);
    }
}

static void call(struct request *r, enum how how, MPI_Request *request) {
    const void *in = how == ORACLE ? r->send.oracle : r->send.buffer;
    void *out = how == ORACLE ? r->receive.oracle : r->receive.buffer;
    bool scatters = r->kind == SCATTER || r->kind == SCATTERV;
    if (r->in_place && scatters)
        out = MPI_IN_PLACE;
    else if (r->in_place)
        in = MPI_IN_PLACE;
    if (r->kind == BARRIER && how == ORACLE)
        MUST(MPI_Ibarrier(r->comm, request));
    else if (r->kind == BARRIER)
        MUST(MPI_Barrier_init(r->comm, MPI_INFO_NULL, request));
    else if (r->kind <= REDUCE_SCATTER)
        call_reduction(r, how, in, out, request);
    else if (r->kind >= NEIGHBOR_ALLGATHER && r->kind <= NEIGHBOR_ALLTOALLW)
        call_neighbours(r, how, in, out, request);
    else
        call_blocks(r, how, in, out, request);
}

/* ---- drawing ---- */

static int draw_count(void) {
    static const int counts[] = {0, 1, 3, 17, 400, 3000, 40000};
    return counts[below(&shared, 7)];
}

static void draw_reduction(struct request *r) {
    MPI_Aint lb, extent;
    int total = 0;
    draw_operation(r);
    MUST(MPI_Type_get_extent(r->type, &lb, &extent));
    for (int i = 0; i < r->n; i++) {
        int own = r->kind == REDUCE_SCATTER ? below(&shared, r->count + 1) : r->count;
        r->receive.counts[i] = own;
        r->receive.counts_large[i] = own;
        total += own;
    }
    if (r->kind < REDUCE_SCATTER_BLOCK)
        total = r->count;
    allocate(&r->send, (size_t)total * (size_t)extent);
    allocate(&r->receive, (size_t)total * (size_t)extent);
    r->in_place = r->in_place && (r->kind != REDUCE || r->rank == r->root);
}

/* What passes from each rank to each: the same numbers drawn on all ranks. */
static void draw_matrix(int n, int most, bool even, int units[MOST][MOST]) {
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++)
            units[from][to] = even ? most : below(&shared, most + 1);
}

static void draw_blocks(struct request *r) {
    int units[MOST][MOST], in[MOST], out[MOST];
    bool root = r->rank == r->root;
    bool even =
        r->kind == ALLTOALL || r->kind == GATHER || r->kind == SCATTER || r->kind == ALLGATHER;
    bool gathers = r->kind == GATHER || r->kind == GATHERV;
    bool scatters = r->kind == SCATTER || r->kind == SCATTERV;
    bool all = r->kind == ALLGATHER || r->kind == ALLGATHERV;
    r->count = r->count > 3000 ? 3000 : r->count;
    draw_matrix(r->n, r->count, even, units);
    r->in_place = r->in_place && (root || !(gathers || scatters));
    for (int i = 0; i < r->n; i++) {
        /* gathered: column 0; in place alltoall: symmetric */
        out[i] = units[r->rank][gathers || all ? 0 : i];
        in[i] = units[i][gathers || all ? 0 : r->rank];
        if (scatters)
            out[i] = units[r->root][i];
        if (scatters)
            in[i] = units[r->root][r->rank];
        if (r->in_place && !gathers && !scatters && !all && i < r->rank)
            in[i] = units[r->rank][i];
    }
    lay_out(&r->send, scatters ? (root ? r->n : 0) : gathers || all ? 1 : r->n, out, !even);
    lay_out(&r->receive, gathers ? (root ? r->n : 0) : scatters ? 1 : r->n, in, !even);
}

static void draw_neighbours(struct request *r) {
    int nin = 0, nout = 0, weighted, in[BLOCKS], out[BLOCKS], units[BLOCKS], none[BLOCKS];
    int topology, dimensions;
    MUST(MPI_Topo_test(r->comm, &topology));
    r->count = r->count > 3000 ? 3000 : r->count;
    if (topology == MPI_CART) {
        MUST(MPI_Cartdim_get(r->comm, &dimensions));
        nin = nout = 2 * dimensions;
    } else {
        MUST(MPI_Dist_graph_neighbors_count(r->comm, &nin, &nout, &weighted));
        MUST(MPI_Dist_graph_neighbors(r->comm, nin, in, none, nout, out, none));
    }
    /* what a rank sends is as long as the receiver expects: by the sender for all its neighbours */
    int base = below(&shared, r->count + 1);
    bool varies = r->kind == NEIGHBOR_ALLGATHERV || r->kind == NEIGHBOR_ALLTOALLV ||
                  r->kind == NEIGHBOR_ALLTOALLW;
    varies = varies && topology != MPI_CART;
    for (int i = 0; i < nout; i++)
        units[i] = base + (varies ? r->rank : 0);
    if (nout == 0)
        units[0] = base;
    bool lists = r->kind != NEIGHBOR_ALLGATHER && r->kind != NEIGHBOR_ALLTOALL;
    bool one = r->kind == NEIGHBOR_ALLGATHER || r->kind == NEIGHBOR_ALLGATHERV;
    lay_out(&r->send, one ? 1 : nout, units, lists && !one);
    for (int i = 0; i < nin; i++)
        units[i] = base + (varies ? in[i] : 0);
    lay_out(&r->receive, nin, units, lists);
    r->in_place = false;
}

static bool host_is_right(enum kind kind) {
    return kind < GATHER && kind != NEIGHBOR_ALLTOALLW && kind != REDUCE_SCATTER;
}

static void draw(struct request *r) {
    memset(r, 0, sizeof *r);
    do
        r->kind = (enum kind)below(&shared, KINDS);
    while (!ours && !host_is_right(r->kind));
    r->how = below(&shared, 2) ? INIT : INIT_C;
    bool neighbours = r->kind >= NEIGHBOR_ALLGATHER && r->kind <= NEIGHBOR_ALLTOALLW;
    r->comm_index = neighbours ? CART + below(&shared, 2) : below(&shared, COMMS);
    r->comm = comms[r->comm_index];
    MUST(MPI_Comm_rank(r->comm, &r->rank));
    MUST(MPI_Comm_size(r->comm, &r->n));
    r->root = below(&shared, r->n);
    r->in_place = below(&shared, 3) == 0 && r->kind != EXSCAN;
    r->count = draw_count();
    r->type = MPI_DATATYPE_NULL;
    if (r->kind == BARRIER)
        allocate(&r->send, 0), allocate(&r->receive, 0);
    else if (neighbours)
        draw_neighbours(r);
    else if (r->kind <= REDUCE_SCATTER)
        draw_reduction(r);
    else
        draw_blocks(r);
}

/* ---- running ---- */

static void start_all(struct request *batch) {
    int first = below(&mine, COMMS); /* the same order on each communicator, any among them */
    for (int c = 0; c < COMMS; c++)
        for (int i = 0; i < BATCH; i++)
            if (batch[i].comm_index == (first + c) % COMMS)
                MUST(MPI_Start(&batch[i].handle));
}

static void run(struct request *batch, int round) {
    for (int i = 0; i < BATCH; i++) {
        MPI_Request oracle;
        fill(&batch[i], round * BATCH + i);
        if (batch[i].kind == REDUCE_SCATTER || batch[i].kind == ALLGATHERV) {
            (batch[i].kind == REDUCE_SCATTER ? scatter_oracle : gather_oracle)(&batch[i]);
            continue;
        }
        call(&batch[i], ORACLE, &oracle);
        check_wait(&oracle);
    }
    if (below(&shared, 10) == 0 && below(&shared, check_nranks) == check_rank)
        usleep(50000);
    start_all(batch);
    if (below(&shared, 2)) {
        MPI_Request handles[BATCH];
        for (int i = 0; i < BATCH; i++)
            handles[i] = batch[i].handle;
        if (ours)
            MUST(MPI_Waitall(BATCH, handles, MPI_STATUSES_IGNORE));
        else
            for (int i = 0; i < BATCH; i++)
                check_wait(&handles[i]);
    } else {
        for (int i = 0; i < BATCH; i++)
            check_wait(&batch[(i + check_rank) % BATCH].handle);
    }
    for (int i = 0; i < BATCH; i++) {
        struct request *r = &batch[i];
        same(r, "received", r->receive.buffer, r->receive.oracle, r->receive.bytes);
        same(r, "sent", r->send.buffer, r->send.before, r->send.bytes);
    }
}

/* Whose request it must be. */
static void check_handle(const struct request *r) {
#ifdef OPEN_MPI /* nothing to be seen from */
    (void)r;
#else
    unsigned number = (unsigned)r->handle;
    bool taken = number >> 30 == 0;
    bool theirs = r->users && r->kind <= REDUCE_SCATTER && !threads;
    if (ours)
        CHECK(taken == !theirs, "kind %d: handle %x", r->kind, number);
#endif
}

static void play(int nstarts) {
    struct request batch[BATCH];
    static int round;
    for (int i = 0; i < BATCH; i++) {
        draw(&batch[i]);
        call(&batch[i], batch[i].how, &batch[i].handle);
        check_handle(&batch[i]);
    }
    for (int i = 0; i < nstarts; i++)
        run(batch, round++);
    for (int i = 0; i < BATCH; i++) {
        MUST(MPI_Request_free(&batch[i].handle));
        free(batch[i].send.buffer);
        free(batch[i].receive.buffer);
    }
}

/* ---- once ---- */

static void make_types(void) {
    MPI_Datatype vector;
    MUST(MPI_Type_contiguous(2, MPI_INT32_T, &unit_types[0]));
    MUST(MPI_Type_vector(2, 1, 3, MPI_INT32_T, &vector));
    MUST(MPI_Type_create_resized(vector, 0, 20, &unit_types[1]));
    MUST(MPI_Type_free(&vector));
    unit_types[2] = MPI_INT32_T;
    MUST(MPI_Type_contiguous(4, MPI_UINT32_T, &matrix_type));
    MUST(MPI_Type_commit(&unit_types[0]));
    MUST(MPI_Type_commit(&unit_types[1]));
    MUST(MPI_Type_commit(&matrix_type));
    MUST(MPI_Op_create(multiply, 0, &matrix_op));
    MUST(MPI_Op_create(add, 1, &add_op));
}

/* Edges that all ranks draw alike, some to oneself. No two alike: the host's calls differ in the
 * order in which they take what comes from one neighbour. */
static void make_graph(void) {
    int in[BLOCKS], out[BLOCKS], nin = 0, nout = 0;
    bool edges[MOST][MOST] = {{false}};
    for (int i = 0; i < 2 * check_nranks; i++) {
        int from = below(&shared, check_nranks), to = below(&shared, check_nranks);
        if (edges[from][to])
            continue;
        edges[from][to] = true;
        if (from == check_rank && nout < BLOCKS)
            out[nout++] = to;
        if (to == check_rank && nin < BLOCKS)
            in[nin++] = from;
    }
    MUST(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, nin, in, MPI_UNWEIGHTED, nout, out,
                                        MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comms[GRAPH]));
}

static void make_comms(void) {
    int dims[2] = {0, 0}, periods[2] = {1, 0};
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comms[WORLD]));
    MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &comms[REVERSED]));
    MUST(MPI_Dims_create(check_nranks, 2, dims));
    periods[0] = dims[0] > 2; /* as with the edges of the graph; see small_circle() */
    MUST(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &comms[CART]));
    make_graph();
}

/* A circle of one rank or two: what goes up arrives from below. The host's calls do not agree. */
static void small_circle(void) {
    MPI_Comm comm, circle;
    MPI_Request request;
    int size = check_nranks < 2 ? 1 : 2, period = 1, in[2], out[2];
    MUST(MPI_Comm_split(MPI_COMM_WORLD, check_rank < size ? 0 : MPI_UNDEFINED, 0, &comm));
    if (comm == MPI_COMM_NULL)
        return;
    MUST(MPI_Cart_create(comm, 1, &size, &period, 0, &circle));
    MUST(MPI_Neighbor_alltoall_init(out, 1, MPI_INT, in, 1, MPI_INT, circle, MPI_INFO_NULL,
                                    &request));
    out[0] = 10 * check_rank;
    out[1] = 10 * check_rank + 1;
    MUST(MPI_Start(&request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    int other = (check_rank + 1) % size;
    CHECK(in[0] == 10 * other + 1 && in[1] == 10 * other, "%d from below, %d from above", in[0],
          in[1]);
    MUST(MPI_Request_free(&request));
    MUST(MPI_Comm_free(&circle));
    MUST(MPI_Comm_free(&comm));
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        ours = ours || strcmp(argv[i], "ours") == 0;
        threads = threads || strcmp(argv[i], "threads") == 0;
        brief = brief || strcmp(argv[i], "brief") == 0;
    }
    if (threads)
        check_begin_threads(&argc, &argv, "pcoll");
    else
        check_begin(&argc, &argv, "pcoll");
    CHECK(check_nranks <= MOST, "at most %d ranks", MOST);
    shared.state = 0;
    mine.state = (uint64_t)(check_rank + 1) << 32;
    make_types();
    make_comms();
    for (int i = 0; i < (brief ? 2 : check_rounds(100, 25)); i++)
        play(STARTS);
    for (int i = 0; i < (brief ? 1 : check_rounds(50, 5)); i++)
        play(1);
    if (ours)
        small_circle();
    for (int c = 0; c < COMMS; c++)
        MUST(MPI_Comm_free(&comms[c]));
    for (int t = 0; t < 2; t++)
        MUST(MPI_Type_free(&unit_types[t]));
    MUST(MPI_Type_free(&matrix_type));
    MUST(MPI_Op_free(&matrix_op));
    MUST(MPI_Op_free(&add_op));
    return check_end();
}
