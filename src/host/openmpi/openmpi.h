/* What the host has to be asked, or done, differently for Open MPI; for host.c alone. */
#ifndef TUG_HOST_OPENMPI_OPENMPI_H
#define TUG_HOST_OPENMPI_OPENMPI_H

#include <stdbool.h>

/* Fills tug_openmpi from the objects of the program and of the host. */
void tug_openmpi_find_objects(void *library);

/* A function of MPI 4, by its name without prefix, that the host does not have by this name: the
 * host's under the name that Open MPI 4.1 has it by, or one made of those it has, or one that
 * fails. NULL: none. */
void *tug_openmpi_find(void *library, const char *name);

/* True for the functions of MPI 4 that nobody calls where the host lacks them. */
bool tug_openmpi_may_lack(const char *name);

#endif
