/*
 * request_looks: calls that look and take nothing, on persistent broadcasts among requests of the
 * host; probes; and more started broadcasts than anybody counts on.
 *
 * The calls of MPI 4.1 are looked up by name, since the host and its header may lack them; then the
 * program is right without.
 */
#include <dlfcn.h>

#include "check.h"

enum { MANY = 4200, LATE = 1, PROBED = 2, GO = 3 };

typedef int all_call(int, const MPI_Request[], int *, MPI_Status *);
typedef int any_call(int, const MPI_Request[], int *, int *, MPI_Status *);
typedef int some_call(int, const MPI_Request[], int *, int[], MPI_Status *);
typedef int complete_call(MPI_Request);

#define LOOK_UP(pointer, name) *(void **)&(pointer) = dlsym(RTLD_DEFAULT, name)

/* Two broadcasts from the last rank and a message that it sends when all has been looked at. */
static void look_without_taking(void) {
    all_call *all;
    any_call *any;
    some_call *some;
    complete_call *is_complete;
    LOOK_UP(all, "MPI_Request_get_status_all");
    LOOK_UP(any, "MPI_Request_get_status_any");
    LOOK_UP(some, "MPI_Request_get_status_some");
    LOOK_UP(is_complete, "MPIX_Request_is_complete");
    if (all == NULL || any == NULL || some == NULL)
        return;
    int data[2] = {-1, -1}, late = -1, root = check_nranks - 1, flag, index, n, indices[3];
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[3];
    for (int i = 0; i < 2; i++)
        MUST(MPI_Bcast_init(&data[i], 1, MPI_INT, root, MPI_COMM_WORLD, MPI_INFO_NULL,
                            &requests[2 * i]));
    MUST(any(3, requests, &index, &flag, &statuses[0]));
    CHECK(flag && index == MPI_UNDEFINED, "any, nothing active: %d at %d", flag, index);
    MUST(some(3, requests, &n, indices, statuses));
    CHECK(n == MPI_UNDEFINED, "some, nothing active: %d", n);
    MUST(all(3, requests, &flag, statuses));
    CHECK(flag, "all, nothing active");
    if (check_rank == root)
        data[0] = 10, data[1] = 11;
    MUST(MPI_Irecv(&late, 1, MPI_INT, check_rank, LATE, MPI_COMM_WORLD, &requests[1]));
    MUST(MPI_Start(&requests[0]));
    MUST(MPI_Start(&requests[2]));
    for (n = 0; n < 2;)
        MUST(some(3, requests, &n, indices, statuses));
    CHECK(indices[0] + indices[1] == 2, "some: %d and %d", indices[0], indices[1]);
    MUST(any(3, requests, &index, &flag, &statuses[0]));
    CHECK(flag && index != 1 && index != MPI_UNDEFINED, "any: %d at %d", flag, index);
    CHECK(is_complete == NULL || (is_complete(requests[0]) && !is_complete(requests[1])),
          "is_complete");
    MUST(all(3, requests, &flag, statuses));
    CHECK(!flag, "all, although the message has not been sent");
    int message = 77;
    MUST(MPI_Send(&message, 1, MPI_INT, check_rank, LATE, MPI_COMM_WORLD));
    do
        MUST(all(3, requests, &flag, statuses));
    while (!flag);
    CHECK(data[0] == 10 && data[1] == 11 && late == 77, "data %d, %d, %d", data[0], data[1], late);
    CHECK(statuses[1].MPI_TAG == LATE && statuses[0].MPI_TAG == MPI_ANY_TAG, "statuses");
    MUST(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    MUST(MPI_Request_free(&requests[0]));
    MUST(MPI_Request_free(&requests[2]));
}

/* The broadcast gets on while a rank does nothing but probe. */
static void probe_meanwhile(void) {
    int value = check_rank == 0 ? 5 : -1, flag = 0, root = 0, sent = 0, token;
    MPI_Request request;
    MPI_Message message;
    MUST(MPI_Bcast_init(&value, 1, MPI_INT, root, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    MUST(MPI_Start(&request));
    MPI_Request sends[check_nranks];
    int nsends = check_rank == check_nranks - 1 ? check_nranks : 0;
    for (int r = 0; r < nsends; r++) /* to itself too, which a blocking call might wait for */
        MUST(MPI_Isend(&sent, 1, MPI_INT, r, PROBED, MPI_COMM_WORLD, &sends[r]));
    while (!flag)
        MUST(MPI_Iprobe(MPI_ANY_SOURCE, PROBED, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    MUST(MPI_Improbe(MPI_ANY_SOURCE, PROBED, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE));
    CHECK(flag, "what was probed has gone");
    MUST(MPI_Mrecv(&token, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    MUST(MPI_Waitall(nsends, sends, MPI_STATUSES_IGNORE));
    check_wait(&request);
    CHECK(value == 5, "broadcast %d", value);
    MUST(MPI_Request_free(&request));
}

/* All are started here before the others, which wait for word of that, have started one. */
static void start_many(void) {
    static int values[MANY];
    static MPI_Request requests[MANY];
    int go = 0, last = check_nranks - 1;
    for (int i = 0; i < MANY; i++) {
        values[i] = check_rank == last ? i : -1;
        MUST(MPI_Bcast_init(&values[i], 1, MPI_INT, last, MPI_COMM_WORLD, MPI_INFO_NULL,
                            &requests[i]));
    }
    if (check_rank > 0)
        MUST(MPI_Recv(&go, 1, MPI_INT, check_rank - 1, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MUST(MPI_Startall(MANY, requests));
    if (check_rank < last)
        MUST(MPI_Send(&go, 1, MPI_INT, check_rank + 1, GO, MPI_COMM_WORLD));
    MUST(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++) {
        CHECK(values[i] == i, "broadcast %d brought %d", i, values[i]);
        MUST(MPI_Request_free(&requests[i]));
    }
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "request_looks");
    look_without_taking();
    probe_meanwhile();
    if (argc > 1 && strcmp(argv[1], "many") == 0)
        start_many();
    check_end();
    return 0;
}
