/*
 * pcoll_extents: an Allgatherv whose ranks describe the same elements by types of other extents.
 *
 * Rank 0 leaves gaps between its elements. Blocks are long and differ in length. MPICH 4.0.2 cuts
 * them by the extent, and brings wrong data, fails or hangs: so it must not be tried in place of
 * ours. As many starts as there may be trials, with other data each.
 */
#include "check.h"

enum { MAX_RANKS = 16, LEAST = 270, MOST = 70000, STARTS = 40, GAPS = 20, DENSE = 8 };

static int counts[MAX_RANKS], places[MAX_RANKS];

static int64_t value(int rank, int round, int i) {
    return 1000000000LL * rank + 1000003LL * round + i;
}

static void check_all(const unsigned char *got, int extent, int round) {
    for (int r = 0; r < check_nranks; r++)
        for (int i = 0; i < counts[r]; i++) {
            int64_t is;
            memcpy(&is, got + (size_t)(places[r] + i) * (size_t)extent, sizeof is);
            CHECK(is == value(r, round, i), "start %d: element %d of rank %d is %lld", round, i, r,
                  (long long)is);
        }
}

int main(int argc, char **argv) {
    MPI_Datatype pair, wide;
    MPI_Request request;
    int total = 0;
    check_begin(&argc, &argv, "pcoll_extents");
    CHECK(check_nranks <= MAX_RANKS, "at most %d ranks", MAX_RANKS);
    for (int r = 0; r < check_nranks; r++) {
        counts[r] = r == 1 ? LEAST : MOST;
        places[r] = total;
        total += counts[r];
    }
    MUST(MPI_Type_contiguous(2, MPI_INT32_T, &pair));
    MUST(MPI_Type_create_resized(pair, 0, GAPS, &wide));
    MUST(MPI_Type_commit(&pair));
    MUST(MPI_Type_commit(&wide));
    const int extent = check_rank == 0 ? GAPS : DENSE, mine = counts[check_rank];
    int64_t *sent = malloc((size_t)mine * sizeof *sent);
    unsigned char *got = malloc((size_t)total * (size_t)extent);
    MUST(MPI_Allgatherv_init(sent, mine, pair, got, counts, places, check_rank == 0 ? wide : pair,
                             MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < STARTS; round++) {
        for (int i = 0; i < mine; i++)
            sent[i] = value(check_rank, round, i);
        memset(got, 0xee, (size_t)total * (size_t)extent);
        MUST(MPI_Start(&request));
        check_wait(&request);
        check_all(got, extent, round);
    }
    MUST(MPI_Request_free(&request));
    MUST(MPI_Type_free(&pair));
    MUST(MPI_Type_free(&wide));
    free(sent);
    free(got);
    return check_end();
}
