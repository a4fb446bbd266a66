/* References: what the loaded objects of this process call, as their relocations tell.
 *
 * A program that makes no window, no persistent collective, no partitioned request and no call of
 * ours never needs the engine, and then its host MPI need not run at MPI_THREAD_MULTIPLE, whose
 * lock every call pays for. Dynamic linking leaves a trace of every function that an object calls
 * in another: they are looked through once, before MPI starts. What an object that is opened later
 * calls, or what is looked up by name, leaves none.
 *
 * Any thread.
 */
#ifndef TUG_HOST_REFERENCES_H
#define TUG_HOST_REFERENCES_H

#include <stdbool.h>

/* False: whatever is loaded now calls nothing for which the engine would run, and the start of MPI
 * itself is called by reference; or some object makes error handlers, and throws or jumps. MPICH
 * calls a handler inside of its call, with its lock held if it runs at MPI_THREAD_MULTIPLE: after a
 * handler that throws or jumps every call ends in an assertion (4.0.2 to 4.2.1), where at a lower
 * level, without locks, it goes on. True: it calls something, or it cannot be told. The host's own
 * libraries do not count. Well below a millisecond for a usual program. */
bool tug_references_need_engine(void);

/* Does anything that is loaded now make partitioned requests? The host's own libraries do not
 * count; an archive with this library in it does. */
bool tug_references_make_partitioned(void);

/* Is this the name, in C or Fortran, of a call for which the engine would run? */
bool tug_reference_needs_engine(const char *symbol);

#endif
