/*
 * pcoll_other: the other persistent collectives, alone and among broadcasts, give right data.
 *
 * Barrier, Allreduce, Reduce, Allgatherv, Gatherv, Scatterv, Alltoall, Scan, Exscan and
 * Reduce_scatter_block, started several times with other content, alone and all at once among
 * persistent broadcasts; Gather, Scatter and Alltoall once, on memory that types alone describe,
 * from MPI_BOTTOM. MPI_Gather_init, Scatter_init and Allgather_init are not among the others:
 * MPICH 4.0.2 does part of their copying once and for all in the init call.
 */
#include "check.h"

enum { MAX_RANKS = 16, N = 11, NREQ = 12 };

static int64_t in[NREQ][MAX_RANKS * N], out[NREQ][MAX_RANKS * N];
static int counts[MAX_RANKS], places[MAX_RANKS];
static MPI_Request r[NREQ];

static int64_t value(int rank, int round, int what, int i) {
    return 1000000 * (what + 1) + 10000 * rank + 100 * round + i % 97;
}

static void make(void) {
    MPI_Comm c = MPI_COMM_WORLD;
    MPI_Info none = MPI_INFO_NULL;
    MPI_Datatype t = MPI_INT64_T;
    for (int i = 0; i < check_nranks; i++) {
        counts[i] = N;
        places[i] = N * (check_nranks - 1 - i);
    }
    MUST(MPI_Barrier_init(c, none, &r[0]));
    MUST(MPI_Allreduce_init(in[1], out[1], N, t, MPI_SUM, c, none, &r[1]));
    MUST(MPI_Reduce_init(in[2], out[2], N, t, MPI_MAX, check_nranks - 1, c, none, &r[2]));
    MUST(MPI_Allreduce_init(in[3], out[3], N, t, MPI_MIN, c, none, &r[3]));
    MUST(MPI_Allgatherv_init(in[4], N, t, out[4], counts, places, t, c, none, &r[4]));
    MUST(MPI_Gatherv_init(in[5], N, t, out[5], counts, places, t, 0, c, none, &r[5]));
    MUST(MPI_Scatterv_init(in[6], counts, places, t, out[6], N, t, 0, c, none, &r[6]));
    MUST(MPI_Alltoall_init(in[7], N, t, out[7], N, t, c, none, &r[7]));
    MUST(MPI_Scan_init(in[8], out[8], N, t, MPI_SUM, c, none, &r[8]));
    MUST(MPI_Exscan_init(in[9], out[9], N, t, MPI_SUM, c, none, &r[9]));
    MUST(MPI_Reduce_scatter_block_init(in[10], out[10], N, t, MPI_SUM, c, none, &r[10]));
    MUST(MPI_Bcast_init(out[11], N, t, check_nranks - 1, c, none, &r[11]));
}

static void fill(int round) {
    for (int what = 0; what < NREQ; what++)
        for (int i = 0; i < MAX_RANKS * N; i++) {
            in[what][i] = value(check_rank, round, what, i);
            out[what][i] = -1;
        }
    if (check_rank == check_nranks - 1)
        memcpy(out[11], in[11], sizeof in[11]);
}

static int64_t expected(int what, int round, int i, int block) {
    int64_t sum = 0;
    int n = check_nranks, me = check_rank;
    switch (what) {
    case 1:
        for (int p = 0; p < n; p++)
            sum += value(p, round, what, i);
        return sum;
    case 2:
        return value(n - 1, round, what, i);
    case 3:
        return value(0, round, what, i);
    case 4:
    case 5:
        return value(n - 1 - block, round, what, i);
    case 6:
        return value(0, round, what, places[me] + i);
    case 7:
        return value(block, round, what, me * N + i);
    case 8:
    case 9:
        for (int p = 0; p < me + (what == 8); p++)
            sum += value(p, round, what, i);
        return sum;
    case 10:
        for (int p = 0; p < n; p++)
            sum += value(p, round, what, me * N + i);
        return sum;
    default:
        return value(n - 1, round, what, i);
    }
}

/* How many blocks of N numbers rank gets from this collective. */
static int blocks(int what) {
    if (what == 4 || what == 7)
        return check_nranks;
    if (what == 5)
        return check_rank == 0 ? check_nranks : 0;
    if (what == 2)
        return check_rank == check_nranks - 1;
    if (what == 9)
        return check_rank > 0;
    return what > 0;
}

static void see(int round) {
    for (int what = 1; what < NREQ; what++) {
        int last = what == 11 && check_rank == check_nranks - 1 ? MAX_RANKS * N : N * blocks(what);
        for (int k = 0; k < blocks(what); k++)
            for (int i = 0; i < N; i++)
                CHECK(out[what][k * N + i] == expected(what, round, i, k),
                      "collective %d, round %d, block %d: [%d] is %lld, not %lld", what, round, k,
                      i, (long long)out[what][k * N + i], (long long)expected(what, round, i, k));
        for (int i = last; i < MAX_RANKS * N && what != 5 && what != 2; i++)
            CHECK(out[what][i] == -1, "collective %d wrote beyond its end", what);
    }
}

static MPI_Datatype placed(const int64_t *block) {
    MPI_Datatype type;
    MPI_Aint address;
    MUST(MPI_Get_address(block, &address));
    MUST(MPI_Type_create_hindexed_block(1, N, &address, MPI_INT64_T, &type));
    MUST(MPI_Type_commit(&type));
    return type;
}

static void from_bottom(void) {
    MPI_Datatype from[3], to[3];
    MPI_Request requests[3];
    int root = check_nranks - 1, n = check_nranks, me = check_rank;
    fill(99);
    for (int i = 0; i < 3; i++) {
        from[i] = placed(in[i]);
        to[i] = placed(out[i]);
    }
    MUST(MPI_Gather_init(MPI_BOTTOM, 1, from[0], MPI_BOTTOM, 1, to[0], root, MPI_COMM_WORLD,
                         MPI_INFO_NULL, &requests[0]));
    MUST(MPI_Scatter_init(MPI_BOTTOM, 1, from[1], MPI_BOTTOM, 1, to[1], root, MPI_COMM_WORLD,
                          MPI_INFO_NULL, &requests[1]));
    MUST(MPI_Alltoall_init(MPI_BOTTOM, 1, from[2], MPI_BOTTOM, 1, to[2], MPI_COMM_WORLD,
                           MPI_INFO_NULL, &requests[2]));
    MUST(MPI_Startall(3, requests));
    MUST(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; k < n; k++)
        for (int i = 0; i < N; i++) {
            CHECK(me != root || out[0][k * N + i] == value(k, 99, 0, i), "gathered: %d of %d", i,
                  k);
            CHECK(out[1][i] == value(root, 99, 1, me * N + i), "scattered: %d", i);
            CHECK(out[2][k * N + i] == value(k, 99, 2, me * N + i), "exchanged: %d of %d", i, k);
        }
    for (int i = 0; i < 3; i++) {
        MUST(MPI_Request_free(&requests[i]));
        MUST(MPI_Type_free(&from[i]));
        MUST(MPI_Type_free(&to[i]));
    }
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "pcoll_other");
    CHECK(check_nranks <= MAX_RANKS, "at most %d ranks", MAX_RANKS);
    make();
    for (int round = 0; round < check_rounds(12, 4); round++) {
        MPI_Status statuses[NREQ];
        MPI_Request before[NREQ];
        memcpy(before, r, sizeof r);
        fill(round);
        if (round % 4 == 0) {
            for (int i = 0; i < NREQ; i++) {
                MUST(MPI_Start(&r[i]));
                MUST(MPI_Wait(&r[i], MPI_STATUS_IGNORE));
            }
        } else {
            MUST(MPI_Startall(NREQ, r));
            if (round % 4 == 1)
                MUST(MPI_Waitall(NREQ, r, statuses));
            else
                for (int i = NREQ - 1; i >= 0; i--)
                    MUST(MPI_Wait(&r[i], &statuses[i]));
        }
        CHECK(memcmp(before, r, sizeof r) == 0, "a handle has changed");
        see(round);
    }
    for (int i = 0; i < NREQ; i++)
        MUST(MPI_Request_free(&r[i]));
    from_bottom();
    return check_end();
}
