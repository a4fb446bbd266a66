/* The shim's bodies, one per row of the table: what happens when the program calls MPI_X; and the
 * state they share. A body looks whether the object is ours; if not, it calls the host at once. */
#ifndef TUG_PMPI_SHIM_H
#define TUG_PMPI_SHIM_H

#include <mpi.h>
#include <stdbool.h>

#define TUG_CALL(Name, parameters, arguments) int tug_shim_##Name parameters;
#include "host/calls.def"

#define TUG_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

struct tug_shim {
    bool active;     /* MPI runs at MPI_THREAD_MULTIPLE and the settings allow us: windows and
                        persistent     collectives are taken */
    bool concurrent; /* several threads may be in MPI at once, or TUGBOAT_PROGRESS=thread: commands
                        go through the engine. Without, the one thread calls the host directly. */
    bool own_level;  /* MPI runs at the thread level that the program asked for, lower than that,
                        since nothing in it called for more: all calls pass through */
    int requested;   /* the thread level that the program asked for and is told */
};
extern struct tug_shim tug_shim;

/* Says once that a call comes that would have been taken, but for own_level. */
void tug_shim_note_passed(void);

/* Finds the host and what the entries lead to. False: no host. Any thread. */
bool tug_entries_resolve(void);

/* Finds what the MPIX_ calls lead to. step_aside: to the host's, where it has them, since it is not
 * the one we are built for. Before any is made. */
void tug_mpix_resolve(bool step_aside);

/* Starts the engine if it does not run yet. False: the caller passes its call through. Any thread.
 */
bool tug_shim_engine(void);

/* The host is about to have functions of the program's to call (reductions that do not block): from
 * now on the engine does not get it on by itself, unless the program has asked for
 * MPI_THREAD_MULTIPLE. */
void tug_shim_keep_functions(void);

/* Progresses the host MPI a little. The engine has been started. Any thread. */
void tug_shim_poll_host(void);

#endif
