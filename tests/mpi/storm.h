/* storm.h: a storm of signals, as of a profiler's timer: SIGALRM every so many microseconds from
 * before MPI_Init to behind MPI_Finalize.
 *
 * Arguments of a program: interrupt or restart (without or with SA_RESTART), the period in us. */
#ifndef TUG_TESTS_MPI_STORM_H
#define TUG_TESTS_MPI_STORM_H

#include <signal.h>
#include <sys/time.h>

#include "check.h"

static volatile sig_atomic_t storm_signals;

static void storm_count(int number) {
    (void)number;
    storm_signals++;
}

static inline void storm_set(long us) {
    const struct itimerval every = {{0, us}, {0, us}};
    if (setitimer(ITIMER_REAL, &every, NULL) != 0)
        abort();
}

static inline void storm_begin(int argc, char **argv) {
    struct sigaction action = {.sa_handler = storm_count};
    if (argc < 3)
        abort();
    action.sa_flags = strcmp(argv[1], "restart") == 0 ? SA_RESTART : 0;
    if (sigaction(SIGALRM, &action, NULL) != 0)
        abort();
    storm_set(atol(argv[2]));
}

/* In place of check_end(). */
static inline int storm_end(void) {
    CHECK(storm_signals > 5, "%d signals are no storm", (int)storm_signals);
    const int status = check_end();
    storm_set(0);
    return status;
}

#endif
