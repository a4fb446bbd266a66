/* What the unit tests of the engine share: cmocka with the headers it wants, and small helpers.
 * Included by one test program each; nothing here is thread-safe unless it says so. */
#ifndef TUG_TEST_CHECK_H
#define TUG_TEST_CHECK_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Some other thread or the engine makes it true, or the test fails: after so many sleeps that only
 * a thread that is not coming can be meant, on a busy machine too. */
#define CHECK_SOON(condition)                                                                      \
    do {                                                                                           \
        for (int check_ms = 0; !(condition) && check_ms < 60000; check_ms++)                       \
            check_sleep_us(1000);                                                                  \
        assert_true(condition);                                                                    \
    } while (0)

/* Closes what another thread uses, as a careless program does: past the thread sanitizer, which
 * would call it a race. Nothing, where that thread has closed it before. */
static inline void check_close_carelessly(int descriptor) {
    (void)syscall(SYS_close, descriptor);
}

static inline void check_sleep_us(long us) {
    struct timespec pause = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

/* xorshift64; the state is not 0. */
static inline uint64_t check_draw(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* How often this thread has gone to sleep by itself. */
static inline long check_sleeps(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

static inline uint64_t check_clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* How many threads this process has. */
static inline unsigned check_threads(void) {
    unsigned n = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;)
        n += task->d_name[0] != '.';
    closedir(tasks);
    return n;
}

#endif
