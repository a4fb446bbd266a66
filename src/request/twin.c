/* The host's persistent collective beside ours. See twin.h. */
#include "request/twin.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "host/host.h"
#include "node/team.h"
#include "request/request.h"

enum { FIRST_COMPARED = 16 };

enum part { UNCOMPARED, OWN, HOST };

struct tug_twin {
    MPI_Request host;
    bool (*advance)(struct tug_job *job, bool *done); /* the request's own */
    uint64_t starts;
    uint64_t begin_ns, own_ns;
    enum part part; /* of the run under way */
};

struct tug_twin_sums tug_twin_sums;
bool tug_twin_on;

bool tug_twin_keep(struct tug_request *request, MPI_Request host) {
    if (!tug_twin_on)
        return false;
    struct tug_twin *twin = calloc(1, sizeof(*twin));
    if (twin == NULL)
        return false;
    twin->host = host;
    twin->advance = request->job.advance;
    request->twin = twin;
    return true;
}

/* The run after next is a power of two: own; the next is: host. */
static enum part part_of(uint64_t run) {
    if (run + 1 >= FIRST_COMPARED && ((run + 1) & run) == 0)
        return OWN;
    return run >= FIRST_COMPARED && (run & (run - 1)) == 0 ? HOST : UNCOMPARED;
}

static bool advance_host(struct tug_job *job, bool *done) {
    struct tug_request *request = (struct tug_request *)job;
    int flag = 0;
    int error = tug_host.Test(&request->twin->host, &flag, MPI_STATUS_IGNORE);
    if (error != MPI_SUCCESS)
        request->error = error;
    *done = flag != 0 || error != MPI_SUCCESS;
    return *done;
}

void tug_twin_start(struct tug_request *request) {
    struct tug_twin *twin = request->twin;
    twin->part = twin->host == MPI_REQUEST_NULL ? UNCOMPARED : part_of(++twin->starts);
    twin->begin_ns = tug_clock_ns();
    if (twin->part == HOST) {
        request->job.advance = advance_host;
        request->job.bell = NULL;                     /* the host rings none: it is polled */
        request->error = tug_host.Start(&twin->host); /* failed: Test says at once it is over */
        return;
    }
    request->job.advance = twin->advance;
    request->start(request);
}

void tug_twin_complete(struct tug_request *request) {
    struct tug_twin *twin = request->twin;
    uint64_t ns = tug_clock_ns() - twin->begin_ns;
    if (twin->part != HOST)
        atomic_fetch_add_explicit(&tug_twin_sums.run_ns, ns, memory_order_relaxed);
    if (twin->part == OWN)
        twin->own_ns = ns;
    if (twin->part != HOST)
        return;
    atomic_fetch_add_explicit(&tug_twin_sums.runs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&tug_twin_sums.own_ns, twin->own_ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&tug_twin_sums.host_ns, ns, memory_order_relaxed);
}

bool tug_twin_is_host(const struct tug_request *request) {
    return request->twin != NULL && request->twin->part == HOST;
}

void tug_twin_called(uint64_t begin_ns) {
    atomic_fetch_add_explicit(&tug_twin_sums.call_ns, tug_clock_ns() - begin_ns,
                              memory_order_relaxed);
}

void tug_twin_free(struct tug_request *request) {
    if (request->twin == NULL)
        return;
    if (request->twin->host != MPI_REQUEST_NULL)
        tug_team_request_free(&request->twin->host);
    free(request->twin);
    request->twin = NULL;
}
