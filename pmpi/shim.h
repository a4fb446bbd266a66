/* The shim's bodies, one per row of the table: what happens when the program calls MPI_X.
 * A body looks whether the object is ours; if not, it calls the host at once. */
#ifndef TUG_PMPI_SHIM_H
#define TUG_PMPI_SHIM_H

#include <mpi.h>
#include <stdbool.h>

#define TUG_CALL(Name, parameters, arguments) int tug_shim_##Name parameters;
#include "host/calls.def"

#define TUG_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* After a look into the host by a program that polls: one at what the engine serves, too. Returns
 * the host's error. */
int tug_shim_helped(int error);

/* Finds the host and what the entries lead to. False: no host. Any thread. */
bool tug_entries_resolve(void);

/* The address, or in place of what the host does not have a function that returns MPI_ERR_OTHER. */
void *tug_or_lacking(void *address);

/* Finds what the MPIX_ calls lead to. step_aside: to the host's, where it has them, since it is not
 * the one we are built for. Before any is made. */
void tug_mpix_resolve(bool step_aside);

#endif
