/* Crowds: have the ranks of the job a core each?
 *
 * Where they have not, whoever waits inside the host spins through the time slices of those it
 * waits for: a step that takes microseconds takes milliseconds. So when MPI is up, and before any
 * rank leaves MPI_Init, the ranks find out together whether anywhere more of them share cores than
 * there are (base/cores.h). If so, or if TUGBOAT_WAIT=polite says it, all of them wait politely
 * until MPI ends: the host's blocking calls take their other form (blocking.h), collective calls on
 * all communicators of the world's ranks alike (circle.h). That needs neither the engine nor its
 * thread level: programs that run at their own have it too.
 *
 * Counted are the ranks of MPI_COMM_WORLD; of threads the engine's where it always drives
 * (TUGBOAT_PROGRESS=thread). Threads of the program's are not known here, nor other jobs.
 */
#ifndef TUG_PMPI_CROWD_H
#define TUG_PMPI_CROWD_H

/* In MPI_Init, before the program makes another call. Collective over MPI_COMM_WORLD. */
void tug_crowd_settle(void);

/* MPI is about to end. */
void tug_crowd_finalize(void);

#endif
