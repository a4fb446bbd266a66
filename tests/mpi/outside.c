/*
 * outside: a persistent request gets on while its rank waits for something else, whatever that is.
 *
 * One rank starts and waits for its request only after a call that the others are through with when
 * theirs is complete; in turns, each of these calls.
 */
#include "check.h"

enum { CALLS = 6, ROUNDS = 4 };

static MPI_Comm comm;

/* Rank `late` comes to its wait after this, the others before. */
static void meet(int call, int late) {
    int token = 5, got = 0, after = late == 0 ? 1 : 0;
    MPI_Request request;
    MPI_Comm made;
    switch (call) {
    case 0:
        MUST(MPI_Barrier(comm));
        break;
    case 1:
        MUST(MPI_Allreduce(&token, &got, 1, MPI_INT, MPI_SUM, comm));
        break;
    case 2:
        MUST(MPI_Ibarrier(comm, &request));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case 3:
        if (check_rank == late)
            MUST(MPI_Recv(&got, 1, MPI_INT, after, 0, comm, MPI_STATUS_IGNORE));
        if (check_rank == after)
            MUST(MPI_Send(&token, 1, MPI_INT, late, 0, comm));
        break;
    case 4:
        if (check_rank == late)
            MUST(MPI_Probe(after, 1, comm, MPI_STATUS_IGNORE));
        if (check_rank == after)
            MUST(MPI_Send(&token, 1, MPI_INT, late, 1, comm));
        if (check_rank == late)
            MUST(MPI_Recv(&got, 1, MPI_INT, after, 1, comm, MPI_STATUS_IGNORE));
        break;
    default:
        MUST(MPI_Comm_dup(comm, &made));
        MUST(MPI_Comm_free(&made));
    }
}

static void check_requests(void) {
    enum { WORDS = 20000 };
    static long sent[WORDS], got[WORDS];
    MPI_Request requests[2];
    MUST(
        MPI_Allreduce_init(sent, got, WORDS, MPI_LONG, MPI_SUM, comm, MPI_INFO_NULL, &requests[0]));
    MUST(MPI_Barrier_init(comm, MPI_INFO_NULL, &requests[1]));
    for (int round = 0; round < ROUNDS * CALLS; round++) {
        int late = round / CALLS % check_nranks;
        for (int i = 0; i < WORDS; i++)
            sent[i] = check_rank + i + round;
        MUST(MPI_Startall(2, requests));
        if (check_rank == late)
            meet(round % CALLS, late);
        MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        if (check_rank != late)
            meet(round % CALLS, late);
        for (int i = 0; i < WORDS; i++)
            CHECK(got[i] == (long)check_nranks * (i + round) +
                                (long)check_nranks * (check_nranks - 1) / 2,
                  "round %d, word %d: %ld", round, i, got[i]);
    }
    MUST(MPI_Request_free(&requests[0]));
    MUST(MPI_Request_free(&requests[1]));
}

#if CHECK_HAS_SESSIONS
static int in_session(void) {
    MPI_Session session;
    MPI_Group group;
    MUST(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    MUST(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    MUST(MPI_Comm_create_from_group(group, "tugboat.test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL,
                                    &comm));
    MUST(MPI_Group_free(&group));
    MUST(MPI_Comm_rank(comm, &check_rank));
    MUST(MPI_Comm_size(comm, &check_nranks));
    check_requests();
    if (check_rank == 0)
        printf("right\n");
    MUST(MPI_Comm_free(&comm));
    MUST(MPI_Session_finalize(&session));
    return 0;
}
#else
static int in_session(void) {
    printf("skipped: the host has no sessions\n");
    return CHECK_SKIP;
}
#endif

int main(int argc, char **argv) {
    if (argc > 1)
        return in_session();
    check_begin(&argc, &argv, "outside");
    comm = MPI_COMM_WORLD;
    check_requests();
    return check_end();
}
