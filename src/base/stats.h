/*
 * Counters: what the library took, what it passed to the host MPI, and how the engine fared.
 *
 * Off (the default) a counter costs one predictable branch. On, it is one relaxed atomic operation:
 * the values of different counters are not a consistent picture of one moment, which is fine for
 * figures that are read at the end. No MPI here: the caller reduces the snapshots over ranks, by
 * sum and by maximum, and hands both back for printing.
 */
#ifndef TUG_BASE_STATS_H
#define TUG_BASE_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Classes of MPI calls: X(NAME, "name"). Each has two counters, calls taken and calls passed on. */
#define TUG_STAT_CLASSES(X)                                                                        \
    X(PUT, "put")                                                                                  \
    X(GET, "get")                                                                                  \
    X(ACCUMULATE, "accumulate")                                                                    \
    X(GET_ACCUMULATE, "get_accumulate")                                                            \
    X(FETCH_AND_OP, "fetch_and_op")                                                                \
    X(COMPARE_AND_SWAP, "compare_and_swap")                                                        \
    X(RMA_REQUEST, "rma_request")                                                                  \
    X(SYNC, "sync")                                                                                \
    X(WINDOW, "window")                                                                            \
    X(PERSISTENT, "persistent")                                                                    \
    X(COLLECTIVE, "collective")                                                                    \
    X(REQUEST, "request")

/* The engine's own: X(NAME, "name", help). ring_high_water is a maximum, all others are sums. */
#define TUG_STAT_ENGINE(X)                                                                         \
    X(RING_HIGH_WATER, "ring_high_water", "most commands seen waiting in the ring")                \
    X(HELPS, "helps", "times a waiting thread drove the engine itself")                            \
    X(PARKS, "parks", "times a thread went to sleep")                                              \
    X(WAKES, "wakes", "times a sleeper was woken")                                                 \
    X(OFFLOAD_WAKES, "offload_wakes", "times the offload thread was woken")                        \
    X(INSIDE_ROUNDS, "inside_rounds", "times a thread that waited in the host answered peers")     \
    X(HOST_POLLS, "host_polls", "times the host MPI was polled for progress")                      \
    X(OUTSIDE_WAITS, "outside_waits", "waits for the host MPI that give the core away")            \
    X(SPREADS, "spreads", "waiting threads that left a core on which a neighbour waits")           \
    X(UNWATCHED, "unwatched", "sockets that cannot wake a sleeper, polled at intervals")           \
    X(BYTES, "bytes", "bytes handed to the engine")                                                \
    X(OPERATIONS, "operations", "LLCL operations that were handed to a transport")                 \
    X(MAPPED, "mapped", "LLCL operations that the caller did on mapped memory")                    \
    X(PACKETS, "packets", "packets sent")                                                          \
    X(ACKNOWLEDGEMENTS, "acknowledgements", "packets sent that only acknowledge")                  \
    X(HOST_MESSAGES, "host_messages", "messages of the host MPI sent for LLCL")                    \
    X(VERBS_DOORBELLS, "verbs_doorbells", "chains of work requests handed to the card")            \
    X(VERBS_REQUESTS, "verbs_requests", "work requests in these")                                  \
    X(VERBS_COMPLETIONS, "verbs_completions", "completions taken from the card, receives too")     \
    X(VERBS_REGISTERED, "verbs_registered", "times that origin buffers were made known to it")     \
    X(VERBS_RAIL_1, "verbs_rail_1", "bytes of shares of long operations by the first port")        \
    X(VERBS_RAIL_2, "verbs_rail_2", "the same by the second, with short ones that name it")        \
    X(VERBS_RAIL_3, "verbs_rail_3", "by the third")                                                \
    X(VERBS_RAIL_4, "verbs_rail_4", "by the fourth")                                               \
    X(OFI_REQUESTS, "ofi_requests", "reads, writes and atomics handed to libfabric")               \
    X(LONE, "lone", "LLCL operations that went to a process of the node by themselves")            \
    X(FLUSHES_COMBINED, "flushes_combined", "flushes that another thread's flush waited for")      \
    X(DIRECT_WINDOWS, "direct_windows", "windows in the direct lane")                              \
    X(PACKET_WINDOWS, "packet_windows", "windows in the packet lane")                              \
    X(NATIVE_WINDOWS, "native_windows", "windows in the native lane")                              \
    X(MODEL_PREDICTED, "model_predicted", "ns of one run of every broadcast, as predicted")        \
    X(MODEL_MEASURED, "model_measured", "ns of one run of every broadcast, as measured")

enum tug_stat {
#define TUG_STAT_PAIR(NAME, name) TUG_STAT_##NAME##_TAKEN, TUG_STAT_##NAME##_PASSED,
    TUG_STAT_CLASSES(TUG_STAT_PAIR)
#undef TUG_STAT_PAIR
#define TUG_STAT_ONE(NAME, name, help) TUG_STAT_##NAME,
        TUG_STAT_ENGINE(TUG_STAT_ONE)
#undef TUG_STAT_ONE
            TUG_STAT_COUNT
};

extern bool tug_stats_on;
extern _Atomic uint64_t tug_stat_values[TUG_STAT_COUNT];

static inline void tug_stat_add(enum tug_stat stat, uint64_t amount) {
    if (__builtin_expect(tug_stats_on, 0))
        atomic_fetch_add_explicit(&tug_stat_values[stat], amount, memory_order_relaxed);
}

/* Raises the counter to `value` when it is below. */
static inline void tug_stat_max(enum tug_stat stat, uint64_t value) {
    if (__builtin_expect(!tug_stats_on, 1))
        return;
    uint64_t seen = atomic_load_explicit(&tug_stat_values[stat], memory_order_relaxed);
    while (seen < value &&
           !atomic_compare_exchange_weak_explicit(&tug_stat_values[stat], &seen, value,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* Copies all TUG_STAT_COUNT counters of this process. */
void tug_stats_snapshot(uint64_t out[]);

/* One block for people. sum and max hold the counters reduced over nranks ranks. */
void tug_stats_print(FILE *out, const uint64_t sum[], const uint64_t max[], int nranks);

/* Prints the counters as one JSON object, as tug_stats_print() does for people. */
void tug_stats_print_json(FILE *out, const uint64_t sum[], const uint64_t max[], int nranks);

#endif
