/* Where the host spins, and how that becomes bearable.
 *
 * A call that has a nonblocking twin can wait outside (polite.h). Others cannot: those that make
 * communicators and windows, reductions by the program's functions, synchronisation of the host's
 * windows, MPI_Finalize itself. MPICH's device ch4:ucx waits in all of them by calling
 * ucp_worker_progress() until something comes; the others would sleep if they could. Where ranks
 * outnumber cores we stand in for that function, in the host alone: after a few calls in a row that
 * found nothing the thread gives its core away each time, unless it is busy with something that
 * others wait for. It does not sleep, for it holds the host's lock. With another device such calls
 * spin as the host does.
 *
 * The same for a moment where ranks have cores enough, but may have to share them with others:
 * while all of them make windows, communicators or shared memory together. That takes a dozen of
 * the host's own calls, and each that spins through a time slice would cost milliseconds.
 */
#ifndef TUG_HOST_SPIN_H
#define TUG_HOST_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/* In MPI_Init, when the ranks turn out to be crowded; and when MPI has ended. Not thread safe.
 * busy() is asked by the thread that would give its core away. False: the host makes no such call.
 */
bool tug_spin_yield(bool (*busy)(void));
void tug_spin_restore(void);

/* Around what all ranks make together. Nests; any thread, and for all threads. Nothing where waits
 * are to be the host's own (TUGBOAT_WAIT=native). */
void tug_spin_meeting_begin(bool (*busy)(void));
void tug_spin_meeting_end(void);

/* While somebody in this process looks for news of its own (nests), a thread that finds nothing in
 * the host looks there too, which calls nothing of the host's: look() says whether it found
 * anything. False: the host makes no such call, and nothing is to be ended. */
bool tug_spin_look_begin(bool (*look)(void));
void tug_spin_look_end(void);

/* Progress calls of this thread in a row that found nothing. Who looks into the host from outside
 * and gives the core away between looks sets it to 0 before each. */
extern _Thread_local uint32_t tug_spin_vain;

#endif
