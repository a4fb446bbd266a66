/* The end of MPI over a network, when others still close.
 *
 * MPICH's device ch4:ucx ends in three steps: each process closes its connections, and progresses
 * until its peers have answered; it waits for all at the process manager; it destroys its workers.
 * Seen with MPICH 4.0.2 and UCX 1.13 over TCP: a process that is through with the first step sits
 * in read() on the process manager's descriptor, where it answers nobody, another waits for just
 * that answer, and neither ever ends. The device has no mend for it as of 4.2.
 *
 * We see the host make and destroy its workers, and stand in for its read(). While a thread is in
 * the host's MPI_Finalize, what it would read is waited for from outside, and the workers that are
 * there go on. At all other times it is the read() that it was. Where the host does not speak to
 * its process manager itself (an external PMI library) nothing changes.
 */
#ifndef TUG_HOST_FAREWELL_H
#define TUG_HOST_FAREWELL_H

#include <stdbool.h>

/* Before the host is initialised, any number of times, any thread. True: the host is one that
 * closes so, and is seen to. */
bool tug_farewell_prepare(void);

/* Around the host's MPI_Finalize and MPI_Session_finalize, by the thread that calls it. */
void tug_farewell_begin(void);
void tug_farewell_end(void);

#endif
