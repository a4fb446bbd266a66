/* What the shim needs of LLCL. */
#ifndef TUG_LLCL_FINALIZE_H
#define TUG_LLCL_FINALIZE_H

/* MPI is about to be finalised, on all processes: contexts that are left are freed. */
void tug_llcl_finalize(void);

#endif
