/* The signals of threads that the library starts. */
#ifndef TUG_BASE_SIGNALS_H
#define TUG_BASE_SIGNALS_H

#include <signal.h>

/* All that the program's own threads are to handle: not those of a fault, which the thread raises
 * by what it does itself. A program that protects its pages handles them on any thread; where one
 * is blocked it ends the process. */
static inline void tug_signals_of_program(sigset_t *signals) {
    sigfillset(signals);
    sigdelset(signals, SIGSEGV);
    sigdelset(signals, SIGBUS);
    sigdelset(signals, SIGFPE);
    sigdelset(signals, SIGILL);
    sigdelset(signals, SIGTRAP);
}

#endif
