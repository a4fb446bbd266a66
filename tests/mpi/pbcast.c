/*
 * pbcast: MPI_Bcast_init, everywhere it can be asked for and as often.
 *
 * Counts from nothing to several MiB from every root, contiguous and derived types (also one type
 * at the root and another elsewhere), many starts with other content, several requests in flight
 * completed in another order, kinds of communicators, requests made and freed by the hundred.
 * Before each start a rank that receives spoils its buffer, so old content cannot pass for new;
 * the root's buffer must come out as it went in, and bytes the type leaves out stay spoiled.
 */
#include "check.h"

enum { SPOIL = 0x3c, GUARD = 32 };

/* A broadcast of `count` of `type`: what the root sends, and the whole buffer after it. */
struct pbcast {
    MPI_Comm comm;
    int rank, root, count;
    MPI_Datatype type;
    char *buf, *expect, *content;
    size_t bytes; /* of buf and expect, guard included */
    int moved;    /* bytes of content */
    uint64_t round;
    MPI_Request request;
};

static void open_buffer(struct pbcast *b) {
    MPI_Aint lb, extent, true_lb, true_extent;
    MUST(MPI_Comm_rank(b->comm, &b->rank));
    MUST(MPI_Type_get_extent(b->type, &lb, &extent));
    MUST(MPI_Type_get_true_extent(b->type, &true_lb, &true_extent));
    MUST(MPI_Type_size(b->type, &b->moved));
    CHECK(lb == 0, "types here start at 0");
    size_t span =
        b->count ? (size_t)extent * (size_t)(b->count - 1) + (size_t)(true_lb + true_extent) : 0;
    b->bytes = span + GUARD;
    b->moved *= b->count;
    b->buf = malloc(b->bytes);
    b->expect = malloc(b->bytes);
    b->content = malloc((size_t)b->moved + 1);
    CHECK(b->buf && b->expect && b->content, "no memory");
}

static void open_request(struct pbcast *b) {
    open_buffer(b);
    MUST(MPI_Bcast_init(b->buf, b->count, b->type, b->root, b->comm, MPI_INFO_NULL, &b->request));
    CHECK(b->request != MPI_REQUEST_NULL, "no request");
}

static void close_request(struct pbcast *b) {
    MUST(MPI_Request_free(&b->request));
    CHECK(b->request == MPI_REQUEST_NULL, "MPI_Request_free left a handle");
    free(b->buf);
    free(b->expect);
    free(b->content);
}

/* The k-th byte moved is byte k of the root's content, whatever the type is on either side. */
static void before_start(struct pbcast *b, uint64_t round) {
    int position = 0;
    b->round = round;
    check_fill(b->content, (size_t)b->moved, (uint64_t)b->root, round);
    memset(b->expect, SPOIL, b->bytes);
    MUST(MPI_Unpack(b->content, b->moved, &position, b->expect, b->count, b->type, MPI_COMM_SELF));
    if (b->rank == b->root)
        memcpy(b->buf, b->expect, b->bytes);
    else
        memset(b->buf, SPOIL, b->bytes);
}

static void after_wait(const struct pbcast *b) {
    size_t i = 0;
    if (memcmp(b->buf, b->expect, b->bytes) == 0)
        return;
    while (b->buf[i] == b->expect[i])
        i++;
    CHECK(false, "byte %zu of %zu, count %d, root %d, round %d: 0x%02x, not 0x%02x", i, b->bytes,
          b->count, b->root, (int)b->round, (uint8_t)b->buf[i], (uint8_t)b->expect[i]);
}

static void once(struct pbcast *b, uint64_t round) {
    MPI_Status status;
    before_start(b, round);
    MUST(MPI_Start(&b->request));
    MUST(MPI_Wait(&b->request, &status));
    CHECK(b->request != MPI_REQUEST_NULL, "a persistent request was lost in MPI_Wait");
    after_wait(b);
}

static void test_sizes(MPI_Comm comm) {
    static const int counts[] = {0,     1,     7,      8,       63,      512,    4096,
                                 32768, 65537, 262144, 1000003, 2 << 20, 5 << 20};
    int nranks;
    MUST(MPI_Comm_size(comm, &nranks));
    for (int i = 0; i < (int)(sizeof counts / sizeof *counts); i++)
        for (int root = 0; root < nranks; root++) {
            struct pbcast b = {.comm = comm, .root = root, .count = counts[i], .type = MPI_BYTE};
            int starts = counts[i] > 100000 ? 2 : check_rounds(5, 2);
            if (nranks > 2 && i % 2 && root != nranks - 1)
                continue;
            open_request(&b);
            for (int s = 0; s < starts; s++)
                once(&b, (uint64_t)(100 * i + s));
            close_request(&b);
        }
}

static void test_repeats(MPI_Comm comm) {
    static const int counts[] = {8, 3000, 300000};
    int nranks;
    MUST(MPI_Comm_size(comm, &nranks));
    for (int i = 0; i < 3; i++) {
        struct pbcast b = {.comm = comm, .root = i % nranks, .count = counts[i], .type = MPI_BYTE};
        open_request(&b);
        for (int s = 0; s < 25; s++)
            once(&b, (uint64_t)s);
        close_request(&b);
    }
}

/* vector, struct with holes, resized, indexed with blocks out of order. */
static void make_types(MPI_Datatype types[4]) {
    MPI_Datatype parts[3] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, pair;
    MPI_Aint places[3] = {0, 8, 20};
    MUST(MPI_Type_vector(5, 3, 7, MPI_INT, &types[0]));
    MUST(MPI_Type_create_struct(3, (int[]){3, 1, 2}, places, parts, &types[1]));
    MUST(MPI_Type_contiguous(2, MPI_INT, &pair));
    MUST(MPI_Type_create_resized(pair, 0, 20, &types[2]));
    MUST(MPI_Type_indexed(3, (int[]){2, 1, 4}, (int[]){9, 0, 3}, MPI_INT, &types[3]));
    MUST(MPI_Type_free(&pair));
    for (int i = 0; i < 4; i++)
        MUST(MPI_Type_commit(&types[i]));
}

static void test_types(MPI_Comm comm) {
    static const int counts[] = {1, 3, 100, 9000};
    MPI_Datatype types[4];
    int nranks;
    MUST(MPI_Comm_size(comm, &nranks));
    make_types(types);
    for (int t = 0; t < 4; t++)
        for (int c = 0; c < 4; c++) {
            struct pbcast b = {
                .comm = comm, .root = (t + c) % nranks, .count = counts[c], .type = types[t]};
            if (nranks > 2 && (t + c) % 2)
                continue;
            open_request(&b);
            for (int s = 0; s < check_rounds(4, 2); s++)
                once(&b, (uint64_t)(10 * c + s));
            close_request(&b);
        }
    for (int t = 0; t < 4; t++)
        MUST(MPI_Type_free(&types[t]));
}

/* The same 15 ints an element: dense at the root, a vector elsewhere, freed after init. */
static void test_mixed_types(MPI_Comm comm) {
    static const int elements[] = {1, 40, 20000};
    int nranks, rank;
    MUST(MPI_Comm_size(comm, &nranks));
    MUST(MPI_Comm_rank(comm, &rank));
    for (int i = 0; i < 3; i++) {
        struct pbcast b = {.comm = comm, .root = i % nranks};
        MPI_Datatype vector;
        MUST(MPI_Type_vector(5, 3, 7, MPI_INT, &vector));
        MUST(MPI_Type_commit(&vector));
        b.type = rank == b.root ? MPI_INT : vector;
        b.count = rank == b.root ? 15 * elements[i] : elements[i];
        open_request(&b);
        MUST(MPI_Type_free(&vector));
        for (int s = 0; s < 3; s++)
            once(&b, (uint64_t)(50 + s));
        close_request(&b);
    }
}

/* Five at once, started in one order everywhere, waited for in another. */
static void test_in_flight(MPI_Comm comm) {
    enum { N = 5 };
    static const int counts[N] = {100000, 8, 1 << 20, 0, 5000};
    struct pbcast b[N];
    MPI_Request requests[N];
    MPI_Status statuses[N];
    int nranks;
    MUST(MPI_Comm_size(comm, &nranks));
    for (int i = 0; i < N; i++) {
        b[i] =
            (struct pbcast){.comm = comm, .root = i % nranks, .count = counts[i], .type = MPI_BYTE};
        open_request(&b[i]);
    }
    for (int round = 0; round < check_rounds(12, 4); round++) {
        for (int i = 0; i < N; i++)
            before_start(&b[i], (uint64_t)(10 * round + i));
        for (int i = 0; i < N; i++)
            requests[i] = b[i].request;
        if (round % 2)
            MUST(MPI_Startall(N, requests));
        else
            for (int i = 0; i < N; i++)
                MUST(MPI_Start(&requests[i]));
        if (round % 4 < 2)
            MUST(MPI_Waitall(N, requests, statuses));
        else
            for (int i = N - 1; i >= 0; i--)
                MUST(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        for (int i = 0; i < N; i++) {
            CHECK(requests[i] == b[i].request, "request %d changed", i);
            after_wait(&b[i]);
        }
    }
    for (int i = 0; i < N; i++)
        close_request(&b[i]);
}

static void test_many(MPI_Comm comm) {
    enum { N = 200 };
    static struct pbcast b[N];
    int nranks, each = check_rounds(N, 24);
    MUST(MPI_Comm_size(comm, &nranks));
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < each; i++) {
            b[i] = (struct pbcast){
                .comm = comm, .root = i % nranks, .count = 10 + i, .type = MPI_BYTE};
            open_request(&b[i]);
        }
        for (int i = 0; i < each; i += 3)
            once(&b[i], (uint64_t)(i + again));
        for (int i = 0; i < each; i++)
            close_request(&b[i]);
    }
}

static void test_large_count(MPI_Comm comm) {
    struct pbcast b = {.comm = comm, .root = 0, .count = 70000, .type = MPI_BYTE};
    open_buffer(&b);
    MUST(MPI_Bcast_init_c(b.buf, (MPI_Count)b.count, b.type, b.root, b.comm, MPI_INFO_NULL,
                          &b.request));
    for (int s = 0; s < 3; s++)
        once(&b, (uint64_t)s);
    close_request(&b);
}

static void test_comms(void) {
    MPI_Comm reversed, half, copy;
    MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &reversed));
    test_mixed_types(reversed);
    test_in_flight(reversed);
    MUST(MPI_Comm_free(&reversed));
    MUST(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &half));
    test_sizes(half);
    test_in_flight(half);
    MUST(MPI_Comm_free(&half));
    test_sizes(MPI_COMM_SELF);
    test_types(MPI_COMM_SELF);

    /* The communicator goes while a request on it remains; the request is still good. */
    struct pbcast b = {.root = 0, .count = 5000, .type = MPI_BYTE};
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    b.comm = copy;
    open_request(&b);
    once(&b, 1);
    MUST(MPI_Comm_free(&copy));
    once(&b, 2);
    close_request(&b);
}

/* Between the even and the odd ranks, from the first even one. */
static void test_intercomm(void) {
    enum { N = 3000 };
    MPI_Comm half, inter;
    MPI_Request request;
    char buf[N];
    int even = check_rank % 2 == 0, local;
    if (check_nranks < 2)
        return;
    MUST(MPI_Comm_split(MPI_COMM_WORLD, even, check_rank, &half));
    MUST(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, even ? 1 : 0, 5, &inter));
    MUST(MPI_Comm_rank(half, &local));
    int root = even ? (local == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;
    MUST(MPI_Bcast_init(buf, N, MPI_BYTE, root, inter, MPI_INFO_NULL, &request));
    for (uint64_t round = 0; round < 4; round++) {
        memset(buf, SPOIL, N);
        if (root == MPI_ROOT)
            check_fill(buf, N, 0, round);
        MUST(MPI_Start(&request));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (root != MPI_PROC_NULL)
            check_same(buf, N, 0, round, "intercommunicator", __LINE__);
    }
    MUST(MPI_Request_free(&request));
    MUST(MPI_Comm_free(&inter));
    MUST(MPI_Comm_free(&half));
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "pbcast");
    test_sizes(MPI_COMM_WORLD);
    test_repeats(MPI_COMM_WORLD);
    test_types(MPI_COMM_WORLD);
    test_mixed_types(MPI_COMM_WORLD);
    test_in_flight(MPI_COMM_WORLD);
    test_many(MPI_COMM_WORLD);
    test_large_count(MPI_COMM_WORLD);
    test_comms();
    test_intercomm();
    /* Two inactive requests stay behind: one that ran, one that never did. */
    static struct pbcast left[2];
    for (int i = 0; i < 2; i++) {
        left[i] =
            (struct pbcast){.comm = MPI_COMM_WORLD, .root = 0, .count = 2000, .type = MPI_BYTE};
        open_request(&left[i]);
    }
    once(&left[0], 9);
    return check_end();
}
