/*
 * The two futex calls the engine sleeps on.
 *
 * A word is 32 bits and lies in memory of this process (shared = false) or in memory that several
 * processes map (shared = true); the waiter and the waker must say the same. Neither call orders
 * memory for its caller: the atomics on the word do.
 */
#ifndef TUG_BASE_FUTEX_H
#define TUG_BASE_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word is `expected`, at most timeout_ns (negative: for ever).
 * Returns 0 when woken, which may be for no reason; -EAGAIN when *word was already something else;
 * -ETIMEDOUT; -EINTR. Look at the word again in every case. Leaves errno alone. */
static inline int tug_futex_wait(uint32_t _Atomic *word, uint32_t expected, int64_t timeout_ns,
                                 bool shared) {
    struct timespec limit;
    struct timespec *limit_or_null = NULL;
    if (timeout_ns >= 0) {
        limit.tv_sec = (time_t)(timeout_ns / 1000000000);
        limit.tv_nsec = (long)(timeout_ns % 1000000000);
        limit_or_null = &limit;
    }
    const int kept_errno = errno;
    const int op = shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE;
    long status = syscall(SYS_futex, word, op, expected, limit_or_null, NULL, 0);
    const int error = status == 0 ? 0 : -errno;
    errno = kept_errno;
    return error;
}

/* Wakes at most n sleepers. Returns how many were woken, or a negative errno. Leaves errno alone.
 */
static inline int tug_futex_wake(uint32_t _Atomic *word, int n, bool shared) {
    const int kept_errno = errno;
    const int op = shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE;
    long status = syscall(SYS_futex, word, op, n, NULL, NULL, 0);
    const int result = status >= 0 ? (int)status : -errno;
    errno = kept_errno;
    return result;
}

#endif
