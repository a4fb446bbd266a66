/*
 * pbcast_trials: MPI_Bcast_init again and again, each request for as many rounds as its ways are
 * compared in. On several nodes with several ranks each the ways differ in which rank of a node
 * receives which part of the message into memory that all of them read.
 */
#include "check.h"

enum { MOST = 57, ROUNDS = 40 };

static unsigned char byte_of(int round, int i) {
    return (unsigned char)(round * 7 + i);
}

static void broadcast(int bytes, int root) {
    unsigned char buffer[MOST];
    MPI_Request request;
    MUST(MPI_Bcast_init(buffer, bytes, MPI_BYTE, root, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < ROUNDS; round++) {
        memset(buffer, 0xee, sizeof(buffer));
        for (int i = 0; check_rank == root && i < bytes; i++)
            buffer[i] = byte_of(round, i);
        MUST(MPI_Start(&request));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int i = 0; i < bytes; i++)
            CHECK(buffer[i] == byte_of(round, i), "byte %d of %d from %d in round %d: %d", i, bytes,
                  root, round, buffer[i]);
    }
    MUST(MPI_Request_free(&request));
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "pbcast_trials");
    const int requests = 40 * check_nranks;
    for (int i = 0; i < requests; i++)
        broadcast(i % 2 ? 8 : MOST, i / 2 % check_nranks);
    check_end();
    return 0;
}
