/*
 * pbcast_threads: persistent broadcasts and threads (MPI_THREAD_MULTIPLE).
 *
 * A request started by one thread and waited for by another; threads with communicators of their
 * own broadcasting at once; a thread that waits in MPI_Waitany for a message while another starts
 * and completes broadcasts; communicators that are still there at the end, whose broadcasts threads
 * made in an order of each rank's own.
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, SIZE = 200000 };

static MPI_Comm comms[THREADS];
static char buffers[THREADS][SIZE];
static int nrounds;

static void *own_comm(void *arg) {
    int id = *(int *)arg, root = id % check_nranks, count = id == 0 ? 100 : SIZE;
    MPI_Request request;
    MUST(MPI_Bcast_init(buffers[id], count, MPI_BYTE, root, comms[id], MPI_INFO_NULL, &request));
    for (uint64_t round = 0; round < (uint64_t)nrounds; round++) {
        memset(buffers[id], 0x3c, SIZE);
        if (check_rank == root)
            check_fill(buffers[id], (size_t)count, (uint64_t)id, round);
        MUST(MPI_Start(&request));
        if (round % 2) {
            MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            int flag = 0;
            while (!flag) {
                MUST(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
                sched_yield();
            }
        }
        check_same(buffers[id], (size_t)count, (uint64_t)id, round, "own communicator", __LINE__);
    }
    MUST(MPI_Request_free(&request));
    return NULL;
}

static void *wait_for(void *arg) {
    MUST(MPI_Wait(arg, MPI_STATUS_IGNORE));
    return NULL;
}

static void test_hand_over(void) {
    MPI_Request request;
    MUST(MPI_Bcast_init(buffers[0], SIZE, MPI_BYTE, 0, comms[0], MPI_INFO_NULL, &request));
    for (uint64_t round = 0; round < (uint64_t)nrounds; round++) {
        pthread_t other;
        memset(buffers[0], 0x3c, SIZE);
        if (check_rank == 0)
            check_fill(buffers[0], SIZE, 70, round);
        MUST(MPI_Start(&request));
        CHECK(pthread_create(&other, NULL, wait_for, &request) == 0, "no thread");
        pthread_join(other, NULL);
        check_same(buffers[0], SIZE, 70, round, "waited for elsewhere", __LINE__);
    }
    MUST(MPI_Request_free(&request));
}

/* An inactive broadcast and a message that comes only after the other thread's broadcasts. */
static void *wait_any(void *arg) {
    MPI_Request requests[3];
    static char never[8];
    int index, word = 0;
    (void)arg;
    MUST(MPI_Bcast_init(never, 8, MPI_BYTE, 0, comms[1], MPI_INFO_NULL, &requests[0]));
    requests[1] = MPI_REQUEST_NULL;
    MUST(MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 3, comms[2], &requests[2]));
    MUST(MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE));
    CHECK(index == 2 && word == 4711, "index %d, word %d", index, word);
    MUST(MPI_Request_free(&requests[0]));
    return NULL;
}

static void test_wait_any(void) {
    pthread_t other;
    int id = 0, word = 4711;
    CHECK(pthread_create(&other, NULL, wait_any, NULL) == 0, "no thread");
    own_comm(&id);
    MUST(MPI_Send(&word, 1, MPI_INT, (check_rank + 1) % check_nranks, 3, comms[2]));
    pthread_join(other, NULL);
}

static void *broadcast_once(void *arg) {
    static char word[THREADS][8];
    const int id = *(int *)arg;
    MPI_Comm left;
    MPI_Request request;
    MUST(MPI_Comm_dup(comms[id], &left));
    MUST(MPI_Bcast_init(word[id], 8, MPI_BYTE, 0, left, MPI_INFO_NULL, &request));
    MUST(MPI_Start(&request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MUST(MPI_Request_free(&request));
    return NULL;
}

static void in_threads(void *(*body)(void *)) {
    pthread_t threads[THREADS];
    int ids[THREADS];
    for (int i = 0; i < THREADS; i++) {
        ids[i] = i;
        CHECK(pthread_create(&threads[i], NULL, body, &ids[i]) == 0, "no thread");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "pbcast_threads");
    nrounds = check_rounds(20, 4);
    for (int i = 0; i < THREADS; i++)
        MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    test_hand_over();
    in_threads(own_comm);
    test_wait_any();
    for (int i = 0; i < 4; i++)
        in_threads(broadcast_once);
    for (int i = 0; i < THREADS; i++)
        MUST(MPI_Comm_free(&comms[i]));
    return check_end();
}
