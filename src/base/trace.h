/*
 * The timeline: what this process's threads did, and when, for a viewer of traces.
 *
 * Off (the default) each place costs one predictable branch. On, every thread writes *records* into
 * a ring of its own, which keeps the newest TUG_TRACE_RECORDS:
 *
 *        0            8           16           24      26      28       32
 *       +------------+------------+------------+-------+-------+--------+
 *       | begin, ns  | end, ns    | amount     | kind  | why   | unused |
 *       +------------+------------+------------+-------+-------+--------+
 *
 * A *span* has a begin and an end, and stands for `amount` like it; a *count* has only an end, and
 * amount is how many there were since the one before. What comes often is sampled, kind by kind and
 * thread by thread: after each record as many are passed over as it takes for records to be
 * TUG_TRACE_GAP_NS apart. Those that are passed over read no clock; counts lose nothing by it. A
 * span that sleeps in the kernel is never passed over (tug_trace_sleep_begin).
 *
 * Memory: all rings are reserved at the start, and touched when a thread first writes. Nothing is
 * allocated on the way, nobody waits, nothing is locked. Threads beyond TUG_TRACE_THREADS leave no
 * records; how many they were is told.
 *
 * Threads: each writes its own ring only, by relaxed stores. The one that prints does so when the
 * others are at rest, after tug_trace_stop(); a thread that is not may lose or mix up its newest
 * record, no more.
 */
#ifndef TUG_BASE_TRACE_H
#define TUG_BASE_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define TUG_TRACE_THREADS 64
#define TUG_TRACE_RECORDS 32768u /* of a thread: 1 MiB; a power of two */
#define TUG_TRACE_GAP_NS 64000

/* How records are drawn. */
enum tug_trace_shape {
    TUG_TRACE_SPAN,  /* on its thread */
    TUG_TRACE_RUN,   /* a span that may begin and end on different threads */
    TUG_TRACE_COUNT, /* a mark with a number */
};

/* X(NAME, shape, "room", "name") */
#define TUG_TRACE_KINDS(X)                                                                         \
    X(WAIT, SPAN, "program", "wait")                                                               \
    X(PARK, SPAN, "program", "sleep")                                                              \
    X(DRIVER_SLEEP, SPAN, "engine", "sleep of the driver")                                         \
    X(OFFLOAD_AWAKE, SPAN, "engine", "awake")                                                      \
    X(OFFLOAD_TIMED, SPAN, "engine", "sleep, timed")                                               \
    X(OFFLOAD_WATCH, SPAN, "engine", "sleep, watching")                                            \
    X(OFFLOAD_DEEP, SPAN, "engine", "sleep, deep")                                                 \
    X(HOST_POLL, SPAN, "engine", "polls of the host")                                              \
    X(OFFLOAD_WAKES, COUNT, "engine", "wakes of the offload thread")                               \
    X(WAITER_WAKES, COUNT, "engine", "wakes of waiting threads")                                   \
    X(INSIDE, COUNT, "engine", "looks inside the host")                                            \
    X(SENT, COUNT, "lane", "packets sent")                                                         \
    X(ARRIVED, COUNT, "lane", "packets arrived")                                                   \
    X(Win_fence, SPAN, "epoch", "MPI_Win_fence")                                                   \
    X(Win_start, SPAN, "epoch", "MPI_Win_start")                                                   \
    X(Win_complete, SPAN, "epoch", "MPI_Win_complete")                                             \
    X(Win_post, SPAN, "epoch", "MPI_Win_post")                                                     \
    X(Win_wait, SPAN, "epoch", "MPI_Win_wait")                                                     \
    X(Win_test, SPAN, "epoch", "MPI_Win_test")                                                     \
    X(Win_lock, SPAN, "epoch", "MPI_Win_lock")                                                     \
    X(Win_unlock, SPAN, "epoch", "MPI_Win_unlock")                                                 \
    X(Win_lock_all, SPAN, "epoch", "MPI_Win_lock_all")                                             \
    X(Win_unlock_all, SPAN, "epoch", "MPI_Win_unlock_all")                                         \
    X(Win_flush, SPAN, "epoch", "MPI_Win_flush")                                                   \
    X(Win_flush_all, SPAN, "epoch", "MPI_Win_flush_all")                                           \
    X(Win_flush_local, SPAN, "epoch", "MPI_Win_flush_local")                                       \
    X(Win_flush_local_all, SPAN, "epoch", "MPI_Win_flush_local_all")                               \
    X(Win_sync, SPAN, "epoch", "MPI_Win_sync")                                                     \
    X(COLLECTIVE, RUN, "schedule", "collective")                                                   \
    X(STEPS, COUNT, "schedule", "steps of schedules")

/* What ended a span: X(NAME, "as told") */
#define TUG_TRACE_WHYS(X)                                                                          \
    X(UNSAID, "")                                                                                  \
    X(OWN_LOOK, "own look")                                                                        \
    X(OFFLOAD_LOOK, "look of the offload thread")                                                  \
    X(OTHER_LOOK, "look of another thread")                                                        \
    X(OFFLOAD_WAKE, "woken by the offload thread")                                                 \
    X(OTHER_WAKE, "woken by another thread")                                                       \
    X(RUNG, "rung")                                                                                \
    X(NEWS, "news at sockets")                                                                     \
    X(LIMIT, "limit")                                                                              \
    X(FOUND, "found something")                                                                    \
    X(NOTHING, "found nothing")                                                                    \
    X(FAILED, "failed")

enum tug_trace_kind {
#define TUG_TRACE_ONE(NAME, shape, room, name) TUG_TRACE_##NAME,
    TUG_TRACE_KINDS(TUG_TRACE_ONE)
#undef TUG_TRACE_ONE
        TUG_TRACE_KIND_COUNT
};

enum tug_trace_why {
#define TUG_TRACE_ONE(NAME, name) TUG_TRACE_BY_##NAME,
    TUG_TRACE_WHYS(TUG_TRACE_ONE)
#undef TUG_TRACE_ONE
        TUG_TRACE_WHY_COUNT
};

extern bool tug_trace_on;

/* Reserves the rings, and begins. False: there is no memory. Before other threads call. */
bool tug_trace_start(void);

/* No more records. Rings stay as they are. */
void tug_trace_stop(void);

/* Names the calling thread in what is printed; a constant string. */
void tug_trace_name_thread(const char *name);

/* Out of line, for the functions below. */
uint64_t tug_trace_take(enum tug_trace_kind kind);
uint64_t tug_trace_now(void);
void tug_trace_write(enum tug_trace_kind kind, enum tug_trace_why why, uint64_t begin_ns);
void tug_trace_count_more(enum tug_trace_kind kind, uint64_t amount);

/* A span begins: when (CLOCK_MONOTONIC, ns), or 0: it is passed over. */
static inline uint64_t tug_trace_begin(enum tug_trace_kind kind) {
    return __builtin_expect(tug_trace_on, 0) ? tug_trace_take(kind) : 0;
}

/* One begins that sleeps in the kernel, or is as long: it is always taken. */
static inline uint64_t tug_trace_sleep_begin(void) {
    return __builtin_expect(tug_trace_on, 0) ? tug_trace_now() : 0;
}

/* It is over, on the thread where it began but for runs; begin_ns: what its begin returned. */
static inline void tug_trace_end(enum tug_trace_kind kind, enum tug_trace_why why,
                                 uint64_t begin_ns) {
    if (__builtin_expect(begin_ns != 0, 0))
        tug_trace_write(kind, why, begin_ns);
}

static inline void tug_trace_count(enum tug_trace_kind kind, uint64_t amount) {
    if (__builtin_expect(tug_trace_on, 0))
        tug_trace_count_more(kind, amount);
}

/* When the trace began, by the calendar (CLOCK_REALTIME, ns): the smallest of all ranks is where
 * their common timeline begins. */
uint64_t tug_trace_began_ns(void);

/* Appends this process's events, as rank `rank`, in the JSON trace event format, each on a line of
 * its own that ends in a comma; origin_ns: the timeline's begin, as above. After tug_trace_stop().
 */
void tug_trace_print(FILE *out, int rank, uint64_t origin_ns);

/* What goes ahead of the events of all ranks, and behind them. */
void tug_trace_print_head(FILE *out, int nranks);
void tug_trace_print_tail(FILE *out);

/* Ends the trace and forgets it. Tests only: no other thread may be near. */
void tug_trace_reset(void);

#endif
