/*
 * neighbours: neighbour collectives on Cartesian grids whose dimensions have 1, 2 and more ranks,
 * periodic or not.
 *
 * What a rank sends to one side of a dimension arrives there as from the other side of the same
 * dimension, also where both sides, or several dimensions, are one and the same rank. Blocks differ
 * in length by sender and side in the calls with lists, and nothing is written beside them.
 *
 *     neighbours [blocking] [nonblocking] [persistent]    these forms; without any, all
 */
#include "check.h"

enum { AXES = 3, SIDES = 2 * AXES, LONGEST = 16, ROOM = LONGEST + 4 };
enum { ROUNDS = 3, STARTS = 34 }; /* of a persistent one: until it is settled how it is done */

enum kind { ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, KINDS };
static const char *const kinds[] = {"allgather", "allgatherv", "alltoall", "alltoallv",
                                    "alltoallw"};
enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
static const char *const forms[] = {"blocking", "nonblocking", "persistent"};

static struct grid {
    MPI_Comm comm;
    int axes, sides, at;
    int dims[AXES], periods[AXES];
    int near[SIDES]; /* who is there, or MPI_PROC_NULL */
} grid;

static int64_t out[SIDES][ROOM], in[SIDES][ROOM];
static int sendcounts[SIDES], recvcounts[SIDES], places[SIDES];
static MPI_Aint bytes[SIDES];
static MPI_Datatype types[SIDES], block; /* block: LONGEST words in a place of ROOM */

/* How many words a rank sends to a side. */
static int length(enum kind kind, int rank, int side) {
    if (kind == ALLGATHER || kind == ALLTOALL)
        return LONGEST;
    return kind == ALLGATHERV ? 1 + rank % LONGEST : (1 + 5 * side + 3 * rank) % LONGEST;
}

/* The i-th word that a rank sends to a side. */
static int64_t word(enum kind kind, int rank, int side, int round, int i) {
    int to = kind <= ALLGATHERV ? 0 : side;
    return ((((int64_t)kind * 100 + rank) * 100 + to) * 100 + round) * 100 + i;
}

static void describe(enum kind kind) {
    for (int side = 0; side < grid.sides; side++) {
        int from = grid.near[side];
        sendcounts[side] = length(kind, grid.at, side);
        recvcounts[side] = from == MPI_PROC_NULL ? 0 : length(kind, from, side ^ 1);
        places[side] = side * ROOM;
        bytes[side] = (MPI_Aint)(side * ROOM * (int)sizeof(int64_t));
        types[side] = MPI_INT64_T;
    }
}

static void fill(enum kind kind, int round) {
    for (int side = 0; side < SIDES; side++)
        for (int i = 0; i < ROOM; i++) {
            out[side][i] = word(kind, grid.at, side, round, i);
            in[side][i] = -1;
        }
}

static void compare(enum kind kind, enum form form, int round) {
    for (int side = 0; side < SIDES; side++) {
        int from = side < grid.sides ? grid.near[side] : MPI_PROC_NULL;
        int n = from == MPI_PROC_NULL ? 0 : length(kind, from, side ^ 1);
        for (int i = 0; i < ROOM; i++) {
            int64_t expected = i < n ? word(kind, from, side ^ 1, round, i) : -1;
            CHECK(in[side][i] == expected,
                  "%s %s on %d axes {%d,%d,%d} (periodic %d,%d,%d), round %d: word %d from side %d "
                  "is %lld, not %lld",
                  forms[form], kinds[kind], grid.axes, grid.dims[0], grid.dims[1], grid.dims[2],
                  grid.periods[0], grid.periods[1], grid.periods[2], round, i, side,
                  (long long)in[side][i], (long long)expected);
        }
    }
}

/* One of the five in one of the three forms. */
#define CALL(Name, ...)                                                                            \
    do {                                                                                           \
        if (form == BLOCKING)                                                                      \
            MUST(MPI_Neighbor_##Name(__VA_ARGS__, grid.comm));                                     \
        else if (form == NONBLOCKING)                                                              \
            MUST(MPI_Ineighbor_##Name(__VA_ARGS__, grid.comm, request));                           \
        else                                                                                       \
            MUST(MPI_Neighbor_##Name##_init(__VA_ARGS__, grid.comm, MPI_INFO_NULL, request));      \
    } while (0)

static void call(enum kind kind, enum form form, MPI_Request *request) {
    MPI_Datatype t = MPI_INT64_T;
    switch (kind) {
    case ALLGATHER:
        CALL(allgather, out, 1, block, in, 1, block);
        break;
    case ALLGATHERV:
        CALL(allgatherv, out, length(kind, grid.at, 0), t, in, recvcounts, places, t);
        break;
    case ALLTOALL:
        CALL(alltoall, out, 1, block, in, 1, block);
        break;
    case ALLTOALLV:
        CALL(alltoallv, out, sendcounts, places, t, in, recvcounts, places, t);
        break;
    default:
        CALL(alltoallw, out, sendcounts, bytes, types, in, recvcounts, bytes, types);
    }
}

static void run(enum kind kind, enum form form) {
    MPI_Request request;
    describe(kind);
    if (form == PERSISTENT)
        call(kind, form, &request);
    for (int round = 0; round < (form == PERSISTENT ? STARTS : ROUNDS); round++) {
        fill(kind, round);
        if (form == PERSISTENT)
            MUST(MPI_Start(&request));
        else
            call(kind, form, &request);
        if (form != BLOCKING)
            check_wait(&request);
        compare(kind, form, round);
    }
    if (form == PERSISTENT)
        MUST(MPI_Request_free(&request));
}

/* One that has as many ranks as there are; `periods`: a bit for each axis. */
static void make_grid(int axes, const int dims[], int periods) {
    grid.axes = axes;
    grid.sides = 2 * axes;
    for (int d = 0; d < AXES; d++) {
        grid.dims[d] = d < axes ? dims[d] : 0;
        grid.periods[d] = d < axes ? periods >> d & 1 : 0;
    }
    MUST(MPI_Cart_create(MPI_COMM_WORLD, axes, grid.dims, grid.periods, 0, &grid.comm));
    MUST(MPI_Comm_rank(grid.comm, &grid.at));
    for (int d = 0; d < axes; d++)
        MUST(MPI_Cart_shift(grid.comm, d, 1, &grid.near[2 * d], &grid.near[2 * d + 1]));
}

static void run_on(int axes, const int dims[], const bool wanted[]) {
    for (int periods = (1 << axes) - 1; periods >= 0; periods -= axes == AXES ? 3 : 1) {
        make_grid(axes, dims, periods);
        for (int form = 0; form < FORMS; form++)
            for (int kind = 0; wanted[form] && kind < KINDS; kind++)
                run(kind, form);
        MUST(MPI_Comm_free(&grid.comm));
    }
}

/* Every way to write the number of ranks as a product of one to three. */
int main(int argc, char **argv) {
    bool wanted[FORMS] = {false};
    check_begin(&argc, &argv, "neighbours");
    for (int form = 0; form < FORMS; form++) {
        wanted[form] = argc < 2;
        for (int i = 1; i < argc; i++)
            wanted[form] |= strcmp(argv[i], forms[form]) == 0;
    }
    MUST(MPI_Type_contiguous(LONGEST, MPI_INT64_T, &types[0]));
    MUST(MPI_Type_create_resized(types[0], 0, ROOM * sizeof(int64_t), &block));
    MUST(MPI_Type_commit(&block));
    MUST(MPI_Type_free(&types[0]));
    int n = check_nranks;
    run_on(1, &n, wanted);
    for (int a = 1; a <= n; a++)
        for (int b = 1; n % a == 0 && b <= n / a; b++)
            if (n / a % b == 0) {
                if (a * b == n)
                    run_on(2, (int[]){a, b}, wanted);
                run_on(3, (int[]){a, b, n / a / b}, wanted);
            }
    MUST(MPI_Type_free(&block));
    check_end();
    return 0;
}
