/* Executes the schedules of all ranks of a job in plain memory, in a random order.
 *
 * One thread plays all ranks: again and again it picks, by chance, one of the things that the
 * contracts allow to happen next, and is as unkind as they allow. Ranks start late and are slow; a
 * send reads its buffer at any time before it completes, and completes with or without the receive
 * (one that is lent: with it);  * a receive scribbles over its buffer as soon as it is posted;
 * rings have eight slots; a rank enters the next run as soon as its own part of this one is over. A
 * step that is missing shows as wrong data, one too few as a deadlock, which fails the test with a
 * dump of all that stand still.
 *
 * Elements are 64-bit words, blocks are single elements. Everything follows from the seed.
 */
#ifndef TUG_TEST_SCHEDULE_RUNNER_H
#define TUG_TEST_SCHEDULE_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "schedule/places.h"
#include "schedule/schedule.h"

/* What a rank's areas are; the same array twice is an operation in place. */
struct runner_memory {
    uint64_t *input, *output, *blocks;
    uint64_t ninput, noutput, nblocks;
};

struct runner {
    const struct tug_places *places;
    const struct tug_schedule *schedules; /* [nranks] */
    const struct runner_memory *memory;   /* [nranks] */
    uint64_t (*op)(uint64_t a, uint64_t b);
    uint32_t runs;
    uint64_t seed;
    const char *what;                                      /* for messages */
    void (*begin)(void *state, uint32_t rank, uint32_t n); /* fills the rank's memory for run n */
    void (*end)(void *state, uint32_t rank, uint32_t n);   /* looks at it */
    void *state;
};

/* Checks the schedules and executes them, or fails the test. */
void runner_run(const struct runner *runner);

/* Fails the test, saying which run of which seed it was. */
__attribute__((format(printf, 2, 3), noreturn)) void runner_fail(const struct runner *runner,
                                                                 const char *format, ...);

/* The next number of a random sequence. */
uint64_t runner_draw(uint64_t *state);

#endif
