/*
 * pcoll_long: persistent exchanges of long blocks, and of long and short ones mixed.
 *
 * Blocks of nothing to 320 KB to and from all ranks, in the orders and by the calls there are;
 * on a graph several of them, long and short, go to the same neighbour, and have to arrive in
 * order; on another all neighbours are different. Each request is started often enough for all ways
 * of doing it to be tried and one to be settled on, every time with other data; some ranks are
 * late. In one of the rounds the data of one rank have gaps, in one all blocks are short. Nothing
 * is written beside the blocks.
 *
 *     pcoll_long [starts]
 */
#include <unistd.h>

#include "check.h"

enum { MOST = 8, EDGES = 7, BLOCKS = MOST > EDGES ? MOST : EDGES, LONGEST = 40000 };
enum { ROOM = LONGEST + 3 }; /* words from a block to the next */

enum kind {
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLV_IN_PLACE,
    ALLTOALLW,
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLGATHERV,
    ALLGATHERV_IN_PLACE,
    NEIGHBOR_ALLGATHERV,
    NEIGHBOR_ALLTOALLV,
    NEIGHBOR_ALLTOALLW,
    KINDS
};
enum round { PLAIN, GAPS, SHORT, DISTINCT, ROUNDS };

static const int lengths[] = {3, 40000, 8192, 0, 1000, 9000};
static const int again[EDGES] = {1, 1, 2, 1, 1, 2, 1}; /* how far neighbours are */

/* A block at one end. */
struct block {
    int peer, words;
    uint64_t writer; /* says what is in it */
};

static struct side {
    struct block blocks[BLOCKS];
    int n;
    int64_t *memory; /* BLOCKS x ROOM elements */
    int counts[BLOCKS], displs[BLOCKS];
    int byte_displs[BLOCKS];
    MPI_Aint addresses[BLOCKS];
    MPI_Datatype types[BLOCKS];
} out, in;

static int n, me, stride; /* words from an element to the next */
static enum kind kind;
static enum round form;
static MPI_Datatype word, gaps;
static MPI_Comm graph;

static int edges(void) {
    return form == DISTINCT && n < EDGES ? n : EDGES;
}

static int step(int edge) {
    return form == DISTINCT ? edge : again[edge] % n;
}

static bool is_neighbor(void) {
    return kind >= NEIGHBOR_ALLGATHERV;
}

static bool is_uniform(void) {
    return kind == ALLTOALL || kind == GATHER || kind == SCATTER;
}

/* All that a rank sends is the same block. */
static bool is_one_for_all(void) {
    return kind == ALLGATHERV || kind == ALLGATHERV_IN_PLACE || kind == NEIGHBOR_ALLGATHERV;
}

static int length(int from, int to, int edge) {
    int draw = kind == ALLTOALLV_IN_PLACE ? from * to + from + to
               : is_one_for_all()         ? from + kind
                                          : 5 * from + 3 * to + 2 * edge + kind;
    int words = is_uniform() ? 40000 : lengths[draw % 6];
    return form == SHORT ? words % 1000 : words;
}

static struct block between(int from, int to, int edge, int peer) {
    const bool all = is_one_for_all();
    return (struct block){peer, length(from, to, edge),
                          (uint64_t)(from * 1000 + (all ? 0 : to * 10 + edge))};
}

static void add(struct side *side, struct block block) {
    side->blocks[side->n++] = block;
}

static void describe(int root) {
    out.n = in.n = 0;
    if (is_neighbor())
        for (int i = 0; i < edges(); i++) {
            int to = (me + step(i)) % n, from = (me + n - step(i)) % n;
            add(&out, between(me, to, i, to));
            add(&in, between(from, me, i, from));
        }
    else
        for (int r = 0; r < n; r++) {
            bool gathers = kind == GATHER || kind == GATHERV;
            bool scatters = kind == SCATTER || kind == SCATTERV;
            if (!scatters && (!gathers || r == root))
                add(&out, between(me, r, 0, r));
            if (scatters && me == root)
                add(&out, between(me, r, 0, r));
            if (!gathers && (!scatters || r == root))
                add(&in, between(r, me, 0, r));
            if (gathers && me == root)
                add(&in, between(r, me, 0, r));
        }
}

static void lay_out(struct side *side) {
    for (int i = 0; i < side->n; i++) {
        side->counts[i] = side->blocks[i].words;
        side->displs[i] = i * (is_uniform() ? side->blocks[i].words : ROOM);
        side->addresses[i] = (MPI_Aint)side->displs[i] * stride * (MPI_Aint)sizeof(int64_t);
        side->byte_displs[i] = (int)side->addresses[i];
        side->types[i] = word;
    }
}

static void clear(struct side *side) {
    for (size_t i = 0; i < (size_t)BLOCKS * ROOM * (size_t)stride; i++)
        side->memory[i] = -1;
}

static int64_t *place(const struct side *side, int block, int i) {
    return &side->memory[((size_t)side->displs[block] + (size_t)i) * (size_t)stride];
}

static void fill(struct side *side, int start) {
    for (int b = 0; b < side->n; b++)
        for (int i = 0; i < side->blocks[b].words; i++)
            *place(side, b, i) =
                (int64_t)check_word(side->blocks[b].writer, (uint64_t)start, (uint64_t)i);
}

/* What was sent in place is in the block that is received into. */
static void fill_in_place(int start) {
    for (int b = 0; b < in.n; b++) {
        const struct block *mine = &out.blocks[b];
        bool all = kind == ALLGATHERV_IN_PLACE;
        for (int i = 0; i < in.blocks[b].words && (!all || b == me); i++)
            *place(&in, b, i) = (int64_t)check_word(mine->writer, (uint64_t)start, (uint64_t)i);
    }
}

static void compare(int start) {
    for (int b = 0; b < in.n; b++)
        for (int i = 0; i < in.blocks[b].words; i++) {
            int64_t want = (int64_t)check_word(in.blocks[b].writer, (uint64_t)start, (uint64_t)i);
            CHECK(*place(&in, b, i) == want,
                  "kind %d, round %d, start %d: word %d of block %d, of %d from rank %d, is %llx, "
                  "not %llx",
                  kind, form, start, i, b, in.blocks[b].words, in.blocks[b].peer,
                  (unsigned long long)*place(&in, b, i), (unsigned long long)want);
        }
}

/* Between the blocks and behind the elements is what was there. */
static void check_gaps(void) {
    for (int b = 0; b < in.n && !is_uniform(); b++)
        for (int i = in.blocks[b].words; i < ROOM; i++)
            CHECK(*place(&in, b, i) == -1, "kind %d, round %d: written behind block %d", kind, form,
                  b);
    for (int b = 0; b < in.n && stride > 1; b++)
        for (int i = 0; i < in.blocks[b].words; i++)
            CHECK(place(&in, b, i)[1] == -1, "kind %d, round %d: written between elements", kind,
                  form);
}

static void init(int root, MPI_Request *request) {
    const MPI_Comm world = MPI_COMM_WORLD;
    const MPI_Info none = MPI_INFO_NULL;
    const int one = form == SHORT ? 40000 % 1000 : 40000;
    int *sendcounts = out.counts, *recvcounts = in.counts;
    switch (kind) {
    case ALLTOALL:
        MUST(MPI_Alltoall_init(out.memory, one, word, in.memory, one, word, world, none, request));
        break;
    case ALLTOALLV:
        MUST(MPI_Alltoallv_init(out.memory, sendcounts, out.displs, word, in.memory, recvcounts,
                                in.displs, word, world, none, request));
        break;
    case ALLTOALLV_IN_PLACE:
        MUST(MPI_Alltoallv_init(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, in.memory, recvcounts,
                                in.displs, word, world, none, request));
        break;
    case ALLTOALLW:
        MUST(MPI_Alltoallw_init(out.memory, sendcounts, out.byte_displs, out.types, in.memory,
                                recvcounts, in.byte_displs, in.types, world, none, request));
        break;
    case GATHER:
        MUST(MPI_Gather_init(out.memory, one, word, in.memory, one, word, root, world, none,
                             request));
        break;
    case GATHERV:
        MUST(MPI_Gatherv_init(out.memory, sendcounts[0], word, in.memory, recvcounts, in.displs,
                              word, root, world, none, request));
        break;
    case SCATTER:
        MUST(MPI_Scatter_init(out.memory, one, word, in.memory, one, word, root, world, none,
                              request));
        break;
    case SCATTERV:
        MUST(MPI_Scatterv_init(out.memory, sendcounts, out.displs, word, in.memory, recvcounts[0],
                               word, root, world, none, request));
        break;
    case ALLGATHERV:
        MUST(MPI_Allgatherv_init(out.memory, sendcounts[0], word, in.memory, recvcounts, in.displs,
                                 word, world, none, request));
        break;
    case ALLGATHERV_IN_PLACE:
        MUST(MPI_Allgatherv_init(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in.memory, recvcounts,
                                 in.displs, word, world, none, request));
        break;
    case NEIGHBOR_ALLGATHERV:
        MUST(MPI_Neighbor_allgatherv_init(out.memory, sendcounts[0], word, in.memory, recvcounts,
                                          in.displs, word, graph, none, request));
        break;
    case NEIGHBOR_ALLTOALLV:
        MUST(MPI_Neighbor_alltoallv_init(out.memory, sendcounts, out.displs, word, in.memory,
                                         recvcounts, in.displs, word, graph, none, request));
        break;
    default:
        MUST(MPI_Neighbor_alltoallw_init(out.memory, sendcounts, out.addresses, out.types,
                                         in.memory, recvcounts, in.addresses, in.types, graph, none,
                                         request));
    }
}

static void run(int starts) {
    const bool in_place = kind == ALLTOALLV_IN_PLACE || kind == ALLGATHERV_IN_PLACE;
    const int root = kind % n;
    MPI_Request request;
    stride = form == GAPS && me == 0 ? 2 : 1;
    word = stride == 2 ? gaps : MPI_INT64_T;
    describe(root);
    lay_out(&out);
    lay_out(&in);
    clear(&out);
    clear(&in);
    init(root, &request);
    for (int start = 0; start < starts; start++) {
        if (in_place)
            fill_in_place(start);
        else
            fill(&out, start);
        if ((start + me) % 7 == 0)
            usleep(200);
        MUST(MPI_Start(&request));
        if (start % 3 == 0)
            MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        else
            check_wait(&request);
        compare(start);
    }
    check_gaps();
    MUST(MPI_Request_free(&request));
}

static void make_graph(void) {
    int to[EDGES], from[EDGES];
    for (int i = 0; i < edges(); i++) {
        to[i] = (me + step(i)) % n;
        from[i] = (me + n - step(i)) % n;
    }
    MUST(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, edges(), from, MPI_UNWEIGHTED, edges(), to,
                                        MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph));
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "pcoll_long");
    n = check_nranks;
    me = check_rank;
    CHECK(n <= MOST, "%d ranks at most", MOST);
    const int starts = argc > 1 ? atoi(argv[1]) : check_rounds(40, 34);
    MUST(MPI_Type_create_resized(MPI_INT64_T, 0, 2 * sizeof(int64_t), &gaps));
    MUST(MPI_Type_commit(&gaps));
    out.memory = check_memory((size_t)BLOCKS * ROOM * 2 * sizeof(int64_t));
    in.memory = check_memory((size_t)BLOCKS * ROOM * 2 * sizeof(int64_t));
    for (form = 0; form < ROUNDS; form++) {
        make_graph();
        for (kind = form == DISTINCT ? NEIGHBOR_ALLGATHERV : 0; kind < KINDS; kind++)
            run(starts);
        MUST(MPI_Comm_free(&graph));
    }
    MUST(MPI_Type_free(&gaps));
    check_memory_free(out.memory);
    check_memory_free(in.memory);
    check_end();
    return 0;
}
