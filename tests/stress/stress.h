/* What the stress programs share: options, a seeded generator for each thread, the verdict, and a
 * watchdog that tells where the engine stands when nothing moves any more.
 *
 *   --seed N       the default is TEST_SEED of the environment, else the clock; printed at the
 * start
 *   --seconds S    about how long, over all rounds
 *   --progress P   auto, caller or thread
 *
 * Included by one program each. stress_fail() may be called by any thread and does not return.
 */
#ifndef TUG_TEST_STRESS_H
#define TUG_TEST_STRESS_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/settings.h"
#include "engine/private.h"

struct stress_options {
    uint64_t seed;
    double seconds;
};

static struct stress_options stress = {0, 4};

__attribute__((noreturn, format(printf, 1, 2))) static void stress_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "FAILED: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\nrepeat with --seed %llu\n", (unsigned long long)stress.seed);
    va_end(arguments);
    abort();
}

#define STRESS_CHECK(condition, ...)                                                               \
    do {                                                                                           \
        if (!(condition))                                                                          \
            stress_fail(__VA_ARGS__);                                                              \
    } while (0)

/* xorshift64*: good enough to vary what threads do, and the same for the same seed. */
static inline uint64_t stress_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1dull;
}

static inline uint64_t stress_seed_of(uint64_t which) {
    uint64_t state = stress.seed * 0x9e3779b97f4a7c15ull + (which + 1) * 0xbf58476d1ce4e5b9ull;
    state = state ? state : 1;
    for (int i = 0; i < 4; i++)
        (void)stress_random(&state);
    return state;
}

static void stress_on_alarm(int number) {
    (void)number;
    struct tug_engine *engine = &tug_engine;
    uint64_t word = atomic_load(&engine->ring.state);
    uint64_t head = atomic_load(&engine->ring.head);
    fprintf(stderr,
            "FAILED: nothing moves: tail %llu head %llu flags %llx seq of the head's cell %llu, "
            "%u jobs out, waits out %x coming %x, bells: driver %x offload %x, deep %d; repeat "
            "with --seed %llu\n",
            (unsigned long long)(word >> TUG_TAIL_SHIFT), (unsigned long long)head,
            (unsigned long long)(word & (TUG_TAIL_ONE - 1)),
            (unsigned long long)atomic_load(&engine->ring.cells[head & engine->ring.mask].seq),
            atomic_load(&engine->outstanding), (uint32_t)atomic_load(&engine->waiters.out),
            atomic_load(&engine->waiters.coming), atomic_load(&engine->driver.own.word),
            atomic_load(&engine->offload.own.word), tug_gather_wanted_by(TUG_GATHER_OFFLOAD),
            (unsigned long long)stress.seed);
    abort();
}

/* Everything must come to an end within that time from now. */
static inline void stress_watchdog(unsigned seconds) {
    struct sigaction action = {.sa_handler = stress_on_alarm};
    sigaction(SIGALRM, &action, NULL);
    alarm(seconds);
}

/* Rounds that each worker does, however slow the machine is: else a round of processes may be over
 * before they run, with nothing tested. */
#define STRESS_LEAST 20

/* Does a worker go on after that many rounds? */
static inline bool stress_goes_on(uint64_t rounds, uint64_t deadline_ns) {
    return rounds < STRESS_LEAST || tug_clock_ns() < deadline_ns;
}

static inline void stress_parse(int argc, char **argv) {
    const char *seed = getenv("TEST_SEED");
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--seed") == 0)
            seed = value;
        else if (strcmp(argv[i], "--seconds") == 0)
            stress.seconds = strtod(value, NULL);
        else if (strcmp(argv[i], "--progress") == 0 && strcmp(value, "auto") == 0)
            tug_settings.progress = TUG_PROGRESS_AUTO;
        else if (strcmp(argv[i], "--progress") == 0 && strcmp(value, "caller") == 0)
            tug_settings.progress = TUG_PROGRESS_CALLER;
        else if (strcmp(argv[i], "--progress") == 0 && strcmp(value, "thread") == 0)
            tug_settings.progress = TUG_PROGRESS_THREAD;
        else {
            fprintf(stderr, "usage: %s [--seed N] [--seconds S] [--progress auto|caller|thread]\n",
                    argv[0]);
            exit(2);
        }
    }
    stress.seed = seed ? strtoull(seed, NULL, 0) : tug_clock_ns() ^ (uint64_t)getpid() << 32;
    printf("seed %llu\n", (unsigned long long)stress.seed);
    fflush(stdout);
}

#endif
