/*
 * What a spinning thread says to its core, the size of a cache line, and how many cores there are.
 */
#ifndef TUG_BASE_CPU_H
#define TUG_BASE_CPU_H

#include <sched.h>

#define TUG_CACHE_LINE 64

/* How many cores the calling thread may use; 1 if that cannot be known. */
static inline unsigned tug_cpu_cores(void) {
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (unsigned)CPU_COUNT(&cpus) : 1;
}

/* Tells the core that this is a wait: saves power and lets the sibling hardware thread run. */
static inline void tug_cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ __volatile__("yield" ::: "memory");
#elif defined(__powerpc64__)
    __asm__ __volatile__("or 27,27,27" ::: "memory");
#else
    __asm__ __volatile__("" ::: "memory");
#endif
}

#endif
