/* The timed loops over locks; see engine_c.h. */
#include "engine_c.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "node/locks.h"

#define MAX_THREADS 64

double bench_rwlock_shared(uint64_t n) {
    static struct tug_rwlock lock;
    uint64_t begin = tug_clock_ns();
    for (uint64_t i = 0; i < n; i++) {
        tug_rwlock_lock_shared(&lock, NULL);
        tug_rwlock_unlock_shared(&lock);
    }
    return (double)(tug_clock_ns() - begin);
}

double bench_rwlock_exclusive(uint64_t n) {
    static struct tug_rwlock lock;
    uint64_t begin = tug_clock_ns();
    for (uint64_t i = 0; i < n; i++) {
        tug_rwlock_lock_exclusive(&lock, NULL);
        tug_rwlock_unlock_exclusive(&lock);
    }
    return (double)(tug_clock_ns() - begin);
}

static struct tug_mutex mutex;
static uint64_t counted; /* under the mutex */
static pthread_barrier_t gate;

static void count_under_mutex(uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        tug_mutex_lock(&mutex);
        counted++;
        tug_mutex_unlock(&mutex);
    }
}

double bench_mutex(uint64_t n) {
    uint64_t begin = tug_clock_ns();
    count_under_mutex(n);
    return (double)(tug_clock_ns() - begin);
}

static void *count_with_others(void *argument) {
    pthread_barrier_wait(&gate);
    count_under_mutex(*(const uint64_t *)argument);
    return NULL;
}

double bench_mutex_threads(unsigned nthreads, uint64_t n) {
    pthread_t threads[MAX_THREADS];
    uint64_t each = n / nthreads;
    counted = 0;
    pthread_barrier_init(&gate, NULL, nthreads + 1);
    for (unsigned i = 0; i < nthreads; i++)
        if (pthread_create(&threads[i], NULL, count_with_others, &each) != 0)
            abort();
    uint64_t begin = tug_clock_ns();
    pthread_barrier_wait(&gate);
    for (unsigned i = 0; i < nthreads; i++)
        pthread_join(threads[i], NULL);
    double took = (double)(tug_clock_ns() - begin);
    pthread_barrier_destroy(&gate);
    if (counted != each * nthreads)
        abort();
    return took;
}
