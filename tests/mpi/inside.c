/*
 * inside: all but one rank wait in calls of the host's (a receive, a barrier, a wait) while the one
 * works on their windows, each rank in its turn; what they hold is right all the time.
 *
 *     inside [threads | after]
 *
 *     threads  a second thread of each rank but the first waits in a barrier all the time
 *     after    a persistent broadcast has been done before, and is kept
 */
#include <pthread.h>

#include "check.h"

enum { WORDS = 512, ROUNDS = 100, TURNS = 3 };

static int64_t *memory;
static MPI_Win window;
static MPI_Comm aside;

static void work_on(int target, int turn) {
    int64_t value, got[4], one = 1;
    for (int64_t round = 0; round < ROUNDS; round++) {
        const MPI_Aint at = 8 + round % 64;
        MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window));
        value = 1000 * turn + round;
        MUST(MPI_Put(&value, 1, MPI_INT64_T, target, at, 1, MPI_INT64_T, window));
        MUST(MPI_Accumulate(&one, 1, MPI_INT64_T, target, 1, 1, MPI_INT64_T, MPI_SUM, window));
        MUST(MPI_Win_flush(target, window));
        MUST(MPI_Get(got, 1, MPI_INT64_T, target, at, 1, MPI_INT64_T, window));
        MUST(MPI_Fetch_and_op(&one, &got[1], MPI_INT64_T, target, 0, MPI_SUM, window));
        MUST(MPI_Win_unlock(target, window));
        CHECK(got[0] == value, "read %ld, not %ld", (long)got[0], (long)value);
        CHECK(got[1] == round + turn * ROUNDS, "fetched %ld in round %ld of turn %d", (long)got[1],
              (long)round, turn);
    }
}

static void wait_in_host(int turn, int worker) {
    MPI_Request request;
    int token;
    if (turn % 3 == 0) {
        MUST(MPI_Recv(&token, 1, MPI_INT, worker, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
        MUST(MPI_Irecv(&token, 1, MPI_INT, worker, turn, MPI_COMM_WORLD, &request));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    CHECK(token == turn, "token %d in turn %d", token, turn);
}

static void *wait_aside(void *argument) {
    (void)argument;
    MUST(MPI_Barrier(aside));
    return NULL;
}

static void take_turn(int turn, int worker) {
    if (check_rank != worker) {
        wait_in_host(turn, worker);
        return;
    }
    for (int target = 0; target < check_nranks; target++)
        if (target != worker)
            work_on(target, turn);
    for (int target = 0; target < check_nranks; target++)
        if (target != worker)
            MUST(MPI_Send(&turn, 1, MPI_INT, target, turn, MPI_COMM_WORLD));
}

/* With a window of its own each time: they come and go under those who wait. */
static void run(int worker) {
    MUST(MPI_Win_create(memory, WORDS * sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL,
                        MPI_COMM_WORLD, &window));
    for (int turn = 0; turn < TURNS; turn++)
        take_turn(turn, worker);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Win_free(&window));
    CHECK(worker == check_rank || memory[1] == ROUNDS * TURNS, "%ld", (long)memory[1]);
    memset(memory, 0, WORDS * sizeof(int64_t));
}

int main(int argc, char **argv) {
    const bool threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    const bool after = argc > 1 && strcmp(argv[1], "after") == 0;
    MPI_Request broadcast;
    pthread_t other;
    if (threads)
        check_begin_threads(&argc, &argv, "inside");
    else
        check_begin(&argc, &argv, "inside");
    memory = calloc(WORDS, sizeof(*memory));
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &aside));
    if (after) {
        MUST(MPI_Bcast_init(memory, WORDS, MPI_INT64_T, 0, aside, MPI_INFO_NULL, &broadcast));
        MUST(MPI_Start(&broadcast));
        MUST(MPI_Wait(&broadcast, MPI_STATUS_IGNORE));
    }
    const bool beside = threads && check_rank > 0;
    if (beside)
        CHECK(pthread_create(&other, NULL, wait_aside, NULL) == 0, "no thread");
    for (int worker = 0; worker < check_nranks; worker++)
        run(worker);
    if (beside)
        pthread_join(other, NULL);
    else
        wait_aside(NULL);
    if (after)
        MUST(MPI_Request_free(&broadcast));
    MUST(MPI_Comm_free(&aside));
    free(memory);
    return check_end();
}
