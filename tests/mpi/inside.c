/*
 * inside: all but one rank wait in calls of the host's (a receive, a barrier, a wait) while the one
 * works on their windows, each rank in its turn; what they hold is right all the time.
 *
 *     inside [threads] [after] [used]
 *
 *     threads  a second thread of each rank but the first waits in a barrier all the time
 *     after    a persistent broadcast has been done before, and is kept
 *     used     the one then goes on until it has been answered some times while no thread of the
 *              other but that which waits has run, so that one has answered; or, where others want
 *              the cores, for so long that that one must have answered often, too. The library
 *              counts how often (TUGBOAT_STATS). Two ranks of one machine.
 */
#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { WORDS = 512, ROUNDS = 100, TURNS = 3, ANSWERS = 10, GOES_ON = 3000 };

static int64_t *memory;
static MPI_Win window;
static MPI_Comm aside;
static bool used;
static int pids[2];

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

/* How often a thread has gone to sleep or been interrupted; -1: it is not asleep, or has ended. */
static long switches_of(int pid, const char *thread) {
    char path[300], line[256];
    long switches = 0, n;
    snprintf(path, sizeof path, "/proc/%d/task/%s/status", pid, thread);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return -1;
    while (fgets(line, sizeof line, file) != NULL) {
        const char *counter = strstr(line, "voluntary_ctxt_switches:");
        if (strncmp(line, "State:", 6) == 0 && line[7] != 'S')
            switches = -1;
        else if (counter != NULL && sscanf(counter, "%*s %ld", &n) == 1 && switches >= 0)
            switches += n;
    }
    fclose(file);
    return switches;
}

/* Of all threads of a process but its first one: the same twice means that none has run. */
static long switches_beside(int pid) {
    char path[64];
    long all = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *threads = opendir(path);
    CHECK(threads != NULL, "no %s", path);
    for (struct dirent *entry; all >= 0 && (entry = readdir(threads)) != NULL;) {
        const long n = atoi(entry->d_name) == pid || entry->d_name[0] == '.'
                           ? 0
                           : switches_of(pid, entry->d_name);
        all = n < 0 ? -1 : all + n;
    }
    closedir(threads);
    return all;
}

static void work_until_answered(int target) {
    const int64_t one = 1;
    int64_t got;
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window));
    for (int i = 0, answers = 0; i < GOES_ON && answers < ANSWERS; i++) {
        const long before = switches_beside(pids[target]);
        MUST(MPI_Fetch_and_op(&one, &got, MPI_INT64_T, target, 2, MPI_SUM, window));
        MUST(MPI_Win_flush(target, window));
        answers += before >= 0 && switches_beside(pids[target]) == before;
    }
    MUST(MPI_Win_unlock(target, window));
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
    if (used && turn == TURNS - 1)
        work_until_answered(1 - worker);
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
    bool threads = false, after = false;
    for (int i = 1; i < argc; i++) {
        threads |= strcmp(argv[i], "threads") == 0;
        after |= strcmp(argv[i], "after") == 0;
        used |= strcmp(argv[i], "used") == 0;
    }
    MPI_Request broadcast;
    pthread_t other;
    if (threads)
        check_begin_threads(&argc, &argv, "inside");
    else
        check_begin(&argc, &argv, "inside");
    memory = calloc(WORDS, sizeof(*memory));
    if (used) {
        const int pid = getpid();
        CHECK(check_nranks == 2, "two ranks");
        MUST(MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD));
    }
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
