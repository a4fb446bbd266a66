/* The host's collectives, as the library itself calls them: the nonblocking twin, looked at from
 * outside. Who waits inside the host spins, through the time slices of those that are awaited where
 * ranks outnumber cores. Any thread.
 *
 *     error = TUG_POLITE(Ibcast, buffer, 1, MPI_INT, 0, comm);
 */
#ifndef TUG_HOST_POLITE_H
#define TUG_HOST_POLITE_H

#include "host/host.h"

/* Tests, yields the core, and after a while sleeps in between, until the request is complete. Its
 * error. */
int tug_polite_wait(MPI_Request *request);

#define TUG_POLITE(Twin, ...)                                                                      \
    ({                                                                                             \
        MPI_Request polite_request;                                                                \
        int polite_error = tug_host.Twin(__VA_ARGS__, &polite_request);                            \
        polite_error == MPI_SUCCESS ? tug_polite_wait(&polite_request) : polite_error;             \
    })

#endif
