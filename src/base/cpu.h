/*
 * What a spinning thread says to its core, and the size of a cache line.
 */
#ifndef TUG_BASE_CPU_H
#define TUG_BASE_CPU_H

#define TUG_CACHE_LINE 64

/* Tells the core that this is a wait: saves power and lets the sibling hardware thread run. */
static inline void tug_cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory"); /* some 40 ns; "yield" takes no time on most cores */
#elif defined(__arm__)
    __asm__ __volatile__("yield" ::: "memory");
#elif defined(__powerpc64__)
    __asm__ __volatile__("or 27,27,27" ::: "memory");
#else
    __asm__ __volatile__("" ::: "memory");
#endif
}

#endif
