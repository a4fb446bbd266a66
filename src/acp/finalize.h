#ifndef TUG_ACP_FINALIZE_H
#define TUG_ACP_FINALIZE_H

/* Ends ACP if it still runs. At MPI_Finalize, before LLCL ends. */
void tug_acp_finalize_left(void);

#endif
