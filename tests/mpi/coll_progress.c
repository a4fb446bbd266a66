/*
 * coll_progress: who waits in a collective call, or for a persistent one, lets other messages get
 * on.
 *
 * Rank 0 has posted a receive when it comes to the collective; the others send to it, which is over
 * only when it has been received, and come after that.
 */
#include "check.h"
#include "mpi4.h"
#include <unistd.h>

enum { BYTES = 1 << 20, ROUNDS = 12 };

static unsigned char *memory;
static double sums[2];

static void blocking(int round) {
    if (round % 2)
        MUST(MPI_Barrier(MPI_COMM_WORLD));
    else
        MUST(MPI_Allreduce(&sums[0], &sums[1], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
}

static MPI_Request persistent[2];

static void waited(int round) {
    MUST(MPI_Start(&persistent[round % 2]));
    MUST(MPI_Wait(&persistent[round % 2], MPI_STATUS_IGNORE));
}

static void waited_together(int round) {
    (void)round;
    MUST(MPI_Startall(2, persistent));
    MUST(MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE));
}

static void come_late(void (*collective)(int round), int round) {
    MPI_Request request[16];
    if (check_rank == 0) {
        for (int r = 1; r < check_nranks; r++)
            MUST(MPI_Irecv(memory + (size_t)r * BYTES, BYTES, MPI_BYTE, r, round, MPI_COMM_WORLD,
                           &request[r]));
        collective(round);
        MUST(MPI_Waitall(check_nranks - 1, request + 1, MPI_STATUSES_IGNORE));
        for (int r = 1; r < check_nranks; r++)
            CHECK(memory[(size_t)r * BYTES + BYTES - 1] == (unsigned char)(round + r),
                  "what rank %d sent in round %d", r, round);
    } else {
        memset(memory, round + check_rank, BYTES);
        usleep(2000);
        MUST(MPI_Ssend(memory, BYTES, MPI_BYTE, 0, round, MPI_COMM_WORLD));
        collective(round);
    }
}

static void run(void (*collective)(int round)) {
    for (int round = 0; round < 160; round++) /* until it is known which way is fastest */
        collective(round);
    for (int round = 0; round < ROUNDS; round++)
        come_late(collective, round);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "coll_progress");
    memory = malloc((size_t)check_nranks * BYTES);
    run(blocking);
    MUST(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &persistent[0]));
    MUST(MPI_Bcast_init(memory, 4096, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &persistent[1]));
    run(waited);
    run(waited_together);
    for (int i = 0; i < 2; i++)
        MUST(MPI_Request_free(&persistent[i]));
    free(memory);
    check_end();
    return 0;
}
