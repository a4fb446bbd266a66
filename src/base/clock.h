/*
 * Monotonic time in nanoseconds.
 *
 * Looks are served from the vDSO: no system call. Comparable between processes of one machine,
 * never between machines.
 */
#ifndef TUG_BASE_CLOCK_H
#define TUG_BASE_CLOCK_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t tug_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Signals do not end it. */
static inline void tug_clock_sleep(uint64_t ns) {
    struct timespec left = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

#endif
