/* Report: errors of ours, told by the error handlers that the program has set.
 *
 * MPICH 4.0.2 ends a job where one of its own calls fails under MPI_ERRORS_ARE_FATAL. Where the
 * same handler is called by MPI_Comm_call_errhandler or MPI_Win_call_errhandler, it ends the
 * calling process alone, by exit(), and mpiexec ends the others only if a process of the same host
 * was killed by a signal: with one rank a host the job goes on without it, and hangs. So the job is
 * ended here. May go when MPICH's two calls end it.
 *
 * Any thread, as the last act of a call: the program's handler may throw an exception or jump, and
 * then nothing that follows is done. Nothing is held, and nothing is half done.
 */
#ifndef TUG_HOST_REPORT_H
#define TUG_HOST_REPORT_H

#include <mpi.h>

/* Calls the communicator's error handler with the error, as the host does where it finds one. */
void tug_report_comm(MPI_Comm comm, int error);

/* The same for a window whose handler is `handler`, which the host's window has meanwhile. */
void tug_report_win(MPI_Win win, MPI_Errhandler handler, int error);

/* Ends the job, as MPI_Abort of all of the world does, when what was written has had time to arrive
 * (a quarter of a second). Returns where MPI does not run. */
void tug_report_end_job(int status);

#endif
