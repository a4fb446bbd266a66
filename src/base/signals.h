/* The signals of threads that the library starts. */
#ifndef TUG_BASE_SIGNALS_H
#define TUG_BASE_SIGNALS_H

#include <signal.h>

/* All signals but those of faults. The program's own threads handle them, so the library's threads
 * block them. A thread raises the signal of a fault by its own access: a program that protects its
 * pages handles it on any thread, and the kernel ends the process if the thread blocks it. */
static inline void tug_signals_of_program(sigset_t *signals) {
    sigfillset(signals);
    sigdelset(signals, SIGSEGV);
    sigdelset(signals, SIGBUS);
    sigdelset(signals, SIGFPE);
    sigdelset(signals, SIGILL);
    sigdelset(signals, SIGTRAP);
}

#endif
