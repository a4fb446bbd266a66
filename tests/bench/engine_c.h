/* The engine's hot paths as loops that C++ can call and time.
 *
 * The engine's headers are C11 with _Atomic and cannot be read by a C++17 compiler, so the loops
 * are in engine_c.c and locks_c.c. Each function does its operation `n` times and returns the
 * nanoseconds that took; setting up and draining are outside. No function may be called by two
 * threads at once; those with producers or threads start their own. Failures abort.
 */
#ifndef TUG_BENCH_ENGINE_C_H
#define TUG_BENCH_ENGINE_C_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ring alone, no engine: reserve, fill 3 words, commit; drained in batches that are not timed.
 */
double bench_ring_enqueue(uint64_t n);

/* The ring alone: the holder's side, next, execute, consume. */
double bench_ring_dequeue(uint64_t n);

/* Free tags: take and give back. */
double bench_tags_take_give(uint64_t n);

/* Locks that nobody else wants: lock and unlock. */
double bench_rwlock_shared(uint64_t n);
double bench_rwlock_exclusive(uint64_t n);
double bench_mutex(uint64_t n);

/* `n` turns of lock, count and unlock, shared out to at most 64 threads. */
double bench_mutex_threads(unsigned nthreads, uint64_t n);

/* How a round of producers went. */
struct bench_round {
    double enqueue_ns; /* the median over bursts of the time from enter to commit, an entry */
    double total_ns;   /* from the start of the first producer to the last execution */
    uint64_t commands;
};

/* `nproducers` threads hand over `n` commands each to a running engine with its offload thread as
 * the consumer. With `direct`, requesters may take the baton, as in the default mode. The cost of
 * an enqueue is measured over bursts of 64 (so that the clock does not count), and only where the
 * ring did not fill: waiting for room is part of total_ns. Time slices lost to other threads fall
 * into few bursts, which the median leaves out. */
void bench_engine_produce(unsigned nproducers, int direct, uint64_t n, struct bench_round *round);

/* One thread, idle engine: enter takes the baton, leave puts it down. */
double bench_engine_bypass(uint64_t n);

double bench_engine_call(uint64_t n);
double bench_engine_drain_idle(uint64_t n);

/* A command to an offload thread that sleeps without a timer, until it has been executed:
 * microseconds of `n` samples go to out_us. */
void bench_engine_wake(uint64_t n, double *out_us);

#ifdef __cplusplus
}
#endif

#endif
