/*
 * gas_storm: everybody wants the same page.
 *
 * All threads of all ranks take one page, put their word of it, add to a common word, hold the page
 * when they have it, and read it, over and over. The page's home is late: it computes for a while
 * before it makes its first call, and the others get on without its help. Every one gets on: all
 * threads end with some rounds done, and all that they added is there.
 * Arguments: milliseconds of storm (600).
 */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <tugboat/gas.h>

#define GOOD(call)                                                                                 \
    do {                                                                                           \
        int good_rc = (call);                                                                      \
        CHECK(good_rc == 0, "%s: %s", #call, tug_strerror(good_rc));                               \
    } while (0)

enum { THREADS = 3, PAGE = 4096 };

static tug_array *array;
static long storm_ms;
static size_t page; /* the last rank is its home */

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
    double longest; /* round, in seconds */
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

static void *storm(void *argument) {
    struct thread *thread = argument;
    const size_t start = page * PAGE, index = start + 8 * (size_t)(1 + thread->id);
    double before = MPI_Wtime(), end = before + storm_ms / 1000.0, now = before;
    while (now < end) {
        uint64_t value, i = ++thread->rounds;
        GOOD(tug_array_own(array, start, 8));
        GOOD(tug_array_put(array, index, &i, 8));
        hold(thread, index, i);
        GOOD(tug_array_get(array, index, &value, 8));
        CHECK(value == i, "%llu, not %llu", (unsigned long long)value, (unsigned long long)i);
        GOOD(tug_array_fetch_and_op(array, start, 8, TUG_ADD, 1, NULL));
        sched_yield();
        now = MPI_Wtime();
        if (now - before > thread->longest)
            thread->longest = now - before;
        before = now;
    }
    return NULL;
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "gas_storm");
    storm_ms = argc > 1 ? atoi(argv[1]) : 600;
    page = (size_t)check_nranks - 1;
    struct tug_array_params params = {.size_in_bytes = (page + 1) * PAGE, .page_bytes = PAGE};
    GOOD(tug_array_create(MPI_COMM_WORLD, &params, &array));
    struct thread threads[THREADS] = {0};
    pthread_t handles[THREADS];
    unsigned long long rounds = 0, held = 0, all;
    double longest = 0;
    uint64_t sum;
    MPI_Request request;
    if (check_rank == check_nranks - 1)
        compute(storm_ms / 4);
    for (int i = 0; i < THREADS; i++) {
        threads[i].id = check_rank * THREADS + i;
        CHECK(pthread_create(&handles[i], NULL, storm, &threads[i]) == 0, "no thread");
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(handles[i], NULL);
        CHECK(threads[i].rounds > 2, "thread %d got on %llu times", i, threads[i].rounds);
        rounds += threads[i].rounds;
        held += threads[i].held;
        longest = threads[i].longest > longest ? threads[i].longest : longest;
    }
    printf("rank %d: %llu rounds, the page was here in %llu, the longest took %.4f s\n", check_rank,
           rounds, held, longest);
    MUST(MPI_Iallreduce(&rounds, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD,
                        &request));
    check_wait(&request);
    GOOD(tug_array_get(array, page * PAGE, &sum, 8));
    CHECK(sum == all, "%llu added, not %llu", (unsigned long long)sum, all);
    GOOD(tug_array_free(&array));
    return check_end();
}
