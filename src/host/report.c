#include "host/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "host/host.h"

#define LOOK_MS 10
#define READ_MS 5000   /* longest wait for the launcher to read what the process has written */
#define FORWARD_MS 250 /* the launcher's parts have to pass it on to each other */

static bool is_unread(int pipe) {
    struct stat about;
    int bytes;
    return fstat(pipe, &about) == 0 && S_ISFIFO(about.st_mode) &&
           ioctl(pipe, FIONREAD, &bytes) == 0 && bytes > 0;
}

/* MPICH's launcher ends with the job, and drops output that it has not passed on by then: the
 * reason, and what the program wrote before. */
static void let_output_arrive(void) {
    (void)fflush(stdout);
    for (int ms = 0; ms < READ_MS && (is_unread(STDOUT_FILENO) || is_unread(STDERR_FILENO));
         ms += LOOK_MS)
        tug_clock_sleep(LOOK_MS * UINT64_C(1000000));
    tug_clock_sleep(FORWARD_MS * UINT64_C(1000000));
}

void tug_report_end_job(int status) {
    int (*end_job)(MPI_Comm, int);
    *(void **)&end_job = tug_host_find("PMPI_Abort");
    if (end_job == NULL || !tug_host_says("PMPI_Initialized") || tug_host_says("PMPI_Finalized"))
        return;
    let_output_arrive();
    (void)end_job(MPI_COMM_WORLD, status);
    _exit(EXIT_FAILURE); /* MPICH 4.2.1's call returns; the reason is not to be said again */
}

/* Returns if the handler is another. */
static void end_if_fatal(MPI_Errhandler handler, int error) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (handler != MPI_ERRORS_ARE_FATAL)
        return;
    (void)tug_host.Error_string(error, text, &length);
    tug_log(TUG_LOG_ERROR, "an error that the program lets end the job (MPI_ERRORS_ARE_FATAL): %s",
            text);
    tug_report_end_job(error);
}

void tug_report_comm(MPI_Comm comm, int error) {
    MPI_Errhandler handler;
    if (tug_host.Comm_get_errhandler(comm, &handler) == MPI_SUCCESS) {
        end_if_fatal(handler, error);
        (void)tug_host.Errhandler_free(&handler);
    }
    (void)tug_host.Comm_call_errhandler(comm, error);
}

void tug_report_win(MPI_Win win, MPI_Errhandler handler, int error) {
    end_if_fatal(handler, error);
    (void)tug_host.Win_call_errhandler(win, error);
}
