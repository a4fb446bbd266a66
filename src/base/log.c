/*
 * Composing and writing one line. See log.h.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Atomic int log_rank = -1;

void tug_log_set_rank(int rank) {
    atomic_store_explicit(&log_rank, rank, memory_order_relaxed);
}

void tug_log(enum tug_verbose level, const char *format, ...) {
    if (level > tug_settings.verbose)
        return;
    const int kept_errno = errno;
    const int rank = atomic_load_explicit(&log_rank, memory_order_relaxed);
    char line[1024];
    size_t used = rank < 0 ? (size_t)snprintf(line, sizeof line, "tugboat: ")
                           : (size_t)snprintf(line, sizeof line, "tugboat[%d]: ", rank);
    va_list arguments;
    va_start(arguments, format);
    const int more = vsnprintf(line + used, sizeof line - used - 1, format, arguments);
    va_end(arguments);
    if (more > 0)
        used += strlen(line + used);
    if (line[used - 1] != '\n')
        line[used++] = '\n';
    /* Signals interrupt the wait for a full pipe. Nothing can be done about a standard error that
     * is closed. */
    while (write(STDERR_FILENO, line, used) < 0 && errno == EINTR)
        ;
    errno = kept_errno;
}
