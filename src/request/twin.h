/* A persistent collective of the host MPI beside ours, for the same buffers: some starts take its
 * way, so that the two can be compared within the program's own run (TUGBOAT_STATS=verdict).
 *
 * Which starts: the 16th, 32nd, 64th, ... of a request, since every rank counts to the same: of a
 * million starts 16. The start before each is timed too, so both see the program in the same phase.
 * Both are driven by the engine, and timed from start to completion.
 *
 * Threading: tug_twin_keep() before the request is handed out; the others as tug_request_start()
 * and its completion.
 */
#ifndef TUG_REQUEST_TWIN_H
#define TUG_REQUEST_TWIN_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

struct tug_request;

/* What all requests of this process add up to; ns, see base/verdict.h. */
struct tug_twin_sums {
    _Atomic uint64_t runs, own_ns, host_ns; /* pairs compared */
    _Atomic uint64_t run_ns, call_ns;       /* all starts of ours */
};
extern struct tug_twin_sums tug_twin_sums;

/* Set before the first request is made: requests are timed, and twins kept. */
extern bool tug_twin_on;

/* Times the request, and keeps the host's for its starts (MPI_REQUEST_NULL: has none). Does nothing
 * and returns false when that is off: then the host's is the caller's still. */
bool tug_twin_keep(struct tug_request *request, MPI_Request host);

/* For requests that have a twin, in place of their own start. */
void tug_twin_start(struct tug_request *request);

/* The run is complete. */
void tug_twin_complete(struct tug_request *request);

/* True while the run under way is the host's: that is none of our time. */
bool tug_twin_is_host(const struct tug_request *request);

/* The program has been inside of a call for runs of ours since `begin_ns`. */
void tug_twin_called(uint64_t begin_ns);

void tug_twin_free(struct tug_request *request);

#endif
