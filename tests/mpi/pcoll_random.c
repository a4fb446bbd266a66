/*
 * pcoll_random: collectives of random kinds and shapes, six of them at a time, run again and again.
 *
 *     pcoll_random persistent|blocking EPISODES [alone] [threads]
 *
 * An episode puts a new collective in the place of one of six: kind, communicator, root, operation,
 * counts and whether it is in place are drawn by all ranks alike, types and displacements by each
 * rank for itself. Then some of the six run together for some rounds. Persistent ones are started
 * in another order on every rank, and completed by every call there is. Every byte of both buffers
 * is compared with what is worked out here, gaps and edges included. The seed is printed, and read
 * back from CHECK_SEED.
 *
 * alone: leaves out what MPICH 4.0.2 is known to get wrong by itself (is_wrong_alone()).
 * threads: MPI is initialised for several.
 */
#include "check.h"
#include "mpi4.h"

enum kind {
    BARRIER,
    BCAST,
    REDUCE,
    ALLREDUCE,
    SCAN,
    EXSCAN,
    REDUCE_SCATTER_BLOCK,
    REDUCE_SCATTER,
    ALLGATHER,
    ALLGATHERV,
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    NEIGHBOR_ALLGATHER,
    NEIGHBOR_ALLGATHERV,
    NEIGHBOR_ALLTOALL,
    NEIGHBOR_ALLTOALLV,
    NEIGHBOR_ALLTOALLW,
    KINDS
};
static const char *const names[KINDS] = {
    "Barrier",
    "Bcast",
    "Reduce",
    "Allreduce",
    "Scan",
    "Exscan",
    "Reduce_scatter_block",
    "Reduce_scatter",
    "Allgather",
    "Allgatherv",
    "Gather",
    "Gatherv",
    "Scatter",
    "Scatterv",
    "Alltoall",
    "Alltoallv",
    "Alltoallw",
    "Neighbor_allgather",
    "Neighbor_allgatherv",
    "Neighbor_alltoall",
    "Neighbor_alltoallv",
    "Neighbor_alltoallw",
};

enum { SLOTS = 6, MOST = 8, EDGE = 64, W_MOST = 300 };
enum element { INT8, INT32, INT64, DOUBLE, AFFINE, ELEMENTS };
static const size_t sizes[ELEMENTS] = {1, 4, 8, 8, 8};

/* One side of a collective: blocks of elements, which lie `stride` bytes apart. */
struct side {
    int nblocks, peers[MOST], n[MOST]; /* peer: MPI_PROC_NULL where a grid ends */
    size_t at[MOST], stride[MOST];
    unsigned char *memory, *want; /* EDGE, the data, EDGE */
    size_t bytes;
    /* as MPI is told: all of the first type unless each block has its own */
    int counts[MOST], displs[MOST];
    MPI_Aint places[MOST];
    MPI_Datatype types[MOST];
    int ntypes; /* of these are ours to free */
};

struct collective {
    bool live; /* on all ranks; comm: MPI_COMM_NULL where a rank has no part */
    enum kind kind;
    enum element element;
    int id, n, root, runs, rank, nranks;
    int first; /* of a reduction's elements, that this rank receives */
    bool in_place;
    MPI_Op op;
    MPI_Comm comm;
    MPI_Request request;
    struct side send, receive;
};

static bool blocking, alone;
static struct collective slots[SLOTS];
static MPI_Datatype basic[ELEMENTS];
static MPI_Op compose_op;

static int between(struct check_rng *rng, int low, int high) {
    return low + (int)(check_draw(rng) % (uint64_t)(high - low + 1));
}

/* ---- kinds ---- */

static bool reduces(enum kind kind) {
    return kind >= REDUCE && kind <= REDUCE_SCATTER;
}

static bool is_rooted(enum kind kind) {
    return kind == REDUCE || (kind >= GATHER && kind <= SCATTERV);
}

static bool exchanges(enum kind kind) {
    return kind >= ALLTOALL && kind <= ALLTOALLW;
}

static bool has_lists(enum kind kind) {
    return kind == ALLGATHERV || kind == GATHERV || kind == SCATTERV || kind == ALLTOALLV ||
           kind == NEIGHBOR_ALLGATHERV || kind == NEIGHBOR_ALLTOALLV;
}

/* Does a list say where the blocks of this side are? */
static bool has_displs(enum kind kind, bool sends) {
    const bool one = sends ? kind <= GATHERV || kind == NEIGHBOR_ALLGATHERV : kind == SCATTERV;
    return has_lists(kind) && !one;
}

static bool has_types(enum kind kind) {
    return kind == ALLTOALLW || kind == NEIGHBOR_ALLTOALLW;
}

/* Does each receiver get data of its own? */
static bool is_personal(enum kind kind) {
    return kind == SCATTER || kind == SCATTERV || exchanges(kind) || kind >= NEIGHBOR_ALLTOALL;
}

/* Persistent ones of MPICH 4.0.2: later starts bring the data of the first, in place those of the
 * init, or none; Reduce_scatter aborts in place. Neighbor_alltoallw is wrong as a blocking call
 * too, and so left out of those everywhere. */
static bool is_wrong_alone(enum kind kind) {
    return kind == ALLGATHER || kind == GATHER || kind == SCATTER || kind == REDUCE_SCATTER ||
           kind == ALLTOALLW || kind == NEIGHBOR_ALLTOALLW;
}

static bool may_be_in_place(const struct collective *c) {
    if (c->kind <= BCAST || c->kind >= NEIGHBOR_ALLGATHER)
        return false;
    /* MPICH 4.0.2 alone crashes in MPI_Reduce in place on a node, at any root but 0 */
    return !(blocking && c->kind == REDUCE && c->root != 0);
}

/* ---- contents ---- */

/* The i-th element from one rank to another (0 if all get the same) in this run. */
static void element(const struct collective *c, int from, int to, int i, void *at) {
    const uint64_t writer = (uint64_t)c->id * MOST * MOST + (uint64_t)from * MOST +
                            (uint64_t)(is_personal(c->kind) ? to : 0);
    uint64_t word = check_word(writer, (uint64_t)c->runs, (uint64_t)i);
    if (reduces(c->kind) && c->element != AFFINE)
        word %= 1000;
    const double number = (double)(word % 1000);
    memcpy(at, c->element == DOUBLE ? (const void *)&number : &word, sizes[c->element]);
}

/* x -> a x + b in pairs of words, one after the other: the order matters. */
static void compose(void *left, void *right, int *n, MPI_Datatype *type) {
    const uint32_t *x = left;
    uint32_t *y = right;
    (void)type;
    for (int i = 0; i < *n; i++, x += 2, y += 2) {
        y[1] = y[0] * x[1] + y[1];
        y[0] *= x[0];
    }
}

static void combine(const struct collective *c, void *before, void *with) {
    int one = 1, a, b;
    int64_t x, y;
    double d, e;
    if (c->element == AFFINE) {
        compose(before, with, &one, NULL);
    } else if (c->element == DOUBLE) {
        memcpy(&d, before, sizeof d);
        memcpy(&e, with, sizeof e);
        e += d;
        memcpy(with, &e, sizeof e);
    } else if (c->element == INT64) {
        memcpy(&x, before, sizeof x);
        memcpy(&y, with, sizeof y);
        y = c->op == MPI_SUM ? x + y : c->op == MPI_BXOR ? x ^ y : x > y ? x : y;
        memcpy(with, &y, sizeof y);
    } else {
        memcpy(&a, before, sizeof a);
        memcpy(&b, with, sizeof b);
        b = c->op == MPI_SUM ? a + b : c->op == MPI_BXOR ? a ^ b : a > b ? a : b;
        memcpy(with, &b, sizeof b);
    }
}

/* The i-th element of the result of a reduction over the ranks below `end`. */
static void result(const struct collective *c, int end, int i, void *at) {
    uint64_t sum = 0, next = 0;
    element(c, 0, 0, i, &sum);
    for (int rank = 1; rank < end; rank++) {
        element(c, rank, 0, i, &next);
        combine(c, &sum, &next);
        sum = next;
    }
    memcpy(at, &sum, sizes[c->element]);
}

/* ---- shapes ---- */

/* Elements from rank i to rank j, known to all; in place as many come as go. */
static int amount(const struct collective *c, int i, int j) {
    const bool swap = exchanges(c->kind) && c->in_place && i > j;
    const uint64_t word =
        check_word(0xa11 + (uint64_t)c->id, (uint64_t)(swap ? j : i), (uint64_t)(swap ? i : j));
    const int most = has_types(c->kind) && c->n > W_MOST ? W_MOST : c->n;
    return word % 6 == 0 ? 0 : (int)(word / 6 % (uint64_t)(most + 1));
}

static void add(struct side *side, int peer, int n) {
    side->peers[side->nblocks] = peer;
    side->n[side->nblocks++] = n;
}

static void add_ranks(struct collective *c, struct side *side, bool sends) {
    for (int i = 0; i < c->nranks; i++) {
        const int from = sends ? c->rank : i, to = sends ? i : c->rank;
        int n = c->n;
        if (exchanges(c->kind) && c->kind != ALLTOALL)
            n = amount(c, from, to);
        else if (has_lists(c->kind))
            n = amount(c, i, i);
        add(side, i, n);
    }
}

static void shape_reduction(struct collective *c) {
    int total = c->kind == REDUCE_SCATTER_BLOCK ? c->n * c->nranks : c->n;
    for (int i = total = c->kind == REDUCE_SCATTER ? 0 : total; i < c->nranks; i++)
        if (c->kind == REDUCE_SCATTER) {
            c->receive.counts[i] = amount(c, i, i);
            c->first += i < c->rank ? c->receive.counts[i] : 0;
            total += c->receive.counts[i];
        }
    if (c->kind == REDUCE_SCATTER_BLOCK)
        c->first = c->rank * c->n;
    add(&c->send, 0, total);
    if (c->kind != REDUCE || c->rank == c->root)
        add(&c->receive, 0, total);
}

static void shape_among_ranks(struct collective *c) {
    const bool is_root = c->rank == c->root;
    const int own = has_lists(c->kind) ? amount(c, c->rank, c->rank) : c->n;
    if (c->kind == BCAST) {
        add(&c->receive, c->root, c->n);
    } else if (c->kind >= ALLGATHER && c->kind <= GATHERV) {
        add(&c->send, 0, own);
        if (c->kind < GATHER || is_root)
            add_ranks(c, &c->receive, false);
    } else if (c->kind == SCATTER || c->kind == SCATTERV) {
        if (is_root)
            add_ranks(c, &c->send, true);
        if (!c->in_place)
            add(&c->receive, c->root, own);
    } else {
        add_ranks(c, &c->send, true);
        add_ranks(c, &c->receive, false);
    }
}

static void add_neighbor(struct collective *c, struct side *side, int peer, bool sends) {
    const bool lists = has_lists(c->kind) || has_types(c->kind);
    const bool all_alike = c->kind <= NEIGHBOR_ALLGATHERV;
    const int from = sends ? c->rank : peer, to = all_alike ? from : sends ? peer : c->rank;
    add(side, peer, !lists ? c->n : peer == MPI_PROC_NULL ? 3 : amount(c, from, to));
}

/* Neighbours on a grid without a rank that is one twice, or on any graph. */
static void shape_among_neighbors(struct collective *c, struct check_rng *common) {
    int dims[2] = {0, 0}, periods[2], in[MOST], out[MOST], nin = 0, nout = 0;
    const int ndims = between(common, 0, 2);
    const bool all_alike = c->kind <= NEIGHBOR_ALLGATHERV;
    MPI_Comm old = c->comm;
    if (ndims > 0) {
        MUST(MPI_Dims_create(c->nranks, ndims, dims));
        for (int d = 0; d < 2; d++)
            periods[d] = between(common, 0, 1) && dims[d] > 2;
        MUST(MPI_Cart_create(old, ndims, dims, periods, 0, &c->comm));
        for (int d = 0; d < ndims; d++, nin += 2, nout += 2) {
            MUST(MPI_Cart_shift(c->comm, d, 1, &in[nin], &in[nin + 1]));
            memcpy(&out[nout], &in[nin], 2 * sizeof out[0]);
        }
    } else {
        for (int i = 0; i < c->nranks; i++)
            for (int j = 0; j < c->nranks; j++) {
                const bool sends = between(common, 0, 1);
                if (sends && i == c->rank)
                    out[nout++] = j;
                if (sends && j == c->rank)
                    in[nin++] = i;
            }
        MUST(MPI_Dist_graph_create_adjacent(old, nin, in, MPI_UNWEIGHTED, nout, out, MPI_UNWEIGHTED,
                                            MPI_INFO_NULL, 0, &c->comm));
    }
    MUST(MPI_Comm_free(&old));
    if (all_alike)
        add(&c->send, 0, has_lists(c->kind) ? amount(c, c->rank, c->rank) : c->n);
    for (int i = 0; i < nout && !all_alike; i++)
        add_neighbor(c, &c->send, out[i], true);
    for (int i = 0; i < nin; i++)
        add_neighbor(c, &c->receive, in[i], false);
}

/* ---- types ---- */

static MPI_Datatype spaced(enum element element, size_t stride) {
    MPI_Datatype type;
    MUST(MPI_Type_create_resized(basic[element], 0, (MPI_Aint)stride, &type));
    MUST(MPI_Type_commit(&type));
    return type;
}

/* n elements as one: a strided vector, with what belongs to it behind its end. */
static MPI_Datatype strided(enum element element, int n, size_t stride) {
    MPI_Datatype vector, type;
    MUST(MPI_Type_create_hvector(n, 1, (MPI_Aint)stride, basic[element], &vector));
    MUST(MPI_Type_create_resized(vector, 0, (MPI_Aint)stride * n, &type));
    MUST(MPI_Type_commit(&type));
    MUST(MPI_Type_free(&vector));
    return type;
}

/* Chooses the type of a block, whose number of elements is known. */
static void choose_type(struct side *side, int b, enum element element, struct check_rng *own) {
    const int form = between(own, 0, 3), n = side->n[b];
    const size_t stride = sizes[element] * (size_t)between(own, 1, 3);
    const bool plain = form < 2 || n == 0;
    side->stride[b] = plain ? sizes[element] : stride;
    side->counts[b] = form == 3 && !plain ? 1 : n;
    side->types[b] = plain       ? basic[element]
                     : form == 2 ? spaced(element, stride)
                                 : strided(element, n, stride);
}

/* Blocks one after another, as far apart as the type says. */
static size_t place_in_order(struct side *side, enum element element, struct check_rng *own) {
    const size_t extent = side->stride[0] * (size_t)side->n[0];
    (void)element, (void)own;
    for (int b = 0; b < side->nblocks; b++) {
        side->stride[b] = side->stride[0];
        side->at[b] = (size_t)b * extent;
    }
    return extent * (size_t)side->nblocks;
}

/* By displacements in elements, upwards or downwards, with room between them. */
static size_t place_by_lists(struct side *side, enum element element, struct check_rng *own) {
    const size_t stride = sizes[element] * (size_t)between(own, 1, 3);
    const bool down = between(own, 0, 1);
    int end = 0;
    side->types[0] = spaced(element, stride);
    for (int i = 0; i < side->nblocks; i++) {
        const int b = down ? side->nblocks - 1 - i : i;
        side->stride[b] = stride;
        side->counts[b] = side->n[b];
        side->displs[b] = end += between(own, 0, 3);
        side->at[b] = (size_t)end * stride;
        end += side->n[b];
    }
    return (size_t)end * stride;
}

/* By displacements in bytes, each with its own type. */
static size_t place_by_types(struct side *side, enum element element, struct check_rng *own) {
    size_t end = 0;
    for (int b = 0; b < side->nblocks; b++) {
        choose_type(side, b, element, own);
        end += 8 * (size_t)between(own, 0, 3);
        side->at[b] = end;
        side->displs[b] = (int)end;
        side->places[b] = (MPI_Aint)end;
        end += (side->stride[b] * (size_t)side->n[b] + 7) / 8 * 8;
    }
    return end;
}

static void lay_out(struct collective *c, struct side *side, struct check_rng *own) {
    size_t (*place)(struct side *, enum element, struct check_rng *) = place_in_order;
    side->ntypes = 1;
    side->types[0] = basic[c->element];
    side->stride[0] = sizes[c->element];
    if (has_displs(c->kind, side == &c->send)) {
        place = place_by_lists;
    } else if (has_types(c->kind)) {
        place = place_by_types;
        side->ntypes = side->nblocks;
    } else if (!reduces(c->kind) && side->nblocks > 0) {
        choose_type(side, 0, c->element, own);
    }
    side->bytes = place(side, c->element, own) + 2 * (size_t)EDGE;
    side->memory = malloc(side->bytes);
    side->want = malloc(side->bytes);
    CHECK(side->memory != NULL && side->want != NULL, "no memory");
}

static void free_types(struct side *side) {
    for (int i = 0; i < side->ntypes; i++) {
        bool is_basic = false;
        for (int e = 0; e < ELEMENTS; e++)
            is_basic |= side->types[i] == basic[e];
        if (!is_basic)
            MUST(MPI_Type_free(&side->types[i]));
    }
    side->ntypes = 0;
}

/* ---- calls ---- */

#define CALL(Name, ...)                                                                            \
    MUST(blocking ? MPI_##Name(__VA_ARGS__)                                                        \
                  : MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &c->request))
#define SEND from, s->counts[0], s->types[0]
#define SENDS from, s->counts, s->displs, s->types[0]
#define RECEIVE to, r->counts[0], r->types[0]
#define RECEIVES to, r->counts, r->displs, r->types[0]

static void call_reduction(struct collective *c, const void *from, void *to) {
    const int n = c->n, *counts = c->receive.counts;
    MPI_Datatype type = basic[c->element];
    switch (c->kind) {
    case REDUCE:
        CALL(Reduce, from, to, n, type, c->op, c->root, c->comm);
        break;
    case ALLREDUCE:
        CALL(Allreduce, from, to, n, type, c->op, c->comm);
        break;
    case SCAN:
        CALL(Scan, from, to, n, type, c->op, c->comm);
        break;
    case EXSCAN:
        CALL(Exscan, from, to, n, type, c->op, c->comm);
        break;
    case REDUCE_SCATTER_BLOCK:
        CALL(Reduce_scatter_block, from, to, n, type, c->op, c->comm);
        break;
    default:
        CALL(Reduce_scatter, from, to, counts, type, c->op, c->comm);
    }
}

static void call_among_neighbors(struct collective *c, const void *from, void *to) {
    const struct side *s = &c->send, *r = &c->receive;
    switch (c->kind) {
    case NEIGHBOR_ALLGATHER:
        CALL(Neighbor_allgather, SEND, RECEIVE, c->comm);
        break;
    case NEIGHBOR_ALLGATHERV:
        CALL(Neighbor_allgatherv, SEND, RECEIVES, c->comm);
        break;
    case NEIGHBOR_ALLTOALL:
        CALL(Neighbor_alltoall, SEND, RECEIVE, c->comm);
        break;
    case NEIGHBOR_ALLTOALLV:
        CALL(Neighbor_alltoallv, SENDS, RECEIVES, c->comm);
        break;
    default:
        CALL(Neighbor_alltoallw, from, s->counts, s->places, s->types, to, r->counts, r->places,
             r->types, c->comm);
    }
}

static void call_among_ranks(struct collective *c, const void *from, void *to) {
    const struct side *s = &c->send, *r = &c->receive;
    switch (c->kind) {
    case BARRIER:
        CALL(Barrier, c->comm);
        break;
    case BCAST:
        CALL(Bcast, RECEIVE, c->root, c->comm);
        break;
    case ALLGATHER:
        CALL(Allgather, SEND, RECEIVE, c->comm);
        break;
    case ALLGATHERV:
        CALL(Allgatherv, SEND, RECEIVES, c->comm);
        break;
    case GATHER:
        CALL(Gather, SEND, RECEIVE, c->root, c->comm);
        break;
    case GATHERV:
        CALL(Gatherv, SEND, RECEIVES, c->root, c->comm);
        break;
    case SCATTER:
        CALL(Scatter, SEND, RECEIVE, c->root, c->comm);
        break;
    case SCATTERV:
        CALL(Scatterv, SENDS, RECEIVE, c->root, c->comm);
        break;
    case ALLTOALL:
        CALL(Alltoall, SEND, RECEIVE, c->comm);
        break;
    case ALLTOALLV:
        CALL(Alltoallv, SENDS, RECEIVES, c->comm);
        break;
    default:
        CALL(Alltoallw, from, s->counts, s->displs, s->types, to, r->counts, r->displs, r->types,
             c->comm);
    }
}

/* Makes the request, or runs the collective. */
static void call(struct collective *c) {
    const bool scatters = c->kind == SCATTER || c->kind == SCATTERV;
    const void *from = c->send.memory + EDGE;
    void *to = c->receive.memory + EDGE;
    if (c->in_place && scatters)
        to = MPI_IN_PLACE;
    else if (c->in_place)
        from = MPI_IN_PLACE;
    if (reduces(c->kind))
        call_reduction(c, from, to);
    else if (c->kind >= NEIGHBOR_ALLGATHER)
        call_among_neighbors(c, from, to);
    else
        call_among_ranks(c, from, to);
}

/* ---- a collective's life ---- */

static int choose_n(struct check_rng *common) {
    static const int most[] = {0, 20, 20, 20, 20, 20, 20, 300, 300, 2000, 12000};
    return between(common, 0, most[between(common, 0, 10)]);
}

static void choose_comm(struct collective *c, struct check_rng *common) {
    const bool reversed = between(common, 0, 1);
    const int left_out = between(common, 0, 3);
    const bool out = left_out == check_rank && check_nranks > 2;
    MUST(MPI_Comm_split(MPI_COMM_WORLD, out ? MPI_UNDEFINED : 0,
                        reversed ? -check_rank : check_rank, &c->comm));
    c->nranks = check_nranks - (left_out < check_nranks && check_nranks > 2);
    if (!out)
        MUST(MPI_Comm_rank(c->comm, &c->rank));
}

static enum kind choose_kind(struct check_rng *common) {
    for (;;) {
        const enum kind kind = (enum kind)between(common, 0, KINDS - 1);
        if (blocking ? kind != NEIGHBOR_ALLTOALLW : !alone || !is_wrong_alone(kind))
            return kind;
    }
}

static void make(struct collective *c, int id, struct check_rng *common, struct check_rng *own) {
    const MPI_Op ops[] = {MPI_SUM, MPI_BXOR, MPI_MAX};
    *c = (struct collective){.live = true, .id = id, .request = MPI_REQUEST_NULL};
    c->kind = choose_kind(common);
    choose_comm(c, common);
    c->root = between(common, 0, c->nranks - 1);
    c->n = choose_n(common);
    c->element = (enum element)between(common, 0, DOUBLE);
    if (reduces(c->kind)) {
        c->element = (enum element)between(common, INT32, AFFINE);
        c->op = c->element == AFFINE   ? compose_op
                : c->element == DOUBLE ? MPI_SUM
                                       : ops[between(common, 0, 2)];
        /* with an operation of the program these are the host's, which aborts */
        if (c->element == AFFINE && c->kind >= REDUCE_SCATTER_BLOCK)
            c->kind = ALLREDUCE;
    }
    c->in_place = between(common, 0, 1) && may_be_in_place(c);
    if (c->comm == MPI_COMM_NULL)
        return;
    c->in_place &= !is_rooted(c->kind) || c->rank == c->root;
    struct check_rng shape = {(uint64_t)id << 32};
    if (reduces(c->kind))
        shape_reduction(c);
    else if (c->kind >= NEIGHBOR_ALLGATHER)
        shape_among_neighbors(c, &shape);
    else if (c->kind != BARRIER)
        shape_among_ranks(c);
    lay_out(c, &c->send, own);
    lay_out(c, &c->receive, own);
    if (blocking)
        return;
    call(c);
    if (between(own, 0, 1)) { /* the request keeps them */
        free_types(&c->send);
        free_types(&c->receive);
    }
}

static void drop(struct collective *c) {
    struct side *sides[] = {&c->send, &c->receive};
    if (c->live && c->comm != MPI_COMM_NULL) {
        if (!blocking)
            MUST(MPI_Request_free(&c->request));
        for (int i = 0; i < 2; i++) {
            free_types(sides[i]);
            free(sides[i]->memory);
            free(sides[i]->want);
        }
        MUST(MPI_Comm_free(&c->comm));
    }
    c->live = false;
}

/* ---- runs ---- */

static unsigned char *place(const struct side *side, unsigned char *memory, int b, int i) {
    return memory + EDGE + side->at[b] + (size_t)i * side->stride[b];
}

/* What this rank gives goes into its blocks. */
static void put(const struct collective *c, const struct side *side, int only) {
    for (int b = 0; b < side->nblocks; b++)
        for (int i = 0; i < side->n[b] && (only < 0 || b == only); i++)
            element(c, c->rank, side->peers[b] < 0 ? 0 : side->peers[b], i,
                    place(side, side->memory, b, i));
}

static void want(const struct collective *c) {
    const struct side *side = &c->receive;
    for (int b = 0; b < side->nblocks; b++) {
        int n = side->n[b], end = c->nranks;
        if (c->kind == REDUCE_SCATTER || c->kind == REDUCE_SCATTER_BLOCK)
            n = c->kind == REDUCE_SCATTER ? side->counts[c->rank] : c->n;
        if (c->kind == SCAN || c->kind == EXSCAN)
            end = c->rank + (c->kind == SCAN);
        for (int i = 0; i < n && side->peers[b] >= 0 && end > 0; i++) {
            unsigned char *at = place(side, side->want, b, i);
            if (reduces(c->kind))
                result(c, end, c->first + i, at);
            else
                element(c, side->peers[b], c->rank, i, at);
        }
    }
}

static void fill(struct collective *c) {
    struct side *send = &c->send, *receive = &c->receive;
    const bool gathers = c->kind >= ALLGATHER && c->kind <= GATHERV;
    memset(send->memory, 0xa5, send->bytes);
    memset(receive->memory, 0x5a, receive->bytes);
    if (c->kind == BCAST && c->rank == c->root)
        put(c, receive, -1);
    if (!c->in_place || c->kind == SCATTER || c->kind == SCATTERV)
        put(c, send, -1);
    else
        put(c, receive, gathers ? c->rank : -1);
    memcpy(send->want, send->memory, send->bytes);
    memcpy(receive->want, receive->memory, receive->bytes);
    want(c);
}

static void verify(struct collective *c) {
    const struct side *sides[] = {&c->send, &c->receive};
    for (int i = 0; i < 2; i++) {
        const struct side *side = sides[i];
        size_t at = 0;
        if (memcmp(side->memory, side->want, side->bytes) == 0)
            continue;
        while (side->memory[at] == side->want[at])
            at++;
        CHECK(false,
              "episode %d: %s%s of %d elements of %zu bytes on %d ranks, rank %d, root %d, run %d: "
              "byte %zu of %zu that it %s is 0x%02x, not 0x%02x",
              c->id, names[c->kind], c->in_place ? " in place" : "", c->n, sizes[c->element],
              c->nranks, c->rank, c->root, c->runs, at, side->bytes, i == 0 ? "sends" : "receives",
              side->memory[at], side->want[at]);
    }
    c->runs++;
}

static void start(struct collective *const use[], int n, struct check_rng *own) {
    MPI_Request requests[SLOTS];
    int order[SLOTS];
    for (int i = 0; i < n; i++) {
        const int j = between(own, 0, i);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < n; i++)
        requests[i] = use[order[i]]->request;
    if (between(own, 0, 3) == 0)
        MUST(MPI_Startall(n, requests));
    else
        for (int i = 0; i < n; i++)
            MUST(MPI_Start(&requests[i]));
}

static void test_some(MPI_Request requests[], int n) {
    int done[SLOTS], count;
    for (int left = n; left > 0; left -= count) {
        MUST(MPI_Testsome(n, requests, &count, done, MPI_STATUSES_IGNORE));
        CHECK(count != MPI_UNDEFINED, "requests are lost");
        for (int i = 0; i < count; i++)
            requests[done[i]] = MPI_REQUEST_NULL;
        sched_yield();
    }
}

static void complete(struct collective *const use[], int n, struct check_rng *own) {
    MPI_Request requests[SLOTS];
    const int how = between(own, 0, 4);
    for (int i = 0; i < n; i++)
        requests[i] = use[i]->request;
    if (how == 0)
        MUST(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    if (how == 1)
        test_some(requests, n);
    for (int i = 0, one; i < n && how > 1; i++)
        if (how == 2) {
            check_wait(&requests[i]);
        } else if (how == 3) {
            MUST(MPI_Wait(&requests[n - 1 - i], MPI_STATUS_IGNORE));
        } else {
            MUST(MPI_Waitany(n, requests, &one, MPI_STATUS_IGNORE));
            requests[one] = MPI_REQUEST_NULL;
        }
}

/* Some of the six together, and this one. */
static void run(int slot, struct check_rng *common, struct check_rng *own) {
    struct collective *use[SLOTS];
    const uint64_t chosen = check_draw(common) | 1u << slot;
    int n = 0;
    for (int i = 0; i < SLOTS; i++)
        if ((chosen >> i & 1) && slots[i].live && slots[i].comm != MPI_COMM_NULL)
            use[n++] = &slots[i];
    for (int i = 0; i < n; i++)
        fill(use[i]);
    if (blocking) {
        for (int i = 0; i < n; i++)
            call(use[i]);
    } else {
        start(use, n, own);
        complete(use, n, own);
    }
    for (int i = 0; i < n; i++)
        verify(use[i]);
}

static void prepare(void) {
    const MPI_Datatype types[] = {MPI_INT8_T, MPI_INT32_T, MPI_INT64_T, MPI_DOUBLE};
    memcpy(basic, types, sizeof types);
    MUST(MPI_Type_contiguous(2, MPI_UINT32_T, &basic[AFFINE]));
    MUST(MPI_Type_commit(&basic[AFFINE]));
    MUST(MPI_Op_create(compose, 0, &compose_op));
    for (int kind = 0; kind < KINDS && alone && !blocking && check_rank == 0; kind++)
        if (is_wrong_alone((enum kind)kind))
            printf("left out: %s\n", names[kind]);
}

int main(int argc, char **argv) {
    bool threads = false;
    for (int i = 3; i < argc; i++) {
        alone |= strcmp(argv[i], "alone") == 0;
        threads |= strcmp(argv[i], "threads") == 0;
    }
    if (threads)
        check_begin_threads(&argc, &argv, "pcoll_random");
    else
        check_begin(&argc, &argv, "pcoll_random");
    CHECK(argc > 2 && check_nranks <= MOST, "pcoll_random persistent|blocking EPISODES");
    blocking = strcmp(argv[1], "blocking") == 0;
    prepare();
    struct check_rng common = {0}, own = {(uint64_t)(check_rank + 1) << 40};
    const int most = atoi(argv[2]), episodes = check_rounds(most, most / 3);
    for (int episode = 0; episode < episodes; episode++) {
        const int slot = between(&common, 0, SLOTS - 1), rounds = between(&common, 1, 16);
        drop(&slots[slot]);
        make(&slots[slot], episode, &common, &own);
        for (int round = 0; round < rounds; round++)
            run(slot, &common, &own);
    }
    for (int i = 0; i < SLOTS; i++)
        drop(&slots[i]);
    MUST(MPI_Op_free(&compose_op));
    MUST(MPI_Type_free(&basic[AFFINE]));
    return check_end();
}
