/* Waiting for the host from outside, with the core given away in between. A thread that waits
 * inside the host spins; where ranks outnumber cores it spins through the time slices of the ranks
 * that it waits for. Any thread.
 *
 *     error = TUG_POLITE(Ibcast, buffer, 1, MPI_INT, 0, comm);
 */
#ifndef TUG_HOST_POLITE_H
#define TUG_HOST_POLITE_H

#include <stdbool.h>

#include "host/host.h"

/* How long who waits for the host, which rings no bell, sleeps between looks. Linux adds 50 us of
 * timer slack to the least; an end is seen within the most. */
#define TUG_NAP_LEAST_NS 20000
#define TUG_NAP_MOST_NS 1000000

/* Returns when done(argument) is true, which progresses the host when it looks. In between the core
 * is given away, and after a while the thread sleeps: never for longer than a small part of the
 * time waited so far, since the host rings no bell. */
void tug_polite_until(bool (*done)(void *), void *argument);

/* A request of the host's that is being waited for: a done() for it. */
struct tug_pending {
    MPI_Request *request;
    MPI_Status *status;
    int error;
    bool over; /* a look has completed it: no second look */
};
bool tug_pending_is_over(void *pending);

/* MPI_Wait without a status. The request's error. */
int tug_polite_wait(MPI_Request *request);

#define TUG_POLITE(Twin, ...)                                                                      \
    ({                                                                                             \
        MPI_Request polite_request;                                                                \
        int polite_error = tug_host.Twin(__VA_ARGS__, &polite_request);                            \
        polite_error == MPI_SUCCESS ? tug_polite_wait(&polite_request) : polite_error;             \
    })

#endif
