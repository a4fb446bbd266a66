/*
 * part_tests: a receiver that has seen all partitions arrive tests its request: the first test
 * finds it complete, in the first round and in later ones, whatever the size of the message.
 */
#include "check.h"

enum { TAG = 3, ROUNDS = 40, COUNT = 8 };

static void send(MPI_Request *request, int partitions) {
    MUST(MPI_Start(request));
    for (int i = 0; i < partitions; i++)
        MUST(MPI_Pready(i, *request));
    MUST(MPI_Wait(request, MPI_STATUS_IGNORE));
}

static void receive(MPI_Request *request, int partitions, int round) {
    int flag, index;
    MUST(MPI_Start(request));
    for (int i = 0; i < partitions; i++)
        for (flag = 0; !flag;)
            MUST(MPI_Parrived(*request, i, &flag));
    if (round % 3 == 1) {
        MUST(MPI_Request_get_status(*request, &flag, MPI_STATUS_IGNORE));
        CHECK(flag, "MPI_Request_get_status of %d partitions in round %d", partitions, round);
    }
    if (round % 3 == 2)
        MUST(MPI_Testany(1, request, &index, &flag, MPI_STATUS_IGNORE));
    else
        MUST(MPI_Test(request, &flag, MPI_STATUS_IGNORE));
    CHECK(flag, "all of %d partitions have arrived, and round %d is not complete", partitions,
          round);
}

static void try(int partitions) {
    MPI_Request request;
    double *data = calloc((size_t)partitions * COUNT, sizeof *data);
    CHECK(data != NULL, "no memory");
    if (check_rank == 0)
        MUST(MPI_Psend_init(data, partitions, COUNT, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD,
                            MPI_INFO_NULL, &request));
    else
        MUST(MPI_Precv_init(data, partitions, COUNT, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD,
                            MPI_INFO_NULL, &request));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < partitions * COUNT; i++)
            data[i] = check_rank == 0 ? i + round : -1;
        if (check_rank == 0)
            send(&request, partitions);
        else
            receive(&request, partitions, round);
        for (int i = 0; i < partitions * COUNT; i++)
            CHECK(data[i] == i + round, "round %d, %d is %g", round, i, data[i]);
    }
    MUST(MPI_Request_free(&request));
    free(data);
}

int main(int argc, char **argv) {
    static const int partitions[] = {1, 8, 600, 1025, 4000};
    check_begin(&argc, &argv, "part_tests");
    for (size_t i = 0; i < sizeof partitions / sizeof partitions[0]; i++)
        try(partitions[i]);
    return check_end();
}
