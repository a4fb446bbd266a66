/*
 * Lines on standard error.
 *
 * One call is one line, composed first and written with a single write(2), so lines of several
 * threads and ranks do not mix. What is said follows TUGBOAT_VERBOSE; errors are always said. Any
 * thread, no lock, no allocation, errno is kept; lines past 1 000 bytes are cut.
 */
#ifndef TUG_BASE_LOG_H
#define TUG_BASE_LOG_H

#include <stdatomic.h>

#include "base/settings.h"

/* The level of a line that is said even under TUGBOAT_VERBOSE=quiet. */
#define TUG_LOG_ERROR TUG_VERBOSE_QUIET

/* Writes "tugboat: " and the text when the verbosity is at least `level`. No newline is needed. */
void tug_log(enum tug_verbose level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts the rank into the prefix of later lines ("tugboat[3]: "); negative takes it out again. */
void tug_log_set_rank(int rank);

/* A warning that one place in the source gives at most once per process. */
#define tug_warn_once(...)                                                                         \
    do {                                                                                           \
        static atomic_flag tug_warned = ATOMIC_FLAG_INIT;                                          \
        if (!atomic_flag_test_and_set_explicit(&tug_warned, memory_order_relaxed))                 \
            tug_log(TUG_VERBOSE_WARN, __VA_ARGS__);                                                \
    } while (0)

#endif
