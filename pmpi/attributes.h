/* What the program has hung on MPI_COMM_SELF, see attributes.c. */
#ifndef TUG_PMPI_ATTRIBUTES_H
#define TUG_PMPI_ATTRIBUTES_H

/* MPI is about to end: deletes the attributes, the last one set first, which calls the program's
 * callbacks. MPI and the engine are all there. */
void tug_attributes_finalize(void);

#endif
