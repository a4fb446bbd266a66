#include "host/report.h"

#include "base/log.h"
#include "host/host.h"

void tug_report_end_job(int status) {
    int (*end_job)(MPI_Comm, int);
    *(void **)&end_job = tug_host_find("PMPI_Abort");
    if (end_job != NULL && tug_host_says("PMPI_Initialized") && !tug_host_says("PMPI_Finalized"))
        (void)end_job(MPI_COMM_WORLD, status);
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
