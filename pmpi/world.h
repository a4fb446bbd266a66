/* The world: what the ranks of the job agree on in MPI_Init: who takes part (participants.h), what
 * becomes of settings that have to be alike, and how they wait. Have they a core each?
 *
 * Where they have not, whoever waits inside the host spins through the time slices of those it
 * waits for: a step that takes microseconds takes milliseconds. So when MPI is up, and before any
 * rank leaves MPI_Init, the ranks find out together whether anywhere more of them share cores than
 * there are (base/cores.h). If so, or if TUGBOAT_WAIT=polite says it, all of them wait politely
 * until MPI ends: the host's blocking calls take their other form (blocking.h), collective calls on
 * all communicators of the world's ranks alike (wait_group.h). That needs neither the engine nor
 * its thread level: programs that run at their own have it too.
 *
 * A rank whose requests only its own calls get on (TUGBOAT_PROGRESS=caller) has to do so in all of
 * them: all wait politely then as well. With a rank that is told TUGBOAT=off nobody does.
 *
 * Counted are the ranks of MPI_COMM_WORLD; of threads the engine's where it always drives
 * (TUGBOAT_PROGRESS=thread). Threads of the program's are not known here, nor other jobs.
 */
#ifndef TUG_PMPI_WORLD_H
#define TUG_PMPI_WORLD_H

#include <stdbool.h>

/* In MPI_Init, before the program makes another call. Collective over MPI_COMM_WORLD, also of those
 * that pass everything through. had_sessions: this process has opened sessions before. */
void tug_world_settle(bool had_sessions);

/* Those of the world that take part want the same statistics and trace, if any. */
bool tug_world_counts(void);

#endif
