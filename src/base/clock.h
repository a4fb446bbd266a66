/*
 * Monotonic time in nanoseconds.
 *
 * Served from the vDSO: no system call. Comparable between processes of one machine, never between
 * machines.
 */
#ifndef TUG_BASE_CLOCK_H
#define TUG_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t tug_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
