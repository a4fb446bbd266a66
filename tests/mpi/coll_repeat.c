/*
 * coll_repeat: MPI_Barrier, Bcast, Reduce, Allreduce, Allgather and Alltoall in loops, as programs
 * call them.
 *
 * Each is called often with the same arguments; in between roots, counts, datatypes (a block here,
 * a vector there for the same bytes), communicators, buffers and MPI_IN_PLACE change, operations of
 * the program's own come and calls that are wrong, on all ranks or one. Looked at: the data, that
 * nothing beside them is touched, that errors are the host's, and that no rank leaves a barrier
 * early. "threads": two threads, each on a communicator of its own. "thoroughly": so often that a
 * library that is in a hurry has made up its mind. "often": so often that any has; sums of floating
 * point numbers are the same bits in every call.
 */
#include <pthread.h>
#include <time.h>

#include "check.h"

enum { MOST = 20000, PAD = 16, RANKS_MOST = 16 };
static int repeats;

struct place { /* of a thread */
    MPI_Comm comm;
    int rank, nranks;
    unsigned salt;
    int in[RANKS_MOST * MOST + 2 * PAD], out[2 * RANKS_MOST * MOST + 2 * PAD];
};

static int value_of(const struct place *p, int rank, int round, int i) {
    return (int)((p->salt + (unsigned)rank * 131u + (unsigned)round * 17u + (unsigned)i * 3u) %
                 100000u);
}

static int sum_of(const struct place *p, int round, int i) {
    int sum = 0;
    for (int r = 0; r < p->nranks; r++)
        sum += value_of(p, r, round, i);
    return sum;
}

/* Where results go is -1: n values for each rank, with gaps. */
static void clear(struct place *p, int n) {
    memset(p->out, 0xff, (size_t)(2 * n * p->nranks + 2 * PAD) * sizeof(int));
}

/* n values of this rank's. */
static int *fill(struct place *p, int *at, int round, int n) {
    for (int i = 0; i < n; i++)
        at[i] = value_of(p, p->rank, round, i);
    return at;
}

static void is_untouched(const struct place *p, const int *begin, int n) {
    CHECK(begin[-1] == -1 && begin[n] == -1, "beside %d results on rank %d", n, p->rank);
}

static void bcast(struct place *p, int n, int round, int root) {
    const bool vector = (round + p->rank) % 5 == 4;
    const int step = vector ? 2 : 1;
    int *at = p->out + PAD + round % 3;
    MPI_Datatype type = MPI_INT;
    clear(p, n);
    for (int i = 0; p->rank == root && i < n; i++)
        at[i * step] = value_of(p, root, round, i);
    if (vector) {
        MUST(MPI_Type_vector(n, 1, 2, MPI_INT, &type));
        MUST(MPI_Type_commit(&type));
    }
    MUST(MPI_Bcast(at, vector ? 1 : n, type, root, p->comm));
    if (vector)
        MUST(MPI_Type_free(&type));
    for (int i = 0; i < n; i++) {
        CHECK(at[i * step] == value_of(p, root, round, i), "broadcast %d, value %d", round, i);
        CHECK(step == 1 || at[i * step + 1] == -1, "broadcast %d, gap %d", round, i);
    }
    is_untouched(p, at, n * step);
}

static void reduce(struct place *p, int n, int round, int root) {
    /* MPICH 4.0.2 crashes where a root other than 0 reduces more in place */
    const bool in_place = p->rank == root && round % 3 == 1 && (n < 100 || root == 0);
    int *to = p->out + PAD + round % 3;
    clear(p, n);
    int *from = fill(p, in_place ? to : p->in, round, n);
    MUST(MPI_Reduce(in_place ? MPI_IN_PLACE : from, p->rank == root ? to : NULL, n, MPI_INT,
                    MPI_SUM, root, p->comm));
    for (int i = 0; i < n && p->rank == root; i++)
        CHECK(to[i] == sum_of(p, round, i), "reduce %d, value %d: %d", round, i, to[i]);
    if (p->rank == root)
        is_untouched(p, to, n);
    else
        CHECK(from[0] == value_of(p, p->rank, round, 0), "the input is changed");
}

static void allreduce(struct place *p, int n, int round, int root) {
    const bool in_place = round % 7 == 1, most = round % 2;
    int *to = p->out + PAD + round % 3;
    clear(p, n);
    int *from = fill(p, in_place ? to : p->in, round, n);
    (void)root;
    MUST(MPI_Allreduce(in_place ? MPI_IN_PLACE : from, to, n, MPI_INT, most ? MPI_MAX : MPI_SUM,
                       p->comm));
    for (int i = 0; i < n; i++) {
        int want = most ? 0 : sum_of(p, round, i);
        for (int r = 0; r < p->nranks && most; r++)
            want = value_of(p, r, round, i) > want ? value_of(p, r, round, i) : want;
        CHECK(to[i] == want, "allreduce %d, value %d: %d, not %d", round, i, to[i], want);
    }
    is_untouched(p, to, n);
}

static void allgather(struct place *p, int n, int round, int root) {
    const bool in_place = round % 7 == 2, vector = (round + p->rank) % 5 == 3 && !in_place;
    int *to = p->out + PAD + round % 3;
    MPI_Datatype type = MPI_INT;
    (void)root;
    clear(p, n);
    if (vector) { /* blocks of n, whose extent is twice that, less a gap */
        MUST(MPI_Type_vector(n, 1, 2, MPI_INT, &type));
        MUST(MPI_Type_commit(&type));
    }
    const int step = vector ? 2 : 1, apart = vector ? 2 * n - 1 : n;
    int *from = in_place ? to + p->rank * n : p->in;
    for (int i = 0; i < n; i++)
        from[i] = value_of(p, p->rank, round, i);
    MUST(MPI_Allgather(in_place ? MPI_IN_PLACE : from, n, MPI_INT, to, vector ? 1 : n, type,
                       p->comm));
    if (vector)
        MUST(MPI_Type_free(&type));
    for (int r = 0; r < p->nranks; r++)
        for (int i = 0; i < n; i++)
            CHECK(to[r * apart + i * step] == value_of(p, r, round, i),
                  "allgather %d, value %d of rank %d: %d", round, i, r, to[r * apart + i * step]);
    is_untouched(p, to, p->nranks * apart);
}

static void alltoall(struct place *p, int n, int round, int root) {
    const bool in_place = round % 7 == 3;
    int *to = p->out + PAD + round % 3;
    clear(p, n);
    int *from = fill(p, in_place ? to : p->in, round, n * p->nranks);
    (void)root;
    MUST(MPI_Alltoall(in_place ? MPI_IN_PLACE : from, n, MPI_INT, to, n, MPI_INT, p->comm));
    for (int r = 0; r < p->nranks; r++)
        for (int i = 0; i < n; i++)
            CHECK(to[r * n + i] == value_of(p, r, round, p->rank * n + i),
                  "alltoall %d, value %d of rank %d", round, i, r);
    is_untouched(p, to, p->nranks * n);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Nobody leaves before the last has come. */
static void barrier(struct place *p, int n, int round, int root) {
    (void)n;
    (void)root;
    if (round % 8 == 0 && round / 8 % p->nranks == p->rank)
        nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
    double came = now(), last;
    MUST(MPI_Barrier(p->comm));
    double left = now();
    if (round % 8 != 0)
        return;
    MUST(MPI_Allreduce(&came, &last, 1, MPI_DOUBLE, MPI_MAX, p->comm));
    CHECK(left >= last, "barrier %d: left %g s early", round, last - left);
}

typedef void collective(struct place *, int n, int round, int root);
static collective *const collectives[] = {bcast, reduce, allreduce, allgather, alltoall, barrier};
enum { KINDS = sizeof(collectives) / sizeof(collectives[0]) };

/* The first of two, which does not commute. */
static void first(void *in, void *inout, int *n, MPI_Datatype *type) {
    (void)type;
    memcpy(inout, in, (size_t)*n * sizeof(int));
}

static void own_operation(struct place *p, MPI_Op op, int round) {
    int want = value_of(p, 0, round, 0), got = -1, mine = value_of(p, p->rank, round, 0);
    MUST(MPI_Allreduce(&mine, &got, 1, MPI_INT, op, p->comm));
    CHECK(got == want, "own operation %d: %d, not %d", round, got, want);
    double both[2] = {mine, got};
    MUST(MPI_Bcast(both, 2, MPI_DOUBLE, 0, p->comm));
}

static void is_wrong(int error, int class) {
    int got = MPI_SUCCESS;
    if (error != MPI_SUCCESS)
        MPI_Error_class(error, &got);
    CHECK(got == class, "error class %d, not %d", got, class);
}

/* Calls that are wrong on this rank, to which no other rank need come. */
static void wrong_calls(struct place *p) {
    int a[8] = {0}, b[8 * RANKS_MOST] = {0};
    is_wrong(MPI_Bcast(a, -1, MPI_INT, 0, p->comm), MPI_ERR_COUNT);
    is_wrong(MPI_Bcast(a, 1, MPI_INT, p->nranks, p->comm), MPI_ERR_ROOT);
    is_wrong(MPI_Bcast(a, 1, MPI_DATATYPE_NULL, 0, p->comm), MPI_ERR_TYPE);
    is_wrong(MPI_Allreduce(a, a, 1, MPI_INT, MPI_SUM, p->comm), MPI_ERR_BUFFER);
    is_wrong(MPI_Allreduce(a, b, 1, MPI_INT, MPI_OP_NULL, p->comm), MPI_ERR_OP);
    is_wrong(MPI_Allreduce(a, b, 1, MPI_DOUBLE, MPI_BAND, p->comm), MPI_ERR_OP);
    is_wrong(MPI_Allgather(a, 1, MPI_INT, NULL, 1, MPI_INT, p->comm), MPI_ERR_BUFFER);
    is_wrong(MPI_Alltoall(b, 1, MPI_INT, b, 1, MPI_INT, p->comm), MPI_ERR_BUFFER);
}

static void enter(struct place *p, MPI_Comm comm) {
    p->comm = comm;
    MPI_Comm_rank(comm, &p->rank);
    MPI_Comm_size(comm, &p->nranks);
}

/* Everything on one communicator, that of `p`. */
static void use(struct place *p, bool wrong) {
    static const int counts[] = {1, 2, 1000, MOST};
    MPI_Op op;
    MUST(MPI_Op_create(first, 0, &op));
    if (wrong)
        MUST(MPI_Comm_set_errhandler(p->comm, MPI_ERRORS_RETURN));
    for (int size = 0; size < 4; size++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int i = 0; i < (size < 2 ? repeats : repeats / 2); i++)
                collectives[kind](p, counts[size], i, size % p->nranks);
    for (int i = 0; i < repeats; i++) { /* one after the other, roots and counts in turn */
        for (int kind = 0; kind < KINDS; kind++)
            collectives[kind](p, 3 + i % 2, i, i % p->nranks);
        own_operation(p, op, i);
        if (wrong && (i % 8 == 0 || (i % 8 == 3 && p->rank == 0)))
            wrong_calls(p);
    }
    for (int i = 0; i < repeats; i++) /* more kinds than are kept */
        bcast(p, 100 + i, i, 0);
    MUST(MPI_Op_free(&op));
}

static void *use_duplicate(void *argument) {
    use(argument, false);
    return NULL;
}

static void between_groups(struct place *p) {
    MPI_Comm half, inter;
    const int color = check_rank % 2;
    int local;
    if (check_nranks < 2)
        return;
    MUST(MPI_Comm_split(MPI_COMM_WORLD, color, 0, &half));
    MUST(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - color, 7, &inter));
    MPI_Comm_rank(half, &local);
    for (int i = 0; i < repeats; i++) {
        int mine = color == 0 ? 1 : 100, theirs = -1, remote;
        MPI_Comm_remote_size(inter, &remote);
        MUST(MPI_Allreduce(&mine, &theirs, 1, MPI_INT, MPI_SUM, inter));
        CHECK(theirs == remote * (color == 0 ? 100 : 1), "between groups: %d", theirs);
        int root = color == 0 ? (local == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0, value = i;
        MUST(MPI_Bcast(&value, 1, MPI_INT, root, inter));
        CHECK(value == i, "from the other group: %d", value);
    }
    MUST(MPI_Comm_free(&inter));
    MUST(MPI_Comm_free(&half));
    (void)p;
}

static void in_threads(struct place places[2]) {
    pthread_t thread;
    for (int i = 0; i < 2; i++) {
        MPI_Comm comm;
        MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        enter(&places[i], comm);
    }
    CHECK(pthread_create(&thread, NULL, use_duplicate, &places[1]) == 0, "no thread");
    use(&places[0], false);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        MUST(MPI_Comm_free(&places[i].comm));
}

/* Sums that another order of the ranks would round otherwise. */
static void sums(struct place *p, int round, int n, double *once) {
    static double in[1000], out[1000];
    for (int i = 0; i < n; i++)
        in[i] = 1.0 / (3 + i + 7 * p->rank) * (p->rank % 2 ? -1e9 : 1.0);
    MUST(MPI_Allreduce(in, out, n, MPI_DOUBLE, MPI_SUM, p->comm));
    if (round == 0)
        memcpy(once, out, (size_t)n * sizeof(double));
    CHECK(memcmp(once, out, (size_t)n * sizeof(double)) == 0, "sums of %d, round %d", n, round);
}

static void use_often(struct place *p) {
    static const int counts[] = {2, 1000, MOST};
    static double once[1000];
    enum { OFTEN = 330 }; /* 256, and a trial */
    for (int size = 0; size < 3; size++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int i = 0; i < OFTEN; i++)
                collectives[kind](p, counts[size], i, size % p->nranks);
    for (int n = 1; n <= 1000; n *= 10)
        for (int i = 0; i < OFTEN; i++)
            sums(p, i, n, once);
    for (int i = 0; i < OFTEN; i++) { /* communicators of one call are nobody's to learn from */
        MPI_Comm all = p->comm, comm;
        if (i % 3 == 0)
            MUST(MPI_Comm_dup(all, &comm));
        else
            MUST(MPI_Comm_split(all, i % 2 ? check_rank % 2 : 0, -check_rank, &comm));
        enter(p, comm);
        collectives[i % KINDS](p, 2, i, 0);
        MUST(MPI_Comm_free(&comm));
        enter(p, all);
    }
}

int main(int argc, char **argv) {
    const bool threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    const bool often = argc > 1 && strcmp(argv[1], "often") == 0;
    const bool thoroughly = argc > 1 && strcmp(argv[argc - 1], "thoroughly") == 0;
    static struct place places[2] = {{.salt = 5}, {.salt = 7777}};
    if (threads)
        check_begin_threads(&argc, &argv, "coll_repeat");
    else
        check_begin(&argc, &argv, "coll_repeat");
    repeats = thoroughly ? check_rounds(120, 56) : check_rounds(40, 16);
    if (threads) {
        in_threads(places);
    } else if (often) {
        enter(&places[0], MPI_COMM_WORLD);
        use_often(&places[0]);
    } else {
        enter(&places[0], MPI_COMM_WORLD);
        use(&places[0], false);
        for (int i = 0; i < 3; i++) { /* handles come again, of other ranks */
            MPI_Comm comm;
            MUST(i < 2 ? MPI_Comm_split(MPI_COMM_WORLD, i == 0 ? 0 : check_rank % 2, -check_rank,
                                        &comm)
                       : MPI_Comm_dup(MPI_COMM_WORLD, &comm));
            enter(&places[0], comm);
            use(&places[0], true);
            MUST(MPI_Comm_free(&comm));
        }
        between_groups(&places[0]);
    }
    check_end();
    return 0;
}
