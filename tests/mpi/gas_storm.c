/*
 * gas_storm: everybody wants the same page.
 *
 * All threads of all ranks take one page, put their word of it, add to a common word, hold the page
 * when they have it, and read it, over and over. The page's home is late: it computes for a while
 * before it makes its first call, and the others get on without its help. Every one gets on: each
 * thread goes on until all of them have done their rounds, and all that they added is there.
 * Arguments: rounds that each thread does at least (40).
 */
#include "gas_check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { THREADS = 3, PAGE = 4096, LATE_MS = 100 };

static tug_array *array;
static unsigned long long least;
static size_t page;           /* the last rank is its home */
static const size_t done = 0; /* in the first page: threads that have done their rounds */

static void compute(long ms) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
}

struct thread {
    int id;
    unsigned long long rounds, held;
};

/* The page, or no: somebody has taken it meanwhile. */
static void hold(struct thread *thread, size_t index, uint64_t want) {
    void *address;
    int status = tug_array_hold(array, page, &address);
    if (status == TUG_ERR_STATE)
        return;
    GOOD(status);
    CHECK(*(_Atomic uint64_t *)((char *)address + (index - page * PAGE)) == want,
          "held, another word");
    GOOD(tug_array_release(array, page));
    thread->held++;
}

static bool all_are_done(void) {
    uint64_t n;
    GOOD(tug_array_get(array, done, &n, 8));
    return n == (uint64_t)check_nranks * THREADS;
}

static void *storm(void *argument) {
    struct thread *thread = argument;
    const size_t start = page * PAGE, index = start + 8 * (size_t)(1 + thread->id);
    do {
        uint64_t value, i = ++thread->rounds;
        GOOD(tug_array_own(array, start, 8));
        GOOD(tug_array_put(array, index, &i, 8));
        hold(thread, index, i);
        GOOD(tug_array_get(array, index, &value, 8));
        CHECK(value == i, "%llu, not %llu", (unsigned long long)value, (unsigned long long)i);
        GOOD(tug_array_fetch_and_op(array, start, 8, TUG_ADD, 1, NULL));
        if (i == least)
            GOOD(tug_array_fetch_and_op(array, done, 8, TUG_ADD, 1, NULL));
        sched_yield();
    } while (thread->rounds < least || !all_are_done());
    return NULL;
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "gas_storm");
    least = argc > 1 ? strtoull(argv[1], NULL, 10) : 40;
    page = (size_t)check_nranks - 1;
    struct tug_array_params params = {.size_in_bytes = (page + 1) * PAGE, .page_bytes = PAGE};
    GOOD(tug_array_create(MPI_COMM_WORLD, &params, &array));
    struct thread threads[THREADS] = {0};
    pthread_t handles[THREADS];
    unsigned long long rounds = 0, held = 0, all;
    uint64_t sum;
    MPI_Request request;
    if (check_rank == check_nranks - 1)
        compute(LATE_MS);
    for (int i = 0; i < THREADS; i++) {
        threads[i].id = check_rank * THREADS + i;
        CHECK(pthread_create(&handles[i], NULL, storm, &threads[i]) == 0, "no thread");
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(handles[i], NULL);
        rounds += threads[i].rounds;
        held += threads[i].held;
    }
    printf("rank %d: %llu rounds, the page was here in %llu\n", check_rank, rounds, held);
    MUST(MPI_Iallreduce(&rounds, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD,
                        &request));
    check_wait(&request);
    GOOD(tug_array_get(array, page * PAGE, &sum, 8));
    CHECK(sum == all, "%llu added, not %llu", (unsigned long long)sum, all);
    GOOD(tug_array_free(&array));
    return check_end();
}
