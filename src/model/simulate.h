/* Runs the schedules of all ranks of a job under LogGP, with contention.
 *
 * The schedules are those that interpreters run, compiled rank by rank by a callback and packed at
 * once, so that a million ranks fit into memory. What is scarce:
 *
 *   a rank  does one thing at a time: o of each message, copies, reductions
 *   a core  where ranks share cores: works for one of them at a time
 *   a node  sends `engines` messages at once and receives as many; makes `copiers` copies at once
 *   a link  carries one message at a time (network.h)
 *   a ring  has so many slots: PUBLISH waits for the slowest reader
 *
 * Each is given to whoever asks first. Two segments of a queue are under way between nodes at once;
 * messages need no receiver. Deterministic: the same input gives the same picosecond.
 *
 * A schedule that never ends is found: nothing is under way and queues are left. Single-threaded,
 * pure.
 */
#ifndef TUG_MODEL_SIMULATE_H
#define TUG_MODEL_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/network.h"
#include "schedule/places.h"
#include "schedule/schedule.h"
#include "tugboat/model.h"

#define TUG_SIMULATED_SLOTS 8

struct tug_simulation {
    const struct tug_places *places;
    const struct tug_model_parameters *parameters;
    struct tug_network network; /* kind, radix and taper */
    uint64_t element_bytes;
    uint64_t message_bytes; /* bytes of the whole message: copies are as fast as this allows */
    uint32_t slots;         /* segments that a ring holds */
    bool one_engine;        /* what is sent inside a node is copied by one of its engines, one piece
                               after another, and by no processor */
    /* The schedule of a rank, to be freed here. 0 or a TUG_ERR_*. */
    int (*compile)(void *state, uint32_t rank, struct tug_schedule *schedule);
    void *state;
};

struct tug_simulated {
    double seconds;      /* until the last rank is through */
    uint32_t last_rank;  /* one that is last */
    uint64_t events;     /* events that were simulated */
    uint64_t sent_bytes; /* between nodes */
};

/* 0, the callback's error, TUG_ERR_NO_MEMORY, TUG_ERR_INVALID for schedules that name ranks or
 * queues that are not there, and TUG_ERR_STATE for schedules that never end; `why` says which rank
 * and queue of it, and what it waits for. */
int tug_simulate(const struct tug_simulation *simulation, struct tug_simulated *result, char *why,
                 size_t why_bytes);

#endif
