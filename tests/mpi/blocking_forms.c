/*
 * blocking_forms: every blocking collective gives what it is to give, in every form.
 *
 * Where ranks outnumber cores the library may run the host's nonblocking form in place of the
 * blocking one. Each collective is called on communicators and on intercommunicators (of groups of
 * all sizes, each rank of each group as the root), in place, with no elements, with few and with
 * many, with datatypes whose gaps differ from rank to rank, with operations of MPI and of the
 * program. Gaps must stay as they were.
 *
 *     blocking_forms [twins] [intra|inter] [ROUNDS]
 *
 * twins: the program itself calls the nonblocking form and waits. On the host alone this shows
 * which forms may be put in place of the blocking ones. All that is wrong is listed at the end.
 */
#include "check.h"

#define MOST 8      /* ranks */
#define LONG 6000   /* elements that the host's algorithms take as many */
#define STRIDE 4    /* ints from one element to the next, at most */
#define GAP (-7777) /* in gaps, and where nothing is to arrive */
#define CALLS 48

static bool twins;
static int round_now;

/* How often a call was wrong. */
static struct {
    const char *name;
    int made, wrong;
} calls[CALLS];

static void note(const char *name, bool inter, bool good) {
    char text[64];
    int i = 0;
    snprintf(text, sizeof text, "%s%s", name, inter ? " between groups" : "");
    while (calls[i].name != NULL && strcmp(calls[i].name, text) != 0)
        i++;
    CHECK(i < CALLS - 1, "too many kinds of calls");
    if (calls[i].name == NULL)
        calls[i].name = strdup(text);
    calls[i].made++;
    calls[i].wrong += !good;
}

#define WITH_REQUEST(...) (__VA_ARGS__, &request)
#define CALL(Name, Twin, arguments)                                                                \
    do {                                                                                           \
        MPI_Request request;                                                                       \
        if (twins) {                                                                               \
            MUST(MPI_##Twin WITH_REQUEST arguments);                                               \
            MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));                                           \
        } else {                                                                                   \
            MUST(MPI_##Name arguments);                                                            \
        }                                                                                          \
    } while (0)

/* A communicator as a rank sees it. Data come from, and go to, the `peers`: the remote group of an
 * intercommunicator, else the ranks of the communicator. */
struct room {
    MPI_Comm comm;
    bool inter, second; /* this rank is in the second group of the intercommunicator */
    int rank, n, npeers;
    int stride;        /* between this rank's elements, in ints */
    MPI_Datatype type; /* an int and the gap behind it */
    int count;         /* elements from one rank to another */
};

/* Element i that a rank of a group has for `to`: every value tells where it is from. */
static int value(int group, int from, int to, int i) {
    return (int)(check_word((uint64_t)(group * MOST + from), (uint64_t)round_now,
                            (uint64_t)to << 32 | (uint64_t)i) &
                 0xffffff);
}

static int own_group(const struct room *room) {
    return room->second;
}

static int peer_group(const struct room *room) {
    return room->inter ? !room->second : 0;
}

/* A buffer for blocks elements of this rank, all gap. */
static int *buffer_of(const struct room *room, int blocks) {
    const size_t ints = (size_t)blocks * (size_t)room->count * STRIDE + STRIDE;
    int *buffer = malloc(ints * sizeof *buffer);
    CHECK(buffer != NULL, "no memory");
    for (size_t i = 0; i < ints; i++)
        buffer[i] = GAP;
    return buffer;
}

/* What this rank sends: block b is for rank b, or for all (to < 0: block 0 alone). */
static int *sent_by(const struct room *room, int blocks, bool same) {
    int *buffer = buffer_of(room, blocks);
    for (int b = 0; b < blocks; b++)
        for (int i = 0; i < room->count; i++)
            buffer[(b * room->count + i) * room->stride] =
                value(own_group(room), room->rank, same ? 0 : b, i);
    return buffer;
}

/* Block b of a buffer is the one that rank `from` of a group has for `to`; from < 0: untouched. */
static bool holds(const struct room *room, const int *buffer, int b, int group, int from, int to) {
    bool good = true;
    for (int i = 0; i < room->count; i++) {
        const int *element = &buffer[(b * room->count + i) * room->stride];
        good &= element[0] == (from < 0 ? GAP : value(group, from, to, i));
        for (int g = 1; g < room->stride; g++)
            good &= element[g] == GAP;
    }
    return good;
}

/* Nothing behind the blocks. */
static bool ends(const struct room *room, const int *buffer, int blocks) {
    return buffer[blocks * room->count * room->stride] == GAP;
}

/* Blocks 0 to n - 1 have come from ranks 0 to n - 1, each the one for `to` (< 0: of its rank). */
static bool all_hold(const struct room *room, const int *buffer, int n, int to) {
    bool good = ends(room, buffer, n);
    for (int b = 0; b < n; b++)
        good &= holds(room, buffer, b, peer_group(room), b, to);
    return good;
}

struct layout {
    int counts[MOST], displs[MOST], bytes[MOST];
    MPI_Datatype types[MOST];
};

static struct layout lay_out(const struct room *room) {
    struct layout l;
    for (int r = 0; r < MOST; r++) {
        l.counts[r] = room->count;
        l.displs[r] = r * room->count;
        l.bytes[r] = r * room->count * room->stride * (int)sizeof(int);
        l.types[r] = room->type;
    }
    return l;
}

/* ---- rooted ---- */

/* A root: of an intercommunicator its group, too. */
struct root {
    int rank, argument;
    bool is_me, takes_part;
};

static struct root root_of(const struct room *room, bool second, int rank) {
    const bool mine = !room->inter || room->second == second;
    const bool me = mine && room->rank == rank;
    return (struct root){.rank = rank,
                         .argument = !room->inter ? rank
                                     : me         ? MPI_ROOT
                                     : mine       ? MPI_PROC_NULL
                                                  : rank,
                         .is_me = me,
                         .takes_part = !room->inter || !mine};
}

static void bcast(const struct room *room, struct root root) {
    int *buffer = root.is_me ? sent_by(room, 1, true) : buffer_of(room, 1);
    CALL(Bcast, Ibcast, (buffer, room->count, room->type, root.argument, room->comm));
    bool good = ends(room, buffer, 1);
    if (root.takes_part)
        good &= holds(room, buffer, 0, peer_group(room), root.rank, 0);
    else if (!root.is_me)
        good &= holds(room, buffer, 0, 0, -1, 0);
    note("Bcast", room->inter, good);
    free(buffer);
}

/* One element more at the end for in place: the root's own block stands where it is to be. */
static void gather(const struct room *room, struct root root, bool v, bool in_place) {
    const struct layout l = lay_out(room);
    const bool here = in_place && root.is_me && !room->inter;
    int *mine = sent_by(room, 1, true), *got = buffer_of(room, room->npeers);
    for (int i = 0; here && i < room->count; i++)
        got[(room->rank * room->count + i) * room->stride] = value(0, room->rank, 0, i);
    const void *from = here ? MPI_IN_PLACE : mine;
    if (v)
        CALL(Gatherv, Igatherv,
             (from, room->count, room->type, got, l.counts, l.displs, room->type, root.argument,
              room->comm));
    else
        CALL(Gather, Igather,
             (from, room->count, room->type, got, room->count, room->type, root.argument,
              room->comm));
    bool good = true;
    if (root.is_me)
        good = all_hold(room, got, room->npeers, 0);
    else
        for (int b = 0; b < room->npeers; b++)
            good &= holds(room, got, b, 0, -1, 0);
    note(v ? "Gatherv" : "Gather", room->inter, good);
    free(mine);
    free(got);
}

static void scatter(const struct room *room, struct root root, bool v, bool in_place) {
    const struct layout l = lay_out(room);
    const bool here = in_place && root.is_me && !room->inter;
    int *mine = sent_by(room, room->npeers, false), *got = buffer_of(room, 1);
    void *to = here ? MPI_IN_PLACE : got;
    if (v)
        CALL(Scatterv, Iscatterv,
             (mine, l.counts, l.displs, room->type, to, room->count, room->type, root.argument,
              room->comm));
    else
        CALL(Scatter, Iscatter,
             (mine, room->count, room->type, to, room->count, room->type, root.argument,
              room->comm));
    const int from = root.takes_part && !here ? root.rank : -1;
    note(v ? "Scatterv" : "Scatter", room->inter,
         holds(room, got, 0, peer_group(room), from, room->rank) && ends(room, got, 1));
    free(mine);
    free(got);
}

/* ---- all to all ---- */

static void allgather(const struct room *room, bool v, bool in_place) {
    const struct layout l = lay_out(room);
    const bool here = in_place && !room->inter;
    int *mine = sent_by(room, 1, true), *got = buffer_of(room, room->npeers);
    for (int i = 0; here && i < room->count; i++)
        got[(room->rank * room->count + i) * room->stride] = value(0, room->rank, 0, i);
    const void *from = here ? MPI_IN_PLACE : mine;
    if (v)
        CALL(Allgatherv, Iallgatherv,
             (from, room->count, room->type, got, l.counts, l.displs, room->type, room->comm));
    else
        CALL(Allgather, Iallgather,
             (from, room->count, room->type, got, room->count, room->type, room->comm));
    note(v ? "Allgatherv" : "Allgather", room->inter, all_hold(room, got, room->npeers, 0));
    free(mine);
    free(got);
}

static void alltoall(const struct room *room, char kind, bool in_place) {
    const struct layout l = lay_out(room);
    const bool here = in_place && !room->inter;
    int *mine = sent_by(room, room->npeers, false);
    int *got = here ? sent_by(room, room->npeers, false) : buffer_of(room, room->npeers);
    const void *from = here ? MPI_IN_PLACE : mine;
    if (kind == 'v')
        CALL(Alltoallv, Ialltoallv,
             (from, l.counts, l.displs, room->type, got, l.counts, l.displs, room->type,
              room->comm));
    else if (kind == 'w')
        CALL(Alltoallw, Ialltoallw,
             (from, l.counts, l.bytes, l.types, got, l.counts, l.bytes, l.types, room->comm));
    else
        CALL(Alltoall, Ialltoall,
             (from, room->count, room->type, got, room->count, room->type, room->comm));
    const char *names[] = {"Alltoall", "Alltoallv", "Alltoallw"};
    note(names[kind == 'v'   ? 1
               : kind == 'w' ? 2
                             : 0],
         room->inter, all_hold(room, got, room->npeers, room->rank));
    free(mine);
    free(got);
}

/* ---- reductions ---- */

/* x -> a x + b: one after the other is one more, and the order of the two matters. */
struct map {
    unsigned a;
    int gap;
    unsigned b;
};

static struct map after(struct map first, struct map second) {
    return (struct map){first.a * second.a, GAP, first.b * second.a + second.b};
}

static struct map sum(struct map left, struct map right) {
    return (struct map){left.a + right.a, GAP, left.b + right.b};
}

/* An operation on maps. Those of the program are called with a type that has gaps; MPI_SUM is not.
 */
struct operation {
    MPI_Op op;
    MPI_Datatype type;
    int per_map; /* elements of the type */
    struct map (*combine)(struct map, struct map);
};

static void run_after(void *in, void *inout, int *n, MPI_Datatype *type) {
    struct map *left = in, *right = inout;
    (void)type;
    for (int i = 0; i < *n; i++) {
        const struct map both = after(left[i], right[i]);
        right[i].a = both.a;
        right[i].b = both.b;
    }
}

static void run_sum(void *in, void *inout, int *n, MPI_Datatype *type) {
    struct map *left = in, *right = inout;
    (void)type;
    for (int i = 0; i < *n; i++) {
        right[i].a += left[i].a;
        right[i].b += left[i].b;
    }
}

static struct operation operations[3];

static void make_operations(void) {
    MPI_Datatype map;
    MUST(MPI_Type_vector(2, 1, 2, MPI_UNSIGNED, &map));
    MUST(MPI_Type_commit(&map));
    operations[0] = (struct operation){MPI_SUM, MPI_UNSIGNED, 3, sum};
    operations[1] = (struct operation){.type = map, .per_map = 1, .combine = sum};
    operations[2] = (struct operation){.type = map, .per_map = 1, .combine = after};
    MUST(MPI_Op_create(run_sum, 1, &operations[1].op));
    MUST(MPI_Op_create(run_after, 0, &operations[2].op));
}

static void free_operations(void) {
    MUST(MPI_Op_free(&operations[1].op));
    MUST(MPI_Op_free(&operations[2].op));
    MUST(MPI_Type_free(&operations[1].type));
}

static struct map map_of(int group, int rank, int i) {
    return (struct map){(unsigned)value(group, rank, 1, i) | 1, GAP,
                        (unsigned)value(group, rank, 2, i)};
}

/* Maps 0 to n - 1 of this rank; mine = false: none has come yet. */
static struct map *maps_of(const struct room *room, int n, bool mine) {
    struct map *maps = calloc((size_t)n + 1, sizeof *maps);
    CHECK(maps != NULL, "no memory");
    for (int i = 0; i <= n; i++)
        maps[i] =
            mine && i < n ? map_of(own_group(room), room->rank, i) : (struct map){GAP, GAP, GAP};
    return maps;
}

/* The first n maps are those from `at` on of the ranks 0 to nranks - 1 of a group, put together;
 * nranks 0: none has come. */
static bool are_reduced(const struct operation *o, const struct map *maps, int n, int at, int group,
                        int nranks) {
    bool good = maps[n].b == (unsigned)GAP;
    for (int i = 0; i < n; i++) {
        struct map all = {GAP, GAP, GAP};
        for (int r = 0; r < nranks; r++)
            all = r == 0 ? map_of(group, 0, at + i) : o->combine(all, map_of(group, r, at + i));
        good &= maps[i].a == all.a && maps[i].b == all.b;
        good &= o->per_map == 3 || maps[i].gap == GAP;
    }
    return good;
}

/* MPICH 4.0.2 crashes in long reductions that are in place at another root than rank 0. */
static void reduce(const struct room *room, const struct operation *o, struct root root,
                   bool in_place) {
    const int n = room->count;
    const bool here =
        in_place && root.is_me && !room->inter && (root.rank == 0 || room->count < 10);
    struct map *mine = maps_of(room, n, true), *got = maps_of(room, n, here);
    CALL(Reduce, Ireduce,
         (here ? MPI_IN_PLACE : mine, got, n * o->per_map, o->type, o->op, root.argument,
          room->comm));
    note("Reduce", room->inter,
         are_reduced(o, got, n, 0, peer_group(room), root.is_me ? room->npeers : 0));
    free(mine);
    free(got);
}

static void allreduce(const struct room *room, const struct operation *o, bool in_place) {
    const int n = room->count;
    const bool here = in_place && !room->inter;
    struct map *mine = maps_of(room, n, true), *got = maps_of(room, n, here);
    CALL(Allreduce, Iallreduce,
         (here ? MPI_IN_PLACE : mine, got, n * o->per_map, o->type, o->op, room->comm));
    note("Allreduce", room->inter, are_reduced(o, got, n, 0, peer_group(room), room->npeers));
    free(mine);
    free(got);
}

/* Of an intercommunicator both groups bring as many elements: each rank gets a share for each rank
 * of the other group. Without `block` the first rank gets nothing, and the second what is its.
 * (MPICH 4.0.2 stops with an assertion where long data are scattered so, in place.) */
static void reduce_scatter(const struct room *room, const struct operation *o, bool block,
                           bool in_place) {
    const int share = room->count * (room->inter ? room->npeers : 1), n = share * room->n;
    const bool here = in_place && !room->inter && room->count < LONG;
    int counts[MOST], first = room->rank * share, ncounts = room->n;
    struct map *mine = maps_of(room, n, true), *got = maps_of(room, n, here);
    for (int r = 0; r < ncounts; r++)
        counts[r] = share * o->per_map;
    int own = share;
    if (!block && ncounts > 1) {
        counts[1] += counts[0];
        counts[0] = 0;
        first = room->rank == 1 ? 0 : first;
        own = room->rank == 0 ? 0 : room->rank == 1 ? 2 * share : share;
    }
    const void *from = here ? MPI_IN_PLACE : mine;
    if (block)
        CALL(Reduce_scatter_block, Ireduce_scatter_block,
             (from, got, share * o->per_map, o->type, o->op, room->comm));
    else
        CALL(Reduce_scatter, Ireduce_scatter, (from, got, counts, o->type, o->op, room->comm));
    for (int i = own; here && i <= own; i++)
        got[i] = (struct map){GAP, GAP, GAP}; /* in place the rest of the buffer is not said */
    note(block ? "Reduce_scatter_block" : "Reduce_scatter", room->inter,
         are_reduced(o, got, own, first, peer_group(room), room->npeers));
    free(mine);
    free(got);
}

static void scan(const struct room *room, const struct operation *o, bool in_place) {
    const int n = room->count;
    for (int exclusive = 0; exclusive < 2; exclusive++) {
        struct map *mine = maps_of(room, n, true), *got = maps_of(room, n, in_place);
        const void *from = in_place ? MPI_IN_PLACE : mine;
        if (exclusive)
            CALL(Exscan, Iexscan, (from, got, n * o->per_map, o->type, o->op, room->comm));
        else
            CALL(Scan, Iscan, (from, got, n * o->per_map, o->type, o->op, room->comm));
        const int nranks = exclusive ? room->rank : room->rank + 1;
        note(exclusive ? "Exscan" : "Scan", false,
             nranks == 0 || are_reduced(o, got, n, 0, 0, nranks));
        free(mine);
        free(got);
    }
}

/* ---- neighbours ---- */

/* On a ring of three or more: left, then right. */
static void neighbours(const struct room *room, char kind) {
    const struct layout l = lay_out(room);
    const MPI_Aint bytes[2] = {l.bytes[0], l.bytes[1]};
    const int near[2] = {(room->rank + room->n - 1) % room->n, (room->rank + 1) % room->n};
    int *mine = sent_by(room, 2, kind == 'g' || kind == 'G'), *got = buffer_of(room, 2);
    bool good = true;
    if (kind == 'g')
        CALL(Neighbor_allgather, Ineighbor_allgather,
             (mine, room->count, room->type, got, room->count, room->type, room->comm));
    else if (kind == 'G')
        CALL(Neighbor_allgatherv, Ineighbor_allgatherv,
             (mine, room->count, room->type, got, l.counts, l.displs, room->type, room->comm));
    else if (kind == 'v')
        CALL(Neighbor_alltoallv, Ineighbor_alltoallv,
             (mine, l.counts, l.displs, room->type, got, l.counts, l.displs, room->type,
              room->comm));
    else if (kind == 'w')
        CALL(Neighbor_alltoallw, Ineighbor_alltoallw,
             (mine, l.counts, bytes, l.types, got, l.counts, bytes, l.types, room->comm));
    else
        CALL(Neighbor_alltoall, Ineighbor_alltoall,
             (mine, room->count, room->type, got, room->count, room->type, room->comm));
    for (int b = 0; b < 2; b++)
        good &= holds(room, got, b, 0, near[b], kind == 'g' || kind == 'G' ? 0 : 1 - b);
    static const char kinds[] = "gGavw";
    static const char *const names[] = {"Neighbor_allgather", "Neighbor_allgatherv",
                                        "Neighbor_alltoall", "Neighbor_alltoallv",
                                        "Neighbor_alltoallw"};
    note(names[strchr(kinds, kind) - kinds], false, good && ends(room, got, 2));
    free(mine);
    free(got);
}

/* ---- barriers ---- */

/* Where all ranks share a node: nobody leaves before all of the other group, or all, have come. */
static void barrier(const struct room *room, _Atomic int *come, const int peers[]) {
    bool good = true;
    if (come != NULL)
        come[check_rank]++;
    if (twins) {
        MPI_Request request;
        MUST(MPI_Ibarrier(room->comm, &request));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        MUST(MPI_Barrier(room->comm));
    }
    for (int r = 0; come != NULL && r < room->npeers; r++)
        good &= come[peers[r]] >= come[check_rank];
    note("Barrier", room->inter, good);
}

/* ---- all of them ---- */

static const int counts[] = {0, 1, 5, 700, LONG};
#define COUNTS ((int)(sizeof counts / sizeof counts[0]))

/* The n-th kind of datatype: without gaps, or with some that differ from rank to rank. (MPICH 4.0.2
 * decides by each rank's own gaps in which pieces long data go, and fails.) */
static void choose_type(struct room *room, int n) {
    const int shift = room->count < LONG ? check_rank : 0;
    room->stride = n == 0 ? 1 : 2 + (shift + n) % (STRIDE - 1);
    if (room->stride == 1) {
        MUST(MPI_Type_dup(MPI_INT, &room->type));
    } else {
        MUST(
            MPI_Type_create_resized(MPI_INT, 0, room->stride * (MPI_Aint)sizeof(int), &room->type));
        MUST(MPI_Type_commit(&room->type));
    }
}

static void try_root(const struct room *room, struct root root, bool reductions) {
    bcast(room, root);
    for (int form = 0; form < 4; form++) {
        gather(room, root, form & 1, form & 2);
        scatter(room, root, form & 1, form & 2);
    }
    for (int o = 0; reductions && o < 3; o++)
        for (int in_place = 0; in_place < 2; in_place++)
            reduce(room, &operations[o], root, in_place);
}

static void try_all(const struct room *room, bool reductions) {
    for (int in_place = 0; in_place < 2; in_place++) {
        allgather(room, false, in_place);
        allgather(room, true, in_place);
        alltoall(room, 'a', in_place);
        alltoall(room, 'v', in_place);
        alltoall(room, 'w', in_place);
        for (int o = 0; reductions && o < 3; o++) {
            allreduce(room, &operations[o], in_place);
            reduce_scatter(room, &operations[o], true, in_place);
            reduce_scatter(room, &operations[o], false, in_place);
            if (!room->inter)
                scan(room, &operations[o], in_place);
        }
    }
}

static void try_room(struct room *room, int remote_n) {
    for (int c = 0; c < COUNTS; c++)
        for (int kind = 0; kind < 2; kind++) {
            round_now++;
            room->count = counts[c];
            choose_type(room, kind);
            for (int second = 0; second <= room->inter; second++) {
                const int nroots = !room->inter || room->second == second ? room->n : remote_n;
                for (int r = 0; r < nroots; r++)
                    try_root(room, root_of(room, second, r), kind == 0);
            }
            try_all(room, kind == 0);
            MUST(MPI_Type_free(&room->type));
        }
}

static void try_intra(_Atomic int *come) {
    struct room room = {.rank = check_rank, .n = check_nranks, .npeers = check_nranks};
    int ring[MOST], periodic = 1;
    MPI_Comm grid;
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &room.comm));
    for (int r = 0; r < MOST; r++)
        ring[r] = r;
    for (int i = 0; i < 20; i++)
        barrier(&room, come, ring);
    try_room(&room, 0);
    MUST(MPI_Cart_create(room.comm, 1, &room.n, &periodic, 0, &grid));
    MUST(MPI_Comm_free(&room.comm));
    room.comm = grid;
    for (int c = 0; c < COUNTS && room.n > 2; c++)
        for (int kind = 0; kind < 2; kind++) {
            round_now++;
            room.count = counts[c];
            choose_type(&room, kind);
            for (const char *k = "gGavw"; *k != '\0'; k++)
                neighbours(&room, *k);
            MUST(MPI_Type_free(&room.type));
        }
    MUST(MPI_Comm_free(&room.comm));
}

/* What an intercommunicator is made into. */
static void derive(const struct room *room) {
    MPI_Comm made[3];
    MPI_Group group;
    int n, total = room->n + room->npeers;
    MUST(MPI_Comm_dup(room->comm, &made[0]));
    MUST(MPI_Comm_group(room->comm, &group));
    MUST(MPI_Comm_create(room->comm, group, &made[1]));
    MUST(MPI_Group_free(&group));
    MUST(MPI_Intercomm_merge(room->comm, room->second, &made[2]));
    for (int i = 0; i < 3; i++) {
        MUST(i < 2 ? MPI_Comm_remote_size(made[i], &n) : MPI_Comm_size(made[i], &n));
        CHECK(n == (i < 2 ? room->npeers : total), "communicator %d has %d ranks", i, n);
        MUST(MPI_Barrier(made[i]));
        MUST(MPI_Comm_free(&made[i]));
    }
}

/* The first group has `first` ranks. */
static void try_inter(int first, _Atomic int *come) {
    struct room room = {.inter = true, .second = check_rank >= first};
    MPI_Comm local;
    int peers[MOST];
    MUST(MPI_Comm_split(MPI_COMM_WORLD, room.second, 0, &local));
    MUST(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, room.second ? 0 : first, 1, &room.comm));
    MUST(MPI_Comm_rank(room.comm, &room.rank));
    MUST(MPI_Comm_size(room.comm, &room.n));
    MUST(MPI_Comm_remote_size(room.comm, &room.npeers));
    for (int r = 0; r < MOST; r++)
        peers[r] = room.second ? r : first + r;
    for (int i = 0; i < 20; i++)
        barrier(&room, come, peers);
    try_room(&room, room.npeers);
    derive(&room);
    MUST(MPI_Comm_free(&room.comm));
    MUST(MPI_Comm_free(&local));
}

/* Words that all ranks see, if they share a node. */
static _Atomic int *share(MPI_Win *win) {
    MPI_Comm node;
    MPI_Aint bytes;
    int unit, n;
    void *words;
    MUST(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    MUST(MPI_Comm_size(node, &n));
    *win = MPI_WIN_NULL;
    if (n == check_nranks) {
        MUST(MPI_Win_allocate_shared(check_rank == 0 ? MOST * (MPI_Aint)sizeof(int) : 0, 1,
                                     MPI_INFO_NULL, node, &words, win));
        MUST(MPI_Win_shared_query(*win, 0, &bytes, &unit, &words));
        if (check_rank == 0)
            memset(words, 0, MOST * sizeof(int));
        MUST(MPI_Barrier(node));
    }
    MUST(MPI_Comm_free(&node));
    return *win == MPI_WIN_NULL ? NULL : words;
}

static int wrong_in_all(void) {
    int wrong = 0, all;
    for (int i = 0; calls[i].name != NULL; i++) {
        if (calls[i].wrong > 0)
            printf("rank %d: %s: %d of %d are wrong\n", check_rank, calls[i].name, calls[i].wrong,
                   calls[i].made);
        wrong += calls[i].wrong;
        free((char *)calls[i].name);
    }
    fflush(stdout);
    MUST(MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    return all;
}

int main(int argc, char **argv) {
    bool intra = true, inter = true;
    int rounds = 3;
    MPI_Win win;
    check_begin(&argc, &argv, "blocking_forms");
    for (int i = 1; i < argc; i++) {
        twins |= strcmp(argv[i], "twins") == 0;
        intra &= strcmp(argv[i], "inter") != 0;
        inter &= strcmp(argv[i], "intra") != 0;
        rounds = atoi(argv[i]) > 0 ? atoi(argv[i]) : rounds;
    }
    CHECK(check_nranks <= MOST, "at most %d ranks", MOST);
    make_operations();
    _Atomic int *come = share(&win);
    for (int i = 0; i < rounds; i++) {
        if (intra)
            try_intra(come);
        for (int first = 1; inter && first < check_nranks; first++)
            try_inter(first, come);
    }
    if (win != MPI_WIN_NULL)
        MUST(MPI_Win_free(&win));
    free_operations();
    const int wrong = wrong_in_all();
    CHECK(wrong == 0, "%d calls are wrong", wrong);
    return check_end();
}
